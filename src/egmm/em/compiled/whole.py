"""Whole fits of few rows, compiled: EM from labels with any covariance model and any family of focal sets.

A step of EM maps statistics to statistics: parameters from them, and a pass over the rows with these. In the space of
statistics Anderson's method extrapolates the steps. It needs neither coordinates of a covariance model nor a gradient,
and wherever it leads, the parameters made of the statistics belong to the model.

What arrays hold is told in `step`. A stage is a family of focal sets: (call, params, last, focal, vectors, changes,
moves, in_logs), where `last` are the parameters before a step, `vectors` (6, size) those named below, and `changes` and
`moves` (memory, size) what Anderson's method has seen. `spare` ends with room for (gram, its root, right, floor,
average): twice (memory, memory), (memory,), (D, D) and (1, D, D).
"""

from typing import Any

import numba
import numpy as np

from egmm.em.compiled.block import cached
from egmm.em.compiled.plain import PART, STRICT, call_by_address, uncounted
from egmm.em.compiled.shapes import eigenvalues, log_root
from egmm.em.compiled.step import set_weights

HERE, THERE, LEFT, TO, NEW, METRIC = 0, 1, 2, 3, 4, 5
"""Statistics that made the parameters, what the rows then say, the difference, where to go, what the rows say there,
and the weights of the metric."""

VALUES, ROWS, TRACES, OLD_VALUES, OLD_ROWS, OLD_TRACES = 0, 1, 2, 3, 4, 5
"""Rows of `numbers`: what a pass says beside the statistics, after and before a step."""

CONVERGED, STOPPED, LOST, FAILED = 0, 1, 2, 3
"""How an ascent ended: arrived, at the last step allowed, given up as degenerate, at a step out of the ordinary."""

FEWEST = 4
"""Steps of EM before Anderson's method may take over."""

CRAWL = 3e-3
"""Gain per unit weight above which EM is still finding its basin, and is left alone."""

QUIET_STEPS, QUIET = 3, 0.1
"""An ascent ends after so many steps that gain less than this share of the tolerance each."""

LEAST_DAMPING = 1e-3
"""Of a step that does not gain; after it the ascent has arrived."""

LEAST_COUNT = 0.1
"""Share of EM's count that an extrapolated one has at least."""

LIGHT, FALLING = 1e-3, 0.9
"""Rows below which a set of several clusters is left out whose weight falls to this share in a step or lower: it would
dwindle for ever. Before an ascent ends it is asked whether it would grow again."""

ASKED = 1e-13
"""Weight of a set that is asked, and that it has in the end: without any it could not grow on other rows either."""

ROUNDING = 1e-13
"""Share of what EM raises by which one of its steps may seem to lower it."""

MAX_REVIVALS = 5
"""Times that light sets may be given more weight."""

SUM: dict[str, Any] = PART | {"fastmath": {"reassoc", "contract"}}
"""A sum that may be reordered, else each addition would wait for the one before."""


