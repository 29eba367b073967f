"""Whole fits: which ascent is kept, the sample, the engine, and what is said where there is no fit."""

import numpy as np
import pytest

from egmm import EGMM, FocalSets, select_model
from egmm.em import fit as fitting
from egmm.em import soundness, summary
from egmm.em.ascent import Ascent
from egmm.em.covariance import MODELS
from egmm.em.engine import choose_engine, seconds_in_numpy
from egmm.em.fit import fit, fit_all
from egmm.em.specification import Failure, Specification
from egmm.em.summary import summarise
from egmm.rows.array import ArrayRows


@pytest.fixture
def blobs(rng):
    return np.concatenate([rng.normal(mean, 1, (60, 2)) for mean in ([0, 0], [4, 1], [1, 5])])


def specification(covariance="EEE", n_clusters=3, family="pairs", **options) -> Specification:
    return Specification(covariance, FocalSets.of(family, n_clusters).shares, **{"init": "kmeans", **options})


def fitted(X, one: Specification):
    with ArrayRows(X, n_jobs=1) as rows:
        return fit(rows, summarise(rows, np.random.RandomState(0)), one)


# Engine ----------------------------------------------------------------------------------------------------------


def test_the_kernel_is_compiled_where_numpy_would_take_long() -> None:
    assert [choose_engine("auto", seconds) for seconds in (9.0, 11.0)] == ["numpy", "numba"]
    assert choose_engine("numpy", 1e9) == "numpy"
    assert choose_engine("numba", 0.0) == "numba"


def test_more_rows_sets_and_products_take_longer() -> None:
    shares = {name: FocalSets.of(name, 4).shares for name in ("singletons", "full")}
    base = seconds_in_numpy((1000, 10), shares["singletons"], "EEE")
    assert seconds_in_numpy((2000, 10), shares["singletons"], "EEE") == pytest.approx(2 * base)
    assert seconds_in_numpy((1000, 10), shares["full"], "EEE") > base
    assert seconds_in_numpy((1000, 10), shares["singletons"], "VVV") > base


@pytest.mark.parametrize("covariance", ["EEE", "EII", "VVI", "VEV", "VVV"])
def test_engines_make_the_same_steps(blobs, covariance) -> None:
    ends = [fitted(blobs, specification(covariance, engine=engine)) for engine in ("numpy", "numba")]
    assert ends[0].log_likelihood == pytest.approx(ends[1].log_likelihood, abs=1e-5 * len(blobs))
    assert len(ends[0].history) == len(ends[1].history)


# A candidate does not depend on the others ------------------------------------------------------------------------


SEARCH = {"random_state": 0, "certainty": 1.0}


@pytest.fixture(scope="module")
def large_grids():
    """Rows, and the candidates of a search of 112 of them in NumPy."""
    grids = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = np.concatenate([rng.normal(rng.normal(0, 3, 3), rng.uniform(0.5, 1.5, 3), (50, 3)) for _ in range(3)])
        found = select_model(X, range(2, 7), "all", engine="numpy", **SEARCH).candidates
        assert len(found) == 70
        grids.append((X, {(one.n_clusters, one.covariance): one for one in found}))
    return grids


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_the_ebic_of_a_candidate_depends_neither_on_its_grid_nor_on_the_engine(large_grids, engine) -> None:
    differences = []
    for X, whole in large_grids:
        few = select_model(X, [3], ["EII", "VVI", "EEE", "VEV", "VVV"], engine=engine, **SEARCH).candidates
        assert len(few) == 5
        alone = [select_model(X, [3], [name], engine=engine, **SEARCH).candidates[0] for name in MODELS]
        for candidate in [*few, *alone]:
            other = whole[candidate.n_clusters, candidate.covariance]
            if candidate.is_sound and other.is_sound:
                differences.append(abs(candidate.value("ebic") - other.value("ebic")) / len(X))
    assert len(differences) > 50
    # Rounding may send one fit in a hundred to another maximum.
    assert (np.array(differences) > 1e-5).sum() <= 1


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_the_number_of_jobs_changes_no_bit(blobs, n_jobs, monkeypatch) -> None:
    monkeypatch.setattr("egmm.search.WORTH_THREADS", 0.0)
    one, more = (select_model(blobs, [2, 3], "all", random_state=0, n_jobs=jobs) for jobs in (1, n_jobs))
    assert [c.criteria for c in one.candidates] == [c.criteria for c in more.candidates]


