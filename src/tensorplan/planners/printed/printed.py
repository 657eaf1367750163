"""TensorPlan as printed (Weisz et al. 2022, section 5): GetAction, Init, the product form of Sol.

The names and the order are those of the pseudocode.  Work that changes nothing is left out: an iteration ends at its
first failure, and a deterministic problem needs one sample instead of n, and one rollout instead of n1.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from tensorplan.core import END, Access, Array, Certificate, Node
from tensorplan.core.errors import BudgetSpent, NotRealizable, Refused
from tensorplan.planners.anytime import Planning
from tensorplan.planners.config import refuse_above_budget, refuse_unless_unit_rewards
from tensorplan.planners.evidence.approx_td import approx_td
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.printed.constants import Constants, constants
from tensorplan.planners.tensorplan.config import Config
from tensorplan.planners.tensorplan.refute import refutation
from tensorplan.planners.tensorplan.sol import Sol
from tensorplan.planners.tensorplan.trace import Trace, Watch

log = logging.getLogger("tensorplan")


class PaperPolicy:
    """GetAction: the most consistent action under θ+."""

    def __init__(self, planning: PaperPlanning, certificate: Certificate | None, trace: Trace | None) -> None:
        self.planning, self.certificate, self.trace = planning, certificate, trace

    def act(self, node: Node) -> int:
        """argmin_a |<Δ_a, [1, θ+]>|."""
        return int(np.argmin(self.planning.consistency(node)))


class PaperPlanning(Planning[PaperPolicy]):
    """Init; ``given`` constants replace the printed ones where they are not None."""

    constants: Constants
    watch: Watch

    def __init__(self, config: Config, given: Mapping[str, Any], access: Access) -> None:
        self.config, self.given, self.access = config, given, access
        self.certain = access.deterministic_transitions and access.deterministic_rewards
        self.theta_plus = np.zeros(access.dimension + 1)
        self.sol = Sol(access.dimension, access.bound, eta=config.eta, discount=config.discount, product=True)
        self.low, self.high = access.return_range(0, config.discount)
        self.budget = access.spent + access.remaining
        if config.budget is not None:
            self.budget = min(self.budget, config.budget)
        self.acting = False

    def _begin(self) -> None:
        delta = self.config.accuracy(self.access)
        self.constants = _constants(self.config, self.given, self.access, delta)
        self.steps = self.constants.H
        self.threshold = self.constants.threshold
        """Of the consistency test: δ/(4H), discounted (1-γ)δ/4."""
        if self.config.discount < 1:
            self.threshold = (1 - self.config.discount) * delta / 4
        self._announce()
        self.watch = Watch("paper", self.access, self.sol, self.config.trace, self.config.callback)

    def _bracket(self, status: str) -> Certificate:
        """The declared range of returns: Init gives no bounds."""
        return Certificate(self.high, self.low, status, discount=self.config.discount)

    def _policy(self, certificate: Certificate) -> PaperPolicy:
        self.acting = True
        trace = self.watch.trace(self.access.root.phi_v)
        return PaperPolicy(self, None if certificate.status == "done" else certificate, trace)

    def _refutation(self, policy: PaperPolicy) -> NotRealizable:
        overridden = ", ".join(self.constants.overridden)
        certainty = f"if {overridden} are right" if overridden else f"at confidence {1 - self.constants.zeta:g}"
        return refutation(
            self.sol, self.access.problem_name, self.config.eta, certainty, policy, stop=self.watch.waiting
        )

    # ------------------------------------------------------------------ Init

    def _search(self) -> str:
        root, tau = self.access.root, 0
        self.sol.aim(root.phi_v)
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
            self.watch.tell(found, found.bound, self.low, path, failures)
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
                consistency = self.consistency(node)
                if consistency.min() > self.threshold:
                    return path, node, float(consistency.min())
                action = int(np.argmin(consistency))
                path.append((Place.of(node), action))
                following = self._within_budget(1).query(node, action)[0].next
                if following is END:
                    break
                node = following
        return path, None, 0.0

    def consistency(self, node: Node) -> Array:
        """|<Δ_a, [1, θ+]>| for every action, from n2 samples each."""
        return np.abs(self._approx_td(node, self.constants.n2) @ self.theta_plus)

    def _approx_td(self, node: Node, n: int) -> Array:
        n = 1 if self.certain else n
        return approx_td(self._within_budget(n * self.access.actions), node, n, self.config.discount)

    # ------------------------------------------------------------------ cost

    def _announce(self) -> None:
        """Log how many queries planning may need, and refuse if that is too many."""
        if self.certain:
            return
        budget = self.budget
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
        refuse_above_budget(budget, most, needs, "override n1, n2, n3 and c")

    def _within_budget(self, n: int) -> Access:
        """The access object, if n more queries leave enough of the budget to act."""
        reserve = 0 if self.acting else self.steps * self.constants.call_queries
        if not self.certain and n > self.budget - self.access.spent - reserve:
            raise BudgetSpent(f"the budget of {self.budget:,.0f} queries is spent")
        return self.access


def _constants(config: Config, given: Mapping[str, Any], access: Access, delta: float) -> Constants:
    """The paper's constants with the overrides; for a discounted problem all of them must be given."""
    horizon = access.horizon
    if config.discount < 1:
        missing = [name for name in ("n1", "n2", "n3", "c") if given[name] is None]
        if missing:
            raise Refused(f"the paper has no constants for discounted problems: give {', '.join(missing)} as well")
        low, high = access.return_range(0, config.discount)
        horizon = math.ceil(math.log(delta / (8 * (high - low))) / math.log(config.discount))
    refuse_unless_unit_rewards(access, "TensorPlan as printed")
    if horizon is None:
        raise Refused(
            f"TensorPlan as printed needs a horizon or a discount, and problem {access.problem_name!r} has none"
        )
    return constants(access.actions, access.dimension, horizon, delta, access.bound, **given)
