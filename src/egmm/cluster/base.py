"""Base classes of the clusterers: validation, masses, decisions, the credal partition."""

import warnings
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from egmm._arrays import Place, follow, place_of, reads_rows, to_host
from egmm._checks import (
    BoolArray,
    FloatArray,
    IntArray,
    all_or_nothing,
    check_choice,
    check_finite_rows,
    check_integer,
    check_prototypes,
    check_random,
    check_real,
    check_sample_weight,
    check_spread,
    check_starts,
    reading_rows,
)
from egmm._documented import Documented
from egmm._frames import row_names
from egmm.belief.decisions import REWARD, SET_RULES, best_cluster, choose_sets, heaviest_set
from egmm.belief.focal import FocalSets
from egmm.belief.moebius import row_blocks
from egmm.belief.partition import CredalPartition
from egmm.belief.transforms import pignistic
from egmm.belief.uncertainty import average_nonspecificity, nonspecificity
from egmm.cluster.descent import Descent
from egmm.cluster.masses import Costs, Pricing, euclidean, optimal_masses
from egmm.cluster.prototypes import PrototypeModel, fit_prototypes, starting_means
from egmm.em.sample import SAMPLE_ROWS, Sample, draw_sample
from egmm.rows import FileRows
from egmm.rows.array import ArrayRows
from egmm.rows.threads import one_blas_thread


