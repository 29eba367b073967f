"""State of a fit in a file, so that a killed fit resumes with bit-identical results."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from egmm._checks import FloatArray, IntArray
from egmm._files import read_npz, replacing
from egmm.em.anderson import Memory
from egmm.em.ascent import Ascent, State
from egmm.em.parameters import Components, Parameters
from egmm.em.problem import Evaluation, Problem
from egmm.em.statistics import Statistics

STEPS_BETWEEN = 5
"""Steps between writes."""

VERSION = 2
"""Version of the file's content."""

RECORDS = {
    "evaluation": Evaluation,
    "params": Parameters,
    "model": Components,
    "statistics": Statistics,
    "memory": Memory,
}
"""Fields of the state that are records of arrays."""


class Checkpoint:
    """A file, replaced every few steps, that belongs to one fit of one data set.

    Parameters
    ----------
    path : Path
        The file.
    settings : iterable
        Everything that determines the fit; a file with other settings is an error.
    """

    def __init__(self, path: Path, settings: Iterable[Any]) -> None:
        if path.is_dir() or not path.parent.is_dir():
            raise FileNotFoundError(f"checkpoint must be a file in an existing directory, got {path}.")
        self._path = path
        values = [VERSION, *settings]
        text = repr([value.tobytes() if isinstance(value, np.ndarray) else value for value in values])
        self._fingerprint = hashlib.sha256(text.encode()).hexdigest()

    def read(self) -> dict[str, Any] | None:
        """Contents of the file; None if there is no file."""
        if not self._path.exists():
            return None
        try:
            arrays = read_npz(self._path)
            fingerprint = str(arrays.pop("fingerprint"))
            if fingerprint == self._fingerprint:
                _unflattened("state", State, arrays)
        except (OSError, ValueError, KeyError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else error
            raise ValueError(
                f"checkpoint {self._path} cannot be read ({why}); use another file, or delete it to start again."
            ) from error
        if fingerprint != self._fingerprint:
            raise ValueError(
                f"checkpoint {self._path} belongs to a fit of other data or with other parameters; "
                "delete it or use another file."
            )
        return dict(arrays)

    def write(self, ascent: Ascent, owner: IntArray) -> None:
        """Replace the file."""
        arrays = {
            "fingerprint": self._fingerprint,
            "owner": owner,
            "ridge": ascent.problem.settings.ridge,
            "first_covariances": ascent.first_covariances,
            "status": ascent.status,
            "history": np.array(ascent.history),
            "n_steps": np.array(ascent.n_steps),
            **_flattened("state", ascent.state),
        }
        try:
            with replacing(self._path) as stream:
                np.savez(stream, **arrays)
        except OSError as error:
            raise OSError(error.errno, f"cannot write checkpoint {self._path}: {error.strerror or error}") from error

    def unpack(
        self, arrays: Mapping[str, Any], problem: Problem, tol: FloatArray, *, accelerate: bool, gives_up: bool
    ) -> Ascent:
        """The saved ascent, on the same problem."""
        return Ascent(
            problem,
            tol,
            accelerate,
            _unflattened("state", State, arrays),
            arrays["first_covariances"],
            gives_up,
            arrays["status"],
            list(arrays["history"]),
            int(arrays["n_steps"]),
        )

    def remove(self) -> None:
        """Remove the file of a fit that has ended."""
        self._path.unlink(missing_ok=True)


def _flattened(prefix: str, record: Any) -> dict[str, Any]:
    """Arrays of nested records by their names."""
    found: dict[str, Any] = {}
    for name, part in record._asdict().items():
        if part is None:
            continue
        found |= _flattened(f"{prefix}.{name}", part) if isinstance(part, tuple) else {f"{prefix}.{name}": part}
    return found


def _unflattened(prefix: str, kind: Any, arrays: Mapping[str, Any]) -> Any:
    """The record whose arrays these are."""
    parts: dict[str, Any] = {}
    for name in kind._fields:
        key = f"{prefix}.{name}"
        if name in RECORDS:
            parts[name] = _unflattened(key, RECORDS[name], arrays)
        elif key in arrays or name not in kind._field_defaults:
            parts[name] = arrays[key]
    return kind(**parts)
