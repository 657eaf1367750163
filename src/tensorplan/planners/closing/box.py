"""Bounds on θ* along orthogonal directions, and the largest value of a quadratic form within them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensorplan.core import Array


MARGIN = 1e-9
"""How much bounds are rounded up, relatively, since they are computed in floating point; the checker rounds alike."""


@dataclass(frozen=True, eq=False)
class Box:
    """The θ with |<v_j, θ> - <v_j, centre>| <= reach_j for orthonormal v_j, and with ‖θ‖ <= radius."""

    centre: Array
    """(d,)"""
    directions: Array
    """The v_j, as columns, (d, d)."""
    reach: Array
    """(d,)"""
    radius: float

    @staticmethod
    def ball(radius: float, directions: Array) -> Box:
        """What is known beforehand."""
        d = len(directions)
        return Box(np.zeros(d), directions, np.full(d, radius), radius)

    def middle(self, form: Array) -> float:
        """[1, centre]ᵀ M [1, centre] for a positive semidefinite M, (d+1, d+1)."""
        centre = np.concatenate([[1.0], self.centre])
        return max(float(centre @ form @ centre), 0.0)

    def largest(self, form: Array) -> float:
        """An upper bound on [1, θ]ᵀ M [1, θ], for a positive semidefinite M, by the triangle inequality in its norm."""
        inner = form[1:, 1:]
        sides = np.einsum("ij,ij->j", self.directions, inner @ self.directions)
        within = math.sqrt(self.middle(form)) + float(self.reach @ np.sqrt(np.maximum(sides, 0.0)))
        trace = max(float(np.trace(inner)), 0.0)
        anywhere = math.sqrt(max(float(form[0, 0]), 0.0)) + self.radius * math.sqrt(trace)
        return (1 + MARGIN) * min(within, anywhere) ** 2
