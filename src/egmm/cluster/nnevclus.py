"""NN-EVCLUS: a network from features to masses whose conflict matches dissimilarities."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.svm import OneClassSVM

from egmm._checks import (
    FloatArray,
    all_or_nothing,
    check_choice,
    check_integer,
    check_random,
    check_real,
    check_starts,
    listed,
)
from egmm.belief.focal import FocalSets
from egmm.cluster.base import CredalClusterer
from egmm.cluster.network import Network
from egmm.cluster.relational.dissimilarities import check_fewer_than_rows, dissimilarities
from egmm.cluster.relational.pairs import ListedPairs, check_d0, conflict_targets, draw_others, sampled_pairs
from egmm.links import Links, PairForms, check_links
from egmm.rows.threads import one_blas_thread

DEFAULT_PAIRS = 100
"""Default number of partners of each row."""

MANY_ROWS = 5_000
"""Above this number of rows, batches are the default."""

BATCH_ROWS = 512

MOST_UNITS = 10_000
"""Largest number of units of a layer."""

SAMPLE_ROWS = 2_000
"""Maximum number of rows for learning novelty and the d0 of batches."""

PATIENCE, PATIENT_STEPS = 10, 500
"""Training in batches ends after this many epochs and this many steps without a lower mean loss."""

SMALL_GAIN = 5e-3
"""Relative gain of an epoch's mean loss that counts as noise."""

SLOWING = 1_000
"""Number of steps after which Adam's step size decays, so that weights settle."""

RATE, MEMORIES, TINY = 1e-2, (0.9, 0.999), 1e-8
"""Adam's step size, decay rates and epsilon."""


