"""What every fuzz test does: how often it tries, what it takes for an error in a sentence, and for a sound model."""

import warnings
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from sklearn.exceptions import ConvergenceWarning

SHORT = {
    "rows": 60,
    "peers": 40,
    "models": 120,
    "files": 80,
    "commands": 25,
    "partitions": 60,
    "knowledge": 40,
    "field": 40,
    "auto": 6,
    "auto files": 60,
    "partition files": 60,
    "predictions": 15,
}
"""Examples of each kind in a short run."""

SENTENCE = (ValueError, TypeError, OSError)
"""What may be raised; `LinAlgError` is a ValueError, but a bare one says nothing."""


def examples(kind: str) -> Any:
    """How many examples to try, and whether they are the same every time."""
    asked = settings.get_profile("fuzz")
    number = SHORT[kind] if asked.derandomize else asked.max_examples
    return settings(asked, max_examples=number, database=None, suppress_health_check=list(HealthCheck))


def check_sentence(error: BaseException) -> None:
    """An error must say something in words of ours."""
    text = str(error)
    assert len(text) > 15, repr(error)
    assert type(error) is not np.linalg.LinAlgError, repr(error)
    for of_others in ("unpack", "object has no attribute", "not subscriptable", "array is too big"):
        assert of_others not in text, repr(error)


def attempt(function: Any, *args: Any, **options: Any) -> Any:
    """Return the result, or None where it was refused in a sentence; other warnings than of convergence fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings(
            "ignore", category=UserWarning, message=r".*(degenerate|Skipped|no mass|too few|rows|largest tried).*"
        )
        try:
            return function(*args, **options)
        except SENTENCE as error:
            check_sentence(error)
            return None


def assert_sound(model: Any, X: np.ndarray) -> None:
    """Masses are masses, and every number of the model is one."""
    partition = model.partition(X)
    assert np.isfinite(partition.mass).all()
    assert (partition.mass >= 0).all()
    np.testing.assert_allclose(partition.mass.sum(axis=1), 1, atol=1e-8)
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, float | np.ndarray) and np.asarray(value).dtype.kind == "f":
            assert np.isfinite(value).all(), name