@cached(**STRICT, locals={"n_steps": numba.int64})  # Begun with a literal, the ascent would be compiled for that too.
def fit_whole(problem, single, every, labels, options, best, first_covariances, spare, numbers, history):
    """Fit the classical mixture from every labelling, and from the best one the focal sets.

    Returns how that ended, the steps made, and whether the fit may be degenerate: `degenerate` has the last word.

    problem
        Addresses are those of `block.small_pass`, `step.evaluate` and `step.maximise`; the ridge is filled where it is
        automatic.
    single, every : stages
        Of the singletons in the order of clusters, and of all sets. The parameters at the end are those of `every`, the
        statistics those of the last pass.
    labels : (L, n)
    options : (is_automatic, start_tol, tol, max_steps, gives_up, meta_weight, growing, same, looks)
        Whether the ridge is automatic, tolerance of the classical mixtures that are only a start and of the rest, most
        steps, whether degenerate ascents are given up; share of the weight that sets of several clusters have at first;
        what `loop` gives to light sets that grow; share by which log-likelihoods at one maximum differ; steps after
        which an ascent is looked at for a collapse, and for too few rows.
    best : params of singletons
    first_covariances
        Filled with those of the classical mixture that the ascent begins with.
    numbers : (6, C + 2)
    history : (max_steps + 1,)
    """
    is_automatic, start_tol, tol, max_steps, gives_up, meta_weight, growing, same, looks = options
    problem, single, every = uncounted((problem, single, every))
    best, first_covariances, spare, numbers = uncounted((best, first_covariances, spare, numbers))
    trial, params = single[1], every[1]
    starts, members = every[0][5][1], every[0][5][2]
    n_clusters, n_focal, n_labels = trial[1].shape[0], params[0].shape[0], labels.shape[0]
    value, is_lost, n_steps, status = -np.inf, True, 0, FAILED
    for number in range(n_labels + 1 + MAX_REVIVALS):
        stage, goal, may_give_up = every, tol, gives_up
        if number < n_labels:
            stage, goal, may_give_up, n_steps = single, start_tol, True, 0
            if not _start(problem, single, labels[number], is_automatic, spare):
                continue
            _copy(trial[2], first_covariances)
        elif number == n_labels:
            if value == -np.inf:
                return FAILED, 0, True
            n_steps = 0
            if is_automatic:
                _automatic_ridge(problem, best[2])
            _copy(best[2], first_covariances)
            _copy(best[4][n_clusters:], params[4][n_focal:])
            share = meta_weight if n_focal > n_clusters else 0.0
            for j in range(n_focal):
                if starts[j + 1] - starts[j] == 1:
                    params[0][j] = (1 - share) * best[0][members[starts[j]]]
                else:
                    params[0][j] = share / (n_focal - n_clusters)
        elif not _revive(problem, every, spare, numbers, tol, growing):
            break
        status, n_steps = _ascend(
            problem, stage, spare, numbers, goal, max_steps, may_give_up, looks, first_covariances, history, n_steps
        )
        if number >= n_labels:
            if status != CONVERGED:
                break
        elif status != FAILED:
            now_lost = _is_lost(problem, trial, first_covariances, numbers, spare, True)
            is_higher = value == -np.inf or history[n_steps] - value > same * abs(value)
            if (is_lost and not now_lost) or (is_lost == now_lost and is_higher):
                value, is_lost = history[n_steps], now_lost
                _copy(trial[4], best[4])
    if _bring_back(problem, every, spare, numbers):
        history[n_steps] = numbers[VALUES, 0]
    is_doubtful = _is_lost(problem, params, first_covariances, numbers, spare, True)
    return status, n_steps, is_doubtful or _has_run_away(problem, every, numbers)


@numba.njit(**PART)
def _copy(array, to):
    """Copy an array of the same size; NumPy's way would be compiled with all its messages."""
    mine, theirs = array.reshape(-1), to.reshape(-1)
    for i in range(mine.shape[0]):
        theirs[i] = mine[i]


@numba.njit(**PART)
def _evaluate(problem, stage, spare, numbers):
    """Make a pass; what it says goes to NEW, VALUES, ROWS and TRACES."""
    call, params, _, focal, vectors, _, _, in_logs = stage
    said = (numbers[ROWS], numbers[TRACES], numbers[VALUES], vectors[NEW])
    made = (problem, call, in_logs, params, focal, spare, *said)
    return call_by_address(problem[0][1], made) == 1.0


@numba.njit(**PART)
def _maximise(problem, stage, spare):
    """Make the parameters of the statistics TO."""
    return call_by_address(problem[0][2], (problem, stage[0], stage[1], spare, stage[4][TO])) == 1.0


# An ascent -------------------------------------------------------------------------------------------------------