class NNEVCLUS(CredalClusterer):
    r"""Neural EVCLUS: a network gives any row masses whose conflict matches dissimilarities.

    A network of one or two ReLU layers with a softmax over the sets, including the empty set, minimises

    .. math:: J = \frac{1}{N K} \sum_i \sum_{j \in J(i)} (\kappa_{ij} - \varphi(d_{ij}))^2
        + \frac{\lambda}{2} \sum_l \overline{W_l^2}

    with the conflict and the targets of :class:`EVCLUS`, J(i) being K others of row i, and the last term the mean
    squared weights of each layer. Links between rows, if any, add the term

    .. math:: \frac{\xi}{2 |L|} \Bigl( \sum_{(i,j) \in M} 1 - Pl_{ij} + Pl_{i \bar j}
        + \sum_{(i,j) \in C} 1 - Pl_{i \bar j} + Pl_{ij} \Bigr),

    M being the pairs known to share a cluster, C those known not to, and :math:`Pl_{ij}` and :math:`Pl_{i \bar j}` the
    plausibilities that two rows do and that they do not.

    All rows at once are fitted by the method L-BFGS, batches by Adam's, with all pairs within a batch. Neither needs
    the dissimilarities of all pairs. With `novelty` a one-class support vector machine rates how usual a row is, and
    unusual rows give mass to the empty set.

    All rows count once: there are no sample weights.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters C.
    focal_sets : {'full', 'pairs', 'singletons', 'simple'}, FocalSets or list of sets, default='simple'
        Sets that may carry mass, see :meth:`FocalSets.of`. The empty set is always included.
    hidden : int or list of int, default=20
        Number of units of the hidden layer, or of each hidden layer.
    metric : str or callable, default='euclidean'
        Metric of the dissimilarities, see :func:`sklearn.metrics.pairwise_distances`. The network needs features, so
        dissimilarities cannot be given.
    d0 : float or None, default=None
        Dissimilarity at which two rows belong to different clusters with degree 0.95; None: the 0.9 quantile of the
        dissimilarities used.
    n_pairs : int or None, default=None
        Number K of random partners of each row; None: 100, or all if there are fewer. Batches do not use it.
    batch_size : int or None, default=None
        Batch size; None: all rows at once up to 5000, else 512.
    novelty : bool, default=False
        Whether atypical rows have mass on the empty set.
    novelty_nu : float, default=0.2
        Parameter nu of the support vector machine: share of rows that may be outside.
    novelty_gamma : float, default=0.2
        Coefficient of its Gaussian kernel, for features of deviation 1.
    penalty : float, default=0.0
        :math:`\lambda`, weight of the squared weights.
    xi : float, default=0.5
        :math:`\xi`, weight of the links given to `fit`, from 0 to 1.
    init : 'random', default='random'
        Weights are drawn uniformly.
    n_init : int, default=1
        Number of starts; the lowest objective is kept.
    tol : float, default=1e-6
        Stop when the relative decrease of J is at most this much (all rows), or over ten epochs (batches).
    max_iter : int, default=1000
        Maximum number of iterations or epochs.
    random_state : int, RandomState instance or None, default=None
        Seed for weights, pairs and batches.

    Attributes
    ----------
    network_ : Network
        Weights of the layers, for features of mean 0 and deviation 1.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row.
    focal_sets_ : FocalSets
        The sets, the empty set first.
    d0_ : float
        The `d0` used.
    objective_ : float
        Final J; with batches, the mean over the best epoch.
    objective_history_ : ndarray
        J at the start and after each iteration, which never increases; with batches, the mean of each epoch, which may.
    ans_ : float
        Average normalised nonspecificity of the rows' masses, see :class:`ECM`.
    n_iter_ : int
        Number of iterations or epochs.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has string names.

    References
    ----------
    Denoeux (2021), NN-EVCLUS: neural network-based evidential clustering.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(8, 1, (30, 2))])
    >>> network = NNEVCLUS(2, random_state=0).fit(X)
    >>> labels = network.predict([[0.0, 0.0], [8.0, 8.0]])
    >>> bool(labels[0] != labels[1])
    True
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        focal_sets: Any = "simple",
        hidden: Any = 20,
        metric: Any = "euclidean",
        d0: float | None = None,
        n_pairs: int | None = None,
        batch_size: int | None = None,
        novelty: bool = False,
        novelty_nu: float = 0.2,
        novelty_gamma: float = 0.2,
        penalty: float = 0.0,
        xi: float = 0.5,
        init: str = "random",
        n_init: int = 1,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.focal_sets = focal_sets
        self.hidden = hidden
        self.metric = metric
        self.d0 = d0
        self.n_pairs = n_pairs
        self.batch_size = batch_size
        self.novelty = novelty
        self.novelty_nu = novelty_nu
        self.novelty_gamma = novelty_gamma
        self.penalty = penalty
        self.xi = xi
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, must_link: Any = None, cannot_link: Any = None) -> Self:  # noqa: ARG002
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : None
            Ignored.
        must_link, cannot_link : array-like of shape (n_links, 2), default=None
            Pairs of row numbers known to share a cluster, or not to.

        Returns
        -------
        self : NNEVCLUS
        """
        with all_or_nothing(self):
            X = self._check_fit(X)
            n_clusters = check_integer("n_clusters", self.n_clusters, 1)
            n_distinct = len(np.unique(X[: 100 * n_clusters], axis=0))
            if n_distinct < n_clusters and (n_distinct := len(np.unique(X, axis=0))) < n_clusters:
                raise ValueError(
                    f"n_clusters={n_clusters} but X has only {n_distinct} distinct rows; use fewer clusters."
                )
            self.focal_sets_ = FocalSets.of(self.focal_sets, n_clusters, empty=True)
            links = check_links(must_link, cannot_link, len(X))
            tol, max_iter = self._check_stopping()
            check_choice("init", self.init, ("random",))
            if isinstance(self.metric, str) and self.metric == "precomputed":
                raise ValueError("metric must not be 'precomputed': the network needs features; use EVCLUS instead.")
            random = check_random(self.random_state)
            self._scaling = scaling_of(X)
            self._machine = self._learn_novelty(X, random)
            with one_blas_thread():
                best = self._train(X, links, random, tol, max_iter)
            self.network_ = best.network
            self.objective_history_, self.objective_ = np.array(best.history), best.objective
            self.n_iter_, self.converged_ = max(1, len(best.history) - 1), best.converged
            self._set_rows(X, None)
        if not self.converged_:
            self._warn(f"did not converge in max_iter={max_iter} iterations; raise max_iter or tol.")
        return self

    def _train(
        self, X: FloatArray, links: Links, random: np.random.RandomState, tol: float, max_iter: int
    ) -> "Trained":
        rows, forms = Rows(self._scaling.apply(X), self._decision(X)), PairForms.of(self.focal_sets_)
        penalty, xi = check_real("penalty", self.penalty, 0), check_real("xi", self.xi, 0, 1)
        prices, disjoint = Prices(penalty, LinkPrice(rows, links, forms, xi)), forms.disjoint
        sizes = [X.shape[1], *self._hidden(), len(self.focal_sets_)]
        batch_size = self._batch_size(len(X))
        runs = []
        if batch_size is None:
            loss = PairLoss(rows, self._pairs(X, random), disjoint, prices)
        else:
            batches = Batches(X, rows, self.metric, self._batch_d0(X, random), disjoint, prices, batch_size)
        for _ in range(check_starts(self.n_init)):
            network = Network.drawn(sizes, random, has_novelty=self._machine is not None)
            if batch_size is None:
                runs.append(loss.minimise(network, tol, max_iter))
            else:
                runs.append(batches.minimise(network, tol, max_iter, random))
        return min(runs, key=lambda run: run.objective)

    def _hidden(self) -> list[int]:
        sizes = [check_integer("hidden", size, 1, MOST_UNITS) for size in listed(self.hidden)]
        if not sizes:
            raise ValueError("hidden must hold at least one layer size, got an empty list.")
        return sizes

    def _batch_size(self, n_rows: int) -> int | None:
        if self.batch_size is None:
            return None if n_rows <= MANY_ROWS else BATCH_ROWS
        return check_integer("batch_size", self.batch_size, 2)

    def _pairs(self, X: FloatArray, random: np.random.RandomState) -> ListedPairs:
        n_pairs = min(DEFAULT_PAIRS, len(X) - 1) if self.n_pairs is None else check_integer("n_pairs", self.n_pairs, 1)
        check_fewer_than_rows("n_pairs", n_pairs, len(X))
        pairs, self.d0_ = sampled_pairs(X, n_pairs, self.metric, self.d0, random)
        return pairs

    def _batch_d0(self, X: FloatArray, random: np.random.RandomState) -> float:
        drawn = X[random.choice(len(X), min(len(X), SAMPLE_ROWS), replace=False)]
        others = draw_others(len(drawn), min(DEFAULT_PAIRS, len(drawn) - 1), random)
        D = dissimilarities(drawn, self.metric)
        self.d0_ = check_d0(self.d0, np.take_along_axis(D, others.astype(np.int64), axis=1))
        return self.d0_

    def _learn_novelty(self, X: FloatArray, random: np.random.RandomState) -> OneClassSVM | None:
        if not self.novelty:
            return None
        nu = check_real("novelty_nu", self.novelty_nu, 0, 1, open_minimum=True)
        gamma = check_real("novelty_gamma", self.novelty_gamma, 0, open_minimum=True)
        drawn = X if len(X) <= SAMPLE_ROWS else X[random.choice(len(X), SAMPLE_ROWS, replace=False)]
        machine = OneClassSVM(nu=nu, gamma=gamma).fit(self._scaling.apply(drawn))
        # Its scale grows with the number of rows; the coefficients of novelty assume scale 1.
        self._decision_scale = float(machine.decision_function(self._scaling.apply(drawn)).std()) or 1.0
        return machine

    def _decision(self, X: FloatArray) -> FloatArray | None:
        if self._machine is None:
            return None
        return np.asarray(self._machine.decision_function(self._scaling.apply(X)) / self._decision_scale)

    def _masses(self) -> Callable[[FloatArray], FloatArray]:
        return lambda X: self.network_.forward(self._scaling.apply(X), self._decision(X)).mass


