"""Whole fits: which start is kept, what counts as degenerate, which engine is chosen, and how a fit is cut short."""

import itertools

import numpy as np
import pytest

from egmm import FocalSets
from egmm.em import fit
from egmm.em.fit import Options, choose_engine, fit_mixture, is_degenerate
from egmm.em.parameters import NotPositiveDefiniteError, Parameters, TooFewRowsError
from egmm.em.start import nearest_labels
from egmm.em.statistics import moments
from egmm.rows.array import ArrayRows


@pytest.fixture
def rows(rng):
    X = np.concatenate([rng.normal(0, 1, (60, 2)), rng.normal(5, 1, (60, 2)), [[40.0, -40.0]]])
    return ArrayRows(X)


def run(rows, family="full", n_clusters=2, **options):
    focal = FocalSets.of(family, n_clusters)
    defaults = {
        "covariance": "EEE",
        "prior": None,
        "init": "kmeans",
        "n_init": 1,
        "tol": 1e-6,
        "max_iter": 200,
        "reg_covar": 0.0,
        "accelerate": True,
        "engine": "numpy",
        "verbose": False,
        "random": np.random.RandomState(0),
    }
    return fit_mixture(rows, rows.reduce(moments), focal.shares, Options(**(defaults | options)))


GOOD = np.repeat([0, 1, 1], [60, 60, 1])
LONE = np.repeat([0, 0, 1], [60, 60, 1])


@pytest.fixture
def starts_from(monkeypatch, rows):
    """Let named starts give these labels of the rows, one array per start."""

    def patch(*labels):
        queue = iter(labels)

        def next_labels(sample, n_clusters, random):
            answer = next(queue)
            if isinstance(answer, BaseException):
                raise answer
            order = np.lexsort(rows.X.T[::-1])
            return answer[order]

        monkeypatch.setattr(fit, "kmeans_labels", next_labels)

    return patch


# Engines ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "n_features", "family", "n_clusters", "engine"),
    [
        (150, 4, "full", 3, "numpy"),
        (10_000, 5, "pairs", 4, "numpy"),
        (10**6, 10, "full", 3, "numba"),
        (3 * 10**6, 2, "singletons", 2, "numba"),
        (50_000, 10, "full", 8, "numba"),
    ],
)
def test_compiling_must_pay(n_rows, n_features, family, n_clusters, engine) -> None:
    shares = FocalSets.of(family, n_clusters).shares
    assert choose_engine("auto", n_rows, n_features, shares, is_shared=True) == engine
    for given in ("numpy", "numba"):
        assert choose_engine(given, n_rows, n_features, shares, is_shared=True) == given


def test_covariances_of_their_own_are_more_work() -> None:
    shares = FocalSets.singletons(3).shares
    assert choose_engine("auto", 20_000, 30, shares, is_shared=True) == "numpy"
    assert choose_engine("auto", 20_000, 30, shares, is_shared=False) == "numba"


# Degenerate fits -------------------------------------------------------------------------------------------------


def test_a_cluster_of_fewer_rows_than_it_needs_is_degenerate(rows) -> None:
    assert run(rows, init=LONE).is_degenerate
    assert not run(rows, init=GOOD).is_degenerate


def test_the_rule_counts_pignistic_weight(rows) -> None:
    ascent = run(rows, init=GOOD).ascent
    counts = ascent.point.statistics.set_counts
    # D + 1 = 3: 2 of its own and half of 2.2 is enough, of 1.8 is not.
    for shared, expected in [(2.2, False), (1.8, True)]:
        counts[:] = [100, 2, shared]
        assert is_degenerate(ascent, ascent.point.params) is expected


