"""AutoEGMM: automatic clustering by the consensus of all sound models of a search."""

import json
import warnings
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from egmm._arrays import check_on_host, follow, place_of, reads_rows, to_host
from egmm._checks import (
    FloatArray,
    all_or_nothing,
    check_choice,
    check_finite_rows,
    check_integer,
    check_random,
    check_real,
    check_sample_weight,
    reading_rows,
)
from egmm._documented import Documented
from egmm._files import replacing
from egmm._frames import row_names
from egmm.belief.decisions import REWARD, SET_RULES
from egmm.belief.focal import FocalSets
from egmm.belief.partition import CredalPartition
from egmm.belief.storage import parquet_metadata
from egmm.fitted import cluster_names
from egmm.model_file import check_document, read_json, read_names, refusing
from egmm.rows import is_remote, remote_rows
from egmm.rows.threads import resolve_jobs
from egmm.selection import Selection, select_model
from egmm.sources import (
    LAST_TRIED,
    NO_STRUCTURE,
    BlockReader,
    Sources,
    choose,
    from_document,
    gather_sources,
    is_worth_noise,
    notes_on_choice,
    plain_parameters,
    sound_candidates,
    to_document,
)
from egmm.stability import Stability, refit_subsamples

FORMAT = "egmm.AutoEGMM/1"

COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 9)
"""Default numbers of clusters."""


