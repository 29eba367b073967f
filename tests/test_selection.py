"""Choosing the number of clusters and the covariance model."""

import re
import time

import dask.array
import dask.dataframe
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from egmm import BPEC, ECM, EGMM, FCM, BootGMM, scan, select_model
from egmm import search as searching
from egmm.candidate import Candidate
from egmm.datasets import make_diamond
from egmm.em import summary
from egmm.em.ascent import Ascent
from egmm.em.covariance import MODELS
from egmm.em.sample import draw_sample
from egmm.selection import Selection

mpl.use("Agg")

PAPER = {"focal_sets": "full", "reg_covar": 0.01, "accelerate": False, "tol": 1e-3 / 11}
"""The paper's settings for the Diamond data: 11 rows, tolerance 1e-3 on the total."""


@pytest.fixture
def blobs(rng) -> np.ndarray:
    # Not in a row: the middle one of three would be the meta-cluster of the others.
    return np.concatenate([rng.normal(centre, 1.0, (80, 2)) for centre in ([0, 0], [8, 0], [0, 8])])


@pytest.mark.paper
@pytest.mark.parametrize(("n_clusters", "printed"), [(2, -55.9), (3, -63.1)])
def test_diamond_as_printed(n_clusters, printed) -> None:
    X, _ = make_diamond()
    for seed in range(3):
        labels = KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(X)
        assert round(EGMM(n_clusters, init=labels, **PAPER).fit(X).ebic_, 1) == printed


def test_a_number_given_twice_is_one_candidate(blobs) -> None:
    once, twice = (select_model(blobs, counts, ["EII", "EEE"], random_state=0) for counts in ([3, 2], [3, 2, 3]))
    kinds = [[(one.n_clusters, one.covariance, one.value("ebic")) for one in s.candidates] for s in (once, twice)]
    assert kinds[0] == kinds[1]


@pytest.mark.paper
def test_diamond_has_two_clusters() -> None:
    X, _ = make_diamond()
    selection = select_model(X, range(2, 7), n_init=10, random_state=0, **PAPER)
    assert selection.n_clusters == 2
    values = {row["n_clusters"]: row["ebic"] for row in selection.table()}
    assert round(values[2], 1) == -55.9
    # Single starts give -63.10 to -63.00: the best likelihood of ten is the upper end.
    assert -63.105 <= values[3] <= -62.995


def test_the_criterion_decides_and_is_the_models_own(blobs) -> None:
    for criterion, better in {"ebic": max, "bic": min, "icl": min, "aic": min}.items():
        selection = select_model(blobs, range(1, 5), criterion=criterion, random_state=0)
        values = [row[criterion] for row in selection.table()]
        assert selection.best.n_clusters == [1, 2, 3, 4][values.index(better(values))]
        chosen = selection.best
        assert getattr(chosen, criterion)(blobs) == pytest.approx(better(values), rel=1e-12)
    assert select_model(blobs, range(1, 5), random_state=0).n_clusters == 3


def test_bic_is_minus_two_ebic_and_icl_adds_entropy(blobs) -> None:
    row = select_model(blobs, [2], random_state=0).table()[0]
    assert row["bic"] == pytest.approx(-2 * row["ebic"], rel=1e-12)
    assert row["icl"] > row["bic"]


def test_a_grid_of_models(blobs) -> None:
    selection = select_model(blobs, [2, 3], covariance=["EII", "VVV"], random_state=0)
    assert [(c.n_clusters, c.covariance) for c in selection.candidates] == [
        (2, "EII"),
        (3, "EII"),
        (2, "VVV"),
        (3, "VVV"),
    ]
    assert (selection.n_clusters, selection.covariance) == (3, "EII")
    text = repr(selection)
    assert "EBIC (higher is better)" in text
    assert "* chosen: 3 clusters, EII" in text
    assert text.count("*") == 2
    assert repr(Selection(selection.candidates, "bic", higher_is_better=False)).startswith("BIC (lower is better)")


