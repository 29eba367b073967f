r"""Rows with missing cells: expectations under a mixture (Ghahramani and Jordan 1994; Little and Rubin 2002).

A cell that is NaN is missing at random. The density of an incomplete row is the marginal one of its observed cells o.
Given these, focal set j expects of the missing cells u

.. math:: \hat x_u = \nu_{j,u} + K_j (x_o - \nu_{j,o}), \qquad K_j = \Sigma_{j,uo} \Sigma_{j,oo}^{-1},

with covariance :math:`\Sigma_{j,uu} - K_j \Sigma_{j,ou}`. The statistics of an incomplete row are those of the
completed row plus that covariance; they follow from the sums over the observed cells, so that rows with the same cells
missing are passed over together, as complete rows of fewer features. The marginal of a shared covariance is again a
shared covariance, so these passes need one density per cluster, otherwise one per focal set. Diagonal covariances make
cells independent: all incomplete rows are passed over together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray
from egmm.em import estep, kernel
from egmm.em.factors import dense
from egmm.em.layout import Layout
from egmm.em.mstep import overlap_matrices
from egmm.em.parameters import LOG_2PI, Components, Evaluated, Focal, Parameters, components, is_empty
from egmm.em.patterns import Piece, groups_of, pieces_of, rows_at
from egmm.em.statistics import Statistics, Units, monomials, products


class Marginal(NamedTuple):
    """Marginals of a batch of mixtures on the observed features, and regressions of the missing features on them."""

    model: Components
    shares: FloatArray
    """Shares of the marginal mixture: W, or an identity if each focal set is a component."""
    units: Units
    kind: str
    observed: IntArray
    missing: IntArray
    slopes: FloatArray
    """(B, K, u, o) K: regression of the missing features on the observed ones."""
    intercepts: FloatArray
    """(B, ., u) expectation of the missing features if the observed ones are zero."""
    rest: FloatArray
    """(B, K, u, u) covariances of the missing features given the observed ones."""

    @classmethod
    def of(cls, mixtures: "Mixtures", is_missing: BoolArray) -> "Marginal":
        """The marginal mixtures where some features are missing."""
        observed, missing = np.flatnonzero(~is_missing), np.flatnonzero(is_missing)
        units = mixtures.units
        within = mixtures.covariances
        own = Parameters(mixtures.weights, mixtures.means[..., observed], within[..., observed[:, None], observed])
        log_noise = mixtures.log_noise[observed].sum() if mixtures.log_noise is not None else 0.0
        model = components(own, mixtures.shares, mixtures.kind, log_noise).components
        precisions = model.factors @ np.swapaxes(model.factors, -1, -2)
        across = within[..., missing[:, None], observed]
        slopes = across @ precisions
        intercepts = mixtures.means[..., missing] - (slopes @ own.means[..., None])[..., 0]
        rest = within[..., missing[:, None], missing] - slopes @ np.swapaxes(across, -1, -2)
        part = Units(units.centre[observed], units.scale[observed])
        return cls(model, mixtures.shares, part, mixtures.kind, observed, missing, slopes, intercepts, rest)

    def sums(
        self, X: FloatArray, weight: FloatArray | None, log_evidence: FloatArray | None, engine: str
    ) -> Statistics:
        """Statistics of rows, (n, o), as complete rows of fewer features."""
        if engine == "numba" and log_evidence is None:
            return kernel.e_step(X, weight, self.model, self.shares, self.units)
        z = monomials(self.units.rows(X), self.kind)
        return estep.e_step(z, weight, self.model, self.shares, log_evidence)


class Mixtures(NamedTuple):
    """A batch of mixtures whose components' marginals are known."""

    weights: FloatArray
    """(B, M)."""
    means: FloatArray
    """(B, ., D) of the clusters where they share a covariance, else of the focal sets."""
    covariances: FloatArray
    """(B, K, D, D) or (B, K, D)."""
    shares: FloatArray
    """W where clusters share a covariance, else an identity; the empty set has a row of zeros."""
    units: Units
    kind: str
    """Kind of the monomials of observed cells."""
    log_noise: FloatArray | None = None
    """(D,) log-densities of noise, in units, where the empty set is a focal set."""

    @classmethod
    def of(cls, params: Parameters, focal: Focal | None, layout: Layout, units: Units) -> "Mixtures":
        """Read parameters; `focal` are the focal sets' Gaussians if covariances are not shared."""
        log_noise = None if layout.noise is None else layout.noise.log_densities + np.log(units.scale)
        if focal is None:
            kind = "linear" if layout.kind == "linear" else "full"
            within = params.covariances if layout.diagonal else dense(params.covariances)
            return cls(params.weights, params.means, within, layout.shares, units, kind, log_noise)
        identity = np.diag((~is_empty(layout.shares)).astype(np.float64))
        return cls(params.weights, focal.means, focal.covariances, identity, units, "full", log_noise)

    @property
    def set_means(self) -> FloatArray:
        """(B, M, D)."""
        return self.shares @ self.means


