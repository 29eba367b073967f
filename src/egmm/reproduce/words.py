"""Remarks on single numbers: why they differ from the printed ones."""

from egmm.reproduce.algorithms import PAPER_MODE
from egmm.reproduce.scores import GROUPS
from egmm.reproduce.sheets import Sheet, mark_of

NOT_REACHED = "not reached from k-means, fuzzy c-means or random starts, nor on standardised or min-max data"

EXPLAINED = {
    "known": {
        "Ecoli": "thirty k-means starts have NMI 0.679 ± 0.015; the printed mean is at the upper end of their range",
        "Iris": "all ten k-means starts give this score",
        "Magic": f"{NOT_REACHED}; all ten k-means starts give this score",
        "Newthyroid": f"{NOT_REACHED}. Other covariances than the paper's do better than its best (our defaults)",
    },
    "unknown": {
        "Vehicle": "EBIC rises almost to the largest number tried; in a search from 2 to 6 our ten runs all choose 6",
    },
}
"""Why the paper's mode differs from the paper, by experiment and data set."""

CHOICE = (
    "from ten k-means starts EBIC is highest, on average, at another number of clusters than printed; why the "
    "paper's runs chose differently is not known"
)
"""Default remark if the number of clusters is chosen."""

PEERS_DIFFER = (
    "Peers outside the printed ±: the paper ran MATLAB and R implementations with settings it does not list "
    "(starts, stopping, and for BPEC prototypes chosen by hand); here they run as described above."
)

STARTS_CHOSEN = (
    "The starts were chosen after trying several over ten seeds. The paper says *c-means* for EGMM; here it is hard "
    "c-means. From fuzzy c-means, paper mode has purity 0.55 on Knowledge instead of 0.64, 0.98 on Wine instead of "
    "0.93, and nearly the same elsewhere. GMM and CGMM have MATLAB's start, as in the paper; from EGMM's k-means start "
    "they do better, and with known C EGMM in paper mode stays first with average ranks 2.50, 2.25 and 2.44 by "
    "purity, NMI and ARI, just ahead of bootGMM with 3.12, 2.62 and 2.62."
)
"""Results of other starts, measured in addition to the ten runs of the page."""


def explain(sheet: Sheet) -> None:
    """Add a note for data sets where the paper's mode is outside the printed spread, one per reason."""
    group = GROUPS[sheet.name][0] if sheet.name in GROUPS else "unknown"
    notes: dict[str, list[str]] = {}
    for number in sheet.numbers:
        if number.column == PAPER_MODE and number.verdict in {"better", "worse"}:
            reason = EXPLAINED[group].get(number.row, CHOICE if group == "unknown" else "no reason known")
            theirs = f"printed {number.printed:g} ± {number.printed_sd:g}"
            notes.setdefault(reason, []).append(f"{mark_of(number.verdict)} {number.row} {number.value:.3f} ({theirs})")
    sheet.notes += [f"Paper mode: {', '.join(where)}: {reason}." for reason, where in notes.items()]
