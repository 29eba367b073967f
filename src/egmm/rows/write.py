"""Results too large for memory, written to Parquet block by block."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from egmm._checks import import_optional
from egmm._files import replacing

GROUP_BYTES = 2**25
"""Size of a row group before compression: large enough for fast reading, small enough for memory."""


def check_out(out: str | PathLike[str], sources: Sequence[Path]) -> Path:
    """Validate the path to write to."""
    path = Path(out)
    if path.suffix.lower() != ".parquet":
        raise ValueError(f"out must end in .parquet, got {path.name!r}.")
    if path.resolve() in {source.resolve() for source in sources}:
        raise ValueError(f"out must not be one of the scanned files, got {path}.")
    return path


def write_parquet(path: Path, parts: Iterable[Any], names: list[str], metadata: dict[bytes, bytes] | None) -> Path:
    """Write results block by block to a Parquet file that appears only when complete."""
    try:
        with growing_parquet(path, metadata) as write:
            for columns in _groups(parts):
                write(dict(zip(names, columns, strict=True)))
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror or error}; no file was written") from error
    return path


@contextmanager
def growing_parquet(
    path: Path, metadata: dict[bytes, bytes] | None = None, *, exclusive: bool = False
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function that appends a row group to a Parquet file, which appears only when complete.

    With `exclusive`, an existing file is an error.
    """
    pa = import_optional("pyarrow", "Parquet files", "arrow")
    parquet = import_optional("pyarrow.parquet", "Parquet files", "arrow")
    writer: Any = None

    def write(columns: Mapping[str, Any]) -> None:
        nonlocal writer
        table = pa.table({name: np.ascontiguousarray(part) for name, part in columns.items()}, metadata=metadata)
        writer = writer or parquet.ParquetWriter(stream, table.schema)
        writer.write_table(table)

    try:
        with replacing(path, exclusive=exclusive) as stream:
            yield write
            if writer is not None:
                writer.close()
    except BaseException:
        if writer is not None:
            writer.is_open = False  # Its file is gone; closing it later would fail again.
        raise


def _groups(parts: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the columns of one row group of results."""
    held: list[Any] = []
    n_bytes = 0
    for part in parts:
        held.append(part if part.ndim == 2 else part[:, None])
        n_bytes += part.nbytes
        if n_bytes >= GROUP_BYTES:
            yield _columns(held)
            held, n_bytes = [], 0
    if held:
        yield _columns(held)


def _columns(held: list[Any]) -> list[Any]:
    return [np.concatenate([part[:, at] for part in held]) for at in range(held[0].shape[1])]
