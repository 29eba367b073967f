import copy
import pickle
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belief.strategies import partitions, quick
from egmm import CredalPartition, FocalSets
from egmm.belief import average_nonspecificity

FULL = FocalSets.full(2)
SMALL = CredalPartition([[0.5, 0.1, 0.4], [0.2, 0.3, 0.5]], FULL)
# The paper's Table "Example of the evidential membership": {1} {2} {1,2} {3} {1,3} {2,3} {1,2,3}.
PAPER = CredalPartition(
    [
        [0.2, 0.3, 0, 0.5, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 1],
        [0, 0.1, 0, 0.2, 0, 0.4, 0.3],
    ],
    FocalSets.full(3),
)


@pytest.mark.paper
class TestExampleOfTheEvidentialMembership:
    def test_kinds(self):
        assert PAPER.kinds() == ["Bayesian", "certain", "vacuous", "general"]

    def test_beliefs_worked_by_hand(self):
        np.testing.assert_allclose(PAPER.belief(), [[0.2, 0.3, 0.5], [0, 0, 1], [0, 0, 0], [0, 0.1, 0.2]])
        np.testing.assert_allclose(PAPER.plausibility(), [[0.2, 0.3, 0.5], [0, 0, 1], [1, 1, 1], [0.3, 0.8, 0.9]])
        third = 1 / 3
        np.testing.assert_allclose(
            PAPER.pignistic(), [[0.2, 0.3, 0.5], [0, 0, 1], [third, third, third], [0.1, 0.4, 0.5]]
        )

    def test_decisions(self):
        np.testing.assert_array_equal(PAPER.labels(), [2, 2, 0, 2])
        assert [PAPER.focal_sets.labels[j] for j in PAPER.sets()] == ["{3}", "{3}", "{1,2,3}", "{2,3}"]
        np.testing.assert_array_equal(PAPER.lower(), [[0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]])
        np.testing.assert_array_equal(PAPER.upper(), [[0, 0, 1], [0, 0, 1], [1, 1, 1], [0, 1, 1]])
        # Dominance: the best Bel are .5, 1, 0, .2, and every cluster of the last row is as plausible.
        np.testing.assert_array_equal(PAPER.upper(by="dominance"), [[0, 0, 1], [0, 0, 1], [1, 1, 1], [1, 1, 1]])
        np.testing.assert_array_equal(PAPER.lower(by="dominance"), [[0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]])

    def test_nonspecificity(self):
        np.testing.assert_allclose(PAPER.nonspecificity(), [0, 0, np.log2(3), 0.4 + 0.3 * np.log2(3)])


def test_views():
    np.testing.assert_array_equal(PAPER.hard(), [2, 2, 0, 2])
    np.testing.assert_allclose(PAPER.fuzzy().sum(axis=1), 1)
    np.testing.assert_allclose(PAPER.possibilistic()[2], [1, 1, 1])
    lower, upper = PAPER.rough()
    np.testing.assert_array_equal(lower, PAPER.lower())
    np.testing.assert_array_equal(upper, PAPER.upper())


@given(partitions())
@quick
def test_rough_sets_nest(sources):
    [partition] = sources
    sizes = partition.focal_sets.cardinalities[partition.sets()]
    np.testing.assert_array_equal(partition.upper().sum(axis=1), sizes)
    np.testing.assert_array_equal(partition.lower().sum(axis=1), sizes == 1)
    np.testing.assert_array_equal(partition.outliers(), sizes == 0)
    for by in ("mass", "dominance"):
        assert np.all(partition.lower(by) <= partition.upper(by))


# Immutable ---------------------------------------------------------------------------------------------------


def test_masses_are_copied_and_read_only():
    mass = np.array([[0.5, 0.1, 0.4]])
    partition = CredalPartition(mass, FULL)
    mass[0] = 0
    np.testing.assert_array_equal(partition.mass, [[0.5, 0.1, 0.4]])
    for version in (partition, pickle.loads(pickle.dumps(partition)), copy.deepcopy(partition), partition[:]):
        with pytest.raises(ValueError, match="read-only"):
            version.mass[0] = 0
        with pytest.raises(AttributeError):
            version.mass = mass
        with pytest.raises(AttributeError):
            version.extra = 1


def test_a_read_only_array_is_not_copied():
    mass = np.array([[0.5, 0.1, 0.4]])
    mass.setflags(write=False)
    assert CredalPartition(mass, FULL).mass is mass
    view = np.array([[0.5, 0.1, 0.4]])[:]
    view.setflags(write=False)
    assert CredalPartition(view, FULL).mass is not view


