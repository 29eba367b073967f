"""A pass over rows where they are: what it needs of a model is carried there once, its sums come back as NumPy's."""

from typing import Any, NamedTuple

import numpy as np

from egmm._arrays import Place, namespace
from egmm._checks import FloatArray
from egmm.em.parameters import Components
from egmm.em.statistics import Units

FAR_IN_SINGLE = 1e3
"""Squared distance of a mean from the centre, in its cluster's deviations, up to which single precision serves: beyond,
log-densities would lose more than their fourth decimal."""


class UnitsThere(NamedTuple):
    """`Units` on a device; the centre has two parts, so that single precision keeps it far from the origin."""

    high: Any
    low: Any
    scale: Any
    log_volume: float

    def rows(self, X: Any) -> Any:
        """Rows in these units, in their precision."""
        rows = namespace(X).astype(X, self.scale.dtype, copy=False) - self.high
        rows -= self.low
        rows /= self.scale
        return rows


def units_there(units: Units, where: Place, dtype: Any) -> UnitsThere:
    """Copy units to a device."""
    is_single = dtype == where.xp.float32
    high = units.centre.astype(np.float32).astype(np.float64) if is_single else units.centre
    high, low, scale = (where.array(values, dtype) for values in (high, units.centre - high, units.scale))
    return UnitsThere(high, low, scale, units.log_volume)


HERE = {"is_far", "degrees", "kappa"}
"""Fields that stay on the host: `is_far` is read there, and heavy tails need NumPy arrays."""


class Carried(NamedTuple):
    """Inputs of a pass on a device. Annotated as the NumPy arrays that they replace."""

    model: Components
    shares: Any
    units: Any


def carried(model: Components, shares: FloatArray, units: Units, where: Place, dtype: Any) -> Carried:
    """Copy the inputs of a pass to a device."""
    parts = {name: where.array(part, dtype) for name, part in model._asdict().items() if name not in HERE}
    return Carried(model._replace(**parts), where.array(shares, dtype), units_there(units, where, dtype))


def precision_of(model: Components, where: Place, dtype: Any) -> Any:
    """The type of a pass: the rows' own, but double for clusters too far apart for single; None if there is none."""
    if dtype == where.xp.float64 or (model.whitened**2).sum(axis=-1).max() <= FAR_IN_SINGLE:
        return dtype
    return where.xp.float64 if where.has_double else None