@numba.njit(**PART, locals={"n_kept": numba.int64})  # As above.
def _ascend(problem, stage, spare, numbers, tol, max_steps, gives_up, looks, first_covariances, history, n_done):
    """EM until no more than about `tol` is left to gain; returns how it ended and the steps made.

    The parameters of the stage become the best, and the statistics are theirs. The log-likelihood after each step goes
    into `history` from `n_done` + 1 on.
    """
    params, last, vectors, changes, moves = stage[1], stage[2], stage[4], stage[5], stage[6]
    n_clusters, n_focal = params[1].shape[0], params[0].shape[0]
    is_shared = stage[0][4][2].shape[0] == 0
    n_counts, size, memory = n_focal if is_shared else n_focal + n_clusters, vectors.shape[1], changes.shape[0]
    if not _evaluate(problem, stage, spare, numbers):
        return FAILED, n_done
    history[n_done] = numbers[VALUES, 0]
    _set_statistics(params, stage[0][5], is_shared, vectors)
    n_steps, n_kept, n_quiet, look, is_near = 0, 0, 0, looks[0], False
    while n_done < max_steps:
        if _leave_light(params[0], stage, problem[5], changes, moves):
            for slot in range(n_kept):
                _set_products(vectors, changes, slot, slot + 1, spare[10])
        for i in range(size):
            vectors[HERE, i], vectors[THERE, i] = vectors[TO, i], vectors[NEW, i]
            vectors[LEFT, i] = vectors[NEW, i] - vectors[TO, i]
        for i in range(numbers.shape[1]):
            for at in range(OLD_VALUES):
                numbers[OLD_VALUES + at, i] = numbers[at, i]
        _copy(params[4], last[4])
        gain = -np.inf
        if n_kept > 0 and _extrapolate(vectors, changes, moves, n_kept, n_counts, spare):
            gain = _gain_of_step(problem, stage, spare, numbers)
            if not gain >= 0:
                n_kept, is_near = 0, False
                _copy(last[4], params[4])
        if not gain >= 0:
            status, gain = _step(problem, stage, spare, numbers)
            if status == FAILED and gives_up and _is_lost(problem, params, first_covariances, numbers, spare, True):
                return LOST, n_done
            if gain == -np.inf:
                return status, n_done
        n_steps += 1
        n_done += 1
        history[n_done] = numbers[VALUES, 0]
        was_near, is_near = is_near, n_steps >= FEWEST and gain < CRAWL * problem[2]
        if was_near and is_near:
            if n_kept == 0:
                _set_metric(vectors, params, n_counts, spare[0])
            elif n_kept == memory:
                n_kept = _forget_oldest(changes, moves, spare[10])
            for i in range(size):
                changes[n_kept, i] = vectors[NEW, i] - vectors[TO, i] - vectors[LEFT, i]
                moves[n_kept, i] = vectors[NEW, i] - vectors[THERE, i]
            n_kept += 1
            _set_products(vectors, changes, n_kept - 1, n_kept, spare[10])
        n_quiet = n_quiet + 1 if gain < QUIET * tol else 0
        if n_quiet >= QUIET_STEPS and (n_kept > 0 or gain <= 0):
            return CONVERGED, n_done
        if gives_up and n_steps == look and not is_shared:
            if _is_lost(problem, params, first_covariances, numbers, spare, look >= looks[1]):
                return LOST, n_done
            look *= 2
    return STOPPED, n_done


@numba.njit(**PART)
def _set_statistics(params, sets, is_shared, vectors):
    """Fill TO with statistics that the parameters are made of, at the counts of NEW."""
    means, covariances = params[1], params[2]
    starts, members = sets[1], sets[2]
    n_focal, (n_clusters, dim) = params[0].shape[0], means.shape
    for i in range(n_focal + n_clusters):
        vectors[TO, i] = vectors[NEW, i]
    if is_shared:
        for i in range(n_clusters * dim):
            vectors[TO, n_focal + i] = 0.0
        for j in range(n_focal):
            share = 1.0 / (starts[j + 1] - starts[j])
            for at in range(starts[j], starts[j + 1]):
                for other in range(starts[j], starts[j + 1]):
                    for d in range(dim):
                        own = share * vectors[NEW, j] * share * means[members[other], d]
                        vectors[TO, n_focal + members[at] * dim + d] += own
        return
    first, at = n_focal + n_clusters, n_focal + n_clusters * (1 + dim)
    is_diagonal = vectors.shape[1] == at + n_clusters * dim
    for k in range(n_clusters):
        count = vectors[NEW, n_focal + k]
        for d in range(dim):
            vectors[TO, first + k * dim + d] = count * means[k, d]
            for e in range(d if is_diagonal else 0, d + 1):
                vectors[TO, at] = count * (covariances[k, d, e] + means[k, d] * means[k, e])
                at += 1


@numba.njit(**PART)
def _step(problem, stage, spare, numbers):
    """A step of EM, shorter where it would not gain; returns whether it could be made, and the gain.

    Where no step gains the parameters stay, and their statistics are made again.
    """
    params, last, vectors = stage[1], stage[2], stage[4]
    damping, gain = 1.0, -np.inf
    while damping > LEAST_DAMPING:
        for i in range(vectors.shape[1]):
            vectors[TO, i] = vectors[THERE, i] - (1 - damping) * vectors[LEFT, i] if damping < 1 else vectors[THERE, i]
        gain = _gain_of_step(problem, stage, spare, numbers)
        if gain >= -ROUNDING * abs(numbers[OLD_VALUES, 1]):
            return CONVERGED, gain
        _copy(last[4], params[4])
        damping *= 0.5
    is_made = _evaluate(problem, stage, spare, numbers)
    return (CONVERGED if is_made and gain > -np.inf else FAILED), -np.inf


