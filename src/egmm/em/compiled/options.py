"""Compilation options of the kernel."""

from typing import Any

KERNEL: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}, "error_model": "numpy", "nogil": True}
"""Sums may be reassociated so that they vectorise; inf and nan keep their meaning. Python's check for division by zero
would keep loops from being vectorised."""

PART: dict[str, Any] = KERNEL | {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Functions that the kernel calls become part of it. Outside they would be compiled once more on their own, and round
otherwise: a process that has compiled the kernel would use that one, a process that read it from the cache the other.
Nobody calls them from Python or C, and a sixth of the compiling is spared without such doors."""

EXACT: dict[str, Any] = PART | {"fastmath": {"contract"}}
"""Arithmetic whose order matters."""

PEAK, TOTAL, NORM, WORK = 0, 1, 2, 3
"""Rows of a tile's scratch: the largest score, the sum of masses, what makes them sum to the row's weight, anything."""
