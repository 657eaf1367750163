"""Images as points: averages over the blocks of a small grid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from tensorplan.core import Array

MOST_CELLS = 64
"""Most coordinates of an image: quadratic features of them are 2,145, which planners can still use."""

SMALL_IMAGE = 1024
"""Images of at most so many numbers stay as they are by default: those of MinAtar and MiniGrid have up to 1,000."""

COLOURS = 3
"""As many channels are red, green and blue, and averaged to gray."""


def is_image(space: spaces.Box) -> bool:
    """Whether the box may be an image, of any size: two to four dimensions, with finite ends."""
    return 2 <= len(space.shape) <= 4 and bool(np.isfinite(space.low).all() and np.isfinite(space.high).all())


def is_large_image(space: spaces.Box) -> bool:
    """Whether the box is an image that is reduced by default: bytes, booleans, or numbers in [0, 1], and many."""
    if not is_image(space) or math.prod(space.shape) <= SMALL_IMAGE:
        return False
    return space.dtype in (np.uint8, np.bool_) or bool((space.low == 0).all() and (space.high == 1).all())


class ImageGrid:
    """The averages of an image over the blocks of a grid, scaled to [0, 1].

    Images are (rows, columns), with channels last or first, whichever axis is shorter, or stacks of frames with
    channels, (frames, rows, columns, channels).  Three channels are averaged to gray; others are kept.
    """

    def __init__(self, space: spaces.Box) -> None:
        self.axes = _axes(space.shape)
        rows, columns, *rest = (space.shape[axis] for axis in self.axes)
        self.gray = rest[-1:] == [COLOURS]
        self.kept = tuple(rest[:-1] if self.gray else rest)
        side = max(math.isqrt(MOST_CELLS // math.prod(self.kept)), 1)
        self.shape = (min(rows, side), min(columns, side))
        self.rows, self.columns = (_ends(n, k) for n, k in zip((rows, columns), self.shape, strict=True))
        self._low, self._width = _range(space)
        self._sums = _sum_type(space)
        counts = np.multiply.outer(np.diff(self.rows), np.diff(self.columns)) * (COLOURS if self.gray else 1)
        self._counts = counts.reshape(*self.shape, *(1 for _ in self.kept)).astype(np.float64)

    def __call__(self, image: Any) -> Array:
        """The averages, raveled, (k,)."""
        image = np.asarray(image).transpose(self.axes)
        bands = [image[a:b].sum(axis=0, dtype=self._sums) for a, b in zip(self.rows, self.rows[1:], strict=False)]
        sums = np.add.reduceat(np.array(bands), self.columns[:-1], axis=1)
        means: Array = (sums.sum(axis=-1) if self.gray else sums) / self._counts
        return np.ravel((means - self._low) / self._width)

    def names(self, label: str) -> tuple[str, ...]:
        """``image gray 8x8[0,1]``, ..."""
        rows, columns = self.shape
        head = f"{label or 'image'} {'gray ' if self.gray else ''}{rows}x{columns}"
        return tuple(f"{head}[{','.join(map(str, index))}]" for index in np.ndindex(*self.shape, *self.kept))


def _axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes in the order rows, columns, others."""
    if len(shape) == 2:
        return (0, 1)
    if len(shape) == 3:
        return (1, 2, 0) if shape[0] < shape[2] else (0, 1, 2)
    return (1, 2, 0, 3)


def _ends(n: int, blocks: int) -> list[int]:
    """0 = e_0 < ... < e_blocks = n, with about the same distances."""
    return [i * n // blocks for i in range(blocks + 1)]


def _sum_type(space: spaces.Box) -> Any:
    """The type of sums of entries: exact for whole numbers; uint32, the fastest, holds 4,000 x 4,000 bytes."""
    if space.dtype in (np.uint8, np.bool_):
        return np.uint32
    return np.int64 if np.issubdtype(space.dtype, np.integer) else np.float64


def _range(space: spaces.Box) -> tuple[float, float]:
    """The low end of all entries, and the width of their range, or 1 if it is 0."""
    low, high = float(space.low.min()), float(space.high.max())
    return low, high - low if high > low else 1.0
