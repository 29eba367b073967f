"""The API reference: a page per class and per sub-package; a public name without an entry fails the build."""

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

FIRST = ["EGMM", "AutoEGMM", "CredalPartition", "FocalSets", "select_model", "Selection", "explain", "scan"]
"""What most readers come for; the other names of a package follow in its own order."""


def write_pages(app: Sphinx) -> None:
    """Write a page per package and per class; what egmm itself exports is described on its page alone."""
    folder = Path(app.srcdir) / "api" / "packages"
    folder.mkdir(exist_ok=True)
    for name in ["egmm", *PACKAGES]:
        module = importlib.import_module(name)
        public = [item for item in getattr(module, "__all__", []) if name == "egmm" or item not in egmm.__all__]
        things = {item: getattr(module, item) for item in sorted(public, key=_place)}
        if things:
            _write(folder / f"{name.removeprefix('egmm.')}.md", _package_page(name, module.__doc__ or "", things))
        for item, thing in things.items():
            if inspect.isclass(thing):
                _write(folder / f"{name}.{item}.md", _class_page(name, item))


def _place(item: str) -> int:
    return FIRST.index(item) if item in FIRST else len(FIRST)


def _write(page: Path, text: str) -> None:
    """Write a page that is new or has changed, so that unchanged ones are not read again."""
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


def _package_page(name: str, doc: str, things: dict[str, Any]) -> str:
    """Classes as a list with a page each, then functions and data in full."""
    classes = {item: thing for item, thing in things.items() if inspect.isclass(thing)}
    lines = [f"# {name}", "", doc, ""]
    if classes:
        lines += ["```{toctree}", ":hidden:", "", *(f"{name}.{item}" for item in classes), "```", ""]
    lines += ["```{eval-rst}", f".. currentmodule:: {name}", ".. role:: html(raw)", "   :format: html", ""]
    for item, thing in classes.items():
        # Links to the entry of a class on this page keep working.
        anchor = f':html:`<span id="{name}.{item}"></span>`'
        lines += [f"{anchor} :doc:`{item} <{name}.{item}>`", f"   {_summary(thing)}", ""]
    for item, thing in things.items():
        if item not in classes:
            lines += [f".. {'autofunction' if callable(thing) else 'autodata'}:: {name}.{item}", ""]
    return "\n".join([*lines, "```", ""])


def _class_page(name: str, item: str) -> str:
    directive = [f".. autoclass:: {name}.{item}", "   :members:", "   :inherited-members:"]
    return "\n".join([f"# {item}", "", "```{eval-rst}", f".. currentmodule:: {name}", "", *directive, "```", ""])


def _summary(thing: Any) -> str:
    """First line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


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
