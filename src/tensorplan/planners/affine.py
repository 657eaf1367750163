"""Equations for θ*, and what follows from them: |<x_i, θ*> - y_i| <= slack_i, orthogonalised as they come in.

An orthonormal basis q_j = Σ_i w_ji x_i of the span is kept with its weights.  For any vector φ = Σ_j c_j q_j + rest

    |<φ, θ*> - Σ_i (c w)_i y_i|  <=  Σ_i |(c w)_i| slack_i + ‖rest‖ sqrt(B² - what the equations use up),

which holds however the coefficients c were computed: rounding in them shows in the rest.  So errors are bounds, and a
value is *determined* when its bound is small enough.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tensorplan.core import Array

RANK = 1e-7
"""A vector is in the span if what is left of it is below this, relative to the largest one seen."""

ROUNDING = 1e-12
"""By how much, relative to 1 + B, equations may be off, since features and rewards are floats."""

FIRST = 16
"""Equations that there is room for at first; the room doubles."""


class Look(NamedTuple):
    """What the equations say of some vectors: |<φ, θ*> - values| <= errors."""

    values: Array
    errors: Array
    outside: Array
    """The norm of what is not in the span, zero where that is rounding."""

    @property
    def determined(self) -> bool:
        """Whether all of them are in the span."""
        return not self.outside.any()

    @property
    def best(self) -> tuple[float, float]:
        """The range of the largest <φ, θ*>."""
        return float((self.values - self.errors).max()), float((self.values + self.errors).max())


class Independent(NamedTuple):
    """The equations that are independent of those before them, and the orthonormal basis q_j = Σ_i weights_ji x_i."""

    basis: Array
    weights: Array
    y: Array
    slack: Array


class AffineSet:
    """The parameters in the ball ‖θ‖ <= B that satisfy the equations so far."""

    def __init__(self, dimension: int, bound: float) -> None:
        self.bound = bound
        self.count = 0
        self.largest = 0.0
        """The largest norm of a vector that was looked at."""
        self.refuted = False
        """Whether no parameter satisfies all equations."""
        self._basis = np.zeros((FIRST, dimension))
        self._weights = np.zeros((FIRST, FIRST))
        self._y, self._slack = np.zeros(FIRST), np.zeros(FIRST)
        self._least_square = 0.0
        """‖θ*‖² is at least this."""

    @property
    def rows(self) -> Independent:
        """Basis (n, d), weights (n, n), y (n,) and slack (n,)."""
        n = self.count
        return Independent(self._basis[:n], self._weights[:n, :n], self._y[:n], self._slack[:n])

    @property
    def theta(self) -> Array:
        """The shortest parameter that satisfies the equations, (d,)."""
        basis, weights, y, _ = self.rows
        return np.asarray(weights @ y @ basis)

    def project(self, phi: Array) -> Array:
        """The part of a vector that is in the span."""
        return np.asarray(self.rows.basis @ phi @ self.rows.basis)

    def coefficients(self, phi: Array) -> tuple[Array, Array]:
        """Of vectors (n, d): their coordinates along the basis, and the rest, orthogonalised twice."""
        basis = self.rows.basis
        along = phi @ basis.T
        rest = phi - along @ basis
        more = rest @ basis.T
        return along + more, rest - more @ basis

    def spans(self, phi: Array) -> bool:
        """Whether a vector (d,) is in the span: less work than to look at what is known of it."""
        self.largest = max(self.largest, float(np.linalg.norm(phi)))
        return float(np.linalg.norm(phi - self.project(phi))) <= RANK * self.largest

    def combination(self, phi: Array, first: int | None = None) -> Array:
        """Of vectors (n, d): the coefficients k of Σ_i k_i x_i, what is in the span of the first equations, or all."""
        return np.asarray(self.coefficients(phi)[0][:, :first] @ self.rows.weights[:first, :first])

    def look(self, phi: Array, ahead: Array | float = 0.0) -> Look:
        """What is known of φ - ahead, for vectors φ (n, d) and something in the span."""
        self.largest = max(self.largest, float(np.linalg.norm(phi, axis=1).max()))
        along, rest = self.coefficients(phi - ahead)
        left = np.linalg.norm(rest, axis=1)
        outside = np.where(left > RANK * self.largest, left, 0.0)
        room = math.sqrt(max(self.bound**2 - self._least_square, 0.0))
        _, weights, y, slack = self.rows
        combined = along @ weights
        return Look(combined @ y, np.abs(combined) @ slack + left * room, outside)

    def add(self, phi: Array, ahead: Array | float, low: float, high: float) -> bool:
        """<φ - ahead, θ*> is in [low, high] up to rounding: whether that is new, or a test of what is there."""
        known = self.look(phi[None], ahead)
        y, slack = (low + high) / 2, (high - low) / 2 + ROUNDING * (1 + self.bound)
        if known.determined:
            self.refuted |= abs(float(known.values[0]) - y) > float(known.errors[0]) + slack
            return False
        along, rest = self.coefficients((phi - ahead)[None])
        norm, n = float(np.linalg.norm(rest)), self.count
        if n == len(self._y):
            self._make_room()
        self._basis[n] = rest[0] / norm
        self._weights[n, :n] = -along[0] @ self.rows.weights / norm
        self._weights[n, n] = 1 / norm
        self._y[n], self._slack[n] = y, slack
        self.count += 1
        _, weights, values, slacks = self.rows
        sure = abs(float(weights[n] @ values)) - float(np.abs(weights[n]) @ slacks)
        self._least_square += max(sure, 0.0) ** 2
        self.refuted |= self._least_square > self.bound**2
        return True

    def _make_room(self) -> None:
        n = self.count
        basis, weights = np.zeros((2 * n, self._basis.shape[1])), np.zeros((2 * n, 2 * n))
        basis[:n], weights[:n, :n] = self._basis, self._weights
        self._basis, self._weights = basis, weights
        self._y, self._slack = np.append(self._y, np.zeros(n)), np.append(self._slack, np.zeros(n))
