"""What people install: sdist and wheel, declared versions, types for callers, workflow files, what an import costs."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import egmm

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

CONSUMER = """
import numpy as np
from egmm import EGMM, CredalPartition, FocalSets, select_model

model: EGMM = EGMM(n_clusters=2, random_state=0).fit(np.zeros((4, 2)))
partition: CredalPartition = CredalPartition.from_labels([0, 1])
focal: FocalSets = partition.focal_sets
n_rows: int = len(partition)
best = select_model(np.zeros((4, 2)), [2]).best
reveal_type(partition.pignistic())
"""
MISTAKES = {
    "EGMM(clusters=2)": "Unexpected keyword argument",
    'len(CredalPartition.from_labels([0])) + "rows"': "Unsupported operand types",
    "from egmm import EGGM": 'Module "egmm" has no attribute "EGGM"',
}


def run(*command: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with sdist and wheel, the wheel built of the sdist as an installer would."""
    for module in ("build", "hatchling", "twine"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("dist")
    built = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_packages_pass_the_checks_of_twine(packages: Path) -> None:
    files = sorted(packages.iterdir())
    assert [path.name for path in files] == [
        f"egmm-{egmm.__version__}-py3-none-any.whl",
        f"egmm-{egmm.__version__}.tar.gz",
    ]
    checked = run(sys.executable, "-m", "twine", "check", "--strict", *files)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
def test_packages_hold_what_is_needed_and_nothing_else(packages: Path) -> None:
    source = {
        path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "egmm").rglob("*") if path.is_file()
    }
    source = {name for name in source if "__pycache__" not in name}
    with zipfile.ZipFile(next(packages.glob("*.whl"))) as wheel:
        in_wheel = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert in_wheel == source
    with tarfile.open(next(packages.glob("*.tar.gz"))) as sdist:
        top = {name.split("/")[1] for name in sdist.getnames() if "/" in name}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "src", "tests"} <= top
    assert not {name for name in top if name.startswith(".") and name != ".gitignore"}


@pytest.mark.slow
def test_the_installed_wheel_works(packages: Path, tmp_path: Path) -> None:
    pytest.importorskip("typer")
    where = tmp_path / "site"
    wheel = next(packages.glob("*.whl"))
    installed = run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", where, wheel)
    assert installed.returncode == 0, installed.stderr
    code = (
        "import egmm, sys; assert egmm.__file__.startswith(sys.argv[1]), egmm.__file__;"
        "from egmm.datasets import make_diamond; from egmm.report import write_report; X, _ = make_diamond();"
        "write_report('report.html', egmm.EGMM(2, random_state=0).fit(X), X)"
    )
    used = run(sys.executable, "-c", code, where, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(where)})
    assert used.returncode == 0, used.stderr
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_versions_agree() -> None:
    recipe = re.search(r'^  version: "(.*)"$', (ROOT / "conda" / "recipe.yaml").read_text("utf-8"), re.MULTILINE)
    citation = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert recipe is not None
    assert citation is not None
    assert {PROJECT["version"], egmm.__version__, recipe[1], citation[1]} == {egmm.__version__}


def requirements(lines: list[str]) -> dict[str, str]:
    """Oldest version of each requirement, as (1, 26) without trailing zeros."""
    found = [re.match(r"([\w-]+)(?:\[[\w,]+\])?\s*(?:>=|==)\s*([\d.]+)", line) for line in lines]
    return {match[1]: re.sub(r"(\.0)+$", "", match[2]) for match in found if match}


def test_the_oldest_versions_tested_are_the_oldest_allowed() -> None:
    extras = PROJECT["optional-dependencies"]
    # Arrays of other libraries need newer versions of what is required anyway.
    used = [name for name in extras if name not in {"all", "arrays", "torch", "docs", "dev"}]
    allowed = requirements([*PROJECT["dependencies"], *(line for name in used for line in extras[name])])
    allowed |= {name: version for name, version in requirements(extras["dev"]).items() if name in {"pandas", "polars"}}
    tested = requirements((ROOT / "requirements" / "oldest.txt").read_text("utf-8").splitlines())
    assert tested == allowed


