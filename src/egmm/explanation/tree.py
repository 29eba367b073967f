"""A short decision tree that explains a credal partition; every leaf is a set of clusters."""

from collections.abc import Iterator, Sequence
from html import escape
from math import inf, isnan
from typing import Any, NamedTuple

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray, check_finite_matrix, check_integer, check_same_length
from egmm.belief.focal import FocalSets
from egmm.belief.partition import CredalPartition, check_partition
from egmm.explanation.profiles import names_of


class Node(NamedTuple):
    """A split by a threshold, or a leaf, which has no feature."""

    rows: int
    sets: IntArray
    """Columns of the node's focal sets."""
    feature: int = -1
    threshold: float = inf
    below: Any = None
    """Child for values up to the threshold."""
    above: Any = None


class Rule(NamedTuple):
    """A path from the root of the tree to a leaf.

    Attributes
    ----------
    conditions : tuple of str
        Conditions on the rows, such as ``'petal_width <= 0.8'``.
    members : frozenset of int
        Clusters of the leaf's sets, counted from zero.
    label : str
        Printed name, such as ``'{1,2}'``; clusters counted from one.
    rows : int
        Number of rows.
    agreement : float
        Mean utility of the rule's set for these rows, from 0 to 1; see `Explanation.score`.
    """

    conditions: tuple[str, ...]
    members: frozenset[int]
    label: str
    rows: int
    agreement: float


