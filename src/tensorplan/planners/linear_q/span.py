"""The span planner: equations for θ*, if q*(s, a) = <φ(s, a), θ*> and the problem is deterministic.

Weisz et al. (2022), the remark on Wen and Van Roy (2013): "the subspace that contains q* is either trivial, or a
rollout with any action sequence will provide new information that can be used to decrease the dimension of this
subspace by one".

Let Xθ = y be the equations known for θ*.  At each state a rollout takes an action whose feature is not in span(X); if
there is none all values are determined, and it takes the best one.  Let (s, a) be its last step out of the span, with
reward r and next state s'.  From s' on all values are determined, so that

    <φ(s, a), θ*> = r + max_a' <φ(s', a'), θ*>

is a new, independent equation.  A rollout without such a step is optimal.  So there are at most d + 1 rollouts of H
queries each; the number of actions affects the computing time alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tensorplan.core import Access, Array, Node
from tensorplan.planners.evidence.challenge import PathStep
from tensorplan.planners.linear_q.replay import ROUNDING, Replay, ReplayPlanning, ReplaySession

RANK = 1e-7
"""A feature is in the span if its residual is below this, relative to the largest feature seen."""


@dataclass(frozen=True, kw_only=True)
class SpanPlanner:
    """One equation for θ* per rollout: at most (d + 1) H queries for deterministic transitions and rewards."""

    about: ClassVar[str] = "equations for linear q* where nothing is random, any number of actions; (d+1)H queries"

    def begin(self, access: Access, rng: np.random.Generator) -> Replay:
        """Start an episode without a memory."""
        return self.session().begin(access, rng)

    def session(self) -> ReplaySession[Equations]:
        """A planner that keeps its equations: they hold for θ*, whatever the start state."""
        return ReplaySession(self, lambda access: Equations(access.dimension, access.bound), SpanPlanning)


class SpanPlanning(ReplayPlanning["Equations"]):
    """Rollouts out of the span, until all values along one are determined."""

    def promise(self) -> float:
        """The upper bound on v*(s0) over the ball, given the equations."""
        return self.memory.look(self.access.root.phi_q).best[1]

    def choose(self, node: Node) -> int:
        """The action farthest out of the span; the best one if all are in it."""
        look = self.memory.look(node.phi_q)
        return int(np.argmax(look.values if look.determined else look.outside))

    def learn(self, steps: list[PathStep]) -> None:
        """Add the equations of a rollout, from its end back to the last state that they leave undetermined.

        They are written as <φ(s, a) - φ(s', a*), θ*> = r, so that errors do not accumulate.
        """
        ahead = np.zeros(self.access.dimension)
        low = high = 0.0  # max_a' <φ(s', a') - ahead, θ*>
        for node, action, reward, _ in reversed(steps):
            self.memory.add(node.phi_q[action], ahead, reward + low, reward + high)
            look = self.memory.look(node.phi_q)
            if not look.determined:
                return
            ahead = self.memory.project(node.phi_q[np.argmax(look.values)])
            low, high = self.memory.look(node.phi_q, ahead).best


class Look(NamedTuple):
    """Estimates for some features: |<φ, θ*> - values| <= errors."""

    values: Array
    errors: Array
    outside: Array
    """The norm of the residual outside the span, zero if that is rounding."""

    @property
    def determined(self) -> bool:
        """Whether all features are in the span."""
        return not self.outside.any()

    @property
    def best(self) -> tuple[float, float]:
        """The range of the largest <φ, θ*>."""
        return float((self.values - self.errors).max()), float((self.values + self.errors).max())


class OrthonormalRows(NamedTuple):
    """Equations |<x_i, θ*> - y_i| <= slack_i, and the orthonormal basis q_j = Σ_i weights_ji x_i of their span."""

    basis: Array
    weights: Array
    y: Array
    slack: Array


class Equations:
    """Xθ = y, orthogonalised row by row."""

    def __init__(self, dimension: int, bound: float) -> None:
        self.bound = bound
        self.rows = OrthonormalRows(np.zeros((0, dimension)), np.zeros((0, 0)), np.zeros(0), np.zeros(0))
        self.largest = 0.0
        """The largest norm of a feature seen."""
        self.refuted = False

    def project(self, phi: Array) -> Array:
        """The projection of a feature on the span."""
        return np.asarray(self.rows.basis @ phi @ self.rows.basis)

    def look(self, phi: Array, ahead: Array | float = 0.0) -> Look:
        """Estimates of <φ - ahead, θ*>, for features φ (n, d) and ``ahead`` in the span.

        Outside the span the error is bounded by ‖θ*‖ <= B.
        """
        basis, weights, y, slack = self.rows
        self.largest = max(self.largest, float(np.linalg.norm(phi, axis=1).max()))
        along = (phi - ahead) @ basis.T
        left = np.linalg.norm(phi - ahead - along @ basis, axis=1)
        outside = np.where(left > RANK * self.largest, left, 0.0)
        room = math.sqrt(max(self.bound**2 - self._least_square(), 0.0))
        combined = along @ weights
        return Look(combined @ y, np.abs(combined) @ slack + left * room, outside)

    def add(self, phi: Array, ahead: Array, low: float, high: float) -> None:
        """Add that <φ - ahead, θ*> is in [low, high], up to rounding: a new row, or a test of the existing ones."""
        rows, known = self.rows, self.look(phi[None], ahead)
        y, slack = (low + high) / 2, (high - low) / 2 + ROUNDING * (1 + self.bound)
        if known.determined:
            self.refuted |= abs(float(known.values[0]) - y) > float(known.errors[0]) + slack
            return
        along, left = np.zeros(len(rows.y)), phi - ahead
        for _ in range(2):  # the second pass removes rounding errors
            part = rows.basis @ left
            along, left = along + part, left - part @ rows.basis
        norm = np.linalg.norm(left)
        weights = np.zeros((len(rows.y) + 1, len(rows.y) + 1))
        weights[:-1, :-1], weights[-1] = rows.weights, np.append(-along @ rows.weights, 1.0) / norm
        basis = np.vstack([rows.basis, left / norm])
        self.rows = OrthonormalRows(basis, weights, np.append(rows.y, y), np.append(rows.slack, slack))
        self.refuted |= self._least_square() > self.bound**2

    def _least_square(self) -> float:
        """A lower bound on ‖θ*‖²."""
        _, weights, y, slack = self.rows
        return float(np.square(np.maximum(np.abs(weights @ y) - np.abs(weights) @ slack, 0.0)).sum())
