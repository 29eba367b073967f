"""Data frames in and out: row names survive, tables come in the caller's library, mixtures work in scikit-learn."""

import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import egmm
from egmm import BPEC, ECM, EGMM, FCM, CredalPartition, FocalSets, select_model
from egmm.datasets import load_uci

MASS = [[0.5, 0.1, 0.4], [0, 0, 1], [0, 1, 0]]
NAMES = ["Anna", "Bert", "Cleo"]


@pytest.fixture(scope="module")
def iris() -> pd.DataFrame:
    data = load_uci("iris")
    return pd.DataFrame(data.X, columns=list(data.feature_names), index=[f"flower {k}" for k in range(150)])


@pytest.mark.parametrize(
    "estimator", [EGMM(3, random_state=0), ECM(3, random_state=0), FCM(3, random_state=0), BPEC(3)]
)
def test_the_index_of_a_data_frame_reaches_the_tables(iris: pd.DataFrame, estimator) -> None:
    partition = estimator.fit(iris).partition(iris)
    assert list(partition.index) == list(iris.index)
    for table in (partition.table(), partition.to_dataframe()):
        assert list(table.index) == list(iris.index)
    joined = iris.sample(frac=1, random_state=0).join(partition.table())
    assert not joined.isna().any().any()
    assert joined.loc["flower 7", "label"] == partition.labels()[7]


def test_the_table_says_what_the_partition_says() -> None:
    table = CredalPartition(MASS, FocalSets.full(2), index=NAMES).table()
    assert list(table.columns) == ["label", "set", "status", "doubt", "{1}", "{2}", "{1,2}"]
    assert table.loc["Anna"].tolist() == [0, "{1}", "sure", pytest.approx(0.3), 0.5, 0.1, 0.4]
    assert table["status"].tolist() == ["sure", "open", "sure"]
    assert CredalPartition.from_labels([0, -1]).table()["status"].tolist() == ["sure", "outlier"]


def test_the_table_says_who_is_open_by_the_rule() -> None:
    # BetP .7 and .9: a pair has utility .8. The pair of clusters 1 and 3 is no focal set, and has utility .8 too.
    partition = CredalPartition([[0.5, 0.1, 0.4], [0.9, 0.1, 0]], FocalSets.full(2))
    table = partition.table(rule="utility")
    assert table["set"].tolist() == ["{1,2}", "{1}"]
    assert table["status"].tolist() == ["open", "sure"]
    assert partition.table(rule="utility", reward=0.65)["status"].tolist() == ["sure", "sure"]
    three = CredalPartition.from_probabilities([[0.5, 0.0, 0.5]]).table(rule="utility")
    assert (three["set"].item(), three["status"].item()) == ("{1,3}", "open")


def test_names_follow_rows() -> None:
    partition = CredalPartition(MASS, FocalSets.full(2), index=NAMES)
    assert list(partition[1:].index) == ["Bert", "Cleo"]
    assert list(partition[-1].index) == ["Cleo"]
    assert list(partition[np.array([True, False, True])].index) == ["Anna", "Cleo"]
    assert list(partition.discount(0.1).relabel([1, 0]).index) == NAMES
    assert list(pickle.loads(pickle.dumps(partition)).index) == NAMES
    assert list(CredalPartition.concatenate([partition, partition[:1]]).index) == [*NAMES, "Anna"]
    assert CredalPartition.concatenate([partition, CredalPartition.from_labels([0, 1])]).index is None
    days = pd.date_range("2020-01-01", periods=3, name="day")
    dated = CredalPartition(MASS, FocalSets.full(2), index=days)
    assert CredalPartition.concatenate([dated, dated]).index.equals(days.append(days))
    assert dated.table().index.name == "day"


def test_rows_without_names_are_numbered() -> None:
    partition = CredalPartition(MASS, FocalSets.full(2))
    assert partition.index is None
    assert list(partition[1:].table().index) == [0, 1]


def test_wrong_names_are_refused() -> None:
    with pytest.raises(ValueError, match="index must have 3 entries, one per row, got 2"):
        CredalPartition(MASS, FocalSets.full(2), index=NAMES[:2])
    with pytest.raises(ValueError, match="library must be one of 'pandas', 'polars'; got 'arrow'"):
        CredalPartition(MASS, FocalSets.full(2)).table("arrow")


