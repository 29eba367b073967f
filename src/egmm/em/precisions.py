r"""Precision matrices of the 14 models as free coordinates, for quasi-Newton steps.

One matrix per cluster, or one for all of them. Every kind of coordinates maps to precisions, carries a gradient with
respect to precisions back, and knows its complete-data information when `counts` rows speak for each matrix:

- `LogPrecisions`, for the diagonal models: :math:`\log p_{kd} = c_k + b_{kd} - \operatorname{mean}_d b_{kd}`;
- `Triangular`, for EEE, VEE, EVV and VVV: :math:`P_k = e^{c_k} R_k^{-\top} B_k B_k^\top R_k^{-1}` about reference
  covariances :math:`R_k R_k^\top`, B upper triangular with logarithms on its diagonal;
- `Turned`, for EVE, VVE, EEV and VEV: :math:`P_k = D_k \operatorname{diag}(p_k) D_k^\top` with Cayley's map
  :math:`D_k = D_{0k} (I - K_k / 2)^{-1} (I + K_k / 2)` of a skew K about reference axes.

What clusters share is one block, whose gradients and informations add. Directions that change nothing (a shape times
a volume) stay in: their gradient is zero.
"""

from typing import Protocol

import numpy as np
from scipy.optimize import linear_sum_assignment

from egmm._checks import FloatArray
from egmm.em.celeux_govaert import common_axes
from egmm.em.covariance import is_diagonal

TIED = 0.1
"""Two axes whose variances' square roots differ by less than this share are as hard to turn as at it: less information
would make steps of ill-determined angles."""


class PrecisionCoordinates(Protocol):
    """One kind of coordinates of precision matrices."""

    def entries(self, covariances: FloatArray) -> FloatArray:
        """Coordinates of covariances (m, D, D)."""
        ...

    def covariances(self, entries: FloatArray) -> FloatArray:
        """Covariances (m, D, D) at the coordinates."""
        ...

    def gradient(self, entries: FloatArray, slopes: FloatArray) -> FloatArray:
        """Carry back a gradient with respect to precisions: (m, D, D), or (m, D) of a diagonal model."""
        ...

    def information(self, entries: FloatArray, counts: FloatArray) -> FloatArray:
        """Complete-data information of each coordinate, taken as independent."""
        ...


def precision_coordinates(covariance: str, reference: FloatArray) -> PrecisionCoordinates:
    """Coordinates of a model about reference covariances (m, D, D) that belong to it."""
    if is_diagonal(covariance):
        return LogPrecisions(covariance, *reference.shape[:2])
    if covariance in ("EEE", "VEE", "EVV", "VVV"):
        return Triangular(covariance, reference)
    return Turned(covariance, reference)


class LogPrecisions:
    """Logarithms of precisions along fixed axes, a volume and a shape each."""

    def __init__(self, covariance: str, n_matrices: int, dim: int) -> None:
        own = {"I": 0, "E": 1, "V": n_matrices}
        self._matrices, self._dim = n_matrices, dim
        self._volumes, self._shapes = own[covariance[0]], own[covariance[1]]

    def entries(self, covariances: FloatArray) -> FloatArray:
        """Volumes and shapes of covariances (m, D, D)."""
        return self.from_logs(-np.log(np.diagonal(covariances, axis1=1, axis2=2)))

    def covariances(self, entries: FloatArray) -> FloatArray:
        """Diagonal covariances (m, D, D)."""
        return np.asarray(np.exp(-self.logs(entries))[:, :, None] * np.eye(self._dim))

    def gradient(self, entries: FloatArray, slopes: FloatArray) -> FloatArray:
        """Carry back a gradient with respect to the precisions, (m, D)."""
        return self.log_gradient(np.exp(self.logs(entries)) * slopes)

    def information(self, entries: FloatArray, counts: FloatArray) -> FloatArray:  # noqa: ARG002
        """D/2 rows' worth per volume, 1/2 per entry of a shape."""
        volumes = _gathered(0.5 * self._dim * counts, self._volumes)
        return np.concatenate([volumes, np.repeat(_gathered(0.5 * counts, self._shapes), self._dim)])

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self._volumes + self._shapes * self._dim

    def from_logs(self, logs: FloatArray) -> FloatArray:
        """Coordinates of log precisions (m, D)."""
        volumes = logs.mean(axis=1, keepdims=True)
        shapes = logs - volumes
        if self._volumes < self._matrices:
            volumes = volumes.mean(axis=0)
        if self._shapes < self._matrices:
            shapes = shapes.mean(axis=0, keepdims=True)[: self._shapes]
        return np.concatenate([volumes.ravel(), shapes.ravel()])

    def logs(self, entries: FloatArray) -> FloatArray:
        """Log precisions (m, D)."""
        logs = np.empty((self._matrices, self._dim))
        logs[:] = entries[: self._volumes, None]
        if self._shapes:
            logs += centred(entries[self._volumes :].reshape(self._shapes, self._dim))
        return logs

    def log_gradient(self, slopes: FloatArray) -> FloatArray:
        """Carry back a gradient with respect to the log precisions (m, D)."""
        volumes, shapes = slopes.sum(axis=1), centred(slopes)
        return np.concatenate([_gathered(volumes, self._volumes), _gathered(shapes, self._shapes).ravel()])


