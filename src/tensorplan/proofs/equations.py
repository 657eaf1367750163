"""Linear equations for θ*, as the checker derives them: values and their errors, from the equations listed before.

The checker's own: nothing of it is shared with the planners' :mod:`tensorplan.planners.affine`.  For any coefficients
k, <φ, θ*> differs from Σ_i k_i y_i by Σ_i |k_i| slack_i + B ‖φ - Σ_i k_i x_i‖ at most, so it does not matter how
they were found, but for how small that is.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from tensorplan.optimism.program import Array

EPSILON = 4 * float(np.finfo(float).eps)
"""What rounding adds, relative to the size of the terms, for each term of a sum."""

USELESS = 1e-9
"""An equation whose vector is left with less than this share of itself adds nothing."""


class DerivedEquations:
    """|<x_i, θ*> - y_i| <= slack_i for a growing list of i, with a triangular factorisation X = L Q."""

    def __init__(self, dimension: int, bound: float) -> None:
        self.bound = bound
        self.x = np.zeros((0, dimension))
        self.y: list[float] = []
        self.slack: list[float] = []
        self.q = np.zeros((0, dimension))
        self.lower = np.zeros((0, 0))

    def value(self, phi: Array) -> tuple[float, float]:
        """<φ, θ*> and how far off it may be."""
        if not self.y:
            return 0.0, self.bound * float(np.linalg.norm(phi))
        k = solve_triangular(self.lower, self.q @ phi, trans="T", lower=True)
        k += solve_triangular(self.lower, self.q @ (phi - k @ self.x), trans="T", lower=True)  # refined once
        error = float(np.abs(k) @ self.slack) + self.bound * float(np.linalg.norm(phi - k @ self.x))
        sums = float(np.abs(k) @ np.abs(self.y)) + self.bound * (1 + 2 * float(np.abs(k).sum()))
        return float(k @ self.y), error + len(k) * EPSILON * sums

    def add(self, x: Array, low: float, high: float) -> None:
        """<x, θ*> is in [low, high]; it is kept if it is independent of the others."""
        along = self.q @ x
        rest = x - along @ self.q
        more = self.q @ rest
        along, rest = along + more, rest - more @ self.q
        norm = float(np.linalg.norm(rest))
        if not norm > USELESS * float(np.linalg.norm(x)):
            return
        n = len(self.y)
        lower = np.zeros((n + 1, n + 1))
        lower[:n, :n], lower[n, :n], lower[n, n] = self.lower, along, norm
        self.lower, self.q = lower, np.vstack([self.q, rest / norm])
        self.x = np.vstack([self.x, x])
        self.y.append((low + high) / 2)
        self.slack.append((high - low) / 2)