@pytest.mark.slow
def test_all_models_in_processes_are_those_of_one(rng) -> None:
    X = np.concatenate([rng.normal(0, 1, (300, 3)), rng.normal(4, [1, 2, 0.5], (300, 3))])
    one = select_model(X, [2, 3], covariance="all", random_state=0, n_jobs=1)
    assert [c.covariance for c in one.candidates[::2]] == list(MODELS)
    two = select_model(X, [2, 3], covariance="all", random_state=0, n_jobs=2)
    assert [c.value("ebic") for c in one.candidates] == [c.value("ebic") for c in two.candidates]


def test_all_models_of_one_feature_are_two(rng) -> None:
    X = np.concatenate([rng.normal(0, 1, (60, 1)), rng.normal(9, 3, (60, 1))])
    selection = select_model(X, [2], covariance="all", random_state=0)
    assert [c.covariance for c in selection.candidates] == ["E", "V"]
    assert selection.covariance == "V"


def test_of_models_that_are_one_the_first_is_chosen_whatever_the_order_of_rows(rng) -> None:
    # Of one cluster there is nothing to share: these are one model, and rounding must not choose among them.
    models, X = ["EEE", "VEE", "EVE", "VVV"], rng.normal(size=(100, 3)) + 2 * rng.normal(size=(100, 1))
    chosen = {select_model(rng.permutation(X), [1], models, random_state=0, n_jobs=1).covariance for _ in range(12)}
    assert chosen == {"EEE"}


def test_small_values_keep_their_digits() -> None:
    fits = [Candidate(2, "-", object, {"mpc": 0.71234}), Candidate(3, "-", object, {"mpc": -12.345})]
    assert repr(Selection(fits, "mpc", higher_is_better=True)).split()[-9:-3] == [
        "2",
        "0.7123*",
        "3",
        "-12.3",
        "*",
        "chosen:",
    ]


def test_failures_are_recorded_and_not_fatal(rng) -> None:
    X = rng.normal(size=(12, 4))
    selection = select_model(X, [2, 13], random_state=0)
    failed = selection.candidates[1]
    assert failed.model is None
    assert 0 < failed.seconds < 60
    assert np.isnan(failed.value("ebic"))
    assert "n_clusters=13 but X has only 12 distinct rows" in failed.failure
    assert selection.n_clusters == 2
    assert "failed" in repr(selection)
    # What was not fitted has not converged, and no mark says that more steps would help.
    assert [row["converged"] for row in selection.table()] == [True, False]
    assert failed.marks == ""
    with pytest.raises(ValueError, match=r"^n_clusters=13 but X has only 12 distinct rows"):
        select_model(X, [13], random_state=0)
    with pytest.raises(ValueError, match=r"No candidate could be fitted \(13 clusters, EEE: n_clusters=13"):
        select_model(X, [13, 14], random_state=0)