def test_equality_and_hash():
    assert CredalPartition([[1, 0, 0.0]], FULL) == CredalPartition([[1, -0.0, 0]], FULL)
    assert hash(CredalPartition([[1, 0, 0.0]], FULL)) == hash(CredalPartition([[1, -0.0, 0]], FULL))
    assert CredalPartition([[0.5, 0.1, 0.4], [0.2, 0.4, 0.4]], FULL) != SMALL
    assert CredalPartition.from_labels([0], 2) != CredalPartition([[1, 0, 0]], FULL)
    assert CredalPartition.from_labels([0], 2) != CredalPartition([[1, 0]], FocalSets.from_sets([{0}, {0, 1}], 2))
    assert SMALL != "partition"
    assert pickle.loads(pickle.dumps(SMALL)) == SMALL


# Other ways in and out ---------------------------------------------------------------------------------------


def test_from_labels():
    partition = CredalPartition.from_labels(np.array([2, 0, -1], dtype=np.int8), n_clusters=4)
    assert partition.focal_sets == FocalSets.singletons(4, empty=True)
    np.testing.assert_array_equal(partition.mass, [[0, 0, 0, 1, 0], [0, 1, 0, 0, 0], [1, 0, 0, 0, 0]])
    np.testing.assert_array_equal(partition.outliers(), [False, False, True])
    assert CredalPartition.from_labels([0, 1, 1]).focal_sets == FocalSets.singletons(2)
    assert CredalPartition.from_labels([62]).labels() == [62]
    assert CredalPartition.from_labels([-1]).n_clusters == 1
    assert len(CredalPartition.from_labels(np.zeros(0, dtype=int))) == 0


def test_from_probabilities():
    partition = CredalPartition.from_probabilities([[0.2, 0.8], [1, 0]])
    np.testing.assert_array_equal(partition.pignistic(), [[0.2, 0.8], [1, 0]])
    assert partition.kinds() == ["Bayesian", "certain"]


def test_from_masses_in_any_order():
    partition = CredalPartition.from_masses([[0.1, 0.2, 0.3, 0.4]], [{0, 1}, (), [1], {1, 0}], n_clusters=2)
    assert partition.focal_sets.labels == ("∅", "{2}", "{1,2}")
    np.testing.assert_allclose(partition.mass, [[0.2, 0.3, 0.5]])


def test_slicing():
    assert len(PAPER) == 4
    np.testing.assert_array_equal(PAPER[1].mass, PAPER.mass[1:2])
    np.testing.assert_array_equal(PAPER[-1].mass, PAPER.mass[3:])
    np.testing.assert_array_equal(PAPER[1:3].mass, PAPER.mass[1:3])
    np.testing.assert_array_equal(PAPER[[3, 0]].mass, PAPER.mass[[3, 0]])
    np.testing.assert_array_equal(PAPER[PAPER.labels() == 2].mass, PAPER.mass[[0, 1, 3]])
    assert PAPER[:0].mass.shape == (0, 7)
    assert [part.kinds()[0] for part in PAPER] == PAPER.kinds()


@given(partitions(3))
@quick
def test_concatenation_undoes_slicing(sources):
    joined = CredalPartition.concatenate(source for source in sources)
    start = 0
    for source in sources:
        part = joined[start : start + len(source)]
        np.testing.assert_allclose(part.pignistic(), source.pignistic(), atol=1e-15)
        assert part == source.over(joined.focal_sets)
        start += len(source)
    assert start == len(joined)


def test_over_keeps_mass():
    simple = FocalSets.simple(3)
    message = "{2,3} carries mass in row 3 but is not among the focal sets of the new family."
    with pytest.raises(ValueError, match=re.escape(message)):
        PAPER.over(simple)
    assert PAPER[:3].over(simple).over(PAPER.focal_sets) == PAPER[:3]


def test_to_dataframe():
    pandas = pytest.importorskip("pandas")
    frame = PAPER.to_dataframe()
    assert list(frame.columns) == ["{1}", "{2}", "{1,2}", "{3}", "{1,3}", "{2,3}", "{1,2,3}"]
    np.testing.assert_array_equal(frame.to_numpy(), PAPER.mass)
    assert isinstance(frame, pandas.DataFrame)


def test_to_dataframe_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=re.escape("Data frames need pandas: pip install 'pandas'.")):
        PAPER.to_dataframe()


