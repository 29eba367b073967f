"""Plain EM in compiled steps: the points, the counts, the warnings and the errors of the loop that steps one by one."""

import numpy as np
import pytest
from egmm.em.loop import Ascent
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from egmm import EGMM
from egmm.em import estep_numba, plain
from egmm.em.parameters import NotPositiveDefiniteError, Parameters
from egmm.em.problem import Problem
from em.problems import problem_of, start_of


@pytest.fixture
def blobs(rng):
    X = np.concatenate([rng.normal(m, 1, (60, 3)) for m in (0, 2, 4)])
    return X, np.repeat([0, 1, 2], 60)


@pytest.fixture
def passes(monkeypatch) -> list:
    """One entry per pass that is made step by step."""
    made: list = []
    evaluate = Problem.evaluate
    monkeypatch.setattr(Problem, "evaluate", lambda self, params: made.append(1) or evaluate(self, params))
    return made


def ascend(X, labels, engine, *, tol=1e-3, max_iter=2000, **options) -> Ascent:
    problem = problem_of(X, n_clusters=int(labels.max()) + 1, engine=engine, **options)
    return Ascent.from_start(problem, start_of(problem, labels), tol=tol, accelerate=False).run(max_iter)


def assert_same(got: Ascent, want: Ascent, rtol=1e-10) -> None:
    assert (got.n_iter, got.n_passes, got.converged) == (want.n_iter, want.n_passes, want.converged)
    np.testing.assert_allclose(got.history, want.history, rtol=rtol)
    assert got.history[-1] == got.point.log_likelihood
    assert got.point.objective == pytest.approx(want.point.objective, rel=rtol)
    pairs = (got.point.params, want.point.params), (got.point.statistics[:2], want.point.statistics[:2])
    for ours, theirs in pairs:
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol * np.abs(other).max())


@pytest.mark.parametrize("covariance", ["EII", "EEI", "EEE"])
@pytest.mark.parametrize("family", ["singletons", "pairs", "full"])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_it_is_the_loop_of_single_steps(blobs, passes, covariance, family, ridge) -> None:
    options = {"covariance": covariance, "family": family, "ridge": ridge}
    got = ascend(*blobs, "numba", **options)
    assert len(passes) == 1
    assert got.n_iter >= 1
    assert_same(got, ascend(*blobs, "numpy", **options))


@pytest.mark.parametrize("covariance", ["EII", "EEI", "EEE"])
@pytest.mark.parametrize("unit", [1e-20, 1.0, 1e20])
def test_ordinary_steps_are_made_in_one_go(rng, blobs, covariance, unit) -> None:
    X, labels = blobs
    options = {"family": "pairs", "covariance": covariance, "weight": 3 * unit * rng.random(len(X))}
    problem = problem_of(X, engine="numba", **options)
    history = plain.make_plain_steps(problem, problem.evaluate(start_of(problem, labels)), 1e-3 * unit, 900)[1]
    assert 3 < len(history) < 900
    want = ascend(X, labels, "numpy", tol=1e-3 * unit, **options)
    np.testing.assert_allclose(history, want.history[1:], rtol=1e-10)


def test_every_feature_may_have_a_ridge_of_its_own(blobs) -> None:
    X, labels = blobs
    ends = []
    for engine in ("numba", "numpy"):
        problem = problem_of(X, "pairs", 3, "EII", np.array([0.1, 1.0, 3.0]), engine)
        ascent = Ascent.from_start(problem, start_of(problem, labels), tol=1e-3, accelerate=False)
        ends.append(ascent.run(500))
    assert_same(*ends)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_any_precision_order_and_weight(rng, blobs, passes, dtype, order, weighted) -> None:
    X, labels = blobs
    X, weight = X.astype(dtype, order=order), rng.integers(0, 4, len(X)).astype(float) if weighted else None
    got = ascend(X, labels, "numba", weight=weight)
    assert len(passes) == 1
    assert_same(got, ascend(X, labels, "numpy", weight=weight))


@pytest.mark.parametrize(("name", "n_clusters"), [("iris", 3), ("ecoli", 8), ("seeds", 3), ("vehicle", 4)])
def test_real_data_in_the_mode_of_the_paper(name, n_clusters, passes, request) -> None:
    X = load_iris().data if name == "iris" else np.asarray(request.getfixturevalue("uci")(name).X, dtype=float)
    labels = KMeans(n_clusters, n_init=1, random_state=0).fit_predict(X)
    options = {"family": "pairs", "ridge": 0.01}
    got = ascend(X, labels, "numba", **options)
    assert len(passes) == 1
    assert_same(got, ascend(X, labels, "numpy", **options))


