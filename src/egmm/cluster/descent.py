"""Alternating minimisation over masses and parameters."""

from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

from egmm.cluster.masses import ROUNDING
from egmm.rows.threads import one_blas_thread


class HasObjective(Protocol):
    """Result of a pass over the rows: at least the objective."""

    @property
    def objective(self) -> float:
        """Value that updates never increase."""


State = TypeVar("State")
Sums = TypeVar("Sums", bound=HasObjective)


class Descent(NamedTuple, Generic[State]):
    """Result of an alternating minimisation, with the history of the objective."""

    state: State
    history: list[float]
    converged: bool


def descend(
    state: State,
    evaluate: Callable[[State], Sums],
    update: Callable[[Sums, State], State],
    *,
    tol: float,
    max_iter: int,
) -> Descent[State]:
    """Alternate masses and parameters until the objective changes by at most `tol`.

    Changes within rounding count as zero, so that any `tol` can be met.
    """
    with one_blas_thread():
        sums = evaluate(state)
        history, has_settled = [sums.objective], False
        while len(history) <= max_iter and not has_settled:
            state = update(sums, state)
            sums = evaluate(state)
            history.append(sums.objective)
            has_settled = abs(history[-2] - history[-1]) <= max(tol, ROUNDING * abs(history[-1]))
    return Descent(state, history, has_settled)
