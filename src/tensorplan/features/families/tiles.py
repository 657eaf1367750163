"""Tile coding (Sutton and Barto 2018, section 9.5.4): ``tilesKxM`` is M tilings with K tiles per side.

Each tiling has K^k tiles, and the feature of the tile that contains x is 1/√M: the norm is 1 at every point.  Tiling t
is shifted by t·(1, 3, 5, ...)/M tiles, modulo one tile: the asymmetric displacements of Miller and Glanz (1996).  Tiles
are 1/(K - (M-1)/M) wide, slightly more than 1/K, so that K of them cover the frame for every shift, and none lies
outside.
"""

from __future__ import annotations

import math
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array
from tensorplan.features.frame import Frame
from tensorplan.features.maps import FrameMap, affordable


class Tiles(FrameMap):
    """M tilings with K tiles per side, d = M K^k; M should be a power of two, at least 4k."""

    def __init__(self, frame: Frame, side: int, tilings: int) -> None:
        self.side, self.tilings = side, tilings
        name, k = f"tiles{side}x{tilings}", len(frame.varying)
        self._tiles = side**k
        super().__init__(name, frame, affordable(name, tilings * self._tiles))
        self._density = side - (tilings - 1) / tilings
        shifts = np.arange(tilings)[:, None] * np.array(displacement(k, tilings), dtype=np.int64)
        self._shifts = (shifts % tilings) / tilings
        self._strides = side ** np.arange(k - 1, -1, -1)
        self._first = np.arange(tilings) * self._tiles
        self._value = 1 / math.sqrt(tilings)

    def active(self, unit: Array) -> NDArray[np.int64]:
        """The indices of the nonzero features at scaled points (m, k), one per tiling, (m, M)."""
        tile = (unit[:, None, :] * self._density + self._shifts).astype(np.int64)
        np.minimum(tile, self.side - 1, out=tile)  # the last tile includes the upper end of the frame
        active: NDArray[np.int64] = tile @ self._strides + self._first
        return active

    def rows(self, unit: Array) -> Array:
        """The features of scaled points (m, k): 1/√M at the active ones, (m, d)."""
        out = np.zeros((len(unit), self.dimension))
        out[np.arange(len(unit))[:, None], self.active(unit)] = self._value
        return out

    def describe(self) -> tuple[str, ...]:
        """``tile 1 of 64, tiling 1 of 4``, ..."""
        tiles, tilings = range(1, self._tiles + 1), range(1, self.tilings + 1)
        return tuple(f"tile {i} of {self._tiles}, tiling {t} of {self.tilings}" for t in tilings for i in tiles)


def displacement(k: int, tilings: int) -> tuple[int, ...]:
    """The first k odd numbers coprime to M; a common factor would reduce the number of distinct shifts."""
    return tuple(islice((odd for odd in count(1, 2) if math.gcd(odd, tilings) == 1), k))