def test_with_a_ridge_it_stops_where_the_likelihood_falls(blobs, passes) -> None:
    got = ascend(*blobs, "numba", family="full", ridge=0.5, tol=0.0)
    assert len(passes) == 1
    assert got.history[-1] < got.history[-2]
    assert_same(got, ascend(*blobs, "numpy", family="full", ridge=0.5, tol=0.0))


@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_no_more_steps_than_allowed(blobs, max_iter) -> None:
    got = ascend(*blobs, "numba", tol=1e-9, max_iter=max_iter)
    assert (got.n_iter, got.converged, len(got.history)) == (max_iter, False, max_iter + 1)
    assert_same(got, ascend(*blobs, "numpy", tol=1e-9, max_iter=max_iter))
    assert got.run(max_iter + 2).n_iter == max_iter + 2


@pytest.mark.parametrize(("name", "value"), [("STEPS_AT_ONCE", 3), ("MASSES_AT_ONCE", 0)])
def test_how_many_steps_are_made_at_once_changes_nothing(blobs, monkeypatch, name, value) -> None:
    whole = ascend(*blobs, "numba")
    monkeypatch.setattr(plain, name, value)
    parts = ascend(*blobs, "numba")
    assert whole.n_iter > 3
    assert_same(parts, whole, rtol=1e-13)
    for mine, other in zip(parts.point.params, whole.point.params, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_an_ascent_that_goes_on_is_the_whole(blobs) -> None:
    whole, parts = ascend(*blobs, "numba"), ascend(*blobs, "numba", max_iter=4)
    assert_same(parts.run(2000), whole, rtol=1e-13)


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_from_where_it_stopped_one_step_is_enough(blobs, unit) -> None:
    # In small units log-likelihoods are positive, in large ones negative.
    X, labels = blobs[0] * unit, blobs[1]
    end = ascend(X, labels, "numba")
    again = Ascent.from_start(end.problem, end.point.params, tol=1e-3, accelerate=False).run(50)
    assert (again.n_iter, again.converged) == (1, True)


# Where steps are made one by one ----------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1.0, 1e20])
def test_clusters_without_mass_of_their_own_keep_their_mean_and_are_named(rng, blobs, unit) -> None:
    options = {"family": [{0, 1}, {2}], "weight": unit * rng.random(len(blobs[0])), "tol": 1e-3 * unit}
    with pytest.warns(ConvergenceWarning, match="clusters 1, 2 have no mass of their own left and keep their") as got:
        ours = ascend(*blobs, "numba", **options)
    with pytest.warns(ConvergenceWarning, match="clusters 1, 2 have no mass") as want:
        theirs = ascend(*blobs, "numpy", **options)
    assert len(got) == len(want) == ours.n_iter
    assert_same(ours, theirs)


@pytest.mark.parametrize("weight", [0.0, 1e-30])
@pytest.mark.parametrize("cluster", [0, 1, 2])
def test_a_cluster_that_no_set_has_weight_on_is_named(blobs, weight, cluster) -> None:
    X, labels = blobs
    weights = np.full(3, 0.5)
    weights[cluster] = weight
    for engine in ("numba", "numpy"):
        problem = problem_of(X, "singletons", 3, engine=engine)
        start = start_of(problem, labels)._replace(weights=weights)
        ascent = Ascent.from_start(problem, start, tol=1e-3, accelerate=False)
        with pytest.warns(ConvergenceWarning, match=f"cluster {cluster + 1} has no mass of its own left"):
            ascent.run(3)
        np.testing.assert_allclose(ascent.point.params.means[cluster], start.means[cluster])


@pytest.mark.parametrize("family", ["singletons", "pairs"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_covariance_that_collapses_is_refused_at_the_same_step(rng, family, turned) -> None:
    # One feature, or the difference of both, has two values, which the clusters find.
    X = np.column_stack([np.repeat([0.0, 1.0], 10), rng.normal(size=20)])
    if turned:
        X[:, 0] += X[:, 1]
    labels = np.repeat([1, 0, 1], [3, 7, 10])
    errors = []
    for engine in ("numpy", "numba"):
        model = EGMM(2, focal_sets=family, init=labels, reg_covar=0.0, tol=0.0, accelerate=False, engine=engine)
        with pytest.raises(
            NotPositiveDefiniteError, match=r"at iteration [2-9] \(smallest .*\); raise reg_covar"
        ) as caught:
            model.fit(X)
        errors.append(str(caught.value).partition("(")[0])
    assert errors[0] == errors[1]


@pytest.mark.parametrize("order", [[0, 1, 2], [3, 2, 0, 1], [2, 1, 0, 3]])
def test_a_covariance_that_only_round_off_keeps_definite_is_refused(rng, order) -> None:
    # The third feature is the first and second together; the fourth has nothing to do with them.
    X = rng.normal(size=(200, 2))
    X = np.column_stack([X, X.sum(axis=1) + 1e-7 * rng.normal(size=200), rng.normal(size=200)])[:, order]
    problem = problem_of(X, "singletons", 1, engine="numba")
    start = problem.evaluate(Parameters(np.ones(1), np.zeros((1, len(order))), np.eye(len(order))))
    params = problem.m_step(start)
    np.linalg.cholesky(params.covariances)
    with pytest.raises(NotPositiveDefiniteError, match="smallest eigenvalue"):
        problem.evaluate(params)
    assert plain.make_plain_steps(problem, start, 1e-3, 10)[1] == []


@pytest.mark.parametrize(
    ("gap", "family"), [(60.0, "pairs"), (60.0, [{0}, {1}, {0, 1}, {2}]), (1e6, "pairs"), (7e4, "singletons")]
)
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_clusters_far_apart_are_fitted_step_by_step(rng, passes, gap, unit, family) -> None:
    # Weights of pairs that no product of roots holds, and then slopes that would lose digits. The last cluster, which
    # is between the others, has none of them.
    X = unit * np.concatenate([rng.normal([m * gap, -m * gap], 1, (40, 2)) for m in (0, 2, 1)])
    labels = np.repeat([0, 1, 2], 40)
    got = ascend(X, labels, "numba", family=family, tol=-np.inf, max_iter=4)
    assert len(passes) == 5
    want = ascend(X, labels, "numpy", family=family, tol=-np.inf, max_iter=4)
    for mine, other in zip(got.point.params, want.point.params, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12 * np.abs(other).max())


def test_a_first_step_out_of_bounds_leaves_the_start(blobs) -> None:
    X, labels = blobs
    problem = problem_of(X, [{0, 1}, {2}], 3, engine="numba")
    start = problem.evaluate(start_of(problem, labels))
    end, history = plain.make_plain_steps(problem, start, 1e-3, 10)
    assert end is start
    assert history == []


def test_who_has_compiled_steps(blobs, rng, tmp_path) -> None:
    X, _ = blobs
    assert plain.has_plain_steps(problem_of(X, engine="numba"))
    assert not plain.has_plain_steps(problem_of(X, engine="numpy"))
    assert not plain.has_plain_steps(problem_of(X, covariance="VVV", engine="numba"))
    assert not plain.has_plain_steps(problem_of(X, engine="numba", prior="default"))
    assert not plain.has_plain_steps(problem_of(rng.normal(size=(50, plain.LARGEST_SIZE + 1)), engine="numba"))
    assert not plain.has_plain_steps(problem_of(rng.normal(size=(plain.BLOCK_ROWS + 1, 1)), engine="numba"))


def test_who_watches_sees_every_step(blobs) -> None:
    X, labels = blobs
    problem = problem_of(X, engine="numba")
    seen = []
    ascent = Ascent.from_start(problem, start_of(problem, labels), tol=1e-3, accelerate=False)
    ascent.run(2000, lambda now: seen.append(now.n_iter))
    assert seen == list(range(1, ascent.n_iter + 1))
    assert_same(ascend(X, labels, "numba"), ascent)


def test_the_steps_are_compiled_once_per_precision(rng) -> None:
    from egmm.em.compiled.plain import plain_steps  # noqa: PLC0415

    X = np.concatenate([rng.normal(0, 1, (50, 3)), rng.normal(4, 1, (50, 3))])
    for dtype in ("float32", "float64"):
        plain._compiled(dtype)
    before = set(plain_steps.signatures)
    assert len(before) == 2
    read_only = X.copy()
    read_only.setflags(write=False)
    model = EGMM(2, engine="numba", random_state=0, accelerate=False, tol=0.1)
    for rows in (read_only, np.asfortranarray(X), X[:, ::-1], X[::-1], X[:, :1], X.astype(np.float32)):
        model.fit(rows, sample_weight=np.broadcast_to(1.0, 100)).fit(rows)
    EGMM(2, engine="numba", accelerate=False, covariance="EII", init=np.asfortranarray(X[:2]), tol=1).fit(X)
    assert set(plain_steps.signatures) == before


def test_the_kernel_at_an_address_is_the_one_for_the_types_of_its_arguments() -> None:
    from egmm.em.compiled.plain import address_of  # noqa: PLC0415

    kernel = estep_numba.kernel("float64")
    with pytest.raises(KeyError):
        address_of(kernel, (1.0, 2.0))
