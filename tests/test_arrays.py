"""Arrays of other libraries: fitted where they are, with the results of NumPy's, or refused in one sentence."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.utils.estimator_checks import check_array_api_input_and_values, estimator_checks_generator

from egmm import BPEC, ECM, EGMM, FCM, AutoEGMM, CredalPartition, select_model
from egmm.cluster import CatECM
from egmm.image import segment
from egmm.rows.source import BLOCK_ROWS

pytest.importorskip("sklearn", minversion="1.9", reason="needs the array helpers of scikit-learn 1.9")
strict = pytest.importorskip("array_api_strict", reason="needs array-api-strict, which is in the extra 'dev'")
try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="needs torch: pip install 'egmm[torch]'")
LIBRARIES = {
    "array_api_strict": pytest.param(strict, id="strict"),
    "torch": pytest.param(torch, id="torch", marks=needs_torch),
}

ESTIMATORS: dict[str, Callable[[], Any]] = {
    "EGMM": lambda: EGMM(reg_covar=0.1, random_state=0),
    "EGMM, full sets": lambda: EGMM(3, focal_sets="full", covariance="EEI", init="random", n_init=2, random_state=0),
    "EGMM, VVI": lambda: EGMM(covariance="VVI", random_state=0),
    "FCM": lambda: FCM(random_state=0),
    "ECM": lambda: ECM(3, random_state=0),
    "AutoEGMM": lambda: AutoEGMM([2], covariance=["EEE", "VVI"], random_state=0),
}


@pytest.fixture(autouse=True)
def dispatch(monkeypatch) -> Iterator[None]:
    """What scikit-learn asks for: the setting, and a variable that only its own check reads."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.fixture(params=LIBRARIES.values())
def xp(request) -> Any:
    """Every library in turn."""
    return request.param


def blobs(n_per_group: int = 200, n_features: int = 3, gap: float = 6.0, offset: float = 0.0) -> np.ndarray:
    """Rows of three clear groups of unit variance."""
    rng = np.random.default_rng(1)
    centres = gap * np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])[:, :n_features]
    return np.concatenate([centre + rng.normal(size=(n_per_group, n_features)) for centre in centres]) + offset


def host(array: Any) -> np.ndarray:
    return np.asarray(array)


# scikit-learn's own checks -----------------------------------------------------------------------------------------


def array_checks() -> list[Any]:
    """Those for libraries and devices that no machine here has are left out; scikit-learn would skip them."""
    found = []
    for name, make in ESTIMATORS.items():
        for estimator, check in estimator_checks_generator(make()):
            words = str(check.keywords)
            if not check.func.__name__.startswith("check_array_api"):
                continue
            if any(word in words for word in ("cupy", "dpnp", "cuda", "xpu", "mps")):
                continue
            marks = needs_torch if "torch" in words else ()
            found.append(pytest.param(estimator, check, id=f"{name}-{check.func.__name__}-{words}", marks=marks))
    return found


@pytest.mark.parametrize(("estimator", "check"), array_checks())
def test_scikit_learn_s_checks(estimator, check) -> None:
    with sklearn.config_context(array_api_dispatch=False):
        check(estimator)


# AutoEGMM's search ends within its tolerance, which on these 30 rows of 10 features is wider than the check's.
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "AutoEGMM"])
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_scikit_learn_s_check_of_values(name, library, weighted) -> None:
    if library == "torch" and torch is None:
        pytest.skip("needs torch: pip install 'egmm[torch]'")
    with sklearn.config_context(array_api_dispatch=False):
        check_array_api_input_and_values(name, ESTIMATORS[name](), library, check_sample_weight=weighted)


# The same as NumPy -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", ["EII", "EEE", "EEI", "VVI", "VVV", "VEV"])
@pytest.mark.parametrize("weighted", [False, True])
def test_parameters_are_those_of_numpy(xp, covariance, weighted) -> None:
    X = blobs(gap=9.0)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(X)) if weighted else None
    options = {"covariance": covariance, "focal_sets": "singletons", "random_state": 0}
    model = EGMM(3, **options).fit(X, sample_weight=weight)
    other = EGMM(3, **options).fit(xp.asarray(X), sample_weight=None if weight is None else xp.asarray(weight))
    for name in ("weights_", "means_", "covariances_", "focal_means_"):
        found = getattr(other, name)
        assert type(found) is type(xp.asarray(X)), name
        np.testing.assert_allclose(host(found), getattr(model, name), rtol=0, atol=1e-10, err_msg=name)
    assert other.log_likelihood_ == pytest.approx(model.log_likelihood_, rel=1e-12)


