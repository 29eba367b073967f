"""Many independent jobs, on as many processes as pay."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from joblib import Parallel, delayed

SECONDS_ALONE = 1.0
"""After so long, what is left may be worth starting processes for."""

SECONDS_TO_START = 3.0
"""Work left that is shorter is done in this process; starting others would take as long."""

Result = TypeVar("Result")


def in_order(function: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], n_jobs: int) -> Iterator[Result]:
    """Call ``function(*job)`` one after another while that is quick, then the rest in processes.

    Results come in the order of `jobs`. In a process beside others it is called with ``n_jobs=1``: it should then keep
    to one thread.
    """
    done, spent = 0, 0.0
    while done < len(jobs) and (n_jobs == 1 or not _pays(done, spent, len(jobs))):
        began = time.monotonic()
        result = function(*jobs[done])
        spent += time.monotonic() - began
        done += 1
        yield result
    if done < len(jobs):
        workers = Parallel(n_jobs=n_jobs, return_as="generator")
        yield from workers(delayed(function)(*job, n_jobs=1) for job in jobs[done:])


def _pays(n_done: int, spent: float, n_all: int) -> bool:
    """Whether processes would shorten what is left, as far as the time spent tells."""
    return spent >= SECONDS_ALONE and spent / n_done * (n_all - n_done) >= SECONDS_TO_START
