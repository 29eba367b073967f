"""Numba kernels of the pass over a block of rows, imported on demand."""
