"""The compiled kernels: elementary functions to the last bits, every path and tile against the NumPy engine."""

import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from egmm import EGMM, FocalSets
from egmm.em import estep, kernel
from egmm.em.compiled import arithmetic, block
from egmm.em.compiled.options import KERNEL
from egmm.em.parameters import concatenated
from egmm.em.statistics import Statistics, monomials

TILE = block.LANES
KINDS = ["shared", "full", "diagonal"]

compiled = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="Python warns of overflow, and has no signatures")


@numba.njit(**KERNEL)
def apply_exp(x, out):
    for i in range(len(x)):
        out[i] = arithmetic.exp(x[i])


@numba.njit(**KERNEL)
def apply_log(x, out):
    for i in range(len(x)):
        out[i] = arithmetic.log(x[i])


def errors_in_ulp(function, truth, x) -> np.ndarray:
    got = np.empty_like(x)
    function(x, got)
    want = truth(x.astype(np.longdouble))
    return np.abs((got - want) / np.spacing(np.abs(want.astype(np.float64)))).astype(float)


def test_exp_is_right_to_two_ulp(rng) -> None:
    x = -np.concatenate([rng.uniform(0, 708, 200_000), 10.0 ** rng.uniform(-18, 2.8, 100_000), [0.0, 707.999]])
    assert errors_in_ulp(apply_exp, np.exp, x).max() <= 2


@compiled
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


@pytest.fixture
def plan(monkeypatch):
    """Let the kernel walk the sets as another plan says."""

    def use(change):
        sets_of = kernel._sets
        monkeypatch.setattr(kernel, "_sets", lambda *args: change(sets_of(*args)))

    return use


def by_logs(sets):
    return sets._replace(powers=sets.powers[:0])


def run(X, weight, model) -> Statistics:
    """One block through the kernel."""
    return kernel.e_step(X, weight, *model[:3])


def by_numpy(X, weight, model) -> Statistics:
    return estep.e_step(monomials(model.units.rows(X), model.kind), weight, model.model, model.shares)


def sets_of(model):
    return kernel._sets(model.model, model.shares)


def assert_same(got, want, rtol=1e-12) -> None:
    for mine, theirs in zip(got[:4], want[:4], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * max(1.0, np.abs(theirs).max(initial=0)))


@pytest.fixture
def case(mixture, model_of):
    """Draw a mixture as the code reads it."""

    def draw(family, n_clusters, dim, kind, **options):
        truth = mixture(family, n_clusters, dim, kind, **options)
        return model_of(truth, diagonal=kind.endswith("diagonal"))

    return draw


