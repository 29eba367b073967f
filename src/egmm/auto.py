"""AutoEGMM: clustering without choices, by the consensus of the models that a search finds sound."""

import json
import warnings
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from egmm._arrays import follow, place_of, reads_rows, to_host
from egmm._checks import (
    FloatArray,
    IntArray,
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
from egmm.metrics.external import rand_matrix
from egmm.rows import is_remote, remote_rows
from egmm.selection import Selection, select_model
from egmm.sources import (
    LAST_TRIED,
    BlockReader,
    Sources,
    choose,
    from_document,
    gather_sources,
    notes_on_choice,
    sound_candidates,
    to_document,
)

FORMAT = "egmm.AutoEGMM/1"

COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 9)
"""Numbers of clusters tried."""


class Stability(NamedTuple):
    """What fits to subsamples of the rows have in common.

    Attributes
    ----------
    ari : float
        Mean adjusted Rand index of two fits' labels of all rows.
    n_clusters : ndarray of shape (n_subsamples,)
        Number of clusters of each fit.
    open_share : ndarray of shape (n_subsamples,)
        Share of rows that each fit leaves open.
    """

    ari: float
    n_clusters: IntArray
    open_share: FloatArray

    def __str__(self) -> str:
        counts, shares = self.n_clusters, 100 * self.open_share
        same = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
        return (
            f"Fits to {len(counts)} subsamples: ARI {self.ari:.2f} with each other, {same} clusters, "
            f"{shares.min():.0f} to {shares.max():.0f} % of the rows open (standard deviation {shares.std():.1f})."
        )