class Triangular:
    """Triangular factors about the reference, with volumes apart where only one of the two is shared."""

    def __init__(self, covariance: str, reference: FloatArray) -> None:
        matrices, dim = reference.shape[:2]
        self._roots: FloatArray = np.asarray(np.linalg.cholesky(reference))
        self._unroots: FloatArray = np.asarray(np.linalg.inv(self._roots))
        self._factors = 1 if covariance.endswith("EE") else matrices
        self._volumes = {"EEE": 0, "VVV": 0, "EVV": 1, "VEE": matrices}[covariance]
        self._upper = np.triu_indices(dim)
        self._on_diagonal = self._upper[0] == self._upper[1]
        self._dim = dim

    def entries(self, covariances: FloatArray) -> FloatArray:
        """Volumes and factors of covariances (m, D, D)."""
        coloured = self._unroots @ np.linalg.cholesky(covariances)
        factors = _t(np.linalg.inv(coloured))
        table = factors[:, *self._upper]
        logs = np.log(table[:, self._on_diagonal])
        if not self._volumes:
            table[:, self._on_diagonal] = logs
            return table.ravel()
        volumes = logs.mean(axis=1)
        table = table * np.exp(-volumes)[:, None]
        table[:, self._on_diagonal] = centred(logs)
        # What should be equal is, up to rounding.
        volumes = volumes.mean(keepdims=True) if self._volumes == 1 else volumes
        return np.concatenate([2 * volumes, table[: self._factors].ravel()])

    def covariances(self, entries: FloatArray) -> FloatArray:
        """Covariances (m, D, D)."""
        factors, scales = self._parts(entries)
        inverse = self._roots @ _t(np.asarray(np.linalg.inv(factors)))
        return np.asarray(inverse @ _t(inverse) / scales)

    def gradient(self, entries: FloatArray, slopes: FloatArray) -> FloatArray:
        """Carry back a gradient with respect to the precisions, (m, D, D)."""
        factors, scales = self._parts(entries)
        # <G, dP> with dP = R^-T (dB B' + B dB') R^-1
        pulls = 2 * scales * ((self._unroots @ slopes @ _t(self._unroots)) @ factors)
        changes = _gathered(pulls, self._factors)[:, *self._upper]
        changes[:, self._on_diagonal] *= np.diagonal(factors, axis1=1, axis2=2)
        if not self._volumes:
            return np.asarray(changes).ravel()
        changes[:, self._on_diagonal] = centred(changes[:, self._on_diagonal])
        volumes = _gathered(0.5 * (pulls * factors).sum(axis=(1, 2)), self._volumes)
        return np.concatenate([volumes, changes.ravel()])

    def information(self, entries: FloatArray, counts: FloatArray) -> FloatArray:  # noqa: ARG002
        """D/2 rows' worth per volume, one per entry of a factor and two per logarithm on its diagonal."""
        table = _gathered(counts, self._factors)[:, None] * np.where(self._on_diagonal, 2.0, 1.0)
        return np.concatenate([_gathered(0.5 * self._dim * counts, self._volumes), table.ravel()])

    def _parts(self, entries: FloatArray) -> tuple[FloatArray, FloatArray | float]:
        """Factors B (1 or m, D, D), and the volumes' factors e^c (1 or m, 1, 1)."""
        table = entries[self._volumes :].reshape(self._factors, -1)
        logs = table[:, self._on_diagonal]
        factors = np.zeros((self._factors, self._dim, self._dim))
        factors[:, *self._upper] = table
        diagonal = np.arange(self._dim)
        factors[:, diagonal, diagonal] = np.exp(centred(logs) if self._volumes else logs)
        return factors, np.exp(entries[: self._volumes])[:, None, None] if self._volumes else 1.0


