"""Compiled code kept between runs, in the user's cache directory."""

import os
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from numba.core import config


def cached(**options: Any) -> Callable[..., Any]:
    """Compile with the result kept in the user's cache directory, unless NUMBA_CACHE_DIR names another.

    What is compiled holds code of several files, of which Numba watches one: each state of them has a directory.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        before = config.CACHE_DIR
        config.CACHE_DIR = str((Path(before) if before else _user_cache() / "egmm") / _sources())
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # No directory can be written: compile in every process.
            return numba.njit(**options)(function)
        finally:
            config.CACHE_DIR = before

    return decorate


@cache
def _sources() -> str:
    """Short name of the state of all files of this package."""
    text = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return sha256(text).hexdigest()[:12]


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