def test_with_more_features_than_rows_matrices_are_no_candidates(rng) -> None:
    X = rng.normal(size=(24, 30)) + 3 * np.repeat([0, 1], 12)[:, None]
    selection = select_model(X, [1, 2, 3], covariance="all", random_state=0)
    failed = {row["covariance"] for row in selection.table() if row["failure"]}
    assert failed == {"EEE", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV"}
    for n_features in (24, 30):
        message = f"'EEE' needs more rows than features, got 24 and {n_features}; use a diagonal model"
        with pytest.raises(ValueError, match=message):
            select_model(X[:, :n_features], [2], random_state=0)
    with pytest.raises(ValueError, match="'EEE' needs more rows than features, got 24 and 30"):
        select_model(dask.array.from_array(X, chunks=(12, 30)), [2], random_state=0)
    assert select_model(X, [2], prior="default", random_state=0).best.labels_.std() > 0


def test_degenerate_fits_are_chosen_last(rng) -> None:
    # Two exact copies far away: a cluster of their own has a likelihood without bound.
    X = np.concatenate([rng.normal(size=(60, 2)), np.full((2, 2), 50.0)])
    selection = select_model(X, [1, 2], covariance="VVV", focal_sets="singletons", random_state=0)
    degenerate = [row["degenerate"] for row in selection.table()]
    assert degenerate == [False, True]
    assert selection.n_clusters == 1


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_fits_that_collapse_are_given_up_unless_none_is_sound(rng, n_jobs) -> None:
    X = rng.normal(size=(64, 5)) + 30 * (np.arange(64) >= 60)[:, None]
    # The ridge keeps what collapses from being singular, however the machine rounds.
    search = {"random_state": 0, "n_jobs": n_jobs, "warm_start": True, "reg_covar": 1e-8}
    given_up = [c for c in select_model(X, [1, 4], covariance=["VVE", "VVV"], **search).candidates if c.is_given_up]
    assert [c.n_clusters for c in given_up] == [4, 4]
    assert {c.marks for c in given_up} == {"~"}
    selection = select_model(X, [4], covariance=["VVE", "VVV"], **search)
    for candidate, unfinished in zip(selection.candidates, given_up, strict=True):
        assert candidate.is_degenerate
        assert candidate.model.converged_
        assert candidate.model.n_iter_ > unfinished.model.n_iter_
        assert candidate.criteria["ebic"] > unfinished.criteria["ebic"]
        alone = clone(candidate.model).fit(X)
        assert alone.log_likelihood_ == pytest.approx(candidate.model.log_likelihood_, abs=1e-5 * len(X))


def test_a_cluster_of_few_rows_that_grows_is_not_given_up() -> None:
    X, _ = make_diamond()
    selection = select_model(X, [3], covariance=["EEV", "EVE"], focal_sets="full", random_state=0)
    assert selection.covariance == "EEV"
    assert not selection.best.degenerate_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_neighbours_of_clusters_are_those_of_a_fit_to_its_end() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(rng.normal(0, 2, 2), rng.uniform(0.3, 1), (12, 2)) for _ in range(4)]
    X = np.concatenate(parts)
    search = {"init": "random", "focal_sets": "neighbours", "random_state": 5}
    best = select_model(X, [4], covariance="VVV", **search).best
    alone = clone(best).fit(X)
    assert alone.focal_sets_ == best.focal_sets_
    assert alone.log_likelihood_ == best.log_likelihood_


def test_the_printed_table_marks_what_is_not_to_be_chosen(blobs) -> None:
    X, _ = make_diamond()
    lines = repr(select_model(X, [2, 4], focal_sets="full", reg_covar=0.01, random_state=0)).splitlines()
    # Four clusters have the higher criterion and are not chosen: the table must say why.
    assert lines[1:] == [
        "   C       EEE",
        "   2     -55.9*",
        "   4     -52.9~",
        "* chosen: 2 clusters, EEE",
        "~ degenerate: a cluster or covariance collapsed or diverged; chosen only if all are",
    ]
    hasty = repr(select_model(blobs, [3], random_state=0, max_iter=1))
    assert "*?" in hasty
    assert hasty.endswith("? not converged: raise max_iter")
    sound = repr(select_model(blobs, [2, 3], random_state=0))
    assert "~" not in sound
    assert "?" not in sound


def test_the_table_tells_the_weight_of_single_clusters(blobs) -> None:
    selection = select_model(blobs, [2], focal_sets=[[0], [1], [0, 1]], random_state=0)
    assert selection.table()[0]["single_weight"] == pytest.approx(selection.best.weights_[:2].sum())
    frame = select_model(blobs, [2], covariance=["EII", "EEE"], focal_sets=[[0, 1]], random_state=0)
    assert {row["single_weight"] for row in frame.table()} == {0.0}
    fuzzy = select_model(blobs, [2], estimator=FCM(), random_state=0)
    assert fuzzy.table()[0]["single_weight"] == 1.0


def test_certainty_is_asked_for_where_covariances_are_compared(blobs) -> None:
    both = ["EII", "EEE"]
    assert select_model(blobs, [3], covariance=both, random_state=0).best.certainty == 1.0
    assert select_model(blobs, [3], covariance=both, random_state=0, certainty=0.0).best.certainty == 0.0
    assert select_model(blobs, [3], random_state=0).best.certainty == 0.0


def agreeing(*, by_agreement: bool = False, **agreements: float) -> Selection:
    """Candidates with these agreements, each better by EBIC than the next; the last has more clusters."""
    names = list(agreements)
    return Selection(
        [
            Candidate(3 if name is names[-1] else 2, name, EGMM, {"ebic": -float(at)}, agreement=agreements[name])
            for at, name in enumerate(names)
        ],
        "ebic",
        True,
        by_agreement=by_agreement,
    )


