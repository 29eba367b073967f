"""Files that are replaced as a whole or not at all, and arrays read from them."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EISDIR
from os import strerror
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Write to a file beside `path` that takes its place at the end, or is removed on an error."""
    if path.is_dir():
        raise IsADirectoryError(EISDIR, strerror(EISDIR), str(path))
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as stream:
            yield stream
        temporary.replace(path)
    except OSError as error:
        if error.filename != str(temporary):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error  # the file that was asked for
    finally:
        temporary.unlink(missing_ok=True)


def read_npz(path: Path) -> dict[str, Any]:
    """Arrays of an npz file; a ValueError says in a few words why there are none."""
    with path.open("rb") as stream:
        if not zipfile.is_zipfile(stream):
            raise ValueError("it is no npz file, or a damaged one")
        stream.seek(0)
        try:
            with np.load(stream, allow_pickle=False) as archive:
                return dict(archive)
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            # NumPy's own words may advise to unpickle what could do harm.
            raise ValueError("its arrays are damaged or hold other things than numbers") from error
