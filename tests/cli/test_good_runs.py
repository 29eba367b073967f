"""Commands that do what they were asked."""

import csv
import gzip
import html
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import egmm
from cli.conftest import environment
from egmm import EGMM, AutoEGMM, CredalPartition

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")


def tell(result: Any) -> str:
    """What a failed command said, for the report of the test."""
    return f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"


def test_version(run: Any) -> None:
    result = run("--version")
    assert result.stdout == f"egmm {egmm.__version__}\n"


def test_help_lists_the_commands_and_names_values(call: Any) -> None:
    result = call("--help")
    assert result.returncode == 0
    for command in ("demo", "fit", "predict", "select", "compare", "segment", "info"):
        assert re.search(rf"^\W+{command} ", result.stdout, re.MULTILINE), command
    assert "completion" in result.stdout
    # Values have readable names; a flag has no value.
    for command in ("fit", "predict", "select", "segment", "data", "info"):
        told = call(command, "--help").stdout
        assert not re.search(r"<\w+", told), command
        assert max(map(len, told.splitlines())) <= 80
    assert "with --model paper" in call("fit", "--help").stdout.split("Output ─")[0]


def test_help_waits_for_no_library() -> None:
    # Counted instead of timed: these take most of a second to import.
    code = "import sys, egmm.cli.app; print(*sorted({'sklearn', 'scipy', 'pandas', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_completion_script_is_shown(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a shell among the parents, as in the background, the one named would not count.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    result = run("--show-completion", "bash")
    assert "complete" in result.stdout, tell(result)


def test_fit_writes_everything_and_tells_it(run: Any, rows: Path, tmp_path: Path) -> None:
    result = run("fit", rows, "--clusters", "2", "--label", "side", "--out", "made")
    assert result.returncode == 0, tell(result)
    made = tmp_path / "made"
    names = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    assert {"model.json", "masses.csv", "labels.csv", "summary.txt", "report.html"} <= names
    assert {"figures/partition.png", "figures/uncertainty.png", "figures/history.png"} <= names
    assert "figures/masses.png" not in names  # the two groups are clear: all bars would look alike
    assert "EGMM found 2 clusters in 40 rows of 2 features." in result.stdout
    assert "1.000" in result.stdout  # purity against the known classes
    # Each class is one cluster, without open rows.
    lines = re.search(r"class +1 +2 open all *\n(.*)\n(.*)\n", result.stdout)
    assert lines is not None
    assert sorted(sorted(map(int, line.split()[1:])) for line in lines.groups()) == [[0, 0, 20, 20]] * 2
    assert max(map(len, result.stdout.splitlines())) <= 80
    summary = (made / "summary.txt").read_text("utf-8")
    assert re.search(r"Against the known classes\n  purity +1\.000\n  NMI +1\.000\n", summary)
    assert summary.count("outliers") == 0  # one row lies far off or none: not also "outliers 0 (0.0 %)"
    for picture in made.glob("figures/*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("model", "kind"), [("auto", AutoEGMM), ("paper", EGMM)])
def test_fit_gives_what_python_gives(call: Any, rows: Path, tmp_path: Path, model: str, kind: Any) -> None:
    result = call(
        "fit",
        rows,
        "-c",
        "2",
        *(["--model", model] if model == "paper" else []),
        "--columns",
        "height,width",
        "--out",
        "made",
        "--no-plots",
        "--quiet",
        "--table",
        "parquet",
    )
    assert (result.returncode, result.stdout) == (0, ""), tell(result)
    with rows.open() as file:
        table = list(csv.DictReader(file))
    X = np.array([[float(line["height"]), float(line["width"])] for line in table])
    expected = kind(2, random_state=0).fit(X)
    written = kind.load(tmp_path / "made" / "model.json")
    np.testing.assert_allclose(written.means_, expected.means_, rtol=1e-12)
    partition = CredalPartition.load(tmp_path / "made" / "masses.parquet")
    np.testing.assert_allclose(partition.mass, expected.predict_mass(X), atol=1e-12)


def test_json_is_one_object_and_nothing_else(run: Any, rows: Path) -> None:
    result = run("fit", rows, "-c", "1:3", "--label", "side", "--json", "--out", "made", "--no-plots")
    assert result.returncode == 0, tell(result)
    found = json.loads(result.stdout)
    assert result.stderr == ""
    assert (found["n_rows"], found["n_clusters"], found["columns"]) == (40, 2, ["width", "height"])
    assert found["metrics"]["ARI"] == 1.0
    assert found["model"] == "auto"
    assert {c["n_clusters"] for c in found["candidates"]} == {1, 2, 3}
    assert sum(s["rows"] for s in found["sets"]) == 40
    assert "report.html" in found["files"]


@pytest.mark.parametrize("kind", ["csv", "feather"])
def test_tables_in_other_formats(call: Any, rows: Path, tmp_path: Path, kind: str) -> None:
    result = call("fit", rows, "-c", "2", "--label", "side", "--out", "made", "--table", kind, "--no-plots")
    assert result.returncode == 0, tell(result)
    if kind == "csv":
        with (tmp_path / "made" / "labels.csv").open() as file:
            lines = list(csv.DictReader(file))
        assert {line["cluster"] for line in lines} == {"1", "2"}
        assert [line["row"] for line in lines] == [str(i) for i in range(1, 41)]
    else:
        table = pytest.importorskip("pyarrow.feather").read_table(tmp_path / "made" / "masses.feather")
        assert table.column_names == ["row", "{1}", "{2}", "{1,2}"]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.feather", "rows.npy", "rows.tsv", "rows.csv.gz"])
def test_every_format_is_read(call: Any, rows: Path, tmp_path: Path, name: str) -> None:
    table = pytest.importorskip("pyarrow.csv").read_csv(rows).select(["width", "height"])
    X = np.column_stack([column.to_numpy() for column in table.columns])
    path = tmp_path / name
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    elif name.endswith("feather"):
        pytest.importorskip("pyarrow.feather").write_feather(table, path)
    elif name.endswith("npy"):
        np.save(path, X)
    elif name.endswith("tsv"):
        path.write_text("a\tb\n" + "\n".join(f"{a!r}\t{b!r}" for a, b in X.tolist()))
    else:
        path.write_bytes(gzip.compress(b"a,b\n" + "\n".join(f"{a!r},{b!r}" for a, b in X.tolist()).encode()))
    result = call("fit", path, "-c", "2", "--model", "paper", "--json", "--out", "made", "--no-plots")
    assert result.returncode == 0, tell(result)
    found = json.loads(result.stdout)
    assert found["n_rows"] == 40
    assert found["log_likelihood"] == pytest.approx(EGMM(2, random_state=0).fit(X).log_likelihood_, rel=1e-9)


def test_directories_and_patterns_are_read_in_order(call: Any, rows: Path, tmp_path: Path) -> None:
    lines = rows.read_text().splitlines()
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "b.csv").write_text("\n".join([lines[0], *lines[21:]]))
    (folder / "a.csv").write_text("\n".join(lines[:21]))
    for number, source in enumerate([folder, f"{folder}/*.csv"]):
        result = call("fit", source, "-c", "2", "--label", "side", "--json", "--out", f"made{number}", "--no-plots")
        assert result.returncode == 0, tell(result)
        assert json.loads(result.stdout)["metrics"]["ARI"] == 1.0


