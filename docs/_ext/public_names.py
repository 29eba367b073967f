"""The API reference: a page per sub-package, and a failed build where an exported name has no entry."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

import egmm

logger = logging.getLogger(__name__)


PACKAGES = [info.name for info in pkgutil.iter_modules(egmm.__path__, "egmm.") if info.ispkg]


def write_pages(app: Sphinx) -> None:
    """Write a page per package; what egmm itself exports is described on its page alone."""
    folder = Path(app.srcdir) / "api" / "packages"
    folder.mkdir(exist_ok=True)
    for name in ["egmm", *PACKAGES]:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", [])
        own = [item for item in public if name == "egmm" or item not in egmm.__all__]
        lines = [f"# {name}", "", module.__doc__ or "", "", "```{eval-rst}", f".. currentmodule:: {name}", ""]
        lines += [line for item in own for line in _entry(f"{name}.{item}", getattr(module, item))]
        page, text = folder / f"{name.removeprefix('egmm.')}.md", "\n".join([*lines, "```", ""])
        if own and (not page.exists() or page.read_text() != text):
            page.write_text(text)


def _entry(name: str, thing: Any) -> list[str]:
    """The directive that describes a name."""
    if inspect.isclass(thing):
        return [f".. autoclass:: {name}", "   :members:", "   :inherited-members:", ""]
    return [f".. {'autofunction' if callable(thing) else 'autodata'}:: {name}", ""]


def exported() -> Iterator[tuple[str, Any]]:
    """Every name in the ``__all__`` of the package and its sub-packages, with what it stands for."""
    for name in ["egmm", *PACKAGES]:
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
    is_foreign = (callable(thing) or inspect.isdatadescriptor(thing)) and not module.startswith(("egmm", "collections"))
    return True if is_foreign and not isinstance(thing, property) else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Write pages before they are read, and check them when all are."""
    app.connect("builder-inited", write_pages)
    app.connect("env-check-consistency", check)
    app.connect("autodoc-skip-member", skip_foreign)
    return {"parallel_read_safe": True}
