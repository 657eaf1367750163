"""What a feature map is given: points x of a box in R^n, and stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array
from tensorplan.errors import BadInput, ProblemError
from tensorplan.specs import truth, whole

EXACT = 2**53
"""Whole numbers up to here are exact in double precision."""


@dataclass(frozen=True)
class Frame:
    """A box low <= x <= high in R^n; features take it as [0, 1]^k, where the k coordinates with low < high count.

    A coordinate with low = high tells nothing, and no map looks at it.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    whole: bool = False
    """Every coordinate takes the whole numbers low .. high only."""
    names: tuple[str, ...] = ()
    """Of the coordinates; x0, x1, ... unless given."""
    horizon: int | None = None
    """H, for maps that depend on the stage."""

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
        """The point in the middle, rounded down in a whole frame, (n,)."""
        middle = self._low + (self._high - self._low) / 2
        return np.floor(middle) if self.whole else middle

    def unit(self, points: Array) -> Array:
        """The points (..., n), clipped to the frame and scaled to [0, 1]^k, (..., k)."""
        kept = points[..., self._kept] if self._some_constant else points
        scaled: Array = (np.minimum(np.maximum(kept, self._low_kept), self._high_kept) - self._low_kept) / self._span
        total = np.add.reduce(scaled, axis=None)
        if total != total:  # faster than asking every coordinate
            raise ProblemError(f"the point {show(_first_nan(points))} has a coordinate that is not a number")
        return scaled

    def timed(self, last: int) -> Frame:
        """The frame with the stage, 0 .. last, as one more coordinate."""
        return Frame((*self.low, 0.0), (*self.high, float(last)), self.whole, (*self.names, "time"))

    # arrays, made once: unit() is on the planner's way

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
    def _low_kept(self) -> Array:
        return self._low[self._kept]

    @cached_property
    def _high_kept(self) -> Array:
        return self._high[self._kept]

    @cached_property
    def _span(self) -> Array:
        return self._high_kept - self._low_kept


def show(point: Array) -> str:
    """The point on one line, for messages."""
    return np.array2string(point, precision=6, threshold=8, max_line_width=10_000)


def _first_nan(points: Array) -> Array:
    rows = points.reshape(-1, points.shape[-1])
    first: Array = rows[int(np.isnan(rows).any(axis=1).argmax())]
    return first


def _floats(name: str, values: Any) -> tuple[float, ...]:
    try:
        return tuple(float(x) for x in values)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{name} of a frame must be a sequence of numbers, got {values!r}") from None


def _names(names: Sequence[str], size: int) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names) or len(names) not in (0, size):
        raise BadInput(f"a frame of {size} coordinates needs as many names, got {names!r}")
    return tuple(names) or tuple(f"x{i}" for i in range(size))
