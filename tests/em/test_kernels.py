"""The compiled kernels: elementary functions to the last bits, every path and tile against the NumPy engine."""

import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from egmm.em.estep_numba import _density, sets_of
from scipy.stats import multivariate_normal

from egmm import EGMM, FocalSets
from egmm.em import estep, estep_numba
from egmm.em.compiled import block

TILE = block.LANES


@numba.njit(**block.KERNEL)
def apply_exp(x, out):
    for i in range(len(x)):
        out[i] = block._exp(x[i])


@numba.njit(**block.KERNEL)
def apply_log(x, out):
    for i in range(len(x)):
        out[i] = block._log(x[i])


def errors_in_ulp(function, truth, x) -> np.ndarray:
    got = np.empty_like(x)
    function(x, got)
    want = truth(x.astype(np.longdouble))
    return np.abs((got - want) / np.spacing(np.abs(want.astype(np.float64)))).astype(float)


def test_exp_is_right_to_two_ulp(rng) -> None:
    x = -np.concatenate([rng.uniform(0, 708, 200_000), 10.0 ** rng.uniform(-18, 2.8, 100_000), [0.0, 707.999]])
    assert errors_in_ulp(apply_exp, np.exp, x).max() <= 2


def test_exp_far_below_is_zero_and_of_zero_is_one() -> None:
    x = np.array([0.0, -0.0, -708.0, -709.0, -1e5, -1e308, -np.inf])
    got = np.empty_like(x)
    apply_exp(x, got)
    np.testing.assert_array_equal(got, [1, 1, 0, 0, 0, 0, 0])


def test_log_is_right_to_two_ulp(rng) -> None:
    x = np.concatenate([10.0 ** rng.uniform(-307, 308, 200_000), rng.uniform(0, 10, 100_000)])
    assert errors_in_ulp(apply_log, np.log, x).max() <= 2


def test_log_about_one_is_right_to_three_ulp(rng) -> None:
    near = np.concatenate([1 + 10.0 ** rng.uniform(-16, -0.4, 50_000), 1 - 10.0 ** rng.uniform(-16, -0.6, 50_000)])
    assert errors_in_ulp(apply_log, np.log, near[near != 1]).max() <= 3
    got = np.empty(1)
    apply_log(np.ones(1), got)
    assert got == 0


def run(X, weight, model, sets, scatter="full"):
    """One block through the kernel, with a given plan of sets."""
    density = _density(model, scatter)
    return estep_numba.e_step(X, weight, model.centre, density, sets, scatter)


def assert_same(got, want, rtol=1e-12) -> None:
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * max(1.0, np.abs(theirs).max()))