@pytest.mark.parametrize("units", [1.0, 1e-6, 1e9])
def test_a_covariance_that_collapses_along_any_direction_is_degenerate(rows, units) -> None:
    ascent = run(ArrayRows(rows.X * units), init=GOOD).ascent
    params = ascent.point.params
    turn = np.array([[0.6, -0.8], [0.8, 0.6]]) * units
    for ratio, expected in [(2e-6, False), (5e-7, True)]:
        first = params._replace(covariances=turn @ np.eye(2) @ turn.T)
        end = params._replace(covariances=turn @ np.diag([1.0, ratio]) @ turn.T)
        ascent.point = ascent.point._replace(params=end)
        assert is_degenerate(ascent, first) is expected


@pytest.mark.parametrize("units", [1.0, 1e-6, 1e9])
def test_a_start_flat_already_is_degenerate(rng, units) -> None:
    X = np.column_stack([rng.normal(size=(80, 2)), np.repeat([0.0, 1.0], 40)])
    X[60:, 2] = rng.random(20)
    flat = np.repeat([0, 1], 40)
    with ArrayRows(X * units) as source:
        assert run(source, init=flat, covariance="VVV", reg_covar="auto").is_degenerate
    # Flat for all rows, a feature tells nothing.
    with ArrayRows(X * [1, 1, 0] * units) as source:
        assert not run(source, init=(X[:, 0] > 0).astype(int), covariance="VVV", reg_covar="auto").is_degenerate


@pytest.mark.parametrize("covariance", ["EEE", "VVV", "VVI"])
@pytest.mark.parametrize("gap", [1e4, 5e4, 1e5])
def test_clusters_far_apart_are_not_degenerate(rng, gap, covariance) -> None:
    labels = np.repeat([0, 1], 100)
    with ArrayRows(rng.normal(size=(200, 2)) + gap * labels[:, None]) as source:
        assert not run(source, init=labels, covariance=covariance, reg_covar="auto").is_degenerate


def run_away_rows(rng, variance):
    """Rows of {1} and, with another variance, of {1,2}; the second cluster has no focal set of its own."""
    labels = np.repeat([0, 1], 300)
    return rng.normal(size=(600, 2)) * np.where(labels, np.sqrt(variance), 1.0)[:, None] + 6 * labels[:, None], labels


@pytest.mark.filterwarnings("ignore:cluster 2 has no mass of its own")
@pytest.mark.parametrize("units", [1.0, 1e-6, 1e9])
@pytest.mark.parametrize("covariance", ["VII", "VEE"])
def test_a_cluster_that_runs_away_is_degenerate(rng, covariance, units) -> None:
    # The precision of {1,2} is half the first cluster's and half the second's: its variance is at most 2. Rows with a
    # variance of 1 give the second cluster one of 1 too; with one of 9 they want its precision below zero.
    for variance, expected in [(1.0, False), (9.0, True)]:
        X, labels = run_away_rows(rng, variance)
        with ArrayRows(X * units) as source:
            found = run(source, [{0}, {0, 1}], covariance=covariance, init=labels, reg_covar="auto")
        assert found.is_degenerate is expected


@pytest.mark.filterwarnings("ignore:cluster 2 has no mass of its own")
def test_a_cluster_that_runs_away_beyond_numbers_is_named() -> None:
    X, labels = run_away_rows(np.random.default_rng(5), 9.0)  # of some draws it ends before, and is degenerate
    with (
        ArrayRows(X) as source,
        pytest.raises(NotPositiveDefiniteError, match=r"cluster 2 has run away at iteration \d+, .* such as 'EEE'\."),
    ):
        run(source, [{0}, {0, 1}], covariance="VVI", init=labels, reg_covar="auto")


def test_what_rows_of_its_own_say_of_a_cluster_is_not_running_away(rows) -> None:
    ascent = run(rows, init=GOOD, covariance="VVV").ascent
    variances = np.diag(ascent.problem.moments.scatter) / 121
    # About the centre, 40 of 121 rows have at most 3.025 times all rows' second moment; five times as far out, 25 such.
    for own, ratio, expected in [(0.5, 3.0 * 25, False), (0.5, 3.1 * 25, True), (1.5, 3.1 * 25, False)]:
        ascent.point.statistics.set_counts[:] = [81 - 40 + own, own, 2 * (40 - own)]
        means = np.array([[0.0, 0.0], [np.sqrt(0.5 * ratio * variances[0]), 0.0]])
        covariances = np.array([np.diag(variances), np.diag(variances * [0.5 * ratio, 1.0])])
        ascent.point = ascent.point._replace(params=Parameters(np.full(3, 1 / 3), means, covariances))
        assert is_degenerate(ascent, ascent.point.params) is expected


