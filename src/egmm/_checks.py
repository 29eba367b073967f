"""What every part shares: array types and the wording of argument errors."""

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
"""Entries of rows must be smaller, so that their squares can be summed; single precision compares with it as double."""

SMALLEST_VARIANCE = 1e-300
"""Columns must vary more, or not at all: their precisions are the inverse."""

LEAST_STEPS = 2**-10
"""Of the range of integers, how much a step between neighbouring floats may be."""

LIGHTEST, HEAVIEST = 1e-290, 1e150
"""The weights of rows have a sum between them, so that weighted sums of squares neither vanish nor overflow."""


def printable(text: str) -> str:
    r"""Return a text with escapes in place of what may command a terminal or cannot be shown; line breaks stay.

    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def check_integer(name: str, value: object, minimum: int, maximum: int | None = None) -> int:
    """Return `value` as an int, or say which range of integers `name` takes."""
    expected = f"an integer >= {minimum}" if maximum is None else f"an integer from {minimum} to {maximum}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be {expected}, got {value!r}.")
    number = int(value)
    if number < minimum or (maximum is not None and number > maximum):
        raise ValueError(f"{name} must be {expected}, got {_told(number)}.")
    return number


def _told(number: int) -> str:
    """An integer as text, which Python refuses of the largest."""
    return str(number) if number.bit_length() < 200 else f"an integer of {number.bit_length()} bits"


def check_real(
    name: str,
    value: object,
    minimum: float = -np.inf,
    maximum: float = np.inf,
    *,
    open_minimum: bool = False,
) -> float:
    """Return `value` as a finite float in range, or say which range `name` takes."""
    expected = f"a finite number in {'(' if open_minimum else '['}{minimum:g}, {maximum:g}]"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {expected}, got {value!r}.")
    try:
        number = float(value)
    except OverflowError:  # an integer that no float comes near
        number = np.inf if value >= 0 else -np.inf  # type: ignore[operator]
    below = number <= minimum if open_minimum else number < minimum
    if not np.isfinite(number) or below or number > maximum:
        raise ValueError(f"{name} must be {expected}, got {number:g}.")
    return number


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`, or list them."""
    options = list(choices)
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.")
    return value


def check_random(value: Any) -> np.random.RandomState:
    """Return random numbers of what was given as `random_state`, or say what that may be."""
    from sklearn.utils import check_random_state  # noqa: PLC0415  Not needed to speak of beliefs.

    try:
        return check_random_state(value)
    except ValueError as error:
        wanted = "give None, an integer from 0 to 4294967295 or a RandomState"
        raise ValueError(f"random_state={value!r}: {error}; {wanted}.") from None


def check_labels(name: str, value: Any) -> IntArray:
    """Return one label per row as codes 0, 1, ... in the order of the sorted labels, or say what is wrong with them."""
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
    """Labels that are infinite or NaN; a column of objects may hold NaN among its numbers."""
    if labels.dtype.kind == "f":
        return ~np.isfinite(labels)
    if labels.dtype.kind == "O":
        return np.array([isinstance(label, Real) and label != label for label in labels.tolist()])  # noqa: PLR0124
    return np.zeros(len(labels), dtype=bool)


def listed(value: Any) -> list[Any]:
    """Entries of an iterable; anything else, and a text, as the only entry."""
    if isinstance(value, str):
        return [value]
    try:
        return list(value)
    except TypeError:
        return [value]


def check_unmasked(name: str, value: Any, way_out: str = "drop or impute the rows with such entries first") -> None:
    """Refuse a masked array with masked entries: what is stored below a mask is no value."""
    n_masked = int(np.sum(value.mask)) if isinstance(value, np.ma.MaskedArray) else 0
    if n_masked:
        entries = "1 entry" if n_masked == 1 else f"{n_masked} entries"
        raise ValueError(f"{name} has {entries} of {value.size} masked, which have no value; {way_out}.")


