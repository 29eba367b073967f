"""Compiled code kept between processes: in a directory of the user's own, checked before any of it is run.

Numba loads what it finds: a damaged file ends the process, and a file of somebody else's runs as code. So the directory
must belong to the user alone, and every file in it must have the check sum that it was sealed with. Where there is no
such directory, or no room in it, each process compiles for itself.
"""

import atexit
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba

CONFIG: Any = numba.config

SEAL = "sums.json"
"""File of a cache directory with the check sums of all others."""

PROBE_BYTES = 2**20
"""Written to see whether there is room."""

LEAST_FREE = 2**26
"""Bytes free below which nothing is kept: all kernels take some ten megabytes."""


def cached_in(folder: Path) -> Callable[..., Callable[..., Any]]:
    """Return a decorator like ``numba.njit`` that keeps what it compiles of the modules in `folder`.

    What is compiled holds code of several files, of which Numba watches one: each state of them has a directory.
    NUMBA_CACHE_DIR names another place than the user's cache directory.
    """

    def cached(**options: Any) -> Callable[..., Any]:
        def decorate(function: Callable[..., Any]) -> Any:
            place = cache_directory(folder)
            if place is None or CONFIG.DISABLE_JIT:
                return numba.njit(**options)(function)
            before = CONFIG.CACHE_DIR
            CONFIG.CACHE_DIR = str(place)
            try:
                compiled: Any = numba.njit(cache=True, **options)(function)
            except RuntimeError:  # Numba finds no place for this function.
                return numba.njit(**options)(function)
            finally:
                CONFIG.CACHE_DIR = before
            kept = compiled._cache
            kept.load_overload, kept.save_overload = _tried(kept.load_overload), _tried(kept.save_overload)
            return compiled

        return decorate

    return cached


def _tried(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call that does nothing where a disk has filled or failed since the import."""

    def tried(*args: Any) -> Any:
        with suppress(OSError):
            return call(*args)

    return tried


@cache
def cache_directory(folder: Path) -> Path | None:
    """Return the directory for the modules of a folder as they are now, fit to be used; None where there is none."""
    root = user_cache()
    if root is None:
        return None
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    place = root / "egmm" / blake2b(text, digest_size=6).hexdigest()
    if not (_is_own(place.parent) and _is_own(place) and _has_room(place)):
        return None
    unseal(place)
    atexit.register(seal, place)
    return place


def user_cache() -> Path | None:
    """Return where this user's programs keep what can be made again; None where that cannot be told.

    As the specification of XDG_CACHE_HOME says, a path that is empty or relative counts for nothing: it would mean
    whatever directory the process happens to be in.
    """
    for name in ("NUMBA_CACHE_DIR", *(["LOCALAPPDATA"] if sys.platform == "win32" else ["XDG_CACHE_HOME"])):
        given = os.environ.get(name, "")
        if given and Path(given).is_absolute():
            return Path(given)
    try:
        home = Path.home()
    except RuntimeError:  # a user that the system does not know, and no HOME
        return None
    places = {"win32": home / "AppData" / "Local", "darwin": home / "Library" / "Caches"}
    return places.get(sys.platform, home / ".cache") if home.is_absolute() else None


def _is_own(place: Path) -> bool:
    """Make a directory that nobody else may enter, or see whether the one that is there is such."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not hasattr(os, "getuid"):
            return True
        found = place.stat(follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return False
        if stat.S_IMODE(found.st_mode) & 0o077:
            place.chmod(0o700)
    except OSError:
        return False
    return True


def _has_room(place: Path) -> bool:
    """Whether files can be written there."""
    probe = place / f"probe-{uuid4().hex}"
    try:
        probe.write_bytes(bytes(PROBE_BYTES))
        return shutil.disk_usage(place).free >= LEAST_FREE
    except OSError:
        return False
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def seal(place: Path) -> None:
    """Note the check sums of all files, so that the next process knows them to be whole."""
    with suppress(OSError):
        sums = {name: _sum(place / name) for name in _files(place)}
        temporary = place / f"{SEAL}.{uuid4().hex}"
        temporary.write_text(json.dumps(sums), encoding="utf-8")
        temporary.replace(place / SEAL)


def unseal(place: Path) -> None:
    """Remove files that are not what they were sealed as, such as remains of killed processes: they are made again."""
    try:
        sums = json.loads((place / SEAL).read_text(encoding="utf-8"))
        known = dict(sums)
    except (OSError, ValueError, TypeError, RecursionError):
        known = {}
    for name in _files(place):
        with suppress(OSError):
            if known.get(name) != _sum(place / name):
                (place / name).unlink()


def _files(place: Path) -> list[str]:
    return [path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file() and path.name != SEAL]


def _sum(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()
