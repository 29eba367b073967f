"""Fitted mixtures with the same number of clusters as sources of evidence."""

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import groupby
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

from egmm._arrays import to_host
from egmm._checks import BoolArray, FloatArray, IntArray, check_finite_matrix
from egmm.belief.consensus import clusters_and_pairs, unite_pairs
from egmm.belief.decisions import choose_sets, first_best
from egmm.belief.focal import FocalSets
from egmm.candidate import Candidate
from egmm.elliptical import elliptical_criterion
from egmm.fitted import model_document, model_from, plain
from egmm.mixture import EGMM
from egmm.model_file import refusing
from egmm.rows import is_remote, remote_rows
from egmm.search import NEXT_WEIGHT
from egmm.selection import Selection

CLOSE = 3.0
"""Differences of EBIC below this are weak evidence (odds below 20 to 1); such alternatives are reported."""

WORTH_NOISE = 10.0
"""EBIC that noise must gain: real clusters are not Gaussian, and noise fits their edges a little."""

ROUND = ("EII", "VII")
"""Covariance models with multiples of the identity."""

NO_STRUCTURE = "No cluster structure found"
"""Beginning of the note on a single cluster that was chosen among other numbers."""

LAST_TRIED = "The best number of clusters"
"""Beginning of the note that warns about the end of the range."""


class Choice(NamedTuple):
    """The chosen candidate, and the EBIC of the best single elliptical cluster minus that of the best mixture."""

    candidate: Candidate
    single_gap: float = float("-inf")


class Products(NamedTuple):
    """Sums over rows of products of two models' probabilities."""

    values: FloatArray
    """(n_models, C, C): clusters of each model (rows) by those of the first model (columns)."""

    def plus(self, other: Self) -> "Products":
        """Return the sum of both products."""
        return Products(self.values + other.values)


class Sources(NamedTuple):
    """Fitted mixtures, their weights, and the matching of their clusters."""

    models: tuple[EGMM, ...]
    """The first one is the selected model."""
    shares: FloatArray
    """(n_models,), summing to one."""
    orders: IntArray
    """(n_models, C): cluster of each model matched to cluster k of the first model."""
    is_united: bool
    """Whether all models are combined; otherwise only the first is used."""

    @property
    def focal_sets(self) -> FocalSets:
        """Sets that carry mass."""
        own: FocalSets = self.models[0].focal_sets_
        united = clusters_and_pairs(self.orders.shape[1])
        return own if not self.is_united else united.with_empty() if own.has_empty else united

    def probabilities(self, X: FloatArray) -> FloatArray:
        """Pignistic probabilities of rows in memory, (n, C): the weighted mean over models."""
        total = np.zeros((X.shape[0], self.orders.shape[1]))
        for model, share, order in zip(self.models, self.shares, self.orders, strict=True):
            total += share * to_host(model.predict_proba(X))[:, order]
        return total

    def masses(self, X: FloatArray) -> FloatArray:
        """Masses of rows in memory, (n, M)."""
        if not self.is_united:
            return np.asarray(to_host(self.models[0].predict_mass(X)))
        united = unite_pairs(self.probabilities(X))[0]
        return self._with_noise(united, X) if self.focal_sets.has_empty else united

    def _with_noise(self, united: FloatArray, X: FloatArray) -> FloatArray:
        """Masses with the weighted mean of the models' masses of the empty set."""
        noise = sum(
            share * to_host(model.predict_mass(X))[:, :1] for model, share in zip(self.models, self.shares, strict=True)
        )
        noise = np.minimum(noise, 1.0)  # Shares sum to one only up to rounding.
        return np.concatenate([noise, (1 - noise) * united], axis=1)

    def log_densities(self, X: FloatArray) -> FloatArray:
        """Log-density of rows in memory, (n,), under the mixture of the models."""
        found = [to_host(model.score_samples(X)) for model in self.models]
        return np.asarray(logsumexp(found, axis=0, b=self.shares[:, None]))

    def impute(self, X: FloatArray) -> FloatArray:
        """Rows in memory with missing cells filled: the weighted mean over models."""
        used = zip(self.models, self.shares, strict=True) if self.is_united else [(self.models[0], 1.0)]
        return np.asarray(sum(share * model.impute(X) for model, share in used))


