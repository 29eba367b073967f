"""Evidential c-means for categorical columns."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from egmm._arrays import place_of
from egmm._checks import FloatArray, IntArray, all_or_nothing, check_integer, check_random, check_starts, reading_table
from egmm.cluster.base import CredalClusterer
from egmm.cluster.masses import Costs, Pricing, evidential_pricing
from egmm.cluster.medoids import MassSums, costs_from, search, singleton_powers
from egmm.cluster.relational.dissimilarities import starting_labels

UNKNOWN = -1
"""Code of a category not seen in fit."""


class CatECM(CredalClusterer):
    r"""Evidential c-means for categorical data: prototypes are modes, distances count differing columns.

    The mode of a cluster has one category :math:`w_{kl}` per column l. With :math:`d_{ik} = \sum_l [x_{il} \ne w_{kl}]`
    and :math:`d_{ij} = \frac{1}{c_j^2} \sum_{k \in A_j} d_{ik}` for a set of :math:`c_j` clusters, CatECM minimises

    .. math:: J = \sum_i \sum_{A_j \ne \emptyset} c_j^\alpha m_{ij}^\beta d_{ij}^2
        + \delta^2 \sum_i m_{i\emptyset}^\beta.

    In each column, the mode of a cluster becomes the category with the largest sum of :math:`m_{ik}^\beta` of the
    single cluster, if that lowers J.

    All rows count once: there are no sample weights.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters C.
    focal_sets : {'full', 'pairs', 'singletons', 'simple'}, FocalSets or list of sets, default='pairs'
        Sets that may carry mass, see :meth:`FocalSets.of`. The empty set is always included.
    alpha : float, default=1.0
        Exponent of the set size in the cost of large sets, from 0 to 100.
    beta : float, default=2.0
        Exponent of the masses, above 1 and up to 100.
    delta : float, default=10.0
        Distance of every row to the empty set, as a number of columns.
    n_bins : int or None, default=3
        Numeric columns with more distinct values are split into this many quantile bins; None: every value is a
        category.
    init : {'kmeans', 'random'} or array-like of shape (n_clusters, n_features), default='kmeans'
        Initial modes: modes of k-means clusters on one-hot encoded categories, modes of the rows nearest to random
        rows, or given modes.
    n_init : int, default=1
        Number of starts; the lowest objective is kept. Given modes are one start.
    tol : float, default=1e-6
        Stop when the objective changes by at most this much.
    max_iter : int, default=1000
        Maximum number of updates of all modes.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.

    Attributes
    ----------
    modes_ : ndarray of shape (n_clusters, n_features)
        Categories of the modes; bin numbers for binned columns.
    categories_ : list of ndarray
        Sorted categories of each column; inner bin edges for binned columns.
    labels_ : ndarray of shape (n_samples,)
        Cluster with the largest pignistic probability of each row.
    focal_sets_ : FocalSets
        The sets, the empty set first.
    objective_ : float
        J at `modes_`.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        J at the start and after each update; it never increases.
    ans_ : float
        Average normalised nonspecificity of the rows' masses, see :class:`ECM`.
    n_iter_ : int
        Number of updates of all modes.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has string names.

    References
    ----------
    Djiberou Mahamadou, Antoine, Nguifo and Moreno (2020), Categorical fuzzy entropy c-means, and the same authors'
    evidential version.

    Examples
    --------
    >>> X = [["red", "round"], ["red", "round"], ["blue", "square"], ["blue", "square"], ["red", "square"]]
    >>> cat = CatECM(2, init=[["red", "round"], ["blue", "square"]]).fit(X)
    >>> cat.labels_[:4], cat.focal_sets_.labels[cat.predict_sets(X)[4]]
    (array([0, 0, 1, 1]), '{1,2}')
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        focal_sets: Any = "pairs",
        alpha: float = 1.0,
        beta: float = 2.0,
        delta: float = 10.0,
        n_bins: int | None = 3,
        init: Any = "kmeans",
        n_init: int = 1,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.focal_sets = focal_sets
        self.alpha = alpha
        self.beta = beta
        self.delta = delta
        self.n_bins = n_bins
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Declare support for string columns."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Find the modes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of categories: strings, integers or anything sortable within a column.
        y : None
            Not used, present for API consistency.

        Returns
        -------
        self : CatECM
        """
        with all_or_nothing(self):
            n_bins = None if self.n_bins is None else check_integer("n_bins", self.n_bins, 2)
            table = self._table(X, ensure_min_samples=2)
            columns = [Column(values, n_bins) for values in table.T]
            self._columns = columns
            self.categories_ = [column.categories for column in columns]
            codes = self._codes(table)
            n_clusters = check_integer("n_clusters", self.n_clusters, 1)
            tol, max_iter = self._check_stopping()
            self._pricing = evidential_pricing(self.focal_sets, n_clusters, self.alpha, self.beta, self.delta)
            self.focal_sets_ = self._pricing.focal
            n_distinct = len(np.unique(codes, axis=0))
            if n_clusters > n_distinct:
                raise ValueError(
                    f"n_clusters={n_clusters} but X has only {n_distinct} distinct rows; use fewer clusters."
                )
            problem = ModeProblem(codes, [column.n_codes for column in columns], self._pricing)
            best = search(problem, self._starts(problem, n_clusters), tol=tol, max_iter=max_iter)
            self._modes = best.state
            self.modes_ = np.column_stack([column.shown(best.state[:, at]) for at, column in enumerate(columns)])
            self._set_descent(best)
            self._set_rows(codes.astype(np.float64), None)
        self._warn_unless_converged()
        return self

    def _check_new(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._codes(self._table(X, reset=False))

    def _table(self, X: Any, **options: Any) -> NDArray[Any]:
        where = place_of(X)
        if where is not None:
            self._check_there(where)
        with reading_table(X):
            table = validate_data(self, X, dtype=None, ensure_all_finite=False, **options)
        if (table.dtype.kind in "fc" and not np.isfinite(table).all()) or table.dtype.kind == "O":
            _refuse_missing(table, getattr(self, "feature_names_in_", None))
        return table

    def _codes(self, table: NDArray[Any]) -> IntArray:
        return np.column_stack([column.codes(values) for column, values in zip(self._columns, table.T, strict=True)])

    def _starts(self, problem: "ModeProblem", n_clusters: int) -> list[IntArray]:
        n_init = check_starts(self.n_init)
        if not isinstance(self.init, str):
            given = np.asarray(self.init, dtype=object)
            if given.shape != (n_clusters, self.n_features_in_):
                raise ValueError(
                    f"init must be a name or have shape {(n_clusters, self.n_features_in_)}, got {given.shape}."
                )
            codes = self._codes(given)
            if len(np.unique(codes, axis=0)) < n_clusters:
                raise ValueError("init must hold distinct modes, but some rows are identical.")
            return [codes]
        random = check_random(self.random_state)
        indicators = problem.indicators()
        labels = [starting_labels(indicators, n_clusters, self.init, random) for _ in range(n_init)]
        return [problem.modes_of(np.equal.outer(np.arange(n_clusters), groups).astype(float)) for groups in labels]

    def _costs(self) -> Costs:
        return lambda codes: costs_from(
            mode_distances(codes.astype(np.int64), self._modes, self._pricing), self._pricing
        )


class Column:
    """Codes of the categories of one column."""

    def __init__(self, values: NDArray[Any], n_bins: int | None) -> None:
        distinct = _sorted_values(values)
        is_real = distinct.dtype.kind == "f" or (
            distinct.dtype.kind == "O" and all(isinstance(value, float) for value in distinct.tolist())
        )
        self._is_cut = is_real and n_bins is not None and len(distinct) > n_bins
        if self._is_cut and n_bins is not None:
            inner = np.linspace(0, 1, n_bins + 1)[1:-1]
            self.categories = np.unique(np.quantile(values.astype(np.float64), inner))
            self.n_codes = len(self.categories) + 1
        else:
            self.categories = distinct
            self.n_codes = len(distinct)
            self._number = {value: code for code, value in enumerate(distinct.tolist())}

    def codes(self, values: NDArray[Any]) -> IntArray:
        """Codes of the categories; `UNKNOWN` for new ones."""
        if self._is_cut:
            return np.searchsorted(self.categories, values.astype(np.float64), side="right").astype(np.int64)
        return np.array([self._number.get(value, UNKNOWN) for value in _hashable(values)], dtype=np.int64)

    def shown(self, codes: IntArray) -> NDArray[Any]:
        """Categories, or bin numbers, of codes."""
        found = np.empty(len(codes), dtype=object)
        found[:] = codes.tolist() if self._is_cut else [self.categories.tolist()[code] for code in codes]
        return found


def _hashable(values: NDArray[Any]) -> list[Any]:
    """Entries of a column; unhashable ones as strings."""
    return [value if value.__hash__ is not None else repr(value) for value in values.tolist()]


def _sorted_values(values: NDArray[Any]) -> NDArray[Any]:
    entries = _hashable(values)
    try:
        distinct = sorted(set(entries))
    except TypeError:  # Types that cannot be compared: sort by type, then as strings.
        distinct = sorted(set(entries), key=lambda value: (type(value).__name__, repr(value)))
    found = np.empty(len(distinct), dtype=object)
    found[:] = distinct
    return found.astype(values.dtype) if values.dtype.kind != "O" else found


def _refuse_missing(table: NDArray[Any], names: Any) -> None:
    """Raise on the first missing entry."""
    for (row, column), entry in np.ndenumerate(table):
        is_real = isinstance(entry, float | np.floating)
        # Recognise the missing values of pandas by type, without importing it.
        is_missing = entry is None or (is_real and np.isnan(entry)) or type(entry).__name__ in {"NAType", "NaTType"}
        is_infinite = is_real and np.isinf(entry)
        if is_missing or is_infinite:
            what = "infinity" if is_infinite else "NaN"
            place = f"column {column}" if names is None else f"column {column} ({names[column]!r})"
            raise ValueError(
                f"Input X contains {what} at row {row}, {place}; drop, impute or encode it as a category first."
            )


class ModeProblem:
    """Distances to modes, and the modes of weighted rows."""

    def __init__(self, codes: IntArray, n_codes: list[int], pricing: Pricing) -> None:
        self._codes, self._n_codes, self.pricing = codes, n_codes, pricing

    def set_distances(self, state: IntArray) -> FloatArray:
        """Squared distances (n_sets, n) of the rows to the non-empty sets."""
        return mode_distances(self._codes, state, self.pricing)

    def proposal(self, sums: MassSums, state: IntArray, cluster: int) -> IntArray:
        """State with the most frequent categories as the cluster's mode, unless another cluster has it."""
        mode = self.modes_of(singleton_powers(sums.masses, self.pricing)[cluster : cluster + 1])[0]
        if (state == mode).all(axis=1).any():
            return state
        moved = state.copy()
        moved[cluster] = mode
        return moved

    def modes_of(self, weights: FloatArray) -> IntArray:
        """Heaviest category of each column (C, n_features) with weights (C, n) of the rows."""
        counts = (
            np.stack([np.bincount(codes, row, minlength=size) for row in weights])
            for codes, size in zip(self._codes.T, self._n_codes, strict=True)
        )
        return np.column_stack([count.argmax(axis=1) for count in counts]).astype(np.int64)

    def indicators(self) -> FloatArray:
        """One-hot encoding of the categories."""
        blocks = [np.equal.outer(c, np.arange(size)) for c, size in zip(self._codes.T, self._n_codes, strict=True)]
        return np.hstack(blocks).astype(np.float64)


def mode_distances(codes: IntArray, modes: IntArray, pricing: Pricing) -> FloatArray:
    """Squared distances (n_sets, n) of coded rows to sets of modes."""
    to_clusters = np.stack([(codes != mode).sum(axis=1) for mode in modes]).astype(np.float64)
    sizes = np.count_nonzero(pricing.shares, axis=1)[:, None]
    return np.square(pricing.shares @ to_clusters / sizes)
