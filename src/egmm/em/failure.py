"""Error messages of fits that cannot start or continue."""

import numpy as np

from egmm._checks import FloatArray
from egmm.em import soundness
from egmm.em.ascent import Ascent
from egmm.em.covariance import COMMON_UNITS
from egmm.em.factors import dense
from egmm.em.mstep import EMPTY, unsound_clusters
from egmm.em.parameters import take


def why_not(ascent: Ascent, at: int, covariance: str, group_counts: FloatArray | None = None) -> str:
    """Reason why a fit cannot start or continue; `group_counts` (C,) are the rows it started from."""
    one = np.array([at])
    problem, evaluation = ascent.problem.take(one), take(ascent.state.evaluation, one)
    history = ascent.log_likelihoods(at)
    n_iter = 0 if not np.isfinite(evaluation.objective[0]) else len(history)
    params, layout = evaluation.params, problem.layout
    if n_iter:
        diverged = soundness.have_diverged(params, evaluation.statistics.set_counts, problem.settings, layout)[0]
        if diverged.any():
            return _diverged([str(k + 1) for k in np.flatnonzero(diverged)], n_iter)
        params, _ = problem.maximise(evaluation.vector, params)
    if (ratio := layout.scale.max() / layout.scale.min()) > COMMON_UNITS.get(covariance, np.inf):
        return (
            f"the deviations of features differ by a factor of {ratio:.1g}, too much for the {covariance} covariance, "
            "which compares them; standardize X, or use a model that does not, such as 'EEI' or 'VVI'."
        )
    if layout.is_shared:
        smallest, what = params.variances.min(), "variance"
        if smallest > 0 and not layout.diagonal:
            smallest, what = np.linalg.eigvalsh(dense(params.covariances)[0, 0])[0], "eigenvalue"
        return (
            f"covariance is not positive definite at iteration {n_iter} (smallest {what} {smallest:.3g}); "
            "raise reg_covar."
        )
    counts = evaluation.statistics.cluster_counts[0]
    if not n_iter and group_counts is not None:
        counts = group_counts
    if n_iter and not counts.min() > EMPTY * counts.sum():
        return (
            f"at iteration {n_iter} cluster {int(counts.argmin()) + 1} has no rows left for its {covariance} "
            "covariance; use fewer clusters, another start or prior='default'."
        )
    found = unsound_clusters(params.covariances[0], layout.diagonal) or list(range(len(counts)))
    named = (
        [f"{k + 1} ({counts[k]:.4g} rows)" for k in found] if np.isfinite(counts).all() else [str(k + 1) for k in found]
    )
    return (
        f"at iteration {n_iter} the {covariance} covariance of cluster{'s' * (len(named) > 1)} {', '.join(named)} is "
        "not positive definite; use prior='default', a larger reg_covar, a simpler covariance model or fewer clusters."
    )


def _diverged(clusters: list[str], n_iter: int) -> str:
    which = f"cluster {clusters[0]} has" if len(clusters) == 1 else f"clusters {', '.join(clusters)} have"
    return (
        f"{which} diverged at iteration {n_iter}, far beyond all rows: no row belongs to it alone, so its mean is "
        "not constrained; use fewer clusters, another start or one covariance for all, such as 'EEE'."
    )
