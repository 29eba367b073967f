"""A small network from features to masses: ReLU layers, a softmax over sets, and a novelty unit."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import expit, softmax

from egmm._checks import FloatArray

NOVELTY_START = (0.0, -1.0)
"""Initial coefficients of novelty: the lower the decision value, the more mass goes to the empty set."""


class Network(NamedTuple):
    """Weights of the layers, each with the bias row first, and the two coefficients of novelty."""

    layers: tuple[FloatArray, ...]
    novelty: FloatArray
    """(2,), or (0,) without novelty."""

    @classmethod
    def drawn(cls, sizes: list[int], random: np.random.RandomState, *, has_novelty: bool) -> "Network":
        """Draw uniform weights within one over the square root of the number of inputs."""
        layers = tuple(
            random.uniform(-1, 1, size=(n_in + 1, n_out)) / np.sqrt(n_in + 1) for n_in, n_out in pairwise(sizes)
        )
        return cls(layers, np.array(NOVELTY_START if has_novelty else ()))

    def flat(self) -> FloatArray:
        """All parameters in one vector."""
        return np.concatenate([*(layer.ravel() for layer in self.layers), self.novelty])

    def with_parameters(self, flat: FloatArray) -> "Network":
        """Return the network with the parameters of a vector."""
        ends = np.cumsum([layer.size for layer in self.layers])
        parts = np.split(flat, ends)
        layers = tuple(part.reshape(layer.shape) for part, layer in zip(parts[:-1], self.layers, strict=True))
        return Network(layers, parts[-1])

    def forward(self, X: FloatArray, decision: FloatArray | None) -> "Activations":
        """Masses of rows (n, D), with the decision values (n,) of novelty."""
        inputs = [X]
        for layer in self.layers[:-1]:
            inputs.append(np.maximum(inputs[-1] @ layer[1:] + layer[0], 0))
        last = self.layers[-1]
        precise = softmax(inputs[-1] @ last[1:] + last[0], axis=1)
        if decision is None:
            return Activations(inputs, precise, np.empty(0), precise)
        novelty = novelty_of(self.novelty, decision)
        mass = precise * (1 - novelty)[:, None]
        mass[:, 0] += novelty
        return Activations(inputs, precise, novelty, mass)

    def backward(self, found: "Activations", slope: FloatArray, decision: FloatArray | None) -> "Network":
        """Gradient by all parameters, from that by the masses (n, f)."""
        by_novelty = np.empty(0)
        if decision is not None:
            by_share = slope[:, 0] - np.einsum("nf,nf->n", slope, found.precise)
            by_novelty = novelty_slope(self.novelty, decision) @ by_share
            slope = slope * (1 - found.novelty)[:, None]
        by_score = found.precise * (slope - np.einsum("nf,nf->n", slope, found.precise)[:, None])
        gradients = []
        for layer, inputs in zip(self.layers[::-1], found.inputs[::-1], strict=True):
            gradients.append(np.vstack([by_score.sum(axis=0), inputs.T @ by_score]))
            by_score = (by_score @ layer[1:].T) * (inputs > 0)
        return Network(tuple(gradients[::-1]), by_novelty)


class Activations(NamedTuple):
    """Activations kept for the backward pass."""

    inputs: list[FloatArray]
    """Inputs of each layer, (n, n_in)."""
    precise: FloatArray
    """(n, f) masses before novelty."""
    novelty: FloatArray
    """(n,) fraction of the mass that goes to the empty set."""
    mass: FloatArray
    """(n, f) masses, the empty set first."""


def novelty_of(coefficients: FloatArray, decision: FloatArray) -> FloatArray:
    r"""Mass :math:`\eta / (1 + \eta)` of the empty set, with :math:`\eta = \ln(1 + e^{b_0 + b_1 g})`."""
    eta = np.logaddexp(0, coefficients[0] + coefficients[1] * decision)
    return eta / (1 + eta)


def novelty_slope(coefficients: FloatArray, decision: FloatArray) -> FloatArray:
    """Derivatives (2, n) of novelty by its coefficients."""
    score = coefficients[0] + coefficients[1] * decision
    slope = expit(score) / np.square(1 + np.logaddexp(0, score))
    return np.stack([slope, slope * decision])