@dataclass(frozen=True)
class Incomplete:
    """The passes over incomplete rows under a batch of mixtures."""

    mixtures: Mixtures
    layout: Layout
    engine: str
    _marginals: dict[bytes, Marginal] = field(default_factory=dict)

    @classmethod
    def of(
        cls, params: Parameters, evaluated: Evaluated, layout: Layout, units: Units, engine: str = "numpy"
    ) -> "Incomplete":
        """Read the parameters of a batch."""
        return cls(Mixtures.of(params, evaluated.focal, layout, units), layout, engine)

    def take(self, which: IntArray) -> "Incomplete":
        """The passes under some of the mixtures."""
        mixtures = self.mixtures
        parts = (mixtures.weights[which], mixtures.means[which], mixtures.covariances[which])
        return Incomplete(
            mixtures._replace(weights=parts[0], means=parts[1], covariances=parts[2]), self.layout, self.engine
        )

    def marginal(self, is_missing: BoolArray) -> Marginal:
        """The mixtures' marginals where some features are missing, made once."""
        key = is_missing.tobytes()
        if key not in self._marginals:
            self._marginals[key] = Marginal.of(self.mixtures, is_missing)
        return self._marginals[key]

    def statistics(
        self,
        X: FloatArray,
        weight: FloatArray | None,
        log_evidence: FloatArray | None,
        of_complete: Callable[..., Statistics],
    ) -> Statistics:
        """Statistics of rows; `of_complete` has those of complete ones. Rows without any cell do not count."""
        if not self.layout.diagonal:
            parts = [
                self.of_piece(piece, of_complete) for piece in pieces_of(X, weight, log_evidence, self.mixtures.units)
            ]
            return reduce(Statistics.plus, parts)
        is_missing = np.isnan(X)
        has_missing = is_missing.any(axis=1)
        total = self._plain(of_complete(*rows_at(np.flatnonzero(~has_missing), X, weight, log_evidence)))
        some = np.flatnonzero(has_missing & ~is_missing.all(axis=1))
        return total.plus(self._diagonal(*rows_at(some, X, weight, log_evidence))) if len(some) else total

    def of_piece(self, piece: Piece, of_complete: Callable[..., Statistics]) -> Statistics:
        """Statistics of rows with the same missing cells."""
        X, weight, log_evidence = piece.X, piece.weight, piece.log_evidence
        if piece.is_complete:
            return self._plain(of_complete(X, weight, log_evidence))
        marginal = self.marginal(piece.is_missing)
        found = marginal.sums(X, weight, log_evidence, self.engine)
        return self._pooled(marginal, found, piece) if self.layout.is_shared else self._of_sets(marginal, found)

    def _plain(self, found: Statistics) -> Statistics:
        """Statistics of complete rows in the form of those of all rows."""
        n_features = self.mixtures.means.shape[2]
        n_pooled = len(products(n_features, self.layout.second_kind)[0]) if self.layout.pools else 0
        return found._replace(pooled=np.zeros((len(found.set_counts), n_pooled)))

    def _pooled(self, marginal: Marginal, found: Statistics, piece: Piece) -> Statistics:
        """Expected statistics where clusters share a covariance: second moments of all clusters together."""
        n_fits, dim = len(found.set_counts), self.mixtures.means.shape[2]
        observed, missing = marginal.observed, marginal.missing
        slopes, rest, intercepts = marginal.slopes[:, 0], marginal.rest[:, 0], marginal.intercepts
        firsts, counts = found.sums[..., 1 : 1 + len(observed)], found.cluster_counts
        n_rows, n_all = counts.sum(axis=1), found.set_counts.sum(axis=1)
        if marginal.kind == "linear":
            scatter = np.broadcast_to(piece.scatter, (n_fits, *piece.scatter.shape))
            log_likelihood = estep.log_likelihood(found, marginal.model, n_rows, scatter)
        else:
            scatter = _matrices(found.sums[..., 1 + len(observed) :].sum(axis=1), len(observed))
            log_likelihood = found.log_likelihood
        overlap = overlap_matrices(found.set_counts, self.layout.shares)
        turned = np.swapaxes(slopes, -1, -2)
        expected = np.zeros((n_fits, counts.shape[1], dim))
        expected[..., observed] = firsts
        expected[..., missing] = firsts @ turned + overlap @ intercepts
        pulled = np.swapaxes(intercepts, -1, -2)
        across = slopes @ scatter + pulled @ firsts
        cross = slopes @ np.swapaxes(firsts, -1, -2) @ intercepts
        both = slopes @ scatter @ turned + cross + np.swapaxes(cross, -1, -2) + pulled @ overlap @ intercepts
        whole = np.empty((n_fits, dim, dim))
        whole[:, observed[:, None], observed] = scatter
        whole[:, missing[:, None], observed] = across
        whole[:, observed[:, None], missing] = np.swapaxes(across, -1, -2)
        whole[:, missing[:, None], missing] = both + n_rows[:, None, None] * rest
        first, second = products(dim, "full")
        n_products = len(products(dim, self.layout.kind)[0])
        sums = np.concatenate([counts[..., None], expected, np.zeros((*counts.shape, n_products))], axis=-1)
        return Statistics(
            found.set_counts, sums, whole[:, first, second], self._of_all_features(log_likelihood, n_all, missing)
        )

    def _of_sets(self, marginal: Marginal, found: Statistics) -> Statistics:
        """Expected statistics if covariances are not shared: every focal set has its own."""
        dim, observed, missing = self.mixtures.means.shape[2], marginal.observed, marginal.missing
        counts, firsts = found.set_counts, found.sums[..., 1 : 1 + len(observed)]
        scatters = _matrices(found.sums[..., 1 + len(observed) :], len(observed))
        slopes, intercepts = marginal.slopes, marginal.intercepts
        turned = np.swapaxes(slopes, -1, -2)
        predicted = (slopes @ firsts[..., None])[..., 0]
        expected = np.empty((*counts.shape, dim))
        expected[..., observed] = firsts
        expected[..., missing] = predicted + counts[..., None] * intercepts
        across = slopes @ scatters + intercepts[..., :, None] * firsts[..., None, :]
        cross = predicted[..., :, None] * intercepts[..., None, :]
        both = slopes @ scatters @ turned + cross + np.swapaxes(cross, -1, -2)
        spread = intercepts[..., :, None] * intercepts[..., None, :] + marginal.rest
        whole = np.empty((*counts.shape, dim, dim))
        whole[..., observed[:, None], observed] = scatters
        whole[..., missing[:, None], observed] = across
        whole[..., observed[:, None], missing] = np.swapaxes(across, -1, -2)
        whole[..., missing[:, None], missing] = both + counts[..., None, None] * spread
        first, second = products(dim, "full")
        of_sets = np.concatenate([counts[..., None], expected, whole[..., first, second]], axis=-1)
        log_likelihood = self._of_all_features(found.log_likelihood, counts.sum(axis=1), missing)
        return Statistics(counts, self.layout.shares.T @ of_sets, found.pooled, log_likelihood)

    def _diagonal(self, X: FloatArray, weight: FloatArray | None, log_evidence: FloatArray | None) -> Statistics:
        """Expected statistics where features are independent within focal sets, whatever cells are missing."""
        cells = Cells.of(self.mixtures, X)
        joint = estep.joint_of(cells.scores(self.mixtures.weights), log_evidence)
        rows_weight = np.ones(len(X)) if weight is None else weight
        log_likelihood = joint.log_density @ rows_weight
        log_likelihood = log_likelihood + rows_weight @ (np.isnan(X) @ np.log(self.mixtures.units.scale))
        mass = joint.mass * (rows_weight / joint.total)
        counts = mass.sum(axis=-1).T
        known, firsts, seconds = np.split(np.swapaxes(mass @ cells.z, 0, 1), 3, axis=-1)
        unknown = counts[..., None] - known
        firsts = firsts + unknown * cells.means
        seconds = seconds + unknown * (cells.means**2 + cells.variances)
        parts = [counts[..., None], firsts]
        pooled = np.zeros((len(counts), 0))
        if self.layout.pools:
            has_members = self.layout.shares.any(axis=1)
            pooled = seconds[:, has_members].sum(axis=1)
        else:
            parts.append(seconds)
        n_products = len(products(X.shape[1], self.layout.kind)[0])
        sums = self.layout.shares.T @ np.concatenate(parts, axis=-1)
        sums = np.pad(sums, [(0, 0), (0, 0), (0, 1 + X.shape[1] + n_products - sums.shape[2])])
        return Statistics(counts, sums, pooled, log_likelihood)

    def log_scores(self, X: FloatArray, of_complete: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """log pi_j N_j(x) of rows, (B, n, M), up to a constant per complete row."""
        found = np.empty((len(self.mixtures.weights), len(X), len(self.layout.shares)))
        for group in groups_of(np.isnan(X)):
            rows = X[group.rows]
            found[:, group.rows] = of_complete(rows) if group.is_complete else self._log_scores(rows, group.is_missing)
        return found

    def _log_scores(self, X: FloatArray, is_missing: BoolArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.mixtures.weights)
        if is_missing.all():
            return np.repeat(log_weights[:, None], len(X), axis=1)
        missing = np.flatnonzero(is_missing)
        if self.layout.diagonal:
            scores = np.transpose(Cells.of(self.mixtures, X).scores(self.mixtures.weights), (1, 2, 0))
        else:
            marginal = self.marginal(is_missing)
            z = monomials(marginal.units.rows(X[:, marginal.observed]), marginal.kind)
            scores = np.transpose(estep.log_scores(z, marginal.model, marginal.shares), (1, 2, 0))
            scores = scores + estep.log_reference(z, marginal.model)[..., None]
        return self._of_all_features(scores, np.ones(1), missing)

    # What the mixture, a batch of one, says of rows with the same missing cells --------------------------------

    def masses(self, X: FloatArray, is_missing: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Masses (n, M), and log-densities (n,) of the observed cells in units."""
        with np.errstate(all="ignore"):
            joint = estep.joint_of(np.transpose(self._log_scores(X, is_missing), (2, 0, 1)))
            mass, log_density = (joint.mass / joint.total)[:, 0].T, joint.log_density[0]
        return mass, log_density - np.log(self.mixtures.units.scale[is_missing]).sum() * (not is_missing.all())

    def expected(self, X: FloatArray, is_missing: BoolArray) -> FloatArray:
        """Expected missing cells (n, u) in units."""
        mass = self._on_clusters(self.masses(X, is_missing)[0])
        intercepts, slopes, _ = self._given_observed(is_missing)
        found = mass @ intercepts
        if slopes.size:
            rows = self.mixtures.units.rows(X)[:, ~is_missing]
            slopes = np.broadcast_to(slopes, (len(intercepts), *slopes.shape[1:]))
            found = found + np.einsum("nj,juo,no->nu", mass, slopes, rows, optimize=True)
        return np.asarray(found)

    def draw(self, X: FloatArray, is_missing: BoolArray, n_copies: int, random: np.random.RandomState) -> FloatArray:
        """Missing cells drawn from their distribution given the observed ones, (n_copies, n, u) in units."""
        mass = self._on_clusters(self.masses(X, is_missing)[0])
        intercepts, slopes, roots = self._given_observed(is_missing)
        n_focal = len(intercepts)
        slopes, roots = (np.broadcast_to(part, (n_focal, *part.shape[1:])) for part in (slopes, roots))
        rows = self.mixtures.units.rows(X)[:, ~is_missing]
        bounds = np.cumsum(mass, axis=1)
        sets = (random.random_sample((n_copies, len(X), 1)) * bounds[:, -1:] > bounds[:, :-1]).sum(axis=-1)
        noise = random.standard_normal((*sets.shape, intercepts.shape[1]))
        found = intercepts[sets] + np.einsum("cnuv,cnv->cnu", roots[sets], noise)
        return found + np.einsum("cnuo,no->cnu", slopes[sets], rows) if slopes.size else found

    def _on_clusters(self, mass: FloatArray) -> FloatArray:
        """Masses without noise, which has no expectation of a missing cell; the weights if all mass is noise."""
        if self.mixtures.log_noise is None:
            return mass
        members = ~is_empty(self.layout.shares)
        known = np.where(members, mass, 0.0)
        total = known.sum(axis=1, keepdims=True)
        weights = np.where(members, self.mixtures.weights[0], 0.0)
        return np.where(total > 0, known / np.where(total > 0, total, 1.0), weights / weights.sum())

    def _given_observed(self, is_missing: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Intercepts (M, u), slopes (K, u, o) and roots (K, u, u) of the residual covariances, for each focal set."""
        if self.layout.diagonal or is_missing.all():
            missing = np.flatnonzero(is_missing)
            within = self.mixtures.covariances[0]
            within = within[:, missing, None] * np.eye(len(missing)) if self.layout.diagonal else within
            return self.mixtures.set_means[0][:, missing], np.empty((1, 0, 0)), np.linalg.cholesky(within)
        marginal = self.marginal(is_missing)
        rest = marginal.rest[0]
        values, axes = np.linalg.eigh(rest)
        return (
            marginal.shares @ marginal.intercepts[0],
            marginal.slopes[0],
            axes * np.sqrt(np.maximum(values, 0.0))[:, None],
        )

    def _of_all_features(self, log_likelihood: FloatArray, n_rows: FloatArray, missing: IntArray) -> FloatArray:
        """Log-likelihoods relative to the units of all features."""
        return log_likelihood + n_rows * np.log(self.mixtures.units.scale[missing]).sum()


class Cells(NamedTuple):
    """Observed cells of rows, where features are independent within focal sets."""

    z: FloatArray
    """(n, 3 D): whether a cell is observed, its value and its square; zeros where it is not."""
    means: FloatArray
    """(B, M, D) of the focal sets."""
    variances: FloatArray
    """(B, M, D)."""
    is_noise: BoolArray
    """(M,)."""
    log_noise: FloatArray | None
    """(D,) log-densities of noise."""

    @classmethod
    def of(cls, mixtures: Mixtures, X: FloatArray) -> "Cells":
        """Read the cells of rows."""
        is_observed = ~np.isnan(X)
        rows = np.where(is_observed, mixtures.units.rows(X), 0.0)
        means = mixtures.set_means
        variances = np.broadcast_to(mixtures.covariances, means.shape)
        z = np.concatenate([is_observed, rows, rows**2], axis=1)
        return cls(z, means, variances, is_empty(mixtures.shares), mixtures.log_noise)

    def scores(self, weights: FloatArray) -> FloatArray:
        """log pi_j N_j of the observed cells, (M, B, n)."""
        means, variances = self.means, self.variances
        constants = -0.5 * (LOG_2PI + np.log(variances) + means**2 / variances)
        theta = np.concatenate([constants, means / variances, -0.5 / variances], axis=-1)
        if self.log_noise is not None:
            theta[:, self.is_noise] = np.concatenate([self.log_noise, np.zeros(2 * means.shape[2])])
        n_fits, n_focal = weights.shape
        scores = (np.swapaxes(theta, 0, 1).reshape(n_focal * n_fits, -1) @ self.z.T).reshape(n_focal, n_fits, -1)
        with np.errstate(divide="ignore"):
            scores += np.log(weights).T[:, :, None]
        return scores


def _matrices(seconds: FloatArray, dim: int) -> FloatArray:
    """Products of features (..., P) as symmetric matrices (..., D, D)."""
    first, second = products(dim, "full")
    matrices = np.empty((*seconds.shape[:-1], dim, dim))
    matrices[..., first, second] = matrices[..., second, first] = seconds
    return matrices
