"""Atomic replacement of files, and reading of arrays."""

import errno
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any
from uuid import uuid4

import numpy as np

try:
    import fcntl
except ImportError:  # Windows, where open files cannot be removed anyway
    HAS_LOCKS = False
else:
    HAS_LOCKS = True

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, which come without a file name."""


DAMAGED = (
    ValueError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    TokenError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors of a damaged npz file; headers are Python text, and may claim any size."""


@contextmanager
def replacing(path: Path, *, exclusive: bool = False) -> Iterator[IO[bytes]]:
    """Write to a temporary file that replaces `path` at the end, or is removed on an error.

    With `exclusive`, an existing file at the end is an error: of two concurrent writers one succeeds. Leftovers of a
    killed writer are removed.
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
    """Replace the temporary name by the requested one in errors."""
    try:
        yield
    except OSError as error:
        is_stand_in = error.filename is not None and _prefix(path) in str(error.filename)
        if is_stand_in or (error.filename is None and error.errno in FULL):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextmanager
def working_place(path: Path) -> Iterator[Path]:
    """Yield an empty directory next to `path`, removed at the end together with leftovers of killed processes.

    A lock marks directories in use; the system releases it when the process ends.
    """
    remove_leftovers(path)
    work, lock = _new_place(path)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        _release(lock)


def remove_leftovers(path: Path) -> None:
    """Remove working directories of `path` that are no longer in use."""
    for left in leftovers(path):
        shutil.rmtree(left, ignore_errors=True)


def leftovers(path: Path) -> Iterator[Path]:
    """Yield working directories of `path` that are no longer in use, each locked until the next."""
    try:
        found = sorted(path.parent.glob(f"{_prefix(path)}*.tmp"))
    except OSError:
        return
    for left in found:
        try:
            lock = _hold(left, wait=False)
        except OSError:  # in use, or on a file system without locks
            continue
        try:
            yield left
        finally:
            _release(lock)


def claim(place: Path, path: Path) -> None:
    """Rename a file atomically, or raise FileExistsError if the name is taken."""
    try:
        os.link(place, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        path.touch(exist_ok=False)
        place.replace(path)


def _prefix(path: Path) -> str:
    """Prefix of working directories of `path`, short enough for any file system."""
    return f".egmm-{sha256(path.name.encode(errors='surrogateescape')).hexdigest()[:12]}-"


def _new_place(path: Path) -> tuple[Path, int | None]:
    """Create a working directory and lock it."""
    while True:
        work = path.with_name(f"{_prefix(path)}{uuid4().hex[:12]}.tmp")
        work.mkdir()
        lock = None
        with suppress(OSError):
            lock = _hold(work, wait=True)
        if work.exists():
            return work, lock
        _release(lock)  # Removed as a leftover before it was locked.


def _hold(folder: Path, *, wait: bool) -> int | None:
    """Lock a directory; if another process holds the lock, wait or raise an OSError."""
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
    """Arrays of an npz file; a ValueError gives the reason if there are none."""
    with path.open("rb") as stream:
        if not zipfile.is_zipfile(stream):
            raise ValueError("it is not an npz file, or is damaged")
        stream.seek(0)
        try:
            with np.load(stream, allow_pickle=False) as archive:
                arrays = dict(archive)
        except DAMAGED as error:
            # NumPy's message may suggest unpickling, which is unsafe.
            raise ValueError("its arrays are damaged or not numeric") from error
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError("it holds other files than arrays")
    return arrays
