"""Numba kernels of clusterers that visit rows in sequence, imported on demand."""

from pathlib import Path

from egmm._cache import cached_in

compiled = cached_in(Path(__file__).parent)(nogil=True)
"""Compile for this machine, cached in the user's cache directory."""
