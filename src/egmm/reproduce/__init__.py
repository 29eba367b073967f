"""The paper's experiments, and the code that regenerates its tables and figures."""

from egmm.reproduce.paper import Facts, Printed, datasets, printed
from egmm.reproduce.plan import Plan
from egmm.reproduce.run import ITEMS, Reproduction, reproduce
from egmm.reproduce.sheets import Number, Sheet, Text

__all__ = [
    "ITEMS",
    "Facts",
    "Number",
    "Plan",
    "Printed",
    "Reproduction",
    "Sheet",
    "Text",
    "datasets",
    "printed",
    "reproduce",
]
