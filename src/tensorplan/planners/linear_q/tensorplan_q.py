"""TP': TensorPlan for q*(s, a) = <φ_q(s, a), θ*> and deterministic transitions (Weisz et al. 2022, proof of Lemma
tensorplan-qstar).

It plans in the MDP M̄ whose actions are delayed by one step (:mod:`tensorplan.problems.transforms.delayed`), where
linear q* is linear v*. At time t >= 1 the state of M̄ is (S_{t-1}, A_{t-1}).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorplan.access.delayed import DelayedAccess
from tensorplan.core import Access, Certificate, Node, Policy
from tensorplan.core.errors import NotRealizable
from tensorplan.planners.evidence.claims import assumption
from tensorplan.planners.printed.constants import PaperOptions
from tensorplan.planners.tensorplan.planner import TensorPlan, TensorPlanSession
from tensorplan.problems.transforms.delayed import LENGTHENED

if TYPE_CHECKING:
    from tensorplan.planners.tensorplan.trace import Trace


@dataclass(frozen=True, kw_only=True, repr=False)
class TensorPlanQ(TensorPlan):
    """TP', with the parameters of TensorPlan; there is no discount, and one query serves all next actions."""

    discount: float = field(default=1.0, init=False)
    ask: str = field(default="all", init=False)
    about: ClassVar[str] = "TP': TensorPlan for linear q* and deterministic transitions"

    def session(self) -> SessionQ:
        """A planner that keeps its measurements for later episodes from the same start state."""
        return SessionQ(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class PaperTensorPlanQ(PaperOptions, TensorPlanQ):
    """TP' as printed, the class of ``TensorPlanQ(mode="paper")``."""


TensorPlanQ.paper = PaperTensorPlanQ


class SessionQ(TensorPlanSession):
    """TP' with a memory for each start state, since θ̄* = [v*(s0), θ*] depends on it."""

    def begin(self, access: Access, rng: np.random.Generator) -> PolicyQ:
        """Start an episode."""
        self._problem.check(access)
        delayed = DelayedAccess(access)
        assumes = assumption(access, self.config.eta, "q*(s, a)", "phi_q(s, a)")
        try:
            return PolicyQ(self._begin(delayed, rng, access.root.key), delayed, assumes)
        except NotRealizable as refuted:
            bound = None if refuted.bound is None else refuted.bound / LENGTHENED
            raise NotRealizable(
                f"{refuted.sentence} (B of the delayed problem is sqrt(2) times that of problem "
                f"{access.problem_name!r})",
                refuted.places,
                refuted.eta,
                bound,
                PolicyQ(refuted.policy, delayed, assumes),
            ) from None


class PolicyQ:
    """The policy of TP' in one episode."""

    def __init__(self, policy: Policy, delayed: DelayedAccess, assumes: str) -> None:
        self.policy, self.delayed = policy, delayed
        self.certificate: Certificate | None = getattr(policy, "certificate", None)
        if self.certificate is not None and self.certificate.assumes:
            self.certificate = replace(self.certificate, assumes=assumes)
        self.trace: Trace | None = getattr(policy, "trace", None)
        self.last: tuple[Node, int] | None = None
        self.paid = 0.0
        """The reward of the last step of M, which M̄ pays in the next one."""

    def act(self, node: Node) -> int:
        """GetAction at S̄_0 = (s0, no action yet), and at S̄_t = (S_{t-1}, A_{t-1})."""
        place = self.delayed.root if self.last is None else self.delayed.pair(*self.last)
        action = self.policy.act(place)
        self.last = (node, action)
        return action

    def observe(self, action: int, reward: float, node: Any) -> None:
        """Pass a step on: M̄ pays the reward of the action before."""
        observe = getattr(self.policy, "observe", None)
        if observe is not None:
            assert self.last is not None
            observe(action, self.paid, self.delayed.pair(*self.last))
        self.paid = reward