def test_a_degenerate_fit_is_not_kept_for_its_likelihood(rows, starts_from) -> None:
    lone, good = (run(rows, init=labels) for labels in (LONE, GOOD))
    assert lone.log_likelihood > good.log_likelihood
    for order in ([LONE, GOOD], [GOOD, LONE], [LONE, GOOD, LONE]):
        starts_from(*order)
        kept = run(rows, n_init=len(order))
        assert not kept.is_degenerate
        assert kept.log_likelihood == pytest.approx(good.log_likelihood, rel=1e-12)


def test_where_all_degenerate_the_likeliest_is_kept(rows, starts_from) -> None:
    starts_from(LONE)
    assert run(rows, n_init=1).is_degenerate


def test_the_likeliest_of_sound_fits_is_kept(rng, monkeypatch) -> None:
    X = np.concatenate([rng.normal(mean, 0.6, (50, 2)) for mean in ([0, 0], [0, 4], [4, 0], [4, 4])])
    rows = ArrayRows(X)
    four = {"n_clusters": 4, "init": "random"}
    fits = []
    better = fit._better
    monkeypatch.setattr(fit, "_better", lambda best, new: fits.append(new) or better(best, new))
    kept = run(rows, n_init=8, **four)
    sound = [one.log_likelihood for one in fits if not one.is_degenerate]
    assert max(sound) - min(sound) > 10
    assert kept.log_likelihood == max(sound)


def test_of_starts_that_end_in_one_maximum_the_first_is_kept(rows, starts_from) -> None:
    # Which of them is higher by rounding depends on the order of the rows.
    for labels in (GOOD, 1 - GOOD):
        starts_from(labels, 1 - labels, labels)
        means = run(rows, n_init=3).ascent.point.params.means
        assert (means[0, 0] < means[1, 0]) == (labels is GOOD)


FAR = np.append(np.arange(60) % 3, [3] * 4)


@pytest.fixture
def with_far_rows(rng):
    """Rows of which four lie far away, too few for a covariance of five features."""
    with ArrayRows(rng.normal(size=(64, 5)) + 30 * (FAR == 3)[:, None]) as source:
        yield source


@pytest.mark.parametrize("covariance", ["VVE", "VVV"])
def test_an_ascent_that_collapses_is_given_up_if_asked_for(with_far_rows, covariance) -> None:
    options = {"n_clusters": 4, "covariance": covariance, "reg_covar": "auto", "init": FAR}
    found = run(with_far_rows, "pairs", gives_up=True, **options)
    assert (found.is_degenerate, found.ascent.converged, found.ascent.n_iter) == (True, False, fit.FIRST_LOOK)
    end = run(with_far_rows, "pairs", **options)
    assert end.is_degenerate
    assert end.ascent.n_iter > fit.FIRST_LOOK


@pytest.mark.parametrize(("labels", "covariance"), [(GOOD, "VVV"), (FAR, "EEE"), (FAR, "VVI")])
def test_sound_ascents_and_clusters_of_few_rows_are_not_given_up_soon(rows, with_far_rows, labels, covariance) -> None:
    source = rows if labels is GOOD else with_far_rows
    options = {"n_clusters": labels.max() + 1, "covariance": covariance, "init": labels, "tol": 1e-9}
    found, end = (run(source, "pairs", gives_up=gives_up, max_iter=60, **options) for gives_up in (True, False))
    assert end.is_degenerate == (labels is FAR)
    assert found.ascent.history == end.ascent.history
    assert end.ascent.n_iter > fit.FIRST_LOOK