def test_polars_in_polars_out(iris: pd.DataFrame) -> None:
    frame = pl.DataFrame(iris.to_dict(orient="list"))
    model = EGMM(3, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == frame.columns
    np.testing.assert_array_equal(model.means_, EGMM(3, random_state=0).fit(iris).means_)
    table = model.partition(frame).table()
    assert isinstance(table, pl.DataFrame)
    assert table.columns[:4] == ["label", "set", "status", "doubt"]
    assert len(table) == 150
    named = CredalPartition(MASS, FocalSets.full(2), index=NAMES).table("polars")
    assert named["row"].to_list() == NAMES


@pytest.mark.parametrize(("output", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_masses_are_columns_with_the_names_of_the_sets(iris: pd.DataFrame, output: str, kind: type) -> None:
    model = EGMM(3, random_state=0).set_output(transform=output)
    masses = model.fit_transform(iris)
    assert isinstance(masses, kind)
    assert list(masses.columns) == list(model.get_feature_names_out()) == list(model.focal_sets_.labels)
    np.testing.assert_array_equal(masses.to_numpy(), model.predict_mass(iris))
    if output == "pandas":
        assert list(masses.index) == list(iris.index)


def test_a_polars_frame_passes_through_a_pipeline_and_a_column_transformer(iris: pd.DataFrame) -> None:
    frame = pl.DataFrame(iris.to_dict(orient="list"))
    chain = make_pipeline(StandardScaler(), EGMM(3, random_state=0)).set_output(transform="polars")
    masses = chain.fit(frame).transform(frame)
    assert isinstance(masses, pl.DataFrame)
    same = make_pipeline(StandardScaler(), EGMM(3, random_state=0)).fit(iris)
    assert list(chain[-1].feature_names_in_) == frame.columns
    # StandardScaler adds in the order of the memory, which differs between the libraries.
    np.testing.assert_allclose(masses.to_numpy(), same.transform(iris), rtol=1e-8, atol=1e-11)
    parts = ColumnTransformer([("petals", EGMM(3, random_state=0), ["petal_length", "petal_width"])])
    out = parts.set_output(transform="polars").fit_transform(frame)
    assert out.columns[:2] == ["petals__{1}", "petals__{2}"]
    alone = EGMM(3, random_state=0).fit(iris[["petal_length", "petal_width"]])
    np.testing.assert_array_equal(out.to_numpy(), alone.predict_mass(iris[["petal_length", "petal_width"]]))


def test_a_mixture_is_a_step_of_a_pipeline_and_a_column_transformer(iris: pd.DataFrame) -> None:
    y = load_uci("iris").y
    chain = make_pipeline(StandardScaler(), EGMM(3, n_init=10, random_state=0), LogisticRegression())
    assert chain.fit(iris, y).score(iris, y) > 0.95
    petals = EGMM(3, random_state=0)
    parts = ColumnTransformer([("petals", petals, ["petal_length", "petal_width"])], remainder="passthrough")
    parts.set_output(transform="pandas")
    out = parts.fit_transform(iris)
    assert list(out.columns[:2]) == ["petals__{1}", "petals__{2}"]
    assert list(out.index) == list(iris.index)
    assert cross_val_score(chain, iris, y, cv=3).min() > 0.9


def test_a_grid_search_compares_mixtures_by_their_density(iris: pd.DataFrame) -> None:
    search = GridSearchCV(EGMM(random_state=0), {"n_clusters": [1, 3]}, cv=3, error_score="raise")
    shuffled = iris.sample(frac=1, random_state=0)
    assert search.fit(shuffled).best_params_ == {"n_clusters": 3}
    frame = pl.DataFrame(shuffled.to_dict(orient="list"))
    assert search.fit(frame).best_params_ == {"n_clusters": 3}


def test_weights_are_routed(iris: pd.DataFrame) -> None:
    weight = np.where(np.arange(150) < 100, 1.0, 0.0)
    with config_context(enable_metadata_routing=True):
        model = EGMM(2, random_state=0).set_fit_request(sample_weight=True)
        chain = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), model)
        chain.fit(iris, sample_weight=weight)
        np.testing.assert_allclose(chain[0].mean_, iris[:100].mean())
        alone = EGMM(2, random_state=0).fit(chain[0].transform(iris), sample_weight=weight)
        np.testing.assert_array_equal(chain[-1].means_, alone.means_)
        search = GridSearchCV(model.set_score_request(sample_weight=True), {"n_clusters": [2]}, cv=2)
        assert np.isfinite(search.fit(iris, sample_weight=np.ones(150)).best_score_)


def test_a_selection_is_a_data_frame_and_a_table_in_a_notebook(iris: pd.DataFrame) -> None:
    selection = select_model(iris, [2, 3], ["EEE", "VVI"], random_state=0, n_jobs=1)
    frame = selection.to_dataframe()
    assert list(frame.columns[:3]) == ["n_clusters", "covariance", "ebic"]
    assert frame["ebic"].is_monotonic_decreasing
    assert isinstance(selection.to_dataframe("polars"), pl.DataFrame)
    page = selection._repr_html_()
    assert page.count("<tr>") == 3
    assert "EBIC (higher is better)" in page
    assert re.search(r"-?\d+\.\d \*", page)
    assert page.endswith("egmm.Selection'>documentation of Selection</a></p>")


@pytest.mark.parametrize("name", ["EGMM", "AutoEGMM", "ECM", "BPEC"])
def test_diagrams_link_to_the_documentation(name: str) -> None:
    link = getattr(egmm, name)()._get_doc_link()
    assert link.startswith("https://")
    assert link.endswith(f"api/packages/egmm.html#egmm.{name}")
    assert link in getattr(egmm, name)()._repr_html_()
