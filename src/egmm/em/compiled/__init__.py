"""What Numba compiles: the pass over a block of rows, steps of EM, and whole fits of few rows. Loaded when used."""
