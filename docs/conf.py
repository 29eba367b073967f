"""Sphinx builds the site from here: ``make docs``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import egmm

project = "egmm"
author = copyright = "The egmm developers"
release = version = egmm.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas without a network
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "field_figure",
    "guide_figures",
    "outliers_figure",
    "public_names",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"egmm {release}"
nitpicky = False
templates_path: list[str] = []
html_static_path = ["_static"]
html_css_files = ["egmm.css"]

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # a type is words, not names to link
napoleon_custom_sections = [("Attributes", "params_style")]  # a list like the parameters, not an entry each

sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 60,
    "within_subsection_order": "FileNameSortKey",
    "matplotlib_animations": False,
    "copyfile_regex": r"",
}
suppress_warnings = ["config.cache"]
html_theme_options = {"source_view_link": "", "navigation_with_keys": True}
