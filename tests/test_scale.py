"""One fit, wherever the rows are: in memory, in files, on threads, in other processes, after being killed."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from egmm import EGMM, CredalPartition, scan, select_model
from egmm.em.problem import Problem
from egmm.rows import ReadError
from row_sources import BLOCK_ROWS, FILES, SOURCES, assert_close, assert_same_bits, in_parquet, table, two_groups

N_ROWS = 4 * BLOCK_ROWS + 1000


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    rows = two_groups(N_ROWS)
    rows.flags.writeable = False
    return rows


@pytest.fixture(scope="module")
def fitted(X: np.ndarray) -> EGMM:
    return EGMM(2, random_state=0, n_jobs=1).fit(X)


@pytest.fixture(scope="module")
def folder(X: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the rows in Parquet."""
    directory = tmp_path_factory.mktemp("rows")
    in_parquet(X, directory)
    return directory


# The same bits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_bits(name: str, X: np.ndarray, fitted: EGMM, tmp_path: Path) -> None:
    model = EGMM(2, random_state=0, n_jobs=2).fit(SOURCES[name](X, tmp_path))
    assert_same_bits(model, fitted)


@pytest.mark.parametrize("name", ["memmap", "dask", "many parquet", "npy"])
@pytest.mark.parametrize(
    "options", [{"covariance": "VVV"}, {"n_clusters": 3, "focal_sets": "neighbours"}, {"init": "random", "n_init": 2}]
)
def test_other_models_too(name: str, options: dict[str, Any], X: np.ndarray, backend: str, tmp_path: Path) -> None:
    X = X[: 2 * BLOCK_ROWS + 100]
    options = {"n_clusters": 2, "random_state": 1, "tol": 1e-3, "engine": backend, **options}
    weights = np.random.default_rng(2).integers(0, 3, len(X)).astype(float)
    model = EGMM(**options).fit(SOURCES[name](X, tmp_path), sample_weight=weights)
    assert_same_bits(model, EGMM(**options).fit(X, sample_weight=weights))


@pytest.mark.parametrize("name", ["memmap", "parquet", "npy", "dask"])
def test_single_precision(name: str, X: np.ndarray, tmp_path: Path) -> None:
    single = X.astype(np.float32)
    model = EGMM(2, random_state=0).fit(SOURCES[name](single, tmp_path))
    assert_same_bits(model, EGMM(2, random_state=0).fit(single))


def test_weights_in_a_column(X: np.ndarray, tmp_path: Path) -> None:
    weights = np.random.default_rng(2).integers(0, 3, N_ROWS)
    pa.parquet.write_table(table(X, w=weights), tmp_path / "rows.parquet")
    alone = EGMM(2, random_state=0).fit(X, sample_weight=weights)
    rows = scan(tmp_path / "rows.parquet", weight="w")
    assert_same_bits(EGMM(2, random_state=0).fit(rows), alone)
    assert alone.score(rows) == alone.score(X, sample_weight=weights)


def test_a_new_fit_forgets_labels_and_names(X: np.ndarray, folder: Path, tmp_path: Path) -> None:
    model = EGMM(2, random_state=0).fit(scan(folder))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert not hasattr(model, "labels_")
    model.fit(X)
    assert len(model.labels_) == N_ROWS
    model.fit(scan(FILES["npy"](X, tmp_path)))
    assert not hasattr(model, "labels_")
    assert not hasattr(model, "feature_names_in_")


# Predictions of files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["predict", "predict_sets", "score_samples"])
def test_one_number_per_row_comes_back_or_goes_to_a_file(
    method: str, X: np.ndarray, fitted: EGMM, folder: Path, tmp_path: Path
) -> None:
    expected = getattr(fitted, method)(X)
    np.testing.assert_array_equal(getattr(fitted, method)(scan(folder)), expected)
    path = getattr(fitted, method)(scan(folder), out=tmp_path / "out.parquet")
    (column,) = pa.parquet.read_table(path).columns
    np.testing.assert_array_equal(column.to_numpy(), expected)


def test_many_numbers_per_row_go_to_a_file(X: np.ndarray, fitted: EGMM, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="The result has 3 columns per row; pass out= with a Parquet file name"):
        fitted.predict_mass(scan(folder))
    written = pa.parquet.read_table(fitted.predict_proba(scan(folder), out=tmp_path / "out.parquet"))
    assert written.column_names == ["cluster_1", "cluster_2"]
    np.testing.assert_array_equal(np.column_stack(written.columns), fitted.predict_proba(X))
    with pytest.raises(ValueError, match="out= is only for scans of files"):
        fitted.predict_proba(X, out=tmp_path / "out.parquet")


