"""The scripts in benchmarks/ run: every one is imported, and its smallest part is run on few rows.

Their figures are not looked at. They use inner parts of the package, so they break unseen without this.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

pytest.importorskip("pandas")

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))
LIBRARIES = {"arrays": ["torch"], "scale": ["pyarrow", "dask"]}
"""Libraries that a script needs beside the requirements."""


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let scripts import each other, find no R, and take environment variables and filters away with them."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    monkeypatch.setattr("shutil.which", lambda name: None)
    before = set(sys.modules)
    yield
    for name in set(SCRIPTS) & (set(sys.modules) - before):
        del sys.modules[name]


def script(name: str) -> ModuleType:
    """Import a script without running it."""
    for library in LIBRARIES.get(name, []):
        pytest.importorskip(library)
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def arrays(module: Any, _: Path) -> None:
    module.measure(400, 4, 1)


def belief(module: Any, _: Path) -> None:
    rng = np.random.default_rng(0)
    focal = module.FocalSets.full(3)
    both = [module.CredalPartition(rng.dirichlet(np.ones(len(focal)), 20), focal) for _ in range(2)]
    module.against_floor(*both)
    module.against_dicts(*both)


def bootgmm(module: Any, _: Path) -> None:
    module.BootGMM = partial(module.BootGMM, covariance="EEE", n_bootstrap=15)
    module.compare_with_r("iris", None, 1)


def consensus(module: Any, folder: Path) -> None:
    X, y = load_iris(return_X_y=True)
    table = np.column_stack([X, y])[::3]
    np.savetxt(folder / "iris.csv", table, delimiter=",", header="a,b,c,d,species", comments="")
    few = ["AutoEGMM", "EGMM, one covariance", "scikit-learn tied", "ECM"]
    module.run(folder / "results.jsonl", [str(folder / "iris.csv")], few, 60.0)
    module.tables(module.lines(folder / "results.jsonl"), "Iris")


def covariance(module: Any, _: Path) -> None:
    module.search("Iris", load_iris().data[::3], 2, repeats=1)
    module.simulated(100)


def em(module: Any, _: Path) -> None:
    size = module.Scale(1000, 1)
    module.SETTINGS = module.SETTINGS[:1]
    module.passes_per_second(size)
    module.arithmetic_floor(size)
    module.trace(load_iris().data, 3, "pairs", accelerate=True, max_iter=5)


def field(module: Any, _: Path) -> None:
    rows = module.four_blobs(240)
    module.fourclass = lambda: rows
    for name in ("NNEVCLUS", "EGMM"):  # the slowest; one mixture is enough
        setattr(module, name, lambda *given, **options: module.FCM(given[0], random_state=0))
    module.small()


def first_fit(module: Any, _: Path) -> None:
    assert len(module.run(module.IRIS, module.EGMM.format(3))) == 3


def image(module: Any, _: Path) -> None:
    brain = module.make_brain_phantom(shape=(48, 40), random_state=0)
    for _name, _count, options in list(module.phantom_methods())[:3]:
        module.phantom_row(brain, **options)


def labelled_sets(module: Any, _: Path) -> None:
    table = load_wine(as_frame=True).frame
    table["target"] = table["target"].map("class {}".format)
    assert module.best_factor(table) is not None


def peers(module: Any, _: Path) -> None:
    module.compare_ecm(100, 2)
    module.compare_fcm(200, 3, 2, n_updates=3)


def quality(module: Any, _: Path) -> None:
    data = module.simulate(0)
    data = data._replace(X=data.X[::4], y=data.y[::4])
    module.simulate = lambda seed: data
    module.WAYS = {"single clusters only": {"focal_sets": "singletons"}}
    module.simulated(1)


def real_data(module: Any, _: Path) -> None:
    X, y = load_iris(return_X_y=True)
    module.DRAWS = 1
    module.compare_labels("Iris", module.scale(X), y, 0.2, 0.1)
    module.noise()
    list(module.of_gaps(np.where(np.random.default_rng(0).random(X.shape) < 0.05, np.nan, X)))


def structure(module: Any, folder: Path) -> None:
    module.EXPECTED = {"normal": 1}
    module.AutoEGMM = partial(module.AutoEGMM, [1, 2], covariance=["EII", "EEE"])
    module.run(folder / "results.jsonl", 1)
    module.show(folder / "results.jsonl")


def scale(module: Any, folder: Path) -> None:
    module.REPEATS = 1
    module.memory_map(folder, 2000)
    module.write_parquet(folder, 2000)
    module.memory_of_fit = lambda directory: 0.0
    module.parquet(folder, 2000)


RUNS: dict[str, Callable[[Any, Path], None]] = {
    run.__name__: run
    for run in (
        arrays,
        belief,
        bootgmm,
        consensus,
        covariance,
        em,
        field,
        first_fit,
        image,
        labelled_sets,
        peers,
        quality,
        real_data,
        scale,
        structure,
    )
}


def test_every_script_has_a_run() -> None:
    assert sorted(RUNS) == [name for name in SCRIPTS if name != "mclust"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RUNS)
def test_the_smallest_part_of_a_script_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RUNS[name](script(name), tmp_path)
    assert name in {"image", "labelled_sets", "first_fit"} or capsys.readouterr().out
