"""Bounds on θ* along orthogonal directions, and the largest value of a quadratic form within them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensorplan.core import Array

MARGIN = 1e-6
"""How much bounds are rounded up, relatively, since they are computed in floating point."""


@dataclass(frozen=True, eq=False)
class Box:
    """The θ with |<v_j, θ> - <v_j, centre>| <= reach_j for some orthonormal v_j, and with ‖θ‖ <= radius."""

    centre: Array
    """(d,)"""
    directions: Array
    """The v_j, as columns, (d, k)."""
    reach: Array
    """(k,)"""
    radius: float

    @staticmethod
    def ball(radius: float, dimension: int) -> Box:
        """What is known beforehand."""
        return Box(np.zeros(dimension), np.zeros((dimension, 0)), np.zeros(0), radius)

    @staticmethod
    def within(directions: Array, low: Array, high: Array, radius: float) -> Box:
        """From bounds on all <v_j, θ>."""
        low, high = np.maximum(low, -radius), np.minimum(high, radius)
        reach = np.maximum(high - low, 0.0) / 2 + MARGIN * radius
        return Box(directions @ ((high + low) / 2), directions, reach, radius)

    def largest(self, form: Array) -> float:
        """An upper bound on [1, θ]ᵀ M [1, θ], for a positive semidefinite M, by the triangle inequality in its norm.

        θ is the centre, plus at most reach_j along v_j, plus at most the radius in directions orthogonal to all v_j.
        """
        inner, centre = form[1:, 1:], np.concatenate([[1.0], self.centre])
        sides = np.maximum(np.einsum("ij,ij->j", self.directions, inner @ self.directions), 0.0)
        trace = max(float(np.trace(inner)), 0.0)
        rest = max(trace - float(sides.sum()), 0.0) if len(self.reach) < len(self.centre) else 0.0
        middle = math.sqrt(max(float(centre @ form @ centre), 0.0))
        within = middle + float(self.reach @ np.sqrt(sides)) + self.radius * math.sqrt(rest)
        anywhere = math.sqrt(max(float(form[0, 0]), 0.0)) + self.radius * math.sqrt(trace)
        return (1 + MARGIN) * min(within, anywhere) ** 2
