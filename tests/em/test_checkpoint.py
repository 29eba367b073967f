"""Checkpoints: what they resume, and what they refuse."""

from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egmm import EGMM
from egmm.em import summary
from egmm.em.problem import Problem
from egmm.em.sample import draw_sample
from row_sources import assert_same_bits, two_groups


class Killed(Exception):
    """Stands for whatever ends a fit."""


@pytest.fixture
def X() -> np.ndarray:
    return two_groups(600, 2)


@pytest.fixture
def die_at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let fits die at a pass; zero lets them live. What it returns tells how many passes there were."""
    evaluate = Problem.evaluate

    def arm(last: int) -> Any:
        passes = 0

        def mortal(self: Problem, params: Any) -> Any:
            nonlocal passes
            passes += 1
            if passes == last:
                raise Killed
            return evaluate(self, params)

        monkeypatch.setattr(Problem, "evaluate", mortal)
        return lambda: passes

    return arm


OPTIONS: list[dict[str, Any]] = [
    {"n_clusters": 3, "tol": 1e-10},
    {"n_clusters": 3, "tol": 1e-5, "accelerate": False},
    {"n_clusters": 2, "init": "random", "n_init": 4},
    {"n_clusters": 3, "focal_sets": "neighbours"},
    {"n_clusters": 2, "covariance": "VVV"},
    {"n_clusters": 2, "covariance": "VVI", "prior": "default"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ", ".join(map(str, options.values())))
@pytest.mark.parametrize("last", [2, 7, 19, 60])  # at 60 passes Anderson's method has begun to forget
def test_a_fit_that_died_ends_with_the_same_bits(
    last: int, options: dict[str, Any], X: np.ndarray, die_at: Any, tmp_path: Path
) -> None:
    die_at(0)
    whole = EGMM(random_state=3, **options).fit(X)
    model = EGMM(random_state=3, checkpoint=tmp_path / "state", **options)
    die_at(last)
    try:
        model.fit(X)
    except Killed:
        die_at(0)
        model.fit(X)
    assert_same_bits(model, whole)
    np.testing.assert_array_equal(model.labels_, whole.labels_)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("last", [5, -8, -1])  # on the sample first, then on all rows: counted from the end
def test_a_fit_of_many_rows_that_died_ends_with_the_same_bits(
    last: int, X: np.ndarray, die_at: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(summary, "draw_sample", partial(draw_sample, size=100))
    n_passes = die_at(0)
    whole = EGMM(2, random_state=3, tol=1e-12).fit(X)
    model = EGMM(2, random_state=3, tol=1e-12, checkpoint=tmp_path / "state")
    die_at(last if last > 0 else n_passes() + 1 + last)
    with pytest.raises(Killed):
        model.fit(X)
    die_at(0)
    assert_same_bits(model.fit(X), whole)


def test_chance_goes_on_where_it_was(X: np.ndarray, die_at: Any, tmp_path: Path) -> None:
    def model(seed: int, **options: Any) -> EGMM:
        return EGMM(3, init="random", n_init=4, random_state=np.random.RandomState(seed), **options)

    whole = model(3).fit(X)
    die_at(20)
    with pytest.raises(Killed):
        model(3, checkpoint=tmp_path / "state").fit(X)
    die_at(0)
    # A new process has a generator in another state.
    assert_same_bits(model(8, checkpoint=tmp_path / "state").fit(X), whole)


def test_it_goes_on_where_it_was(X: np.ndarray, die_at: Any, tmp_path: Path) -> None:
    n_passes = die_at(0)
    whole = EGMM(3, random_state=3, tol=1e-10).fit(X).n_iter_
    most = n_passes() // 2 + 12
    assert most < n_passes()
    model = EGMM(3, random_state=3, tol=1e-10, checkpoint=tmp_path / "state")
    die_at(most)
    with pytest.raises(Killed):
        model.fit(X)
    die_at(most)  # So few passes more are enough only for a fit that does not begin anew.
    assert model.fit(X).n_iter_ == whole


@pytest.fixture
def state(X: np.ndarray, die_at: Any, tmp_path: Path) -> Path:
    """The checkpoint of a fit that died."""
    die_at(9)
    with pytest.raises(Killed):
        EGMM(3, random_state=3, checkpoint=tmp_path / "state").fit(X)
    die_at(0)
    return tmp_path / "state"


@pytest.mark.parametrize(
    "options",
    [
        {"n_clusters": 2},
        {"tol": 1e-5},
        {"random_state": 4},
        {"covariance": "VVV"},
        {"accelerate": False},
        {"reg_covar": 0.1},
        {"engine": "numba"},
        {"n_init": 2},
        {"init": [[0, 0], [1, 1], [2, 2]]},
        {"focal_sets": "simple"},
        {"covariance": "EEE", "prior": "default"},
        {"tails": "t"},
        {"noise": True},
    ],
    ids=str,
)
def test_another_fit_is_refused(options: dict[str, Any], X: np.ndarray, state: Path) -> None:
    content = state.read_bytes()
    model = EGMM(**{"n_clusters": 3, "random_state": 3, "checkpoint": state, **options})
    with pytest.raises(ValueError, match=r"state belongs to a fit of other data or with other parameters; delete it"):
        model.fit(X)
    assert state.read_bytes() == content


def test_other_labels_and_links_are_refused(X: np.ndarray, state: Path, die_at: Any) -> None:
    labels = np.repeat([0, -1], [20, len(X) - 20])
    for known in ({"labels": labels}, {"must_link": [[0, 1]]}):
        with pytest.raises(ValueError, match="belongs to a fit of other data or with other parameters"):
            EGMM(3, random_state=3, checkpoint=state).fit(X, **known)
    state.unlink()
    die_at(8)
    with pytest.raises(Killed):
        EGMM(3, random_state=3, checkpoint=state).fit(X, labels=labels)
    die_at(0)
    with pytest.raises(ValueError, match="belongs to a fit of other data or with other parameters"):
        EGMM(3, random_state=3, checkpoint=state).fit(X, labels=np.roll(labels, 1))
    with pytest.raises(ValueError, match="belongs to a fit of other data or with other parameters"):
        EGMM(3, random_state=3, checkpoint=state).fit(X, labels=labels, reliability=0.9)


def test_other_data_are_refused(X: np.ndarray, state: Path) -> None:
    other = X.copy()
    other[-1, -1] += 1e-9
    with pytest.raises(ValueError, match="belongs to a fit of other data"):
        EGMM(3, random_state=3, checkpoint=state).fit(other)
    with pytest.raises(ValueError, match="belongs to a fit of other data"):
        EGMM(3, random_state=3, checkpoint=state).fit(X, sample_weight=np.full(len(X), 2.0))


@pytest.mark.parametrize("damage", ["empty", "truncated", "text", "altered", "array"])
def test_a_damaged_file_is_refused(damage: str, X: np.ndarray, state: Path) -> None:
    content = state.read_bytes()
    middle = len(content) // 2
    array = BytesIO()
    np.save(array, np.ones(3))
    state.write_bytes(
        {
            "empty": b"",
            "truncated": content[:middle],
            "text": b"this is no checkpoint",
            "altered": content[:middle] + b"\xff" * 40 + content[middle + 40 :],
            "array": array.getvalue(),
        }[damage]
    )
    with pytest.raises(ValueError, match=r"state cannot be read \(.*\); use another file, or delete it to") as raised:
        EGMM(3, random_state=3, checkpoint=state).fit(X)
    assert "pickle" not in str(raised.value)


def test_a_file_of_arrays_that_is_no_checkpoint(X: np.ndarray, tmp_path: Path) -> None:
    np.savez(tmp_path / "state.npz", a=np.ones(3))
    with pytest.raises(ValueError, match=r"state\.npz cannot be read \(it has no 'fingerprint'\)"):
        EGMM(3, checkpoint=tmp_path / "state.npz").fit(X)


def test_a_directory_that_is_not_there(X: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"checkpoint must be a file in an existing directory, got .*no/state"):
        EGMM(3, checkpoint=tmp_path / "no" / "state").fit(X)
    with pytest.raises(FileNotFoundError, match="checkpoint must be a file in an existing directory, got "):
        EGMM(3, checkpoint=tmp_path).fit(X)


def test_the_checkpoint_is_not_kept_with_the_model(X: np.ndarray, tmp_path: Path) -> None:
    model = EGMM(2, random_state=0, checkpoint=tmp_path / "state").fit(X)
    model.save(tmp_path / "model.json")
    assert EGMM.load(tmp_path / "model.json").checkpoint is None


def test_interrupted_by_the_user_it_can_be_resumed(
    X: np.ndarray, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = EGMM(3, random_state=3).fit(X)
    evaluate, passes = Problem.evaluate, []

    def interrupt(self: Problem, params: Any) -> Any:
        passes.append(params)
        if len(passes) == 9:
            raise KeyboardInterrupt
        return evaluate(self, params)

    monkeypatch.setattr(Problem, "evaluate", interrupt)
    model = EGMM(3, random_state=3, checkpoint=tmp_path / "state")
    with pytest.raises(KeyboardInterrupt, match="fit stopped at step"):
        model.fit(X)
    assert_same_bits(model.fit(X), whole)
