"""Dissimilarities and links: what is refused, and in which words."""

from functools import partial

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

from checks import three_groups
from egmm.cluster import CECM, EVCLUS, MECM, RECM, ECMdd, EKNNClus, MultiViewECMdd, nearest_dissimilarities
from egmm.cluster.relational.dissimilarities import classical_scaling
from egmm.metrics import ari

RELATIONAL = [EVCLUS, RECM, ECMdd, MECM, EKNNClus, MultiViewECMdd]


def changed(D, entry, value):
    D = D.copy()
    D[entry] = value
    return D


@pytest.mark.parametrize("kind", RELATIONAL)
def test_bad_dissimilarities_are_refused(kind):
    D = pairwise_distances(three_groups())
    for bad, message in [
        (D[:, :5], r"X must be a square matrix .* got shape \(123, 5\)"),
        (changed(D, (3, 7), D[3, 7] + 1), r"X must be symmetric .* entry \(3, 7\) is .* and entry \(7, 3\) is"),
        (-D, r"Negative values in data: X must not be negative with metric='precomputed', but entry \(0, 1\) is -"),
        (changed(D, (4, 4), 0.5), r"X must have a zero diagonal .* entry \(4, 4\) is 0.5"),
        (changed(D, (2, 1), np.nan), r"Input X contains NaN at row 2, column 1"),
        (changed(D, (2, 1), np.inf), r"Input X contains infinity at row 2, column 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            kind(metric="precomputed").fit(bad)


@pytest.mark.parametrize("make", [*RELATIONAL, partial(EVCLUS, n_pairs=20)])
@pytest.mark.parametrize("value", [np.nan, -1.0, np.inf])
def test_metrics_that_give_no_dissimilarities_are_named(make, value):
    def metric(one, other):
        return 0.0 if one[0] == other[0] else value

    X = np.arange(30.0)[:, None]
    message = rf"metric=<function .*> must give finite .* not negative, but gives {value:g} for rows \d+ and \d+; use"
    with pytest.raises(ValueError, match=message):
        make(metric=metric).fit(X)


@pytest.mark.parametrize("kind", RELATIONAL)
def test_dissimilarities_and_features_agree(kind):
    X = three_groups()
    D = pairwise_distances(X)
    starts = {} if kind in (EVCLUS, EKNNClus) else {"init": [3, 45, 100]}
    if kind is RECM:
        starts = {"init": np.repeat([0, 1, 2, 0], [40, 40, 40, 3])}
    size = {} if kind is EKNNClus else {"n_clusters": 3}
    features = kind(**size, **starts, random_state=0).fit(X)
    given = kind(**size, **starts, random_state=0, metric="precomputed").fit(D)
    np.testing.assert_array_equal(features.labels_, given.labels_)
    assert given.objective_ == pytest.approx(features.objective_, rel=1e-9)


@pytest.mark.parametrize("kind", [RECM, ECMdd, MECM])
def test_new_rows_are_measured_against_the_fitted_ones(kind):
    X, new = three_groups(), three_groups(10, seed=1)
    features = kind(3, random_state=0).fit(X)
    given = kind(3, random_state=0, metric="precomputed").fit(pairwise_distances(X))
    np.testing.assert_allclose(features.predict_mass(X)[:5], features.predict_mass(X[:5]), rtol=1e-9, atol=1e-13)
    np.testing.assert_array_equal(features.predict(X), features.labels_)
    own = given.predict_mass(pairwise_distances(new, X))
    assert own.shape == (33, 8)
    assert ari(features.predict(new), given.predict(pairwise_distances(new, X))) == 1
    with pytest.raises(ValueError, match=r"X must not be negative with metric='precomputed', but entry \(0, 0\) is -"):
        given.predict(-pairwise_distances(new, X))
    with pytest.raises(ValueError, match="X has 5 features, but"):
        given.predict(pairwise_distances(new, X[:5]))


@pytest.mark.parametrize("fit", [EVCLUS(3).fit, CECM(3).fit])
@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({"must_link": [[0, 999]]}, r"must_link must hold row numbers from 0 to 122, but pair 0 is \(0, 999\)"),
        ({"cannot_link": [[0, 1], [-1, 3]]}, r"cannot_link must hold row numbers .* but pair 1 is \(-1, 3\)"),
        ({"must_link": [[4, 4]]}, "must_link must link different rows, but pair 0 links row 4 with itself"),
        ({"must_link": [0, 1]}, r"must_link must be pairs of row numbers, .* got int64 of shape \(2,\)"),
        ({"must_link": [[0.0, 1.0]]}, "must_link must be pairs of row numbers, .* got float64"),
        (
            {"must_link": [[0, 1], [1, 2]], "cannot_link": [[2, 0]]},
            r"cannot_link holds the pair \(0, 2\), but must_link joins these rows, directly or through others",
        ),
    ],
)
def test_bad_links_are_refused(fit, links, message):
    with pytest.raises(ValueError, match=message):
        fit(three_groups(), **links)


def test_classical_scaling_keeps_distances(rng):
    for n_rows in (30, 600):
        X = rng.normal(size=(n_rows, 3)) + 50
        found = classical_scaling(pairwise_distances(X) ** 2, 3)
        np.testing.assert_allclose(pairwise_distances(found), pairwise_distances(X), atol=1e-6)


def test_nearest_dissimilarities(rng):
    X = rng.normal(size=(30, 2))
    D = pairwise_distances(X)
    for distances, neighbours in (
        nearest_dissimilarities(X, 4),
        nearest_dissimilarities(D, 4, metric="precomputed"),
    ):
        for i in range(30):
            expected = sorted((D[i, j], j) for j in range(30) if j != i)[:4]
            np.testing.assert_allclose(distances[i], [d for d, _ in expected], atol=1e-12)
            assert neighbours[i].tolist() == [j for _, j in expected]
    with pytest.raises(
        ValueError, match="n_neighbors must be less than the number of rows, got n_neighbors=30 with 30"
    ):
        nearest_dissimilarities(X, 30)


def test_nearest_dissimilarities_of_a_function_that_is_no_metric(rng):
    X = rng.normal(size=(200, 2))

    def squared(one, other):
        return float(((one - other) ** 2).sum())

    D = pairwise_distances(X, metric=squared)
    np.fill_diagonal(D, np.inf)
    distances, _ = nearest_dissimilarities(X, 5, metric=squared)
    np.testing.assert_allclose(distances, np.sort(D, axis=1)[:, :5])
