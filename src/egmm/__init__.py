"""Evidential clustering: Gaussian mixtures over sets of clusters, credal partitions, belief functions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from egmm.belief import CredalPartition, FocalSets

if TYPE_CHECKING:
    from egmm.cluster import BPEC, ECM, FCM, BootGMM
    from egmm.mixture import EGMM
    from egmm.rows import scan
    from egmm.selection import Selection, select_model

__all__ = [
    "BPEC",
    "ECM",
    "EGMM",
    "FCM",
    "BootGMM",
    "CredalPartition",
    "FocalSets",
    "Selection",
    "scan",
    "select_model",
]
__version__ = "0.1.0"

_HOMES = {
    "BPEC": "egmm.cluster",
    "BootGMM": "egmm.cluster",
    "ECM": "egmm.cluster",
    "EGMM": "egmm.mixture",
    "FCM": "egmm.cluster",
    "Selection": "egmm.selection",
    "scan": "egmm.rows",
    "select_model": "egmm.selection",
}

if not TYPE_CHECKING:  # a type checker reads the imports above, and then notices misspelt names

    def __getattr__(name: str) -> Any:
        """Import what rests on scikit-learn when first asked for: that imports pandas and pyarrow where installed."""
        if name not in _HOMES:
            raise AttributeError(f"module 'egmm' has no attribute {name!r}")
        globals()[name] = getattr(import_module(_HOMES[name]), name)
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