class Explanation:
    """Rules that explain a credal partition, built by :func:`explain`.

    Attributes
    ----------
    rules : list of Rule
        One per leaf, from left to right.
    feature_names : list of str
        Names of the features.
    caution : float
        Parameter of the utility; see :func:`explain`.
    """

    def __init__(self, root: Node, focal: FocalSets, feature_names: list[str], caution: float) -> None:
        self._root, self._focal = root, focal
        self.feature_names, self.caution = feature_names, caution
        self.rules: list[Rule] = []

    @property
    def n_leaves(self) -> int:
        """Number of rules."""
        return len(self.rules)

    def sets(self, X: Any) -> BoolArray:
        """Clusters of the rule that applies to each row, boolean (n_samples, n_clusters).

        >>> X = [[0.0], [0.2], [1.0], [1.1]]
        >>> explain(CredalPartition.from_labels([0, 0, 1, 1]), X).sets([[0.3], [0.9]])
        array([[ True, False],
               [False,  True]])
        """
        rows = check_finite_matrix("X", X, (None, len(self.feature_names)))
        found = np.zeros((len(rows), self._focal.n_clusters), dtype=bool)
        for node, at in _reached(self._root, rows, np.arange(len(rows))):
            found[at] = self._focal.membership[node.sets].any(axis=0)
        return found

    def score(self, partition: CredalPartition, X: Any, caution: float | None = None) -> float:
        r"""Mean utility of the rules' sets :math:`A_i`, :math:`\frac1n \sum_i \sum_B m_i(B)\, S(A_i, B)`.

        Parameters
        ----------
        partition : CredalPartition
            Masses of the rows.
        X : array-like of shape (n_samples, n_features)
            Rows.
        caution : float, default=None
            Parameter of the utility S; None means that of the tree.

        Returns
        -------
        score : float
            From 0 to 1; 1 if every rule's set is the certain set of its rows.
        """
        return float(self._utilities(check_partition("partition", partition), X, caution).mean())

    def _utilities(self, partition: CredalPartition, X: Any, caution: float | None = None) -> FloatArray:
        focal = partition.focal_sets
        utility = set_utilities(self.sets(X), focal.membership, self.caution if caution is None else caution)
        return np.asarray((partition.mass * utility).sum(axis=1))

    def __str__(self) -> str:
        return "\n".join(self._lines(self._root, iter(self.rules)))

    def _lines(self, node: Node, rules: Iterator[Rule], indent: str = "") -> list[str]:
        if node.feature < 0:
            rule = next(rules)
            noun = "row" if rule.rows == 1 else "rows"
            return [f"{indent}{rule.label}  {rule.rows} {noun}, agreement {rule.agreement:.2f}"]
        name, at = self.feature_names[node.feature], f"{node.threshold:.4g}"
        lines = [f"{indent}{name} <= {at}", *self._lines(node.below, rules, indent + "|   ")]
        return [*lines, f"{indent}{name} > {at}", *self._lines(node.above, rules, indent + "|   ")]

    def __repr__(self) -> str:
        return f"<Explanation: {self.n_leaves} rules of {self._focal.n_clusters} clusters>"

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><td style='text-align:left'>{escape(' and '.join(rule.conditions) or 'all rows')}</td>"
            f"<td>{escape(rule.label)}</td><td>{rule.rows}</td><td>{rule.agreement:.2f}</td></tr>"
            for rule in self.rules
        )
        head = "<tr><th>if</th><th>clusters</th><th>rows</th><th>agreement</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def explain(
    partition: CredalPartition,
    X: Any,
    *,
    feature_names: Sequence[str] | None = None,
    caution: float = 1.0,
    max_leaves: int | None = None,
) -> Explanation:
    r"""Explain a partition by a short decision tree.

    Every set that is the heaviest of some row has a centroid, the mean of its rows weighted by their mass on it. A
    split must have a centroid on each side; among all features and thresholds the one with the least cost is chosen.
    The tree is complete when each leaf has one centroid, so it has at most as many leaves as there are sets.

    The cost is measured by the utility of assigning the set A where B is true, with
    :math:`r = |A \cap B| / |A \cup B|`:

    .. math:: S(A, B) = r^{1/|\lambda|} \text{ if } B \subseteq A\ (\lambda > 0)
        \text{ or } A \subseteq B\ (\lambda < 0), \text{ else } 0

    and exact agreement for :math:`\lambda = 0`. For :math:`\lambda \ge 0` a split costs the utility of the sets that
    end up on the other side of a row; for :math:`\lambda < 0`, the utility that the sets on the row's side lack.

    Parameters
    ----------
    partition : CredalPartition
        Masses of the rows.
    X : array-like of shape (n_samples, n_features)
        Rows, in the units of the rules.
    feature_names : sequence of str, default=None
        Names of the features; None means the columns of a data frame, or x1, x2, ...
    caution : float, default=1.0
        The parameter :math:`\lambda`, from ``-inf`` to ``inf``. Positive values prefer rules with too many clusters to
        wrong ones, negative values rules with too few clusters. At 0 only the exact set counts.
    max_leaves : int or None, default=None
        Largest number of rules. Splits with the least cost are made first.

    Returns
    -------
    Explanation

    References
    ----------
    Iterative evidential mistakeness minimisation (IEMM), arXiv 2507.12192. Costs are computed for all thresholds of
    a feature at once from sorted cumulative sums.

    Examples
    --------
    >>> from egmm.datasets import make_diamond
    >>> X, y = make_diamond()
    >>> sure, either = np.eye(3)[[0, 1]], np.eye(3)[2]  # masses on {1}, {2} and {1,2}
    >>> partition = CredalPartition(np.where(y[:, None] < 0, either, sure[y]), FocalSets.full(2))
    >>> print(explain(partition, X))
    x1 <= -1
    |   {1}  5 rows, agreement 1.00
    x1 > -1
    |   x1 <= 1
    |   |   {1,2}  1 row, agreement 1.00
    |   x1 > 1
    |   |   {2}  5 rows, agreement 1.00
    """
    names = names_of(X, feature_names)
    rows = check_finite_matrix("X", X, (None, None))
    check_same_length("X", rows, "partition", check_partition("partition", partition))
    if len(names) != rows.shape[1]:
        raise ValueError(f"feature_names must have {rows.shape[1]} entries, got {len(names)}.")
    if isnan(caution):
        raise ValueError(f"caution must be a number from -inf to inf, got {caution!r}.")
    most = inf if max_leaves is None else check_integer("max_leaves", max_leaves, 1)
    focal = partition.focal_sets
    chosen = np.unique(partition.sets())
    chosen = chosen[focal.cardinalities[chosen] > 0]
    if len(chosen) == 0:
        raise ValueError("partition must have a row with mass on a cluster, but all rows are outliers.")
    mass = partition.mass
    centroids = (mass[:, chosen].T @ rows) / mass[:, chosen].sum(axis=0)[:, None]
    utility = mass @ set_utilities(focal.membership[chosen], focal.membership, float(caution)).T
    search = _Search(rows, centroids, utility, is_lack=caution < 0)
    root = _grow(search, chosen, most)
    found = Explanation(root, focal, names, float(caution))
    found.rules = _rules(found, partition, rows)
    return found


def set_utilities(assigned: BoolArray, true: BoolArray, caution: float) -> FloatArray:
    """Utility of assigning one set where another is true, (n_assigned, n_true).

    >>> one, both = [True, False], [True, True]
    >>> set_utilities(np.array([one, both]), np.array([one, both]), 1.0)
    array([[1. , 0. ],
           [0.5, 1. ]])
    """
    first, second = assigned[:, None, :], true[None, :, :]
    common, union = (first & second).sum(axis=-1), (first | second).sum(axis=-1)
    ratio = np.divide(common, union, out=np.ones(common.shape), where=union > 0)
    sizes = assigned.sum(axis=-1)[:, None], true.sum(axis=-1)[None, :]
    if caution == 0:
        return np.floor(ratio)
    allowed = common == (sizes[1] if caution > 0 else sizes[0])
    power = np.ceil(ratio) if abs(caution) == inf else ratio ** (1.0 / abs(caution))
    return np.where(allowed, power, 0.0)


class _Split(NamedTuple):
    cost: float
    feature: int
    threshold: float