class AutoEGMM(Documented, ClusterMixin, BaseEstimator):
    r"""Evidential clustering without choices: the consensus of the Gaussian mixtures that a search finds sound.

    The search fits every number of clusters with every covariance model. EBIC chooses the number of clusters, unless a
    single cluster with heavy or light tails describes the rows clearly better than any mixture. The models of as many
    clusters are sources of evidence, combined by :func:`egmm.belief.consensus`: two of them are drawn at random, and a
    row belongs to one of the clusters they name.

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
    consensus : bool, default=True
        Whether all sound models of the chosen number of clusters speak; False leaves the word to the selected one.
    reg_covar : float or 'auto', default='auto'
        Ridge on the covariances, see `EGMM`.
    max_iter : int, default=1000
        Most steps of a fit.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.
    n_jobs : int or None, default=None
        Threads; None means all cores this process may use. Results do not depend on it.
    verbose : int, default=0
        1 shows a live line on the error stream.

    Attributes
    ----------
    n_clusters_ : int
        Number of clusters; 1 means that no cluster structure was found.
    focal_sets_ : FocalSets
        Sets that carry mass: clusters and pairs, or those of the selected model.
    labels_ : ndarray of shape (n_samples,)
        Cluster of largest pignistic probability of each row; only for rows in memory.
    best_ : EGMM
        The selected model.
    means_ : ndarray of shape (n_clusters_, n_features)
        Its cluster means.
    selection_ : Selection
        All candidates of the search; not kept in files.
    model_weights_ : dict of str to float
        Weight of each covariance model in the consensus.
    notes_ : tuple of str
        What to know before the result is trusted: no structure, the end of the range, close numbers of clusters.
    open_share_ : float
        Share of rows left open by expected utility, ``is_open("utility", reward=0.8)``; only for rows in memory.
    n_iter_ : int
        Steps of the selected model.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where X had names.

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
        self.consensus = consensus
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    # Fitting ----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Search, and gather the sound models of the chosen number of clusters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows. For a scan or a Dask collection, a single cluster is compared only as a Gaussian.
        y : Ignored
            Not used, present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts.

        Returns
        -------
        self : AutoEGMM
        """
        check_choice("consensus", str(self.consensus), ("True", "False"))
        with all_or_nothing(self):
            for name in ("labels_", "open_share_"):
                self.__dict__.pop(name, None)
            rows, weight = self._check_fit(X, sample_weight)
            selection = self._search(rows, weight)
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

    def _search(self, X: Any, sample_weight: Any) -> Selection:
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
        return check_finite_rows(rows, getattr(self, "feature_names_in_", None))

    # What it says of rows ---------------------------------------------------------------------------------

    @reads_rows
    def predict(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Cluster of largest pignistic probability, (n_samples,).

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
        """Choose a set of clusters for each row, as `EGMM.predict_sets` does; X and out as for `predict`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), scan or Dask collection
            Rows.
        out : path, default=None
            For a scan: Parquet file to write to.
        rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
            How the set is chosen, as in :meth:`egmm.CredalPartition.sets`.
        reward : float, default=0.8
            Utility of a pair that contains the right cluster, for ``rule="utility"``.

        Returns
        -------
        sets : ndarray of int of shape (n_samples,), or of bool of shape (n_samples, n_clusters)
            Index into `focal_sets_` of the heaviest set; members of the set by the other rules.
        """
        if check_choice("rule", rule, SET_RULES) == "heaviest":
            return self._read(X, BlockReader("heaviest", self._fitted), "set", out)
        reader = BlockReader("members", self._fitted, rule=rule, reward=reward)
        found = self._read(X, reader, cluster_names(self.n_clusters_), out)
        return found if out is not None else found > 0.5

    @reads_rows
    def partition(self, X: Any, out: str | PathLike[str] | None = None) -> Any:
        """Masses of rows as a `CredalPartition`; for a scan, as the file `out` that ``CredalPartition.load`` reads."""
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
        """Rows far from every component of the selected model, as `EGMM.outliers` tells."""
        model = self._fitted.models[0]
        return model.outliers(X if is_remote(X) else self._check_array(X, reset=False), quantile)

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
        """Fit subsamples of the rows anew and compare what the fits say of all rows.

        A fitted model keeps the result as a sentence in `notes_`, which `summary` and files show.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows in memory.
        n_subsamples : int, default=20
            Number of fits.
        share : float, default=0.9
            Share of the rows in each, drawn without replacement.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts.
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
            raise TypeError("X must be rows in memory for stability; read a sample of them into a NumPy array.")
        rows = self._check_array(X, reset=not hasattr(self, "n_features_in_"))
        weight = check_sample_weight(sample_weight, len(rows))
        random = check_random(self.random_state)
        labels, counts, shares = [], [], []
        for _ in range(n_subsamples):
            at = np.sort(random.choice(len(rows), max(2, round(share * len(rows))), replace=False))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                model = clone(self).fit(rows[at], sample_weight=None if weight is None else weight[at])
            partition = model.partition(rows)
            labels.append(partition.labels())
            counts.append(model.n_clusters_)
            shares.append(np.average(partition.is_open(rule, reward), weights=weight))
        agreement = rand_matrix(np.array(labels), np.ones(len(rows)) if weight is None else weight)
        pairs = agreement[np.triu_indices(n_subsamples, 1)]
        found = Stability(float(pairs.mean()), np.array(counts), np.array(shares))
        if hasattr(self, "notes_"):
            self.notes_ = (*(note for note in self.notes_ if not note.startswith("Fits to")), str(found))
        return found

    def summary(self) -> str:
        """Say in a few lines what was found, by whom, and what to know before it is trusted."""
        lines = self.summary_lines()
        if hasattr(self, "open_share_"):
            lines.insert(2, f"Open rows: {100 * self.open_share_:.1f} % (by expected utility, reward {REWARD:g}).")
        return "\n".join(lines)

    def summary_lines(self) -> list[str]:
        """Lines of the summary that do not depend on how sets are chosen."""
        check_is_fitted(self)
        found = "no cluster structure" if self.n_clusters_ == 1 else f"{self.n_clusters_} clusters"
        lines = [f"AutoEGMM found {found} ({len(self.focal_sets_)} focal sets)."]
        heaviest = sorted(self.model_weights_.items(), key=lambda item: -item[1])[:3]
        named = ", ".join(f"{name} {100 * weight:.0f} %" for name, weight in heaviest)
        if len(self.model_weights_) > 1:
            lines.append(f"Consensus of {len(self.model_weights_)} models of as many clusters; most weight: {named}.")
        else:
            lines.append(f"Selected model: {self.best_.covariance}.")
        return [*lines, *self.notes_]

    # Keeping it -------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the models and their weights to a readable JSON file, replaced as a whole or not at all."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        document = {
            "format": FORMAT,
            "parameters": self._plain_parameters(),
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
        """Read what `save` wrote; nothing in the file is executed. `labels_` and `selection_` are not kept."""
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            if document["format"] != FORMAT:
                raise ValueError(f"its format is {document['format']!r}, expected {FORMAT!r}")
            sources = from_document(document)
            model = cls(**document["parameters"])
            model._sources = sources
            model.best_ = sources.models[0]
            model.n_features_in_ = model.best_.n_features_in_
            model.notes_ = tuple(str(note) for note in document["notes"])
            if document["open_share"] is not None:
                model.open_share_ = float(document["open_share"])
            if document["feature_names"] is not None:
                model.feature_names_in_ = np.array(document["feature_names"], dtype=object)
        except (AttributeError, KeyError, TypeError, UnicodeDecodeError, ValueError) as error:
            why = f"it has no entry {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"{path} holds no AutoEGMM model: {why}") from error
        model._set_sources()
        return model

    def _plain_parameters(self) -> dict[str, Any]:
        """Parameters as JSON holds them; a random stream belongs to the fit, not to the model."""
        parameters: dict[str, Any] = self.get_params(deep=False)
        if isinstance(self.n_clusters, Iterable):
            parameters["n_clusters"] = [int(count) for count in self.n_clusters]
        if not isinstance(self.covariance, str):
            parameters["covariance"] = [str(name) for name in self.covariance]
        is_seed = isinstance(self.random_state, int | np.integer)
        return {**parameters, "random_state": int(parameters["random_state"]) if is_seed else None}

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
                raise ValueError("out= is for scans of files; the result for rows in memory is returned.")
            return reader(self._check_array(X, reset=False))
        if rows.size[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.size[1]} features, but AutoEGMM is expecting {self.n_features_in_} features."
            )
        with rows:
            return rows.apply(reader, names, out, metadata)
