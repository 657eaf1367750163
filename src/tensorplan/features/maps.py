"""The interface of feature maps, and the base classes of the built-in ones."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from tensorplan.core import Array
from tensorplan.core.errors import BadInput, TensorplanError
from tensorplan.core.specs import number
from tensorplan.features.frame import Frame

LIMIT = 1_000_000
"""The largest dimension of a map, to bound memory."""

SMALLEST = 1e-9
"""The least width or scale, so that division by it does not overflow."""


@runtime_checkable
class FeatureMap(Protocol):
    """A map φ from points and stages to R^d, with norms at most 1."""

    @property
    def name(self) -> str:
        """The spec, such as ``poly2+tiles8x4@stage``, or the name of the user's function or transformer."""

    @property
    def dimension(self) -> int:
        """The dimension d."""

    @property
    def names(self) -> tuple[str, ...]:
        """A readable name for each feature, (d,)."""

    def __call__(self, x: Array, stage: int) -> Array:
        """φ(x, stage) for one point (n,), (d,)."""

    def many(self, points: Array, stages: ArrayLike) -> Array:
        """φ for points (m, n) and stages (m,), or one stage for all, (m, d)."""


class BaseMap:
    """A feature map with a name, a ``repr``, and ``many`` as a loop over single calls."""

    def __init__(self, name: str, dimension: int) -> None:
        self._name = name
        self._dimension = dimension

    @property
    def name(self) -> str:
        """The spec of the map."""
        return self._name

    @property
    def dimension(self) -> int:
        """The dimension d."""
        return self._dimension

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A readable name for each feature, (d,); computed at the first access, since there may be many."""
        return self.describe()

    def describe(self) -> tuple[str, ...]:
        """The names of the features, (d,)."""
        return tuple(f"{self.name}[{i}]" for i in range(self.dimension))

    def __call__(self, x: Array, stage: int) -> Array:
        """φ(x, stage), (d,)."""
        raise NotImplementedError

    def many(self, points: Array, stages: ArrayLike) -> Array:
        """φ for points (m, n) and stages (m,), or one stage for all, (m, d)."""
        points = np.asarray(points, dtype=np.float64)
        rows = [self(x, stage) for x, stage in zip(points, spread(stages, len(points)), strict=True)]
        return np.array(rows).reshape(len(points), self.dimension)

    def __repr__(self) -> str:
        try:
            return f"<features {self.name}: dimension {self.dimension:,}>"
        except TensorplanError:
            return f"<features {self.name}: dimension not known yet>"


class FrameMap(BaseMap):
    """A map on the points of a frame, scaled to [0, 1]^k; it does not depend on the stage."""

    beyond: ClassVar[bool] = False
    """Whether the map extends beyond the frame with norms at most 1, and separates points there."""

    def __init__(self, name: str, frame: Frame, dimension: int) -> None:
        super().__init__(name, dimension)
        self.frame = frame

    def rows(self, unit: Array) -> Array:
        """φ for scaled points (m, k), (m, d)."""
        raise NotImplementedError

    def __call__(self, x: Array, stage: int) -> Array:
        """φ(x), (d,)."""
        row: Array = self.rows(self.frame.unit(points_of(x, 1, self.frame.size, self.name)[None], self.beyond))[0]
        return row

    def many(self, points: Array, stages: ArrayLike) -> Array:
        """φ for points (m, n), (m, d)."""
        return self.rows(self.frame.unit(points_of(points, 2, self.frame.size, self.name), self.beyond))


def points_of(points: Any, axes: int, size: int, name: str) -> Array:
    """The points as an array, (n,) for one axis and (m, n) for two; BadInput if they have another shape."""
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"{name!r} takes points of {size} numbers, got {points!r}") from None
    if array.ndim != axes or array.shape[-1] != size:
        raise BadInput(f"{name!r} takes points of {size} numbers, got shape {array.shape}")
    return array


def spread(stages: ArrayLike, count: int) -> list[int]:
    """The stages broadcast to ``count`` points."""
    broadcast: list[int] = np.broadcast_to(np.asarray(stages, dtype=np.intp), (count,)).tolist()
    return broadcast


def affordable(name: str, dimension: int, limit: int = LIMIT, hint: str = "") -> int:
    """The dimension; BadInput if it is above the limit."""
    if dimension <= limit:
        return dimension
    size = f"{dimension:,}" if dimension < 10**15 else f"about 10^{math.log10(dimension):.0f}"
    raise BadInput(f"{name!r} would have {size} features here, more than {limit:,}{hint}")


def positive(name: str, value: Any) -> float:
    """The value as a positive float; BadInput naming it if it is not one."""
    return number(name, value, SMALLEST)
