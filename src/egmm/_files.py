"""Files that are replaced as a whole or not at all, and arrays read from them."""

import errno
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np

try:
    import fcntl
except ImportError:  # Windows, where what is open cannot be removed in any case
    HAS_LOCKS = False
else:
    HAS_LOCKS = True

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk that takes no more; they come without the name of the file."""


@contextmanager
def replacing(path: Path, *, exclusive: bool = False) -> Iterator[IO[bytes]]:
    """Write to a file beside `path` that takes its place at the end, or is removed on an error.

    With `exclusive` a file that is there at the end is an error: of two writers at once one succeeds. What a killed
    writer has left is removed.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with naming(path), working_place(path) as work:
        place = work / "file"
        with place.open("xb") as stream:
            yield stream
        if exclusive:
            claim(place, path)
        else:
            place.replace(path)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file or directory that was asked for in errors of what is written in its stead."""
    try:
        yield
    except OSError as error:
        is_stand_in = error.filename is not None and _prefix(path) in str(error.filename)
        if is_stand_in or (error.filename is None and error.errno in FULL):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextmanager
def working_place(path: Path) -> Iterator[Path]:
    """Offer an empty directory beside `path`; it is removed at the end, and what killed processes left before.

    A lock tells the directories that are in use: the system lifts it with the process, however that ends.
    """
    remove_leftovers(path)
    work, lock = _new_place(path)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        _release(lock)


def remove_leftovers(path: Path) -> None:
    """Remove the working places of `path` that no process uses any more."""
    for left in leftovers(path):
        shutil.rmtree(left, ignore_errors=True)


def leftovers(path: Path) -> Iterator[Path]:
    """Yield the working places of `path` that no process uses any more, each locked until the next is asked for."""
    try:
        found = sorted(path.parent.glob(f"{_prefix(path)}*.tmp"))
    except OSError:
        return
    for left in found:
        try:
            lock = _hold(left, wait=False)
        except OSError:  # in use, or on a file system without locks, where nobody can tell
            continue
        try:
            yield left
        finally:
            _release(lock)


def claim(place: Path, path: Path) -> None:
    """Give a file a name that no other file has, or raise FileExistsError; nobody can come in between."""
    try:
        os.link(place, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without second names
        path.touch(exist_ok=False)
        place.replace(path)


def _prefix(path: Path) -> str:
    """How working places of `path` begin: short, so that it is never they whose name is too long."""
    return f".egmm-{sha256(path.name.encode(errors='surrogateescape')).hexdigest()[:12]}-"


def _new_place(path: Path) -> tuple[Path, int | None]:
    """Make a working place, and the lock on it."""
    while True:
        work = path.with_name(f"{_prefix(path)}{uuid4().hex[:12]}.tmp")
        work.mkdir()
        lock = None
        with suppress(OSError):
            lock = _hold(work, wait=True)
        if work.exists():
            return work, lock
        _release(lock)  # Taken for a leftover before it was locked.


def _hold(folder: Path, *, wait: bool) -> int | None:
    """Lock a directory; where another process has, wait or raise an OSError."""
    if not HAS_LOCKS:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _release(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def read_npz(path: Path) -> dict[str, Any]:
    """Arrays of an npz file; a ValueError says in a few words why there are none."""
    with path.open("rb") as stream:
        if not zipfile.is_zipfile(stream):
            raise ValueError("it is no npz file, or a damaged one")
        stream.seek(0)
        try:
            with np.load(stream, allow_pickle=False) as archive:
                return dict(archive)
        except (ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            # NumPy's own words may advise to unpickle what could do harm.
            raise ValueError("its arrays are damaged or hold other things than numbers") from error
