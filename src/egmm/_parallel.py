"""Independent jobs in processes, where that is faster."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from joblib import Parallel, delayed

SECONDS_ALONE = 1.0
"""Seconds after which processes may be started for the remaining jobs."""

SECONDS_TO_START = 3.0
"""Seconds of remaining work below which starting processes does not pay."""

Result = TypeVar("Result")


def in_order(function: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], n_jobs: int) -> Iterator[Result]:
    """Call ``function(*job)`` in sequence while that is fast, then the rest in processes.

    Results are in the order of `jobs`. In a worker process the function is called with ``n_jobs=1`` and should use one
    thread.
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
    """Whether processes would speed up the remaining jobs, judged by the time so far."""
    return spent >= SECONDS_ALONE and spent / n_done * (n_all - n_done) >= SECONDS_TO_START
