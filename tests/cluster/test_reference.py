"""ECM, BPEC and the belief peaks against R's `evclust`, from the same prototypes on the same data."""

import json
from pathlib import Path

import numpy as np
import pytest

from egmm import BPEC, ECM, CredalPartition, FocalSets
from egmm.cluster import delta_bel
from egmm.metrics import credal_rand_index, pairwise_nonspecificity

REFERENCE = json.loads((Path(__file__).parent.parent / "reference" / "r_peers.json").read_text())
TOL = 1e-8


def columns(focal, membership):
    """Columns of our family in the order of R's matrix of sets."""
    return [focal.index_of(np.flatnonzero(row)) for row in membership]


def ecm_like_r(name, X, **parameters):
    expected = REFERENCE[name]["ecm"]
    family = {"full": "full", "pairs": "pairs"}[expected["type"]]
    given = {key: expected[key] for key in ("alpha", "beta", "delta")}
    estimator = ECM(expected_clusters(name), focal_sets=family, init=REFERENCE[name]["g0"], tol=TOL, **given)
    return estimator.set_params(**parameters).fit(X)


def expected_clusters(name):
    return REFERENCE[name]["c"]


@pytest.mark.parametrize("name", ["iris", "seeds", "newthyroid", "ecoli"])
def test_ecm_takes_the_same_way(name, uci):
    X, expected = uci(name).X, REFERENCE[name]["ecm"]
    assert expected["epsi"] == TOL
    ecm = ecm_like_r(name, X)
    assert ecm.converged_
    assert ecm.objective_ == pytest.approx(expected["J"], rel=1e-12)
    assert ecm.ans_ == pytest.approx(expected["ans"], abs=1e-12)
    partition = ecm.partition(X)
    np.testing.assert_array_equal(partition.labels("plausibility"), expected["y_pl"])
    assert partition.mass[:, 0].mean() == pytest.approx(expected["conf_mean"], rel=1e-10)
    mass = ecm.predict_mass(X[:3])[:, columns(ecm.focal_sets_, expected["focal"])]
    np.testing.assert_allclose(mass, expected["mass_first3"], atol=1e-10, rtol=0)
    np.testing.assert_allclose(ecm.means_, expected["g"], atol=2e-5, rtol=0)
    # R returns these masses with the prototypes that follow from them.
    with pytest.warns(UserWarning, match="did not converge"):
        after = ecm_like_r(name, X, init=ecm.means_, max_iter=1, tol=0.0)
    np.testing.assert_allclose(after.means_, expected["g"], rtol=1e-9)


@pytest.mark.parametrize("name", ["iris", "seeds", "newthyroid"])
@pytest.mark.parametrize(("distance", "key"), [("euclidean", "bpec_distance0"), ("mahalanobis", "bpec_distance1")])
def test_bpec_with_given_prototypes(name, distance, key, uci):
    X, expected = uci(name).X, REFERENCE[name][key]
    bpec = BPEC(distance=distance, focal_sets="full", init=REFERENCE[name]["g0"], tol=TOL).fit(X)
    assert bpec.objective_ == pytest.approx(expected["J"], rel=1e-9)
    assert bpec.ans_ == pytest.approx(expected["ans"], abs=1e-8)
    partition = bpec.partition(X)
    mass = partition.mass[:3, columns(bpec.focal_sets_, REFERENCE[name]["ecm"]["focal"])]
    np.testing.assert_allclose(mass, expected["mass_first3"], atol=1e-8, rtol=0)
    np.testing.assert_array_equal(partition.labels("plausibility"), expected["y_pl"])
    assert bpec.decision_graph_ is None
    assert (bpec.metrics_ is None) == (distance == "euclidean")


@pytest.mark.parametrize("name", ["iris", "seeds", "newthyroid", "ecoli"])
def test_belief_peaks(name, uci):
    expected = REFERENCE[name]["belief_peaks"]
    belief, delta = delta_bel(uci(name).X, expected["K"], expected["q"])
    np.testing.assert_allclose(belief[:5], expected["BelC_first5"], atol=1e-10, rtol=0)
    assert belief.mean() == pytest.approx(expected["BelC_mean"], abs=1e-5)
    assert belief.argmax() == expected["argmax"]
    assert delta[belief.argmax()] == delta.max()


def test_families_are_those_of_the_reference():
    for name in REFERENCE:
        entry = REFERENCE[name]["ecm"]
        family = FocalSets.of(entry["type"], REFERENCE[name]["c"], empty=True)
        assert sorted(columns(family, entry["focal"])) == list(range(len(family)))


@pytest.mark.paper
def test_ecm_has_the_numbers_of_the_vignette(data_directory):
    def table(name):
        return np.loadtxt(data_directory / "belief" / f"{name}.csv", delimiter=",", skiprows=1)

    butterfly = table("butterfly")[:, :2]
    ecm = ECM(2, focal_sets="full", delta=5, init=[[-4.0, 0.0], [4.0, 0.0]], tol=1e-3).fit(butterfly)
    assert ecm.objective_ == pytest.approx(35.16, abs=5e-3)
    assert ecm.ans_ == pytest.approx(0.29, abs=5e-3)
    # Printed where R stopped, on the way to the same fixed point, after one update more than the masses.
    with pytest.warns(UserWarning, match="did not converge"):
        after = ECM(2, focal_sets="full", delta=5, init=ecm.means_, tol=0.0, max_iter=1).fit(butterfly)
    np.testing.assert_allclose(after.means_, [[-3.5218, 0.0055], [3.6418, 0.0692]], atol=1e-2)
    assert (ecm.partition(butterfly).sets() == 0).sum() == 1
    X, y = table("fourclass")[:, :2], table("fourclass")[:, 2].astype(int)
    family = [members for members in FocalSets.pairs(4) if len(members) < 4]
    means = np.array([X[y == c].mean(axis=0) for c in np.unique(y)])
    partition = ECM(4, focal_sets=family, delta=3.5, init=means, tol=1e-3).fit(X).partition(X)
    assert credal_rand_index(partition, CredalPartition.from_labels(y)) == pytest.approx(0.7948521, abs=1e-5)
    assert pairwise_nonspecificity(partition) == pytest.approx(0.4504993, abs=1e-5)