class Scaling(NamedTuple):
    """Mean and standard deviation of the features."""

    centre: FloatArray
    scale: FloatArray

    def apply(self, X: FloatArray) -> FloatArray:
        """Standardise features."""
        return (X - self.centre) / self.scale


def scaling_of(X: FloatArray) -> Scaling:
    """Mean and standard deviation of the features; constant features are only centred."""
    deviation = X.std(axis=0)
    return Scaling(X.mean(axis=0), np.where(deviation > 0, deviation, 1.0))


class Rows(NamedTuple):
    """Inputs of the network for some rows."""

    features: FloatArray
    decision: FloatArray | None

    def at(self, places: Any) -> "Rows":
        """Return some of the rows."""
        return Rows(self.features[places], None if self.decision is None else self.decision[places])


class Trained(NamedTuple):
    """A trained network and its history."""

    network: Network
    history: list[float]
    objective: float
    converged: bool


class LinkPrice:
    """Cost of links that contradict the masses of their rows."""

    def __init__(self, rows: Rows, links: Links, forms: PairForms, xi: float) -> None:
        ends = np.concatenate([links.must, links.cannot])
        linked, places = np.unique(ends, return_inverse=True)
        self._rows, self._ends = rows.at(linked), places.reshape(ends.shape)
        self._is_must = (np.arange(len(ends)) < len(links.must))[:, None]
        # One minus the plausibility of one cluster is the conflict.
        self._together = forms.disjoint + forms.plausibly_apart
        self._scale = xi / (2 * max(1, len(ends)))

    def value_and_gradient(self, network: Network) -> tuple[float, FloatArray]:
        """The price, and its gradient by all parameters in one vector."""
        found = network.forward(*self._rows)
        one, other = (found.mass[self._ends[:, side]] for side in (0, 1))
        slope = np.zeros_like(found.mass)
        np.add.at(slope, self._ends[:, 0], self._scale * self._prices(other))
        np.add.at(slope, self._ends[:, 1], self._scale * self._prices(one))
        price = self._scale * float(np.vdot(one, self._prices(other)))
        return price, network.backward(found, slope, self._rows.decision).flat()

    def _prices(self, mass: FloatArray) -> FloatArray:
        """Cost of each link for each focal set of the other row, (n_links, f)."""
        together = mass @ self._together
        return np.where(self._is_must, together, 2 - together)


