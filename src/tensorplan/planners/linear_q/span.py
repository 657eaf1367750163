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

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tensorplan.core import Access, Node
from tensorplan.planners.affine import AffineSet
from tensorplan.planners.evidence.challenge import PathStep
from tensorplan.planners.evidence.replay import Replay
from tensorplan.planners.linear_q.replay import ReplayConfig, ReplayPlanning, ReplaySession


@dataclass(frozen=True, kw_only=True, repr=False)
class SpanPlanner(ReplayConfig):
    """One equation for θ* per rollout: at most (d + 1) H queries for deterministic transitions and rewards.

    ``time_limit``: seconds of planning per episode, after which the best path so far is replayed; it makes runs
    irreproducible.
    """

    about: ClassVar[str] = "equations for linear q* where nothing is random, any number of actions; (d+1)H queries"

    def begin(self, access: Access, rng: np.random.Generator) -> Replay:
        """Start an episode without a memory."""
        return self.session().begin(access, rng)

    def session(self) -> ReplaySession[AffineSet]:
        """A planner that keeps its equations: they hold for θ*, whatever the start state."""
        return ReplaySession(self, lambda access: AffineSet(access.dimension, access.bound), SpanPlanning)


class SpanPlanning(ReplayPlanning[AffineSet]):
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
