"""What the page says of the clusters: words, profiles, known classes, rules, names of rows."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from egmm import EGMM, CredalPartition
from egmm.report import render_report
from egmm.report.clusters import clusters_html
from report.test_content import data_of

IRIS = load_iris()
NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
CLASSES = IRIS.target_names[IRIS.target]


def plain(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_clusters_are_explained_first() -> None:
    text = plain(clusters_html(CredalPartition.from_labels(IRIS.target), IRIS.data, NAMES))
    assert "Cluster 1 very short petal, very narrow petal, short sepal 50 rows (33 %)" in text
    assert "petal_length 1.462 ± 0.1719 4.26 ± 0.4652 5.552 ± 0.5463" in text
    assert "Rules that approximate the partition" in text
    page = render_report(EGMM(3, random_state=0).fit(IRIS.data), IRIS.data)
    assert page.index("What the clusters are") < page.index("Rows and their sets") < page.index("Convergence")


def test_rules_that_describe_little_are_not_shown() -> None:
    rng = np.random.default_rng(0)
    random = CredalPartition.from_labels(rng.integers(0, 10, 400))
    text = plain(clusters_html(random, rng.normal(size=(400, 3)), ["x", "y", "z"]))
    assert re.search(r"The best 8 rules agree with the sets of only \d+ % of the rows", text)
    assert "Rules that approximate the partition" not in text


def test_classes_are_counted_in_clusters_and_open_rows() -> None:
    mass = np.zeros((4, 3))
    mass[[0, 1, 2, 3], [0, 0, 1, 2]] = 1.0
    partition = CredalPartition.from_masses(mass, [{0}, {1}, {0, 1}], 2)
    page = clusters_html(partition, [[0.0], [1.0], [9.0], [5.0]], ["x"], np.array(["a", "a", "b", "b"]))
    assert "class 1 2 open all a 2 · · 2 b · 1 1 2" in plain(page)
    # A right pair of reward .5 is worth no more than one of its clusters, even odds: the smaller set is chosen.
    sure = clusters_html(partition, [[0.0], [1.0], [9.0], [5.0]], ["x"], np.array(["a", "a", "b", "b"]), "utility", 0.5)
    assert "class 1 2 open all a 2 · · 2 b 1 1 · 2" in plain(sure)
    assert "of them open" in plain(page)
    assert "of them open" not in plain(sure)
    none = clusters_html(partition, [[0.0], [1.0], [9.0], [5.0]], ["x"], np.array(["", "", "", ""]))
    assert "Known classes" not in none


def test_many_features_and_hostile_names() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 50)) + 3.0 * (np.arange(40) % 2)[:, None] * (np.arange(50) < 5)
    names = [f"<b>{k}" for k in range(50)]
    page = clusters_html(CredalPartition.from_labels(np.arange(40) % 2), X, names, np.repeat(["<i>x</i>"], 40))
    assert "20 features with smaller differences are not shown" in page
    assert "<b>0" not in page
    assert "<i>x" not in page
    assert "&lt;b&gt;0" in page


def test_one_cluster_and_missing_cells_are_described() -> None:
    one = plain(clusters_html(CredalPartition.from_labels([0, 0]), [[1.0], [3.0]], ["x"]))
    assert "close to the average in every feature" in one
    assert "Rules" not in one
    gaps = plain(clusters_html(CredalPartition.from_labels([0, 0, 1, 1]), [[1.0], [np.nan], [8.0], [9.0]], ["x"]))
    assert "x 1 ± 0 8.5 ± 0.5" in gaps


def test_names_of_rows_and_classes_reach_the_plot() -> None:
    frame = pd.DataFrame(IRIS.data, columns=NAMES, index=[f"flower {k}" for k in range(150)])
    model = EGMM(3, random_state=0).fit(frame)
    data = data_of(render_report(model, frame, classes=[*CLASSES[:-1], None]))
    assert data["names"][:2] == ["flower 0", "flower 1"]
    assert data["classes"][149] == ""
    assert data["classes"][0] == "setosa"
    assert data["classNames"] == ["setosa", "versicolor", "virginica"]
    found = model.predict(frame)
    for k, colour in enumerate(data["classColours"]):  # every species here has a cluster of its own
        assert colour == data["colours"][np.bincount(found[IRIS.target == k]).argmax()]
    plain_rows = data_of(render_report(model.fit(IRIS.data), pd.DataFrame(IRIS.data)))
    assert plain_rows["names"] is None  # a counted index says no more than the number
    assert plain_rows["classes"] is None
    with pytest.raises(ValueError, match="classes must have 150 entries, one per row, got 3"):
        render_report(model, IRIS.data, classes=["a", "b", "c"])