def test_a_collapse_is_looked_for_after_ten_steps_twice_as_many_and_so_on(with_far_rows, monkeypatch) -> None:
    looks = []

    def has_collapsed(ascent, first):
        looks.append(ascent.n_iter)
        return ascent.n_iter >= 40

    monkeypatch.setattr(fit, "has_collapsed", has_collapsed)
    slow = {"n_clusters": 4, "covariance": "VVI", "init": FAR, "accelerate": False, "tol": 0.0, "gives_up": True}
    assert run(with_far_rows, **slow).ascent.n_iter == 40
    assert looks[:3] == [10, 20, 40]


@pytest.mark.parametrize(("labels", "covariance", "n_iter"), [(FAR, "VVI", 160), (FAR, "EEE", 200), (GOOD, "VVI", 200)])
def test_clusters_of_few_rows_are_given_up_late(rows, with_far_rows, labels, covariance, n_iter) -> None:
    source = rows if labels is GOOD else with_far_rows
    slow = {"n_clusters": labels.max() + 1, "covariance": covariance, "init": labels, "accelerate": False}
    found = run(source, **slow, tol=-np.inf, max_iter=200, gives_up=True)
    assert (found.ascent.n_iter, found.is_degenerate) == (n_iter, labels is FAR)


# The classical mixture first -------------------------------------------------------------------------------------


@pytest.fixture
def classical(monkeypatch, rows):
    """Let the start 'mixture' have these labels."""
    known = {row.tobytes(): label for row, label in zip(rows.X, GOOD, strict=True)}
    monkeypatch.setattr(
        fit, "component_labels", lambda sample, **_: [np.array([known[row.tobytes()] for row in sample.rows])]
    )


@pytest.mark.parametrize("covariance", ["EEE", "VVI", "VVV"])
def test_a_mixture_start_is_the_mixture_of_single_clusters(rows, classical, covariance) -> None:
    single = run(rows, "singletons", init=GOOD, covariance=covariance, tol=1e-4).ascent.point.params
    begun = run(rows, "full", init="mixture", covariance=covariance).ascent
    expected = single._replace(weights=np.array([*0.99 * single.weights, 0.01]))
    other = run(rows, "full", init=expected, covariance=covariance).ascent
    np.testing.assert_allclose(begun.history[:3], other.history[:3], rtol=1e-10)


def test_a_mixture_start_of_a_sample_is_about_the_rows_centre(rng, monkeypatch) -> None:
    X = np.concatenate([rng.normal(0, 1, (600, 2)), rng.normal([300, 5], [1, 2], (300, 2))])
    draw = fit.draw_sample
    monkeypatch.setattr(fit, "draw_sample", lambda rows, seed: draw(rows, seed, size=100))
    with ArrayRows(X) as source:
        ascent = run(source, init="mixture", covariance="EEE", tol=1e-9).ascent
        got = ascent.point.params
        want = run(source, init=np.repeat([0, 1], [600, 300]), covariance="EEE", tol=1e-9).ascent.point.params
    np.testing.assert_allclose(np.sort(got.means, axis=0), np.sort(want.means, axis=0), atol=1e-3)
    # A tenth of a nat per row at first: about another centre the means would be many deviations off.
    assert ascent.history[-1] - ascent.history[0] < 90