@pytest.mark.parametrize("method", ["predict_mass", "partition"])
def test_masses_in_a_file_are_a_credal_partition(
    method: str, X: np.ndarray, fitted: EGMM, folder: Path, tmp_path: Path
) -> None:
    path = getattr(fitted, method)(scan(folder), out=str(tmp_path / "masses.parquet"))
    assert pa.parquet.read_schema(path).names == ["{1}", "{2}", "{1,2}"]
    assert CredalPartition.load(path) == fitted.partition(X)


def test_outliers_of_a_scan(X: np.ndarray, fitted: EGMM, folder: Path) -> None:
    np.testing.assert_array_equal(fitted.outliers(scan(folder)), fitted.outliers(X))


@pytest.mark.parametrize("bad", [-np.inf, 1e160, 5e150])
@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_entries_that_are_not_finite_are_named(
    X: np.ndarray, fitted: EGMM, tmp_path: Path, engine: str, bad: float
) -> None:
    spoiled = X.copy()
    spoiled[BLOCK_ROWS + 7, 2] = bad
    np.save(tmp_path / "rows.npy", spoiled)
    rows = scan(tmp_path / "rows.npy")
    model = EGMM(2, covariance="VVV", random_state=0, engine=engine).fit(X[:500])
    kind = "infinity" if np.isinf(bad) else r"the value .e\+1.0, too large to square,"
    place = rf"Input X contains {kind} at row {BLOCK_ROWS + 8} \(counted from 1\) of .*rows.npy, column 2"
    asked = [model.predict, model.score_samples, model.score, model.ebic, model.outliers, model.fit, model.partial_fit]
    for ask in asked:
        with pytest.raises(ValueError, match=place):
            ask(rows)
    with pytest.raises(ValueError, match=place):
        model.partition(rows, out=tmp_path / "masses.parquet")
    with pytest.raises(ValueError, match=f"Input X contains {kind} at row {BLOCK_ROWS + 7}, column 2"):
        model.predict(spoiled)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


@pytest.mark.parametrize("bad", [np.inf, 5e150, 1e200])
def test_entries_that_cannot_be_used_are_named_in_rows_of_no_weight_too(
    bad: float, X: np.ndarray, tmp_path: Path
) -> None:
    spoiled, weights = X.copy(), np.ones(len(X))
    spoiled[BLOCK_ROWS + 5, 1] = bad
    weights[: 2 * BLOCK_ROWS] = 0.0  # two whole blocks
    pa.parquet.write_table(table(spoiled, w=weights), tmp_path / "rows.parquet")
    rows = dask.array.from_array(spoiled, chunks=(BLOCK_ROWS, -1))
    at, named = f"at row {BLOCK_ROWS + 5}", rf"at row {BLOCK_ROWS + 6} \(counted from 1\) of .*"
    for ask, place in (
        (lambda: EGMM(2).fit(spoiled, sample_weight=weights), at),
        (lambda: EGMM(2).fit(scan(tmp_path / "rows.parquet", weight="w")), named),
        (lambda: EGMM(2).fit(rows, sample_weight=weights), at),
    ):
        with pytest.raises(ValueError, match=f"Input X contains .* {place}, column 1"):
            ask()


def test_a_column_of_no_weight_is_refused(X: np.ndarray, tmp_path: Path) -> None:
    pa.parquet.write_table(table(X, w=np.zeros(len(X))), tmp_path / "rows.parquet")
    rows = scan(tmp_path / "rows.parquet", weight="w")
    model = EGMM(2, random_state=0).partial_fit(X[:500])
    for ask in (model.score, model.ebic, model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="sample_weight must not be all zero"):
            ask(rows)


def test_other_columns_are_refused(fitted: EGMM, folder: Path) -> None:
    model = EGMM(2, random_state=0).fit(scan(folder))
    with pytest.raises(ValueError, match=r"X has the columns \['c', 'b', 'a'\], but EGMM was fitted on"):
        model.predict(scan(folder, ["c", "b", "a"]))
    with pytest.raises(ValueError, match="X has 2 features, but EGMM is expecting 3"):
        fitted.predict(scan(folder, ["a", "b"]))


