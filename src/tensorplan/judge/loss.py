"""The loss of what a planner does, action by action.

Σ_t γ^t (v*(S_t) - q*(S_t, A_t)) has the expectation v*(s0) - E[return] and varies less than v*(s0) - return does: the
chance of rewards and steps is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorplan.core import Learner, Node, Planner, Policy, Problem
from tensorplan.core.errors import NotRealizable


class LossMeter:
    """A planner, with its memory, that also adds up the losses of its actions; it acts as it would without."""

    def __init__(self, planner: Planner, problem: Problem) -> None:
        self.planner = planner.session() if isinstance(planner, Learner) else planner
        self.problem = problem
        self.access = getattr(planner, "access", "local")
        self.losses: list[float] = []
        """One for each episode."""

    def __repr__(self) -> str:
        return repr(self.planner)

    def begin(self, access: Any, rng: np.random.Generator) -> Policy:
        """Start an episode."""
        try:
            policy = self.planner.begin(access, rng)
        except NotRealizable as refutation:
            refutation.policy = self._metered(refutation.policy)
            raise
        return self._metered(policy)

    def _metered(self, policy: Policy) -> Policy:
        self.losses.append(0.0)
        return _MeteredPolicy(policy, self)


@dataclass
class _MeteredPolicy:
    policy: Policy
    meter: LossMeter
    weight: float = 1.0

    def act(self, node: Node) -> int:
        action = self.policy.act(node)
        problem = self.meter.problem
        best = problem.optimal_value(node.key, node.stage)
        loss = best - problem.optimal_action_value(node.key, action, node.stage)
        self.meter.losses[-1] += float(self.weight * loss)
        self.weight *= problem.discount
        return action

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)