class _Search(NamedTuple):
    """Data for the choice of splits; sets are positions among the explained ones."""

    rows: FloatArray
    centroids: FloatArray
    utility: FloatArray
    """Utility of each set for each row, (n_samples, n_sets)."""
    is_lack: bool
    """Whether a split costs the utility that a row's sets lack, rather than that of the sets it loses."""

    def best(self, at: IntArray, sets: IntArray) -> _Split | None:
        """Split of rows and sets with the least cost; None if no threshold separates the sets."""
        found = [split for d in range(self.rows.shape[1]) if (split := self._best_of(d, at, sets)) is not None]
        return min(found, key=lambda split: split.cost) if found else None

    def _best_of(self, feature: int, at: IntArray, sets: IntArray) -> _Split | None:
        order = np.argsort(self.rows[at, feature], kind="stable")
        values = self.rows[at[order], feature]
        centroids = self.centroids[sets, feature]
        ends = np.flatnonzero(values[1:] > values[:-1])
        thresholds = 0.5 * (values[ends] + values[ends + 1])
        # The midpoint of two neighbouring doubles may round up to the larger.
        thresholds = np.where(thresholds < values[ends + 1], thresholds, values[ends])
        is_below = centroids[None, :] <= thresholds[:, None]
        usable = is_below.any(axis=1) & ~is_below.all(axis=1)
        if not usable.any():
            return None
        thresholds, is_below, n_below = thresholds[usable], is_below[usable], ends[usable] + 1
        sums = np.cumsum(self.utility[at[order]][:, sets], axis=0)
        below, above = sums[n_below - 1], sums[-1] - sums[n_below - 1]
        if self.is_lack:
            n_sets = is_below.sum(axis=1)
            own_below = (is_below * (n_below[:, None] - below)).sum(axis=1) / n_sets
            lack_above = (len(at) - n_below)[:, None] - above
            costs = own_below + (~is_below * lack_above).sum(axis=1) / (len(sets) - n_sets)
        else:
            costs = (~is_below * below + is_below * above).sum(axis=1)
        least = int(np.argmin(costs))
        return _Split(float(costs[least]) / len(at), feature, float(thresholds[least]))


def _grow(search: _Search, chosen: IntArray, most: float) -> Node:
    """Split the node with the least cost until there are enough leaves or none can be split."""
    # Nodes are lists while the tree grows: [rows, sets, split, below, above].
    root: list[Any] = _open_node(search, np.arange(len(search.rows)), np.arange(len(chosen)))
    leaves = [root]
    while len(leaves) < most:
        splittable = [node for node in leaves if node[2] is not None]
        if not splittable:
            break
        node = min(splittable, key=lambda node: node[2].cost)
        at, sets, split = node[:3]
        is_below = search.rows[at, split.feature] <= split.threshold
        sets_below = search.centroids[sets, split.feature] <= split.threshold
        node[3] = _open_node(search, at[is_below], sets[sets_below])
        node[4] = _open_node(search, at[~is_below], sets[~sets_below])
        place = next(i for i, leaf in enumerate(leaves) if leaf is node)
        leaves[place : place + 1] = node[3:]
    return _closed(root, chosen)


def _open_node(search: _Search, at: IntArray, sets: IntArray) -> list[Any]:
    return [at, sets, search.best(at, sets) if len(sets) > 1 and len(at) > 1 else None, None, None]


def _closed(node: list[Any], chosen: IntArray) -> Node:
    at, sets, split, below, above = node
    if below is None:
        return Node(len(at), chosen[sets])
    return Node(len(at), chosen[sets], split.feature, split.threshold, _closed(below, chosen), _closed(above, chosen))


def _reached(node: Node, rows: FloatArray, at: IntArray) -> Iterator[tuple[Node, IntArray]]:
    """Leaves from left to right, each with the rows that reach it."""
    if node.feature < 0:
        yield node, at
        return
    is_below = rows[at, node.feature] <= node.threshold
    yield from _reached(node.below, rows, at[is_below])
    yield from _reached(node.above, rows, at[~is_below])


def _rules(found: Explanation, partition: CredalPartition, rows: FloatArray) -> list[Rule]:
    utilities = found._utilities(partition, rows)
    paths = _paths(found._root, found.feature_names)
    rules = []
    for (node, at), path in zip(_reached(found._root, rows, np.arange(len(rows))), paths, strict=True):
        members = frozenset(int(k) for k in np.flatnonzero(partition.focal_sets.membership[node.sets].any(axis=0)))
        label = "{" + ",".join(str(k + 1) for k in sorted(members)) + "}"
        rules.append(Rule(path, members, label, len(at), float(utilities[at].mean()) if len(at) else 0.0))
    return rules


def _paths(node: Node, names: Sequence[str], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if node.feature < 0:
        yield path
        return
    name, at = names[node.feature], f"{node.threshold:.4g}"
    yield from _paths(node.below, names, (*path, f"{name} <= {at}"))
    yield from _paths(node.above, names, (*path, f"{name} > {at}"))
