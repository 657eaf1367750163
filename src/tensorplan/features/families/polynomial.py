"""Monomials: ``polyK`` has all products of at most K coordinates, the constant included.

Coordinates are scaled to [-1, 1], so every monomial is in [-1, 1] and is ±1 at the corners: divided by √d, the norm is
at most 1, with equality at the corners.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array
from tensorplan.features.frame import Frame
from tensorplan.features.maps import FrameMap, affordable

Indices = NDArray[np.intp]


class Polynomial(FrameMap):
    """All monomials of total degree <= K in k coordinates, d = (k+K choose K), by degree and then in lexical order."""

    def __init__(self, frame: Frame, degree: int) -> None:
        self.degree = degree
        name, k = f"poly{degree}", len(frame.varying)
        super().__init__(name, frame, affordable(name, math.comb(k + degree, degree)))
        self._scale = 1 / math.sqrt(self.dimension)
        self._steps = _steps(k, degree)

    def rows(self, unit: Array) -> Array:
        """The monomials of scaled points (m, k) divided by √d, (m, d)."""
        centred = 2 * unit - 1
        out = np.empty((len(unit), self.dimension))
        out[:, 0] = self._scale
        for block, parent, factor in self._steps:
            np.multiply(out.take(parent, axis=1), centred.take(factor, axis=1), out=out[:, block])
        return out

    def describe(self) -> tuple[str, ...]:
        """``1``, ``x0``, ``x0*x1``, ``x0^2``, ... in scaled coordinates."""
        names = self.frame.varying_names
        sets = (c for g in range(self.degree + 1) for c in combinations_with_replacement(names, g))
        return tuple("*".join(_power(*item) for item in Counter(c).items()) or "1" for c in sets)


def _steps(k: int, degree: int) -> list[tuple[slice, Indices, Indices]]:
    """The columns of each degree as a block, and each column as an earlier one times a coordinate.

    A monomial x_a ... x_b, a <= ... <= b, is extended by x_b, ..., x_{k-1}.
    """
    steps = []
    start, last = 0, np.zeros(1, dtype=np.intp)
    for _ in range(degree if k else 0):
        ways = k - last
        parent = np.repeat(np.arange(start, start + len(last)), ways)
        factor = np.arange(len(parent)) - np.repeat(np.cumsum(ways) - ways - last, ways)
        start += len(last)
        steps.append((slice(start, start + len(parent)), parent, factor))
        last = factor
    return steps


def _power(name: str, exponent: int) -> str:
    return name if exponent == 1 else f"{name}^{exponent}"
