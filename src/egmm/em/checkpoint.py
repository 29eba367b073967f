"""The whole state of a fit in a file, so that a killed fit goes on where it was and ends with the same bits."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from egmm._files import read_npz, replacing
from egmm.em.accelerate import QuasiNewton
from egmm.em.loop import Ascent
from egmm.em.parameters import Parameters
from egmm.em.problem import Point, Problem
from egmm.em.statistics import Statistics

STEPS_BETWEEN = 5
"""Steps between writes: a few passes are all that a killed fit repeats."""

Arrays = dict[str, Any]


class Progressed(NamedTuple):
    """How far a fit has come, as arrays."""

    random: Arrays
    """State of the random stream when the fit began."""
    start: int
    """Number of the start it is ascending from."""
    ascent: Arrays
    best: Arrays
    """The best earlier ascent; empty at the first start."""


class Checkpoint:
    """A file, replaced every few steps, that belongs to one fit of one data set.

    Parameters
    ----------
    path : Path
        The file.
    settings : iterable
        All that decides the fit's course; a file written under others is refused.
    """

    def __init__(self, path: Path, settings: Iterable[Any]) -> None:
        if path.is_dir() or not path.parent.is_dir():
            raise FileNotFoundError(f"checkpoint must be a file in an existing directory, got {path}.")
        self._path = path
        text = repr([value.tobytes() if isinstance(value, np.ndarray) else value for value in settings])
        self._fingerprint = hashlib.sha256(text.encode()).hexdigest()

    def read(self) -> Progressed | None:
        """Return what the file holds; None where there is no file."""
        if not self._path.exists():
            return None
        try:
            arrays = read_npz(self._path)
            fingerprint = str(arrays.pop("fingerprint"))
            start = int(arrays.pop("start"))
            progressed = Progressed(_part(arrays, "random"), start, _part(arrays, "ascent"), _part(arrays, "best"))
        except (OSError, ValueError, KeyError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else error
            raise ValueError(
                f"checkpoint {self._path} cannot be read ({why}); name another file, or delete it to start anew."
            ) from error
        if fingerprint != self._fingerprint:
            raise ValueError(
                f"checkpoint {self._path} belongs to a fit of other data or with other parameters; "
                "delete it or name another file."
            )
        return progressed

    def write(self, progressed: Progressed) -> None:
        """Replace the file."""
        arrays: Arrays = {"fingerprint": self._fingerprint}
        for name, value in progressed._asdict().items():
            arrays.update({name: value} if isinstance(value, int) else _named(name, value))
        try:
            with replacing(self._path) as stream:
                np.savez(stream, **arrays)
        except OSError as error:
            raise OSError(error.errno, f"cannot write checkpoint {self._path}: {error.strerror or error}") from error

    def remove(self) -> None:
        """Remove the file of a fit that has ended."""
        self._path.unlink(missing_ok=True)


def pack_random(random: np.random.RandomState) -> Arrays:
    """State of a random stream."""
    _, keys, position, has_gauss, gauss = random.get_state(legacy=True)
    return {"keys": keys, "rest": np.array([position, has_gauss, gauss], dtype=float)}


def unpack_random(arrays: Arrays, random: np.random.RandomState) -> None:
    """Set a random stream to a packed state."""
    position, has_gauss, gauss = arrays["rest"]
    random.set_state(("MT19937", arrays["keys"], int(position), int(has_gauss), float(gauss)))


def pack_ascent(ascent: Ascent) -> Arrays:
    """All of an ascent but its problem."""
    arrays: Arrays = {
        "history": np.array(ascent.history),
        "counts": np.array([ascent.n_iter, ascent.n_passes, ascent.converged]),
        "ridge": ascent.problem.ridge,
        **_named("point", _pack_point(ascent.point)),
    }
    for at, point in enumerate(ascent.trail):
        arrays.update(_named(f"trail{at}", _pack_point(point)))
    if ascent.newton is not None:
        arrays.update(_named("newton", ascent.newton.pack()))
    return arrays


def unpack_ascent(arrays: Arrays, problem: Problem, tol: float, accelerate: bool) -> Ascent:
    """The ascent that was packed, on the same problem."""
    point = _unpack_point(_part(arrays, "point"), problem)
    n_iter, n_passes, converged = (int(count) for count in arrays["counts"])
    ascent = Ascent(problem, point, tol, accelerate, arrays["history"].tolist(), n_iter, bool(converged), n_passes)
    at = 0
    while _part(arrays, f"trail{at}"):
        ascent.trail.append(_unpack_point(_part(arrays, f"trail{at}"), problem))
        at += 1
    newton = _part(arrays, "newton")
    if newton:
        ascent.newton = QuasiNewton.unpack(newton, problem, point)
    return ascent


def _pack_point(point: Point) -> Arrays:
    statistics = point.statistics
    arrays: Arrays = {**point.params._asdict(), "set_counts": statistics.set_counts}
    arrays["cluster_sums"] = statistics.cluster_sums
    if statistics.cluster_scatters is not None:
        arrays["cluster_scatters"] = statistics.cluster_scatters
    arrays["values"] = np.array([statistics.log_likelihood, point.log_likelihood, point.objective])
    return arrays


def _unpack_point(arrays: Arrays, problem: Problem) -> Point:
    params = Parameters(*(arrays[name] for name in Parameters._fields))
    own, log_likelihood, objective = (float(value) for value in arrays["values"])
    statistics = Statistics(arrays["set_counts"], arrays["cluster_sums"], arrays.get("cluster_scatters"), own)
    model = problem.components(params)
    return Point(params, model, statistics, log_likelihood, objective)


def _named(prefix: str, arrays: Mapping[str, Any]) -> Arrays:
    return {f"{prefix}.{name}": value for name, value in arrays.items()}


def _part(arrays: Mapping[str, Any], prefix: str) -> Any:
    return {name.removeprefix(f"{prefix}."): value for name, value in arrays.items() if name.startswith(f"{prefix}.")}