def test_predict_assigns_new_rows_as_the_model_does(call: Any, rows: Path, tmp_path: Path) -> None:
    assert call("fit", rows, "-c", "2", "--label", "side", "--standardize", "--out", "made", "-q").returncode == 0
    new = tmp_path / "new.csv"
    new.write_text("side,height,extra,width\nx,8,0,8\ny,0,0,0\nz,90,0,90\n")  # other order, other columns
    result = call("predict", "made/model.json", new)
    assert result.returncode == 0, tell(result)
    lines = list(csv.DictReader(io.StringIO(result.stdout)))
    assert lines[0]["cluster"] != lines[1]["cluster"]
    assert [line["outlier"] for line in lines] == ["False", "False", "True"]
    assert sum(float(lines[0][name]) for name in ("{1}", "{2}", "{1,2}")) == pytest.approx(1.0)
    written = call("predict", "made/model.json", rows, "--out", "out.parquet", "--no-masses", "--json")
    assert json.loads(written.stdout)["n_rows"] == 40
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "out.parquet")
    assert table.column_names == ["row", "cluster", "set", "open", "probability", "nonspecificity", "outlier"]


def test_standardised_models_tell_original_units(call: Any, rows: Path) -> None:
    assert call("fit", rows, "-c", "2", "--label", "side", "--standardize", "--out", "made", "-q").returncode == 0
    found = json.loads(call("info", "made/model.json", "--json").stdout)
    assert found["standardized"] is True
    means = np.sort(np.array(found["means"]), axis=0)
    np.testing.assert_allclose(means, [[0, 0], [8, 8]], atol=0.6)


def test_info_fits_the_screen(call: Any, rows: Path) -> None:
    assert call("fit", rows, "-c", "2", "--label", "side", "--out", "made", "-q").returncode == 0
    result = call("info", "made/model.json")
    assert "width, height" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("more", [[], ["--standardize"]])