def sound_candidates(selection: Selection) -> list[Candidate]:
    """Sound candidates; raise with the reasons if there are none."""
    sound = [candidate for candidate in selection.candidates if candidate.is_sound]
    # One spherical cluster with fewer rows than features counts as degenerate but has not collapsed.
    sound = sound or [c for c in selection.candidates if c.is_fitted and c.n_clusters == 1 and c.covariance in ROUND]
    if sound:
        return sound
    reasons = sorted(
        (c.failure or "degenerate: a cluster or covariance collapsed", c.n_clusters, c.covariance)
        for c in selection.candidates
    )
    listed = [
        f"{', '.join(f'{count} {model}' for _, count, model in group)}: {why}"
        for why, group in groupby(reasons, key=lambda reason: reason[0])
    ]
    raise ValueError(
        f"No candidate gave a sound fit ({'; '.join(listed)}); use fewer clusters, drop constant or dependent "
        "columns, set reg_covar to a number, or noise=True if some rows are far from all others."
    )


def is_worth_noise(noisy: Selection, without: Selection) -> bool:
    """Whether the search with noise has a clearly better EBIC."""
    best = [max(candidate.value("ebic") for candidate in sound_candidates(found)) for found in (noisy, without)]
    return bool(best[0] - best[1] >= WORTH_NOISE)


def choose(selection: Selection, sound: list[Candidate], X: Any, weight: Any) -> Choice:
    """The selected candidate, unless one non-Gaussian cluster fits the rows clearly better than mixtures."""
    wanted = (selection.n_clusters, selection.covariance)
    chosen = next((c for c in sound if (c.n_clusters, c.covariance) == wanted), sound[0])
    single = [c for c in sound if c.n_clusters == 1]
    if chosen.n_clusters == 1 or not single or is_remote(X) or np.isnan(X).any():
        return Choice(chosen)
    gap = elliptical_criterion(to_host(X), weight) - max(candidate.value("ebic") for candidate in sound)
    return Choice(max(single, key=lambda c: c.value("ebic")) if gap >= CLOSE else chosen, gap)


def notes_on_choice(selection: Selection, sound: list[Candidate], choice: Choice) -> list[str]:
    """Warnings about the choice."""
    chosen = choice.candidate
    counts = sorted({candidate.n_clusters for candidate in sound})
    best = {count: max(c.value("ebic") for c in sound if c.n_clusters == count) for count in counts}
    notes = []
    tried = {c.n_clusters for c in selection.candidates}
    if chosen.n_clusters == 1 and len(tried) > 1:
        notes.append(f"{NO_STRUCTURE}: a single cluster fits the rows best.")
    elif chosen.n_clusters == max(tried) and len(counts) > 1:
        notes.append(f"{LAST_TRIED}, {chosen.n_clusters}, is the largest tried; larger numbers may fit better.")
    gaps = {count: best[count] - best[chosen.n_clusters] for count in counts if count != chosen.n_clusters}
    close = [f"{count} (EBIC {gap:+.1f})" for count, gap in gaps.items() if abs(gap) < CLOSE]
    if chosen.n_clusters > 1 and abs(choice.single_gap) < CLOSE:
        notes.append(f"One non-Gaussian cluster fits about as well (EBIC {choice.single_gap:+.1f}).")
    if close:
        notes.append(f"Other numbers of clusters fit about as well: {', '.join(close)}.")
    return notes


def gather_sources(
    candidates: Sequence[Candidate], chosen: Candidate, X: Any, sample_weight: Any, *, is_united: bool
) -> Sources:
    """Use candidates with the same number of clusters as sources, the selected one first.

    Ordered by EBIC, each has 0.85 of the weight of the next better one, times the agreement of its partition with all:
    models that fit badly, or disagree with the others, are unreliable.
    """
    ranked = sorted(candidates, key=lambda candidate: -candidate.value("ebic"))
    reliability = {id(c): NEXT_WEIGHT**rank * _agreement(c) for rank, c in enumerate(ranked)}
    # With one cluster all models agree.
    others = [c for c in ranked if c is not chosen and is_united and chosen.n_clusters > 1]
    heard = [chosen, *others]
    weights = np.array([reliability[id(candidate)] for candidate in heard])
    shares = weights / weights.sum() if weights.sum() > 0 else np.full(len(heard), 1 / len(heard))
    models = tuple(_nameless(candidate.model) for candidate in heard)
    return Sources(models, shares, _match(models, X, sample_weight), is_united)


def _agreement(candidate: Candidate) -> float:
    """Agreement with the others; 1 if there are none."""
    return 1.0 if np.isnan(candidate.agreement) else max(candidate.agreement, 0.0)


def _nameless(model: EGMM) -> EGMM:
    """A copy without feature names and labels; names are checked earlier, and labels are stored elsewhere."""
    bare = copy(model)
    for name in ("feature_names_in_", "labels_"):
        bare.__dict__.pop(name, None)
    return bare


