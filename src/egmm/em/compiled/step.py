r"""One step of EM on few rows, compiled: parameters from a vector of statistics, and what the rows say of them.

The vector holds counts :math:`n_j` of the focal sets (M), and of the clusters counts :math:`c_k` (C), sums (C D) and
second moments, their lower triangles (C D (D + 1) / 2) or diagonals (C D); with one covariance for all clusters, counts
of the sets and sums alone. Where meta-clusters have own covariances it does not lead to the maximum of Q but towards
it: what a focal set expects of a cluster beyond the cluster's own moments is taken from what the rows say of it
(`_gather_own`). The difference vanishes where moments match, which is the M-step's condition, and with singletons only
there is none.

Arrays are handed over, not made here, and filled by loops: NumPy's ways to do so take longer to compile than the rest.

params : (weights, means, covariances, axes, all of them as one vector)
    (M,), (C, D), (1, D, D) or (C, D, D), and (D, D), the axes that EVE and VVE have in common.
problem : (addresses, model, weight, scatter, ridge, certainty, limits)
    Addresses of compiled functions, the model's letters, weight and scatter of all rows, ridge (D,), prior on single
    clusters, and what separates the ordinary.
call : arguments of `compiled.block.block_pass`
    Density and weights of the sets are filled here; rows are by columns.
focal : (means, covariances, precisions)
    Of the focal sets (M, D) and (M, D, D), and of the clusters (C, D, D); diagonals are (M, 1, D) and (C, 1, D).
in_logs : the same arguments without the plan of roots
    Where clusters are so far apart that products of roots could overflow.
spare : (scales, root, factor, log_roots, pulls, mean_precision, joint, counts, sums, scatters, ...)
    (D,), (D, D), (D, D), (C,), (D,), (D, D), (C + D, C + D), (C,), (C, D) and (C, D, D).
"""

import numba
import numpy as np

from egmm.em.compiled.block import cached
from egmm.em.compiled.plain import (
    LOG_2PI,
    PART,
    STRICT,
    call_by_address,
    fill_covariance,
    fill_means,
    fill_precision_factor,
    fill_scores,
    log_reference,
)
from egmm.em.compiled.shapes import fit_covariances


@cached(**STRICT)
def maximise(problem, call, params, spare, vector):
    """Fill parameters from a vector of statistics; returns 1, or 0 where that is out of the ordinary."""
    _, model, weight, scatter, ridge, certainty, limits = problem
    sets, set_counts = call[5], call[6][0]
    weights, means, covariances, axes = params[0], params[1], params[2], params[3]
    joint, counts, sums, scatters = spare[6], spare[7], spare[8], spare[9]
    n_focal, (n_clusters, dim) = weights.shape[0], means.shape
    set_weights(vector, sets[1], certainty, weights)
    if call[4][2].shape[0] == 0:
        for j in range(n_focal):
            set_counts[0, j] = vector[j]
        for k in range(n_clusters):
            for d in range(dim):
                sums[k, d] = vector[n_focal + k * dim + d]
        if not fill_means(set_counts, sums, scatter, sets[1], sets[2], limits[0], limits[1], joint, means):
            return 0.0
        fill_covariance(joint, weight, model[1] + (model[2] > 0), ridge, covariances[0])
        return 1.0
    is_diagonal = call[4][2].shape[1] < dim
    first, at = n_focal + n_clusters, n_focal + n_clusters * (1 + dim)
    for k in range(n_clusters):
        counts[k] = vector[n_focal + k]
        if not counts[k] > 0:
            return 0.0
        for d in range(dim):
            means[k, d] = vector[first + k * dim + d] / counts[k]
        for d in range(dim):
            for e in range(d if is_diagonal else 0, d + 1):
                scatters[k, d, e] = vector[at] - counts[k] * means[k, d] * means[k, e]
                scatters[k, e, d] = scatters[k, d, e]
                at += 1
            if not scatters[k, d, d] > 0:
                return 0.0
    fit_covariances(model, counts, scatters, axes, covariances)
    return 1.0