@numba.njit(**PART)
def _gain_of_step(problem, stage, spare, numbers):
    """What the step to the statistics TO gains, the ridge's penalty at the rows each cluster had; -inf if none."""
    if not (_maximise(problem, stage, spare) and _evaluate(problem, stage, spare, numbers)):
        return -np.inf
    gain = numbers[VALUES, 1] - numbers[OLD_VALUES, 1]
    for k in range(stage[1][1].shape[0]):
        gain -= 0.5 * numbers[OLD_ROWS, k] * (numbers[TRACES, k] - numbers[OLD_TRACES, k])
    return gain


@numba.njit(**PART)
def _set_metric(vectors, params, n_counts, variances):
    """Fill the weights in which differences of statistics are measured: about their information."""
    means, covariances = params[1], params[2]
    n_focal, (n_clusters, dim), n_matrices = params[0].shape[0], means.shape, covariances.shape[0]
    at = n_counts + n_clusters * dim
    is_shared, is_diagonal = n_counts == n_focal, vectors.shape[1] == at + n_clusters * dim
    for j in range(n_counts):
        vectors[METRIC, j] = 1 / max(vectors[NEW, j], 1e-3)
    for d in range(dim):
        variances[d] = 0.0
        for m in range(n_matrices):
            variances[d] += covariances[m, d, d] / n_matrices
    for k in range(n_clusters):
        count = 1.0 if is_shared else vectors[NEW, n_focal + k]
        for d in range(dim):
            vectors[METRIC, n_counts + k * dim + d] = 1 / (count * variances[d])
            for e in range(d + 1 if is_shared else d if is_diagonal else 0, d + 1):
                # Of a symmetric matrix a product of two features is there once: it counts twice.
                vectors[METRIC, at] = (0.5 if d == e else 1.0) / (count * variances[d] * variances[e])
                at += 1


@numba.njit(**SUM)
def _product(metric, a, b):
    total = 0.0
    for i in range(metric.shape[0]):
        total += metric[i] * a[i] * b[i]
    return total


@numba.njit(**PART)
def _forget_oldest(changes, moves, gram):
    """Make room where Anderson's method has seen as much as it keeps; returns how much is left."""
    n_left = changes.shape[0] - 1
    for slot in range(n_left):
        for i in range(changes.shape[1]):
            changes[slot, i], moves[slot, i] = changes[slot + 1, i], moves[slot + 1, i]
        for other in range(n_left):
            gram[slot, other] = gram[slot + 1, other + 1]
    return n_left


@numba.njit(**PART)
def _set_products(vectors, changes, slot, n_kept, gram):
    """Fill the products of one change with all that are kept, a little more of that with itself."""
    for other in range(n_kept):
        gram[slot, other] = _product(vectors[METRIC], changes[slot], changes[other])
        gram[other, slot] = gram[slot, other]
    gram[slot, slot] *= 1 + 1e-10


@numba.njit(**PART)
def _leave_light(weights, stage, certainty, changes, moves):
    """Leave out sets of several clusters that have next to no rows and fewer with each step; returns whether any."""
    starts, vectors, n_focal, total, n_left = stage[0][5][1], stage[4], weights.shape[0], 0.0, 0
    for j in range(n_focal):
        total += vectors[NEW, j]
    for j in range(n_focal):
        count = vectors[NEW, j]
        is_light = 0.0 < count < LIGHT and starts[j + 1] - starts[j] > 1
        if is_light and count < FALLING * (1 + certainty) * total * weights[j]:
            vectors[NEW, j] = vectors[TO, j] = 0.0
            for slot in range(changes.shape[0]):
                changes[slot, j] = moves[slot, j] = 0.0
            n_left += 1
    return n_left > 0


@numba.njit(**PART)
def _extrapolate(vectors, changes, moves, n_kept, n_counts, spare):
    """Fill TO with where the steps lead to: THERE minus the moves that would undo what is LEFT; False if unknown."""
    size = vectors.shape[1]
    gram, root, right = spare[10], spare[11], spare[12]
    for a in range(n_kept):
        right[a] = _product(vectors[METRIC], changes[a], vectors[LEFT])
    if np.isnan(log_root(gram[:n_kept, :n_kept], root)):
        return False
    for a in range(n_kept):
        for b in range(a):
            right[a] -= root[a, b] * right[b]
        right[a] /= root[a, a]
    for back in range(1, n_kept + 1):
        a = n_kept - back
        for b in range(a + 1, n_kept):
            right[a] -= root[b, a] * right[b]
        right[a] /= root[a, a]
    for i in range(size):
        vectors[TO, i] = vectors[THERE, i]
    for a in range(n_kept):
        for i in range(size):
            vectors[TO, i] -= right[a] * moves[a, i]
    for j in range(n_counts):
        vectors[TO, j] = max(vectors[TO, j], LEAST_COUNT * vectors[THERE, j]) if vectors[THERE, j] > 0 else 0.0
    return True


