"""Combination of credal partitions."""

from egmm.belief.partition import CredalPartition
from egmm.belief.rules import combine_trusted


def combine(*partitions: CredalPartition, rule: str = "dempster", on_conflict: str = "raise") -> CredalPartition:
    r"""Combine credal partitions of the same rows over the same frame.

    With :math:`m_\cap(A) = \sum_{B_1 \cap \ldots \cap B_S = A} \prod_s m_s(B_s)` and :math:`m_\cup` likewise,
    the combined mass of a set :math:`A \ne \emptyset` is

    ============== ===================================================================================================
    conjunctive    :math:`m_\cap(A)`, and :math:`m_\cap(\emptyset)`, the degree of conflict
    dempster       :math:`m_\cap(A) / (1 - m_\cap(\emptyset))`
    disjunctive    :math:`m_\cup(A)`
    yager          :math:`m_\cap(A)`, the conflict going to the frame
    dubois-prade   :math:`m_\cap(A)`, each conflicting product going to the union of its sets
    pcr6           :math:`m_\cap(A)`, each conflicting product :math:`\prod_s m_s(B_s)` going back to its sets,
                   :math:`m_s(B_s) / \sum_t m_t(B_t)` of it to :math:`B_s`
    cautious       the conjunctive combination of the simple masses with weights :math:`w(A) = \min_s w_s(A)`, for
                   sources that are not independent
    mean           :math:`\frac{1}{S} \sum_s m_s(A)`
    ============== ===================================================================================================

    Parameters
    ----------
    *partitions : CredalPartition
        One or more sources with the same rows and the same frame; their families may differ.
    rule : {'dempster', 'conjunctive', 'disjunctive', 'yager', 'dubois-prade', 'pcr6', 'cautious', 'mean'}
        The rule. All sources are combined at once, so non-associative rules do not depend on their order.
    on_conflict : {'raise', 'vacuous', 'empty'}, default='raise'
        What Dempster's rule does with rows in total conflict: raise an error, put all mass on the frame, or put all
        mass on the empty set.

    Returns
    -------
    partition : CredalPartition
        Its family holds exactly the sets that the rule can produce from the given families.

    Examples
    --------
    >>> from egmm import FocalSets
    >>> focal = FocalSets.full(2)
    >>> doctor = CredalPartition([[0.6, 0.0, 0.4]], focal)
    >>> nurse = CredalPartition([[0.0, 0.5, 0.5]], focal)
    >>> combine(doctor, nurse).mass.round(3)
    array([[0.429, 0.286, 0.286]])
    >>> combine(doctor, nurse, rule="yager").mass
    array([[0.3, 0.2, 0.5]])
    """
    for partition in partitions:
        if not isinstance(partition, CredalPartition):
            raise TypeError(f"combine expects CredalPartition objects, got {type(partition).__name__}.")
    sources = [(partition.mass, partition.focal_sets) for partition in partitions]
    return CredalPartition._trusted(*combine_trusted(sources, rule, on_conflict))
