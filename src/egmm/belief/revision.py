"""Revision of masses: discounting, conditioning, normalising, refining and coarsening the frame."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from egmm._checks import FloatArray, IntArray, check_integer, check_unmasked
from egmm.belief.focal import MAX_CLUSTERS, FocalSets, mask_of
from egmm.belief.masses import Masses, check_mass, embed, joint_family, transport
from egmm.belief.rules import combine_masses, combine_trusted


def discount(mass: FloatArray, focal: FocalSets, rate: Any) -> Masses:
    r"""Weaken a source with the given error rate, moving mass to the frame.

    .. math:: m'_i(A) = (1 - \alpha_i)\, m_i(A) \;(A \ne \Omega), \qquad
              m'_i(\Omega) = (1 - \alpha_i)\, m_i(\Omega) + \alpha_i

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    rate : float or array-like of shape (n_samples,)
        :math:`\alpha` from 0 (trusted) to 1 (ignored), one for all rows or one per row.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_out)
    focal : FocalSets
        `focal` with the frame.

    Examples
    --------
    >>> discount([[0.5, 0.1, 0.4]], FocalSets.full(2), 0.5)[0]
    array([[0.25, 0.05, 0.7 ]])
    """
    mass = check_mass(mass, focal)
    alpha = _check_rate(rate, len(mass))
    family = joint_family(focal, FocalSets([focal.frame_mask], focal.n_clusters))
    out = embed(mass, focal, family) * (1 - alpha)
    out[:, -1] += alpha[:, 0]
    return out, family


def _check_rate(rate: Any, n_rows: int) -> FloatArray:
    """Rates as a column."""
    check_unmasked("rate", rate, "give a rate for every row")
    rates = np.asarray(rate)
    if rates.dtype.kind not in "fiu":
        raise TypeError(f"rate must be a number or one number per row, got {rate!r}.")
    if rates.shape not in ((), (n_rows,)):
        raise ValueError(f"rate must be one number or {n_rows}, one per row, got shape {rates.shape}.")
    wrong = ~((rates >= 0) & (rates <= 1))
    if wrong.any():
        raise ValueError(f"rate must be in [0, 1], got {np.atleast_1d(rates)[np.atleast_1d(wrong)][0]:g}.")
    return np.broadcast_to(rates.astype(np.float64).reshape(-1, 1), (n_rows, 1))


def condition(mass: FloatArray, focal: FocalSets, members: Iterable[int], *, on_conflict: str = "raise") -> Masses:
    r"""Condition on the cluster being in a set :math:`B`: Dempster's rule with all mass on it.

    .. math:: m_i(A \mid B) = \frac{\sum_{D \cap B = A} m_i(D)}{\mathrm{Pl}_i(B)}, \qquad A \ne \emptyset

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    members : iterable of int
        Clusters of :math:`B`, counted from zero.
    on_conflict : {'raise', 'vacuous', 'empty'}, default='raise'
        What to do with rows that exclude :math:`B`: raise an error, put all mass on the frame or on the empty set.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_out)
    focal : FocalSets
        The non-empty intersections with :math:`B`, over the same frame.

    Examples
    --------
    >>> condition([[0.2, 0.2, 0, 0.5, 0, 0, 0.1]], FocalSets.full(3), {0, 1})
    (array([[0.4, 0.4, 0.2]]), FocalSets({1}, {2}, {1,2}, n_clusters=3))
    """
    mass = check_mass(mass, focal)
    known = FocalSets.from_sets([members], focal.n_clusters)
    if known.has_empty:
        raise ValueError("members must hold at least one cluster; conditioning on the empty set is not defined.")
    certain = np.ones((len(mass), 1))
    return combine_trusted([(mass, focal), (certain, known)], "dempster", on_conflict)


def normalise(mass: FloatArray, focal: FocalSets, *, on_conflict: str = "raise") -> Masses:
    r"""Remove the empty set, :math:`m_i(A) / (1 - m_i(\emptyset))`.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    on_conflict : {'raise', 'vacuous', 'empty'}, default='raise'
        What to do with rows that have all their mass on the empty set: raise an error, put all mass on the frame or on
        the empty set.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_out)
    focal : FocalSets
        The sets of `focal` that are not empty.

    Examples
    --------
    >>> normalise([[0.5, 0.25, 0.25]], FocalSets.singletons(2, empty=True))
    (array([[0.5, 0.5]]), FocalSets({1}, {2}, n_clusters=2))
    """
    return combine_masses((mass, focal), rule="dempster", on_conflict=on_conflict)


def refine(mass: FloatArray, focal: FocalSets, groups: Sequence[Iterable[int]]) -> Masses:
    r"""Split clusters: write masses over a finer frame without adding information.

    .. math:: m'_i\Bigl(\bigcup_{\omega_k \in A} \rho(\omega_k)\Bigr) = m_i(A)

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    groups : sequence of iterables of int
        :math:`\rho`: the clusters of the finer frame, counted from zero, that each cluster stands for. Together they
        hold each finer cluster once.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_focal)
    focal : FocalSets
        The images of the sets.

    Examples
    --------
    Frames {CSF, tissue} and {pathology, other} meet on {pathology, CSF, normal}:

    >>> refine([[0.7, 0.2, 0.1]], FocalSets.full(2), [{1}, {0, 2}])
    (array([[0.7, 0.2, 0.1]]), FocalSets({2}, {1,3}, {1,2,3}, n_clusters=3))
    >>> refine([[0.4, 0.6]], FocalSets.singletons(2), [{0}, {1, 2}])
    (array([[0.4, 0.6]]), FocalSets({1}, {2,3}, n_clusters=3))
    """
    mass = check_mass(mass, focal)
    images, n_fine = _check_groups(groups)
    if len(images) != focal.n_clusters:
        raise ValueError(f"groups must have one entry per cluster, {focal.n_clusters}, got {len(images)}.")
    members = focal.membership.astype(np.int64)
    # The groups are disjoint, so the sum of their bit masks is the mask of their union.
    return transport(mass, members @ images, n_fine)


def coarsen(mass: FloatArray, focal: FocalSets, groups: Sequence[Iterable[int]]) -> Masses:
    r"""Merge clusters: give the mass of each set to the coarse clusters it touches (outer reduction).

    .. math:: m'_i(A) = \sum_{B :\, \{\omega_k :\, \rho(\omega_k) \cap B \ne \emptyset\} = A} m_i(B)

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        :math:`m_i(A_j)`, one mass function per row.
    focal : FocalSets
        The sets :math:`A_j`, in the column order of `mass`.
    groups : sequence of iterables of int
        :math:`\rho`: the clusters, counted from zero, that become one. Together they hold each cluster once.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_out)
    focal : FocalSets
        Sets of groups, in the order of `groups`.

    Examples
    --------
    >>> coarsen([[0.2, 0.3, 0.5]], FocalSets.from_sets([{0}, {1}, {0, 2}], 3), [{0, 1}, {2}])
    (array([[0.5, 0.5]]), FocalSets({1}, {1,2}, n_clusters=2))
    """
    mass = check_mass(mass, focal)
    images, n_fine = _check_groups(groups)
    if n_fine != focal.n_clusters:
        raise ValueError(f"groups must hold {focal.n_clusters} clusters in all, got {n_fine}.")
    touched = (focal.masks[:, None] & images) != 0
    return transport(mass, touched @ (1 << np.arange(len(images), dtype=np.int64)), len(images))


def _check_groups(groups: Any) -> tuple[IntArray, int]:
    """Bit masks of the groups and the size of the finer frame; the groups must partition it."""
    sets = list(groups) if isinstance(groups, Iterable) else [groups]
    if not all(isinstance(group, Iterable) for group in sets):
        raise TypeError(f"groups must be a list of sets of clusters, such as [{{0}}, {{1, 2}}], got {groups!r}.")
    listed = [list(group) for group in sets]
    if not listed or not all(listed):
        raise ValueError("groups must be non-empty sets of clusters, one for each cluster of the coarser frame.")
    clusters = [cluster for group in listed for cluster in group]
    n_fine = check_integer("the number of clusters in groups", len(clusters), 1, MAX_CLUSTERS)
    if any(cluster not in clusters for cluster in range(n_fine)):
        raise ValueError(
            f"groups must hold each cluster from 0 to {n_fine - 1} once (clusters are counted from zero), got {listed}."
        )
    return np.array([mask_of(group, n_fine) for group in listed], dtype=np.int64), n_fine
