"""What the page says and holds, without a browser."""

import base64
import html
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from egmm import ECM, EGMM, CredalPartition, FocalSets, Selection, select_model
from egmm.datasets import make_blobs_with_overlap, make_diamond
from egmm.report import describe, render_report
from egmm.report.content import LEVELS, MOST_LISTED, MOST_ROWS

X, _ = make_diamond()
MODEL = EGMM(2, focal_sets="full", reg_covar=0.01, random_state=0).fit(X)


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def decode(text: str, kind: str) -> Any:
    return np.frombuffer(base64.b64decode(text), dtype=kind)


def values_of(data: dict[str, Any], n_features: int) -> Any:
    """Rows as the page shows them: offsets from the centre, and the centre."""
    return decode(data["values"], "<f4").reshape(n_features, -1).T * np.array(data["units"]) + np.array(data["centre"])


def test_page_is_one_file_without_addresses_to_load() -> None:
    page = render_report(MODEL, X)
    assert re.findall(r'(?:src|href)="(?!data:)[^"]*"', page) == []
    assert "@import" not in page
    assert "url(" not in page
    assert len(page) < 200_000


def test_rows_and_masses_are_those_of_the_model() -> None:
    data = data_of(render_report(MODEL, X))
    np.testing.assert_array_equal(decode(data["rows"], "<u4"), np.arange(11))
    np.testing.assert_allclose(values_of(data, 2), X, atol=1e-6)
    masses = decode(data["masses"], "<u2").reshape(3, 11).T / 65535
    np.testing.assert_allclose(masses, MODEL.predict_mass(X), atol=1 / 65535)
    assert [s["rows"] for s in data["sets"]] == np.bincount(MODEL.predict_sets(X), minlength=3).tolist()


@pytest.mark.parametrize("rule", ["heaviest", "utility", "dominance"])
def test_plot_tables_and_words_follow_one_rule(rule: str) -> None:
    # By utility the first six rows and the last five get {1,2}, which is not a focal set.
    mass = np.repeat([[0.46, 0.0, 0.0, 0.54], [0.55, 0.4, 0.05, 0.0]], [6, 5], axis=0)
    partition = CredalPartition(mass, FocalSets.simple(3))
    model = EGMM(3, random_state=0).fit(make_blobs_with_overlap(60, random_state=0)[0])
    page = render_report(model, X, partition=partition, rule=rule)
    data = data_of(page)
    chosen = decode(data["chosen"], "<u2")
    members = partition.upper("mass" if rule == "heaviest" else rule)
    assert [data["sets"][at]["members"] for at in chosen] == [np.flatnonzero(row).tolist() for row in members]
    assert [s["rows"] for s in data["sets"]] == np.bincount(chosen, minlength=len(data["sets"])).tolist()
    labels = {listed["row"]: listed["set"] for listed in data["objects"]}
    assert labels == {row: data["sets"][at]["label"] for row, at in enumerate(chosen)}
    n_open = {"heaviest": 6, "utility": 11, "dominance": 6}[rule]
    assert f"{n_open} rows ({100 * n_open / 11:.1f} %) are open by " in page.replace("\u202f", " ")
    assert ("need not be in the heaviest set" in page) == (rule == "heaviest")


def test_rows_far_from_the_origin_are_not_blurred(rng: np.random.Generator) -> None:
    rows = (
        rng.normal(size=(60, 3)) + 8.0 * (np.arange(60) % 2)[:, None] + 1.7e9
    )  # single precision has steps of 128 there
    model = EGMM(2, random_state=0).fit(rows)
    data = data_of(render_report(model, rows))
    np.testing.assert_allclose(values_of(data, 3), rows, rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.array(data["means"]) + data["centre"], model.means_, rtol=0, atol=1e-5)
    for axis in data["axes"]:
        along = (rows - data["centre"]) @ axis["d"] + axis["o"]
        if axis["name"] == "principal component 1":
            assert abs(along.mean()) < 1e-5
            np.testing.assert_allclose(along.var(), np.linalg.eigvalsh(np.cov(rows.T, ddof=0))[-1], rtol=1e-5)