class Turned:
    """Log precisions along axes that turn: common axes and own shapes, or own axes and a common shape."""

    def __init__(self, covariance: str, reference: FloatArray) -> None:
        matrices, dim = reference.shape[:2]
        self._common = covariance.endswith("E")
        self._axes = common_axes(reference)[None] if self._common else np.asarray(np.linalg.eigh(reference)[1])
        self._spectra = LogPrecisions(covariance, matrices, dim)
        self._upper = np.triu_indices(dim, 1)
        self._eye = np.eye(dim)

    def entries(self, covariances: FloatArray) -> FloatArray:
        """Volumes, shapes and turns of covariances (m, D, D)."""
        axes = common_axes(covariances)[None] if self._common else np.asarray(np.linalg.eigh(covariances)[1])
        turns = _t(self._axes) @ axes
        if self._common:
            # Eigenvectors come in the order of their values, which changes along the way.
            order = linear_sum_assignment(-(turns[0] ** 2))[1]
            turns, axes = turns[:, :, order], axes[:, :, order]
        turns = _proper(turns)
        skew = 2 * np.linalg.solve(_t(turns + self._eye), _t(turns - self._eye))
        variances = np.diagonal(_t(axes) @ covariances @ axes, axis1=1, axis2=2)
        return np.concatenate([self._spectra.from_logs(-np.log(variances)), -skew[:, *self._upper].ravel()])

    def covariances(self, entries: FloatArray) -> FloatArray:
        """Covariances (m, D, D)."""
        axes, _ = self._turned(entries)
        return np.asarray((axes * np.exp(-self._logs(entries))[:, None, :]) @ _t(axes))

    def gradient(self, entries: FloatArray, slopes: FloatArray) -> FloatArray:
        """Carry back a gradient with respect to the precisions, (m, D, D)."""
        axes, middle = self._turned(entries)
        precisions = np.exp(self._logs(entries))
        along = _t(axes) @ slopes @ axes
        # A turn D(I + W) changes P by D (W p - p W) D', and W = A' dK A with A = (I - K/2)^-1.
        pulls = _gathered(along * (precisions[:, None, :] - precisions[:, :, None]), len(axes))
        turns = 2 * (middle @ pulls @ _t(middle))[:, *self._upper]
        own = self._spectra.log_gradient(precisions * np.diagonal(along, axis1=1, axis2=2))
        return np.concatenate([own, turns.ravel()])

    def information(self, entries: FloatArray, counts: FloatArray) -> FloatArray:
        """As `LogPrecisions`, and squared differences of precisions, relative to both, per turn."""
        roots = np.exp(0.5 * self._logs(entries))
        ratios = roots[:, :, None] / roots[:, None, :]
        leverage = np.maximum((ratios - _t(ratios)) ** 2, TIED**2)[:, *self._upper]
        turns = _gathered(counts[:, None] * leverage, len(self._axes))
        return np.concatenate([self._spectra.information(entries, counts), turns.ravel()])

    def _logs(self, entries: FloatArray) -> FloatArray:
        return self._spectra.logs(entries[: self._spectra.size])

    def _turned(self, entries: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Axes (1 or m, D, D), and (I - K/2)^-1."""
        skew = np.zeros(self._axes.shape)
        skew[:, *self._upper] = 0.5 * entries[self._spectra.size :].reshape(len(skew), -1)
        skew = skew - _t(skew)
        middle = np.asarray(np.linalg.inv(self._eye - skew))
        return self._axes @ middle @ (self._eye + skew), middle


def _proper(turns: FloatArray) -> FloatArray:
    """Rotations (m, D, D) nearest to none among those that differ by the axes' signs."""
    signs = np.where(np.diagonal(turns, axis1=1, axis2=2) < 0, -1.0, 1.0)
    turns = turns * signs[:, None, :]
    mirrored = np.flatnonzero(np.linalg.det(turns) < 0)
    flipped = np.diagonal(turns, axis1=1, axis2=2).argmin(axis=1)[mirrored]
    turns[mirrored, :, flipped] *= -1
    return turns


def centred(rows: FloatArray) -> FloatArray:
    """Rows minus their means."""
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def _gathered(values: FloatArray, n_blocks: int) -> FloatArray:
    """Values per cluster, summed where one block serves all of them; none where there is no block."""
    if n_blocks == len(values):
        return values
    return values.sum(axis=0, keepdims=True)[:n_blocks]


def _t(matrices: FloatArray) -> FloatArray:
    return np.swapaxes(matrices, -1, -2)