@pytest.mark.parametrize("focal_sets", ["pairs", "full", "simple", "neighbours", [{0}, {1}, {2}, {0, 1}]], ids=str)
def test_masses_are_those_of_numpy(xp, focal_sets) -> None:
    X = blobs(gap=4.0)
    model = EGMM(3, focal_sets=focal_sets, random_state=0, tol=1e-9).fit(X)
    other = EGMM(3, focal_sets=focal_sets, random_state=0, tol=1e-9).fit(xp.asarray(X))
    assert other.focal_sets_ == model.focal_sets_
    np.testing.assert_allclose(host(other.predict_mass(xp.asarray(X))), model.predict_mass(X), atol=1e-5)


@pytest.mark.parametrize("init", ["means", "labels", "mixture"])
def test_starts_may_be_arrays_too(xp, init) -> None:
    X = blobs()
    given: Any = {"means": X[[0, 200, 400]], "labels": np.repeat([0, 1, 2], 200), "mixture": "mixture"}[init]
    model = EGMM(3, init=given, random_state=0).fit(X)
    other = EGMM(3, init=given if init == "mixture" else xp.asarray(given), random_state=0).fit(xp.asarray(X))
    np.testing.assert_allclose(host(other.means_), model.means_, atol=1e-8)
    again = EGMM(3, warm_start=True, random_state=0).fit(xp.asarray(X))
    first = host(again.means_)
    np.testing.assert_allclose(host(again.fit(xp.asarray(X)).means_), first, atol=1e-4)