def test_the_conda_recipe_has_the_same_requirements() -> None:
    recipe = (ROOT / "conda" / "recipe.yaml").read_text("utf-8")
    listed = requirements([line.removeprefix("-").strip() for line in recipe.split("  run:")[1].split("\n    ")])
    wanted = requirements([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"]])
    wanted["matplotlib-base"] = wanted.pop("matplotlib")
    assert listed == wanted


def test_addresses_are_those_of_the_project() -> None:
    home = PROJECT["urls"]["Homepage"]
    owner, name = home.split("/")[-2:]
    recipe = (ROOT / "conda" / "recipe.yaml").read_text("utf-8")
    named = set(re.findall(r"https://\S*(?:github)\S*", recipe)) | set(PROJECT["urls"].values())
    ours = [url for url in named if "github" in url]
    assert all(url.startswith((home, f"https://{owner}.github.io/{name}/")) for url in ours), ours


@pytest.mark.parametrize("kind", ["github-workflows", "dependabot"])
def test_workflow_files_follow_their_schema(kind: str) -> None:
    pytest.importorskip("check_jsonschema")
    folder = ROOT / ".github"
    if not folder.is_dir():
        pytest.skip("the sdist has no workflows")
    files = sorted((folder / "workflows").glob("*.yml")) if kind == "github-workflows" else [folder / "dependabot.yml"]
    checked = run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{kind}", *files)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_supported_python_is_tested() -> None:
    path = ROOT / ".github" / "workflows" / "tests.yml"
    if not path.is_file():
        pytest.skip("the sdist has no workflows")
    matrix = re.search(r"python: (\[.*\])", path.read_text("utf-8"))
    assert matrix is not None
    declared = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert json.loads(matrix[1]) == declared
    assert PROJECT["requires-python"] == f">={declared[0]}"


@pytest.mark.slow
def test_types_serve_callers(tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("needs mypy")
    (tmp_path / "consumer.py").write_text(CONSUMER)
    for at, line in enumerate(MISTAKES):
        (tmp_path / f"mistake{at}.py").write_text(f"from egmm import EGMM, CredalPartition\n{line}\n")
    options = ["--strict", "--ignore-missing-imports", "--follow-imports=silent", f"--cache-dir={tmp_path / 'cache'}"]
    files = sorted(path.name for path in tmp_path.glob("*.py"))
    # No configuration of ours: a caller has none. The package is found by its py.typed marker.
    checked = run(sys.executable, "-m", "mypy", "--config-file=", *options, *files, cwd=tmp_path)
    found = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert [line for line in found if line.startswith("consumer.py")] == []
    assert "numpy.ndarray" in checked.stdout
    for at, expected in enumerate(MISTAKES.values()):
        assert any(line.startswith(f"mistake{at}.py") and expected in line for line in found), checked.stdout


def test_an_import_loads_few_modules_and_none_of_numpy() -> None:
    # Counted instead of timed: `import egmm` defers everything, and an estimator needs what scikit-learn needs.
    code = "import sys; sys.path[:0] = {0!r}; import egmm; n = len(sys.modules); egmm.EGMM; print(n, len(sys.modules))"
    paths = [path for path in sys.path if path]
    bare = run(sys.executable, "-I", "-c", "import sys; print(len(sys.modules))")
    learn = run(
        sys.executable,
        "-I",
        "-c",
        f"import sys; sys.path[:0] = {paths!r}; import sklearn.mixture; print(len(sys.modules))",
    )
    ours = run(sys.executable, "-I", "-c", code.format(paths))
    after_import, after_estimator = map(int, ours.stdout.split())
    assert after_import <= int(bare.stdout) + 40
    assert after_estimator <= 1.25 * int(learn.stdout)
