"""Array types, and argument checks with uniform error messages."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from numbers import Integral, Real
from os import PathLike, fspath
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from egmm._arrays import check_array_there, namespace, place_of, to_host

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

LARGEST = np.float64(1e150)
"""Upper bound of entries, so that their squares can be summed."""

SMALLEST_VARIANCE = 1e-300
"""Lower bound of the variation of a column, unless constant: precisions are its inverse."""

EMPTY = np.empty(0)
"""A column without integers."""

LEAST_STEPS = 2**-10
"""Largest step between neighbouring floats, relative to the range of integers."""

MOST_STARTS = 10_000
"""Largest number of starts."""

LIGHTEST, HEAVIEST = 1e-290, 1e150
"""Bounds of the sum of weights, so that weighted sums of squares neither vanish nor overflow."""


def printable(text: str) -> str:
    r"""Escape control and unprintable characters, except line breaks.

    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def check_integer(name: str, value: object, minimum: int, maximum: int | None = None) -> int:
    """Return `value` as an int in range, else raise."""
    expected = f"an integer >= {minimum}" if maximum is None else f"an integer from {minimum} to {maximum}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be {expected}, got {value!r}.")
    number = int(value)
    if number < minimum or (maximum is not None and number > maximum):
        raise ValueError(f"{name} must be {expected}, got {_integer_text(number)}.")
    return number


def _integer_text(number: int) -> str:
    """An integer as text; Python refuses to convert huge ones."""
    return str(number) if number.bit_length() < 200 else f"an integer of {number.bit_length()} bits"


def check_starts(n_init: object) -> int:
    """Return a number of starts, else raise; the labels of all starts are made at once."""
    return check_integer("n_init", n_init, 1, MOST_STARTS)


