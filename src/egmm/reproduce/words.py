"""What is said about single numbers: why they are not the printed ones."""

from egmm.reproduce.algorithms import PAPER_MODE
from egmm.reproduce.sheets import BETTER, WORSE, Sheet

EXPLAINED = {
    "Magic": "the printed scores are not reached from k-means, fuzzy c-means or random starts, nor on standardised or "
    "min-max data; all ten starts end in the same partition. The published number cannot be had from the published "
    "description.",
    "Newthyroid": "the printed scores are not reached from k-means, fuzzy c-means or random starts, nor on "
    "standardised or "
    "min-max data: one covariance for three classes of very different spread lumps two of them. Other "
    "covariances do better "
    "than the paper's best (see our defaults).",
}
"""Why the paper's mode is not where the paper is, by data set."""

PEERS_DIFFER = (
    "Peers beyond the printed ±: the paper ran MATLAB's and R's implementations with settings it does not list "
    "(starts, "
    "stopping, and for BPEC prototypes chosen by hand); ours are run as said above."
)


def explain(sheet: Sheet) -> None:
    """Add a note for each number of the paper's mode that is beyond the printed spread."""
    beyond = [number for number in sheet.numbers if number.verdict in {"better", "worse"}]
    for number in beyond:
        if number.column == PAPER_MODE:
            mark = BETTER if number.verdict == "better" else WORSE
            reason = EXPLAINED.get(number.row, "")
            theirs = f"{number.printed:g} ± {number.printed_sd:g}"
            said = f"{mark} {number.row}, paper mode: {number.value:.3f}, printed {theirs}"
            sheet.notes.append(f"{said}: {reason}" if reason else f"{said}.")
