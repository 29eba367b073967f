import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid
from scipy.special import gamma

from egmm.elliptical import DEGREES, POWERS, STRUCTURES, _power_exponentials, _students, elliptical_criterion

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(200, 3)) @ RNG.normal(size=(3, 3))
FULL = STRUCTURES[0].restrict


def _gaussian_log_likelihood(X):
    return stats.multivariate_normal(X.mean(axis=0), np.cov(X.T, bias=True)).logpdf(X).sum()


def test_the_exponent_one_is_the_gaussian():
    found = dict(zip(POWERS, _power_exponentials(ROWS, np.ones(200), FULL), strict=True))
    assert found[1.0] == pytest.approx(_gaussian_log_likelihood(ROWS))


@pytest.mark.parametrize("power", [0.5, 3.0])
def test_one_feature_is_the_generalised_normal_distribution(power):
    # exp(-|x|^(2 b) / 2) is SciPy's gennorm of shape 2 b, up to its scale.
    x = RNG.normal(size=(100, 1))
    found = dict(zip(POWERS, _power_exponentials(x, np.ones(100), FULL), strict=True))[power]
    scales = np.exp(np.linspace(-2, 2, 4001))
    values = [stats.gennorm(2 * power, x.mean(), scale).logpdf(x).sum() for scale in scales]
    assert found == pytest.approx(max(values), abs=1e-3)


def test_the_density_of_the_power_exponential_integrates_to_one():
    # The constant of the power exponential in 3 dimensions, by integrating over shells.
    power, d = 2.0, 3
    radius = np.linspace(0, 6, 20001)
    shells = 4 * np.pi * radius**2 * np.exp(-0.5 * radius ** (2 * power))
    constant = power * gamma(d / 2) / (np.pi ** (d / 2) * gamma(d / (2 * power)) * 2 ** (d / (2 * power)))
    assert constant * trapezoid(shells, radius) == pytest.approx(1, abs=1e-6)


def test_student_s_t_reaches_the_likelihood_of_the_truth():
    X = stats.multivariate_t(loc=[1, 2], shape=[[2, 1], [1, 3]], df=5, seed=1).rvs(2000)
    found = dict(zip(DEGREES, _students(X, np.ones(2000), FULL), strict=True))
    truth = stats.multivariate_t(loc=[1, 2], shape=[[2, 1], [1, 3]], df=5).logpdf(X).sum()
    # Five parameters gain half a chi-square with five degrees of freedom: at most 10.3 with probability 0.999.
    assert truth <= found[5.0] <= truth + 10.3
    assert max(found, key=found.get) == 5.0


def test_a_weight_counts_as_repeating_a_row():
    weight = RNG.integers(0, 4, 200).astype(float)
    repeated = np.repeat(ROWS, weight.astype(int), axis=0)
    assert elliptical_criterion(ROWS, weight) == pytest.approx(elliptical_criterion(repeated))


def test_fewer_parameters_are_charged_for_round_rows():
    X = np.random.default_rng(3).normal(size=(300, 8))
    full = _gaussian_log_likelihood(X) - 0.5 * (8 + 36 + 1) * np.log(300)
    assert elliptical_criterion(X) > full + 0.5 * 30 * np.log(300) - 0.5 * 60


def test_rows_on_a_line_leave_the_structures_that_have_a_maximum():
    line = np.outer(np.arange(10.0), [1, 2])
    assert np.isfinite(elliptical_criterion(line))
    assert elliptical_criterion(np.ones((10, 2))) == -np.inf