@contextmanager
def reading_numbers(X: Any) -> Iterator[None]:
    """Refuse what scikit-learn would take for numbers, and say what is wrong with what it cannot take for them."""
    check_unmasked("X", X)
    if isinstance(X, str | PathLike):
        raise TypeError(f"X must be rows, got {fspath(X)!r}; read the file first, or give egmm.scan of it to EGMM.")
    if X is None or type(X) in (dict, set, frozenset, bytes) or isinstance(X, Iterator) or np.isscalar(X):
        raise TypeError(f"X must be rows, as an array, a data frame or a list of lists, got {type(X).__name__}.")
    if _is_time(X):
        raise TypeError("X must be numeric, got dates or times; turn them into numbers of a unit of your choice first.")
    _check_told_apart(X)
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_table(X) or _no_number(X) or error from None


@contextmanager
def reading_rows(X: Any) -> Iterator[list[Any]]:
    """As `reading_numbers`, also for arrays that are read where they are; gives the types that need no conversion."""
    where = place_of(X)
    if where is not None:
        yield check_array_there(X, where)
        return
    with reading_numbers(X):
        yield [np.float64, np.float32]


def _no_table(X: Any) -> Exception | None:
    """Return the error of what is no table of real numbers at all; scikit-learn's words are kept where others look."""
    if hasattr(X, "iloc") and hasattr(X, "sparse"):
        return TypeError("Sparse data was passed for X, but dense data is required. Use X.sparse.to_dense().")
    try:
        table = np.asarray(X)
    except (TypeError, ValueError, NotImplementedError):  # as of SciPy's sparse arrays
        if isinstance(X, list | tuple):
            return ValueError("X must have rows of equal length, got lists of unequal lengths.")
        return None
    if table.dtype.names is not None:
        return TypeError(f"X must be a plain table, got records with the fields {', '.join(table.dtype.names)}.")
    if table.dtype.kind == "c":
        parts = "take X.real, or the real and the imaginary parts as features"
        return ValueError(f"Complex data not supported: X is of dtype {table.dtype}; {parts}.")
    if table.ndim != 2 and table.dtype.kind in "fiub":
        came = f"Expected 2D array, got {table.ndim}D array instead: X needs rows and features, not {table.shape}"
        ways = "X.reshape(-1, 1) has a single feature, X.reshape(1, -1) is a single row"
        return ValueError(f"{came}. Reshape your data: {ways}.")
    return None


def _check_told_apart(X: Any) -> None:
    """Refuse columns of integers that differ, but by so little that floats cannot tell."""
    table = X if isinstance(X, np.ndarray) else getattr(X, "to_numpy", lambda: None)()
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind not in "iu" or table.size == 0:
        return
    for column in range(table.shape[1] if table.dtype.itemsize == 8 else 0):
        why = lost_as_floats(table[:, column])
        if why:
            raise ValueError(f"X has integers in column {column} {why}")


def lost_as_floats(integers: NDArray[Any]) -> str:
    """Say what is lost where integers are read as floats, if it matters."""
    low, high = int(integers.min()), int(integers.max())
    largest = max(abs(low), abs(high))
    if largest <= 2**53 or low == high or (high - low) * LEAST_STEPS > largest >> 53:
        return ""
    return f"from {low} to {high}, which floats cannot tell apart; subtract {low} first."


def _is_time(X: Any) -> bool:
    """Whether rows are nothing but dates or spans of time, whose bits NumPy reads as numbers."""
    try:
        return np.asarray(X[:1]).dtype.kind in "mM"
    except (TypeError, ValueError, LookupError, NotImplementedError):  # not everything can be cut
        return False