def test_the_classical_mixture_is_fitted_to_a_part_of_a_large_sample(rng, monkeypatch) -> None:
    truth = np.repeat([0, 1], 400)
    X = rng.normal(size=(800, 2)) + 5 * truth[:, None]
    order = np.lexsort(X.T[::-1])
    labels = [rng.integers(2, size=800), truth[order], (X[order, 1] > 6).astype(int)]

    def component_labels(sample, n_clusters, seed, engine):
        rows = nearest_labels(sample.rows, X[order])
        return [each[rows] for each in labels]

    monkeypatch.setattr(fit, "component_labels", component_labels)
    asked = []
    whole = fit.fit_mixture
    monkeypatch.setattr(fit, "fit_mixture", lambda rows, *args: asked.append((len(rows.X), args)) or whole(rows, *args))
    with ArrayRows(X) as source:
        expected = run(source, init=truth, covariance="VVV").log_likelihood
        monkeypatch.setattr(fit, "TRIAL_ROWS", 200)
        asked.clear()
        assert run(source, init="mixture", covariance="VVV").log_likelihood == pytest.approx(expected, abs=0.01)
        assert [n_rows for n_rows, _ in asked] == [200]
        # Too few rows for a cluster: all are fitted.
        monkeypatch.setattr(fit, "TRIAL_ROWS", 4)
        asked.clear()
        assert run(source, init="mixture", covariance="VVV").log_likelihood == pytest.approx(expected, abs=0.01)
        assert [n_rows for n_rows, _ in asked] == [4, 800]


def test_a_mixture_that_cannot_be_fitted_is_passed_over(rows, classical, monkeypatch) -> None:
    expected = run(rows, init="mixture", covariance="VVV")
    whole = fit._Fitting._classical
    calls = itertools.count()

    def fails_first(self, start):
        if next(calls) == 0:
            raise NotPositiveDefiniteError("smallest eigenvalue -1e-17")
        return whole(self, start)

    monkeypatch.setattr(fit._Fitting, "_classical", fails_first)
    assert run(rows, init="mixture", covariance="VVV", n_init=2).log_likelihood == expected.log_likelihood


@pytest.mark.parametrize("trial_rows", [fit.TRIAL_ROWS, 60])
def test_interrupted_in_the_classical_mixture_it_is_the_best_so_far(rows, classical, monkeypatch, trial_rows) -> None:
    monkeypatch.setattr(fit, "TRIAL_ROWS", trial_rows)
    end = run(rows, init="mixture")
    interrupt_at(monkeypatch, 3)
    got = run(rows, init="mixture")
    assert (got.interrupted, got.ascent.n_iter) == (True, 0)
    assert np.isfinite(got.log_likelihood)
    assert got.log_likelihood < end.log_likelihood


# The sample first ------------------------------------------------------------------------------------------------


@pytest.fixture
def many(rng, monkeypatch):
    """Rows of which a sample is a tenth."""
    draw = fit.draw_sample
    monkeypatch.setattr(fit, "draw_sample", lambda rows, seed: draw(rows, seed, size=1000))
    with ArrayRows(np.concatenate([rng.normal(0, 1, (5000, 2)), rng.normal(3.5, 1, (5000, 2))])) as source:
        yield source


def rehearsals(monkeypatch, rows) -> list[fit.Fit | None]:
    """Remember what the fit of the sample was."""
    rehearse, ends = fit._Fitting._rehearse, []

    def remember(self, sample):
        end = rehearse(self, sample)
        if self.rows is rows:
            ends.append(end)
        return end

    monkeypatch.setattr(fit._Fitting, "_rehearse", remember)
    return ends


def test_of_many_rows_a_sample_is_fitted_first(many, monkeypatch) -> None:
    after = run(many, random=np.random.RandomState(0)).ascent
    monkeypatch.setattr(fit, "REHEARSED", np.inf)
    alone = run(many, random=np.random.RandomState(0)).ascent
    assert after.converged
    assert after.point.log_likelihood > alone.point.log_likelihood - 0.02
    assert after.n_passes < 0.8 * alone.n_passes


@pytest.mark.parametrize("init", ["kmeans", "random", "mixture"])
def test_every_named_start_has_a_rehearsal_on_its_sample(many, monkeypatch, init) -> None:
    ends = rehearsals(monkeypatch, many)
    first = run(many, init=init, n_init=3, max_iter=4).ascent.history[0]
    (end,) = ends
    assert end.ascent.problem.moments.weight == 1000
    again = run(many, init=end.ascent.point.params, max_iter=1).ascent
    assert first == pytest.approx(again.history[0], rel=1e-12)


