r"""Sums of products of masses: the plan of a combination step, and its execution on blocks of rows.

A step combines a left and a right source by a semilattice operation, intersection or union of sets. Every left set
:math:`A` splits the right sets :math:`B` into groups with equal :math:`A \cap B`; a group is summed first and
multiplied once. The groups of a set that contains :math:`A` refine those of :math:`A`, because
:math:`A \cap B = A \cap (A' \cap B)` for :math:`A \subseteq A'` and their sums are reused: two full power sets take
about :math:`3 \cdot 3^C` passes over a row instead of :math:`2 \cdot 4^C`, without subtraction.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from egmm._checks import BoolArray, FloatArray, IntArray

_BLOCK_DOUBLES = 1 << 18
"""Doubles in all buffers of a block, about the size of the second-level cache."""

_MIN_ROWS = 512
"""Below this number of rows, call overhead outweighs the cache."""

Operation = Callable[..., IntArray]


class Group(NamedTuple):
    """Right columns with the same result: sum the members, multiply by the left column, add to the result."""

    members: tuple[int, ...]
    slot: int
    left: int
    out: int
    is_first: bool


class Step(NamedTuple):
    """Plan for one more source: the groups in order, and the states of the result columns."""

    groups: tuple[Group, ...]
    n_slots: int
    states: IntArray
    has_dropped: bool


def plan_step(
    left: IntArray, right: IntArray, operations: Sequence[Operation], land: Callable[[IntArray], IntArray]
) -> Step:
    """Arrange the products of two sources.

    Parameters
    ----------
    left, right : ndarray of int64 of shape (n_left, width), (n_right, width)
        State of each column, such as the bit mask of its set.
    operations : sequence of ufunc
        One per entry of a state: ``np.bitwise_and`` or ``np.bitwise_or``.
    land : callable
        Maps states of products to states of results, (n, width) to (n, any width); a negative first entry drops them.
        Whatever follows from a dropped state must be dropped too, as with an empty intersection.

    Returns
    -------
    step : Step
        Its states are sorted and unique.
    """
    nodes = _split(left, right, operations)
    landed = [land(node.states) for node in nodes]
    flat = np.concatenate(landed)
    states, columns = np.unique(flat, axis=0, return_inverse=True)
    n_dropped = int((states[:, 0] < 0).sum())
    outs = np.split(columns.reshape(-1) - n_dropped, np.cumsum([len(part) for part in landed])[:-1])
    groups, n_slots = _linearise(nodes, outs, len(right))
    return Step(groups, n_slots, states[n_dropped:], n_dropped > 0)


def plan_union_step(left: IntArray, right: IntArray) -> Step:
    r"""Arrange the products of two sources, with the union in place of an empty intersection.

    Few products are empty, :math:`3^C` of the :math:`4^C` of two power sets, so unions are tracked only for those.

    Parameters
    ----------
    left : ndarray of int64 of shape (n_left, 2)
        Intersection and union of the sets so far, of each column.
    right : ndarray of int64 of shape (n_right,)
        Bit mask of each column's set.

    Returns
    -------
    step : Step
        Its states, (n_out, 1), are sorted and unique.
    """
    nodes = _split(left[:, :1], right[:, None], (np.bitwise_and,))
    apart = [np.flatnonzero(right & inner == 0) for inner in left[:, 0]]
    unions = [right[columns] | union for columns, union in zip(apart, left[:, 1], strict=True)]
    meets = np.concatenate([node.states[:, 0] for node in nodes])
    states = np.unique(np.concatenate([meets[meets != 0], *unions]))
    outs = [np.where(node.states[:, 0] == 0, -1, np.searchsorted(states, node.states[:, 0])) for node in nodes]
    groups, n_slots = _linearise(nodes, outs, len(right))
    seen = {group.out for group in groups}
    parted = list(groups)
    for column, (columns, landed) in enumerate(zip(apart, unions, strict=True)):
        if len(columns) == 0:
            continue
        for members, out in _by_result(columns, np.searchsorted(states, landed)):
            # The sums of intersections are no longer needed: reuse any of their buffers.
            slot = members[0] if len(members) == 1 else len(right)
            parted.append(Group(members, slot, column, out, out not in seen))
            seen.add(out)
    return Step(tuple(parted), max(n_slots, 1), states[:, None], has_dropped=False)


def _by_result(columns: IntArray, outs: IntArray) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the columns of each result."""
    order = np.argsort(outs, kind="stable")
    results, first = np.unique(outs[order], return_index=True)
    for result, members in zip(results.tolist(), np.split(columns[order], first[1:]), strict=True):
        yield tuple(members.tolist()), result


class _Node(NamedTuple):
    """Groups of one left column, as members of the parent's groups (of the right columns for parent -1)."""

    left: int
    parent: int
    members: list[IntArray]
    states: IntArray


def _apply(operations: Sequence[Operation], states: IntArray, by: IntArray) -> IntArray:
    """Combine one state with many, entry by entry."""
    return np.stack([op(states[:, e], by[e]) for e, op in enumerate(operations)], axis=1)


