"""Estimators whose HTML diagram links to their page in the documentation."""

import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata


class Documented:
    """Gives scikit-learn's HTML diagrams of our estimators a link; the address is that of the project's metadata."""

    _doc_link_module = "egmm"

    def _get_doc_link(self) -> str:
        base = documentation()
        if not base or type(self).__module__.partition(".")[0] != self._doc_link_module:
            return ""
        name = type(self).__name__
        # The package is not imported here: it imports this module.
        package = "egmm" if name in sys.modules["egmm"].__all__ else ".".join(type(self).__module__.split(".")[:2])
        return f"{base}api/packages/{package.removeprefix('egmm.')}.html#{package}.{name}"


@cache
def documentation() -> str:
    """Address of the documentation, ending in a slash; empty where the package is not installed."""
    try:
        entries = metadata("egmm").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    known = dict(entry.split(", ", 1) for entry in entries)
    return known.get("Documentation", "")
