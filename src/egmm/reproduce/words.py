"""What is said about single numbers: why they are not the printed ones."""

from egmm.reproduce.algorithms import PAPER_MODE
from egmm.reproduce.scores import GROUPS
from egmm.reproduce.sheets import Sheet, mark_of

NOT_REACHED = (
    "not reached from k-means, fuzzy c-means or random starts, nor on standardised or min-max data. The published "
    "number cannot be had from the published description"
)

EXPLAINED = {
    "known": {
        "Ecoli": "thirty k-means starts have NMI 0.679 ± 0.015; the printed mean is at the upper end of what they give",
        "Iris": "all ten k-means starts end in the same, better partition",
        "Magic": f"{NOT_REACHED}; all ten starts end in one partition",
        "Newthyroid": f"{NOT_REACHED}; one covariance for three classes of very different spread lumps two of "
        "them, and other covariances do better than anything printed (our defaults)",
    },
    "unknown": {
        "Vehicle": "EBIC rises up to the largest number tried; the printed number is where a search to 6 would end",
    },
}
"""Why the paper's mode is not where the paper is, by what is known and by data set."""

CHOICE = (
    "EBIC has its highest value at another number of clusters than printed, from each of ten starts or most of them; "
    "the printed choice cannot be had from the published description"
)
"""Why, where the number of clusters is chosen and nothing more is known."""

PEERS_DIFFER = (
    "Peers beyond the printed ±: the paper ran MATLAB's and R's implementations with settings it does not list "
    "(starts, stopping, and for BPEC prototypes chosen by hand); ours are run as said above."
)


def explain(sheet: Sheet) -> None:
    """Add a note for the data sets where the paper's mode is beyond the printed spread, one for each reason."""
    group = "known" if GROUPS.get(sheet.name, ("unknown",))[0] == "known" else "unknown"
    notes: dict[str, list[str]] = {}
    for number in sheet.numbers:
        if number.column == PAPER_MODE and number.verdict in {"better", "worse"}:
            reason = EXPLAINED[group].get(number.row, CHOICE if group == "unknown" else "no reason known")
            theirs = f"printed {number.printed:g} ± {number.printed_sd:g}"
            notes.setdefault(reason, []).append(f"{mark_of(number.verdict)} {number.row} {number.value:.3f} ({theirs})")
    sheet.notes += [f"Paper mode: {', '.join(where)}: {reason}." for reason, where in notes.items()]