def _distinct(states: IntArray) -> tuple[IntArray, IntArray]:
    """Distinct states in order, and the number of each one's; single integers are sorted much faster than rows."""
    if states.shape[1] > 1:
        found, inverse = np.unique(states, axis=0, return_inverse=True)
        return found, inverse.reshape(-1)
    numbers, inverse = np.unique(states[:, 0], return_inverse=True)
    return numbers[:, None], inverse


def _split(left: IntArray, right: IntArray, operations: Sequence[Operation]) -> list[_Node]:
    """Group the right states under every left state, each from the coarsest grouping that still tells them apart."""
    n_groups = np.array([len(_distinct(_apply(operations, right, state))[0]) for state in left])
    nodes: list[_Node] = []
    placed = np.empty((0, left.shape[1]), dtype=np.int64)
    sizes = np.empty(0, dtype=np.int64)
    for column in np.argsort(-n_groups, kind="stable"):
        state = left[column]
        finer = np.flatnonzero((_apply(operations, placed, state) == state).all(axis=1))
        parent = int(finer[np.argmin(sizes[finer])]) if finer.size else -1
        above = nodes[parent].states if parent >= 0 else right
        states, inverse = _distinct(_apply(operations, above, state))
        members = np.split(np.argsort(inverse, kind="stable"), np.cumsum(np.bincount(inverse))[:-1])
        nodes.append(_Node(int(column), parent, members, states))
        placed = np.vstack([placed, state])
        sizes = np.append(sizes, len(states))
    return nodes


def _linearise(nodes: list[_Node], outs: list[IntArray], n_right: int) -> tuple[tuple[Group, ...], int]:
    """Order the groups depth first, so that a scratch buffer is free again once its subtree is done."""
    children: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        children.setdefault(node.parent, []).append(index)
    groups: list[Group] = []
    seen: set[int] = set()
    n_slots = 0
    stack = [(index, list(range(n_right)), 0) for index in reversed(children.get(-1, []))]
    while stack:
        index, above, used = stack.pop()
        node, slots = nodes[index], []
        for members, out in zip(node.members, outs[index], strict=True):
            buffers = tuple(above[m] for m in members)
            if out < 0:
                slots.append(-1)
                continue
            slot = buffers[0]
            if len(buffers) > 1:
                slot, used = n_right + used, used + 1
            groups.append(Group(buffers, slot, node.left, int(out), int(out) not in seen))
            seen.add(int(out))
            slots.append(slot)
        n_slots = max(n_slots, used)
        stack += [(child, slots, used) for child in reversed(children.get(index, []))]
    return tuple(groups), n_slots


def run_step(step: Step, left: FloatArray, right: FloatArray, scratch: FloatArray, out: FloatArray) -> None:
    """Fill `out` (n_out, rows) from `left` and `right` (n_focal, rows), given `scratch` (n_slots + 1, rows)."""
    product = scratch[0]
    buffers = [*right, *scratch[1:]]
    factors, results = list(left), list(out)
    for members, slot, factor, result, is_first in step.groups:
        if len(members) > 1:
            total = buffers[slot]
            np.add(buffers[members[0]], buffers[members[1]], out=total)
            for member in members[2:]:
                np.add(total, buffers[member], out=total)
        if is_first:
            np.multiply(factors[factor], buffers[slot], out=results[result])
        else:
            np.multiply(factors[factor], buffers[slot], out=product)
            np.add(results[result], product, out=results[result])


def fold(masses: Sequence[FloatArray], steps: Sequence[Step]) -> tuple[FloatArray, BoolArray]:
    """Combine sources row by row and divide by the row sums; rows of zeros stay zero.

    Parameters
    ----------
    masses : sequence of ndarray of shape (n_samples, n_focal)
        Two sources or more, in the column order of their states.
    steps : sequence of Step
        One for each source after the first.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_out)
        No temporary is larger than the buffers of a block.
    is_lost : ndarray of bool of shape (n_samples,)
        Rows with no mass left.
    """
    n_rows = len(masses[0])
    result, is_lost = np.empty((n_rows, len(steps[-1].states))), np.empty(n_rows, dtype=bool)
    buffers = _buffers(masses, steps)
    size = buffers[0].shape[1]
    for start in range(0, n_rows, size):
        block = slice(start, min(start + size, n_rows))
        left, *others = (buffer[:, : block.stop - start] for buffer in buffers)
        np.copyto(left, masses[0][block].T)
        for number, step in enumerate(steps):
            right, scratch, out = others[3 * number : 3 * number + 3]
            np.copyto(right, masses[number + 1][block].T)
            run_step(step, left, right, scratch, out)
            # Normalised at every step, so that many sources do not underflow.
            totals = np.add.reduce(out, axis=0)
            is_lost[block] = totals == 0
            totals[is_lost[block]] = 1.0
            left = np.divide(out, totals, out=out)
        result[block] = left.T
    return result, is_lost


def _buffers(masses: Sequence[FloatArray], steps: Sequence[Step]) -> list[FloatArray]:
    """One block of the first source; then, for each step, of the next source, the scratch and the result."""
    widths = [masses[0].shape[1]]
    for source, step in zip(masses[1:], steps, strict=True):
        widths += [source.shape[1], step.n_slots + 1, len(step.states)]
    size = min(max(_MIN_ROWS, _BLOCK_DOUBLES // sum(widths)), max(len(masses[0]), 1))
    return [np.empty((width, size)) for width in widths]
