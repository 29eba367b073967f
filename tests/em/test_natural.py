"""The M-step with meta-clusters: Q, its derivatives, tangent directions and moment matching, against slow loops."""

import numpy as np
import pytest
from egmm.em.tangent import project

from egmm.belief.focal import FocalSets
from egmm.em import natural
from egmm.em.celeux_govaert import fit_covariances
from egmm.em.covariance import MODELS, SHARED, is_diagonal
from egmm.em.mstep import cluster_means, expected_terms, m_step, start_from_groups
from egmm.em.parameters import NotPositiveDefiniteError, Parameters
from egmm.em.statistics import Statistics, moments
from em.covariance_cases import group_statistics, random_scatters, solve
from em.oracles_covariance import belongs, focal_gaussian, q_value, statistics

OWN = [model for model in MODELS if model not in SHARED]
FAMILIES = ("pairs", "full", "simple", [{0}, {0, 1}, {1, 2}, {0, 1, 2}, {2, 3}, {3}])


class Case:
    """Rows, masses that came from anywhere, and parameters of one model."""

    def __init__(self, rng, model, family="pairs", n_clusters=4, dim=3):
        self.focal = FocalSets.of(family, n_clusters)
        self.sets, self.shares = list(self.focal), self.focal.shares
        X = rng.normal(size=(60, dim)) * 2
        self.X = X - X.mean(axis=0)
        self.mass = rng.dirichlet(np.full(len(self.sets), 0.5), size=60)
        counts, sums, scatters = statistics(self.X, self.mass, self.sets, n_clusters)
        if is_diagonal(model):
            scatters = np.einsum("kdd->kd", scatters)
        self.statistics = Statistics(counts, sums, scatters, 0.0)
        sizes = rng.uniform(5, 20, size=n_clusters)
        covariances = solve(model, sizes, random_scatters(rng, n_clusters, dim) / 20)
        self.params = Parameters(
            np.full(len(self.sets), 1 / len(self.sets)), rng.normal(size=(n_clusters, dim)), covariances
        )
        self.expected = expected_terms(self.statistics, self.shares, model, np.zeros(dim), None)
        self.blocks = natural.matrix_blocks(model, covariances)
        start = self.params.means.T[:, :, None] if is_diagonal(model) else self.params.means[None]
        self.point = natural.evaluate(self.expected, start, self.blocks, model)

    def q(self, means, covariances):
        return q_value(self.X, self.mass, self.sets, means, covariances)


def matrices(model, blocks):
    return blocks[:, :, 0, 0].T[:, :, None] * np.eye(len(blocks)) if is_diagonal(model) else blocks[0]


def vectors(model, blocks):
    return blocks[:, :, 0].T if is_diagonal(model) else blocks[0]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("model", ["VVI", "VVV", "VEV"])
def test_q_is_the_expected_log_likelihood(rng, model, family):
    case = Case(rng, model, family)
    other = Case(rng, model, family)
    moved = natural.evaluate(case.expected, case.point.means, other.blocks, model)
    slow = [case.q(vectors(model, p.means), matrices(model, p.covariances)) for p in (case.point, moved)]
    assert moved.q - case.point.q == pytest.approx(slow[1] - slow[0], rel=1e-10)


@pytest.mark.parametrize("model", OWN)
def test_means_are_best_for_their_covariances(rng, model):
    case = Case(rng, model)
    means = vectors(model, case.point.means)
    best = case.q(means, case.params.covariances)
    for _ in range(5):
        step = 1e-3 * rng.normal(size=means.shape)
        there, back = (case.q(means + sign * step, case.params.covariances) for sign in (1, -1))
        assert max(there, back) < best
        assert there - back == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("model", ["VVI", "VVV"])
def test_gradient_by_differences(rng, model):
    case = Case(rng, model)
    means, precisions = vectors(model, case.point.means), np.linalg.inv(case.params.covariances)
    natural_means = np.einsum("kde,ke->kd", precisions, means)
    residuals = matrices(model, case.point.residuals)
    for _ in range(5):
        change = rng.normal(size=precisions.shape) * 1e-5
        change = (change + np.swapaxes(change, 1, 2)) / 2
        if is_diagonal(model):
            change *= np.eye(change.shape[-1])
        values = []
        for sign in (1, -1):
            covariances = np.linalg.inv(precisions + sign * change)
            values.append(case.q(np.einsum("kde,ke->kd", covariances, natural_means), covariances))
        assert (values[0] - values[1]) / 2 == pytest.approx(-0.5 * (residuals * change).sum(), rel=1e-5)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("model", ["VVI", "VVV"])