# Labels ------------------------------------------------------------------------------------------------------


@given(partitions(), st.data())
@quick
def test_relabelling_permutes_columns(sources, data):
    [partition] = sources
    order = data.draw(st.permutations(range(partition.n_clusters)))
    renamed = partition.relabel(order)
    for view in ("belief", "plausibility", "pignistic"):
        np.testing.assert_allclose(getattr(renamed, view)()[:, order], getattr(partition, view)(), atol=1e-15)
    assert renamed.relabel(np.argsort(order)) == partition
    for members, column in zip(partition.focal_sets, partition.mass.T, strict=True):
        moved = renamed.focal_sets.index_of({order[k] for k in members})
        np.testing.assert_array_equal(renamed.mass[:, moved], column)


@given(st.integers(1, 5), st.data())
@quick
def test_alignment_undoes_relabelling(n_clusters, data):
    order = data.draw(st.permutations(range(n_clusters)))
    labels = np.arange(3 * n_clusters) % n_clusters
    partition = CredalPartition.from_labels(labels).discount(0.3)
    assert partition.relabel(order).align(partition) == partition
    np.testing.assert_array_equal(partition.relabel(order).align(labels).labels(), labels)


def test_alignment_is_the_best_matching_not_the_greedy_one():
    # Counts: cluster 0 meets classes 0 and 1 in 5 and 4 rows, cluster 1 in 4 and 0. Greedy 5 + 0, best 4 + 4.
    clusters = [0] * 9 + [1] * 4
    truth = [0] * 5 + [1] * 4 + [0] * 4
    aligned = CredalPartition.from_labels(clusters).align(truth)
    np.testing.assert_array_equal(aligned.labels(), [1] * 9 + [0] * 4)


def test_alignment_to_names_and_to_fewer_classes():
    partition = CredalPartition.from_labels([2, 2, 0, 1])
    np.testing.assert_array_equal(partition.align(["cat", "cat", "dog", "fox"]).labels(), [0, 0, 1, 2])
    # Cluster 1 has no class of its own and takes the number left.
    np.testing.assert_array_equal(partition.align(["b", "b", "a", "a"]).labels(), [1, 1, 0, 2])
    # Integers keep their value, so class 2 is cluster 2 although class 1 has no rows.
    np.testing.assert_array_equal(partition.align([2, 2, 0, 0]).labels(), [2, 2, 0, 1])
    # Other integers are names.
    np.testing.assert_array_equal(partition.align([1, 1, 2, 3]).labels(), [0, 0, 1, 2])
    np.testing.assert_array_equal(partition.align([-5, -5, 0, 2]).labels(), [0, 0, 1, 2])


# For people --------------------------------------------------------------------------------------------------


def test_summary():
    mixed = CredalPartition(
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0.4, 0.6, 0], [0, 0, 0.2, 0.8]], FocalSets.full(2, empty=True)
    )
    assert mixed.summary().splitlines() == [
        "Credal partition: 4 rows, 2 clusters, 4 focal sets",
        "by heaviest set: sure 2 (50.0 %), open 1 (25.0 %), outliers 1 (25.0 %)",
        "average nonspecificity: 0.450 (0 precise, 1 vacuous)",
        "  set         mean mass  rows",
        "  ∅               0.250     1",
        "  {1}             0.350     1",
        "  {2}             0.200     1",
        "  {1,2}           0.200     1",
    ]
    assert average_nonspecificity(mixed.mass, mixed.focal_sets) == pytest.approx(0.45)
    assert "sure 1 (33.3 %), open 1 (33.3 %), outliers 1 (33.3 %)" in mixed[[0, 1, 3]].summary()


def test_the_summary_counts_the_sets_of_its_rule():
    # No cluster has more than half: three clusters with a reward of .9, which no focal set holds.
    partition = CredalPartition([[1, 0, 0], [0.35, 0.33, 0.32]], FocalSets.singletons(3))
    lines = partition.summary("utility", reward=0.9).splitlines()
    assert lines[1] == "by expected utility (reward 0.9): sure 1 (50.0 %), open 1 (50.0 %)"
    assert [line.split()[0] for line in lines[4:] if line.split()[-1] == "1"] == ["{1}", "{1,2,3}"]
    assert "sure 2" in partition.summary()