def test_streamed_and_loaded_rows_give_one_model(call: Any, rows: Path, tmp_path: Path, more: list[str]) -> None:
    options = ["-c", "2", "--label", "side", "--no-plots", "--json", "--table", "parquet", *more]
    loaded, streamed = (
        json.loads(call("fit", rows, *options, "--out", name, f"--{name}").stdout) for name in ("no-stream", "stream")
    )
    assert streamed["log_likelihood"] == pytest.approx(loaded["log_likelihood"], rel=1e-10)
    assert streamed["n_rows"] == 40
    assert streamed["metrics"] == loaded["metrics"]
    assert streamed["standardized"] == bool(more)
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(tmp_path / "stream" / "labels.parquet")
    expected = parquet.read_table(tmp_path / "no-stream" / "labels.parquet")
    assert table.column("cluster").to_pylist() == expected.column("cluster").to_pylist()
    again = call("predict", "stream/model.json", rows, "--stream", "--out", "again.parquet")
    assert again.returncode == 0, tell(again)
    assert parquet.read_table(tmp_path / "again.parquet").column("set").equals(table.column("set"))


def test_select_marks_the_best_and_writes_its_table(call: Any, rows: Path, tmp_path: Path) -> None:
    options = ["--clusters", "1:3", "--covariance", "EEE,EII", "--label", "side", "--out", "chosen"]
    result = call("select", rows, *options)
    assert result.returncode == 0, tell(result)
    assert re.search(r"6 candidates by EBIC \(higher is better\)", result.stdout)
    assert re.search(r"model .*\n2  (EEE|EII) .* chosen *\n", result.stdout)
    assert max(map(len, result.stdout.splitlines())) <= 80
    with (tmp_path / "chosen" / "selection.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 6
    best = max(lines, key=lambda line: float(line["ebic"]))
    assert best["n_clusters"] == "2"
    assert {path.name for path in (tmp_path / "chosen").glob("[!.]*")} == {
        "selection.csv",
        "selection.png",
        "models.png",
    }


def test_select_marks_the_chosen_one_of_equals(call: Any, tmp_path: Path) -> None:
    # Of one cluster these are one model; which has the highest criterion is rounding.
    rows = tmp_path / "normal.csv"
    np.savetxt(rows, np.random.default_rng(2).normal(size=(60, 3)), delimiter=",", fmt="%.17g")
    result = call("select", rows, "--clusters", "1", "--covariance", "EEE,VEE,EVE,VVV")
    assert result.returncode == 0, tell(result)
    assert re.findall(r"1  (EEE|VEE|EVE|VVV)", result.stdout)[0] == "EEE"


def test_compare_scores_every_algorithm(call: Any, rows: Path, tmp_path: Path) -> None:
    result = call("compare", rows, "-c", "2", "--label", "side", "--json", "--out", "table.csv")
    assert result.returncode == 0, tell(result)
    found = json.loads(result.stdout)["results"]
    names = {name.lower() for name in ("AutoEGMM", "EGMM", "ECM", "FCM", "BPEC", "BootGMM") if name in egmm.__all__}
    assert {record["algorithm"] for record in found} == names
    assert all(record["ARI"] == 1.0 for record in found if record["algorithm"] == "egmm")
    # Two groups far apart: every answer is right, and so is the control's.
    first = next(record for record in found if record["algorithm"] == "autoegmm")
    assert (first["AURC"], first["control accuracy"], first["open rows"]) == (0.0, 1.0, 0)
    assert (tmp_path / "table.csv").read_text().startswith("algorithm,")
    screen = call("compare", rows, "-c", "2", "--label", "side", "--algorithms", "autoegmm,egmm")
    assert max(map(len, screen.stdout.splitlines())) <= 80


def test_without_options_the_consensus_is_fitted(call: Any, rows: Path, tmp_path: Path) -> None:
    result = call("fit", rows, "--label", "side", "--out", "made", "--json", "--no-plots")
    assert result.returncode == 0, tell(result)
    found = json.loads(result.stdout)
    assert (found["model"], found["n_clusters"], found["rule"]) == ("auto", 2, "utility")
    assert sum(found["model_weights"].values()) == pytest.approx(1)
    assert {candidate["n_clusters"] for candidate in found["candidates"]} == set(range(1, 10))
    loaded = egmm.AutoEGMM.load(tmp_path / "made" / "model.json")
    assert loaded.n_clusters_ == 2
    told = call("info", "made/model.json")
    assert "AutoEGMM found 2 clusters" in told.stdout
    again = call("predict", "made/model.json", rows, "--rule", "dominance")
    assert again.stdout.startswith("row,cluster,set,open,")
    assert "Consensus of" in (tmp_path / "made" / "summary.txt").read_text()


def test_the_paper_s_model_is_fitted_where_it_is_asked_for(call: Any, rows: Path, tmp_path: Path) -> None:
    result = call("fit", rows, "--model", "paper", "--clusters", "2", "--label", "side", "--out", "made", "--json")
    found = json.loads(result.stdout)
    assert (found["model"], found["covariance"], found["rule"]) == ("egmm", "EEE", "heaviest")
    assert EGMM.load(tmp_path / "made" / "model.json").covariance == "EEE"


def test_known_classes_are_used_by_the_paper_s_model_with_a_note(call: Any, rows: Path) -> None:
    options = ["--label", "side", "--semi-supervised", "--no-plots", "--force"]
    implied, named = (call("fit", rows, *options, *model) for model in ([], ["--model", "paper"]))
    assert implied.returncode == named.returncode == 0
    assert implied.stdout == named.stdout
    assert "EGMM found 2 clusters" in implied.stdout
    assert "This is EGMM, the model of the paper" in implied.stderr
    assert "This is EGMM" not in named.stderr


def test_one_cluster_alone_is_no_discovery(call: Any, rows: Path) -> None:
    result = call("fit", rows, "-c", "1", "--covariance", "EII", "--label", "side", "--no-plots")
    assert "AutoEGMM found 1 cluster in 40 rows" in result.stdout
    assert "No cluster structure" not in result.stdout


def test_a_rule_decides_which_rows_are_open(call: Any, tmp_path: Path) -> None:
    X = np.concatenate([np.random.default_rng(0).normal(k * 2.2, 1, (60, 2)) for k in range(2)])
    np.savetxt(tmp_path / "near.csv", X, delimiter=",", header="a,b", comments="")
    shares = {}
    for reward in ("0.6", "0.9"):
        options = (
            "--stability",
            "2",
            "--model",
            "auto",
            "--clusters",
            "2",
            "--covariance",
            "EII,EEE",
            "--reward",
            reward,
            "--no-plots",
        )
        result = call("fit", "near.csv", *options, "--out", f"r{reward}", "--json")
        assert result.returncode == 0, tell(result)
        shares[reward] = json.loads(result.stdout)["open_rows"]
        assert "Fits to 2 subsamples" in (tmp_path / f"r{reward}" / "summary.txt").read_text()
    assert 0 < shares["0.6"] < shares["0.9"]


@pytest.mark.slow
def test_demo_leaves_files_to_open(run: Any, tmp_path: Path) -> None:
    result = run("demo")
    assert result.returncode == 0, tell(result)
    named = re.findall(r"^  (\S+)$", result.stdout, re.MULTILINE)
    assert any(name.endswith("report.html") for name in named)
    assert all((tmp_path / name).stat().st_size > 1000 for name in named)
    assert max(map(len, result.stdout.splitlines())) <= 80
    again = re.search(r"egmm fit (\S+)", (tmp_path / "egmm-demo" / "report.html").read_text("utf-8"))
    assert again is not None
    assert (tmp_path / again[1]).is_file()
    seconds = float(re.findall(r"Done in ([\d.]+) s", result.stdout)[0])
    assert seconds < 60
    assert run("demo").returncode == 1


@pytest.mark.parametrize(("options", "same"), [(["-c", "2"], ["-c", "2,2"]), ([], ["--covariance", "EEE,EEE"])])
def test_a_choice_named_twice_is_one(call: Any, rows: Path, options: list[str], same: list[str]) -> None:
    common = ["fit", rows, "--model", "paper", "--label", "side", "--no-plots", "--json", "--force", "-c", "2"]
    first, second = (json.loads(call(*common, *choice).stdout) for choice in (options, same))
    del first["seconds"], second["seconds"]
    assert first == second


OPTIONS = {
    "paper": "--model paper -c 2 --covariance VVI --focal-sets full --starts 2 --certainty 0.5 --max-iter 50",
    "auto": "-c 2,3 --covariance EII,VVI --stability 2 --reg-covar 0.02",
    "auto with noise": "-c 2 --covariance EII,VVI --focal-sets simple --noise",
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_command_in_the_report_makes_the_same_files(call: Any, rows: Path, tmp_path: Path, options: str) -> None:
    given = [
        *options.split(),
        "--label",
        "side",
        "--seed",
        "3",
        "--standardize",
        "--rule",
        "utility",
        "--reward",
        "0.9",
    ]
    assert call("fit", "rows.csv", *given, "--out", "made", "--no-plots").returncode == 0
    page = (tmp_path / "made" / "report.html").read_text("utf-8")
    found = re.search(r'<pre id="reproduce">egmm (.*?)\n', page)
    assert found is not None
    again = shlex.split(html.unescape(found[1]))
    assert call(*again, "--out", "again", "--no-plots").returncode == 0
    for name in ("model.json", "labels.csv", "masses.csv", "summary.txt", "report.html"):
        assert (tmp_path / "again" / name).read_text("utf-8") == (tmp_path / "made" / name).read_text("utf-8"), name