def test_curvature_by_differences_with_the_means_following(rng, model, family):
    case = Case(rng, model, family)
    whitening = case.point.whitening
    direction = rng.normal(size=case.blocks.shape)
    direction = direction + np.swapaxes(direction, -1, -2)
    change = whitening @ direction @ np.swapaxes(whitening, -1, -2)
    precisions, step = np.linalg.inv(case.blocks), 1e-4
    values = [
        natural.evaluate(case.expected, case.point.means, np.linalg.inv(precisions + t * change), model).q
        for t in (-step, 0.0, step)
    ]
    second = (values[0] - 2 * values[1] + values[2]) / step**2
    image = natural.curvature(case.expected, case.point, direction)
    assert -(direction * image).sum() == pytest.approx(second, rel=1e-4)
    other = rng.normal(size=direction.shape)
    other = other + np.swapaxes(other, -1, -2)
    swapped = (direction * natural.curvature(case.expected, case.point, other)).sum()
    assert (other * image).sum() == pytest.approx(swapped, rel=1e-9)


@pytest.mark.parametrize("model", OWN)
def test_tangent_is_where_the_model_can_move(rng, model):
    """Following any direction and returning to the model by its M-step moves, at first order, by the projection."""
    case = Case(rng, model, dim=3)
    counts, point = rng.uniform(5, 20, size=4), case.point
    direction = rng.normal(size=case.blocks.shape)
    direction = direction + np.swapaxes(direction, -1, -2)
    projected = project(model, direction, counts, point.variances)
    colouring = point.covariances @ point.whitening

    def moved(step):
        scatters = colouring @ (np.eye(colouring.shape[-1]) - step * direction) @ np.swapaxes(colouring, -1, -2)
        scatters = scatters * counts[:, None, None]
        read, start = (
            (scatters[:, :, 0, 0].T, point.covariances[:, :, 0, 0].T)
            if is_diagonal(model)
            else (scatters[0], point.covariances[0])
        )
        for _ in range(20):
            start = fit_covariances(model, counts, read, start)
        return start.T[:, :, None, None] if is_diagonal(model) else start[None]

    step = 1e-5
    change = (moved(step) - moved(-step)) / (2 * step)
    whitened = -np.swapaxes(point.whitening, -1, -2) @ change @ point.whitening
    np.testing.assert_allclose(whitened, projected, atol=1e-4)
    again = project(model, projected, counts, point.variances)
    np.testing.assert_allclose(again, projected, atol=1e-12)


@pytest.mark.parametrize("model", OWN)
@pytest.mark.parametrize("variance", [0.0, -1.0, np.inf])
def test_what_is_no_covariance_has_no_q(rng, model, variance):
    case = Case(rng, model)
    wrong = natural.matrix_blocks(model, np.stack([np.diag([1.0, 2.0, variance])] * 4))
    with pytest.raises(NotPositiveDefiniteError, match=r"smallest (variance|eigenvalue)|too large to be represented"):
        natural.evaluate(case.expected, case.point.means, wrong, model)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("model", MODELS)
