"""Threads that work on blocks in order, and the limit on those of BLAS."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_info

from egmm.rows.threads import Threads, one_blas_thread


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_come_in_order(n_jobs: int) -> None:
    with Threads(n_jobs) as threads:
        assert list(threads.map(lambda x: 2 * x, ((x,) for x in range(100)))) == list(range(0, 200, 2))


def test_few_blocks_are_held_at_a_time() -> None:
    drawn = 0

    def blocks() -> Iterator[tuple[int]]:
        nonlocal drawn
        for drawn in range(100):
            yield (drawn,)

    with Threads(3) as threads:
        results = threads.map(lambda x: x, blocks())
        assert next(results) == 0
        assert drawn <= 7


def test_errors_reach_the_caller() -> None:
    with Threads(2) as threads, pytest.raises(ZeroDivisionError, match="division by zero"):
        list(threads.map(lambda x: 1 / x, ((x,) for x in range(3))))


def test_the_limit_lasts_until_the_last_thread_that_wants_it_is_done() -> None:
    before = blas_threads()
    with one_blas_thread():
        pass
    assert blas_threads() == before
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with one_blas_thread():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    with one_blas_thread():
        leave.set()
        thread.join()
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


FORK = """
import os
from egmm.rows.threads import one_blas_thread
with one_blas_thread():
    pass
child = os.fork()
with one_blas_thread():
    pass
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_sets_its_own_limit() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)


@pytest.mark.parametrize(("n_jobs", "ahead"), [(2, 1), (2, 3), (3, 2)])
def test_as_many_blocks_are_taken_ahead_as_asked_for(n_jobs: int, ahead: int) -> None:
    taken: list[int] = []

    def blocks() -> Iterator[tuple[int]]:
        for number in range(50):
            taken.append(number)
            yield (number,)

    with Threads(n_jobs) as threads:
        results = threads.map(lambda number: number, blocks(), ahead)
        assert next(results) == 0
        assert len(taken) == ahead * n_jobs + 1
