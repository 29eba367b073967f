"""Labels and links inside EM, against loops and closed forms."""

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score

import oracles
from egmm import EGMM, CredalPartition, FocalSets, scan
from egmm.datasets import draw_links, make_bananas
from egmm.em.evidence import PENALTY, Links, group_masses, seeds
from egmm.knowledge import read_labels


@pytest.fixture
def overlapping(rng):
    labels = np.arange(150) % 3
    return rng.normal(size=(150, 2)) + 2.5 * np.array([[0, 0], [1, 1.5], [2, 0]])[labels], labels


def truth_of(model: EGMM) -> oracles.Mixture:
    return oracles.Mixture(list(model.focal_sets_), model.weights_, model.means_, model.covariances_)


def label_joint(truth, X, mass, sets):
    """log pi_j N_j(x_i) Pl_i(A_j), one label and set at a time."""
    plausibility = [[sum(m for m, b in zip(row, sets, strict=True) if b & a) for a in truth.sets] for row in mass]
    with np.errstate(divide="ignore"):
        return truth.log_joint(X) + np.log(plausibility)


@pytest.mark.parametrize("covariance", ["EEE", "EEI", "VVV", "VVI"])
@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_the_likelihood_is_that_of_rows_and_labels(rng, overlapping, covariance, engine) -> None:
    X, _ = overlapping
    focal = FocalSets.full(3)
    mass = rng.dirichlet(np.full(7, 0.3), size=150)
    mass[50:] = 0
    mass[50:, -1] = 1  # the whole frame: not labelled
    model = EGMM(3, covariance=covariance, engine=engine, random_state=0, tol=1e-4)
    model.fit(X, labels=(mass, focal))
    joint = label_joint(truth_of(model), X, mass, list(focal))
    assert model.log_likelihood_ == pytest.approx(logsumexp(joint, axis=1).sum(), rel=1e-9)
    assert (np.diff(model.log_likelihood_history_) > -1e-9).all()


def test_masses_of_labelled_rows_are_combined_by_dempsters_rule(rng, overlapping) -> None:
    X, _ = overlapping
    focal = FocalSets.full(3)
    mass = rng.dirichlet(np.ones(7), size=150)
    model = EGMM(3, random_state=0).fit(X)
    truth = truth_of(model)
    found = model.partition(X, labels=CredalPartition(mass, focal), reliability=0.8)
    discounted = 0.8 * mass
    discounted[:, -1] += 0.2
    for x, label, got in zip(X[:20], discounted, found.mass, strict=False):
        expected = dict.fromkeys(found.focal_sets, 0.0)
        for a, m in zip(truth.sets, truth.masses(x[None])[0], strict=True):
            for b, mu in zip(focal, label, strict=True):
                if a & b:
                    expected[a & b] += m * mu
        total = sum(expected.values())
        np.testing.assert_allclose(got, [value / total for value in expected.values()], atol=1e-10)


def test_conflict_is_the_mass_that_a_label_excludes(overlapping) -> None:
    X, y = overlapping
    labels = np.where(np.arange(150) < 60, y, -1)
    labels[0] = (y[0] + 1) % 3
    model = EGMM(3, random_state=0).fit(X, labels=labels, reliability=0.9)
    mass = truth_of(model).masses(X)
    for i in range(60):
        excluded = sum(m for m, a in zip(mass[i], model.focal_sets_, strict=True) if labels[i] not in a)
        assert model.label_conflict_[i] == pytest.approx(0.9 * excluded, abs=1e-9)
    assert (model.label_conflict_[60:] == 0).all()
    assert model.label_conflict_.argmax() == 0


def test_without_labels_nothing_changes(overlapping) -> None:
    X, _ = overlapping
    plain = EGMM(3, random_state=0).fit(X)
    same = EGMM(3, random_state=0).fit(X, labels=np.full(150, -1), must_link=[], cannot_link=[])
    np.testing.assert_array_equal(plain.means_, same.means_)
    assert plain.log_likelihood_ == same.log_likelihood_
    assert not hasattr(same, "label_conflict_")


@pytest.mark.parametrize("covariance", ["EEE", "VVV", "EEI", "VII"])
def test_all_rows_labelled_is_discriminant_analysis(overlapping, covariance) -> None:
    X, y = overlapping
    model = EGMM(3, covariance=covariance, focal_sets="singletons", reg_covar=0.0).fit(X, labels=y)
    means = np.array([X[y == k].mean(axis=0) for k in range(3)])
    own = np.array([np.cov(X[y == k].T, bias=True) for k in range(3)])
    pooled = own.mean(axis=0)
    expected = {
        "EEE": pooled,
        "VVV": own,
        "EEI": pooled * np.eye(2),
        "VII": np.array([np.eye(2) * np.trace(one) / 2 for one in own]),
    }[covariance]
    np.testing.assert_allclose(model.means_, means, rtol=1e-12)
    np.testing.assert_allclose(model.covariances_, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.weights_, 1 / 3, rtol=1e-12)
    np.testing.assert_array_equal(model.labels_, y)