@numba.njit(**PART)
def _is_below(covariances, k, other, share, left, root):
    """Whether along some direction a covariance is below this share of another."""
    dim = other.shape[0]
    for d in range(dim):
        for e in range(dim):
            left[d, e] = covariances[k, d, e] - share * other[d, e]
    return np.isnan(log_root(left, root))


@numba.njit(**PART)
def _is_lost(problem, params, first_covariances, numbers, spare, with_rows):
    """Whether a covariance has collapsed or, where asked, a cluster has too few rows: about as `degenerate` says it."""
    _, _, weight, scatter, ridge, _, limits = problem
    covariances, (n_clusters, dim) = params[2], params[1].shape
    root, left, whole, floor = spare[1], spare[2], spare[5], spare[13]
    for d in range(dim):
        for e in range(dim):
            variance = scatter[d, e] / weight
            least = max(ridge[d], 1e-12 * (variance if variance > 0 else 1.0))
            floor[d, e] = least if d == e else 0.0
            whole[d, e] = variance + floor[d, e]
    for k in range(covariances.shape[0]):
        if _is_below(covariances, k, first_covariances[k], limits[5], left, root):
            return True
        if _is_below(covariances, k, whole, limits[6], left, root) and _is_below(
            covariances, k, floor, limits[7], left, root
        ):
            return True
    if with_rows:
        for k in range(n_clusters):
            if numbers[ROWS, k] < dim + 1:
                return True
    return False


@numba.njit(**PART)
def _has_run_away(problem, stage, numbers):
    """Whether a cluster lies or spreads far beyond all rows while none is of it alone, as `degenerate` says it."""
    _, _, weight, scatter, _, _, limits = problem
    means, covariances, counts = stage[1][1], stage[1][2], stage[4][NEW]
    starts, members = stage[0][5][1], stage[0][5][2]
    if covariances.shape[0] < means.shape[0]:
        return False
    for k in range(means.shape[0]):
        own, ratio = 0.0, 0.0
        for j in range(starts.shape[0] - 1):
            if starts[j + 1] - starts[j] == 1 and members[starts[j]] == k:
                own += counts[j]
        for d in range(means.shape[1]):
            spread = covariances[k, d, d] + means[k, d] ** 2
            ratio = max(ratio, spread * weight / scatter[d, d] if scatter[d, d] > 0 else np.inf)
        if own < 1 and ratio * numbers[ROWS, k] > limits[8] ** 2 * weight:
            return True
    return False


# Where it begins -------------------------------------------------------------------------------------------------


@numba.njit(**PART)
def _automatic_ridge(problem, covariances):
    """As `start.automatic_ridge`, from the mean of covariances."""
    weight, scatter, ridge = problem[2], problem[3], problem[4]
    for d in range(ridge.shape[0]):
        within, whole = 0.0, scatter[d, d] / weight
        for k in range(covariances.shape[0]):
            within += covariances[k, d, d] / covariances.shape[0]
        ridge[d] = max(1e-9 * within, 1e-12 * whole) if whole > 0 else 1e-9


@numba.njit(**PART)
def _gather_groups(call, labels, n_moments, second, vector, counts, sums, means, average):
    """Fill counts, sums and means of hard groups, second moments about these and their average; False if one is empty.

    The moments go into the vector of statistics from `second` on: lower triangles, diagonals or, with one covariance,
    none.
    """
    X, sample_weight, centre = call[0], call[2], call[3]
    n_clusters, dim = means.shape
    vector[:] = 0.0
    counts[:] = 0.0
    sums[:] = 0.0
    average[:] = 0.0
    for i in range(X.shape[1]):
        k = labels[i]
        counts[k] += sample_weight[i]
        for d in range(dim):
            sums[k, d] += sample_weight[i] * (X[d, i] - centre[d])
    for k in range(n_clusters):
        if not counts[k] > 0:
            return False
        for d in range(dim):
            means[k, d] = sums[k, d] / counts[k]
    for i in range(X.shape[1]):
        k = labels[i]
        share = 1 / (n_clusters * max(counts[k] - 1.0, counts[k] / 2))
        at = second + k * n_moments
        for d in range(dim):
            offset = sample_weight[i] * (X[d, i] - centre[d] - means[k, d])
            for e in range(d + 1):
                product = offset * (X[e, i] - centre[e] - means[k, e])
                average[0, d, e] += share * product
                if n_moments > dim or (n_moments == dim and d == e):
                    vector[at] += product
                    at += 1
    for d in range(dim):
        for e in range(d):
            average[0, e, d] = average[0, d, e]
    return True