def test_where_agreement_chooses_the_covariance_ebic_chooses_the_number_of_clusters() -> None:
    selection = agreeing(VVV=0.5, EEE=0.6, VVI=0.7, EII=0.9, by_agreement=True)
    assert (selection.n_clusters, selection.covariance, selection.alternative.covariance) == (2, "VVI", "VVV")
    assert selection.advice == (
        "VVV has the best EBIC, but its partition agrees less with all models (0.50) than the chosen one (0.70)"
    )
    assert "* chosen: 2 clusters, VVI, by agreement with the others" in repr(selection)
    close = agreeing(VVV=0.69, EEE=0.6, VVI=0.7, EII=0.9, by_agreement=True)
    assert (close.covariance, close.alternative) == ("VVI", None)


def test_agreement_of_a_search(rng) -> None:
    X = np.concatenate([rng.normal(m, 1, size=(50, 3)) * (1, 2, 0.5) for m in (0, 1.5, 3)])
    models = ("EII", "EEE", "VVI", "VVV")
    selection = select_model(X, range(2, 5), models, random_state=0)
    by_ebic = select_model(X, range(2, 5), models, random_state=0, covariance_by="criterion")
    assert selection.n_clusters == by_ebic.n_clusters
    rivals = [c for c in selection.candidates if c.n_clusters == selection.n_clusters and c.is_sound]
    chosen = next(c for c in rivals if c.model is selection.best)
    assert chosen.agreement == pytest.approx(max(c.agreement for c in rivals))
    assert by_ebic.best.ebic_ == max(c.value("ebic") for c in by_ebic.candidates if c.is_sound)
    assert by_ebic.is_top
    # One model has none to agree with, and of two each agrees with the other: the better one is chosen.
    for few in (("EEE",), ("EEE", "VVV")):
        assert select_model(X, [2, 3], few, random_state=0).is_top
    with pytest.raises(ValueError, match="covariance_by must be one of 'agreement', 'criterion'; got 'vote'"):
        select_model(X, covariance_by="vote")


def test_an_alternative_is_named_where_the_chosen_partition_is_at_odds_with_the_others() -> None:
    selection = agreeing(VVV=0.5, EEE=0.6, VVI=0.7, EII=0.9)
    assert (selection.covariance, selection.alternative.covariance) == ("VVV", "VVI")
    assert selection.advice == (
        "VVI is an alternative: its partition agrees more with all models (0.70) than the chosen one (0.50)"
    )
    line = repr(selection).splitlines()[2]
    assert line.index("^") > line.index("*")
    assert repr(selection).endswith(f"^ {selection.advice}")
    for close in (0.529, float("nan")):
        level = agreeing(VVV=0.5, EEE=0.4, VVI=close, EII=0.9)
        assert (level.alternative, level.advice) == (None, "")
        assert "^" not in repr(level)


def test_agreement_is_with_the_partitions_of_as_many_clusters_the_better_ones_counting_more(rng) -> None:
    X = np.concatenate([rng.normal(0, [1, 5], (60, 2)), rng.normal([2, 0], [1, 5], (60, 2))])
    selection = select_model(X, [2, 3], covariance=["EII", "EEE", "VVV"], random_state=0)
    for count in (2, 3):
        rows = [(c.model.ebic_, c) for c in selection.candidates if c.n_clusters == count and c.is_sound]
        ordered = [candidate for _, candidate in sorted(rows, key=lambda row: -row[0])]
        shares = [0.85**rank for rank in range(len(ordered))]
        for one in ordered:
            # Pairs of a row with itself are counted there, not here.
            found = [adjusted_rand_score(one.model.labels_, other.model.labels_) for other in ordered]
            assert one.agreement == pytest.approx(np.average(found, weights=shares), abs=0.02)
    assert selection.table()[0]["agreement"] == selection.candidates[0].agreement
    assert np.isnan(select_model(X, [2], random_state=0).candidates[0].agreement)


def test_of_equal_partitions_the_alternative_is_that_of_the_better_criterion() -> None:
    equal = {"VVV": 0.3, "EEE": 0.7, "VVI": 0.7 + 1e-13, "EII": 0.1}
    assert agreeing(**equal).alternative.covariance == "EEE"


def test_models_of_one_cluster_agree(rng) -> None:
    X = rng.normal(size=(133, 3))
    selection = select_model(X, [1], ["EII", "VVI", "EEE", "VVV", "EEV"], random_state=0)
    assert [candidate.agreement for candidate in selection.candidates] == [1.0] * 5
    assert selection.alternative is None


