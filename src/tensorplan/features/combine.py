"""Combined maps: ``A+B`` (concatenation), ``A@stage`` (a block per stage), ``A@time`` (time as a coordinate)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tensorplan.core import Array
from tensorplan.core.errors import BadInput
from tensorplan.features.maps import BaseMap, FeatureMap, FrameMap, affordable, points_of, spread


class Concatenated(BaseMap):
    """The concatenated features of p maps, each divided by √p, so that the norm is at most 1."""

    def __init__(self, parts: Sequence[FeatureMap]) -> None:
        super().__init__("+".join(part.name for part in parts), 0)
        self.parts = tuple(parts)
        self._scale = 1 / math.sqrt(len(parts))

    @property
    def dimension(self) -> int:
        """The sum of the dimensions of the parts."""
        return sum(part.dimension for part in self.parts)

    def describe(self) -> tuple[str, ...]:
        """The names of the features of all parts."""
        return tuple(name for part in self.parts for name in part.names)

    def __call__(self, x: Array, stage: int) -> Array:
        """The features of all parts, (d,)."""
        out: Array = np.concatenate([part(x, stage) for part in self.parts])
        out *= self._scale
        return out

    def many(self, points: Array, stages: ArrayLike) -> Array:
        """The features of all parts, (m, d)."""
        out: Array = np.concatenate([part.many(points, stages) for part in self.parts], axis=1)
        out *= self._scale
        return out


class Staged(BaseMap):
    """A block of features for each of H stages: the features of x in the block of the stage, zeros elsewhere."""

    def __init__(self, inner: FeatureMap, horizon: int) -> None:
        name = f"{inner.name}@stage"
        super().__init__(name, affordable(name, inner.dimension * horizon))
        self.inner, self.horizon = inner, horizon

    def describe(self) -> tuple[str, ...]:
        """``stage 0: x0``, ..."""
        return tuple(f"stage {h}: {name}" for h in range(self.horizon) for name in self.inner.names)

    def __call__(self, x: Array, stage: int) -> Array:
        """The features of x in the block of the stage, (H d)."""
        self._check(stage)
        out = np.zeros(self.dimension)
        d = self.inner.dimension
        out[stage * d : (stage + 1) * d] = self.inner(x, stage)
        return out

    def many(self, points: Array, stages: ArrayLike) -> Array:
        """The features of points (m, n), each in the block of its stage, (m, H d)."""
        rows = self.inner.many(points, stages)
        blocks = spread(stages, len(rows))
        for stage in set(blocks):
            self._check(stage)
        out = np.zeros((len(rows), self.horizon, self.inner.dimension))
        out[np.arange(len(rows)), blocks] = rows
        return out.reshape(len(rows), self.dimension)

    def _check(self, stage: int) -> None:
        if not 0 <= stage < self.horizon:
            raise BadInput(f"{self.name!r} has features for the stages 0 to {self.horizon - 1}, got stage {stage}")


class Timed(BaseMap):
    """The features of (x, stage), by a map on a frame whose last coordinate is the stage."""

    def __init__(self, inner: FrameMap) -> None:
        super().__init__(f"{inner.name}@time", inner.dimension)
        self.inner = inner
        self._size = inner.frame.size - 1

    def describe(self) -> tuple[str, ...]:
        """The names of the inner map, with ``time`` as a coordinate."""
        return self.inner.names

    def __call__(self, x: Array, stage: int) -> Array:
        """The features of (x, stage), (d,)."""
        point = np.empty(self._size + 1)
        point[:-1] = points_of(x, 1, self._size, self.name)
        point[-1] = stage
        return self.inner(point, stage)

    def many(self, points: Array, stages: ArrayLike) -> Array:
        """The features of points (m, n) at stages (m,), (m, d)."""
        points = points_of(points, 2, self._size, self.name)
        return self.inner.many(np.column_stack((points, spread(stages, len(points)))), stages)


def join(maps: Sequence[FeatureMap]) -> FeatureMap:
    """The concatenation of the maps, or the only one."""
    return maps[0] if len(maps) == 1 else Concatenated(maps)