def test_labels_of_other_clusters_come_from_the_rest(overlapping) -> None:
    X, y = overlapping
    labels = np.where((y == 2) & (np.arange(150) < 60), 1, -1)
    model = EGMM(3, random_state=0).fit(X, labels=labels)
    assert (model.labels_[y == 2] == 1).mean() > 0.8
    assert adjusted_rand_score(y, model.labels_) > 0.6


def test_wrong_labels_have_the_highest_conflicts(rng) -> None:
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 2)) + 5 * np.array([[0, 0], [1, 1.5], [2, 0]])[y]
    labels = np.where(np.arange(300) < 100, y, -1)
    wrong = rng.choice(100, 10, replace=False)
    labels[wrong] = (y[wrong] + 1) % 3
    model = EGMM(3, random_state=0).fit(X, labels=labels, reliability=0.9)
    assert set(np.argsort(-model.label_conflict_)[:10]) == set(wrong)
    assert (model.labels_[100:] == y[100:]).mean() > 0.98


# Links -------------------------------------------------------------------------------------------------------


def test_a_group_shares_the_product_of_its_rows(rng) -> None:
    scores = 3 * rng.normal(size=(5, 4))
    group, weight = np.array([0, 1, 0, 1, 1]), np.array([1.0, 1, 2, 1, 0.5])
    links = Links(np.zeros((5, 2)), weight, np.zeros(5, int), group, np.empty((0, 2), int), np.ones((4, 4)))
    found = group_masses(links, scores)
    expected = 0.0
    for s in range(2):
        joint = sum(weight[i] * scores[i] for i in range(5) if group[i] == s)
        np.testing.assert_allclose(found.mass[s], np.exp(joint - logsumexp(joint)), rtol=1e-12)
        expected += logsumexp(joint)
    assert found.bound == pytest.approx(expected, rel=1e-12)


def test_rows_apart_settle_where_the_bound_is_highest(rng) -> None:
    scores = rng.normal(size=(3, 3))
    meets = np.array([[1.0, 0, 1], [0, 1, 1], [1, 1, 1]])
    apart = np.array([[0, 1], [1, 2]])
    links = Links(np.zeros((3, 2)), np.ones(3), np.zeros(3, int), np.arange(3), apart, meets)
    found = group_masses(links, scores)

    def bound(mass):
        free = sum((m * (s - np.log(m))).sum() for m, s in zip(mass, scores, strict=True))
        return free - PENALTY * sum(mass[a] @ meets @ mass[b] for a, b in apart)

    assert found.bound == pytest.approx(bound(found.mass), rel=1e-10)
    for _ in range(200):
        other = found.mass * np.exp(1e-3 * rng.normal(size=found.mass.shape))
        assert bound(other / other.sum(axis=1, keepdims=True)) <= found.bound + 1e-9


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("covariance", ["EEE", "VVV", "VVI"])
def test_must_links_give_the_likelihood_of_rows_and_links(rng, overlapping, covariance, holes) -> None:
    X, y = overlapping
    X = np.where(rng.random(X.shape) < 0.1, np.nan, X) if holes else X
    must = np.array([[0, 3], [3, 6], [1, 4]])
    model = EGMM(3, covariance=covariance, random_state=0, tol=1e-5).fit(X, must_link=must)
    assert (np.diff(model.log_likelihood_history_) > -1e-8).all()
    singles = [row for row in range(150) if row not in must]
    joint = np.log(model.predict_mass(X)) + model.score_samples(X)[:, None]
    expected = sum(logsumexp(joint[row]) for row in singles)
    expected += logsumexp(joint[[0, 3, 6]].sum(axis=0)) + logsumexp(joint[[1, 4]].sum(axis=0))
    assert model.log_likelihood_ == pytest.approx(expected, rel=1e-9)
    mass = model.partition(X, must_link=must).mass
    np.testing.assert_allclose(mass[[3, 6]], mass[[0, 0]], atol=1e-12)
    assert (y[[0, 3, 6]] == y[0]).all()