def check_real(
    name: str,
    value: object,
    minimum: float = -np.inf,
    maximum: float = np.inf,
    *,
    open_minimum: bool = False,
) -> float:
    """Return `value` as a finite float in range, else raise."""
    expected = f"a finite number in {'(' if open_minimum else '['}{minimum:g}, {maximum:g}]"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {expected}, got {value!r}.")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the range of floats
        number = np.inf if value >= 0 else -np.inf  # type: ignore[operator]
    below = number <= minimum if open_minimum else number < minimum
    if not np.isfinite(number) or below or number > maximum:
        raise ValueError(f"{name} must be {expected}, got {number:g}.")
    return number


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`, else raise."""
    options = list(choices)
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.")
    return value


def check_random(value: Any) -> np.random.RandomState:
    """Random generator from `random_state`, else raise."""
    from sklearn.utils import check_random_state  # noqa: PLC0415  Not needed for belief functions.

    try:
        return check_random_state(value)
    except ValueError as error:
        wanted = "use None, an integer from 0 to 4294967295 or a RandomState"
        raise ValueError(f"random_state={value!r}: {error}; {wanted}.") from None


def check_labels(name: str, value: Any) -> IntArray:
    """Encode labels as 0, 1, ... in the order of the sorted labels."""
    check_unmasked(name, value)
    labels = np.asarray(value)
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError(f"{name} must be a non-empty vector, one label per row; got shape {labels.shape}.")
    unknown = np.flatnonzero(_is_unknown(labels))
    if unknown.size:
        raise ValueError(f"{name} must be finite, but row {unknown[0]} is {labels[unknown[0]]}.")
    try:
        return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.int64)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels.tolist()}))
        raise TypeError(f"{name} must hold labels of one kind, numbers or text, got {kinds}.") from None


def _is_unknown(labels: NDArray[Any]) -> BoolArray:
    """Labels that are infinite or NaN, also in object arrays."""
    if labels.dtype.kind == "f":
        return ~np.isfinite(labels)
    if labels.dtype.kind == "O":
        return np.array([isinstance(label, Real) and label != label for label in labels.tolist()])  # noqa: PLR0124
    return np.zeros(len(labels), dtype=bool)


def listed(value: Any) -> list[Any]:
    """Entries of an iterable; a string or any other value is a single entry."""
    if isinstance(value, str):
        return [value]
    try:
        return list(value)
    except TypeError:
        return [value]


def check_unmasked(name: str, value: Any, way_out: str = "drop or impute the rows with such entries first") -> None:
    """Raise on masked entries."""
    n_masked = int(np.sum(value.mask)) if isinstance(value, np.ma.MaskedArray) else 0
    if n_masked:
        entries = "1 entry" if n_masked == 1 else f"{n_masked} entries"
        raise ValueError(f"{name} has {entries} of {value.size} masked; {way_out}.")


@contextmanager
def reading_table(X: Any) -> Iterator[None]:
    """Raise on inputs that are no table, and improve scikit-learn's messages."""
    check_unmasked("X", X)
    if isinstance(X, str | PathLike):
        raise TypeError(f"X must be rows, got {fspath(X)!r}; read the file first, or pass egmm.scan(path) to EGMM.")
    if X is None or type(X) in (dict, set, frozenset, bytes) or isinstance(X, Iterator) or np.isscalar(X):
        raise TypeError(f"X must be an array, a data frame or a list of lists, got {type(X).__name__}.")
    if hasattr(X, "iloc") and X.ndim == 2 and not X.columns.is_unique:
        raise ValueError(f"X has two columns named {X.columns[X.columns.duplicated()][0]!r}; rename one of them.")
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise _table_error(X) or error from None


@contextmanager
def reading_numbers(X: Any) -> Iterator[None]:
    """As `reading_table`, and raise on what scikit-learn would misread as numbers."""
    with reading_table(X):
        _check_convertible(X)
        if _is_time(X):
            raise TypeError("X must be numeric, got dates or times; convert them to numbers first.")
        _check_distinguishable(X)
        try:
            yield
        except (TypeError, ValueError, OverflowError) as error:
            raise _entry_error(X) or error from None


@contextmanager
def reading_rows(X: Any) -> Iterator[list[Any]]:
    """As `reading_numbers`, also for arrays that are read where they are; gives the types that need no conversion."""
    where = place_of(X)
    if where is not None:
        yield check_array_there(X, where)
        return
    with reading_numbers(X):
        yield [np.float64, np.float32]


def _table_error(X: Any) -> Exception | None:
    """Error for input that is not a table of real numbers; wording follows scikit-learn where its tests require."""
    if hasattr(X, "iloc") and hasattr(X, "sparse"):
        return TypeError("Sparse data was passed for X, but dense data is required. Use X.sparse.to_dense().")
    try:
        table = np.asarray(X)
    except (TypeError, ValueError, RuntimeError):  # for example SciPy's sparse arrays, tensors with gradients
        if isinstance(X, list | tuple):
            return ValueError("X must have rows of equal length, got lists of unequal lengths.")
        return None
    if table.dtype.names is not None:
        return TypeError(f"X must be a plain table, got a structured array with fields {', '.join(table.dtype.names)}.")
    if table.dtype.kind == "c":
        parts = "use X.real, or real and imaginary parts as features"
        return ValueError(f"Complex data not supported: X is of dtype {table.dtype}; {parts}.")
    if table.ndim != 2 and (table.ndim or table.dtype.kind in "fiub"):
        came = f"Expected 2D array, got {table.ndim}D array instead: X needs rows and features, not {table.shape}"
        ways = "X.reshape(-1, 1) has a single feature, X.reshape(1, -1) is a single row"
        return ValueError(f"{came}. Reshape your data: {ways}.")
    return None


def _check_distinguishable(X: Any) -> None:
    """Raise on integer columns whose differences are lost as floats."""
    for at, column in enumerate(_integer_columns(X)):
        if column.dtype.kind in "iu" and column.dtype.itemsize == 8 and column.size:
            why = lost_as_floats(column)
            if why:
                raise ValueError(f"X has integers in column {at} {why}")


def _integer_columns(X: Any) -> Iterable[NDArray[Any]]:
    """Columns that may be of integers: of an array, a list, or a frame, whose columns differ in type."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):  # pandas
        series = [X.iloc[:, at].dropna() for at in range(X.shape[1])]
        return [_as_integers(np.asarray(one)) if getattr(one.dtype, "kind", "") in "iu" else EMPTY for one in series]
    if hasattr(X, "get_columns"):  # polars
        return [one.drop_nulls().to_numpy() for one in X.get_columns()]
    try:
        table = np.asarray(X)
    except (TypeError, ValueError, NotImplementedError):  # for example lists of unequal lengths
        return []
    if table.ndim != 2 or table.dtype.kind not in "iuO":
        return []
    return [_as_integers(column) for column in table.T]


def _as_integers(column: NDArray[Any]) -> NDArray[Any]:
    """Python's integers as those of NumPy."""
    if column.dtype.kind != "O" or not all(isinstance(entry, Integral) for entry in column.tolist()):
        return column
    return np.array(column.tolist())


def lost_as_floats(integers: NDArray[Any]) -> str:
    """Message if integers lose their differences as floats."""
    low, high = int(integers.min()), int(integers.max())
    largest = max(abs(low), abs(high))
    if largest <= 2**53 or low == high or (high - low) * LEAST_STEPS > largest >> 53:
        return ""
    return f"from {low} to {high}, which floats cannot distinguish; subtract {low} first."


def _check_convertible(X: Any) -> None:
    """Raise on frames without rows yet, and on tensors that are no arrays of numbers."""
    library = type(X).__module__.partition(".")[0]
    if library == "polars" and hasattr(X, "collect"):
        raise TypeError(f"X must be rows, got a polars.{type(X).__name__}, which has none yet; pass X.collect().")
    if library == "torch":
        try:
            np.asarray(X[:1])
        except (TypeError, RuntimeError, NotImplementedError) as error:
            why, ways = str(error).split(". ")[0], "X.detach(), X.to_dense(), X.float() and X.cpu() give such tensors"
            raise TypeError(f"X must be a dense tensor of numbers that NumPy can read ({why}); {ways}.") from None


def _is_time(X: Any) -> bool:
    """Whether rows are only dates or time spans, whose bits NumPy reads as numbers."""
    try:
        return np.asarray(X[:1]).dtype.kind in "mM"
    except (TypeError, ValueError, LookupError, NotImplementedError):  # not everything can be sliced
        return False


def _entry_error(X: Any) -> Exception | None:
    """Error that names the first non-numeric entry of a table; None if there is none."""
    try:
        table = np.asarray(X)
    except (TypeError, ValueError, RuntimeError):  # for example SciPy's sparse arrays, tensors with gradients
        return None
    if table.ndim != 2 or table.dtype.kind not in "OUS":
        return None
    for (row, column), entry in np.ndenumerate(table):
        # Only in pandas is `columns` surely a list of names.
        place = _place(f"row {row}", column, X.columns if hasattr(X, "iloc") else None)
        try:
            float(np.nan if entry is None else entry)
        except OverflowError:
            return ValueError(
                f"Input X contains {_integer_text(entry)} at {place}, too large for a float; rescale it first."
            )
        except (TypeError, ValueError) as error:
            return type(error)(f"Input X contains {entry!r} at {place}: {error}; drop, impute or encode it first.")
    return None


def check_same_length(first_name: str, first: Any, second_name: str, second: Any) -> None:
    """Raise if two arguments have different numbers of rows."""
    if len(first) != len(second):
        raise ValueError(
            f"{first_name} and {second_name} must have the same number of rows, got {len(first)} and {len(second)}."
        )


def check_finite_matrix(name: str, value: Any, shape: tuple[int | None, ...]) -> FloatArray:
    """Return `value` as a finite float array of `shape` (None: any length), else raise."""
    check_unmasked(name, value)
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be numeric, got an array of dtype {array.dtype}.")
    fits = array.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
    if not fits:
        letters = iter("nmk")
        sides = [next(letters) if side is None else str(side) for side in shape]
        wanted = f"({sides[0]},)" if len(sides) == 1 else f"({', '.join(sides)})"
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}.")
    array = np.asarray(array, dtype=np.float64)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, but entry {where} is {array[where]}.")
    return array


def check_finite_rows(X: FloatArray, names: Iterable[str] | None = None, *, allow_nan: bool = False) -> FloatArray:
    """Return `X` if it is finite and its squares can be summed, else raise."""
    if are_usable(X):
        return X
    X = to_host(X)
    bad = np.argwhere(np.abs(X) >= LARGEST) if allow_nan else np.argwhere(~(np.abs(X) < LARGEST))
    if not len(bad):
        return X
    row, column = (int(i) for i in bad[0])
    raise unusable(float(X[row, column]), f"row {row}", column, names)


def check_spread(variances: FloatArray, names: Iterable[str] | None = None) -> None:
    """Raise on columns whose variation is too small to square."""
    tiny = np.flatnonzero((variances > 0) & (variances < SMALLEST_VARIANCE))
    if len(tiny):
        column = int(tiny[0])
        named = f"{column}" if names is None else f"{column} ({list(names)[column]!r})"
        deviation = np.sqrt(variances[column])
        raise ValueError(f"X varies by {deviation:.3g} in column {named}, too little to square; rescale it first.")


def are_usable(X: FloatArray) -> bool:
    """Whether all entries are finite and small enough for their squares to be summed."""
    xp = namespace(X)
    return bool(float(xp.min(X, axis=None)) > -LARGEST and float(xp.max(X, axis=None)) < LARGEST)


def unusable(value: float, place: str, column: int, names: Iterable[str] | None = None) -> ValueError:
    """Error for an entry that is not finite or too large."""
    found = what_is_unusable(value)
    return ValueError(f"Input X contains {found} at {_place(place, column, names)}; drop, impute or rescale it first.")


def what_is_unusable(value: float) -> str:
    """Description of an entry that is not finite or too large."""
    return "NaN" if np.isnan(value) else "infinity" if np.isinf(value) else f"the value {value:g}, too large to square,"


def _place(row: str, column: int, names: Iterable[str] | None) -> str:
    return f"{row}, column {column}" if names is None else f"{row}, column {column} ({list(names)[column]!r})"


def check_sample_weight(value: Any, n_samples: int) -> FloatArray | None:
    """Validate row weights: finite, non-negative and not all zero; None stays None."""
    if value is None:
        return None
    weight = check_finite_matrix("sample_weight", value, (n_samples,))
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise ValueError(f"sample_weight must not be negative, but row {row} has {weight[row]:g}.")
    with np.errstate(over="ignore"):
        check_weight(float(weight.sum()))
    return weight


def check_weight(total: float) -> None:
    """Raise if weights are all zero, or their sum is too large or too small."""
    if total == 0:
        raise ValueError("sample_weight must not be all zero.")
    if not LIGHTEST <= total <= HEAVIEST:
        wanted = f"must have a sum from {LIGHTEST:g} to {HEAVIEST:g}"
        raise ValueError(f"sample_weight {wanted}, got {total:g}; multiply all weights by one number.")


def import_optional(module: str, purpose: str, extra: str | None = None) -> Any:
    """Import an optional dependency, with a hint for installing it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        wanted = f"egmm[{extra}]" if extra else package
        raise ImportError(f"{purpose} need {package}: pip install '{wanted}'.") from error


def check_prototypes(init: Any, n_clusters: int | None, n_features: int) -> FloatArray:
    """Validate `init` as distinct prototypes, `n_clusters` of them unless that is None."""
    prototypes = check_finite_matrix("init", init, (n_clusters, n_features))
    seen: dict[tuple[float, ...], int] = {}
    for k, row in enumerate(map(tuple, prototypes.tolist())):
        if seen.setdefault(row, k) != k:
            raise ValueError(f"init must hold distinct prototypes, but rows {seen[row]} and {k} are identical.")
    return prototypes


@contextmanager
def all_or_nothing(estimator: object) -> Iterator[None]:
    """Restore the state of an estimator if the block fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