def _no_number(X: Any) -> Exception | None:
    """Return the error that names the first entry of a table which is no number; None where that is not the matter."""
    try:
        table = np.asarray(X)
    except (TypeError, ValueError, NotImplementedError):  # as of SciPy's sparse arrays
        return None
    if table.ndim != 2 or table.dtype.kind not in "OUS":
        return None
    for (row, column), entry in np.ndenumerate(table):
        # Of other tables than pandas' the columns may be the columns themselves.
        place = _place(f"row {row}", column, X.columns if hasattr(X, "iloc") else None)
        try:
            float(np.nan if entry is None else entry)
        except OverflowError:
            return ValueError(f"Input X contains {_told(entry)} at {place}, too large for a float; rescale it first.")
        except (TypeError, ValueError) as error:
            return type(error)(f"Input X contains {entry!r} at {place}: {error}; drop, impute or encode it first.")
    return None


def check_same_length(first_name: str, first: Any, second_name: str, second: Any) -> None:
    """Say by how many rows two arguments differ, if they do."""
    if len(first) != len(second):
        raise ValueError(
            f"{first_name} and {second_name} must have equally many rows, got {len(first)} and {len(second)}."
        )


def check_finite_matrix(name: str, value: Any, shape: tuple[int | None, ...]) -> FloatArray:
    """Return `value` as a finite float array of `shape` (None: any length), or say what is wrong with it."""
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


def check_finite_rows(X: FloatArray, names: Iterable[str] | None = None) -> FloatArray:
    """Return `X` if it is finite and its squares can be summed, or name the first row and column that is not."""
    if are_usable(X):
        return X
    X = to_host(X)
    row, column = (int(i) for i in np.argwhere(~(np.abs(X) < LARGEST))[0])
    raise unusable(float(X[row, column]), f"row {row}", column, names)


def check_spread(variances: FloatArray, names: Iterable[str] | None = None) -> None:
    """Refuse columns that vary, but by so little that squares of the differences vanish."""
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
    """Return the error that names an entry which is not finite or too large."""
    found = what_is_unusable(value)
    return ValueError(f"Input X contains {found} at {_place(place, column, names)}; drop, impute or rescale it first.")


def what_is_unusable(value: float) -> str:
    """Say what an entry is that is not finite or too large."""
    return "NaN" if np.isnan(value) else "infinity" if np.isinf(value) else f"the value {value:g}, too large to square,"


def _place(row: str, column: int, names: Iterable[str] | None) -> str:
    return f"{row}, column {column}" if names is None else f"{row}, column {column} ({list(names)[column]!r})"


def check_sample_weight(value: Any, n_samples: int) -> FloatArray | None:
    """Return weights of rows, finite and not negative and not all zero; None stays None."""
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
    """Say that rows without any weight are none, and which weights are too large or small to be summed."""
    if total == 0:
        raise ValueError("sample_weight must not be all zero: no row would count.")
    if not LIGHTEST <= total <= HEAVIEST:
        wanted = f"must have a sum from {LIGHTEST:g} to {HEAVIEST:g}"
        raise ValueError(f"sample_weight {wanted}, got {total:g}; multiply all weights by one number.")


def import_optional(module: str, purpose: str, extra: str | None = None) -> Any:
    """Import a module that not every installation has, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        wanted = f"egmm[{extra}]" if extra else package
        raise ImportError(f"{purpose} need {package}: pip install '{wanted}'.") from error


def check_prototypes(init: Any, n_clusters: int | None, n_features: int) -> FloatArray:
    """Return `init` as distinct prototypes, n_clusters of them unless that is None, or say what is wrong with them."""
    prototypes = check_finite_matrix("init", init, (n_clusters, n_features))
    seen: dict[tuple[float, ...], int] = {}
    for k, row in enumerate(map(tuple, prototypes.tolist())):
        if seen.setdefault(row, k) != k:
            raise ValueError(f"init must hold distinct prototypes, but its rows {seen[row]} and {k} are identical.")
    return prototypes


@contextmanager
def all_or_nothing(estimator: object) -> Iterator[None]:
    """Leave an estimator as it was where what is done to it fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
