"""What a fitted mixture says: masses, partitions, criteria, outliers, samples, and keeping it in a file."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.stats import chi2
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from egmm._arrays import beside, place_of, reads_rows, to_host
from egmm._checks import (
    FloatArray,
    IntArray,
    check_choice,
    check_integer,
    check_random,
    check_real,
    check_sample_weight,
    check_weight,
    reading_rows,
)
from egmm._documented import Documented
from egmm._files import replacing
from egmm._frames import row_names
from egmm.belief.decisions import REWARD, SET_RULES, choose_sets
from egmm.belief.focal import FocalSets
from egmm.belief.partition import CredalPartition
from egmm.belief.storage import parquet_metadata
from egmm.em import assign
from egmm.em.covariance import SHARED, is_diagonal, resolve_covariance
from egmm.em.criteria import criteria_of
from egmm.em.fit import EXPECTED_PASSES, choose_engine, seconds_in_numpy
from egmm.em.kernel import is_compiled
from egmm.model_file import FITTED, FORMAT, STORED, read_document, read_fitted
from egmm.rows import RowSource, remote_rows
from egmm.rows.array import ArrayRows
from egmm.rows.device import DeviceRows
from egmm.rows.source import UnusableRowsError, bad_entry
from egmm.rows.threads import one_blas_thread

MODEL_PARAMETERS = ("n_clusters", "focal_sets", "covariance", "reg_covar", "prior", "certainty")
"""Parameters that a stream cannot change."""


class FittedMixture(Documented, TransformerMixin, BaseEstimator):
    """The half of `EGMM` that reads fitted parameters and never changes them."""

    # Fitted attributes, for type checkers.
    weights_: FloatArray
    means_: FloatArray
    focal_means_: FloatArray
    stored_covariances_: FloatArray
    """Covariances as the fit keeps them: diagonal models have variances alone."""
    stored_focal_covariances_: FloatArray
    focal_sets_: FocalSets
    labels_: IntArray
    log_likelihood_: float
    log_likelihood_history_: FloatArray
    entropy_: float
    ebic_: float
    n_parameters_: int
    n_iter_: int
    converged_: bool
    degenerate_: bool
    n_features_in_: int
    feature_names_in_: Any
    covariance_: str
    """Model of the fit, one of the 14 codes; the parameter may have been set anew."""
    _fitted_parameters: dict[str, str]
    """What `model_parameters` was at the fit."""

    # Parameters of the estimator that are read here.
    init: Any
    random_state: Any
    engine: str
    n_jobs: int | None

    @reads_rows
    def predict(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Cluster of largest pignistic probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows. The result for a Dask collection is lazy.
        out : path, default=None
            For a scan: Parquet file to write to; the path is returned.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return self._apply(X, assign.labels, "cluster", out)

    @reads_rows
    def predict_proba(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Pignistic probabilities, (n_samples, n_clusters); X and out as for `predict`."""
        check_is_fitted(self)
        return self._apply(X, assign.pignistics, cluster_names(self.focal_sets_.n_clusters), out)

    @reads_rows
    def predict_mass(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Masses on the focal sets, (n_samples, n_focal), columns as `focal_sets_`; X and out as for `predict`."""
        check_is_fitted(self)
        return self._apply(X, assign.masses, list(self.focal_sets_.labels), out, parquet_metadata(self.focal_sets_))

    @reads_rows
    def predict_sets(
        self, X: Any, out: str | PathLike[str] | None = None, *, rule: str = "heaviest", reward: float = REWARD
    ) -> Any:
        """Choose a set of clusters for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows. The result for a Dask collection is lazy.
        out : path, default=None
            For a scan: Parquet file to write to; the path is returned.
        rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
            How the set is chosen, as in :meth:`egmm.CredalPartition.sets`.
        reward : float, default=0.8
            Utility of a pair that contains the right cluster, for ``rule="utility"``.

        Returns
        -------
        sets : ndarray of int of shape (n_samples,), or of bool of shape (n_samples, n_clusters)
            Index into `focal_sets_` of the heaviest set; for the other rules, whose sets need not be focal sets, their
            members (1 and 0 in a file).
        """
        if check_choice("rule", rule, SET_RULES) == "heaviest":
            return self._apply(X, assign.heaviest, "set", out)
        check_is_fitted(self)
        chosen = partial(_members, focal_sets=self.focal_sets_, rule=rule, reward=reward)
        found = self._apply(X, chosen, cluster_names(self.focal_sets_.n_clusters), out)
        return found if out is not None else found > 0.5

    @reads_rows
    def partition(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Masses of rows as a `CredalPartition`; for a scan, as the file `out` that ``CredalPartition.load`` reads.

        A Dask collection's masses are brought into memory; `predict_mass` leaves them where they are.
        """
        if out is not None:
            return self.predict_mass(X, out)
        return CredalPartition(np.asarray(to_host(self.predict_mass(X))), self.focal_sets_, index=row_names(X))

    @reads_rows
    def transform(self, X: Any) -> Any:
        """Masses of rows as features for a next step, (n_samples, n_focal); ``set_output`` makes them a data frame.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows.

        Returns
        -------
        mass : ndarray of shape (n_samples, n_focal)
            As `predict_mass` gives them; columns are named by `get_feature_names_out`.
        """
        return self.predict_mass(X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Names of the columns that `transform` makes: the sets, such as ``{1}`` and ``{1,2}``.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Not used, present for API consistency.

        Returns
        -------
        names : ndarray of str, of shape (n_focal,)
        """
        check_is_fitted(self)
        return np.array(self.focal_sets_.labels, dtype=object)

    @reads_rows
    def score_samples(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Log-density of each row, (n_samples,); X and out as for `predict`."""
        return self._apply(X, assign.log_densities, "log_density", out)

    @reads_rows
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Mean log-density per unit weight."""
        total = self._totals(X, sample_weight)
        return total.log_likelihood / total.weight

    @reads_rows
    def criteria(self, X: Any, sample_weight: Any = None) -> dict[str, float]:
        """All four criteria by name, from one pass over the rows."""
        total = self._totals(X, sample_weight)
        ebic = total.log_likelihood - 0.5 * self.n_parameters_ * float(np.log(total.weight))
        return criteria_of(total.log_likelihood, ebic, total.entropy, self.n_parameters_)

    def ebic(self, X: Any, sample_weight: Any = None) -> float:
        """Evidential Bayesian information criterion on rows; **higher is better**."""
        return self.criteria(X, sample_weight)["ebic"]

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Bayesian information criterion in scikit-learn's sign, -2 EBIC; lower is better."""
        return self.criteria(X, sample_weight)["bic"]

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Akaike's information criterion; lower is better."""
        return self.criteria(X, sample_weight)["aic"]

    def icl(self, X: Any, sample_weight: Any = None) -> float:
        """Integrated completed likelihood, BIC plus twice the entropy of the masses; lower is better."""
        return self.criteria(X, sample_weight)["icl"]

    @reads_rows
    def outliers(self, X: Any, quantile: float = 0.999) -> Any:
        """Rows far from every component.

        EGMM has no empty set. A row is an outlier if its Mahalanobis distance to the nearest component exceeds this
        quantile of the chi-square distribution with n_features degrees of freedom.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows. The result for a Dask collection is lazy.
        quantile : float, default=0.999
            Share of a component's own rows that are no outliers.

        Returns
        -------
        is_outlier : ndarray of shape (n_samples,), bool
        """
        check_is_fitted(self)
        check_real("quantile", quantile, 0.0, 1.0)
        with open_rows(self, X) as rows, naming_entries(self, rows):
            factors = assign.whitening(self.stored_focal_covariances_, len(self.weights_), self.covariance_)
            function = partial(assign.squared_distances, means=self.focal_means_, factors=factors)
            return rows.apply(function, "distance") > chi2.ppf(quantile, self.n_features_in_)

    def sample(self, n_samples: int = 1) -> tuple[FloatArray, IntArray]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int, default=1

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        sets : ndarray of shape (n_samples,)
            Index into `focal_sets_` of the set each row was drawn from.
        """
        check_is_fitted(self)
        check_integer("n_samples", n_samples, 1)
        random = check_random(self.random_state)
        weights, means, within = map(to_host, (self.weights_, self.focal_means_, self.stored_focal_covariances_))
        sets = random.choice(len(weights), size=n_samples, p=weights / weights.sum())
        noise = random.standard_normal((n_samples, self.n_features_in_))
        diagonal, is_shared = is_diagonal(self.covariance_), self.covariance_ in SHARED
        roots = np.sqrt(within) if diagonal else np.linalg.cholesky(within)
        roots = roots if is_shared else roots[sets]
        spread = roots * noise if diagonal else (roots @ noise[..., None])[..., 0]
        return means[sets] + spread, sets

    @property
    def covariances_(self) -> FloatArray:
        """Covariances of the clusters: (n_features, n_features) if shared, else one for each cluster."""
        return self._expanded("stored_covariances_")

    @property
    def focal_covariances_(self) -> FloatArray:
        """Covariances of the focal sets' Gaussians, shaped as the clusters'."""
        return self._expanded("stored_focal_covariances_")

    def _expanded(self, name: str) -> FloatArray:
        if name not in self.__dict__:
            public = name.replace("compact_", "") + "_"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {public!r}: it is not fitted")
        within: FloatArray = self.__dict__[name]
        if not is_diagonal(self.covariance_):
            return within
        return within[..., None] * beside(within, np.eye(within.shape[-1]))

    # Keeping a fitted mixture ----------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted mixture to a readable JSON file, replaced as a whole or not at all.

        Parameters
        ----------
        path : str or path-like
            Where to write.
        """
        check_is_fitted(self)
        # A given start, a random stream and a checkpoint belong to the fit, not to the model it made. What describes
        # the model is taken from the fit: parameters may have been set since.
        init = self.init if isinstance(self.init, str) else "kmeans"
        seed = self.random_state if isinstance(self.random_state, Integral) else None
        parameters = {**self.get_params(deep=False), "init": init, "random_state": seed, "checkpoint": None}
        parameters |= {"n_clusters": self.focal_sets_.n_clusters, "covariance": self.covariance_}
        if not self._names_its_sets():
            del parameters["focal_sets"]
        fitted = {
            name: _plain(to_host(getattr(self, STORED.get(name, name)))) for name in FITTED if hasattr(self, name)
        }
        document = {
            "format": FORMAT,
            "parameters": {name: _plain(value) for name, value in parameters.items()},
            "focal_sets": [sorted(members) for members in self.focal_sets_],
            "fitted": fitted,
        }
        with replacing(Path(path)) as stream:
            stream.write(json.dumps(document, indent=1).encode())

    def _names_its_sets(self) -> bool:
        """Whether `focal_sets` is the name of the fitted family, so that a refit may have other clusters."""
        if not isinstance(self.focal_sets, str):
            return False
        if self.focal_sets == "neighbours":
            return True
        try:
            return FocalSets.of(self.focal_sets, self.focal_sets_.n_clusters) == self.focal_sets_
        except ValueError:  # Set since the fit, to no family of so many clusters.
            return False

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a fitted mixture that `save` wrote; nothing in the file is executed.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        model : EGMM
            Fitted; `labels_` is not kept. `partial_fit` goes on from it.
        """
        try:
            document = read_document(Path(path))
            parameters = document["parameters"]
            focal = FocalSets.from_sets(document["focal_sets"], parameters["n_clusters"])
            model = cls(**{"focal_sets": focal, **parameters})
            model._check_parameters()
            for name, value in read_fitted(document["fitted"], focal, parameters["covariance"]).items():
                setattr(model, STORED.get(name, name), value)
            model.covariance_ = resolve_covariance(parameters["covariance"], model.n_features_in_)
        except (AttributeError, KeyError, TypeError, UnicodeDecodeError, ValueError, OverflowError) as error:
            why = f"it has no entry {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"{path} holds no EGMM model: {why}") from error
        model.focal_sets_ = focal
        model._fitted_parameters = model_parameters(model)
        return model

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit could have."""

    def _apply(
        self,
        X: Any,
        function: Callable[..., Any],
        names: str | list[str],
        out: Any,
        metadata: dict[bytes, bytes] | None = None,
    ) -> Any:
        check_is_fitted(self)
        with open_rows(self, X) as rows, one_blas_thread():
            return assign_rows(self, rows, function, names, out, metadata)

    def _totals(self, X: Any, sample_weight: Any) -> assign.Totals:
        check_is_fitted(self)
        with open_rows(self, X, sample_weight) as rows, one_blas_thread(), naming_entries(self, rows):
            total: assign.Totals = rows.reduce(_bound(self, assign.totals, rows))
        check_weight(total.weight)
        return total


def model_parameters(model: FittedMixture) -> dict[str, str]:
    """Parameters that say which model is fitted, in words that do not change with a list that is changed."""
    return {name: repr(getattr(model, name)) for name in MODEL_PARAMETERS}


# Rows --------------------------------------------------------------------------------------------------------


def open_rows(model: FittedMixture, X: Any, sample_weight: Any = None, *, reset: bool = False) -> Any:
    """Rows of whatever was given, checked against (or, with `reset`, setting) the model's features."""
    least = 2 if reset else 1
    rows = remote_rows(X, sample_weight, model.n_jobs)
    if rows is not None:
        _check_features(model, rows.size[1], rows.feature_names, reset)
        if reset and rows.shape[0] < least:
            raise ValueError(f"X has {rows.shape[0]} row(s), but a fit needs at least {least}.")
        return rows
    where = place_of(X)
    if where is not None and model.engine == "numba":
        raise ValueError("engine='numba' reads NumPy arrays alone; leave engine at 'auto', or convert X.")
    with reading_rows(X) as kinds:
        X = validate_data(
            model,
            X,
            reset=reset,
            dtype=kinds,
            ensure_min_samples=least,
            ensure_all_finite=False,  # Seen in the first pass; `naming_entries` names the entry.
        )
    weight = check_sample_weight(to_host(sample_weight), X.shape[0])
    return ArrayRows(X, weight, model.n_jobs) if where is None else DeviceRows(X, weight, where)


@contextmanager
def naming_entries(model: FittedMixture, rows: RowSource) -> Iterator[None]:
    """Name the first entry that is not finite, or too large, where a row is found to have one.

    That shows only once the rows are read: no pass is made to check them.
    """
    try:
        yield
    except UnusableRowsError as error:
        raise bad_entry(rows, getattr(model, "feature_names_in_", None)) or error from None


def assign_rows(
    model: FittedMixture,
    rows: Any,
    function: Callable[..., Any],
    names: str | list[str],
    out: Any = None,
    metadata: dict[bytes, bytes] | None = None,
) -> Any:
    """Apply one of `em.assign`'s functions to every row."""
    with naming_entries(model, rows):
        return rows.apply(_bound(model, function, rows), names, out, metadata)


def _bound(model: FittedMixture, function: Callable[..., Any], rows: RowSource) -> Callable[..., Any]:
    """One of `em.assign`'s functions with the fitted model and the engine that suits the rows."""
    shares = model.focal_sets_.shares
    args = (model.weights_, model.means_, model.stored_covariances_, shares, model.covariance_)
    # Once compiled, as by a fit of many rows, the fast engine serves; one pass alone seldom pays for compiling.
    n_passes = EXPECTED_PASSES if is_compiled() else 1
    one_pass = seconds_in_numpy(rows.size, shares, model.covariance_)
    engine = choose_engine(model.engine, n_passes * one_pass)
    return assign.Reader(function, assign.Mixture.of(*args), engine).read


def _check_features(model: FittedMixture, n_features: int, names: list[str] | None, reset: bool) -> None:
    """scikit-learn's rules on features, for rows it must not load."""
    if reset:
        model.n_features_in_ = n_features
        model.__dict__.pop("feature_names_in_", None)
        if names is not None:
            model.feature_names_in_ = np.array(names, dtype=object)
        return
    if n_features != model.n_features_in_:
        raise ValueError(f"X has {n_features} features, but EGMM is expecting {model.n_features_in_} features.")
    expected = getattr(model, "feature_names_in_", None)
    if expected is not None and names is not None and list(expected) != names:
        raise ValueError(
            f"X has the columns {names}, but EGMM was fitted on {list(expected)}; select these in this order, "
            "by scan(..., columns) or X[columns] of a data frame."
        )


def cluster_names(n_clusters: int) -> list[str]:
    """Columns of a file that has one for each cluster."""
    return [f"cluster_{k + 1}" for k in range(n_clusters)]


def _members(*block: Any, focal_sets: FocalSets, rule: str, reward: float, **fitted: Any) -> FloatArray:
    """Members of the chosen sets of a block of rows, (n, C), as 1 and 0."""
    return choose_sets(to_host(assign.masses(*block, **fitted)), focal_sets, rule, reward).astype(np.float64)


def _plain(value: Any) -> Any:
    """A value as JSON holds it; floats keep every digit."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