@numba.njit(**PART)
def _start(problem, stage, labels, is_automatic, spare):
    """Parameters of hard groups and the ridge, as `start.start_parameters`; False where a group has no covariance."""
    model, ridge = problem[1], problem[4]
    params, vector = stage[1], stage[4][TO]
    weights, means, covariances, axes = params[0], params[1], params[2], params[3]
    counts, sums, average = spare[7], spare[8], spare[14]
    n_clusters, dim = means.shape
    is_shared = stage[0][4][2].shape[0] == 0
    first = n_clusters if is_shared else 2 * n_clusters
    second = first + n_clusters * dim
    n_moments = (vector.shape[0] - second) // n_clusters
    if not _gather_groups(stage[0], labels, n_moments, second, vector, counts, sums, means, average):
        return False
    if is_automatic:
        _automatic_ridge(problem, average)
    at = second
    for k in range(n_clusters):
        vector[k] = counts[k]
        for d in range(dim):
            vector[first + k * dim + d] = sums[k, d]
        if is_shared:
            continue
        vector[n_clusters + k] = counts[k]
        trace = 0.0
        for d in range(dim):
            for e in range(d if n_moments == dim else 0, d + 1):
                if d == e:
                    vector[at] += counts[k] * ridge[d]
                    trace += vector[at]
                vector[at] += sums[k, d] * means[k, e]
                at += 1
        for d in range(dim):  # Volumes and shapes that iterations begin with.
            for e in range(dim):
                covariances[k, d, e] = trace / counts[k] if d == e else 0.0
    if not is_shared:
        _copy(average[0], spare[5])
        eigenvalues(spare[5], axes, spare[8], 0)
    if not _maximise(problem, stage, spare):
        return False
    if is_shared and model[2] > 0:  # EEE begins with the authors' covariance.
        for d in range(dim):
            for e in range(dim):
                covariances[0, d, e] = average[0, d, e] + (ridge[d] if d == e else 0.0)
    for k in range(n_clusters):
        weights[k] = 1.0 / n_clusters
    return True


@numba.njit(**PART)
def _bring_back(problem, stage, spare, numbers):
    """Give sets that are left out hardly any weight, and make a pass; returns whether it could be made."""
    weights, kept, total = stage[1][0], stage[2][0], 0.0
    _copy(weights, kept)
    for j in range(weights.shape[0]):
        weights[j] = max(weights[j], ASKED)
        total += weights[j]
    for j in range(weights.shape[0]):
        weights[j] /= total
    if _evaluate(problem, stage, spare, numbers):
        return True
    _copy(kept, weights)
    return _evaluate(problem, stage, spare, numbers)


@numba.njit(**PART)
def _revive(problem, stage, spare, numbers, tol, growing):
    """Give light focal sets that still grow more weight at once, as `loop` does; returns whether that pays.

    Where it does not, the parameters are as before, but not the statistics.
    """
    revived, growth, n_steps, most, worth = growing
    weights, kept, vectors, weight = stage[1][0], stage[2][0], stage[4], problem[2]
    n_focal, before, total, n_growing = weights.shape[0], numbers[VALUES, 1], 0.0, 0
    _copy(weights, kept)
    for j in range(n_focal):
        weights[j] = max(weights[j], ASKED)
    if not _evaluate(problem, stage, spare, numbers):
        _copy(kept, weights)
        return False
    set_weights(vectors[NEW], stage[0][5][1], problem[5], vectors[TO, :n_focal])
    for j in range(n_focal):
        asked, weights[j] = weights[j], kept[j]
        if vectors[TO, j] > (1 + growth) * asked:
            weights[j] = max(asked * min((vectors[TO, j] / asked) ** n_steps, most), revived / weight)
            n_growing += 1
        total += weights[j]
    for j in range(n_focal):
        weights[j] /= total
    if n_growing > 0 and _evaluate(problem, stage, spare, numbers) and numbers[VALUES, 1] - before > worth * tol:
        return True
    _copy(kept, weights)
    return False