def test_summary_of_a_large_family_adds_the_lightest_up():
    focal = FocalSets.full(4)
    weights = np.arange(15, 0, -1.0)
    lines = CredalPartition([weights / 120], focal).summary().splitlines()
    assert lines[-1].split() == ["other", "sets", "0.050", "0"]
    assert len(lines) == 4 + 12 + 1
    # Every set has a row of its own.
    assert CredalPartition(np.eye(15), focal).summary().splitlines()[-1].split() == ["other", "sets", "0.200", "3"]
    assert "other sets" not in CredalPartition(np.eye(12), FocalSets(range(1, 13), 4)).summary()


def test_summary_of_no_rows():
    lines = SMALL[:0].summary().splitlines()
    assert lines[0] == "Credal partition: 0 rows, 2 clusters, 3 focal sets"
    assert [line.split() for line in lines[2:]] == [[name, "0.000", "0"] for name in ("{1}", "{2}", "{1,2}")]
    assert SMALL[:0].kinds() == []


def test_repr():
    assert repr(SMALL[:1]) == "<Credal partition: 1 row, 2 clusters, 3 focal sets>"


class Balanced(HTMLParser):
    """Fails on a tag that is closed out of order; collects the text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data.strip())


def test_notebook_table():
    page = SMALL._repr_html_()
    assert "api/packages/egmm.html#egmm.CredalPartition'" in page
    words = Balanced(page).words
    assert "Credal partition: 2 rows, 2 clusters, 3 focal sets" in words
    for word in ("{1}", "{2}", "{1,2}", "0.350", "0.200", "0.450"):
        assert word in words


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: CredalPartition([[0.5, 0.1, 0.3]], FULL),
            ValueError,
            "mass rows must sum to 1 within 1e-8; row 0 sums to 0.9.",
        ),
        (
            lambda: CredalPartition([[1.5, -0.5, 0]], FULL),
            ValueError,
            "mass must be non-negative, but entry (0, 1) is -0.5.",
        ),
        (lambda: CredalPartition([[np.nan, 1, 0]], FULL), ValueError, "mass must be finite, but entry (0, 0) is nan."),
        (
            lambda: CredalPartition([["x", "y", "z"]], FULL),
            TypeError,
            "mass must be numeric, got an array of dtype <U1.",
        ),
        (lambda: CredalPartition([[1, 0, 0]], "full"), TypeError, "focal_sets must be a FocalSets, got str"),
        (lambda: SMALL[0, 1], TypeError, "A partition is indexed by rows only; use .mass for columns."),
        (lambda: SMALL[None], TypeError, "A partition is indexed by a number, a slice or a vector of rows, got None."),
        (lambda: SMALL[True], TypeError, "A partition is indexed by a number, a slice or a vector of rows, got True."),
        (lambda: SMALL[[[0, 1]]], TypeError, "indexed by a number, a slice or a vector of rows, got [[0, 1]]."),
        (lambda: SMALL[5], IndexError, "index 5 is out of bounds"),
        (
            lambda: SMALL.labels("mass"),
            ValueError,
            "rule must be one of 'pignistic', 'plausibility', 'belief'; got 'mass'.",
        ),
        (lambda: SMALL.lower(by="size"), ValueError, "by must be one of 'mass', 'utility', 'dominance'; got 'size'."),
        (lambda: SMALL.upper(by="size"), ValueError, "by must be one of 'mass', 'utility', 'dominance'; got 'size'."),
        (lambda: SMALL.over("full"), TypeError, "focal_sets must be a FocalSets, got str"),
        (lambda: SMALL.over(FocalSets.full(3)), ValueError, "The frames differ: 2 and 3 clusters"),
        (lambda: SMALL.relabel([0, 0]), ValueError, "permutation must hold each number from 0 to 1 once, got [0, 0]."),
        (
            lambda: SMALL.relabel([0.0, 1.0]),
            ValueError,
            "permutation must hold each number from 0 to 1 once, got [0.0, 1.0].",
        ),
        (lambda: SMALL.align([0]), ValueError, "reference must have 2 rows like the partition, got 1."),
        (
            lambda: SMALL.align([[0, 1]]),
            ValueError,
            "reference must be a non-empty vector, one label per row; got shape",
        ),
        (lambda: SMALL.align([np.nan, np.nan]), ValueError, "reference must be finite, but row 0 is nan."),
        (
            lambda: SMALL[[0, 1, 0]].align(["a", "b", "c"]),
            ValueError,
            "reference holds 3 classes, but there are only 2 clusters.",
        ),
        (lambda: SMALL.align(CredalPartition.from_labels([0, 2])), ValueError, "The frames differ: 2 and 3 clusters"),
        (lambda: SMALL.align(SMALL[:1]), ValueError, "reference must have 2 rows like the partition, got 1."),
        (
            lambda: CredalPartition.concatenate([SMALL, SMALL.mass]),
            TypeError,
            "concatenate expects CredalPartition objects, got ndarray.",
        ),
        (
            lambda: CredalPartition.concatenate([]),
            ValueError,
            "concatenate needs at least one partition.",
        ),
        (
            lambda: CredalPartition.concatenate([SMALL, CredalPartition.from_labels([2])]),
            ValueError,
            "The frames differ: 3 and 2 clusters",
        ),
        (
            lambda: CredalPartition.from_labels([0.5]),
            TypeError,
            "labels must be integers, one per row, got shape (1,) of float64.",
        ),
        (
            lambda: CredalPartition.from_labels([[0]]),
            TypeError,
            "labels must be integers, one per row, got shape (1, 1) of int64.",
        ),
        (lambda: CredalPartition.from_labels([0, 3], 3), ValueError, "labels must be from -1 (noise) to 2, got 3."),
        (lambda: CredalPartition.from_labels([-1, 3], 3), ValueError, "labels must be from -1 (noise) to 2, got 3."),
        (lambda: CredalPartition.from_labels([-2]), ValueError, "labels must be from -1 (noise) to 0, got -2."),
        (
            lambda: CredalPartition.from_labels([0], 64),
            ValueError,
            "n_clusters must be an integer from 1 to 63, got 64.",
        ),
        (
            lambda: CredalPartition.from_labels([0], "2"),
            TypeError,
            "n_clusters must be an integer from 1 to 63, got '2'.",
        ),
        (
            lambda: CredalPartition.from_probabilities([0.5, 0.5]),
            ValueError,
            "probabilities must have shape (n, m), got (2,).",
        ),
        (lambda: CredalPartition.from_probabilities([[0.5, 0.6]]), ValueError, "row 0 sums to 1.1."),
        (
            lambda: CredalPartition.from_masses([[1.0]], [{0}, {1}], 2),
            ValueError,
            "mass must have shape (n, 2), got (1, 1).",
        ),
        (lambda: CredalPartition.from_masses([[1.0]], [{5}], 2), ValueError, "must be an integer from 0 to 1, got 5."),
        (
            lambda: CredalPartition.from_masses([[1.1, -0.1]], [{0}, {0}], 2),
            ValueError,
            "mass must be non-negative, but entry (0, 1) is -0.1.",
        ),
        (lambda: CredalPartition.from_masses([[]], [], 2), ValueError, "needs at least one set, got an empty list."),
    ],
)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_rows_are_open_or_sure_by_the_rule():
    partition = CredalPartition([[0.5, 0.1, 0.4], [0.2, 0.3, 0.5], [0.9, 0.1, 0]], FocalSets.full(2))
    # BetP .7, .55 and .9.
    assert partition.is_open().tolist() == [False, True, False]
    assert partition.is_open("utility").tolist() == [True, True, False]
    assert partition.is_open("utility", reward=0.65).tolist() == [False, True, False]
    assert partition.is_open("dominance").tolist() == [True, True, False]


@pytest.mark.parametrize("rule", ["utility", "dominance"])
def test_sets_that_need_not_be_focal_are_given_by_their_members(rule):
    partition = CredalPartition([[0.5, 0.1, 0.4], [0.9, 0.1, 0]], FocalSets.full(2))
    assert partition.sets(rule).tolist() == [[True, True], [True, False]]
    assert partition.upper(rule).tolist() == [[True, True], [True, False]]
    assert partition.lower(rule).tolist() == [[False, False], [True, False]]


MASKED = np.ma.masked_array([[0.5, 0.5]], mask=[[False, True]])


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda: CredalPartition(MASKED, FocalSets.singletons(2)), "mass"),
        (lambda: CredalPartition.from_masses(MASKED, [{0}, {1}], 2), "mass"),
        (lambda: CredalPartition.from_probabilities(MASKED), "probabilities"),
        (lambda: CredalPartition.from_labels(np.ma.masked_array([0, 1], mask=[False, True])), "labels"),
        (lambda: CredalPartition([[1.0]] * 2, FocalSets.singletons(1)).discount(MASKED[0]), "rate"),
        (lambda: FocalSets(np.ma.masked_array([1, 2], mask=[False, True]), 2), "masks"),
    ],
)
def test_what_is_below_a_mask_is_no_value(use: Callable[[], object], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} has 1 entry of 2 masked; "):
        use()