def test_models_of_one_form_are_fitted_together(blobs) -> None:
    models = [model for model in MODELS if specification(model).form == specification("VVV").form]
    assert len(models) == 7
    with ArrayRows(blobs, n_jobs=1) as rows:
        seen = summarise(rows, np.random.RandomState(0))
        found = fit_all(rows, seen, [specification(model) for model in models])
        for model, result in zip(models, found, strict=True):
            assert not isinstance(result, Failure)
            assert result.specification.covariance == model
            alone = fit(rows, seen, specification(model))
            assert result.log_likelihood == pytest.approx(alone.log_likelihood, abs=1e-5 * len(blobs))


# Which start is kept ----------------------------------------------------------------------------------------------


def test_the_likeliest_of_sound_starts_is_kept(blobs) -> None:
    one, many = (fitted(blobs, specification(init="random", n_init=n)) for n in (1, 12))
    assert many.log_likelihood >= one.log_likelihood - 1e-9


def test_a_degenerate_fit_is_not_kept_for_its_likelihood(rng) -> None:
    # Two rows that are all but equal attract a cluster of their own, whose likelihood has no bound.
    X = np.concatenate([rng.normal(0, 1, (60, 2)), [[8.0, 8.0], [8.0, 8.0 + 1e-9], [8.0 + 1e-9, 8.0]]])
    result = fitted(X, specification("VVV", 2, "singletons", init="random", n_init=40))
    sound = fitted(X, specification("VVV", 2, "singletons", init=np.repeat([0, 1], [30, 33])))
    assert result.is_degenerate <= sound.is_degenerate


# The sample -------------------------------------------------------------------------------------------------------


@pytest.fixture
def many(rng, monkeypatch):
    monkeypatch.setattr("egmm.em.sample.SAMPLE_ROWS", 200)
    draw = summary.draw_sample
    monkeypatch.setattr(summary, "draw_sample", lambda rows, seed: draw(rows, seed, 200))
    return np.concatenate([rng.normal(mean, 1, (600, 2)) for mean in ([0, 0], [4, 1], [1, 5])])


def titles(X, one: Specification) -> list[str]:
    seen: list[str] = []
    with ArrayRows(X, n_jobs=1) as rows:
        fit(rows, summarise(rows, np.random.RandomState(0)), one, report=lambda _, title: seen.append(title))
    return list(dict.fromkeys(seen))


def test_large_data_are_fitted_on_a_sample_first(many) -> None:
    assert titles(many, specification()) == ["EGMM, sample", "EGMM"]
    assert titles(many, specification(init="mixture")) == ["EGMM, sample", "EGMM"]


@pytest.mark.parametrize("options", [{"accelerate": False, "tol": 1e-4}, {"init": np.repeat([0, 1, 2], 600)}])
def test_neither_plain_em_nor_given_starts_begin_on_a_sample(many, options) -> None:
    assert titles(many, specification(**options)) == ["EGMM"]


def test_few_rows_are_fitted_at_once(blobs) -> None:
    assert titles(blobs, specification()) == ["EGMM"]


def test_the_sample_leads_to_the_maximum_of_all_rows(many) -> None:
    first = fitted(many, specification("VVV"))
    direct = fitted(many, specification("VVV", init=np.repeat([0, 1, 2], 600)))
    assert first.log_likelihood == pytest.approx(direct.log_likelihood, abs=1e-5 * len(many))
    assert len(first.history) < len(direct.history)


def degenerate(*models: str):
    """Stands for `are_degenerate`: fits of these covariance models are."""
    return lambda problem, *args: np.isin(problem.settings.model, models)