def test_a_data_frame_is_reported_without_a_warning() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["length", "width"])
    model = EGMM(2, reg_covar=0.01, random_state=0).fit(frame)
    assert data_of(render_report(model, frame))["columns"] == ["length", "width"]


def test_other_models_and_unfitted_ones_are_refused() -> None:
    with pytest.raises(TypeError, match="model must be an EGMM, got ECM"):
        render_report(ECM(2, random_state=0).fit(X), X)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        render_report(EGMM(2), X)


def test_slider_counts_are_of_all_rows() -> None:
    data = data_of(render_report(MODEL, X))
    doubt = 1 - MODEL.predict_proba(X).max(axis=1)
    assert data["doubtfulRows"][0] == 11
    assert data["doubtfulRows"][LEVELS // 2] == int((doubt >= 0.25).sum())
    assert len(data["doubtfulRows"]) == LEVELS + 1


def test_the_most_doubtful_object_comes_first() -> None:
    first = data_of(render_report(MODEL, X))["objects"][0]
    # Object 6 of the paper, half-way between the diamonds.
    assert (first["row"], first["set"]) == (5, "{1,2}")


def test_of_many_rows_a_sample_with_all_listed_ones_is_drawn(rng: np.random.Generator) -> None:
    rows = rng.normal(size=(30_000, 2)) + 3.0 * rng.integers(2, size=30_000)[:, None]
    model = EGMM(2, random_state=0, max_iter=20, tol=1e-2).fit(rows)
    data = data_of(render_report(model, rows))
    drawn = decode(data["rows"], "<u4")
    assert len(drawn) == len(set(drawn)) == MOST_ROWS
    assert data["nRows"] == 30_000
    assert sum(s["rows"] for s in data["sets"]) == 30_000
    assert len(data["objects"]) >= MOST_LISTED
    assert all(drawn[listed["at"]] == listed["row"] for listed in data["objects"])


def test_scaled_fits_are_shown_in_original_units() -> None:
    centre, scale = X.mean(axis=0), X.std(axis=0)
    model = EGMM(2, random_state=0).fit((X - centre) / scale)
    data = data_of(render_report(model, (X - centre) / scale, scaling=(centre, scale)))
    np.testing.assert_allclose(values_of(data, 2), X, atol=1e-6)
    np.testing.assert_allclose(
        np.array(data["means"]) + data["centre"], model.means_ * scale + centre, rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(data["covariances"][0], model.covariances_ * np.outer(scale, scale), rtol=1e-6)


def test_markup_in_names_is_escaped_everywhere() -> None:
    name = "</script><b>"
    page = render_report(MODEL, X, feature_names=[name, "y"], title=name, reproduce=name)
    assert page.count(name) == 0
    assert data_of(page)["columns"] == [name, "y"]


def test_names_must_fit_the_columns() -> None:
    with pytest.raises(ValueError, match="feature_names must have 2 entries, got 1"):
        render_report(MODEL, X, feature_names=["a"])


@pytest.mark.parametrize(
    ("details", "error", "message"),
    [
        ({"selection": 3}, TypeError, "selection must be a Selection or None, got int"),
        ({"n_total": 5}, ValueError, "n_total must be an integer >= 11, got 5"),
        ({"scaling": (1.0,)}, ValueError, r"scaling \(centre, scale\) must have shape \(2, 2\), got \(1,\)"),
    ],
)
def test_bad_details_are_named(details: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        render_report(MODEL, X, **details)


def test_words_are_about_a_partition() -> None:
    with pytest.raises(TypeError, match="partition must be a CredalPartition, got ndarray"):
        describe(MODEL, X)


def python_of(page: str) -> str:
    found = re.search(r'<pre id="reproduce">(.*?)</pre>', page, re.DOTALL)
    assert found is not None
    return html.unescape(found[1])


def test_python_to_reproduce_names_what_it_cannot_hold() -> None:
    labels = (X[:, 0] > 0).astype(int)
    given = {"init": labels, "focal_sets": FocalSets.full(2), "reg_covar": np.float64(0.02)}
    model = EGMM(2, **given).fit(X)
    code = python_of(render_report(model, X))
    assert "# focal_sets and init: as given when this model was fitted" in code
    assert "reg_covar=0.02" in code
    names = {"X": X, "init": labels, "focal_sets": given["focal_sets"]}
    exec(code, names)
    np.testing.assert_array_equal(names["model"].means_, model.means_)


@pytest.mark.parametrize("frame", ["Series", "DataFrame"])
def test_a_start_from_pandas_is_reported(frame: str) -> None:
    pandas = pytest.importorskip("pandas")
    start = pandas.Series((X[:, 0] > 0).astype(int)) if frame == "Series" else pandas.DataFrame([[-4.0, 0], [4.0, 0]])
    page = render_report(EGMM(2, init=start).fit(X), X)
    assert "EGMM(init=init)" in python_of(page)
    assert ["init", f"array of shape {start.shape}"] in data_of(page)["parameters"]


def test_python_to_reproduce_is_what_was_asked_for() -> None:
    page = render_report(EGMM(3, covariance="EII", random_state=5).fit(X), X)
    assert "EGMM(covariance=&#x27;EII&#x27;, n_clusters=3, random_state=5)" in page


def test_words_say_what_is_sure_and_what_is_not() -> None:
    partition = CredalPartition([[1, 0, 0], [0, 0.1, 0.9], [0.2, 0.8, 0], [1, 0, 0]], FocalSets.full(2))
    words = " ".join(describe(MODEL, partition, outliers=np.array([True, False, False, False])))
    assert "1 row (25.0 %) is open by heaviest set: its set has several clusters" in words
    assert "Every row is sure" in " ".join(describe(MODEL, partition[[0, 2]]))
    assert "1 row (25.0 %) lies far from every cluster" in words
    assert "overlap most are {1,2}, with 22.5 % of all mass" in words


def test_words_warn_of_clusters_without_rows_of_their_own() -> None:
    partition = CredalPartition([[1, 0, 0], [0, 0, 1.0]], FocalSets.full(2))
    assert any("No row has its largest mass on cluster 2 alone: it is" in line for line in describe(MODEL, partition))
    vague = CredalPartition([[0, 0, 1.0]], FocalSets.full(2))
    assert any(
        "No row has its largest mass on clusters 1, 2 alone: they are" in line for line in describe(MODEL, vague)
    )


def test_words_warn_of_fits_not_to_be_trusted() -> None:
    model = EGMM(2, random_state=0).fit(X)
    model.converged_, model.degenerate_ = False, True
    words = " ".join(describe(model, model.partition(X)))
    assert "did NOT converge" in words
    assert "degenerate" in words


def test_words_name_the_runner_up() -> None:
    selection = select_model(X, range(1, 4), random_state=0)
    words = describe(selection.best, selection.best.partition(X), selection=selection)
    assert any(re.search(r"EBIC chose \d clusters? with covariance EEE among 3 candidates; the next", w) for w in words)


def test_words_name_a_partition_that_agrees_better_with_the_others() -> None:
    found = select_model(X, [2], ("EEE", "EII"), random_state=0)
    apart = [replace(c, agreement=0.4 if c.covariance == found.covariance else 0.6) for c in found.candidates]
    selection = Selection(apart, "ebic", higher_is_better=True)
    assert selection.alternative is not None
    assert f"{selection.advice}." in describe(selection.best, MODEL.partition(X), selection=selection)


def test_words_say_where_agreement_has_chosen() -> None:
    found = select_model(X, [2], ("EEE", "EII"), random_state=0)
    apart = [replace(c, agreement=0.4 if c.covariance == found.covariance else 0.6) for c in found.candidates]
    selection = Selection(apart, "ebic", higher_is_better=True, by_agreement=True)
    words = describe(selection.best, MODEL.partition(X), selection=selection)
    said = "EBIC chose 2 clusters among 2 candidates; among its covariance models, the partition of"
    said += f" {selection.covariance} agrees most"
    assert any(word.startswith(said) for word in words)
    assert f"{selection.advice}." in words


def test_the_runner_up_is_a_fit_that_could_have_been_chosen() -> None:
    # Four clusters of these eleven rows are degenerate; with EEE their criterion is the higher one.
    settings = {"focal_sets": "full", "reg_covar": 0.01, "random_state": 0, "certainty": 0.0}
    selection = select_model(X, [2, 4], ("EEE", "VVV"), **settings)
    two, four, other, _ = (candidate.value("ebic") for candidate in selection.candidates)
    assert two < four < 2 * two - other
    words = " ".join(describe(selection.best, MODEL.partition(X), selection=selection))
    assert f"among 4 candidates; the next best, 2 with VVV, differs by {two - other:.1f}." in words
    alone = select_model(X, [2, 4], **settings)
    words = " ".join(describe(alone.best, MODEL.partition(X), selection=alone))
    assert "among 2 candidates; the other is degenerate." in words


def test_a_runner_up_that_is_as_good_is_called_so() -> None:
    found = select_model(X, [2], ("EEE", "EII"), covariance_by="criterion", random_state=0)
    best = max(found.candidates, key=lambda candidate: candidate.value("ebic"))
    for gap, ends in ((2.9, "differs by 2.9, too little to tell which is better."), (3.1, "differs by 3.1.")):
        pair = [replace(c, criteria={"ebic": 10.0 if c is best else 10.0 - gap}) for c in found.candidates]
        words = describe(found.best, MODEL.partition(X), selection=Selection(pair, "ebic", higher_is_better=True))
        assert any(word.endswith(ends) for word in words)


def test_rows_of_a_sample_keep_their_numbers() -> None:
    data = data_of(render_report(MODEL, X, n_total=2000, row_numbers=np.arange(11) * 100 + 7))
    assert data["objects"][0]["row"] == 507
    np.testing.assert_array_equal(decode(data["rows"], "<u4"), np.arange(11) * 100 + 7)
    with pytest.raises(ValueError, match=r"row_numbers must have 11 entries, one per row, got shape \(3,\)"):
        render_report(MODEL, X, row_numbers=[1, 2, 3])


def test_a_consensus_is_shown_without_mixing_weights() -> None:
    consensus = CredalPartition.from_probabilities([[0.9, 0.1]] * len(X))
    page = render_report(MODEL, X, partition=consensus, sentences=["Two models agree."])
    assert "<p>Two models agree.</p>" in page
    assert '"weight": null' in page
    assert '"weight": null' not in render_report(MODEL, X)
    with pytest.raises(ValueError, match="X and partition must have the same number of rows"):
        render_report(MODEL, X, partition=consensus[:2])


def test_values_beyond_single_precision_stay_numbers(rng: np.random.Generator) -> None:
    X = rng.normal(size=(40, 3)) + 5.0 * (np.arange(40) % 2)[:, None]
    X *= [1e60, 1e-60, 1.0]
    data = data_of(render_report(EGMM(2, random_state=0).fit(X), X))
    assert np.isfinite(decode(data["values"], "<f4")).all()
    np.testing.assert_allclose(values_of(data, 3) / np.abs(X).max(axis=0), X / np.abs(X).max(axis=0), atol=1e-6)
    assert data["units"][2] == 1.0  # and ordinary columns are stored as they are


def test_counts_are_printable_on_a_terminal(rng: np.random.Generator) -> None:
    X = rng.normal(size=(1200, 1))
    model = EGMM(1, random_state=0).fit(X)
    sentences = describe(model, model.partition(X))
    assert "in 1 200 rows of 1 feature" in sentences[0]
    assert all(sentence.isprintable() for sentence in sentences)