def _match(models: Sequence[EGMM], X: Any, sample_weight: Any) -> IntArray:
    """Clusters of each model in the order of the first model's, maximising the common probability."""
    rows = remote_rows(X, sample_weight, None)
    if rows is None:
        products = BlockReader("products", models=tuple(models))(X, sample_weight)
    else:
        with rows:
            products = rows.reduce(BlockReader("products", models=tuple(models)))
    orders = [linear_sum_assignment(table.T, maximize=True)[1] for table in products.values]
    return np.array(orders, dtype=np.int64)


class BlockReader:
    """A picklable function of a block of rows and weights, for row sources."""

    def __init__(
        self,
        kind: str,
        sources: Sources | None = None,
        models: tuple[EGMM, ...] = (),
        rule: str = "heaviest",
        reward: float = 0.8,
    ) -> None:
        self._kind, self._sources, self._models = kind, sources, models
        self._rule, self._reward = rule, reward

    def __call__(self, X: FloatArray, sample_weight: FloatArray | None = None) -> Any:
        """Apply the requested function to a block."""
        return getattr(self, f"_{self._kind}")(X, sample_weight)

    def _products(self, X: FloatArray, weight: FloatArray | None) -> Products:
        found = [to_host(model.predict_proba(X)) for model in self._models]
        first = found[0] if weight is None else found[0] * np.asarray(weight)[:, None]
        return Products(np.array([probability.T @ first for probability in found]))

    def _masses(self, X: FloatArray, _: Any) -> FloatArray:
        return self._known.masses(X)

    def _probabilities(self, X: FloatArray, _: Any) -> FloatArray:
        return self._known.probabilities(X)

    def _labels(self, X: FloatArray, _: Any) -> IntArray:
        return first_best(self._known.probabilities(X))

    def _log_densities(self, X: FloatArray, _: Any) -> FloatArray:
        return self._known.log_densities(X)

    def _heaviest(self, X: FloatArray, _: Any) -> IntArray:
        return first_best(self._known.masses(X))

    def _members(self, X: FloatArray, _: Any) -> FloatArray:
        """Members of the chosen sets as 1 and 0, since row sources return numbers."""
        chosen: BoolArray = choose_sets(self._known.masses(X), self._known.focal_sets, self._rule, self._reward)
        return chosen.astype(np.float64)

    @property
    def _known(self) -> Sources:
        assert self._sources is not None
        return self._sources


def plain_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters of AutoEGMM for JSON; a random generator belongs to the fit, not to the model."""
    found = dict(parameters)
    if isinstance(found["n_clusters"], Iterable):
        found["n_clusters"] = [int(count) for count in found["n_clusters"]]
    if not isinstance(found["covariance"], str):
        found["covariance"] = [str(name) for name in found["covariance"]]
    if not isinstance(found["random_state"], Integral):
        found["random_state"] = None
    return {name: plain(value) for name, value in found.items()}


def to_document(sources: Sources) -> dict[str, Any]:
    """Sources as a JSON document."""
    return {
        "weights": sources.shares.tolist(),
        "clusters": sources.orders.tolist(),
        "united": sources.is_united,
        "models": [model_document(model) for model in sources.models],
    }


def from_document(document: dict[str, Any]) -> Sources:
    """Sources from a JSON document, validated, since JSON may be edited."""
    if not isinstance(document["models"], list) or not document["models"]:
        raise ValueError("its list of models is empty")
    models = tuple(_read_model(at, entry) for at, entry in enumerate(document["models"], 1))
    n_clusters = models[0].focal_sets_.n_clusters
    kinds = {(model.focal_sets_.n_clusters, model.focal_sets_.has_empty, model.n_features_in_) for model in models}
    if len(kinds) > 1 or len({model.covariance for model in models}) < len(models):
        raise ValueError("its models must differ in their covariance alone")
    shares = check_finite_matrix("weights", document["weights"], (len(models),))
    if (shares < 0).any() or not np.isclose(shares.sum(), 1):
        raise ValueError(f"weights must be at least 0 and sum to 1, got a sum of {shares.sum():.6g}")
    orders = check_finite_matrix("clusters", document["clusters"], (len(models), n_clusters))
    if not (np.sort(orders, axis=1) == np.arange(n_clusters)).all():
        raise ValueError(f"clusters must hold each of the numbers 0 to {n_clusters - 1} once per model")
    if not isinstance(document["united"], bool):
        raise TypeError(f"united must be true or false, got {document['united']!r}")
    return Sources(models, shares, orders.astype(np.int64), document["united"])


def _read_model(number: int, document: Any) -> EGMM:
    with refusing(f"its model {number} is damaged"):
        return model_from(EGMM, document)
