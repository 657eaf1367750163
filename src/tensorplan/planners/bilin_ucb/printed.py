"""BiLin-UCB as printed (Du et al. 2021, Algorithm 1), with the constants of Corollary 5.3 or with others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tensorplan.access.everywhere import GlobalAccess
from tensorplan.core import Certificate
from tensorplan.core.errors import NotRealizable, Refused
from tensorplan.planners.bilin_ucb.constants import BilinConstants, bilin_constants
from tensorplan.planners.bilin_ucb.hypotheses import Hypotheses, Rollouts
from tensorplan.planners.bilin_ucb.planning import BilinPlanning, BilinPolicy
from tensorplan.planners.config import PlannerConfig

BUDGET = 10**9
"""Queries that are too many when nobody gave a budget."""


class PaperBilinPlanning(BilinPlanning):
    """Mode ``paper``; ``given`` constants replace the printed ones where they are not None."""

    constants: BilinConstants

    def __init__(self, config: PlannerConfig, given: Mapping[str, Any], access: GlobalAccess) -> None:
        super().__init__(config, access)
        self.given = given

    def _begin(self) -> None:
        self.constants = _constants(self.config, self.given, self.access)
        self._announce()
        self.hypotheses = Hypotheses(self.access, self.constants.R)
        self.hypotheses.sol.aim(self.access.root.phi_v)

    def _bracket(self, status: str) -> Certificate:
        """What the problem declares: the algorithm gives no bounds."""
        return Certificate(self.high, self.low, status)

    def _policy(self, certificate: Certificate) -> BilinPolicy:
        return BilinPolicy(self, None if certificate.status == "done" else certificate)

    def _refutation(self, policy: BilinPolicy) -> NotRealizable:
        overridden = ", ".join(self.constants.overridden)
        certainty = f"if {overridden} are right" if overridden else f"at confidence {1 - self.constants.failure:g}"
        return self.hypotheses.refutation(self.access.problem_name, certainty, policy)

    def _search(self) -> str:
        """Algorithm 1; where nothing is random one episode stands for m, and a θ that its data allow stays."""
        for _ in range(self.constants.T):
            found = self.hypotheses.optimum(lambda bound: None)
            if found.status == "infeasible":
                return "refuted"
            if found.theta is None:
                return "limit"
            self.hypotheses.policies += 1
            rollouts = Rollouts(self.access)
            rollouts.extend(found.theta, 1 if self.certain else self.constants.m, self._charge)
            mean = rollouts.total / rollouts.n
            if mean > self.mean:
                self.mean, self.theta = mean, found.theta
            self.hypotheses.learn(rollouts.means)
            if self.certain and self.hypotheses.agrees(found.theta):
                break
        return "done"

    def _announce(self) -> None:
        """Refuse if the planning may cost too much."""
        budget = self.access.remaining
        if self.config.budget is not None:
            budget = min(budget, self.config.budget - self.access.spent)
        if not self.certain and self.constants.queries > (BUDGET if budget == math.inf else budget):
            limit = f"{BUDGET:,} when no budget is given" if budget == math.inf else f"the budget of {budget:,.0f}"
            raise Refused(
                f"BiLin-UCB as printed needs {Decimal(self.constants.trajectories):.3g} trajectories, up to "
                f"{Decimal(self.constants.queries):.3g} queries, more than {limit}; override T, m and R, or use "
                "mode='certified'"
            )


def _constants(config: PlannerConfig, given: Mapping[str, Any], access: GlobalAccess) -> BilinConstants:
    """The paper's constants with the overrides; half of δ is for the loss, half for the probability of failure."""
    if access.reward_range[0] < 0 or access.reward_range[1] > 1:
        raise Refused(
            f"BiLin-UCB as printed is for rewards in [0, 1], and problem {access.problem_name!r} has "
            f"[{access.reward_range[0]:g}, {access.reward_range[1]:g}]"
        )
    delta, horizon = config.accuracy(access), access.horizon
    assert horizon is not None
    failure = min(delta / (2 * horizon), 0.3)
    return bilin_constants(access.dimension, horizon, access.bound, delta / 2, failure, **given)
