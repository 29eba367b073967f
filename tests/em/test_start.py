"""Starts: they see the set of rows, not their order or copies, and are the authors' where labels are given."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import oracles
from checks import nearly_equal_rows
from egmm import EGMM
from egmm.em import labels as labelling
from egmm.em import start
from egmm.em.sample import SAMPLE_ROWS, Sample, draw_sample
from egmm.em.start import make_ridge, sums_by_means
from egmm.em.statistics import Units, moments
from egmm.rows.array import ArrayRows
from em.problems import Found, found_of, groups_of, problem_of, start_of


def sample_of(X, weight=None, seed=0, **options) -> Sample:
    with ArrayRows(np.asarray(X), weight) as rows:
        return draw_sample(rows, seed, **options)


def assert_equal(one: Sample, other: Sample, rtol: float = 0) -> None:
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_allclose(one.weights, other.weights, rtol=rtol)


# The weighted set of rows ----------------------------------------------------------------------------------------


def test_equal_rows_are_merged_and_sorted() -> None:
    sample = sample_of([[2.0, 1], [1, 5], [2, 1], [1, -3], [0, 0]], np.array([1.0, 2, 0.5, 1, 0]))
    np.testing.assert_array_equal(sample.rows, [[1, -3], [1, 5], [2, 1]])
    np.testing.assert_array_equal(sample.weights, [1, 2, 1.5])


def test_zero_has_no_sign() -> None:
    assert len(sample_of([[0.0, 1.0], [-0.0, 1.0]]).rows) == 1


def test_blocks_may_be_empty_of_weight(monkeypatch) -> None:
    monkeypatch.setattr("egmm.rows.array.BLOCK_ROWS", 2)
    sample = sample_of([[3.0], [1], [4], [1], [5]], np.array([0.0, 0, 1, 2, 3]))
    assert_equal(sample, Sample(np.array([[1.0], [4], [5]]), np.array([2.0, 1, 3])))


def test_few_rows_are_all_taken_in_any_order(rng) -> None:
    X = rng.normal(size=(300, 3))
    want = sample_of(X)
    assert len(want.rows) == 300
    assert_equal(sample_of(X[rng.permutation(300)]), want)


@pytest.mark.parametrize("size", [50, 300, 1000])
def test_copies_and_weights_are_the_same(rng, size) -> None:
    X = rng.normal(size=(600, 2))
    counts = rng.integers(0, 5, 600)
    weighted = sample_of(X, counts.astype(float), size=size)
    assert_equal(sample_of(np.repeat(X, counts, axis=0), size=size), weighted)
    halves = sample_of(np.concatenate([X, X]), np.concatenate([counts, counts]) / 2, size=size)
    assert_equal(halves, weighted)
    assert len(weighted.rows) == min(size, (counts > 0).sum())


# Many rows -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    return np.random.default_rng(1).normal(size=(70_000, 3))


def test_of_many_rows_the_same_are_drawn_in_any_order_blocks_and_copies(rng, many, monkeypatch) -> None:
    want = sample_of(many)
    assert len(want.rows) == SAMPLE_ROWS
    assert_equal(sample_of(many[rng.permutation(len(many))]), want)
    doubled = sample_of(np.concatenate([many, many]), np.full(2 * len(many), 0.5))
    assert_equal(doubled, want)
    monkeypatch.setattr("egmm.rows.array.BLOCK_ROWS", 5_000)
    assert_equal(sample_of(many), want)


def test_other_seeds_draw_other_rows(many) -> None:
    one, other = ({*map(tuple, sample_of(many, seed=seed).rows)} for seed in (0, 1))
    # Two independent draws of 2/7 of the rows share 2/7 of theirs.
    assert len(one & other) / len(one) == pytest.approx(2 / 7, abs=0.02)


def test_the_draw_is_fair(many) -> None:
    drawn = sample_of(many).rows
    np.testing.assert_allclose(drawn.mean(axis=0), many.mean(axis=0), atol=5 / np.sqrt(len(drawn)))
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(many.T), atol=5 * np.sqrt(2 / len(drawn)))


@pytest.mark.parametrize(("levels", "columns"), [(256, 1), (40, 2), (2, 3), (1, 1)])
def test_heavy_ties_leave_nothing_out(levels, columns) -> None:
    X = np.random.default_rng(2).integers(0, levels, size=(50_000, columns)).astype(float)
    sample = sample_of(X)
    rows, counts = np.unique(X, axis=0, return_counts=True)
    np.testing.assert_array_equal(sample.rows, rows)
    np.testing.assert_array_equal(sample.weights, counts)


def test_ties_beside_many_distinct_rows(many) -> None:
    X = np.concatenate([np.repeat([[0.5, 0.5, 0.5]], 60_000, axis=0), many])
    sample = sample_of(X)
    assert len(sample.rows) == SAMPLE_ROWS
    copies = sample.weights[(sample.rows == 0.5).all(axis=1)]
    assert set(copies) <= {60_000.0}


def test_whole_numbers_are_hashed_as_evenly_as_others() -> None:
    X = np.stack(np.meshgrid(np.arange(300.0), np.arange(300.0)), axis=-1).reshape(-1, 2)
    drawn = sample_of(X).rows
    for column in range(2):
        counts = np.bincount(drawn[:, column].astype(int) // 30, minlength=10)
        # Ten bins of 2000 expected, five standard deviations.
        np.testing.assert_allclose(counts, 2000, atol=5 * np.sqrt(2000))


# Labels and parameters -------------------------------------------------------------------------------------------


@pytest.fixture
def groups(rng):
    X = rng.normal(size=(40, 3)) + np.repeat([[0.0], [3.0], [9.0]], [20, 15, 5], axis=0)
    return X, np.repeat([0, 1, 2], [20, 15, 5])


def parameters_of(X, labels, weight=None, means=None, n_clusters=3) -> Found:
    problem = problem_of(X, "full", n_clusters, weight=weight)
    found = found_of(problem, start_of(problem, labels, means))
    return found._replace(covariances=found.covariances[0])


def ridge_of(X, labels) -> np.ndarray:
    """The automatic ridge in the units of the rows."""
    problem = problem_of(X, "full", int(labels.max()) + 1)
    units, total = problem.units, moments(X, None)
    ridge = make_ridge("auto", groups_of(problem, labels).variances, units.squares(total.variances), units)
    return units.covariances_out(ridge[0], diagonal=True)


def test_labels_give_the_authors_start(groups) -> None:
    X, labels = groups
    want = oracles.start_from_labels(X, labels, oracles.family("full", 3))
    got = parameters_of(X, labels)
    np.testing.assert_allclose(got.weights, want.weights)
    np.testing.assert_allclose(got.means, want.means, rtol=1e-13)
    np.testing.assert_allclose(got.covariances, want.covariances, rtol=1e-12)


def test_a_group_of_one_row_counts_as_zero_covariance(groups) -> None:
    X, labels = groups
    labels = np.where(np.arange(40) == 7, 3, labels)
    got = parameters_of(X, labels, n_clusters=4)
    want = sum(np.cov(X[labels == k].T) for k in range(3)) / 4
    np.testing.assert_allclose(got.covariances, want, rtol=1e-12, atol=1e-14)


def test_weights_of_rows_are_copies(rng, groups) -> None:
    X, labels = groups
    counts = rng.integers(1, 4, 40)
    weighted = parameters_of(X, labels, counts.astype(float))
    repeated = parameters_of(np.repeat(X, counts, axis=0), np.repeat(labels, counts))
    for got, want in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)


def test_given_means_stay_and_the_covariance_is_about_them(groups) -> None:
    X, labels = groups
    means = np.array([[0.5, 0, 0], [3, 3, 2], [9, 9, 10]])
    got = parameters_of(X, labels, means=means)
    np.testing.assert_allclose(got.means, means, atol=1e-13)
    spreads = []
    for k in range(3):
        offsets = X[labels == k] - means[k]
        spreads.append(offsets.T @ offsets / (len(offsets) - 1))
    np.testing.assert_allclose(got.covariances, sum(spreads) / 3, rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_rows_go_to_the_nearest_mean(rng, offset) -> None:
    X, means = rng.normal(size=(50, 3)) + offset, rng.normal(size=(4, 3)) + offset
    got = sums_by_means(X, None, Units.of(moments(X, None)), means, "full")
    near = X - offset
    nearest = np.argmin([((near - (mean - offset)) ** 2).sum(axis=1) for mean in means], axis=0)
    np.testing.assert_array_equal(got.set_counts[0], np.bincount(nearest, minlength=4))


def test_an_empty_group_is_named(groups) -> None:
    X, labels = groups
    with pytest.raises(ValueError, match=r"init leaves cluster 2 \(label 1\) without rows; give every cluster some"):
        parameters_of(X, np.where(labels == 1, 0, labels))


def by_half_scaled_components(sample: Sample, n_clusters: int, random: np.random.RandomState):
    return labelling.component_labels(sample, n_clusters, random.randint(100))[0]


@pytest.mark.parametrize("label", [labelling.kmeans_labels, labelling.random_labels, by_half_scaled_components])
def test_named_starts_give_every_cluster_rows_and_follow_their_seed(rng, label) -> None:
    sample = sample_of(rng.normal(size=(80, 2)), rng.random(80) + 0.1)
    one, again, other = (label(sample, 5, np.random.RandomState(seed)) for seed in (0, 0, 1))
    assert set(one) == set(range(5))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("label", [labelling.kmeans_labels, by_half_scaled_components])
def test_groups_that_kmeans_cannot_tell_apart_are_counted(label) -> None:
    sample = sample_of(nearly_equal_rows())
    label(sample, 3, np.random.RandomState(0))
    with pytest.raises(ValueError, match=r"n_clusters=4 but k-means finds only 3 in X.*; use fewer clusters"):
        label(sample, 4, np.random.RandomState(0))


def test_rows_equal_but_for_rounding_are_one_group() -> None:
    sample = sample_of(1 + np.arange(5)[:, None] * 2.0**-52)
    np.testing.assert_array_equal(labelling.component_labels(sample, 1, 0), np.zeros((1, 5)))
    with pytest.raises(ValueError, match="n_clusters=2 but k-means finds only 1 in X"):
        labelling.component_labels(sample, 2, 0)


def test_scalings_that_leave_a_cluster_without_rows_are_left_out(rng, monkeypatch) -> None:
    found = [np.array([0, 0, 1, 1]), np.array([0, 1, 2, 2]), np.array([1, 1, 1, 1])]
    labels = iter(found)
    monkeypatch.setattr(labelling, "kmeans", lambda *_: next(labels))
    got = labelling.component_labels(sample_of(rng.normal(size=(4, 2))), 3, 0)
    np.testing.assert_array_equal(got, [[0, 1, 2, 2]])


def test_rows_drawn_as_means_are_in_their_own_groups() -> None:
    sample = sample_of(nearly_equal_rows())
    for seed in range(5):
        assert set(labelling.random_labels(sample, 4, np.random.RandomState(seed))) == {0, 1, 2, 3}


def test_random_means_are_drawn_by_weight(rng) -> None:
    sample = sample_of(rng.normal(size=(20, 2)), np.where(np.arange(20) < 2, 1e6, 1e-6))
    heavy = np.flatnonzero(sample.weights > 1)
    for seed in range(10):
        labels = labelling.random_labels(sample, 2, np.random.RandomState(seed))
        assert labels[heavy[0]] != labels[heavy[1]]


# The classical mixture first -------------------------------------------------------------------------------------


def test_components_are_uncorrelated_and_blind_to_units(rng) -> None:
    X = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4)) + 100
    weights = rng.random(200)
    got, deviations = labelling.principal_components(Sample(X, weights))
    covariance = np.cov(X.T, aweights=weights)
    spreads = np.sqrt(np.diag(covariance))
    variances = np.linalg.eigvalsh(covariance / np.outer(spreads, spreads))[::-1]
    np.testing.assert_allclose(deviations**2, variances, rtol=1e-10)
    np.testing.assert_allclose(np.cov(got.T, aweights=weights, ddof=0), np.diag(variances), atol=1e-12)
    other, _ = labelling.principal_components(Sample(X * [1e-6, 1, 10, 1e9] - 7, weights))
    np.testing.assert_allclose(np.abs(other), np.abs(got), rtol=1e-5, atol=1e-7)


def test_components_without_spread_are_left_out(rng) -> None:
    X = rng.normal(size=(50, 2))
    X = np.column_stack([X, X.sum(axis=1), np.full(50, 3.0)])
    assert labelling.principal_components(Sample(X, np.ones(50)))[0].shape == (50, 2)


def test_components_are_clustered_in_three_scalings(rng) -> None:
    # Three copies of a feature in two wide groups, and one of two groups no wider apart: standardised, the copies
    # decide; whitened, either may.
    copied = rng.normal(size=400) * 0.3 + np.repeat([-1, 1], 200)
    alone = rng.normal(size=400) * 0.1 + np.tile([-1, 1], 200)
    X = np.column_stack([copied[:, None] + 0.01 * rng.normal(size=(400, 3)), alone])
    found = labelling.component_labels(Sample(X, np.ones(400)), 2, 0)
    agreements = [max(share, 1 - share) for share in (np.mean(labels == (copied > 0)) for labels in found)]
    assert max(agreements) > 0.99
    assert min(agreements) < 0.9
    two_groups = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(30, 1, (50, 2))])
    assert len(labelling.component_labels(Sample(two_groups, np.ones(100)), 2, 0)) == 1


def three_groups_and_far_rows(rng, n_far: int):
    X = np.concatenate([rng.normal(mean, 1, (50, 2)) for mean in ((0, 0), (8, 0), (0, 8))])
    far = 60 + 40 * np.arange(n_far)[:, None] * [1, -1]
    return np.concatenate([X, far]), np.repeat(np.arange(3), 50)


@pytest.mark.parametrize("n_far", [1, 2])
def test_rows_far_from_all_others_do_not_take_the_groups_of_every_start(rng, n_far) -> None:
    X, groups = three_groups_and_far_rows(rng, n_far)
    found = labelling.component_labels(Sample(X, np.ones(len(X))), 3, 0)
    assert any(np.bincount(labels).min() <= 2 for labels in found)  # What k-means alone finds.
    others = [labels for labels in found if np.bincount(labels).min() > 2]
    assert others
    for labels in others:
        assert {frozenset(labels[:150][groups == k]) for k in range(3)} == {frozenset([k]) for k in range(3)}


def test_small_groups_that_are_most_of_the_rows_are_no_far_rows(rng) -> None:
    pairs = np.repeat(rng.normal(size=(5, 2)) * 100, 2, axis=0) + rng.normal(size=(10, 2))
    assert len(labelling.component_labels(Sample(pairs, np.ones(10)), 5, 0)) == 1


def test_groups_without_rows_are_no_far_rows() -> None:
    sample = Sample(np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([100.0, 100.0]))
    assert labelling._without_far_rows(sample, np.array([0, 1]), 3, 2, np.random.RandomState(0)) is None


def test_one_far_row_leaves_a_search_sound_mixtures(rng) -> None:
    X, groups = three_groups_and_far_rows(rng, 1)
    model = EGMM(3, covariance="VVV", focal_sets="singletons", init="mixture", random_state=0).fit(X)
    assert not model.degenerate_
    assert adjusted_rand_score(groups, model.labels_[:150]) == 1


def test_weights_of_sets_follow_a_classical_mixture() -> None:
    shares = np.array([[1.0, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [1 / 3, 1 / 3, 1 / 3]])
    got = start.focal_weights(np.array([[2.0, 3.0, 5.0]]), shares)[0]
    # The third cluster is nowhere alone: its two pairs share its weight. The others share a percent.
    np.testing.assert_allclose(got, [0.198, 0.297, 0.005, 0.2475, 0.2475, 0.005], rtol=1e-12)
    np.testing.assert_allclose(start.focal_weights(np.array([[0.3, 0.7]]), np.eye(2))[0], [0.3, 0.7], rtol=1e-15)


# The automatic ridge ---------------------------------------------------------------------------------------------


def test_the_automatic_ridge_follows_the_units(rng, groups) -> None:
    X, labels = groups
    units = np.array([1e-8, 1.0, 1e8])
    one, other = (ridge_of(Y, labels) for Y in (X, X * units))
    np.testing.assert_allclose(other, one * units**2, rtol=1e-9)
    np.testing.assert_allclose(one, 1e-9 * np.diag(parameters_of(X, labels).covariances), rtol=1e-10)


def test_without_variance_within_groups_the_ridge_follows_the_whole(rng) -> None:
    X = np.repeat(rng.normal(size=(3, 3)), 10, axis=0)
    whole = np.diag(moments(X, None).scatter) / 30
    np.testing.assert_allclose(ridge_of(X, np.repeat([0, 1, 2], 10)), 1e-12 * whole, rtol=1e-6)


def test_a_constant_feature_gets_some_ridge(groups) -> None:
    X, labels = groups
    X = np.column_stack([X, np.full(40, 0.1)])
    assert ridge_of(X, labels)[3] == 1e-9


def test_a_part_is_no_comb_of_the_sorted_rows() -> None:
    # Before and after: every other row in sorted order is the lower one of a pair.
    pairs = np.column_stack([np.repeat(np.arange(1000.0), 2), np.tile([0.0, 20.0], 1000)])
    sample = Sample(pairs, np.arange(2000.0))
    part = sample.part(500)
    assert len(part.rows) == len(np.unique(part.rows, axis=0)) == 500
    assert 200 < (part.rows[:, 1] == 0).sum() < 300
    np.testing.assert_array_equal(part.weights, 2 * part.rows[:, 0] + (part.rows[:, 1] == 20))
    assert sample.part(2000) is sample