@pytest.mark.dask
def test_agreement_does_not_depend_on_where_rows_are(rng, blobs, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(searching, "COMPARED_ROWS", 100)
    weights = rng.integers(1, 4, len(blobs)).astype(float)
    settings = {"n_clusters": [3], "covariance": ["EII", "EEE", "VVI"], "random_state": 0}
    expected = [c.agreement for c in select_model(blobs, sample_weight=weights, **settings).candidates]
    assert max(expected) > 0.9
    repeated = np.repeat(blobs, weights.astype(int), axis=0)[::-1]
    frame = pd.DataFrame(repeated, columns=["a", "b"])
    frame.to_parquet(tmp_path / "rows.parquet")
    parts = dask.array.from_array(repeated, chunks=(100, -1))
    places = [repeated, parts, dask.dataframe.from_pandas(frame, npartitions=3), scan(tmp_path / "rows.parquet")]
    for X in places:
        found = [c.agreement for c in select_model(X, **settings).candidates]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("family", ["pairs", "neighbours"])
def test_a_candidate_is_the_fit_it_would_be_alone(rng, blobs, family) -> None:
    weights = rng.integers(1, 4, len(blobs)).astype(float)
    selection = select_model(blobs, [3], ["EEE", "VVI"], focal_sets=family, sample_weight=weights, random_state=0)
    for candidate in selection.candidates:
        alone = clone(candidate.model).fit(blobs, sample_weight=weights)
        np.testing.assert_array_equal(alone.means_, candidate.model.means_)
        assert alone.log_likelihood_ == candidate.model.log_likelihood_


def test_what_no_candidate_could_be_fitted_to_is_told_once_and_plainly(blobs) -> None:
    spoiled = blobs.copy()
    spoiled[3, 1] = np.inf
    with pytest.raises(ValueError, match=r"^Input X contains infinity at row 3, column 1; drop"):
        select_model(spoiled, [2, 3])
    with pytest.raises(ValueError, match=r"^sample_weight must have shape \(240,\), got \(5,\)"):
        select_model(blobs, [2, 3], sample_weight=np.ones(5))
    with pytest.raises(ValueError, match=r"^n_init must be an integer from 1 to 10000, got 0"):
        select_model(blobs, [2, 3], n_init=0)
    with pytest.raises(ValueError, match=r"^init must be one of"):
        select_model(blobs, [2, 3], init="nope")
    spoiled[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"^Input X contains NaN"):
        select_model(spoiled, [2, 3], estimator=FCM())


def test_the_rows_are_sampled_once_for_all_candidates(blobs, monkeypatch) -> None:
    drawn = []
    monkeypatch.setattr(summary, "draw_sample", lambda *args: drawn.append(1) or draw_sample(*args))
    select_model(blobs, [2, 3], ["EEE", "VVI"], random_state=0, n_jobs=1)
    assert len(drawn) == 1


def test_the_start_is_the_classical_mixture_unless_one_is_given(blobs) -> None:
    assert select_model(blobs, [3], random_state=0).best.init == "mixture"
    assert select_model(blobs, [3], random_state=0, init="kmeans").best.init == "kmeans"


def test_meta_clusters_do_not_take_the_place_of_clusters(rng) -> None:
    # The middle one of three in a row is where the pair of the others would be.
    X = np.concatenate([rng.normal([4 * k, 0], 1.0, (100, 2)) for k in range(3)])
    selection = select_model(X, [3], covariance=["EII", "EEE", "VVV"], random_state=0)
    assert adjusted_rand_score(np.repeat([0, 1, 2], 100), selection.best.labels_) > 0.85


def test_weights_are_repeats(rng, blobs) -> None:
    weights = rng.integers(1, 4, len(blobs))
    weighted = select_model(blobs, [2, 3], sample_weight=weights, random_state=0)
    repeated = select_model(np.repeat(blobs, weights, axis=0), [2, 3], random_state=0)
    for one, other in zip(weighted.candidates, repeated.candidates, strict=True):
        assert one.value("ebic") == pytest.approx(other.value("ebic"), rel=1e-9)


@pytest.mark.parametrize(
    ("estimator", "index", "higher"),
    [
        (FCM(), "mpc", True),
        (ECM(tol=1e-3), "ans", False),
        (BPEC(), "delta_bel", True),
        (BootGMM(n_bootstrap=10, covariance=["EEE", "VVV"]), "bic", False),
    ],
)
def test_peers_by_their_own_index(blobs, estimator, index, higher) -> None:
    began = time.perf_counter()
    selection = select_model(blobs, range(2, 5), estimator=estimator, random_state=0, n_jobs=1)
    elapsed = time.perf_counter() - began
    assert 0 < sum(candidate.seconds for candidate in selection.candidates) < elapsed
    assert not any(row["degenerate"] for row in selection.table())
    assert (selection.criterion, selection.higher_is_better) == (index, higher)
    values = [row[index] for row in selection.table()]
    assert selection.n_clusters == 2 + int(np.argmax(values) if higher else np.argmin(values))
    assert isinstance(selection.best, type(estimator))


def test_a_peer_keeps_its_own_seed_unless_another_is_given(blobs) -> None:
    peer, other = (FCM(init="random", tol=1e9, random_state=seed) for seed in (7, 9))
    alone = clone(peer).set_params(n_clusters=5).fit(blobs)
    kept = select_model(blobs, [5], estimator=peer, n_jobs=1).best
    given = select_model(blobs, [5], estimator=peer, random_state=8, n_jobs=1).best
    again = select_model(blobs, [5], estimator=other, random_state=8, n_jobs=1).best
    np.testing.assert_array_equal(kept.means_, alone.means_)
    np.testing.assert_array_equal(given.means_, again.means_)
    assert not np.array_equal(given.means_, alone.means_)


def test_indices_that_say_nothing_about_one_cluster(blobs) -> None:
    for estimator, index in ((FCM(), "mpc"), (ECM(), "ans"), (BPEC(), "delta_bel")):
        name = type(estimator).__name__
        with pytest.raises(
            ValueError, match=f"n_clusters must be at least 2 with estimator={name}, whose index {index} .* got 1"
        ):
            select_model(blobs, range(1, 4), estimator=estimator, random_state=0)
    peer = BootGMM(n_bootstrap=10, covariance="EEE")
    assert select_model(blobs, [1, 3], estimator=peer, random_state=0).n_clusters == 3


def test_plot_shows_every_model_and_rings_the_best(blobs) -> None:
    ax = select_model(blobs, [2, 3, 4], covariance=["EEE", "VII"], random_state=0).plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["EEE", "VII"]
    assert ax.get_ylabel() == "EBIC (higher is better)"
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["2", "3", "4"]


def test_progress_is_written_when_asked_for(blobs, capsys) -> None:
    select_model(blobs, [2, 3], random_state=0, verbose=1)
    assert "select_model" in capsys.readouterr().err
    select_model(blobs, [2], random_state=0)
    assert capsys.readouterr().err == ""


def test_wrong_arguments(blobs) -> None:
    with pytest.raises(ValueError, match="criterion must be one of 'ebic', 'bic', 'icl', 'aic'; got 'mdl'"):
        select_model(blobs, criterion="mdl")
    with pytest.raises(ValueError, match="n_clusters must hold at least one number, got an empty list"):
        select_model(blobs, [])
    with pytest.raises(ValueError, match="n_clusters must be an integer >= 1, got 0"):
        select_model(blobs, [0, 1])
    with pytest.raises(TypeError, match=r"n_clusters must be a list of numbers, such as range\(2, 9\) or \[3\], got 3"):
        select_model(blobs, 3)
    with pytest.raises(ValueError, match=r"^covariance must be one of 'EII', .*; got None"):
        select_model(blobs, [2], None)
    for wrong in ("VVX", ["EEE", "VVX"]):
        with pytest.raises(ValueError, match=r"^covariance must be one of 'EII', .*; got 'VVX'"):
            select_model(blobs, [2], wrong)
    with pytest.raises(
        TypeError, match=r"estimator must be one of FCM, ECM, BPEC, BootGMM, .* or None for EGMM; got KMeans"
    ):
        select_model(blobs, estimator=KMeans())


@pytest.mark.parametrize("options", [{}, {"covariance": "all"}, {"estimator": ECM()}], ids=str)
def test_rows_that_no_fit_takes_are_refused_as_by_a_fit(blobs, options) -> None:
    estimator = options.get("estimator", EGMM())
    masked = np.ma.masked_less(blobs, 0)
    for X in (blobs[:, 0], blobs[:, :, None], blobs[:1], np.char.add(blobs.astype(str), "a"), 5.0, masked):
        with pytest.raises((TypeError, ValueError), match=r".") as of_fit:
            estimator.fit(X)
        with pytest.raises(of_fit.type, match=re.escape(str(of_fit.value))) as of_search:
            select_model(X, [2], **options)
        assert str(of_search.value) == str(of_fit.value)


def test_processes_are_counted_as_by_egmm(blobs) -> None:
    for n_jobs, error in (("a", TypeError), (1.5, TypeError), (0, ValueError)):
        with pytest.raises(error, match=f"n_jobs must be an integer >= 1, or -1 for all cores, got {n_jobs!r}"):
            select_model(blobs, [2], n_jobs=n_jobs)


def test_weights_that_a_peer_cannot_take(blobs) -> None:
    for estimator in (BPEC(), BootGMM()):
        name = type(estimator).__name__
        with pytest.raises(
            ValueError, match=f"sample_weight must be None with estimator={name}, which does not support weights"
        ):
            select_model(blobs, [2], estimator=estimator, sample_weight=np.ones(len(blobs)))


def test_a_search_compiles_where_one_fit_would_not(rng, monkeypatch) -> None:
    engines = []
    fit_all = searching.fit_all
    monkeypatch.setattr(
        searching, "fit_all", lambda *args, **options: engines.append(args[2][0].engine) or fit_all(*args, **options)
    )
    monkeypatch.setattr("egmm.em.engine.LEAST_SECONDS", 0.02)
    X = rng.normal(size=(300, 2))
    select_model(X, [2], random_state=0)
    assert set(engines) == {"numpy"}
    select_model(X, range(2, 6), "all", random_state=0, max_iter=2)
    assert engines[-1] == "numba"
    select_model(X, range(2, 6), "all", random_state=0, max_iter=2, engine="numpy")
    assert engines[-1] == "numpy"


@pytest.mark.parametrize("family", ["pairs", "neighbours"])
def test_an_interrupted_search_ends(blobs, monkeypatch, family) -> None:
    steps, step = [], Ascent._step

    def interrupted(self, *args):
        steps.append(self)
        if len(steps) == 5:
            raise KeyboardInterrupt
        return step(self, *args)

    monkeypatch.setattr(Ascent, "_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        select_model(blobs, [2, 3], ["EEE", "VVV"], focal_sets=family, random_state=0)
    assert len(steps) == 5


def test_the_empty_set_is_refused_whatever_the_engine(rng) -> None:
    X = rng.normal(size=(40, 2))
    for engine in ("numpy", "numba"):
        with pytest.raises(ValueError, match="focal_sets must not hold the empty set"):
            select_model(X, [2], focal_sets=[{0}, {1}, set()], engine=engine, random_state=0)


@pytest.mark.parametrize(
    "fit",
    [
        lambda X, covariance: EGMM(2, covariance=covariance, random_state=0).fit(X),
        lambda X, covariance: select_model(X, [2], covariance=[covariance], random_state=0),
        lambda X, covariance: BootGMM(2, covariance=covariance, n_bootstrap=5, random_state=0).fit(X),
    ],
    ids=["EGMM", "select_model", "BootGMM"],
)
def test_many_features_are_said_to_take_long_once_and_at_once(monkeypatch, rng, fit) -> None:
    monkeypatch.setattr("egmm.em.covariance.MANY_FEATURES", 3)
    X = rng.normal(size=(40, 3)) + 9.0 * (np.arange(40) % 2)[:, None]
    expected = (
        "X has 3 features: a full covariance has 6 numbers, and every step may take minutes; a diagonal model such as "
        "covariance='VVI' takes seconds, and verbose=1 shows how far a fit is."
    )
    with pytest.warns(UserWarning, match="may take minutes") as told:
        fit(X, "VVV")
    assert [str(one.message) for one in told] == [expected]
    fit(X, "VVI")
    fit(X[:, :2], "VVV")
