"""What Numba compiles for clusterers that visit one row after another. Loaded when used."""

from pathlib import Path

from egmm._cache import cached_in

compiled = cached_in(Path(__file__).parent)(nogil=True)
"""Compile for this machine, kept in the user's cache directory."""
