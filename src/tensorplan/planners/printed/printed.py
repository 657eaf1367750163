"""TensorPlan as printed (Weisz et al. 2022, section 5): GetAction, Init, the product form of Sol.

The names and the order are those of the pseudocode.  What would change nothing is left out: an iteration ends at its
first failure, and where nothing is random one sample stands for n, and one rollout for n1.
"""

from __future__ import annotations

import logging
import math
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from tensorplan.core import END, Access, Array, Certificate, Node
from tensorplan.core.errors import BudgetSpent, Refused
from tensorplan.planners.anytime import ended
from tensorplan.planners.evidence.approx_td import approx_td
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.printed.constants import Constants, constants
from tensorplan.planners.tensorplan.refute import refutation
from tensorplan.planners.tensorplan.sol import Sol
from tensorplan.planners.tensorplan.trace import Trace, Watch

if TYPE_CHECKING:
    from tensorplan.planners.tensorplan.config import TensorPlan

BUDGET = 10**9
"""Queries that are too many when nobody gave a budget."""

log = logging.getLogger("tensorplan")


class PaperPolicy:
    """TensorPlan at work in one episode."""

    def __init__(self, config: TensorPlan, access: Access) -> None:
        self.config, self.access = config, access
        self.delta = config.accuracy(access)
        self.constants = _constants(config, access, self.delta)
        self.steps = self.constants.H
        self.certain = access.deterministic_transitions and access.deterministic_rewards
        self.certificate: Certificate | None = None
        self.theta_plus = np.zeros(access.dimension + 1)
        self.sol = Sol(access.dimension, access.bound, eta=config.eta, discount=config.discount, product=True)
        self.watch = Watch("paper", access, self.sol, config.trace, config.callback)
        self._budget = access.spent + access.remaining
        if config.budget is not None:
            self._budget = min(self._budget, config.budget)
        self.planning = True
        self._announce()
        low, high = access.return_range(0, config.discount)
        status = ended(lambda: self._init(access.root), lambda status: Certificate(high, low, status))
        self.planning = False
        self.trace: Trace | None = self.watch.trace(access.root.phi_v)
        if status != "done":
            self.certificate = Certificate(high, low, status, discount=config.discount)
        if status == "refuted":
            overridden = ", ".join(self.constants.overridden)
            certainty = f"if {overridden} are right" if overridden else f"at confidence {1 - self.constants.zeta:g}"
            raise refutation(self.sol, access.problem_name, config.eta, certainty, self)

    def act(self, node: Node) -> int:
        """GetAction: the most consistent action under θ+."""
        return int(np.argmin(self._consistency(node, self.theta_plus)))

    # ------------------------------------------------------------------ Init

    def _init(self, root: Node) -> str:
        self.sol.aim(root.phi_v)
        tau = 0
        while self.constants.iterations is None or tau < self.constants.iterations:
            tau += 1
            found = self.sol.optimum(report=self.watch.searching)
            if self.watch.stopped:
                return "stopped"
            if found.status == "infeasible":
                return "refuted"
            if found.theta is None:
                return "limit"
            self.theta_plus = np.concatenate([[1.0], found.theta])
            path, failure, size = self._clean_test(root)
            if failure is not None:
                self.sol.disjunction(Place.of(failure), self._approx_td(failure, self.constants.n3), self.constants.c)
            failures = [] if failure is None else [(Place.of(failure), size)]
            low = self.access.return_range(0, self.config.discount)[0]
            self.watch.tell(found, found.bound, low, path, failures)
            if self.watch.stopped:
                return "stopped"
            if failure is None:
                return "done"
        return "done"

    def _clean_test(self, root: Node) -> tuple[list[tuple[Place, int]], Node | None, float]:
        """n1 rollouts under θ_τ: the last path, and the first state that fails the consistency test, with its TD."""
        path: list[tuple[Place, int]] = []
        for _ in range(1 if self.certain else self.constants.n1):
            path, node = [], root
            for _ in range(self.steps):
                consistency = self._consistency(node, self.theta_plus)
                if consistency.min() > self.threshold:
                    return path, node, float(consistency.min())
                action = int(np.argmin(consistency))
                path.append((Place.of(node), action))
                following = self._ask(1).query(node, action)[0].next
                if following is END:
                    break
                node = following
        return path, None, 0.0

    def _consistency(self, node: Node, theta: Array) -> Array:
        """|<Δ_a, [1, θ]>| for every action, from n2 samples each."""
        return np.abs(self._approx_td(node, self.constants.n2) @ theta)

    def _approx_td(self, node: Node, n: int) -> Array:
        n = 1 if self.certain else n
        return approx_td(self._ask(n * self.access.actions), node, n, self.config.discount)

    # ------------------------------------------------------------------ what it may cost

    @property
    def threshold(self) -> float:
        """Of the consistency test: δ/(4H), discounted (1-γ)δ/4."""
        if self.config.discount < 1:
            return (1 - self.config.discount) * self.delta / 4
        return self.constants.threshold

    def _announce(self) -> None:
        """Say what the planning may cost, and refuse if that is too much."""
        if self.certain:
            return
        budget = self._budget
        most = self.constants.init_queries + self.steps * self.constants.call_queries
        if most == math.inf:
            if budget == math.inf:
                raise Refused(
                    f"TensorPlan as printed has no bound on its failures when c={self.constants.c:g}: "
                    "give a smaller c, or a budget"
                )
            log.info("TensorPlan as printed has no bound on its queries when c=%g", self.constants.c)
            return
        needs = f"TensorPlan as printed may need {Decimal(most):.3g} queries"
        log.info(needs)
        if most > (BUDGET if budget == math.inf else budget):
            limit = f"{BUDGET:,} when no budget is given" if budget == math.inf else f"the budget of {budget:,.0f}"
            raise Refused(f"{needs}, more than {limit}; override n1, n2, n3 and c, or use mode='certified'")

    def _ask(self, n: int) -> Access:
        """The access object, if n more queries leave enough to act."""
        reserve = self.steps * self.constants.call_queries if self.planning else 0
        if not self.certain and n > self._budget - self.access.spent - reserve:
            raise BudgetSpent(f"the budget of {self._budget:,.0f} queries is spent")
        return self.access


def _constants(config: TensorPlan, access: Access, delta: float) -> Constants:
    """The paper's constants with the overrides; of a discounted problem, overrides alone."""
    given = {name: getattr(config, name) for name in ("n1", "n2", "n3", "c", "zeta")}
    horizon = access.horizon
    if config.discount < 1:
        missing = [name for name in ("n1", "n2", "n3", "c") if given[name] is None]
        if missing:
            raise Refused(f"the paper has no constants for discounted problems: give {', '.join(missing)} as well")
        low, high = access.return_range(0, config.discount)
        horizon = math.ceil(math.log(delta / (8 * (high - low))) / math.log(config.discount))
    if access.reward_range[0] < 0 or access.reward_range[1] > 1:
        raise Refused(
            f"TensorPlan as printed is for rewards in [0, 1], and problem {access.problem_name!r} has "
            f"[{access.reward_range[0]:g}, {access.reward_range[1]:g}]"
        )
    if horizon is None:
        raise Refused(
            f"TensorPlan as printed needs a horizon or a discount, and problem {access.problem_name!r} has none"
        )
    return constants(access.actions, access.dimension, horizon, delta, access.bound, **given)
