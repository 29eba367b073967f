"""The same rows in every form that can be fitted, and what makes two fits the same."""

import gzip
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from egmm import EGMM, scan

BLOCK_ROWS = 16_384  # as `egmm.rows.source` has it: part of what makes results repeatable
FITTED = ("weights_", "means_", "covariances_", "log_likelihood_", "log_likelihood_history_", "ebic_", "n_iter_")


def two_groups(n_rows: int, n_features: int = 3, seed: int = 0) -> np.ndarray:
    """Rows of two overlapping groups."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, n_features)) + 2.5 * rng.integers(0, 2, (n_rows, 1))


def table(X: np.ndarray, **more: Any) -> pa.Table:
    """Columns a, b, c, ..., and others by name."""
    columns = {chr(ord("a") + at): np.ascontiguousarray(X[:, at]) for at in range(X.shape[1])}
    return pa.table({**columns, **more})


def in_parquet(X: np.ndarray, folder: Path) -> Path:
    path = folder / "rows.parquet"
    pa.parquet.write_table(table(X), path, row_group_size=5000)
    return path


def in_many_parquet(X: np.ndarray, folder: Path) -> Path:
    """Files that end within blocks, below a directory partitioned by a key, beside what is not data."""
    target = folder / "many"
    cuts = [0, 7, len(X) // 3, len(X)]
    for at, (first, last) in enumerate(pairwise(cuts)):
        (target / f"key={at}").mkdir(parents=True)
        pa.parquet.write_table(table(X[first:last]), target / f"key={at}" / "part-0.parquet")
    (target / "_SUCCESS").touch()
    (target / "_metadata.parquet").write_bytes(b"not rows")
    return target


def in_csv(X: np.ndarray, folder: Path) -> Path:
    path = folder / "rows.csv"
    pa.csv.write_csv(table(X), path)
    return path


def in_packed_csv(X: np.ndarray, folder: Path) -> Path:
    """Packed in two parts, as some programs do."""
    text = in_csv(X, folder).read_bytes()
    (folder / "rows.csv").unlink()
    path = folder / "rows.csv.gz"
    path.write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]))
    return path


def in_feather(X: np.ndarray, folder: Path) -> Path:
    path = folder / "rows.feather"
    pa.feather.write_feather(table(X), str(path), chunksize=3000)
    return path


def in_npy(X: np.ndarray, folder: Path) -> Path:
    path = folder / "rows.npy"
    np.save(path, X)
    return path


def in_two_npy(X: np.ndarray, folder: Path) -> str:
    np.save(folder / "part-0.npy", X[:20_001])
    np.save(folder / "part-1.npy", np.asfortranarray(X[20_001:]))
    return str(folder / "part-*.npy")


def as_memmap(X: np.ndarray, folder: Path) -> np.ndarray:
    return np.load(in_npy(X, folder), mmap_mode="r")


def as_dask(X: np.ndarray, _: Path) -> Any:
    return dask.array.from_array(X, chunks=(2 * BLOCK_ROWS, -1))


FILES: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "parquet": in_parquet,
    "many parquet": in_many_parquet,
    "csv": in_csv,
    "packed csv": in_packed_csv,
    "feather": in_feather,
    "npy": in_npy,
    "two npy": in_two_npy,
}

SOURCES: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "by columns": lambda X, _: np.asfortranarray(X),
    "memmap": as_memmap,
    "dask": as_dask,
    **{name: lambda X, folder, write=write: scan(write(X, folder)) for name, write in FILES.items()},
}


def assert_same_bits(model: EGMM, other: EGMM) -> None:
    """All that a fit learned is the same to the last bit."""
    for name in FITTED:
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name), err_msg=name, strict=True)


def assert_close(model: EGMM, other: EGMM, rtol: float) -> None:
    """The parameters agree to `rtol` of their scale."""
    for name in ("weights_", "means_", "covariances_"):
        mine, theirs = getattr(model, name), getattr(other, name)
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=rtol * np.abs(theirs).max(), err_msg=name)
