"""Indicators of cells: ``onehot`` has one per point of a whole frame, ``aggregateK`` one per cell of a K^k grid."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from tensorplan.core import Array
from tensorplan.core.errors import BadInput
from tensorplan.features.frame import Frame
from tensorplan.features.maps import FrameMap, affordable


class Cells(FrameMap):
    """The indicator of the cell that contains the point, d = Π sides; the norm is 1 at every point.

    ``sides`` (k,) is the number of parts of each coordinate.  In a whole frame points are rounded, and the numbers of
    values in the parts of a coordinate differ by at most one.
    """

    def __init__(self, name: str, frame: Frame, sides: tuple[int, ...]) -> None:
        super().__init__(name, frame, affordable(name, math.prod(sides)))
        self._sides = sides
        self._parts = np.array(sides, dtype=np.float64)
        self._counts = np.array(varying_counts(frame), dtype=np.float64) if frame.whole else np.empty(0)
        self._strides = self.dimension / np.cumprod(self._parts)  # whole numbers

    def rows(self, unit: Array) -> Array:
        """The indicators at scaled points (m, k), (m, d)."""
        if self.frame.whole:
            part = np.floor(np.rint(unit * (self._counts - 1)) * self._parts / self._counts)
        else:
            part = np.minimum(np.floor(unit * self._parts), self._parts - 1)
        out = np.zeros((len(unit), self.dimension))
        out[np.arange(len(unit)), (part @ self._strides).astype(np.intp)] = 1.0
        return out

    def describe(self) -> tuple[str, ...]:
        """``x0=3, x1 in 4..7``, or ``x0 in [0, 0.25)``, ..."""
        sides = [[self._part(j, p) for p in range(side)] for j, side in enumerate(self._sides)]
        return tuple(", ".join(cell) or "1" for cell in product(*sides))

    def _part(self, j: int, part: int) -> str:
        i, side = self.frame.varying[j], self._sides[j]
        name, low, high = self.frame.names[i], self.frame.low[i], self.frame.high[i]
        if not self.frame.whole:
            ends = [low + (high - low) * p / side for p in (part, part + 1)]
            return f"{name} in [{ends[0]:g}, {ends[1]:g}{')' if part < side - 1 else ']'}"
        count = int(high) - int(low) + 1
        first, following = (int(low) - (-p * count // side) for p in (part, part + 1))
        return f"{name}={first}" if following == first + 1 else f"{name} in {first}..{following - 1}"


class OneHot(Cells):
    """One feature for each point of a whole frame."""

    def __init__(self, frame: Frame) -> None:
        if not frame.whole:
            raise BadInput(
                "'onehot' needs a frame of whole numbers, and this one is continuous: try aggregate8 or tiles8x4"
            )
        super().__init__("onehot", frame, varying_counts(frame))


class Aggregate(Cells):
    """One feature for each of K parts per side, or for each value of a whole coordinate with fewer than K."""

    def __init__(self, frame: Frame, side: int) -> None:
        most = varying_counts(frame) if frame.whole else (side,) * len(frame.varying)
        super().__init__(f"aggregate{side}", frame, tuple(min(side, count) for count in most))


def varying_counts(frame: Frame) -> tuple[int, ...]:
    """The numbers of values of the varying coordinates of a whole frame, (k,)."""
    return tuple(count for count in frame.counts if count > 1)