@numba.njit(**PART)
def set_weights(counts, starts, certainty, weights):
    """Weights from counts, as `prior.set_weights`."""
    total, single = 0.0, 0.0
    for j in range(weights.shape[0]):
        total += counts[j]
        if starts[j + 1] - starts[j] == 1:
            single += counts[j]
    for j in range(weights.shape[0]):
        weights[j] = counts[j] / total
        if certainty > 0 and single > 0:
            is_single = starts[j + 1] - starts[j] == 1
            weights[j] *= (1 + certainty * total / single if is_single else 1.0) / (1 + certainty)


@cached(**STRICT)
def evaluate(problem, call, in_logs, params, focal, spare, rows, traces, values, vector):
    """Make a pass; returns 1, or 0 where that is out of the ordinary.

    Fills `values` with the log-likelihood and with what EM raises, `vector` with the statistics, `rows` (C,) with the
    clusters' and `traces` (C,) with tr(P_k R) of the ridge, zero with one covariance: there its penalty is part of what
    EM raises.
    """
    addresses, _, weight, scatter, ridge, certainty, limits = problem
    density, sets, sums_out = call[4], call[5], call[6]
    weights, (counts, sums, scatters) = params[0], sums_out
    is_shared = density[2].shape[0] == 0
    if is_shared:
        if not _score_shared(params, sets, density, spare, limits):
            return 0.0
    elif not _score_own(params, sets, density, focal, spare, limits[2]):
        return 0.0
    single, largest = 0.0, -np.inf
    for j in range(weights.shape[0]):
        largest = max(largest, sets[0][j])
        if sets[1][j + 1] - sets[1][j] == 1:
            single += weights[j]
    counts[:] = 0.0
    sums[:] = 0.0
    scatters[:] = 0.0
    value = call_by_address(addresses[0], call if largest <= limits[4] else in_logs)
    raised = certainty * weight * np.log(single) if single > 0 else 0.0
    if is_shared:
        factor = spare[2]
        value += log_reference(factor, scatter, weight)
        for d in range(ridge.shape[0]):
            for e in range(d, ridge.shape[0]):
                raised -= 0.5 * weight * ridge[d] * factor[d, e] ** 2
        _gather_shared(sets, sums_out, rows, vector)
        traces[:] = 0.0
    else:
        _gather_own(params, sets, focal, sums_out, ridge, rows, vector)
        for k in range(params[1].shape[0]):
            traces[k] = 0.0
            for d in range(ridge.shape[0]):
                traces[k] += ridge[d] * focal[2][k, d if scatters.shape[1] > 1 else 0, d]
    values[0], values[1] = value, value + raised
    return 1.0 if np.isfinite(values[1]) else 0.0


# One covariance --------------------------------------------------------------------------------------------------


@numba.njit(**PART)
def _score_shared(params, sets, density, spare, limits):
    """Fill what a pass reads of clusters with one covariance; False where its short form would lose digits."""
    weights, means, covariances = params[0], params[1], params[2]
    log_weights, starts, members = sets[0], sets[1], sets[2]
    linear, offsets, _, whitened = density
    scales, root, factor = spare[0], spare[1], spare[2]
    if not fill_precision_factor(covariances[0], limits[2], scales, root, factor):
        return False
    if not fill_scores(means, factor, scales, linear, offsets, whitened) <= limits[3]:
        return False
    for j in range(weights.shape[0]):
        log_weights[j] = np.log(weights[j]) if weights[j] > 0 else -np.inf
        size = starts[j + 1] - starts[j]
        for d in range(whitened.shape[1]):
            middle = 0.0
            for at in range(starts[j], starts[j + 1]):
                middle += whitened[members[at], d] / size
            for at in range(starts[j], starts[j + 1]):
                log_weights[j] += 0.5 * (whitened[members[at], d] - middle) ** 2 / size
    return True