@pytest.mark.parametrize(("family", "n_clusters"), [("full", 4), ("full", 6), ("pairs", 8), ("pairs", 5)])
@pytest.mark.parametrize("covariances", ["shared", "full"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_products_logs_and_numpy_agree(
    rng, mixture, model_of, family, n_clusters, covariances, dtype, weighted
) -> None:
    truth = mixture(family, n_clusters, 3, covariances)
    X = (4 * rng.normal(size=(300, 3))).astype(dtype)
    weight = rng.random(300) if weighted else None
    model = model_of(truth)
    products = sets_of(model)
    assert len(products.powers) > 0
    logs = products._replace(powers=products.powers[:0])
    want = estep.e_step(X, weight, model, "full")
    assert_same(run(X, weight, model, products), want)
    assert_same(run(X, weight, model, logs), want)


@pytest.mark.parametrize(("family", "n_clusters"), [("singletons", 4), ("simple", 6), ("full", 3), ("pairs", 3)])
def test_few_sets_go_without_products(mixture, model_of, family, n_clusters) -> None:
    assert len(sets_of(model_of(mixture(family, n_clusters))).powers) == 0


@pytest.mark.parametrize("n", [1, 15, 16, 17, TILE + 1, 2 * TILE, 2 * TILE + 1, 5 * TILE - 3])
@pytest.mark.parametrize(("family", "n_clusters"), [("pairs", 5), ("singletons", 4)])
@pytest.mark.parametrize("covariances", ["shared", "full"])
def test_tiles_of_few_rows_say_the_same(rng, mixture, model_of, n, family, n_clusters, covariances) -> None:
    X, weight = 3 * rng.normal(size=(n, 3)), rng.random(n)
    model = model_of(mixture(family, n_clusters, 3, covariances))
    found = []
    for kernel in (block.block_pass, block.small_pass):
        n_focal = len(model.shares)
        sums = np.zeros((1, n_focal)), np.zeros((n_clusters, 3)), np.zeros((n_clusters, 3, 3))
        rows = np.empty((n, n_focal)), np.empty(n)
        how = (*estep_numba.readable(X), estep_numba.read_only(weight), model.centre)
        value = kernel(*how, _density(model, "full"), sets_of(model), sums, rows)
        found.append((value, *sums, *rows))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("plan", ["products", "logs"])
def test_sets_without_weight_are_as_if_they_were_not_there(rng, mixture, model_of, plan) -> None:
    model = model_of(mixture("pairs", 5, 3, "full"))
    some = np.arange(len(model.shares)) % 3 > 0
    some |= model.shares.max(axis=1) == 1
    model = model._replace(log_weights=np.where(some, model.log_weights, -np.inf))
    X = 3 * rng.normal(size=(200, 3))
    sets = sets_of(model)
    got = run(X, None, model, sets if plan == "products" else sets._replace(powers=sets.powers[:0]))
    assert (got.set_counts[~some] == 0).all()
    assert_same(got, estep.e_step(X, None, model, "full"))


@pytest.mark.parametrize(
    "shares", [np.eye(3)[[1, 0, 2]], [[1, 0, 0], [0, 1, 0], [0.5, 0, 0.5]], [[1, 0, 0], [0, 1, 0], [0, 1, 0]]]
)
def test_as_many_sets_as_clusters_need_not_be_the_clusters(rng, mixture, model_of, shares) -> None:
    model = model_of(mixture("singletons", 3, 3, "shared"))._replace(shares=np.array(shares, dtype=float))
    X = 3 * rng.normal(size=(200, 3))
    assert_same(run(X, None, model, sets_of(model)), estep.e_step(X, None, model, "full"))


@pytest.mark.parametrize("n", [1, 2, TILE - 1, TILE, TILE + 1, 2 * TILE - 1, 3 * TILE + 17])
@pytest.mark.parametrize("family", ["full", "singletons"])
@pytest.mark.parametrize("covariances", ["shared", "diagonal"])
def test_the_last_tile_may_be_short(rng, mixture, model_of, n, family, covariances) -> None:
    truth = mixture(family, 4, 3, covariances)
    X, weight = 3 * rng.normal(size=(n, 3)), rng.random(n)
    model = model_of(truth)
    for scatter in ("diagonal", "full"):
        for w in (None, weight):
            assert_same(run(X, w, model, sets_of(model), scatter), estep.e_step(X, w, model, scatter))
    for got, want in zip(estep_numba.masses(X, model), estep.masses(X, model), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("dim", [1, 3, 4, 5, 8, 11])
def test_features_are_taken_four_at_a_time_and_the_rest(rng, mixture, model_of, dim) -> None:
    for covariances in ("shared", "full"):
        model = model_of(mixture("pairs", 4, dim, covariances))
        X = rng.normal(size=(TILE + 3, dim))
        assert_same(run(X, None, model, sets_of(model)), estep.e_step(X, None, model, "full"))


@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_ordinary_rows_are_done_by_products(rng, mixture, model_of, spread) -> None:
    truth = mixture("full", 4, 3, "full")
    model = model_of(truth)
    X = spread * rng.normal(size=(2 * TILE + 9, 3))
    # Roots of so high an order are 1: products of them leave the sets' own weights, and logarithms need no roots.
    sets = sets_of(model)
    flat = sets._replace(powers=np.full(len(sets.powers), 1e15), halves=np.full(len(sets.powers), -1))
    got = run(X, None, model, flat)
    weights = np.exp(model.log_weights)
    np.testing.assert_allclose(got.set_counts, len(X) * weights / weights.sum(), rtol=1e-9)
    clusters = [multivariate_normal(*of).logpdf(X) for of in zip(truth.means, truth.covariances, strict=True)]
    assert got.log_likelihood == pytest.approx((np.max(clusters, axis=0) + np.log(weights.sum())).sum(), rel=1e-11)


def test_a_row_whose_products_underflow_is_done_in_logs(rng, mixture, model_of) -> None:
    truth = mixture("full", 4, 2, spread=3)
    outward = np.array([1.0, 0.5])
    nearest = int(np.argmax(truth.means @ np.linalg.solve(truth.covariances, outward)))
    truth.weights[truth.sets.index(frozenset({nearest}))] = 0
    X = np.concatenate([rng.normal(size=(100, 2)), 1000 * outward[None]])
    model = model_of(truth)
    products = sets_of(model)
    assert len(products.powers) > 0
    # Relative to the nearest cluster's density, all sets that have weight lost hundreds of orders of magnitude.
    peak = multivariate_normal(truth.means[nearest], truth.covariances).logpdf(X[-1])
    assert truth.log_joint(X[-1:]).max() - peak < -700
    assert_same(run(X, None, model, products), estep.e_step(X, None, model, "full"), rtol=1e-11)
    np.testing.assert_allclose(estep_numba.masses(X, model)[0], truth.masses(X), atol=1e-9)


def test_sets_of_clusters_far_apart_are_done_in_logs(rng, mixture, model_of) -> None:
    truth = mixture("full", 4, 2, spread=300)
    model = model_of(truth)
    assert model.log_weights.max() > estep_numba.LARGEST_LOG_WEIGHT
    assert len(sets_of(model).powers) == 0


def test_slopes_that_would_lose_digits_are_left_to_numpy(rng, mixture, model_of) -> None:
    truth = mixture("full", 3, 2, spread=1e6)
    model = model_of(truth)
    assert _density(model, "none") is None
    X = truth.means[[0, 1, 2, 0]] + rng.normal(size=(4, 2))
    assert_same(estep_numba.prepare(model, "none")(X, None)[:2], estep.e_step(X, None, model)[:2], rtol=0)
    assert_same(estep_numba.masses(X, model), estep.masses(X, model), rtol=0)


@pytest.mark.parametrize("covariances", ["shared", "full", "diagonal"])
def test_ordinary_blocks_are_not_left_to_numpy(rng, mixture, model_of, monkeypatch, covariances) -> None:
    model, X = model_of(mixture("pairs", 4, 3, covariances)), rng.normal(size=(20, 3))
    want = estep.e_step(X, None, model).set_counts
    for name in ("e_step", "masses", "prepare"):
        monkeypatch.delattr(estep, name)
    np.testing.assert_allclose(estep_numba.prepare(model, "none")(X, None).set_counts, want, rtol=1e-12)
    np.testing.assert_allclose(estep_numba.masses(X, model)[0].sum(axis=0), want, rtol=1e-12)


@pytest.mark.parametrize("covariances", ["shared", "full"])
def test_the_order_in_memory_changes_no_bit(rng, model_of, mixture, covariances: str) -> None:
    model = model_of(mixture("full", 3, 3, covariances), np.array([0.5, -1.0, 2.0]))
    X, weight = rng.normal(size=(1000, 3)), rng.integers(0, 3, 1000).astype(float)
    step = estep_numba.prepare(model, "none" if covariances == "shared" else "full")
    by_rows, by_columns = step(X, weight), step(np.asfortranarray(X), weight)
    for ours, other in zip(by_rows, by_columns, strict=True):
        np.testing.assert_array_equal(ours, other)


def test_the_kernel_is_compiled_once_per_precision(rng, model_of, mixture) -> None:
    X = np.concatenate([rng.normal(0, 1, (50, 3)), rng.normal(4, 1, (50, 3))])
    for dtype in ("float32", "float64"):
        estep_numba.kernel(dtype)
    before = set(block.block_pass.signatures)
    read_only = X.copy()
    read_only.setflags(write=False)
    model = EGMM(2, engine="numba", random_state=0)
    model.fit(read_only).predict(read_only)
    model.fit(np.asfortranarray(X)).predict(X[::-1])
    model.fit(X[:, ::-1])
    model.fit(X, sample_weight=np.ones(200)[::2])
    model.fit(X, sample_weight=np.broadcast_to(1.0, 100))
    model.fit(X.astype(np.float32)).predict(read_only.astype(np.float32)[:, ::-1])
    EGMM(2, engine="numba", init=np.asfortranarray(X[:2]), focal_sets="singletons").fit(X[:, :])
    EGMM(1, engine="numba").fit(X[:, :1])
    for covariances in ("full", "diagonal"):
        estep_numba.prepare(model_of(mixture("full", 3, 3, covariances)), covariances)(X, None)
    assert set(block.block_pass.signatures) == before


FIT = """
import numpy as np
from egmm import EGMM
X = np.random.default_rng(0).normal(size=(40_000, 2))
model = EGMM(3, focal_sets="full", engine="numba", n_jobs=2, random_state=0, max_iter=9, tol=1.0).fit(X)
from egmm.em.compiled.block import block_pass
print(sum(block_pass.stats.cache_hits.values()), sum(block_pass.stats.cache_misses.values()))
plain = EGMM(3, engine="numba", random_state=0, max_iter=9, tol=1.0, accelerate=False).fit(X[:3_000])
from egmm.em.compiled.plain import plain_steps
print(sum(plain_steps.stats.cache_hits.values()), sum(plain_steps.stats.cache_misses.values()))
whole = EGMM(3, covariance="VEV", init="mixture", engine="numba", random_state=0).fit(X[:300])
from egmm.em.compiled.whole import fit_whole
print(sum(fit_whole.stats.cache_hits.values()), sum(fit_whole.stats.cache_misses.values()))
print(*(fitted.means_.tobytes().hex() for fitted in (model, plain, whole)))
"""


@pytest.mark.slow
def test_compiling_is_announced_once_and_kept_for_later_processes(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    first, second = (
        subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert first.stdout.split()[:6] == ["0", "1"] * 3
    assert first.stderr.count("egmm: compiling the fast engine") == 1
    assert second.stdout.split()[:6] == ["1", "0"] * 3
    assert list(tmp_path.rglob("*.nbi"))
    # The kernels that were read round as the ones that were compiled.
    assert second.stdout.split()[6:] == first.stdout.split()[6:]


def test_families_of_sets_are_planned_with_their_members(mixture, model_of) -> None:
    focal = FocalSets.pairs(5)
    sets = sets_of(model_of(mixture("pairs", 5)))
    for j, members in enumerate(focal):
        assert set(sets.members[sets.starts[j] : sets.starts[j + 1]]) == members
        assert sets.powers[sets.power_of[j]] == len(members)
    for p, half in enumerate(sets.halves):
        assert half < 0 or sets.powers[half] == 2 * sets.powers[p]