def test_m_step_raises_q_and_stays_in_its_model(rng, model, family):
    case = Case(rng, model, family)
    total, params = moments(case.X, None), case.params
    if model in SHARED:
        params = params._replace(covariances=params.covariances[0])
    ridge = np.full(3, 0.05)
    values = []
    for _ in range(4):
        full = np.broadcast_to(params.covariances, (4, 3, 3))
        values.append(q_value(case.X, case.mass, case.sets, params.means, full, ridge=np.diag(ridge)))
        assert model in SHARED or belongs(model, full)
        params = m_step(case.statistics, total, case.shares, params, model, ridge)
    assert values[1] > values[0] + 1
    assert np.diff(values).min() > -1e-9
    assert values[3] - values[2] < (1e-9 if model in SHARED else 0.1 * (values[1] - values[0]))


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("model", ["VVV", "VVI", "VII"])
def test_moments_match_where_the_m_step_ends(rng, model, family):
    """dQ = 0: each cluster's moments are those its focal sets expect, as far as the model has parameters for them."""
    case = Case(rng, model, family)
    params = case.params
    for _ in range(15):
        params = m_step(case.statistics, moments(case.X, None), case.shares, params, model, np.zeros(3))
    _, sums, scatters = statistics(case.X, case.mass, case.sets, 4)
    for k in range(4):
        expected_sum, expected_scatter = np.zeros(3), np.zeros((3, 3))
        for j, members in enumerate(case.sets):
            if k in members:
                mean, covariance = focal_gaussian(members, params.means, params.covariances)
                share = case.mass[:, j].sum() / len(members)
                expected_sum += share * mean
                expected_scatter += share * (covariance + np.outer(mean, mean))
        gap = scatters[k] - expected_scatter
        gap = {"VVV": gap, "VVI": np.diag(gap), "VII": np.trace(gap)}[model]
        np.testing.assert_allclose(sums[k], expected_sum, atol=1e-6)
        np.testing.assert_allclose(gap, 0.0, atol=1e-4)


def test_ill_conditioned_starts_are_left_quickly(rng):
    """Newton steps far from the optimum: the variances of the start are wrong by ten orders of magnitude."""
    case = Case(rng, "VVV")
    params = case.params._replace(covariances=np.stack([np.diag([1e-5, 1.0, 1e5])] * 4))
    values = []
    for _ in range(12):
        params = m_step(case.statistics, moments(case.X, None), case.shares, params, "VVV", np.zeros(3))
        values.append(case.q(params.means, params.covariances))
    assert np.diff(values).min() > -1e-8
    assert values[-1] - values[-2] < 1e-6


def test_one_covariance_is_the_paper_s_mixture(rng):
    """With equal covariances the means of all focal families are those of the shared model."""
    case = Case(rng, "VVV")
    equal = np.broadcast_to(case.params.covariances[:1], case.params.covariances.shape)
    point = natural.evaluate(case.expected, case.point.means, equal[None], "VVV")
    overlap = natural.overlap_matrix(case.statistics.set_counts, case.shares)
    shared = cluster_means(overlap, case.statistics.cluster_sums, case.params.means)
    np.testing.assert_allclose(point.means[0], shared, rtol=1e-10)


@pytest.mark.parametrize("model", OWN)
def test_without_mass_on_meta_clusters_one_step_is_the_classical_one(rng, model):
    case = Case(rng, model)
    labels = rng.integers(4, size=60)
    rows = group_statistics(case.X, labels, 4, is_diagonal(model))
    singles = np.array([case.focal.index_of({k}) for k in range(4)])
    counts = np.zeros(len(case.sets))
    counts[singles] = rows.set_counts
    total, ridge = moments(case.X, None), np.zeros(3)
    classical = m_step(rows, total, np.eye(4), case.params, model, ridge)
    # Larger than the solution, but not so that a step would leave the positive definite matrices.
    start = classical._replace(covariances=1.3 * classical.covariances)
    step = m_step(rows._replace(set_counts=counts), total, case.shares, start, model, ridge)
    again = m_step(rows, total, np.eye(4), start, model, ridge)
    np.testing.assert_allclose(step.means, again.means, atol=1e-9)
    np.testing.assert_allclose(step.covariances, again.covariances, atol=1e-8)


@pytest.mark.parametrize("model", OWN)
def test_steps_converge_where_the_model_does_not_fit(rng, model):
    """What no covariance of the model can follow must not hold the others up."""
    case = Case(rng, model)
    case.X = case.X * [0.05, 1.0, 6.0]
    counts, sums, scatters = statistics(case.X, case.mass, case.sets, 4)
    if is_diagonal(model):
        scatters = np.einsum("kdd->kd", scatters)
    total, ridge = moments(case.X, None), np.zeros(3)
    groups = group_statistics(case.X, rng.integers(4, size=60), 4, is_diagonal(model))
    params, values = start_from_groups(groups, total, len(case.sets), model, ridge), []
    for _ in range(30):
        params = m_step(Statistics(counts, sums, scatters, 0.0), total, case.shares, params, model, ridge)
        values.append(case.q(params.means, params.covariances))
    assert values[-1] - values[9] < 1e-3
    assert values[-1] - values[-2] < 1e-7
