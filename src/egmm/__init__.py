"""Evidential clustering: Gaussian mixtures over sets of clusters, credal partitions, belief functions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egmm.auto import AutoEGMM
    from egmm.belief import CredalPartition, FocalSets
    from egmm.cluster import BPEC, ECM, FCM, BootGMM
    from egmm.explanation import explain
    from egmm.mixture import EGMM
    from egmm.rows import scan
    from egmm.selection import Selection, select_model
    from egmm.stability import Stability

__all__ = [
    "BPEC",
    "ECM",
    "EGMM",
    "FCM",
    "AutoEGMM",
    "BootGMM",
    "CredalPartition",
    "FocalSets",
    "Selection",
    "Stability",
    "explain",
    "scan",
    "select_model",
]
__version__ = "0.1.0"

_HOMES = {
    "AutoEGMM": "egmm.auto",
    "BPEC": "egmm.cluster",
    "BootGMM": "egmm.cluster",
    "CredalPartition": "egmm.belief",
    "ECM": "egmm.cluster",
    "EGMM": "egmm.mixture",
    "FCM": "egmm.cluster",
    "FocalSets": "egmm.belief",
    "Selection": "egmm.selection",
    "Stability": "egmm.stability",
    "explain": "egmm.explanation",
    "scan": "egmm.rows",
    "select_model": "egmm.selection",
}

if not TYPE_CHECKING:  # type checkers use the imports above and detect misspelt names

    def __getattr__(name: str) -> Any:
        """Import on first access: imports are slow, and the command must respond to Ctrl-C meanwhile."""
        if name == "belief":
            return import_module("egmm.belief")
        if name not in _HOMES:
            raise AttributeError(f"module 'egmm' has no attribute {name!r}")
        globals()[name] = getattr(import_module(_HOMES[name]), name)
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