class Prices(NamedTuple):
    """Terms of J other than those of the pairs."""

    penalty: float
    links: LinkPrice

    def value_and_gradient(self, network: Network) -> tuple[float, FloatArray]:
        """Half the mean squared weights of the layers times the penalty, and the links; and the gradient."""
        value = self.penalty / 2 * sum(float(np.square(layer).mean()) for layer in network.layers)
        slopes = tuple(self.penalty * layer / layer.size for layer in network.layers)
        price, by_links = self.links.value_and_gradient(network)
        return value + price, Network(slopes, np.zeros_like(network.novelty)).flat() + by_links


class PairLoss:
    """J of a network on listed pairs of all rows."""

    def __init__(self, rows: Rows, pairs: ListedPairs, disjoint: FloatArray, prices: Prices) -> None:
        self._rows, self._pairs, self._disjoint, self._prices = rows, pairs, disjoint, prices
        self._scale = 2 / len(pairs.others)

    def value_and_gradient(self, network: Network) -> tuple[float, FloatArray]:
        """J, and its gradient by all parameters in one vector."""
        from egmm.cluster.compiled import evclus  # noqa: PLC0415  Numba loads when used.

        found = network.forward(*self._rows)
        mass = np.ascontiguousarray(found.mass)
        slope = np.empty_like(mass)
        pairs = (self._pairs.starts, self._pairs.others, self._pairs.targets)
        loss = evclus.conflict_gradient(*pairs, mass, mass @ self._disjoint, slope)
        by_pairs = network.backward(found, self._scale * slope, self._rows.decision)
        price, by_price = self._prices.value_and_gradient(network)
        return self._scale * float(loss) + price, by_pairs.flat() + by_price

    def minimise(self, network: Network, tol: float, max_iter: int) -> Trained:
        """Minimise, starting from the given weights."""

        def value(flat: FloatArray) -> tuple[float, FloatArray]:
            return self.value_and_gradient(network.with_parameters(flat))

        history = [value(network.flat())[0]]
        result = minimize(
            value,
            network.flat(),
            jac=True,
            method="L-BFGS-B",
            callback=lambda intermediate_result: history.append(float(intermediate_result.fun)),
            options={"maxiter": max_iter, "maxfun": 10 * max_iter, "ftol": tol, "gtol": 1e-12},
        )
        return Trained(network.with_parameters(result.x), history, float(result.fun), result.nit < max_iter)


