"""Cache of compiled code in a private directory of the user, verified before use.

Numba loads any file it finds: a damaged file crashes the process, and a foreign file runs as code. The directory must
therefore be private to the user, and every file must match its recorded checksum. Without such a directory, or without
free space, each process compiles for itself.
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
"""File of a cache directory with the checksums of all others."""

PROBE_BYTES = 2**20
"""Size of the test file for free space."""

LEAST_FREE = 2**26
"""Free bytes below which nothing is cached; all kernels take about ten megabytes."""


def cached_in(folder: Path) -> Callable[..., Callable[..., Any]]:
    """Return a decorator like ``numba.njit`` that caches compiled functions of the modules in `folder`.

    Compiled code includes several files, of which Numba watches only one: each version of them has a directory.
    NUMBA_CACHE_DIR overrides the user's cache directory.
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
    """Verified cache directory for the current version of a folder's modules; None if there is none."""
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
    """Cache directory of the user; None if unknown.

    As specified for XDG_CACHE_HOME, an empty or relative path is ignored: it would depend on the current directory.
    """
    for name in ("NUMBA_CACHE_DIR", *(["LOCALAPPDATA"] if sys.platform == "win32" else ["XDG_CACHE_HOME"])):
        given = os.environ.get(name, "")
        if given and Path(given).is_absolute():
            return Path(given)
    try:
        home = Path.home()
    except RuntimeError:  # unknown user without HOME
        return None
    places = {"win32": home / "AppData" / "Local", "darwin": home / "Library" / "Caches"}
    return places.get(sys.platform, home / ".cache") if home.is_absolute() else None


def _is_own(place: Path) -> bool:
    """Create a private directory, or check that the existing one is private."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not hasattr(os, "getuid"):
            return True
        found = place.stat(follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return False
        if stat.S_IMODE(found.st_mode) & 0o022:  # Its files, and their checksums, may be from others.
            shutil.rmtree(place)
            place.mkdir(mode=0o700)
        elif stat.S_IMODE(found.st_mode) & 0o077:
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
    """Record the checksums of all files for the next process."""
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
