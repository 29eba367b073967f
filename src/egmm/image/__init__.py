"""Images and volumes: evidential segmentation, fusion of modalities, spatial evidence, a brain phantom."""

from egmm.image.brainweb import fetch_brainweb, load_brainweb
from egmm.image.fusion import fuse, refine
from egmm.image.io import Image, read_image
from egmm.image.phantom import BrainPhantom, make_brain_phantom
from egmm.image.segment import segment
from egmm.image.segmented import SegmentedImage, spatial_evidence
from egmm.image.spatial import Neighbourhood, pool_images

__all__ = [
    "BrainPhantom",
    "Image",
    "Neighbourhood",
    "SegmentedImage",
    "fetch_brainweb",
    "fuse",
    "load_brainweb",
    "make_brain_phantom",
    "pool_images",
    "read_image",
    "refine",
    "segment",
    "spatial_evidence",
]