@pytest.mark.parametrize(("gap", "offset"), [(6.0, 0.0), (1e3, 0.0), (6.0, 1e6), (1e3, 1e6)])
@pytest.mark.parametrize("covariance", ["EEE", "VVV"])
def test_single_precision_keeps_four_decimals_of_the_likelihood(xp, gap, offset, covariance) -> None:
    # More rows than a block: of fewer, all is double.
    X = blobs(BLOCK_ROWS // 2, gap=gap, offset=offset).astype(np.float32)
    options = {"covariance": covariance, "focal_sets": "singletons", "random_state": 0}
    model = EGMM(3, **options).fit(X)
    other = EGMM(3, **options).fit(xp.asarray(X))
    assert abs(other.log_likelihood_ - model.log_likelihood_) < 1e-4 * len(X)
    np.testing.assert_allclose(host(other.covariances_), model.covariances_, rtol=0, atol=2e-2)
    assert other.score(xp.asarray(X)) == pytest.approx(model.score(X), abs=1e-4)


def test_a_device_without_double_precision() -> None:
    device = strict.Device("no_float64")
    for gap in (6.0, 1e3):
        X = blobs(BLOCK_ROWS // 2, gap=gap).astype(np.float32)
        model = EGMM(3, covariance="VVV", focal_sets="singletons", random_state=0).fit(X)
        there = strict.asarray(X, device=device)
        other = EGMM(3, covariance="VVV", focal_sets="singletons", random_state=0).fit(there)
        assert abs(other.log_likelihood_ - model.log_likelihood_) < 1e-4 * len(X)
        mass = other.predict_mass(there)
        assert (mass.dtype, mass.device) == (strict.float32, device)
        assert other.means_.dtype == strict.float32
    with pytest.raises(TypeError, match=r"ECM needs float64, which the device of X .*no_float64.* has not"):
        ECM(3).fit(there)


@pytest.mark.parametrize("make", [partial(ECM, 3), partial(ECM, 3, beta=1.6, delta=4), partial(FCM, 3)])
def test_prototypes_are_those_of_numpy(xp, make) -> None:
    X = blobs()
    X[5] = X[:200].mean(axis=0)  # a row near a prototype, whose distance is taken afresh
    model, other = (make(random_state=0).fit(rows) for rows in (X, xp.asarray(X)))
    np.testing.assert_allclose(host(other.means_), model.means_, atol=1e-10)
    rows = np.concatenate([X, model.means_, 1e4 + X[:1]])
    np.testing.assert_allclose(host(other.predict_mass(xp.asarray(rows))), model.predict_mass(rows), atol=1e-8)
    np.testing.assert_array_equal(host(other.labels_), model.labels_)


def test_a_search_finds_what_it_finds_in_numpy(xp) -> None:
    X = blobs(60)
    options = {"random_state": 0, "focal_sets": "simple"}
    found = select_model(X, [2, 3, 4], ["EEE", "VVI"], **options)
    other = select_model(xp.asarray(X), [2, 3, 4], ["EEE", "VVI"], **options)
    assert (other.n_clusters, other.covariance) == (found.n_clusters, found.covariance) == (3, found.covariance)
    np.testing.assert_allclose(host(other.best.means_), found.best.means_, atol=1e-8)
    peers = select_model(xp.asarray(X), [2, 3], estimator=FCM(random_state=0))
    assert peers.n_clusters == select_model(X, [2, 3], estimator=FCM(random_state=0)).n_clusters == 3


@pytest.mark.parametrize("consensus", [True, False])
def test_the_consensus_is_that_of_numpy(xp, consensus) -> None:
    X = blobs(60, gap=4.0)
    make = partial(AutoEGMM, [2, 3], covariance=["EEE", "VVI"], consensus=consensus, random_state=0)
    with pytest.warns(UserWarning, match="is the largest tried"):
        model = make().fit(X)
    with pytest.warns(UserWarning, match="is the largest tried"):
        other = make().fit(xp.asarray(X))
    there = xp.asarray(X)
    for method in ("predict_mass", "predict_proba", "score_samples"):
        found = getattr(other, method)(there)
        assert type(found) is type(there)
        np.testing.assert_allclose(host(found), getattr(model, method)(X), atol=1e-6, err_msg=method)
    assert other.open_share_ == model.open_share_
    assert other.score(there) == pytest.approx(model.score(X), abs=1e-8)


def test_images_are_segmented_on_the_host(xp) -> None:
    rng = np.random.default_rng(0)
    image = np.repeat([0.0, 50.0], 30)[:, None] + rng.normal(0, 2, (60, 40))
    expected = segment(image, n_clusters=2)
    found = segment(xp.asarray(image), xp.asarray(np.ones(image.shape, dtype=bool)), n_clusters=2)
    np.testing.assert_array_equal(found.labels(), expected.labels())
    colours = rng.integers(0, 255, (20, 20, 3)).astype(np.uint8)
    np.testing.assert_array_equal(
        segment(xp.asarray(colours), n_clusters=2).labels(), segment(colours, n_clusters=2).labels()
    )


# Where results are -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: EGMM(3, random_state=0), lambda: ECM(3, random_state=0)])
def test_results_follow_the_rows_and_partitions_are_numpy_s(xp, make) -> None:
    X = xp.asarray(blobs(), dtype=xp.float32)
    model = make().fit(X)
    expected = {"predict": xp.int64, "predict_sets": xp.int64, "predict_proba": xp.float64, "predict_mass": xp.float64}
    for method, dtype in expected.items():
        found = getattr(model, method)(X)
        assert type(found) is type(X), method
        assert found.dtype == dtype, method
    assert model.predict_sets(X, rule="utility").dtype == xp.bool
    partition = model.partition(X)
    assert isinstance(partition.mass, np.ndarray)
    np.testing.assert_allclose(partition.mass, host(model.predict_mass(X)))
    np.testing.assert_array_equal(partition.labels(), host(model.labels_))


def test_a_fitted_mixture_is_kept_drawn_from_and_moved(xp, tmp_path) -> None:
    rows = blobs()
    X = xp.asarray(rows)
    model = EGMM(3, covariance="VVI", random_state=0).fit(X)
    model.save(tmp_path / "model.json")
    expected = host(model.predict_mass(X))
    np.testing.assert_allclose(EGMM.load(tmp_path / "model.json").predict_mass(rows), expected, atol=1e-12)
    drawn, sets = model.sample(5)
    assert isinstance(drawn, np.ndarray)
    assert drawn.shape == (5, 3)
    assert sets.shape == (5,)
    assert model.covariances_.shape == (3, 3, 3)
    assert type(model.outliers(X)) is type(X)
    assert model.criteria(X)["ebic"] == pytest.approx(model.ebic_, rel=1e-9)
    moved = import_module("sklearn.utils._array_api").move_estimator_to(model, np, "cpu")
    assert isinstance(moved.means_, np.ndarray)
    np.testing.assert_allclose(moved.predict_mass(rows), expected, atol=1e-12)
    with sklearn.config_context(array_api_dispatch=False):
        without = model.predict_mass(rows)
    assert isinstance(without, np.ndarray)
    np.testing.assert_allclose(without, expected, atol=1e-12)


def test_a_killed_fit_goes_on(xp, tmp_path) -> None:
    X, path = xp.asarray(blobs(gap=2.0)), tmp_path / "fit.checkpoint"
    options = {"random_state": 0, "tol": 1e-9}
    whole = EGMM(3, **options).fit(X)

    def kill(_progress: Any, ascent: Any, _title: str) -> None:
        if ascent.n_steps == 7:
            raise SystemExit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("egmm.mixture_fit._report", kill)
        with pytest.raises(SystemExit):
            EGMM(3, checkpoint=path, verbose=1, **options).fit(X)
    assert path.exists()
    again = EGMM(3, checkpoint=path, **options).fit(X)
    np.testing.assert_array_equal(host(again.means_), host(whole.means_))


# What is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [EGMM, ECM, partial(AutoEGMM, [1, 2])])
def test_types_that_no_pass_can_read_are_named(xp, make) -> None:
    with pytest.raises(TypeError, match=r"X must be of float32 or float64 on its device, got .*int64; convert it"):
        make().fit(xp.asarray([[1, 2], [3, 4]]))


@needs_torch
@pytest.mark.parametrize("make", [EGMM, ECM, partial(AutoEGMM, [1, 2])])
def test_tensors_that_no_pass_can_read_are_named(make) -> None:
    X = torch.asarray(blobs())
    with pytest.raises(TypeError, match=r"got torch.float16; convert it first"):
        make().fit(X.half())
    with pytest.raises(TypeError, match=r"got torch.bfloat16; convert it first"):
        make().fit(X.bfloat16())
    with pytest.raises(TypeError, match=r"X requires gradients, which a fit does not pass on; give X.detach\(\)"):
        make().fit(X.clone().requires_grad_())
    with pytest.raises(
        TypeError, match=r"X is sparse \(torch.sparse_coo\), but dense data is required; give X.to_dense"
    ):
        make().fit(X.to_sparse())
    with pytest.raises(TypeError, match=r"X requires gradients"):
        select_model(X.clone().requires_grad_(), [2])


def test_entries_that_are_no_numbers_are_named(xp) -> None:
    X = blobs()
    X[7, 1] = np.nan
    for make in (EGMM, ECM, partial(AutoEGMM, [1, 2])):
        with pytest.raises(
            ValueError, match="X contains NaN at row 7, column 1, but arrays on devices must be complete; impute"
        ):
            make().fit(xp.asarray(X))
    model = EGMM(3, random_state=0).fit(xp.asarray(blobs()))
    with pytest.raises(
        ValueError, match="X contains NaN at row 7, column 1, but arrays on devices must be complete; impute"
    ):
        model.predict_mass(xp.asarray(X))
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.predict_mass(xp.asarray(blobs()[:, :2]))
    with pytest.raises(ValueError, match="Expected 2D"):
        EGMM().fit(xp.asarray(X[:, 0]))


@pytest.mark.parametrize("make", [lambda: EGMM(3, random_state=0), lambda: FCM(3, random_state=0)])
def test_rows_elsewhere_than_those_of_the_fit_are_refused(make) -> None:
    X = blobs()
    first, second = (strict.asarray(X, device=strict.Device(name)) for name in ("CPU_DEVICE", "device1"))
    model = make().fit(first)
    for other in (second, X):
        with pytest.raises(ValueError, match=r"predict_mass\(\) must use the same namespace and the same device"):
            model.predict_mass(other)
    with pytest.raises(ValueError, match=r"predict\(\) must use the same namespace"):
        make().fit(X).predict(first)


def test_what_takes_numpy_arrays_alone_says_so_first(xp) -> None:
    X = xp.asarray(blobs())
    with pytest.raises(ValueError, match="partial_fit supports NumPy arrays only; convert X"):
        EGMM(3).partial_fit(X)
    fitted = EGMM(3, random_state=0).fit(X)
    for method in ("partial_fit", "standard_errors", "impute", "sample_missing"):
        for rows in (X, blobs()):
            with pytest.raises(ValueError, match=f"{method} supports NumPy arrays only; convert X"):
                getattr(fitted, method)(rows)
    for peer in (BPEC(3), CatECM(3)):
        name = type(peer).__name__
        with pytest.raises(
            TypeError, match=f"X must be an array of NumPy for {name}, got one of {xp.__name__}; convert"
        ):
            peer.fit(X)
    with pytest.raises(TypeError, match="X must be rows in memory for stability"):
        AutoEGMM([2]).stability(X)
    with pytest.raises(ValueError, match="out= is for scans of files"):
        EGMM(3, random_state=0).fit(X).predict(X, out="labels.parquet")


@pytest.mark.parametrize(
    "known", [{"labels": [0] * 300, "reliability": 0.9}, {"must_link": [[0, 1]]}, {"cannot_link": [[0, 1]]}]
)
def test_labels_and_links_are_refused(xp, known) -> None:
    X = xp.asarray(blobs())
    with pytest.raises(ValueError, match="fit with labels or links supports NumPy arrays only"):
        EGMM(3).fit(X, **known)
    with pytest.raises(ValueError, match="partition with labels or links supports NumPy arrays only"):
        EGMM(3, random_state=0).fit(X).partition(X, **known)


@pytest.mark.parametrize(
    ("parameter", "value"), [("engine", "numba"), ("noise", True), ("tails", "t"), ("covariance", "low-rank")]
)
def test_parameters_for_numpy_passes_are_refused(xp, parameter, value) -> None:
    X = xp.asarray(blobs())
    message = f"{parameter}={value!r} supports NumPy arrays only; convert X"
    with pytest.raises(ValueError, match=message):
        EGMM(3, **{parameter: value}).fit(X)
    options = {"covariance": ["EEE", value]} if parameter == "covariance" else {parameter: value}
    with pytest.raises(ValueError, match=message):
        select_model(X, [2, 3], **options)


@pytest.mark.parametrize("noise", [True, "auto"])
def test_a_search_with_noise_is_refused(xp, noise) -> None:
    with pytest.raises(ValueError, match=f"noise={noise!r} supports NumPy arrays only"):
        AutoEGMM([2], noise=noise).fit(xp.asarray(blobs()))


def test_imputation_by_several_models_is_refused(xp) -> None:
    X = xp.asarray(blobs())
    with pytest.raises(ValueError, match="impute supports NumPy arrays only"):
        AutoEGMM([3, 4], random_state=0).fit(X).impute(X)


# Without the setting -----------------------------------------------------------------------------------------------


def test_without_the_setting_arrays_are_numpy_s(xp) -> None:
    X = blobs()
    with sklearn.config_context(array_api_dispatch=False):
        model = EGMM(3, random_state=0).fit(xp.asarray(X))
        mass = model.predict_mass(xp.asarray(X))
    assert isinstance(model.means_, np.ndarray)
    assert isinstance(mass, np.ndarray)
    assert isinstance(CredalPartition(mass, model.focal_sets_).mass, np.ndarray)


def test_with_it_numpy_arrays_lists_and_frames_are_fitted_as_ever() -> None:
    pandas = pytest.importorskip("pandas")
    X = blobs()
    with sklearn.config_context(array_api_dispatch=False):
        expected = EGMM(3, random_state=0).fit(X).means_
    for rows in (X, X.tolist(), pandas.DataFrame(X, columns=["a", "b", "c"])):
        model = EGMM(3, random_state=0).fit(rows)
        np.testing.assert_array_equal(model.means_, expected)
        assert isinstance(model.predict_mass(rows), np.ndarray)


def test_nothing_is_loaded_without_the_setting() -> None:
    code = (
        "import sys, numpy as np; from egmm import EGMM, ECM;"
        "X = np.random.default_rng(0).normal(size=(50, 2));"
        "EGMM(2, random_state=0).fit(X).predict_mass(X); ECM(2, random_state=0).fit(X);"
        "print([name for name in ('torch', 'array_api_strict', 'array_api_compat') if name in sys.modules])"
    )
    paths = [path for path in sys.path if path]
    run = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {paths!r};" + code]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip() == "[]"