@pytest.mark.parametrize(("family", "n_clusters"), [("full", 4), ("full", 6), ("pairs", 8), ("pairs", 5)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_products_logs_and_numpy_agree(rng, case, plan, family, n_clusters, kind, dtype, weighted) -> None:
    X = (4 * rng.normal(size=(300, 3))).astype(dtype)
    weight = rng.random(300) if weighted else None
    model = case(family, n_clusters, 3, kind)
    assert len(sets_of(model).powers) > 0
    want = by_numpy(X, weight, model)
    assert_same(run(X, weight, model), want)
    plan(by_logs)
    assert_same(run(X, weight, model), want)


@pytest.mark.parametrize(("family", "n_clusters"), [("singletons", 4), ("simple", 6), ("full", 3), ("pairs", 3)])
def test_few_sets_go_without_products(case, family, n_clusters) -> None:
    assert len(sets_of(case(family, n_clusters, 2, "shared")).powers) == 0


@compiled
@pytest.mark.parametrize("domain", ["products", "logs"])
def test_sets_without_weight_are_as_if_they_were_not_there(rng, case, plan, domain) -> None:
    model = case("pairs", 5, 3, "full")
    some = np.arange(len(model.shares)) % 3 > 0
    some |= model.shares.max(axis=1) == 1
    parts = model.model._replace(log_weights=np.where(some, model.model.log_weights, -np.inf))
    model = model._replace(model=parts)
    X = 3 * rng.normal(size=(200, 3))
    if domain == "logs":
        plan(by_logs)
    got = run(X, None, model)
    assert (got.set_counts[0, ~some] == 0).all()
    assert_same(got, by_numpy(X, None, model))


@pytest.mark.parametrize(
    "shares", [np.eye(3)[[1, 0, 2]], [[1, 0, 0], [0, 1, 0], [0.5, 0, 0.5]], [[1, 0, 0], [0, 1, 0], [0, 1, 0]]]
)
def test_as_many_sets_as_clusters_need_not_be_the_clusters(rng, case, shares) -> None:
    model = case("singletons", 3, 3, "shared")._replace(shares=np.array(shares, dtype=float))
    X = 3 * rng.normal(size=(200, 3))
    assert_same(run(X, None, model), by_numpy(X, None, model))


@pytest.mark.parametrize("n", [1, 2, TILE - 1, TILE, TILE + 1, 2 * TILE - 1, 3 * TILE + 17])
@pytest.mark.parametrize("family", ["full", "singletons"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_last_tile_may_be_short(rng, case, n, family, kind) -> None:
    X, weight = 3 * rng.normal(size=(n, 3)), rng.random(n)
    model = case(family, 4, 3, kind)
    for w in (None, weight):
        assert_same(run(X, w, model), by_numpy(X, w, model))
    mass, log_density = kernel.masses(X, *model[:3])
    want, want_density = estep.masses(monomials(X, model.kind), model.model, model.shares)
    np.testing.assert_allclose(mass, want[0], rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(log_density, want_density[0], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dim", [1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("kind", KINDS)
def test_features_are_taken_four_at_a_time_and_the_rest(rng, case, dim, kind) -> None:
    model, X = case("pairs", 4, dim, kind), rng.normal(size=(TILE + 3, dim))
    assert_same(run(X, None, model), by_numpy(X, None, model))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_its_fits(rng, case, kind) -> None:
    models, X = [case("pairs", 4, 3, kind) for _ in range(3)], rng.normal(size=(200, 3))
    batch = concatenated([one.model for one in models])
    together = run(X, None, models[0]._replace(model=batch))
    for at, one in enumerate(models):
        for mine, other in zip(together[:4], run(X, None, one)[:4], strict=True):
            np.testing.assert_array_equal(mine[at], other[0])


@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_ordinary_rows_are_done_by_products(rng, mixture, model_of, plan, spread) -> None:
    truth = mixture("full", 4, 3, "full")
    model = model_of(truth)
    X = spread * rng.normal(size=(2 * TILE + 9, 3))
    # Roots of so high an order are 1: products of them leave the sets' own weights, and logarithms need no roots.
    plan(
        lambda sets: sets._replace(powers=np.full(len(sets.powers), 1e15), halves=np.full(len(sets.powers), -1)),
    )
    got = run(X, None, model)
    weights = np.exp(model.model.log_weights[0])
    np.testing.assert_allclose(got.set_counts[0], len(X) * weights / weights.sum(), rtol=1e-9)
    clusters = [multivariate_normal(*of).logpdf(X) for of in zip(truth.means, truth.covariances, strict=True)]
    want = (np.max(clusters, axis=0) + np.log(weights.sum())).sum()
    assert got.log_likelihood[0] == pytest.approx(want, rel=1e-11)


@compiled
def test_a_row_whose_products_underflow_is_done_in_logs(rng, mixture, model_of) -> None:
    truth = mixture("full", 4, 2, spread=3)
    outward = np.array([1.0, 0.5])
    nearest = int(np.argmax(truth.means @ np.linalg.solve(truth.covariances, outward)))
    truth.weights[truth.sets.index(frozenset({nearest}))] = 0
    X = np.concatenate([rng.normal(size=(100, 2)), 1000 * outward[None]])
    model = model_of(truth)
    assert len(sets_of(model).powers) > 0
    # Relative to the nearest cluster's density, all sets that have weight lost hundreds of orders of magnitude.
    peak = multivariate_normal(truth.means[nearest], truth.covariances).logpdf(X[-1])
    assert truth.log_joint(X[-1:]).max() - peak < -700
    assert_same(run(X, None, model), by_numpy(X, None, model), rtol=1e-11)
    np.testing.assert_allclose(kernel.masses(X, *model[:3])[0], truth.masses(X), atol=1e-9)


def test_sets_of_clusters_far_apart_are_done_in_logs(case) -> None:
    model = case("full", 4, 2, "shared", spread=300)
    assert model.model.log_weights.max() > kernel.LARGEST_LOG_WEIGHT
    assert len(sets_of(model).powers) == 0


def test_slopes_that_would_lose_digits_are_left_to_numpy(rng, mixture, model_of) -> None:
    truth = mixture("full", 3, 2, spread=1e6)
    model = model_of(truth)
    X = truth.means[[0, 1, 2, 0]] + rng.normal(size=(4, 2))
    assert_same(run(X, None, model), by_numpy(X, None, model), rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_blocks_are_not_left_to_numpy(rng, case, monkeypatch, kind) -> None:
    model, X = case("pairs", 4, 3, kind), rng.normal(size=(20, 3))
    want = by_numpy(X, None, model).set_counts
    for name in ("e_step", "masses"):
        monkeypatch.delattr(estep, name)
    np.testing.assert_allclose(run(X, None, model).set_counts, want, rtol=1e-12)
    np.testing.assert_allclose(kernel.masses(X, *model[:3])[0].sum(axis=0), want[0], rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_in_memory_changes_no_bit(rng, mixture, model_of, kind: str) -> None:
    centre, scale = np.array([0.5, -1.0, 2.0]), np.array([0.5, 1.0, 4.0])
    model = model_of(mixture("full", 3, 3, kind), centre, scale, diagonal=kind == "diagonal")
    X, weight = rng.normal(size=(1000, 3)), rng.integers(0, 3, 1000).astype(float)
    for ours, other in zip(run(X, weight, model), run(np.asfortranarray(X), weight, model), strict=True):
        np.testing.assert_array_equal(ours, other)


@compiled
def test_the_kernel_is_compiled_once_per_precision(rng, case) -> None:
    X = np.concatenate([rng.normal(0, 1, (50, 3)), rng.normal(4, 1, (50, 3))])
    for dtype in ("float32", "float64"):
        kernel.kernel(dtype)
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
    for kind in KINDS:
        run(X, None, case("full", 3, 3, kind))
    assert set(block.block_pass.signatures) == before


FIT = """
import numpy as np
from egmm import EGMM
X = np.random.default_rng(0).normal(size=(40_000, 2))
model = EGMM(3, focal_sets="full", engine="numba", n_jobs=2, random_state=0, max_iter=9, tol=1.0).fit(X)
from egmm.em.compiled.block import block_pass
print(sum(block_pass.stats.cache_hits.values()), sum(block_pass.stats.cache_misses.values()))
print(model.means_.tobytes().hex())
"""


@pytest.mark.slow
def test_compiling_is_announced_once_and_kept_for_later_processes(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    first, second = (
        subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert first.stdout.split()[:2] == ["0", "1"]
    assert first.stderr.count("egmm: compiling the fast engine") == 1
    assert second.stdout.split()[:2] == ["1", "0"]
    assert list(tmp_path.rglob("*.nbi"))
    # The kernel that was read rounds as the one that was compiled.
    assert second.stdout.split()[2:] == first.stdout.split()[2:]


PASSES = """
import numpy as np
from egmm import FocalSets
from egmm.em import estep, kernel
from egmm.em.parameters import Parameters, components
from egmm.em.statistics import Units, monomials
rng = np.random.default_rng(0)
X, weight, units = 2 * rng.normal(size=(150, 2)), rng.random(150), Units(np.ones(2), np.array([0.5, 2.0]))
for family in ("full", "singletons"):
    shares = FocalSets.of(family, 4).shares
    weights = rng.dirichlet(np.ones(len(shares)), size=1)
    for kind, shape in (("linear", (1, 2, 2)), ("diagonal", (4, 2)), ("full", (4, 2, 2))):
        covariances = rng.uniform(0.5, 2, size=(1, *shape))
        if kind != "diagonal":
            covariances = covariances * np.eye(2)
        model = components(Parameters(weights, rng.normal(size=(1, 4, 2)), covariances), shares, kind).components
        z = monomials(units.rows(X), kind)
        for w in (None, weight):
            for got, want in zip(kernel.e_step(X, w, model, shares, units)[:4], estep.e_step(z, w, model, shares)[:4]):
                np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-10)
        np.testing.assert_allclose(kernel.masses(X, model, shares, units)[0], estep.masses(z, model, shares)[0][0])
print("same")
"""


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_the_kernel_s_python_says_the_same_and_reads_no_array_beyond_its_end(tmp_path, monkeypatch, variable) -> None:
    monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    done = subprocess.run([sys.executable, "-c", PASSES], capture_output=True, text=True, check=False)
    assert done.stdout == "same\n", done.stderr


def test_families_of_sets_are_planned_with_their_members(case) -> None:
    focal = FocalSets.pairs(5)
    sets = sets_of(case("pairs", 5, 2, "shared"))
    for j, members in enumerate(focal):
        assert set(sets.members[sets.starts[j] : sets.starts[j + 1]]) == members
        assert sets.powers[sets.power_of[j]] == len(members)
    for p, half in enumerate(sets.halves):
        assert half < 0 or sets.powers[half] == 2 * sets.powers[p]