def test_a_file_that_breaks_while_predicting_leaves_nothing(X: np.ndarray, fitted: EGMM, tmp_path: Path) -> None:
    path = in_parquet(X, tmp_path)
    rows = scan(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 300_000] = b"\xff" * 300_000
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    out = tmp_path / "out.parquet"
    with pytest.raises(ReadError, match=r"cannot read .*rows\.parquet"):
        fitted.predict_mass(rows, out=out)
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.filterwarnings("ignore:Exception ignored in. .function ZipFile")  # of NumPy 1, by whose zip file it fails
def test_a_full_disk(fitted: EGMM, X: np.ndarray, folder: Path, small_disk: Path) -> None:
    out = small_disk / "masses.parquet"
    out.write_text("what was there before")
    with pytest.raises(
        OSError, match=r"cannot write .*masses\.parquet: .*[Nn]o space left on device.*; no file was written"
    ):
        fitted.predict_mass(scan(folder), out=out)
    assert out.read_text() == "what was there before"
    assert list(small_disk.iterdir()) == [out]
    (small_disk / "fill").write_bytes(bytes(250_000))
    with pytest.raises(OSError, match=r"cannot write checkpoint .*state: No space left on device"):
        EGMM(4, random_state=0, checkpoint=small_disk / "state").fit(X)
    assert not (small_disk / "state").exists()


# Selection --------------------------------------------------------------------------------------------------