@numba.njit(**PART)
def _gather_shared(sets, sums_out, rows, vector):
    counts, sums, _ = sums_out
    starts, members = sets[1], sets[2]
    n_focal, (n_clusters, dim) = counts.shape[1], sums.shape
    for k in range(n_clusters):
        rows[k] = 0.0
        for d in range(dim):
            vector[n_focal + k * dim + d] = sums[k, d]
    for j in range(n_focal):
        vector[j] = counts[0, j]
        for at in range(starts[j], starts[j + 1]):
            rows[members[at]] += counts[0, j] / (starts[j + 1] - starts[j])


# Own covariances -------------------------------------------------------------------------------------------------


@numba.njit(**PART)
def _score_own(params, sets, density, focal, spare, largest_inverse):
    """Fill what a pass reads of clusters with own covariances; False where one has no inverse."""
    weights, means, covariances = params[0], params[1], params[2]
    log_weights, starts = sets[0], sets[1]
    _, log_norms, factors, whitened = density
    precisions = focal[2]
    scales, root, factor, log_roots = spare[0], spare[1], spare[2], spare[3]
    n_clusters, dim = means.shape
    is_diagonal = factors.shape[1] < dim
    for k in range(n_clusters):
        log_roots[k] = 0.0
        if is_diagonal:
            for d in range(dim):
                if not (covariances[k, d, d] > 0 and covariances[k, d, d] < np.inf):
                    return False
                factors[k, 0, d] = 1 / np.sqrt(covariances[k, d, d])
                precisions[k, 0, d] = 1 / covariances[k, d, d]
                whitened[k, d] = means[k, d] * factors[k, 0, d]
                log_roots[k] += np.log(factors[k, 0, d])
        else:
            if not fill_precision_factor(covariances[k], largest_inverse, scales, root, factor):
                return False
            for e in range(dim):
                total = 0.0
                for d in range(e + 1):
                    factors[k, e, d] = factor[d, e]
                    total += means[k, d] * factor[d, e]
                whitened[k, e] = total
                log_roots[k] += np.log(factor[e, e])
            _fill_product(factor, precisions, k)
        log_norms[k] = log_roots[k] - 0.5 * dim * LOG_2PI
    for j in range(weights.shape[0]):
        log_weights[j] = np.log(weights[j]) if weights[j] > 0 else -np.inf
        if weights[j] > 0 and starts[j + 1] - starts[j] > 1:
            kappa = _set_density(j, sets, means, factors, focal, spare, largest_inverse)
            if np.isnan(kappa):
                return False
            log_weights[j] += kappa
    return True


@numba.njit(**PART)
def _fill_product(factor, out, k):
    """Fill out[k] with U U', U upper triangular."""
    dim = factor.shape[0]
    for d in range(dim):
        for e in range(d + 1):
            total = 0.0
            for f in range(d, dim):
                total += factor[d, f] * factor[e, f]
            out[k, d, e] = total
            out[k, e, d] = total


