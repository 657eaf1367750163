"""Gaussian radial basis functions: ``rbfK`` is exp(-‖x-c‖²/2 width²) for c on a grid of K centres per side.

The squared norm is a product over coordinates, Π_j S(x_j) with S(u) = Σ_i exp(-(u-c_i)²/width²).  The features are
divided by σ^{k/2}, where σ >= max S is computed below.  Outside of [0, 1], S decreases with the distance, so that norms
are at most 1 there as well.
"""

from __future__ import annotations

import math
from itertools import product
from typing import ClassVar

import numpy as np

from tensorplan.core import Array
from tensorplan.features.frame import Frame
from tensorplan.features.maps import FrameMap, affordable, positive

POINTS = 129
"""Grid points for the maximum of S, enough for a relative error of 1.2e-4."""


class RadialBasis(FrameMap):
    """K centres per side, both ends included, d = K^k; the default width is their distance (scaled coordinates)."""

    beyond: ClassVar[bool] = True

    def __init__(self, frame: Frame, side: int, *, width: float | None = None) -> None:
        usual = 1 / max(side - 1, 1)
        self.width = usual if width is None else positive("width", width)
        name, k = f"rbf{side}" + ("" if self.width == usual else f":width={self.width!r}"), len(frame.varying)
        super().__init__(name, frame, affordable(name, side**k))
        self._centres = centres(side)
        self._steep = 1 / (math.sqrt(2) * self.width)
        self._scale = largest_sum(side, self.width) ** (-k / 2)

    def rows(self, unit: Array) -> Array:
        """The basis functions at scaled points (m, k) divided by σ^{k/2}, (m, d)."""
        distance = (unit[:, :, None] - self._centres) * self._steep
        bumps = np.exp(-distance * distance)
        out = np.full((len(unit), 1), self._scale)
        for j in range(unit.shape[1]):
            out = (out[:, :, None] * bumps[:, j, None, :]).reshape(len(unit), out.shape[1] * bumps.shape[2])
        return out

    def describe(self) -> tuple[str, ...]:
        """``bump at x0=-1.2, x1=0``, ... in the frame's own coordinates."""
        sides = [
            [f"{self.frame.names[i]}={low + c * (high - low):g}" for c in self._centres]
            for i in self.frame.varying
            for low, high in [(self.frame.low[i], self.frame.high[i])]
        ]
        return tuple(f"bump at {', '.join(centre)}" if centre else "bump" for centre in product(*sides))


def centres(side: int) -> Array:
    """K equidistant points of [0, 1], both ends included; the midpoint for K = 1."""
    return np.linspace(0.0, 1.0, side) if side > 1 else np.array([0.5])


def largest_sum(side: int, width: float) -> float:
    """An upper bound σ on the maximum of S(u) = Σ_i exp(-(u-c_i)²/width²) over [0, 1], too large by at most 1.2e-4.

    Let s be the distance of the centres.  S(u+s) - S(u) = g(u+s) - g(u-1) with g(z) = exp(-z²/width²) is non-negative
    for u <= (1-s)/2, so the maximum is attained within s/2 of the midpoint, and by symmetry below it.  There S is
    evaluated at points h apart: the maximum is at one of them, or S' = 0 there and S at the nearest point is lower by
    at most h²/8 max |S''|, where |g''(z)| <= 2.3 exp(-z²/2 width²)/width², and the sum of a unimodal function over the
    centres is at most its maximum plus its integral over s.

    For small widths: over infinitely many centres the sum is largest at a centre (the coefficients in Poisson's
    summation formula are positive), where it is 1 + 2 Σ q^{i²} with q = g(s).
    """
    if side == 1:
        return 1.0
    s, at = 1 / (side - 1), centres(side)
    if width < s / 4:
        q = math.exp(-((s / width) ** 2))
        return 1 + 2 * q / (1 - q)
    tried = np.linspace((1 - s) / 2, 0.5, POINTS)
    found = max(float(np.exp(-(((u - at) / width) ** 2)).sum()) for u in tried)
    h = s / 2 / (POINTS - 1)
    curvature = 2.3 / width**2 * (1 + math.sqrt(2 * math.pi) * width / s)
    return min(found + h**2 / 8 * curvature, float(side))