def test_selection_on_a_scan_stays_in_this_process(
    monkeypatch: pytest.MonkeyPatch, X: np.ndarray, folder: Path
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("other processes would read all files again")

    monkeypatch.setattr("egmm._parallel.Parallel", refuse)
    monkeypatch.setattr("egmm._parallel._pays", lambda *_: True)
    chosen = select_model(scan(folder), range(1, 3), ["EEE", "EII"], random_state=0, n_jobs=2, tol=1e-4)
    monkeypatch.undo()
    alone = select_model(X, range(1, 3), ["EEE", "EII"], random_state=0, n_jobs=1, tol=1e-4)
    assert (chosen.n_clusters, chosen.covariance) == (alone.n_clusters, alone.covariance) == (2, "EII")
    assert_same_bits(chosen.best, alone.best)


def test_selection_passes_on_that_a_file_cannot_be_read(X: np.ndarray, tmp_path: Path) -> None:
    path = in_parquet(X, tmp_path)
    rows = scan(path)
    os.utime(path, ns=(0, 0))
    with pytest.raises(ReadError, match=r"rows\.parquet has changed since it was scanned"):
        select_model(rows, range(1, 4))


def test_candidates_keep_their_own_checkpoints(
    monkeypatch: pytest.MonkeyPatch, X: np.ndarray, folder: Path, tmp_path: Path
) -> None:
    written = set()
    replace = Path.replace

    def noted(self: Path, target: Path) -> Path:
        written.add(target.name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", noted)
    plain = {"init": "kmeans", "accelerate": False, "tol": 1e-3}  # Steps enough for a state to be written.
    select_model(scan(folder), [3, 4], random_state=0, **plain, checkpoint=tmp_path / "state.npz")
    assert written == {"state-3-EEE.npz", "state-4-EEE.npz"}
    assert list(tmp_path.iterdir()) == []


# Processes --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes of one thread, and a client that is Dask's default meanwhile.

    Its port is any that is free: tests that run beside this one may have a cluster too.
    """
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


@pytest.mark.dask
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_two_processes_give_the_same_bits(engine: str, X: np.ndarray, cluster: Any) -> None:
    rows = dask.array.from_array(X, chunks=(BLOCK_ROWS, -1)).persist()
    weights = np.random.default_rng(2).integers(0, 3, N_ROWS).astype(float)
    for given in (weights, dask.array.from_array(weights, chunks=9999)):
        model = EGMM(2, random_state=0, engine=engine, tol=1e-4).fit(rows, sample_weight=given)
        assert_same_bits(model, EGMM(2, random_state=0, engine=engine, tol=1e-4).fit(X, sample_weight=weights))
    np.testing.assert_array_equal(model.predict_mass(rows).compute(), model.predict_mass(X))


@pytest.mark.dask
@pytest.mark.slow
@pytest.mark.parametrize("is_held", [False, True], ids=["read again", "held by the workers"])
def test_a_worker_killed_in_mid_fit(
    is_held: bool, monkeypatch: pytest.MonkeyPatch, X: np.ndarray, fitted: EGMM, cluster: Any, tmp_path: Path
) -> None:
    order = tmp_path / "kill"  # Whoever takes it, dies.

    def reading(block: np.ndarray) -> np.ndarray:
        try:
            order.unlink()
        except FileNotFoundError:
            return block
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    rows = dask.array.from_array(X, chunks=(BLOCK_ROWS, -1)).map_blocks(reading, dtype=X.dtype, meta=X[:0])
    rows = rows.persist() if is_held else rows
    evaluate, passes = Problem.evaluate, []
    killed = cluster.run(os.getpid)

    def strike(self: Problem, params: Any) -> Any:
        passes.append(params)
        if len(passes) == 4:
            if is_held:
                victim = next(iter(killed.values()))
                threading.Timer(0.02, os.kill, (victim, signal.SIGKILL)).start()
            else:
                order.touch()
        return evaluate(self, params)

    monkeypatch.setattr(Problem, "evaluate", strike)
    model = EGMM(2, random_state=0).fit(rows)
    assert_same_bits(model, fitted)
    cluster.wait_for_workers(2, timeout=60)
    assert set(cluster.run(os.getpid).values()) != set(killed.values())


# Checkpoints ------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
import numpy as np
from egmm import EGMM, scan
from egmm.em.problem import Problem

rows, state, out, kill_at, options = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), eval(sys.argv[5])
evaluate, passes = Problem.evaluate, 0

def mortal(self, params):
    global passes
    passes += 1
    if passes == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return evaluate(self, params)

Problem.evaluate = mortal
model = EGMM(checkpoint=state, **options).fit(scan(rows))
model.save(out)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"n_clusters": 3, "random_state": 0, "n_init": 2, "tol": 1e-6},
        {"n_clusters": 3, "random_state": None, "covariance": "VVI", "max_iter": 40, "tol": 0.0},
    ],
    ids=["two starts", "no seed"],
)
def test_killed_again_and_again_it_ends_with_the_same_bits(
    options: dict[str, Any], X: np.ndarray, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    X = X[: BLOCK_ROWS + 500]
    folder = in_parquet(X, tmp_path_factory.mktemp("rows"))
    state, out = tmp_path / "state.npz", tmp_path / "model.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    program = [sys.executable, "-c", KILLED, str(folder), str(state), str(out)]
    survived = []
    for kill_at in (9, 25, 10**9):
        done = subprocess.run(
            [*program, str(kill_at), repr(options)], env=environment, capture_output=True, text=True, check=False
        )
        survived.append(done.returncode == 0)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        if survived[-1]:
            break
        assert state.is_file()
    assert survived[:2] == [False, False]
    assert not state.exists()
    model = EGMM.load(out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json"]
    if options["random_state"] is not None:
        assert_same_bits(model, EGMM(**options).fit(X))
    else:
        # Without a seed the random stream is the killed fit's own: the steps go on where they were.
        assert model.n_iter_ == 40
        assert (np.diff(model.log_likelihood_history_) > -1e-6).all()


# The example ------------------------------------------------------------------------------------------------

EXAMPLE = Path(__file__).parents[1] / "examples" / "dask_cluster.py"


def test_the_page_shows_the_example() -> None:
    page = Path(__file__).parents[1] / "docs" / "scaling.md"
    included = re.findall(r"```\{literalinclude\} (\S+)", page.read_text(encoding="utf-8"))
    assert [(page.parent / path).resolve() for path in included] == [EXAMPLE]


@pytest.mark.dask
@pytest.mark.slow
def test_the_example_runs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 2)) + np.array([[0, 0], [8, 0], [0, 8]])[rng.integers(0, 3, 5000)]
    folder = tmp_path / "rows"
    folder.mkdir()
    in_parquet(X, folder)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(folder), "masses"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "steps, EBIC" in done.stdout
    masses = pa.parquet.read_table(tmp_path / "masses")
    model = EGMM.load(tmp_path / "model.json")
    assert_close(model, EGMM(3, random_state=0).fit(X), 1e-9)
    columns = np.column_stack([masses[label] for label in model.focal_sets_.labels])
    np.testing.assert_allclose(
        columns, CredalPartition.load(model.partition(scan(folder), tmp_path / "own.parquet")).mass, atol=1e-12
    )
    assert not (tmp_path / "fit.checkpoint").exists()
