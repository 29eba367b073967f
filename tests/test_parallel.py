"""Jobs in this process while that is quick, in others when it pays."""

import os

import pytest

from egmm import _parallel
from egmm._parallel import in_order


def test_quick_jobs_stay_in_this_process_and_in_order():
    jobs = [(number,) for number in range(20)]
    assert list(in_order(lambda number: (number, os.getpid()), jobs, 4)) == [(n, os.getpid()) for n in range(20)]
    assert list(in_order(lambda number: number, [], 4)) == []


def test_processes_pay_when_much_is_left():
    assert not _parallel._pays(0, 0.0, 100)
    assert not _parallel._pays(50, 0.9, 100)
    assert not _parallel._pays(10, 2.0, 20)
    assert _parallel._pays(10, 2.0, 40)


@pytest.mark.slow
def test_long_jobs_go_to_other_processes_with_one_thread_each(monkeypatch):
    monkeypatch.setattr(_parallel, "_pays", lambda n_done, spent, n_all: n_done == 1)
    jobs = [(number,) for number in range(4)]
    results = list(in_order(lambda number, n_jobs=None: (number, n_jobs, os.getpid()), jobs, 2))
    assert [(number, n_jobs) for number, n_jobs, _ in results] == [(0, None), (1, 1), (2, 1), (3, 1)]
    assert results[0][2] == os.getpid()
    assert os.getpid() not in {pid for *_, pid in results[1:]}
