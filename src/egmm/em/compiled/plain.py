"""Plain EM with one covariance for all clusters, compiled: many steps on one block of rows without leaving the kernel.

The algebra is that of `mstep` and `parameters`, on matrices so small that calling a library takes longer than the work.
"""

from typing import Any

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from egmm.em.compiled.block import cached

LOG_2PI = np.log(2 * np.pi)

SPHERICAL, DIAGONAL, FREE = 0, 1, 2
"""Kinds of covariance: EII, EEI and EEE."""

# Rounded as it is written: what is compiled on its own and what is compiled as part of the whole agree to the last bit,
# so that a process that reads it from the cache has the result of the one that compiled it.
STRICT: dict[str, Any] = {"error_model": "numpy", "nogil": True}
PART: dict[str, Any] = STRICT | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@intrinsic
def call_by_address(typingctx: Any, address: Any, arguments: Any) -> Any:  # noqa: ARG001
    """Call a compiled function that returns a double by its address.

    By its name it would become part of the caller and be optimised again: seconds of compiling, and other last bits.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        convention, taken = context.call_conv, signature.args[1].types
        pointer = builder.inttoptr(args[0], convention.get_function_type(types.float64, taken).as_pointer())
        values = cgutils.unpack_tuple(builder, args[1])
        status, result = convention.call_function(builder, pointer, types.float64, taken, values)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    return types.float64(address, arguments), codegen


@intrinsic
def uncounted(typingctx: Any, arguments: Any) -> Any:  # noqa: ARG001
    """The same arrays, in tuples of tuples, whose references nobody counts: they are the caller's all the while.

    Else every part of a tuple that is named is counted, hundreds of times in a pass.
    """

    def strip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo, array.parent = (cgutils.get_null_value(part.type) for part in (array.meminfo, array.parent))
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            parts = zip(kind.types, cgutils.unpack_tuple(builder, value), strict=True)
            return context.make_tuple(builder, kind, [strip(context, builder, *part) for part in parts])
        return value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return strip(context, builder, signature.args[0], args[0])

    return arguments(arguments), codegen


def address_of(function: Any, arguments: tuple[Any, ...]) -> int:
    """Where the code of a compiled function is, for these types of arguments: at an address nothing checks them."""
    found = function.overloads[tuple(numba.typeof(argument) for argument in arguments)]
    return int(found.library.get_pointer_to_function(found.fndesc.llvm_func_name))


@cached(**STRICT)
def plain_steps(kernel, call, moments, model, limits, scratch, params, buffer, state, history, tol):
    """Steps of EM until the log-likelihood gains less than `tol`; returns how many were made.

    Ends before a step that is out of the ordinary: clusters without rows, a covariance that is not definite, scores
    that the kernel must take another way.

    kernel, call
        Address of `block.block_pass`, and its arguments: density and weights of the sets are filled here, its counts
        and sums are parts of `buffer` and hold those of a pass at the start.
    moments : (weight, scatter)
        Of all rows about the centre.
    model : (kind, ridge)
    limits : (least, round_off, inverse, slope, log_weight)
        What separates the ordinary, as in `mstep`, `parameters` and `estep_numba`.
    scratch : (joint, scales, root, factor)
        (C + D, C + D), (D,), (D, D) and (D, D).
    params : (weights, means, covariance)
        (M,), (C, D) and (D, D), parts of `buffer`.
    buffer, state : (size,)
        Parameters, then the counts, sums and log-likelihood of a pass there. `state` is the last step's that was made.
    history : (n + 1,)
        The log-likelihood of the start, and room for those of n steps.
    """
    _, _, _, _, density, sets, sums_out, _ = call
    linear, offsets, _, whitened = density
    log_weights, starts, members, _, _, _ = sets
    counts, sums, _ = sums_out
    weight, scatter = moments
    kind, ridge = model
    least, round_off, largest_inverse, largest_slope, largest_log_weight = limits
    joint, scales, root, factor = scratch
    weights, means, covariance = params
    for step in range(1, history.shape[0]):
        if not fill_means(counts, sums, scatter, starts, members, least, round_off, joint, means):
            return step - 1
        fill_covariance(joint, weight, kind, ridge, covariance)
        if not fill_precision_factor(covariance, largest_inverse, scales, root, factor):
            return step - 1
        if not fill_scores(means, factor, scales, linear, offsets, whitened) <= largest_slope:
            return step - 1
        if not _log_weights(counts, whitened, starts, members, weights, log_weights) <= largest_log_weight:
            return step - 1
        for at in range(weights.size + means.size + covariance.size, buffer.size):
            buffer[at] = 0.0
        relative = call_by_address(kernel, call)
        value = relative + log_reference(factor, scatter, weight)
        if not np.isfinite(value):
            return step - 1
        buffer[buffer.size - 1] = relative
        for at in range(buffer.size):
            state[at] = buffer[at]
        history[step] = value
        if value - history[step - 1] < tol:
            return step
    return history.shape[0] - 1


@numba.njit(**PART)
def _eliminate(matrix, n_pivots, smallest):
    """Cholesky steps on an upper triangle; False where a pivot is not above `smallest` of its diagonal.

    The first rows become those of the upper triangular factor, the others what is left of them.
    """
    size = matrix.shape[0]
    for d in range(size):
        least = smallest * matrix[d, d]
        for f in range(min(d, n_pivots)):
            for e in range(d, size):
                matrix[d, e] -= matrix[f, d] * matrix[f, e]
        if d < n_pivots:
            if not matrix[d, d] > least:
                return False
            root = np.sqrt(matrix[d, d])
            for e in range(d, size):
                matrix[d, e] /= root
    return True


@numba.njit(**PART)
def fill_means(counts, sums, scatter, starts, members, least, round_off, joint, means):
    """Solve H mu = B [eq_EMV]; False where the overlap matrix H [eq_H] is singular.

    Eliminating H from [H B; B' S], which is `joint`, leaves the residual scatter [eq_ECM] in the place of S.
    """
    n_clusters, dim = means.shape
    for d in range(dim):
        for k in range(n_clusters):
            joint[k, n_clusters + d] = sums[k, d]
        for e in range(dim):
            joint[n_clusters + d, n_clusters + e] = scatter[d, e]
    trace = 0.0
    for k in range(n_clusters):
        for m in range(n_clusters):
            joint[k, m] = 0.0
    for j in range(counts.shape[1]):
        share = 1.0 / (starts[j + 1] - starts[j])
        trace += share * counts[0, j]
        for at in range(starts[j], starts[j + 1]):
            for other in range(starts[j], starts[j + 1]):
                joint[members[at], members[other]] += share * counts[0, j] * share
    for k in range(n_clusters):
        if not joint[k, k] > least * trace:
            return False
    if not _eliminate(joint, n_clusters, round_off):
        return False
    for back in range(1, n_clusters + 1):
        k = n_clusters - back
        for d in range(dim):
            total = joint[k, n_clusters + d]
            for m in range(k + 1, n_clusters):
                total -= joint[k, m] * means[m, d]
            means[k, d] = total / joint[k, k]
    return True


@numba.njit(**PART)
def fill_covariance(joint, weight, kind, ridge, covariance):
    """Fill in the residual scatter per unit weight, constrained to the model, with the ridge on its diagonal."""
    dim = covariance.shape[0]
    first = joint.shape[0] - dim
    trace = 0.0
    for d in range(dim):
        trace += joint[first + d, first + d]
    for d in range(dim):
        for e in range(d, dim):
            covariance[d, e] = joint[first + d, first + e] / weight if kind == FREE else 0.0
            covariance[e, d] = covariance[d, e]
        own = trace / dim if kind == SPHERICAL else joint[first + d, first + d]
        covariance[d, d] = own / weight + ridge[d]


@numba.njit(**PART)
def fill_precision_factor(covariance, largest_inverse, scales, root, factor):
    """Fill `factor` with the upper triangular U of an inverse covariance U U'; False where there is none."""
    dim = covariance.shape[0]
    for d in range(dim):
        scales[d] = np.sqrt(covariance[d, d])
    # At unit diagonal: features may differ by many orders of magnitude. Where a variance is none, neither is the pivot.
    for d in range(dim):
        for e in range(dim):
            root[d, e] = covariance[d, e] / (scales[d] * scales[e])
            factor[d, e] = 0.0
    if not _eliminate(root, dim, 0.0):
        return False
    for d in range(dim):
        square = 0.0
        factor[d, d] = 1.0
        for f in range(d, dim):
            factor[d, f] /= root[f, f]
            square += factor[d, f] * factor[d, f]
            for e in range(f + 1, dim):
                factor[d, e] -= factor[d, f] * root[f, e]
        if not square <= largest_inverse:
            return False
        for e in range(d, dim):
            factor[d, e] /= scales[d]
    return True


@numba.njit(**PART)
def fill_scores(means, factor, scales, linear, offsets, whitened):
    """Fill the clusters' scores, linear in a row; returns the steepest over one standard deviation of the features."""
    n_clusters, dim = means.shape
    steepest = 0.0
    for k in range(n_clusters):
        square, slope = 0.0, 0.0
        for e in range(dim):
            total = 0.0
            for d in range(e + 1):
                total += means[k, d] * factor[d, e]
            whitened[k, e] = total
            square += total * total
        offsets[k] = -0.5 * square
        for d in range(dim):
            total = 0.0
            for e in range(d, dim):
                total += factor[d, e] * whitened[k, e]
            linear[k, d] = total
            slope += abs(total) * scales[d]
        steepest = max(steepest, slope)
    return steepest


@numba.njit(**PART)
def _log_weights(counts, whitened, starts, members, weights, log_weights):
    """Fill pi_j, and log pi_j + V_j / 2 with V_j the mean of |mu_k - nu_j|^2 over a set; returns the largest."""
    total = 0.0
    for j in range(weights.shape[0]):
        total += counts[0, j]
    largest = -np.inf
    for j in range(weights.shape[0]):
        size = starts[j + 1] - starts[j]
        spread = 0.0
        for d in range(whitened.shape[1]):
            middle = 0.0
            for at in range(starts[j], starts[j + 1]):
                middle += whitened[members[at], d] / size
            for at in range(starts[j], starts[j + 1]):
                spread += (whitened[members[at], d] - middle) ** 2
        weights[j] = counts[0, j] / total
        log_weights[j] = np.log(weights[j]) + 0.5 * spread / size
        largest = max(largest, log_weights[j])
    return largest


@numba.njit(**PART)
def log_reference(factor, scatter, weight):
    """Log-likelihood of all rows under N(centre, Sigma), which the kernel's is relative to."""
    dim = factor.shape[0]
    log_norm, quadratic = -0.5 * dim * LOG_2PI, 0.0
    for e in range(dim):
        log_norm += np.log(factor[e, e])
        for d in range(e + 1):
            total = 0.0
            for f in range(e + 1):
                total += scatter[d, f] * factor[f, e]
            quadratic += total * factor[d, e]
    return weight * log_norm - 0.5 * quadratic
