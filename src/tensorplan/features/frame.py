"""The domain of feature maps: a box in R^n, and stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array
from tensorplan.core.errors import BadInput, ProblemError
from tensorplan.core.specs import truth, whole

EXACT = 2**53
"""Whole numbers up to here are exact in double precision."""

SLACK = 1e-6
"""Tolerance for points outside of the frame (rounding), relative to the width of a coordinate, or 1 if whole."""

RESOLUTION = 2.0**-23
"""The same relative to the larger end: observations are often in single precision."""


@dataclass(frozen=True)
class Frame:
    """A box low <= x <= high in R^n, scaled to [0, 1]^k by feature maps, where k coordinates have low < high.

    Maps ignore coordinates with low = high.  Points outside are an error: clipped they would coincide with other
    points, and unclipped their features may have a norm above 1.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    whole: bool = False
    """Whether every coordinate takes only the whole numbers low .. high."""
    names: tuple[str, ...] = ()
    """Names of the coordinates; x0, x1, ... unless given."""
    horizon: int | None = None
    """H, for maps that depend on the stage."""
    guessed: tuple[int, ...] = ()
    """Coordinates whose ends were not declared but estimated from points."""

    def __post_init__(self) -> None:
        fix = object.__setattr__
        fix(self, "low", _floats("low", self.low))
        fix(self, "high", _floats("high", self.high))
        fix(self, "whole", truth("whole", self.whole))
        if not self.low or len(self.low) != len(self.high):
            raise BadInput(f"a frame needs as many low as high ends, got {len(self.low)} and {len(self.high)}")
        fix(self, "names", _names(self.names, len(self.low)))
        for name, low, high in zip(self.names, self.low, self.high, strict=True):
            if not (low <= high and math.isfinite(high - low)):
                raise BadInput(f"the frame of {name} must have finite ends low <= high, got {low:g} and {high:g}")
            if self.whole and not (low.is_integer() and high.is_integer() and max(-low, high) <= EXACT):
                raise BadInput(f"the frame of {name} must end at whole numbers up to 2^53, got {low:g} and {high:g}")
        if self.horizon is not None:
            fix(self, "horizon", whole("horizon", self.horizon, 1))

    @property
    def size(self) -> int:
        """n, the number of coordinates."""
        return len(self.low)

    @cached_property
    def varying(self) -> tuple[int, ...]:
        """The coordinates with low < high, (k,)."""
        return tuple(i for i, (low, high) in enumerate(zip(self.low, self.high, strict=True)) if low < high)

    @property
    def varying_names(self) -> tuple[str, ...]:
        """The names of the coordinates with low < high, (k,)."""
        return tuple(self.names[i] for i in self.varying)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many values each coordinate of a whole frame takes, (n,)."""
        if not self.whole:
            raise BadInput("the values of a continuous frame cannot be counted")
        return tuple(int(high) - int(low) + 1 for low, high in zip(self.low, self.high, strict=True))

    @property
    def cells(self) -> int:
        """The number of points of a whole frame."""
        return math.prod(self.counts)

    @property
    def middle(self) -> Array:
        """The centre, rounded down in a whole frame, (n,)."""
        middle = self._low + (self._high - self._low) / 2
        return np.floor(middle) if self.whole else middle

    def unit(self, points: Array, beyond: bool = False) -> Array:
        """The points (..., n) scaled to [0, 1]^k, (..., k); a point outside of the frame is an error.

        With ``beyond``, only in declared coordinates: guessed ones may take any value.
        """
        scaled: Array = (points - self._low) / self._width
        if not (
            np.minimum.reduce(scaled, axis=None, initial=0.0) >= 0
            and np.maximum.reduce(scaled, axis=None, initial=1.0) <= 1
        ):  # faster than a test of every coordinate
            scaled = self._moved(points, scaled, beyond)
        return scaled[..., self._kept] if self._some_constant else scaled

    def _moved(self, points: Array, scaled: Array, beyond: bool) -> Array:
        """The scaled points, clipped if they are outside by rounding only; others raise ProblemError."""
        outside = ~((scaled >= -self._slack) & (scaled <= 1 + self._slack))
        free = self._free if beyond else np.zeros(self.size, dtype=bool)
        wrong = outside & ~(free & np.isfinite(scaled))
        if wrong.any():
            row, coordinate = np.argwhere(wrong.reshape(-1, self.size))[0].tolist()
            raise self._refusal(points.reshape(-1, self.size)[row], coordinate)
        return np.where(free, scaled, np.clip(scaled, 0.0, 1.0))

    def _refusal(self, point: Array, coordinate: int) -> ProblemError:
        """The error for a point outside of the frame, with a remedy."""
        value, low, high = float(point[coordinate]), self.low[coordinate], self.high[coordinate]
        if math.isnan(value):
            return ProblemError(f"the point {show(point)} has a coordinate that is not a number")
        where = (
            f"{self.names[coordinate]} = {value:.9g} at the point {show(point)} is outside of [{low:.9g}, {high:.9g}]"
        )
        if coordinate in self.guessed:
            return ProblemError(f"{where}, an estimate from random play: give frame=(low, high)")
        return ProblemError(f"{where}: declare a larger space, or give a larger frame=(low, high)")

    def timed(self, last: int) -> Frame:
        """The frame with the stage, 0 .. last, as an additional coordinate."""
        names = (*self.names, "time")
        return Frame((*self.low, 0.0), (*self.high, float(last)), self.whole, names, guessed=self.guessed)

    # cached as arrays, because unit() is called in the inner loop of planners

    @cached_property
    def _low(self) -> Array:
        return np.array(self.low)

    @cached_property
    def _high(self) -> Array:
        return np.array(self.high)

    @cached_property
    def _kept(self) -> NDArray[np.intp]:
        return np.array(self.varying, dtype=np.intp)

    @cached_property
    def _some_constant(self) -> bool:
        return len(self.varying) < self.size

    @cached_property
    def _tolerance(self) -> Array:
        """The tolerance in the units of each coordinate, (n,)."""
        if self.whole:
            return np.full(self.size, SLACK)
        return SLACK * (self._high - self._low) + RESOLUTION * np.maximum(abs(self._low), abs(self._high))

    @cached_property
    def _width(self) -> Array:
        """high - low, or the tolerance where that is 0, so that a supposedly constant coordinate is checked, (n,)."""
        span = self._high - self._low
        return np.where(span > 0, span, np.maximum(self._tolerance, SLACK))

    @cached_property
    def _slack(self) -> Array:
        """The tolerance in scaled coordinates, (n,)."""
        slack: Array = self._tolerance / self._width
        return slack

    @cached_property
    def _free(self) -> NDArray[np.bool_]:
        """Whether each coordinate was guessed, (n,)."""
        return np.isin(np.arange(self.size), self.guessed)


def show(point: Array) -> str:
    """The point on one line, for messages."""
    return np.array2string(point, precision=6, threshold=8, max_line_width=10_000)


def _floats(name: str, values: Any) -> tuple[float, ...]:
    try:
        return tuple(float(x) for x in values)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{name} of a frame must be a sequence of numbers, got {values!r}") from None


def _names(names: Sequence[str], size: int) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names) or len(names) not in (0, size):
        raise BadInput(f"a frame of {size} coordinates needs as many names, got {names!r}")
    return tuple(names) or tuple(f"x{i}" for i in range(size))