def test_of_many_rows_starts_compete_on_the_sample(many, monkeypatch) -> None:
    ends = rehearsals(monkeypatch, many)
    passes = []
    evaluate = fit.Problem.evaluate

    def counting(problem, params):
        passes.append(problem.rows is many)
        return evaluate(problem, params)

    monkeypatch.setattr(fit.Problem, "evaluate", counting)
    got = run(many, init="random", n_init=8, random=np.random.RandomState(2)).ascent
    assert sum(passes) == got.n_passes
    sample = fit.draw_sample(many, int(np.random.RandomState(2).randint(2**31)))
    with ArrayRows(*sample) as source:
        alone = run(source, init="random", n_init=8, tol=1e-4, random=np.random.RandomState(2))
    assert ends[0].log_likelihood == pytest.approx(alone.log_likelihood, abs=1e-6)


def test_neither_few_rows_nor_plain_em_nor_given_starts_have_a_rehearsal(many, monkeypatch) -> None:
    ends = rehearsals(monkeypatch, many)
    run(many, accelerate=False, max_iter=3)
    run(many, init=np.arange(10_000) % 2, max_iter=3)
    run(many, init=np.array([[0.0, 0.0], [1.0, 1.0]]), max_iter=3)
    monkeypatch.setattr(fit, "REHEARSED", 11)
    run(many, max_iter=3)
    assert ends == [None] * 4


@pytest.mark.parametrize("fails", ["raises", "degenerates"])
def test_a_rehearsal_that_fails_is_forgotten(many, monkeypatch, fails) -> None:
    evaluate, check = fit.Problem.evaluate, fit.is_degenerate

    def lost(problem, params):
        if problem.rows is not many:
            raise NotPositiveDefiniteError("smallest eigenvalue -1e-17")
        return evaluate(problem, params)

    def collapsed(ascent, first):
        return ascent.problem.rows is not many or check(ascent, first)

    ends = rehearsals(monkeypatch, many)
    with monkeypatch.context() as patch:
        if fails == "raises":
            patch.setattr(fit.Problem, "evaluate", lost)
        else:
            patch.setattr(fit, "is_degenerate", collapsed)
        got = run(many).ascent
    assert ends == [None]
    monkeypatch.setattr(fit, "REHEARSED", np.inf)
    alone = run(many).ascent
    assert got.point.log_likelihood == pytest.approx(alone.point.log_likelihood, abs=0.02)
    # From k-means, not from where the sample's fit has ended.
    assert got.history[0] == pytest.approx(alone.history[0], abs=100)
    assert got.history[-1] - got.history[0] > 1000


def test_the_live_line_tells_the_sample_from_all_rows(many, capsys) -> None:
    run(many, init="mixture", verbose=True)
    lines = capsys.readouterr().err.split()
    # The classical mixture, which comes before both, is not told.
    assert [word for word, _ in itertools.groupby(word for word in lines if word in ("EGMM,", "EGMM"))] == [
        "EGMM,",
        "EGMM",
    ]


def test_interrupted_on_the_sample_it_ends_there(many, monkeypatch) -> None:
    end = run(many)
    interrupt_at(monkeypatch, 6)
    got = run(many)
    assert (got.interrupted, got.ascent.n_iter) == (True, 0)
    assert got.ascent.problem.rows is many
    assert np.isfinite(got.log_likelihood)
    assert got.log_likelihood < end.log_likelihood


# Failures and interruptions --------------------------------------------------------------------------------------


def test_a_start_that_fails_is_passed_over(rows, starts_from) -> None:
    # Three groups of one row and one of the rest: no covariance at reg_covar 0 unless the rest has one.
    starts_from(GOOD, GOOD)
    expected = run(rows, n_init=2)
    broken = itertools.count()
    evaluate = fit.Ascent.from_start

    def fails_first(*args, **options):
        if next(broken) == 0:
            raise NotPositiveDefiniteError("smallest eigenvalue -1e-17")
        return evaluate(*args, **options)

    starts_from(GOOD, GOOD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit.Ascent, "from_start", fails_first)
        kept = run(rows, n_init=2)
    assert kept.log_likelihood == expected.log_likelihood