def test_a_sample_that_fails_is_passed_over(many, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "_on_sample", lambda batch, starts: None)
        direct = fitted(many, specification("VVV"))
    monkeypatch.setattr(soundness, "are_degenerate", degenerate("VVV"))
    assert titles(many, specification("VVV")) == ["EGMM, sample", "EGMM"]
    np.testing.assert_array_equal(fitted(many, specification("VVV")).history, direct.history)


def test_a_model_that_fails_on_the_sample_begins_at_its_start_beside_one_that_goes_on(many, monkeypatch) -> None:
    models = [specification(covariance) for covariance in ("VEV", "VVV")]
    with ArrayRows(many, n_jobs=1) as rows:
        seen = summarise(rows, np.random.RandomState(0))
        with monkeypatch.context() as patch:
            patch.setattr(fitting, "_on_sample", lambda batch, starts: None)
            direct = fit_all(rows, seen, models)
        monkeypatch.setattr(soundness, "are_degenerate", degenerate("VVV"))
        continued, begun = fit_all(rows, seen, models)
    assert begun.history[0] == pytest.approx(direct[1].history[0], rel=1e-12)
    assert continued.history[0] > direct[0].history[0]
    for found, expected in zip((continued, begun), direct, strict=True):
        assert found.log_likelihood == pytest.approx(expected.log_likelihood, abs=1e-5 * len(many))


# Interrupted ------------------------------------------------------------------------------------------------------


def test_interrupted_on_the_sample_it_ends_there(many, monkeypatch) -> None:
    def interrupted(self, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Ascent, "_step", interrupted)
    result = fitted(many, specification())
    assert result.is_interrupted
    assert not result.is_converged
    assert len(result.history) == 1


# No fit -----------------------------------------------------------------------------------------------------------


def test_too_few_distinct_rows_for_a_named_start() -> None:
    X = np.repeat([[0.0, 1.0], [2.0, 3.0]], 10, axis=0)
    with pytest.raises(ValueError, match="n_clusters=3 but X has only 2 distinct rows; use fewer clusters"):
        fitted(X, specification())


def test_where_every_start_fails_the_message_names_the_cluster_and_the_way_out(rng) -> None:
    X = rng.normal(size=(20, 3))
    X[:2] += 50
    labels = np.repeat([1, 0], [2, 18])
    with pytest.raises(ValueError, match=r"at iteration 0 the VVV covariance of cluster 2 \(2 rows\) is not positive"):
        fitted(X, specification("VVV", 2, "singletons", init=labels, reg_covar=0.0))


def test_a_model_that_fails_leaves_the_others(rng) -> None:
    X = rng.normal(size=(20, 3))
    X[:2] += 50
    labels = np.repeat([1, 0], [2, 18])
    with ArrayRows(X, n_jobs=1) as rows:
        seen = summarise(rows, np.random.RandomState(0))
        options = {"init": labels, "reg_covar": 0.0}
        found = fit_all(rows, seen, [specification(m, 2, "singletons", **options) for m in ("VVV", "VEE")])
    assert isinstance(found[0], Failure)
    assert not isinstance(found[1], Failure)


# Units ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", MODELS)
def test_units_of_the_rows_change_nothing_but_the_units(blobs, covariance) -> None:
    one, other = (EGMM(3, covariance=covariance, random_state=0).fit(X) for X in (blobs, 1e6 * blobs))
    np.testing.assert_allclose(other.weights_, one.weights_, atol=1e-6)
    np.testing.assert_allclose(other.covariances_, 1e12 * one.covariances_, rtol=1e-4)


@pytest.mark.parametrize("covariance", ["EII", "VII"])
def test_spheres_fit_columns_whose_deviations_differ_by_many_orders(blobs, covariance) -> None:
    model = EGMM(3, covariance=covariance, random_state=0).fit(blobs * [1.0, 1e8])
    assert model.converged_
    assert np.isfinite(model.log_likelihood_)
    spheres = np.atleast_3d(model.covariances_.T).T
    np.testing.assert_allclose(spheres, spheres[:, :1, :1] * np.eye(2), rtol=1e-7)