class AutoEGMM(Documented, ClusterMixin, BaseEstimator):
    r"""Automatic evidential clustering: the consensus of all sound Gaussian mixtures of a search.

    The search fits every number of clusters with every covariance model. EBIC chooses the number of clusters, unless a
    single cluster with heavy or light tails fits the rows clearly better than any mixture. The models with this number
    of clusters are sources of evidence, combined by :func:`egmm.belief.consensus`: two sources are drawn at random, and
    a row belongs to one of the clusters they assign.

    .. math:: q_{ik} = \sum_s w_s \mathrm{BetP}^{(s)}_i(\omega_k), \quad w_s \propto a_s\, 0.85^{\mathrm{rank}(s)},
        \quad m_i(\{\omega_k\}) = q_{ik}^2, \quad m_i(\{\omega_k, \omega_l\}) = 2\, q_{ik}\, q_{il}

    where models are ranked by EBIC and :math:`a_s` is the mean adjusted Rand index of a model's partition with all.

    Parameters
    ----------
    n_clusters : iterable of int or int, default=(1, 2, 3, 4, 5, 6, 7, 8, 9)
        Numbers of clusters to try.
    covariance : str or iterable of str, default='all'
        Covariance models to try; 'all' means the fourteen.
    focal_sets : {'pairs', 'full', 'singletons', 'simple', 'neighbours'}, default='pairs'
        Sets of clusters of each model; a prior leaves weight only to those that earn it.
    noise : bool or 'auto', default=False
        Whether rows may belong to no cluster, see `EGMM`; the mass of the empty set is the models' weighted mean.
        'auto' makes the search with noise too and takes it if EBIC rises by 10 or more.
    consensus : bool, default=True
        Whether to combine all sound models with the chosen number of clusters; False uses only the selected one.
    reg_covar : float or 'auto', default='auto'
        Ridge on the covariances, see `EGMM`.
    max_iter : int, default=1000
        Maximum number of steps of a fit.
    random_state : int, RandomState instance or None, default=None
        Random seed.
    n_jobs : int or None, default=None
        Number of threads; None means all available cores. Results do not depend on it.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    n_clusters_ : int
        Number of clusters; 1 means that no cluster structure was found.
    focal_sets_ : FocalSets
        Sets that carry mass: clusters and pairs, or those of the selected model.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row; only for rows in memory.
    best_ : EGMM
        The selected model.
    means_ : ndarray of shape (n_clusters_, n_features)
        Its cluster means.
    selection_ : Selection
        All candidates of the search; not saved in files.
    model_weights_ : dict of str to float
        Weight of each covariance model in the consensus.
    notes_ : tuple of str
        Warnings about the result: no structure, largest number of clusters tried, close alternatives.
    open_share_ : float
        Share of open rows by expected utility, ``is_open("utility", reward=0.8)``; only for rows in memory.
    n_iter_ : int
        Number of steps of the selected model.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had names.

    See Also
    --------
    EGMM : one mixture, as in the paper.
    select_model : the search.

    Examples
    --------
    >>> import numpy as np
    >>> from egmm import AutoEGMM
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(6, 1, (100, 2))])
    >>> model = AutoEGMM(range(1, 5), covariance=["EII", "EEE"], random_state=0).fit(X)
    >>> model.n_clusters_
    2
    >>> model.predict_mass([[3.0, 3.0]]).shape
    (1, 3)
    """

    def __init__(
        self,
        n_clusters: Any = COUNTS,
        *,
        covariance: str | Iterable[str] = "all",
        focal_sets: str = "pairs",
        noise: bool | str = False,
        consensus: bool = True,
        reg_covar: float | str = "auto",
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.covariance = covariance
        self.focal_sets = focal_sets
        self.noise = noise
        self.consensus = consensus
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # Fitting ----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Search, and collect the sound models with the chosen number of clusters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows; NaN is a missing cell. For a scan, a Dask collection or rows with missing cells, a single cluster is
            compared only as a Gaussian.
        y : Ignored
            Not used, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.

        Returns
        -------
        self : AutoEGMM
        """
        self._check_parameters()
        with all_or_nothing(self):
            for name in ("labels_", "open_share_"):
                self.__dict__.pop(name, None)
            rows, weight = self._check_fit(X, sample_weight)
            selection = self._best_search(rows, weight)
            sound = sound_candidates(selection)
            choice = choose(selection, sound, rows, weight)
            chosen = choice.candidate
            rivals = [c for c in sound if c.n_clusters == chosen.n_clusters]
            self.selection_ = selection
            self._sources = gather_sources(rivals, chosen, rows, weight, is_united=bool(self.consensus))
            self.best_ = chosen.model
            self._set_sources()
            self.notes_ = tuple(notes_on_choice(selection, sound, choice))
            if not is_remote(X):
                partition = CredalPartition(self._sources.masses(rows), self.focal_sets_)
                self.labels_ = partition.labels()
                self.open_share_ = float(np.average(partition.is_open("utility"), weights=weight))
                follow(self, place_of(rows))
        for note in self.notes_:
            if note.startswith(LAST_TRIED):
                warnings.warn(note, UserWarning, stacklevel=2)
        return self

    def _check_parameters(self) -> None:
        """Validate parameters of its own; the search checks the others."""
        check_choice("consensus", str(self.consensus), ("True", "False"))
        check_choice("noise", str(self.noise), ("True", "False", "auto"))
        check_random(self.random_state)
        resolve_jobs(self.n_jobs)

    def _best_search(self, X: Any, sample_weight: Any) -> Selection:
        """The search without noise, with it, or the better of both."""
        if self.noise != "auto":
            return self._search(X, sample_weight, noise=bool(self.noise))
        plain = self._search(X, sample_weight, noise=False)
        try:
            noisy = self._search(X, sample_weight, noise=True)
            return noisy if is_worth_noise(noisy, plain) else plain
        except ValueError:  # No volume for noise, or no sound fit with it.
            return plain

    def _search(self, X: Any, sample_weight: Any, *, noise: bool) -> Selection:
        counts = self.n_clusters if isinstance(self.n_clusters, Iterable) else [self.n_clusters]
        return select_model(
            X,
            counts,
            self.covariance,
            sample_weight=sample_weight,
            random_state=check_random(self.random_state).randint(2**31),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            focal_sets=self.focal_sets,
            reg_covar=self.reg_covar,
            max_iter=self.max_iter,
            noise=noise,
        )

    def _set_sources(self) -> None:
        sources = self._sources
        self.n_clusters_ = int(sources.models[0].focal_sets_.n_clusters)
        self.n_iter_ = int(sources.models[0].n_iter_)
        self.means_: FloatArray = sources.models[0].means_
        self.focal_sets_: FocalSets = sources.focal_sets
        names = [model.covariance for model in sources.models]
        self.model_weights_ = dict(zip(names, sources.shares.tolist(), strict=True))

    def _check_fit(self, X: Any, sample_weight: Any) -> tuple[Any, Any]:
        if not is_remote(X):
            if self.noise:
                check_on_host(f"noise={self.noise!r}", X)
            rows = self._check_array(X, reset=True, ensure_min_samples=2)
            return rows, check_sample_weight(to_host(sample_weight), rows.shape[0])
        names = getattr(X, "feature_names", None) or getattr(X, "columns", None)
        self.n_features_in_ = int(X.shape[1])
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
        return X, sample_weight

    def _check_array(self, X: Any, **options: Any) -> FloatArray:
        with reading_rows(X) as kinds:
            rows = validate_data(self, X, dtype=kinds, ensure_all_finite=False, **options)
        return check_finite_rows(rows, getattr(self, "feature_names_in_", None), allow_nan=True)

    # Prediction -------------------------------------------------------------------------------------------

    @reads_rows
    def predict(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Cluster with the largest pignistic probability, (n_samples,).

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
        return self._read(X, BlockReader("labels", self._fitted), "cluster", out)

    @reads_rows
    def predict_proba(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Pignistic probabilities, (n_samples, n_clusters); X and out as for `predict`."""
        names = cluster_names(self._fitted.orders.shape[1])
        return self._read(X, BlockReader("probabilities", self._fitted), names, out)

    @reads_rows
    def predict_mass(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Masses on the focal sets, (n_samples, n_focal), columns as `focal_sets_`; X and out as for `predict`."""
        focal = self._fitted.focal_sets
        return self._read(X, BlockReader("masses", self._fitted), list(focal.labels), out, parquet_metadata(focal))

    @reads_rows
    def predict_sets(
        self, X: Any, out: str | PathLike[str] | None = None, *, rule: str = "heaviest", reward: float = REWARD
    ) -> Any:
        """Choose a set of clusters for each row, as in `EGMM.predict_sets`; X and out as for `predict`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows.
        out : path, default=None
            Parquet file for the result of a scan.
        rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
            How the set is chosen, as in :meth:`egmm.CredalPartition.sets`.
        reward : float, default=0.8
            Utility of a pair that contains the right cluster, for ``rule="utility"``.

        Returns
        -------
        sets : ndarray of int of shape (n_samples,), or of bool of shape (n_samples, n_clusters)
            Index of the heaviest set in `focal_sets_`; members of the set for the other rules.
        """
        if check_choice("rule", rule, SET_RULES) == "heaviest":
            return self._read(X, BlockReader("heaviest", self._fitted), "set", out)
        reader = BlockReader("members", self._fitted, rule=rule, reward=reward)
        found = self._read(X, reader, cluster_names(self.n_clusters_), out)
        return found if out is not None else found > 0.5

    @reads_rows
    def partition(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Masses of rows as a `CredalPartition`; for a scan, the file `out`, read by ``CredalPartition.load``."""
        if out is not None:
            return self.predict_mass(X, out)
        return CredalPartition(np.asarray(to_host(self.predict_mass(X))), self.focal_sets_, index=row_names(X))

    @reads_rows
    def score_samples(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Log-density of each row under the mixture of the models, (n_samples,); X and out as for `predict`."""
        return self._read(X, BlockReader("log_densities", self._fitted), "log_density", out)

    @reads_rows
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Mean log-density per unit weight."""
        return float(np.average(np.asarray(to_host(self.score_samples(X))), weights=to_host(sample_weight)))

    @reads_rows
    def outliers(self, X: Any, quantile: float = 0.999) -> Any:
        """Rows far from every cluster of the selected model, see `EGMM.outliers`."""
        model = self._fitted.models[0]
        return model.outliers(X if is_remote(X) else self._check_array(X, reset=False), quantile)

    def impute(self, X: Any) -> FloatArray:
        """Fill missing cells with their conditional expectation, averaged over the models by weight.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows in memory; NaN is a missing cell.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        """
        sources = self._fitted
        check_on_host("impute", X, self)
        if is_remote(X):
            raise TypeError("X must be rows in memory for impute; load a part into an array.")
        rows = self._check_array(X, reset=False)
        return sources.impute(rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.array_api_support = True
        return tags

    def stability(
        self,
        X: Any,
        n_subsamples: int = 20,
        *,
        share: float = 0.9,
        sample_weight: Any = None,
        rule: str = "utility",
        reward: float = REWARD,
    ) -> Stability:
        """Refit subsamples of the rows and compare the fits on all rows.

        A fitted model stores the result as a sentence in `notes_`, shown by `summary` and in files.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows in memory.
        n_subsamples : int, default=20
            Number of fits.
        share : float, default=0.9
            Share of rows in each subsample, drawn without replacement.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.
        rule : {'heaviest', 'utility', 'dominance'}, default='utility'
            What makes a row open, see :meth:`egmm.CredalPartition.is_open`.
        reward : float, default=0.8
            Utility of a pair that contains the right cluster, for ``rule="utility"``.

        Returns
        -------
        Stability
        """
        check_integer("n_subsamples", n_subsamples, 2)
        check_real("share", share, 0.0, 1.0)
        if is_remote(X) or place_of(X) is not None:
            raise TypeError("X must be rows in memory for stability; load a sample into a NumPy array.")
        rows = self._check_array(X, reset=not hasattr(self, "n_features_in_"))
        weight = check_sample_weight(sample_weight, len(rows))
        found = refit_subsamples(self, rows, weight, n_subsamples, share, rule, reward)
        if hasattr(self, "notes_"):
            self.notes_ = (*(note for note in self.notes_ if not note.startswith("Fits to")), str(found))
        return found

    def summary(self) -> str:
        """Text summary: the result, the models, and warnings."""
        lines = self.summary_lines()
        if hasattr(self, "open_share_"):
            lines.insert(2, f"Open rows: {100 * self.open_share_:.1f} % by expected utility (reward {REWARD:g}).")
        return "\n".join(lines)

    def summary_lines(self) -> list[str]:
        """Lines of the summary that do not depend on the rule for sets."""
        check_is_fitted(self)
        has_none = any(note.startswith(NO_STRUCTURE) for note in self.notes_)
        clusters = f"{self.n_clusters_} cluster{'s' * (self.n_clusters_ > 1)}"
        found = "no cluster structure" if has_none else clusters
        lines = [f"AutoEGMM found {found} ({len(self.focal_sets_)} focal sets)."]
        heaviest = sorted(self.model_weights_.items(), key=lambda item: -item[1])[:3]
        named = ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in heaviest)
        if len(self.model_weights_) > 1:
            lines.append(f"Consensus of {len(self.model_weights_)} models; most weight: {named}.")
        else:
            lines.append(f"Selected model: {self.best_.covariance}.")
        return [*lines, *self.notes_]

    # Saving -----------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the models and their weights to a JSON file, replaced atomically."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        document = {
            "format": FORMAT,
            "parameters": plain_parameters(self.get_params(deep=False)),
            "n_clusters": self.n_clusters_,
            "notes": list(self.notes_),
            "open_share": getattr(self, "open_share_", None),
            "feature_names": None if names is None else [str(name) for name in names],
            **to_document(self._sources),
        }
        with replacing(Path(path)) as stream:
            stream.write(json.dumps(document, indent=1).encode())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a file written by `save`; nothing in it is executed. `labels_` and `selection_` are not saved."""
        with refusing(f"{path} holds no AutoEGMM model"):
            document = check_document(read_json(Path(path)), FORMAT, "parameters")
            sources = from_document(document)
            model = cls(**document["parameters"])
            model._check_parameters()
            model._sources = sources
            model.best_ = sources.models[0]
            model.n_features_in_ = model.best_.n_features_in_
            model._set_sources()
            if document["n_clusters"] != model.n_clusters_:
                raise ValueError(f"n_clusters is {document['n_clusters']!r}, but its models have {model.n_clusters_}")
            if not (isinstance(document["notes"], list) and all(isinstance(note, str) for note in document["notes"])):
                raise TypeError("notes must be a list of text")
            model.notes_ = tuple(document["notes"])
            if document["open_share"] is not None:
                model.open_share_ = check_real("open_share", document["open_share"], 0.0, 1.0)
            if document["feature_names"] is not None:
                names = read_names("feature_names", document["feature_names"], model.n_features_in_)
                model.feature_names_in_ = names
        return model

    # Rows -------------------------------------------------------------------------------------------------

    @property
    def _fitted(self) -> Sources:
        check_is_fitted(self)
        return self._sources

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_sources")

    def _read(self, X: Any, reader: BlockReader, names: Any, out: Any, metadata: Any = None) -> Any:
        rows = remote_rows(X, None, self.n_jobs)
        if rows is None:
            if out is not None:
                raise ValueError("out= is only for scans of files; results for rows in memory are returned.")
            return reader(self._check_array(X, reset=False))
        if rows.size[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.size[1]} features, but AutoEGMM is expecting {self.n_features_in_} features."
            )
        with rows:
            return rows.apply(reader, names, out, metadata)
