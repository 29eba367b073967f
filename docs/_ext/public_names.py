"""Fail the build when a name that some module exports has no entry in the API reference."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

import egmm

logger = logging.getLogger(__name__)


def exported() -> Iterator[tuple[str, Any]]:
    """Every name in the ``__all__`` of the package and its sub-packages, with what it stands for."""
    packages = [info.name for info in pkgutil.iter_modules(egmm.__path__, "egmm.") if info.ispkg]
    for name in ["egmm", *packages]:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", []):
            yield f"{name}.{public}", getattr(module, public)


def resolve(name: str) -> Any:
    """What a documented name stands for; None where it is no importable object."""
    parts = name.split(".")
    for at in range(len(parts) - 1, 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:at]))
            for part in parts[at:]:
                thing = getattr(thing, part)
        except (ImportError, AttributeError):
            continue
        return thing
    return None


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Compare what is exported with what the pages describe."""
    documented = list(env.domains.python_domain.objects)
    things = [resolve(name) for name in documented]
    for name, thing in exported():
        if name not in documented and not any(thing is other for other in things if other is not None):
            logger.warning("public name %s has no entry in the API reference (docs/api)", name)


def skip_foreign(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out methods that another package adds to our classes."""
    module = getattr(thing, "__module__", None) or ""
    return True if callable(thing) and not module.startswith("egmm") else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Run the check when all pages are read."""
    app.connect("env-check-consistency", check)
    app.connect("autodoc-skip-member", skip_foreign)
    return {"parallel_read_safe": True}
