"""Arrays of other libraries on the devices they are on: torch, CuPy, JAX and all that follow the array API standard.

scikit-learn's convention: within ``sklearn.config_context(array_api_dispatch=True)`` arrays are read where they are,
and results and fitted attributes follow them. Without it nothing here is used, and no library is loaded.
"""

from collections.abc import Callable
from copy import copy
from functools import wraps
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np

Method = TypeVar("Method", bound=Callable[..., Any])

OLDEST_SKLEARN = "1.9"
"""The version whose helpers are used here."""


class Place(NamedTuple):
    """A library's namespace of functions, and one of its devices."""

    xp: Any
    device: Any

    @property
    def widest(self) -> Any:
        """The most precise real type of the device."""
        floats = self.xp.__array_namespace_info__().dtypes(kind="real floating", device=self.device)
        return floats.get("float64", self.xp.float32)

    @property
    def has_double(self) -> bool:
        """Whether the device computes in double precision."""
        return bool(self.widest == self.xp.float64)

    def array(self, values: Any, dtype: Any = None) -> Any:
        """Values of a NumPy array on the device; real ones of the given type, or the widest."""
        own = values.copy(order="C")  # Libraries may share memory with it, and cannot with what is read-only.
        return self.xp.asarray(own, dtype=(dtype or self.widest) if own.dtype.kind == "f" else None, device=self.device)


def place_of(X: Any) -> Place | None:
    """Namespace and device of an array to compute on; None for NumPy arrays, lists and frames, and without dispatch."""
    import sklearn  # noqa: PLC0415  Not needed to speak of beliefs.

    if isinstance(X, np.ndarray) or not sklearn.get_config()["array_api_dispatch"]:
        return None
    if not (hasattr(X, "__array_namespace__") or type(X).__module__.partition(".")[0] in {"torch", "cupy", "jax"}):
        return None
    xp, is_array, device = _helpers().get_namespace_and_device(X)
    return Place(xp, device) if is_array and not _helpers()._is_numpy_namespace(xp) else None


def _helpers() -> Any:
    """scikit-learn's own helpers, which are new."""
    helpers = import_module("sklearn.utils._array_api")  # Loaded only where arrays are dispatched.
    if not hasattr(helpers, "check_same_namespace"):
        wanted = f"scikit-learn {OLDEST_SKLEARN} or newer: pip install 'egmm[arrays]'"
        raise ImportError(f"egmm needs {wanted}, for array_api_dispatch=True.")
    return helpers


class _NumPy:
    """NumPy's functions by their names in the standard; the quickest form of those that small passes call most."""

    sum = staticmethod(np.add.reduce)
    max = staticmethod(np.maximum.reduce)
    min = staticmethod(np.minimum.reduce)
    reshape = staticmethod(np.ndarray.reshape)
    permute_dims = staticmethod(np.ndarray.transpose)
    log = staticmethod(np.log)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


NUMPY = _NumPy()


def namespace(array: Any) -> Any:
    """Functions for an array: `NUMPY`, or those of the array's own library."""
    if isinstance(array, np.ndarray):
        return NUMPY
    return import_module("sklearn.externals.array_api_compat").array_namespace(array)


def to_host(array: Any) -> Any:
    """An array as NumPy's; anything that is no array of another library is left as it is."""
    if isinstance(array, np.ndarray):
        return array
    if isinstance(array, np.generic) or not hasattr(array, "dtype") or not hasattr(array, "device"):
        return array
    return _helpers()._convert_to_numpy(array, namespace(array))


def beside(array: Any, values: Any) -> Any:
    """Values of a NumPy array where another array is, in its precision."""
    if isinstance(array, np.ndarray):
        return values
    return Place(namespace(array), array.device).array(values, array.dtype)


def check_array_there(X: Any, place: Place) -> list[Any]:
    """Refuse what no pass can read where it is, before any work; returns the types that can be."""
    if getattr(X, "requires_grad", False):
        raise TypeError("X requires gradients, which a fit does not pass on; give X.detach().")
    if not str(getattr(X, "layout", "torch.strided")).endswith("strided"):
        raise TypeError(f"X is sparse ({X.layout}), but dense data is required; give X.to_dense().")
    kinds = [place.xp.float64, place.xp.float32]
    if X.dtype not in kinds:
        raise TypeError(f"X must be of float32 or float64 on its device, got {X.dtype}; convert it first.")
    is_missing = place.xp.isnan(X)
    if X.ndim == 2 and place.xp.any(is_missing):
        row, column = (int(at[0]) for at in place.xp.nonzero(is_missing))
        raise ValueError(
            f"X contains NaN at row {row}, column {column}, but arrays on devices must be complete; impute missing "
            "cells, or give EGMM a NumPy array."
        )
    return kinds


def check_on_host(what: str, X: Any, estimator: Any = None) -> None:
    """Refuse arrays of other libraries, as rows or fitted attributes, in computations that need NumPy."""
    if place_of(X) is not None or is_elsewhere(estimator):
        raise ValueError(f"{what} supports NumPy arrays only; convert X, and fit the model to NumPy arrays.")


# Fitted estimators --------------------------------------------------------------------------------------------


def follow(estimator: Any, place: Place | None) -> None:
    """Put an estimator's fitted arrays where the rows of the fit are, as scikit-learn's own estimators do."""
    if place is None:
        return
    for name, value in list(vars(estimator).items()):
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind in "fib":
            setattr(estimator, name, place.array(value))


def is_elsewhere(estimator: Any) -> bool:
    """Whether an estimator was fitted to arrays of another library."""
    means = getattr(estimator, "__dict__", {}).get("means_")
    return not isinstance(means, np.ndarray) and hasattr(means, "device")


def on_host(estimator: Any) -> Any:
    """The estimator, or a copy of it, with fitted arrays of NumPy; without labels, which nothing reads."""
    if not is_elsewhere(estimator):
        return estimator
    here = copy(estimator)
    vars(here).pop("labels_", None)
    for name, value in list(vars(here).items()):
        if name.endswith("_"):
            setattr(here, name, to_host(value))
    here._is_copy_on_host = True
    return here


def reads_rows(method: Method) -> Method:
    """Let a method of a fitted estimator read rows where they are, and give its result there.

    They must be where those of the fit were, which is scikit-learn's rule.
    """

    @wraps(method)
    def read(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if "_is_copy_on_host" in vars(self):  # One such method calls another.
            return method(self, X, *args, **options)
        place = place_of(X)
        if "means_" in vars(self) and (place is not None or is_elsewhere(self)):
            _helpers().check_same_namespace(X, self, attribute="means_", method=method.__name__)
        found = method(on_host(self), X, *args, **options)
        return place.array(found) if place is not None and isinstance(found, np.ndarray) else found

    return read  # type: ignore[return-value]
