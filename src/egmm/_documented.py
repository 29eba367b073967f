"""Estimators whose HTML diagram links to their page in the documentation."""

import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata


class Documented:
    """Gives scikit-learn's HTML diagrams of our estimators a link; the address is that of the project's metadata."""

    _doc_link_module = "egmm"

    @property
    def _doc_link_template(self) -> str:
        return f"{documentation()}{{page}}"

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        name = type(self).__name__
        if name in sys.modules["egmm"].__all__:  # not imported: the package imports this module
            return {"page": f"api/packages/egmm.html#egmm.{name}"}
        package = ".".join(type(self).__module__.split(".")[:2])
        return {"page": f"api/packages/{package.removeprefix('egmm.')}.html#{package}.{name}"}


@cache
def documentation() -> str:
    """Address of the documentation, ending in a slash; empty where the package is not installed."""
    try:
        entries = metadata("egmm").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    known = dict(entry.split(", ", 1) for entry in entries)
    return known.get("Documentation", "")
