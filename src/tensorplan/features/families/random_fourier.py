"""Random Fourier features (Rahimi and Recht 2007): inner products approximate a Gaussian kernel.

With w_1, ..., w_m drawn from N(0, I/width²), m = ⌈D/2⌉,

    φ(x) = (cos<w_1, x>, ..., cos<w_m, x>, sin<w_1, x>, ..., sin<w_m, x>) / √m,
    E <φ(x), φ(y)> = exp(-‖x-y‖²/2 width²).

The norm is 1 at every point of R^k; for odd D the last sine is omitted, and the norm is at most 1.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from tensorplan.core import Array
from tensorplan.core.errors import BadInput
from tensorplan.features.frame import Frame
from tensorplan.features.maps import FrameMap, affordable, positive

ENTRIES = 10**8
"""The most entries of the matrix of frequencies, to bound memory."""


class RandomFourier(FrameMap):
    """D random Fourier features of coordinates scaled to [0, 1], drawn with ``seed``; the default width is √k/4."""

    beyond: ClassVar[bool] = True

    def __init__(
        self, frame: Frame, count: int, seed: int | tuple[int, ...] = 0, *, width: float | None = None
    ) -> None:
        k = len(frame.varying)
        usual = max(1.0, math.sqrt(k)) / 4
        self.width = usual if width is None else positive("width", width)
        name = f"rff{count}" + ("" if self.width == usual else f":width={self.width!r}")
        super().__init__(name, frame, affordable(name, count))
        half = (count + 1) // 2
        if k * half > ENTRIES:
            raise BadInput(f"{name!r} would need {k:,} x {half:,} frequencies here, more than {ENTRIES:,}")
        self._frequencies = np.random.default_rng(seed).standard_normal((k, half)) / self.width
        self._scale = 1 / math.sqrt(half)

    def rows(self, unit: Array) -> Array:
        """The cosines and sines at scaled points (m, k), (m, d)."""
        angles = unit @ self._frequencies
        half = angles.shape[1]
        out = np.empty((len(unit), self.dimension))
        np.cos(angles, out=out[:, :half])
        np.sin(angles[:, : self.dimension - half], out=out[:, half:])
        out *= self._scale
        return out

    def describe(self) -> tuple[str, ...]:
        """``cos 1 of 50``, ..., ``sin 50 of 50``."""
        half = self._frequencies.shape[1]
        return tuple(f"{'cos' if i < half else 'sin'} {i % half + 1} of {half}" for i in range(self.dimension))
