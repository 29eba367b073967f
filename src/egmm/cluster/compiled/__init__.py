"""What Numba compiles for clusterers that visit one row after another. Loaded when used."""

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Any:
    """Compile for this machine, kept in a cache where a directory for it can be written."""
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # No directory can be written: compile in every process.
        return numba.njit(nogil=True)(function)