def test_where_every_start_fails_the_message_says_where(rng) -> None:
    X = rng.normal(size=(30, 2))
    rows = ArrayRows(np.column_stack([X, X.sum(axis=1)]))
    with pytest.raises(
        NotPositiveDefiniteError,
        match=r"covariance is not positive definite at iteration 0 \(smallest eigenvalue .*\); raise reg_covar",
    ):
        run(rows, n_init=3)


def test_a_failure_that_names_a_way_out_gets_no_other(rows, monkeypatch) -> None:
    def m_step(self, point):
        raise TooFewRowsError("cluster 2 has no rows left; use fewer clusters.")

    monkeypatch.setattr(fit.Problem, "m_step", m_step)
    with pytest.raises(
        NotPositiveDefiniteError, match=r"^at iteration 1 cluster 2 has no rows left; use fewer clusters\.$"
    ):
        run(rows)


def test_a_covariance_lost_on_the_way_names_the_iteration(rows, monkeypatch) -> None:
    steps = itertools.count(1)
    m_step = fit.Problem.m_step

    def singular_at_three(self, point):
        params = m_step(self, point)
        return params._replace(covariances=0 * params.covariances) if next(steps) == 3 else params

    monkeypatch.setattr(fit.Problem, "m_step", singular_at_three)
    with pytest.raises(NotPositiveDefiniteError, match=r"at iteration 3 \(smallest variance 0\)"):
        run(rows, init=GOOD)


def test_too_few_distinct_rows_for_a_named_start() -> None:
    rows = ArrayRows(np.repeat([[0.0, 1.0], [2.0, 3.0]], 10, axis=0))
    with pytest.raises(ValueError, match="n_clusters=3 but X has only 2 distinct rows; use fewer clusters"):
        run(rows, n_clusters=3)


def interrupt_at(monkeypatch, n_passes: int) -> None:
    """Raise KeyboardInterrupt at the start of one pass over the rows."""
    passes = itertools.count(1)
    evaluate = fit.Problem.evaluate

    def interrupted(self, params):
        if next(passes) == n_passes:
            raise KeyboardInterrupt
        return evaluate(self, params)

    monkeypatch.setattr(fit.Problem, "evaluate", interrupted)


def test_interrupted_it_ends_where_it_is(rows, monkeypatch) -> None:
    whole = run(rows, init=GOOD, accelerate=False, tol=0.0, max_iter=20).ascent
    interrupt_at(monkeypatch, 6)
    got = run(rows, init=GOOD, accelerate=False, tol=0.0, max_iter=20)
    assert got.interrupted
    assert got.ascent.n_iter == 4
    assert got.ascent.history == whole.history[:5]


def test_interrupted_in_a_later_start_the_best_so_far_is_kept(rows, monkeypatch, starts_from) -> None:
    good = run(rows, init=GOOD)
    n_passes = good.ascent.n_passes
    # In the next start's first pass, and in its third.
    for late in (1, 3):
        starts_from(GOOD, LONE)
        with pytest.MonkeyPatch.context() as patch:
            interrupt_at(patch, n_passes + late)
            got = run(rows, n_init=2)
        assert got.interrupted
        assert got.log_likelihood == good.log_likelihood


def test_interrupted_between_starts_the_best_so_far_is_kept(rows, starts_from) -> None:
    good = run(rows, init=GOOD)
    starts_from(GOOD, KeyboardInterrupt())
    got = run(rows, n_init=2)
    assert got.interrupted
    assert got.log_likelihood == good.log_likelihood


def test_interrupted_before_anything_is_known_it_just_ends(rows, starts_from) -> None:
    starts_from(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(rows)
