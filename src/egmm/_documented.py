"""Links to the documentation in HTML representations."""

import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata


class Documented:
    """Adds a documentation link to scikit-learn's HTML diagrams, from the project's metadata."""

    _doc_link_module = "egmm"

    def _get_doc_link(self) -> str:
        base = documentation()
        if not base or type(self).__module__.partition(".")[0] != self._doc_link_module:
            return ""
        name = type(self).__name__
        # Not imported at the top: the package imports this module.
        package = "egmm" if name in sys.modules["egmm"].__all__ else ".".join(type(self).__module__.split(".")[:2])
        return f"{base}api/packages/{package.removeprefix('egmm.')}.html#{package}.{name}"


def documentation_link(name: str) -> str:
    """HTML link to the documentation of a name exported by `egmm`; empty if the package is not installed."""
    base = documentation()
    return f"<p><a href='{base}api/packages/egmm.html#egmm.{name}'>documentation of {name}</a></p>" if base else ""


@cache
def documentation() -> str:
    """URL of the documentation, ending in a slash; empty if the package is not installed."""
    try:
        entries = metadata("egmm").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    known = dict(entry.split(", ", 1) for entry in entries)
    return known.get("Documentation", "")
