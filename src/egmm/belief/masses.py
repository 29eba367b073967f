"""Mass functions as rows of a matrix: validation, and the same masses over another family of sets."""

from typing import Any, TypeAlias

import numpy as np

from egmm._checks import FloatArray, IntArray, check_finite_matrix, check_unmasked
from egmm.belief.focal import FocalSets

Masses: TypeAlias = tuple[FloatArray, FocalSets]
"""Mass functions, one per row, and the sets of their columns."""

SUM_TOLERANCE = 1e-8
"""How far from 1 the masses of a row may sum."""


def check_focal(focal: object) -> FocalSets:
    """Return `focal` if it is a FocalSets, else raise."""
    if not isinstance(focal, FocalSets):
        raise TypeError(f"focal_sets must be a FocalSets, got {type(focal).__name__}; FocalSets.of(...) builds one.")
    return focal


def check_mass(mass: Any, focal: FocalSets) -> FloatArray:
    r"""Validate masses over `focal`, one mass function per row.

    .. math:: m_i(A_j) \ge 0, \qquad \Bigl| \sum_j m_i(A_j) - 1 \Bigr| \le 10^{-8}

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        Masses in the column order of `focal`.
    focal : FocalSets
        The sets :math:`A_j`.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_focal)
        The masses in double precision, without a copy where possible.

    Examples
    --------
    >>> check_mass([[0.5, 0.1, 0.3]], FocalSets.full(2))
    Traceback (most recent call last):
    ValueError: mass rows must sum to 1 within 1e-8; row 0 sums to 0.9.
    """
    check_unmasked("mass", mass, "a mass function has a value for every set")
    array, n_focal = np.asarray(mass), len(check_focal(focal))
    if array.dtype != np.float64 or array.shape[1:] != (n_focal,):
        array = check_finite_matrix("mass", array, (None, n_focal))
    check_non_negative(array)
    totals = array @ np.ones(n_focal)
    is_off = np.abs(totals - 1) > SUM_TOLERANCE
    if is_off.any():
        check_finite_matrix("mass", array, (None, n_focal))
        row = int(np.argmax(is_off))
        raise ValueError(f"mass rows must sum to 1 within 1e-8; row {row} sums to {totals[row]:.10g}.")
    return array


def check_source(source: Any) -> Masses:
    """Validate a pair of masses and their sets."""
    if not isinstance(source, (tuple, list)) or len(source) != 2:
        raise TypeError(f"a source must be a pair (mass, focal_sets), got {type(source).__name__}.")
    mass, focal = source
    return check_mass(mass, focal), focal


def check_non_negative(mass: FloatArray) -> None:
    """Raise on the first entry that is negative or NaN."""
    # NaN fails the comparison, so one pass suffices for valid masses.
    if mass.size and not mass.min() >= 0:
        mass = check_finite_matrix("mass", mass, (None, None))
        where = tuple(int(i) for i in np.argwhere(mass < 0)[0])
        raise ValueError(f"mass must be non-negative, but entry {where} is {mass[where]:.6g}.")


def embed(mass: FloatArray, focal: FocalSets, into: FocalSets) -> FloatArray:
    r"""Embed mass functions in another family: sets that are not in `focal` get mass zero.

    Parameters
    ----------
    mass : array-like of shape (n_samples, n_focal)
        Masses in the column order of `focal`.
    focal, into : FocalSets
        The old and the new family, over the same frame. `into` must hold every set that carries mass.

    Returns
    -------
    mass : ndarray of shape (n_samples, len(into))

    Examples
    --------
    >>> embed(np.array([[0.4, 0.6]]), FocalSets.singletons(2), FocalSets.full(2))
    array([[0.4, 0.6, 0. ]])
    """
    mass = check_finite_matrix("mass", mass, (None, len(check_focal(focal))))
    columns = check_focal(into).columns_of(focal.on_frame_of(into).masks)
    for column in np.flatnonzero(columns < 0):
        if np.any(mass[:, column] > 0):
            row = int(np.argmax(mass[:, column] > 0))
            raise ValueError(
                f"{focal.labels[column]} carries mass in row {row} but is not among the focal sets of the new family."
            )
    kept = columns >= 0
    out = np.zeros((mass.shape[0], len(into)))
    out[:, columns[kept]] = mass[:, kept]
    return out


def joint_family(*families: FocalSets) -> FocalSets:
    """Union of the given families.

    >>> joint_family(FocalSets.singletons(2), FocalSets.from_sets([{0, 1}], 2)).labels
    ('{1}', '{2}', '{1,2}')
    """
    first = families[0]
    masks = [family.on_frame_of(first).masks for family in families]
    return FocalSets(np.concatenate(masks), first.n_clusters)


def transport(mass: FloatArray, masks: IntArray, n_clusters: int) -> Masses:
    """Move the mass of each column to a set, summing columns with the same set.

    Parameters
    ----------
    mass : ndarray of shape (n_samples, n_columns)
        Masses.
    masks : ndarray of int64 of shape (n_columns,)
        Bit mask of the target set of each column.
    n_clusters : int
        Size of the frame of these sets.

    Returns
    -------
    mass : ndarray of shape (n_samples, n_focal)
    focal : FocalSets
        The distinct sets.

    Examples
    --------
    >>> transport(np.array([[0.5, 0.2, 0.3]]), np.array([2, 1, 2]), 2)
    (array([[0.2, 0.8]]), FocalSets({1}, {2}, n_clusters=2))
    """
    focal = FocalSets(masks, n_clusters)
    out = np.zeros((mass.shape[0], len(focal)))
    for column, target in enumerate(focal.columns_of(np.asarray(masks))):
        out[:, target] += mass[:, column]
    return out, focal