def test_links_join_the_rows_of_a_file_that_have_these_numbers(tmp_path, overlapping) -> None:
    X, labels = overlapping
    must, cannot = draw_links(labels, 12, random_state=1)
    weight = np.linspace(0.5, 2.0, len(X))
    np.save(tmp_path / "rows.npy", X)
    inside, outside = (
        EGMM(3, random_state=0).fit(rows, sample_weight=weight, must_link=must[::-1], cannot_link=cannot)
        for rows in (X, scan(tmp_path / "rows.npy"))
    )
    np.testing.assert_array_equal(outside.means_, inside.means_)
    np.testing.assert_array_equal(outside.log_likelihood_history_, inside.log_likelihood_history_)


def test_links_find_bananas() -> None:
    found = []
    for seed in range(8):
        X, y = make_bananas(300, random_state=seed)
        must, cannot = draw_links(y, 400, random_state=seed)
        model = EGMM(2, random_state=0).fit(X, must_link=must, cannot_link=cannot)
        found.append(adjusted_rand_score(y, model.labels_))
    assert np.median(found) >= 0.92


def test_links_and_labels_that_contradict_each_other_are_named(overlapping) -> None:
    X, _ = overlapping
    with pytest.raises(ValueError, match=r"cannot_link holds the pair \(0, 2\), but must_link joins these rows"):
        EGMM(3).fit(X, must_link=[[0, 1], [1, 2]], cannot_link=[[0, 2]])
    labels = np.full(150, -1)
    labels[:2] = 0, 1
    with pytest.raises(ValueError, match="must_link joins the rows 0, 1, but their labels leave no focal set"):
        EGMM(3, focal_sets="singletons").fit(X, labels=labels, must_link=[[0, 1]])
    EGMM(3, focal_sets="singletons").fit(X, labels=labels, reliability=0.9, must_link=[[0, 1]])


# Forms of labels ---------------------------------------------------------------------------------------------


def test_labels_have_many_forms() -> None:
    crisp = read_labels([0, 2, -1], 1.0, 3, 3)
    for same in ([{0}, {2}, None], [0, frozenset({2}), None], np.array([[1.0, 0, 0], [0, 0, 1], [np.nan] * 3])):
        found = read_labels(same, 1.0, 3, 3)
        for k in range(3):
            one = FocalSets.from_sets([{k}], 3)
            np.testing.assert_array_equal(found.plausibility(one)[found.codes], crisp.plausibility(one)[crisp.codes])
    assert crisp.crisp.tolist() == [0, 2, -1]
    partial_label = read_labels([{0, 1}], [0.75], 1, 3)
    pairs = FocalSets.from_sets([{0}, {2}, {1, 2}], 3)
    np.testing.assert_allclose(partial_label.plausibility(pairs)[partial_label.codes], [[1, 0.25, 1]])


@pytest.mark.parametrize(
    ("labels", "reliability", "error", "message"),
    [
        ([0, 1, 3], 1.0, ValueError, "labels must be from 0 to 2, or -1 for unknown, but that of row 2 is 3"),
        ([0, 1], 1.0, ValueError, "labels must have one entry per row, got 2 for 3 rows"),
        (["a", "b", "c"], 1.0, TypeError, "labels must be integers with -1 for unknown, sets of clusters"),
        ([{0}, set(), None], 1.0, ValueError, "but that of row 1 is set()"),
        (
            [{0}, {5}, None],
            1.0,
            ValueError,
            "cluster number (counted from zero) must be an integer from 0 to 2, got 5",
        ),
        (np.ones((3, 2)), 1.0, ValueError, "labels as probabilities must have the shape (3, 3), got (3, 2)"),
        (np.ones((3, 3)), 1.0, ValueError, "row 0"),
        ([0, 1, 2], 1.5, ValueError, "reliability must be a finite number in [0, 1], got 1.5"),
        ([0, 1, 2], [1, 1, -0.5], ValueError, "reliability must be from 0 to 1, but that of row 2 is -0.5"),
        (CredalPartition.from_labels([0, 1, 1]), 1.0, ValueError, "labels are of 2 clusters, but n_clusters=3"),
        (CredalPartition.from_labels([0, -1, 2]), 1.0, ValueError, "labels must not put mass on the empty set"),
    ],
)
def test_wrong_labels_are_refused(labels, reliability, error, message) -> None:
    with pytest.raises(error) as raised:
        read_labels(labels, reliability, 3, 3)
    assert message in str(raised.value)


def test_seeds_of_labelled_rows_stay_theirs() -> None:
    others = np.array([[0.0, 0], [0, 1], [10, 0], [10, 1], [5, 9]])
    means = seeds(np.array([[10.0, 0.5]]), np.array([2]), others, 3)
    np.testing.assert_allclose(means[2], [10, 0.5])
    np.testing.assert_allclose(sorted(means[:2].tolist()), [[0, 0.5], [5, 9]])
