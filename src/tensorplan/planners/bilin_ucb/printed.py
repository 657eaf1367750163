"""BiLin-UCB as printed (Du et al. 2021, Algorithm 1), with the constants of Corollary 5.3 or with others."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tensorplan.access.everywhere import GlobalAccess
from tensorplan.core import Certificate
from tensorplan.core.errors import NotRealizable
from tensorplan.planners.bilin_ucb.constants import BilinConstants, bilin_constants
from tensorplan.planners.bilin_ucb.hypotheses import Hypotheses, Rollouts
from tensorplan.planners.bilin_ucb.planning import BilinPlanning, BilinPolicy
from tensorplan.planners.config import PlannerConfig, refuse_above_budget, refuse_unless_unit_rewards


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
        """The declared range of returns: the algorithm gives no bounds."""
        return Certificate(self.high, self.low, status)

    def _policy(self, certificate: Certificate) -> BilinPolicy:
        return BilinPolicy(self, None if certificate.status == "done" else certificate)

    def _refutation(self, policy: BilinPolicy) -> NotRealizable:
        overridden = ", ".join(self.constants.overridden)
        certainty = f"if {overridden} are right" if overridden else f"at confidence {1 - self.constants.failure:g}"
        return self.hypotheses.refutation(self.access.problem_name, certainty, policy)

    def _search(self) -> str:
        """Algorithm 1; a deterministic problem needs one episode instead of m, and ends at a θ that fits its data."""
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
        """Refuse if planning may cost too many queries."""
        budget = self.access.remaining
        if self.config.budget is not None:
            budget = min(budget, self.config.budget - self.access.spent)
        if not self.certain:
            trajectories, queries = Decimal(self.constants.trajectories), Decimal(self.constants.queries)
            needs = f"BiLin-UCB as printed needs {trajectories:.3g} trajectories, up to {queries:.3g} queries"
            refuse_above_budget(budget, self.constants.queries, needs, "override T, m and R")


def _constants(config: PlannerConfig, given: Mapping[str, Any], access: GlobalAccess) -> BilinConstants:
    """The paper's constants with the overrides; half of δ is for the loss, half for the failure probability."""
    refuse_unless_unit_rewards(access, "BiLin-UCB as printed")
    delta, horizon = config.accuracy(access), access.horizon
    assert horizon is not None
    failure = min(delta / (2 * horizon), 0.3)
    return bilin_constants(access.dimension, horizon, access.bound, delta / 2, failure, **given)
