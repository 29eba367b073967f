"""Data sets: the paper's examples, simulated clusters, and loaders for the eight real sets."""

from egmm.datasets.generators import (
    draw_links,
    make_bananas,
    make_blobs_with_overlap,
    make_diamond,
    make_four_class,
    make_two_class,
)
from egmm.datasets.uci import UCI_NAMES, Dataset, load_uci

__all__ = [
    "UCI_NAMES",
    "Dataset",
    "draw_links",
    "load_uci",
    "make_bananas",
    "make_blobs_with_overlap",
    "make_diamond",
    "make_four_class",
    "make_two_class",
]