class EvidentialClusterer(Documented, ClusterMixin, BaseEstimator):
    """Base of all clusterers: validation of rows, fitted attributes of a descent, convergence warnings."""

    labels_: IntArray
    focal_sets_: FocalSets
    objective_: float
    objective_history_: FloatArray
    n_iter_: int
    converged_: bool
    ans_: float

    # Shared steps of fit -------------------------------------------------------------------------------------

    def _check_fit(self, X: Any) -> FloatArray:
        rows = self._validated(X, ensure_min_samples=2)
        check_spread(to_host(rows).var(axis=0), getattr(self, "feature_names_in_", None))
        return rows

    def _check_new(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return self._validated(X, reset=False)

    def _validated(self, X: Any, **options: Any) -> FloatArray:
        if isinstance(X, FileRows):
            name = type(self).__name__
            raise TypeError(f"X must be rows in memory for {name}, got a {X!r}; load them into an array, or use EGMM.")
        where = place_of(X)
        if where is not None:
            self._check_there(where)
        with reading_rows(X) as kinds:
            rows = validate_data(self, X, dtype=kinds[0], ensure_all_finite=False, **options)
        return check_finite_rows(rows, getattr(self, "feature_names_in_", None))

    def _check_there(self, where: Place) -> None:
        """Refuse arrays of other libraries that this clusterer cannot read where they are."""
        if not self.__sklearn_tags__().array_api_support:
            name, came = type(self).__name__, where.xp.__name__.rpartition(".")[2]
            raise TypeError(
                f"X must be an array of NumPy for {name}, got one of {came}; convert it, or use EGMM or ECM."
            )
        if not where.has_double:
            name = type(self).__name__
            raise TypeError(
                f"{name} needs float64, which the device of X ({where.device}) has not; convert X to NumPy."
            )

    def _check_stopping(self) -> tuple[float, int]:
        return check_real("tol", self.tol, 0), check_integer("max_iter", self.max_iter, 1)

    def _set_descent(self, descent: Descent[Any]) -> None:
        self.objective_history_ = np.array(descent.history)
        self.objective_ = descent.history[-1]
        self.n_iter_ = max(1, len(descent.history) - 1)
        self.converged_ = descent.converged

    def _warn_unless_converged(self) -> None:
        if not self.converged_:
            last = abs(self.objective_history_[-2] - self.objective_history_[-1])
            self._warn(
                f"did not converge in max_iter={self.max_iter} iterations: the objective still changed by {last:.3g} "
                f"(tol={self.tol:g}); raise max_iter or tol.",
                stacklevel=4,
            )

    def _warn(self, text: str, stacklevel: int = 3) -> None:
        """Issue a ConvergenceWarning at the line that called `fit`."""
        warnings.warn(f"{type(self).__name__} {text}", ConvergenceWarning, stacklevel=stacklevel)


class TransductiveClusterer(EvidentialClusterer):
    """A clusterer with masses only for the rows it was fitted to."""

    masses_: FloatArray
    _digest: str

    def partition(self, X: Any = None) -> CredalPartition:
        """Return the credal partition of the rows seen in `fit`.

        Parameters
        ----------
        X : array-like, default=None
            None, or the rows given to `fit`; other rows have no masses.

        Returns
        -------
        partition : CredalPartition
        """
        check_is_fitted(self)
        if X is not None and self._digest != digest_of(self._validated(X, reset=False)):
            raise ValueError(
                f"{type(self).__name__} has masses only for the rows it was fitted to; omit X, refit, or use "
                "a clusterer with predict_mass, such as NNEVCLUS or ECM."
            )
        mass = self.masses_.copy()
        mass.setflags(write=False)
        return CredalPartition(mass, self.focal_sets_)

    def _set_masses(self, X: FloatArray, mass: FloatArray, focal: FocalSets) -> None:
        """Set the masses of the rows X and the derived attributes."""
        self.focal_sets_, self.masses_, self._digest = focal, mass, digest_of(X)
        self.labels_ = best_cluster(mass, focal)
        self.ans_ = average_nonspecificity(mass, focal)


def digest_of(X: FloatArray) -> str:
    """Hash of the numbers in an array."""
    return blake2b(np.ascontiguousarray(X).data, digest_size=16).hexdigest()


class CredalClusterer(EvidentialClusterer):
    """A clusterer whose fitted prototypes give a mass function for any row."""

    means_: FloatArray
    _pricing: Pricing

    @reads_rows
    def predict(self, X: Any) -> IntArray:
        """Choose the cluster with the largest pignistic probability for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, seen in `fit` or not.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Clusters counted from zero.
        """
        return self._read(self._check_new(X), best_cluster)[0]

    @reads_rows
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the pignistic probability of each cluster for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, seen in `fit` or not.

        Returns
        -------
        probability : ndarray of shape (n_samples, n_clusters)
        """
        return self._read(self._check_new(X), pignistic)[0]

    @reads_rows
    def predict_mass(self, X: Any) -> FloatArray:
        """Return the mass of each focal set for each row, in the order of `focal_sets_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, seen in `fit` or not.

        Returns
        -------
        mass : ndarray of shape (n_samples, n_focal)
            Rows sum to one.
        """
        return self._read(self._check_new(X), lambda mass, _: np.ascontiguousarray(mass))[0]

    @reads_rows
    def predict_sets(self, X: Any, *, rule: str = "heaviest", reward: float = REWARD) -> IntArray | BoolArray:
        """Choose a set of clusters for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, seen in `fit` or not.
        rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
            How the set is chosen, as in :meth:`egmm.CredalPartition.sets`.
        reward : float, default=0.8
            Utility of a pair that contains the right cluster, for ``rule="utility"``.

        Returns
        -------
        sets : ndarray of int of shape (n_samples,), or of bool of shape (n_samples, n_clusters)
            Index of the heaviest set in `focal_sets_`; members of the set for the other rules, whose sets need not be
            focal sets.
        """
        is_heaviest = check_choice("rule", rule, SET_RULES) == "heaviest"
        reader = heaviest_set if is_heaviest else partial(choose_sets, rule=rule, reward=reward)
        return self._read(self._check_new(X), reader)[0]

    @reads_rows
    def partition(self, X: Any) -> CredalPartition:
        """Return the credal partition of the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, seen in `fit` or not.

        Returns
        -------
        partition : CredalPartition
        """
        mass = to_host(self.predict_mass(X))
        mass.setflags(write=False)
        return CredalPartition(mass, self.focal_sets_, index=row_names(X))

    # Hooks for subclasses ------------------------------------------------------------------------------------

    def _costs(self) -> Costs:
        """Return the cost function of rows for the fitted prototypes."""
        return euclidean(self.means_, self._pricing)

    def _masses(self) -> Callable[[FloatArray], FloatArray]:
        """Return the function from a block of rows to its masses."""
        costs = self._costs()
        return lambda X: optimal_masses(costs(X), self._pricing.beta).T

    def _set_rows(self, X: FloatArray, sample_weight: FloatArray | None) -> None:
        """Set the labels and the average normalised nonspecificity of the training rows."""
        self.labels_, bits = self._read(X, best_cluster, nonspecificity)
        # With one cluster the nonspecificity is 0 bits of 0.
        most_bits = float(np.log2(max(2, self.focal_sets_.n_clusters)))
        self.ans_ = float(np.average(bits / most_bits, weights=sample_weight))

    def _read(self, X: FloatArray, *readers: Callable[[FloatArray, FocalSets], Any]) -> list[Any]:
        """Apply a function to the masses of each block, without holding all masses."""
        masses = self._masses()
        parts = []
        with one_blas_thread():
            for block in row_blocks(X.shape[0], len(self.focal_sets_)):
                mass = to_host(masses(X[block, ...]))
                parts.append([read(mass, self.focal_sets_) for read in readers])
        return [np.concatenate(column) for column in zip(*parts, strict=True)]


class PrototypeClusterer(CredalClusterer):
    """A clusterer that minimises a cost over prototypes from one or several starts."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Find the prototypes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : None
            Not used, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights: a weight of 2 counts as two equal rows.

        Returns
        -------
        self : object
            The fitted clusterer.
        """
        with all_or_nothing(self):
            X = self._check_fit(X)
            where, weight = place_of(X), check_sample_weight(to_host(sample_weight), X.shape[0])
            self._fit_prototypes(to_host(X), weight, where)
            self._set_rows(X, weight)
            follow(self, where)
        self._warn_unless_converged()
        return self

    def _make_pricing(self, n_clusters: int) -> Pricing:
        raise NotImplementedError

    def _make_model(self) -> PrototypeModel:
        """Return the objective; `_pricing` and `n_features_in_` are set."""
        return PrototypeModel(self._pricing)

    def _fit_prototypes(self, X: FloatArray, sample_weight: FloatArray | None, where: Place | None = None) -> None:
        n_clusters = check_integer("n_clusters", self.n_clusters, 1)
        tol, max_iter = self._check_stopping()
        self._pricing = self._make_pricing(n_clusters)
        self.focal_sets_ = self._pricing.focal
        # Sorting and merging make the result independent of row order and of weight split over duplicates.
        with ArrayRows(X, sample_weight) as rows:
            sample = draw_sample(rows, seed=0, size=len(X))
        self._check_distinct(sample, n_clusters)
        starts = self._starts(sample, n_clusters)
        best = fit_prototypes(sample, starts, self._make_model(), tol=tol, max_iter=max_iter, where=where)
        self.means_ = best.state
        self._set_descent(best)

    @staticmethod
    def _check_distinct(sample: Sample, n_clusters: int) -> None:
        if n_clusters > len(sample.rows):
            raise ValueError(
                f"n_clusters={n_clusters} but X has only {len(sample.rows)} distinct rows with positive weight; "
                "use fewer clusters."
            )

    def _starts(self, sample: Sample, n_clusters: int) -> list[FloatArray]:
        n_init = check_starts(self.n_init)
        if not isinstance(self.init, str):
            return [check_prototypes(to_host(self.init), n_clusters, sample.rows.shape[1])]
        random = check_random(self.random_state)
        if len(sample.rows) > SAMPLE_ROWS:
            with ArrayRows(*sample) as rows:
                sample = draw_sample(rows, random.randint(2**31))
        return [starting_means(sample, n_clusters, self.init, random) for _ in range(n_init)]
