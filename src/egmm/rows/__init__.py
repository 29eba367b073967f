"""Where rows come from: arrays, files, clusters of machines."""

from typing import Any

from egmm.rows.files import FileRows, scan
from egmm.rows.source import RowSource

__all__ = ["FileRows", "RowSource", "remote_rows", "scan"]


def remote_rows(X: Any, sample_weight: Any, n_jobs: int | None) -> Any:
    """Rows of a scan or a Dask collection, which must not be loaded whole; None for anything else.

    Parameters
    ----------
    X : any
        What the user gave as rows.
    sample_weight : any
        Weights of the rows, or None.
    n_jobs : int or None
        Threads for reading files.

    Returns
    -------
    rows : FileRows, DaskRows or None

    Examples
    --------
    >>> remote_rows([[1.0, 2.0]], None, None) is None
    True
    """
    if isinstance(X, FileRows):
        return X.using(sample_weight, n_jobs)
    if type(X).__module__.partition(".")[0] in {"dask", "dask_expr"}:
        from egmm.rows.dask import DaskRows  # noqa: PLC0415  Dask is loaded only for its own collections.

        return DaskRows(X, sample_weight)
    return None
