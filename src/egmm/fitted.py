"""A fitted mixture: masses, partitions, criteria, outliers, samples, and its file."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from egmm._arrays import check_on_host, reads_rows, to_host
from egmm._checks import (
    FloatArray,
    IntArray,
    check_choice,
    check_integer,
    check_random,
    check_real,
    check_weight,
)
from egmm._files import replacing
from egmm._frames import row_names
from egmm.belief.decisions import REWARD, SET_RULES, choose_sets
from egmm.belief.focal import FocalSets
from egmm.belief.partition import CredalPartition
from egmm.belief.storage import parquet_metadata
from egmm.em import assign
from egmm.em.covariance import LOW_RANK, SHARED, is_diagonal, resolve_covariance
from egmm.em.criteria import criteria_of
from egmm.em.tails import farthest
from egmm.knowledge import Given, read_knowledge
from egmm.mixture_rows import as_mixture, assign_rows, bound_to, known_partition, naming_entries, open_rows
from egmm.mixture_state import MixtureState, degrees_of, model_parameters, noise_of
from egmm.model_file import FITTED, FORMAT, STORED, check_document, read_fitted, read_json, refusing
from egmm.rows.array import ArrayRows
from egmm.rows.threads import one_blas_thread
from egmm.standard_errors import StandardErrors, standard_errors_of

M = TypeVar("M", bound="FittedMixture")


class FittedMixture(MixtureState):
    """The part of `EGMM` that reads fitted parameters and never changes them."""

    @reads_rows
    def predict(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Cluster with the largest pignistic probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows. The result for a Dask collection is lazy.
        out : path, default=None
            Parquet file for the result of a scan; the path is returned.

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
            Parquet file for the result of a scan; the path is returned.
        rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
            How the set is chosen, as in :meth:`egmm.CredalPartition.sets`.
        reward : float, default=0.8
            Utility of a pair that contains the right cluster, for ``rule="utility"``.

        Returns
        -------
        sets : ndarray of int of shape (n_samples,), or of bool of shape (n_samples, n_clusters)
            Index of the heaviest set in `focal_sets_`; for the other rules, whose sets need not be focal sets, their
            members (1 and 0 in a file).
        """
        if check_choice("rule", rule, SET_RULES) == "heaviest":
            return self._apply(X, assign.heaviest, "set", out)
        check_is_fitted(self)
        chosen = partial(_members, focal_sets=self.focal_sets_, rule=rule, reward=reward)
        found = self._apply(X, chosen, cluster_names(self.focal_sets_.n_clusters), out)
        return found if out is not None else found > 0.5

    @reads_rows
    def partition(
        self,
        X: Any,
        out: str | PathLike[str] | None = None,
        *,
        labels: Any = None,
        reliability: Any = 1.0,
        must_link: Any = None,
        cannot_link: Any = None,
    ) -> Any:
        """Masses of rows as a `CredalPartition`, combined with labels and links.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows. Masses of a Dask collection are loaded into memory; `predict_mass` keeps them lazy.
        out : path, default=None
            File for the result of a scan, read by ``CredalPartition.load``; the path is returned.
        labels, reliability, must_link, cannot_link : any
            As for `EGMM.fit`, for rows in memory. The mixture's masses are combined with the labels by Dempster's rule;
            linked rows share a mass function or are penalised for sharing a cluster.

        Returns
        -------
        partition : CredalPartition
        """
        given = Given(labels, reliability, must_link, cannot_link)
        if given.is_any:
            check_is_fitted(self)
            check_on_host("partition with labels or links", X)
            with open_rows(self, X) as rows, one_blas_thread(), naming_entries(self, rows):
                if not isinstance(rows, ArrayRows):
                    raise TypeError("X must be rows in memory if labels or links are given; load it into an array.")
                knowledge = read_knowledge(given, len(rows.X), self.focal_sets_.n_clusters)
                if knowledge is not None:
                    return known_partition(self, rows, knowledge, row_names(X))
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
            As from `predict_mass`; columns are named by `get_feature_names_out`.
        """
        return self.predict_mass(X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Names of the columns of `transform`: the sets, such as ``{1}`` and ``{1,2}``.

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

    def standard_errors(self, X: Any, sample_weight: Any = None) -> StandardErrors:
        r"""Standard errors of weights, means and covariances, from the rows that the model was fitted to.

        They are those of the sandwich :math:`H^{-1} I H^{-1}`, with the observed information H and the sum I of the
        outer products of the rows' scores, and hold also where clusters are not quite Gaussian. The models EII, VII,
        EEI, VVI, EEE and VVV have them, without `prior`, `certainty`, `noise` and heavy tails, from complete rows.
        Labels and links of the fit are not counted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows that the model was fitted to.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights in the fit.

        Returns
        -------
        errors : StandardErrors
            With `weights`, `means`, `covariances`, and their whole covariance `matrix` by `names`.

        Examples
        --------
        >>> import numpy as np
        >>> from egmm import EGMM
        >>> X = np.random.default_rng(0).normal([[0.0], [8.0]], 1.0, (2, 400)).reshape(-1, 1)
        >>> model = EGMM(2, focal_sets="singletons", random_state=0).fit(X)
        >>> model.standard_errors(X).means.round(2)  # about 1 / 20
        array([[0.05], [0.05]])
        """
        check_on_host("standard_errors", X, self)
        total = self._totals(X, sample_weight)
        with open_rows(self, X, sample_weight) as rows, one_blas_thread(), naming_entries(self, rows):
            return standard_errors_of(self, rows, total.weight)

    @reads_rows
    def outliers(self, X: Any, quantile: float = 0.999) -> Any:
        """Rows far from every cluster.

        A row is an outlier if its Mahalanobis distance to the nearest component exceeds this quantile of the chi-square
        distribution with n_features degrees of freedom, or with ``tails="t"`` of the distribution that the distance
        then has. With ``noise=True`` it is an outlier if the empty set is its heaviest one, whatever the quantile.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows. The result for a Dask collection is lazy.
        quantile : float, default=0.999
            Share of a component's rows that are not outliers.

        Returns
        -------
        is_outlier : ndarray of shape (n_samples,), bool
        """
        check_is_fitted(self)
        check_real("quantile", quantile, 0.0, 1.0)
        with open_rows(self, X) as rows, naming_entries(self, rows):
            if self.focal_sets_.has_empty:
                return rows.apply(bound_to(self, assign.heaviest, rows), "set") == 0
            function = partial(
                assign.squared_distances,
                means=self.focal_means_,
                covariances=self.stored_focal_covariances_,
                covariance=self.covariance_,
            )
            return rows.apply(function, "distance") > farthest(quantile, self.n_features_in_, degrees_of(self))

    def impute(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Fill missing cells with their conditional expectation given the other cells of the row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows; NaN is a missing cell.
        out : path, default=None
            Parquet file for the result of a scan; the path is returned.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows with conditional means in place of missing cells.
        """
        check_is_fitted(self)
        check_on_host("impute", X, self)
        names = getattr(self, "feature_names_in_", [f"x{column}" for column in range(self.n_features_in_)])
        return self._apply(X, assign.imputed, [str(name) for name in names], out)

    def sample_missing(self, X: Any, n_samples: int = 5) -> FloatArray:
        """Draw missing cells from their conditional distribution, for multiple imputation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows in memory; NaN is a missing cell.
        n_samples : int, default=5
            Number of completed copies.

        Returns
        -------
        copies : ndarray of shape (n_samples, n_rows, n_features)
        """
        check_is_fitted(self)
        check_on_host("sample_missing", X, self)
        check_integer("n_samples", n_samples, 1)
        with open_rows(self, X) as rows, one_blas_thread(), naming_entries(self, rows):
            if not isinstance(rows, ArrayRows):
                raise TypeError("X must be rows in memory for sample_missing; load a part into an array.")
            return assign.drawn(rows.X, as_mixture(self), n_samples, check_random(self.random_state))

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
        if self.covariance_ == LOW_RANK:
            factors = random.standard_normal((n_samples, self.n_factors_))
            return self.focal_means_[sets] + np.sqrt(self.noise_variances_) * noise + factors @ self.loadings_.T, sets
        roots = np.sqrt(within) if diagonal else np.linalg.cholesky(within)
        roots = roots if is_shared else roots[sets]
        spread = roots * noise if diagonal else (roots @ noise[..., None])[..., 0]
        degrees = degrees_of(self)
        if degrees is not None:
            spread *= np.sqrt(degrees / random.chisquare(degrees, n_samples))[:, None]
        X = means[sets] + spread
        box = noise_of(self)
        if box is not None:
            are_noise = sets == 0
            X[are_noise] = random.uniform(box.lower, box.upper, size=(int(are_noise.sum()), self.n_features_in_))
        return X, sets

    # Saving --------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted mixture to a JSON file, replaced atomically.

        Parameters
        ----------
        path : str or path-like
            File to write.
        """
        document = model_document(self)
        with replacing(Path(path)) as stream:
            stream.write(json.dumps(document, indent=1).encode())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a fitted mixture written by `save`; nothing in the file is executed.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        model : EGMM
            The fitted mixture, without `labels_`. `partial_fit` continues from it.
        """
        with refusing(f"{path} holds no EGMM model"):
            return model_from(cls, read_json(Path(path)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = getattr(self, "tails", "gaussian") == "gaussian"
        return tags

    def _check_parameters(self) -> None:
        """Validate parameters."""

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
            total: assign.Totals = rows.reduce(bound_to(self, assign.totals, rows))
        check_weight(total.weight)
        return total


def model_document(model: FittedMixture) -> dict[str, Any]:
    """A fitted mixture as a JSON document."""
    check_is_fitted(model)
    # A given start, a random generator and a checkpoint belong to the fit, not to the model. What describes
    # the model is taken from the fit: parameters may have been set since.
    init = model.init if isinstance(model.init, str) else "kmeans"
    seed = model.random_state if isinstance(model.random_state, Integral) else None
    parameters = {**model.get_params(deep=False), "init": init, "random_state": seed, "checkpoint": None}
    parameters |= {"n_clusters": model.focal_sets_.n_clusters, "covariance": model.covariance_}
    parameters |= {"noise": model.focal_sets_.has_empty, "tails": "gaussian" if degrees_of(model) is None else "t"}
    if not _names_its_sets(model):
        del parameters["focal_sets"]
    fitted = {name: getattr(model, STORED.get(name, name)) for name in FITTED if hasattr(model, name)}
    return {
        "format": FORMAT,
        "parameters": plain(parameters),
        "focal_sets": [sorted(members) for members in model.focal_sets_],
        "fitted": plain({name: to_host(value) for name, value in fitted.items()}),
    }


def _names_its_sets(model: FittedMixture) -> bool:
    """Whether `focal_sets` is the name of the fitted family, so that a refit may change `n_clusters`."""
    if not isinstance(model.focal_sets, str):
        return False
    if model.focal_sets == "neighbours":
        return True
    try:
        return FocalSets.of(model.focal_sets, model.focal_sets_.n_clusters) == model.focal_sets_.without_empty()
    except ValueError:  # Set since the fit, to no family of so many clusters.
        return False


def model_from(kind: type[M], document: Any) -> M:
    """A fitted mixture from a JSON document, validated."""
    document = check_document(document, FORMAT, "parameters", "fitted")
    parameters = document["parameters"]
    if parameters.get("checkpoint") is not None:
        raise ValueError("checkpoint must be null; a model file must not set a path for later fits")
    focal = FocalSets.from_sets(document["focal_sets"], parameters["n_clusters"])
    model = kind(**{"focal_sets": focal, **parameters})
    model._check_parameters()
    if (model.tails == "t") != ("degrees_of_freedom_" in document["fitted"]):
        raise ValueError(f"tails={model.tails!r} contradicts the fitted entries")
    if focal.has_empty != model.noise:
        raise ValueError(f"noise={model.noise} contradicts the focal sets {', '.join(focal.labels)}")
    for name, value in read_fitted(document["fitted"], focal, parameters["covariance"]).items():
        setattr(model, STORED.get(name, name), value)
    model.covariance_ = resolve_covariance(parameters["covariance"], model.n_features_in_)
    model.focal_sets_ = focal
    model._fitted_parameters = model_parameters(model)
    return model


def cluster_names(n_clusters: int) -> list[str]:
    """Column names of a file with one column per cluster."""
    return [f"cluster_{k + 1}" for k in range(n_clusters)]


def _members(*block: Any, focal_sets: FocalSets, rule: str, reward: float, **fitted: Any) -> FloatArray:
    """Members of the chosen sets of a block of rows, (n, C), as 1 and 0."""
    return choose_sets(to_host(assign.masses(*block, **fitted)), focal_sets, rule, reward).astype(np.float64)


def plain(value: Any) -> Any:
    """A value for JSON; floats keep every digit."""
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