class Batches:
    """J of a network on random batches of rows, with all pairs within a batch."""

    def __init__(
        self,
        X: FloatArray,
        rows: Rows,
        metric: Any,
        d0: float,
        disjoint: FloatArray,
        prices: Prices,
        batch_size: int,
    ) -> None:
        self._X, self._rows, self._metric, self._d0 = X, rows, metric, d0
        self._disjoint, self._prices, self._batch_size = disjoint, prices, batch_size

    def value_and_gradient(self, network: Network, places: Any) -> tuple[float, FloatArray]:
        """J on the pairs within some rows, and its gradient by all parameters in one vector."""
        rows = self._rows.at(places)
        targets = conflict_targets(dissimilarities(self._X[places], self._metric), self._d0)
        found = network.forward(*rows)
        apart = found.mass @ self._disjoint
        gaps = apart @ found.mass.T - targets
        np.fill_diagonal(gaps, 0)
        scale = 1 / (len(gaps) * (len(gaps) - 1))
        by_pairs = network.backward(found, 4 * scale * gaps @ apart, rows.decision)
        price, by_price = self._prices.value_and_gradient(network)
        return scale * float(np.vdot(gaps, gaps)) + price, by_pairs.flat() + by_price

    def minimise(self, network: Network, tol: float, max_iter: int, random: np.random.RandomState) -> Trained:
        """Train on random batches until the mean loss of an epoch settles."""
        n_rows = len(self._X)
        n_batches = max(1, n_rows // self._batch_size)
        flat, first, second = network.flat(), np.zeros(network.flat().size), np.zeros(network.flat().size)
        history: list[float] = []
        best, lowest, reference, n_since, step = flat, np.inf, np.inf, 0, 0
        patience = max(PATIENCE, -(-PATIENT_STEPS // n_batches))
        while len(history) <= max_iter and n_since < patience:
            losses = []
            for places in np.array_split(random.permutation(n_rows), n_batches):
                loss, slope = self.value_and_gradient(network.with_parameters(flat), places)
                losses.append(loss)
                step += 1
                first = MEMORIES[0] * first + (1 - MEMORIES[0]) * slope
                second = MEMORIES[1] * second + (1 - MEMORIES[1]) * np.square(slope)
                root = np.sqrt(second / (1 - MEMORIES[1] ** step)) + TINY
                flat = flat - RATE / np.sqrt(1 + step / SLOWING) * first / (1 - MEMORIES[0] ** step) / root
            history.append(float(np.mean(losses)))
            if history[-1] < reference - max(tol, SMALL_GAIN * history[-1]):
                reference, n_since = history[-1], 0
            else:
                n_since += 1
            if history[-1] < lowest:
                best, lowest = flat, history[-1]
        return Trained(network.with_parameters(best), history, lowest, n_since >= patience)
