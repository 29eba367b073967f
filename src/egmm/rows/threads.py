"""Threads that process blocks of rows, a few ahead of the consumer."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from numbers import Integral
from typing import Any, Self, TypeVar

from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")


class Threads:
    """An ordered map over blocks; a context manager that owns its threads.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads, as in `resolve_jobs`. One means the caller's thread.
    """

    def __init__(self, n_jobs: int | None) -> None:
        self.n_jobs = resolve_jobs(n_jobs)
        self._pool: ThreadPoolExecutor | None = None
        self.is_closing = False
        """Whether results are no longer wanted; long jobs look, and end early."""

    def map(
        self, function: Callable[..., Result], blocks: Iterable[tuple[Any, ...]], ahead: int = 2
    ) -> Iterator[Result]:
        """Apply ``function(*block)`` to every block in order, holding `ahead` results per thread."""
        if self.n_jobs == 1:
            yield from (function(*block) for block in blocks)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_jobs, thread_name_prefix="egmm")
        waiting: deque[Future[Result]] = deque()
        for block in blocks:
            waiting.append(self._pool.submit(function, *block))
            if len(waiting) > ahead * self.n_jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads."""
        self.is_closing = True
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def resolve_jobs(n_jobs: Any) -> int:
    """Number of workers: None and -1 mean all available cores, -2 all but one.

    >>> resolve_jobs(3), resolve_jobs(-1) == resolve_jobs(None) == available_cores()
    (3, True)
    """
    if n_jobs is None:
        return available_cores()
    wanted = "an integer >= 1, or -1 for all cores"
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral):
        raise TypeError(f"n_jobs must be {wanted}, got {n_jobs!r}.")
    number = int(n_jobs)
    if number == 0:
        raise ValueError(f"n_jobs must be {wanted}, got 0.")
    return number if number > 0 else max(1, available_cores() + 1 + number)


def available_cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread, so that results do not depend on the number of cores.

    Blocks of rows are shared among threads instead. OpenMP's limit is per thread, but BLAS may have one for the whole
    process. It holds while any caller is inside: if every thread restored it, the first to leave would lift it for the
    others.
    """
    _limit.acquire()
    try:
        with _controller().limit(limits=1):
            yield
    finally:
        _limit.release()


class _SharedLimit:
    """The process-wide limit on BLAS threads, held while any caller needs it.

    A dedicated thread sets and lifts it: only the thread that set a limit may lift it (threadpoolctl 3.8).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._holder = ThreadPoolExecutor(1, thread_name_prefix="egmm-blas")
        self._held = ExitStack()

    def acquire(self) -> None:
        with self._lock:
            if self._users == 0:
                self._holder.submit(self._hold).result()
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._holder.submit(self._held.close).result()

    def _hold(self) -> None:
        self._held.enter_context(_controller().limit(limits=1, user_api="blas"))


_limit = _SharedLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.__init__)  # type: ignore[misc]  # threads do not survive a fork


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