@numba.njit(**PART)
def _set_density(j, sets, means, factors, focal, spare, largest_inverse):
    """Fill mean and covariance of a meta-cluster; returns kappa_j, NaN where there is none."""
    starts, members = sets[1], sets[2]
    set_means, set_covariances, precisions = focal
    scales, root, factor, log_roots, pulls, mean_precision = spare[:6]
    dim = means.shape[1]
    share = 1.0 / (starts[j + 1] - starts[j])
    kappa = 0.0
    for at in range(starts[j], starts[j + 1]):
        kappa -= share * log_roots[members[at]]
    if factors.shape[1] < dim:
        for d in range(dim):
            precision, pull = 0.0, 0.0
            for at in range(starts[j], starts[j + 1]):
                k = members[at]
                precision += share * precisions[k, 0, d]
                pull += share * precisions[k, 0, d] * means[k, d]
            set_covariances[j, 0, d] = 1 / precision
            set_means[j, d] = pull / precision
            kappa += 0.5 * np.log(precision)
            for at in range(starts[j], starts[j + 1]):
                k = members[at]
                kappa += 0.5 * share * precisions[k, 0, d] * (set_means[j, d] - means[k, d]) ** 2
        return kappa
    for d in range(dim):
        pulls[d] = 0.0
        for e in range(dim):
            mean_precision[d, e] = 0.0
    for at in range(starts[j], starts[j + 1]):
        k = members[at]
        for d in range(dim):
            for e in range(dim):
                mean_precision[d, e] += share * precisions[k, d, e]
                pulls[d] += share * precisions[k, d, e] * means[k, e]
    if not fill_precision_factor(mean_precision, largest_inverse, scales, root, factor):
        return np.nan
    _fill_product(factor, set_covariances, j)
    for d in range(dim):
        kappa -= np.log(factor[d, d])
        total = 0.0
        for e in range(dim):
            total += set_covariances[j, d, e] * pulls[e]
        set_means[j, d] = total
    for at in range(starts[j], starts[j + 1]):
        k = members[at]
        for e in range(dim):
            total = 0.0
            for d in range(e + 1):
                total += factors[k, e, d] * (set_means[j, d] - means[k, d])
            kappa += 0.5 * share * total * total
    return kappa


@numba.njit(**PART)
def _gather_own(params, sets, focal, sums_out, ridge, rows, vector):
    """Fill the vector of statistics: what the rows say of each cluster, in the place of its own expected moments.

    Of set j cluster k expects nu_j and Sigma_j + nu_j nu_j', of itself mu_k and Sigma_k + mu_k mu_k'. A set's rows
    count for the cluster as far as the set is as wide as the cluster, so that the step is about as long as Newton's.
    """
    means, covariances = params[1], params[2]
    starts, members = sets[1], sets[2]
    set_means, set_covariances, precisions = focal
    counts, sums, scatters = sums_out
    n_focal, (n_clusters, dim) = counts.shape[1], means.shape
    own, first, second = n_focal, n_focal + n_clusters, n_focal + n_clusters * (1 + dim)
    is_diagonal = scatters.shape[1] < dim
    n_moments = dim if is_diagonal else dim * (dim + 1) // 2
    for k in range(n_clusters):
        rows[k] = 0.0
        vector[own + k] = 0.0
        place = second + k * n_moments
        for d in range(dim):
            vector[first + k * dim + d] = sums[k, d]
            for e in range(d if is_diagonal else 0, d + 1):
                vector[place] = scatters[k, 0, d] if is_diagonal else scatters[k, d, e]
                place += 1
    for j in range(n_focal):
        vector[j] = counts[0, j]
        size = starts[j + 1] - starts[j]
        weight = counts[0, j] / size
        for at in range(starts[j], starts[j + 1]):
            k = members[at]
            rows[k] += weight
            if size == 1 or weight == 0.0:
                vector[own + k] += weight
                continue
            width = 0.0
            for d in range(dim):
                if is_diagonal:
                    width += set_covariances[j, 0, d] * precisions[k, 0, d] / dim
                else:
                    for e in range(dim):
                        width += set_covariances[j, d, e] * precisions[k, d, e] / dim
            vector[own + k] += weight * width
            place = second + k * n_moments
            for d in range(dim):
                vector[first + k * dim + d] += weight * (width * means[k, d] - set_means[j, d])
                for e in range(d if is_diagonal else 0, d + 1):
                    mine = covariances[k, d, e] + means[k, d] * means[k, e]
                    expected = set_covariances[j, 0, d] if is_diagonal else set_covariances[j, d, e]
                    expected += set_means[j, d] * set_means[j, e]
                    vector[place] += weight * (width * mine - expected)
                    place += 1
    for k in range(n_clusters):
        place = second + k * n_moments
        for d in range(dim):
            place += 0 if is_diagonal else d
            vector[place] += rows[k] * ridge[d]
            place += 1
