"""The common part of the planners for linear q* in deterministic problems: rollouts, and replaying the best one.

The return of a rollout in the simulator is a lower bound on v*(s0), and repeating its actions earns it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from tensorplan.core import END, Access, Certificate, Node
from tensorplan.core.errors import Refused
from tensorplan.core.specs import seconds, undiscounted
from tensorplan.planners.anytime import Planning
from tensorplan.planners.config import brief
from tensorplan.planners.evidence.challenge import (
    RECHECKED,
    PathStep,
    compare,
    doubts,
    find_path,
    inconclusive,
    path_allowance,
    recheck,
)
from tensorplan.planners.evidence.claims import assumption, unfit_by_table
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.queries import Queries
from tensorplan.planners.evidence.replay import Replay
from tensorplan.planners.sessions import OneProblem

ROUNDING = 1e-12
"""By how much, relative to 1 + B, equations may be off, since features and rewards are floats."""

CLOSED = 1e-8
"""The gap at which the bounds have met, relative to :attr:`ReplayPlanning.scale`."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReplayConfig:
    """The parameters of these planners; each of them documents its own."""

    time_limit: float | None = None

    def __post_init__(self) -> None:
        if self.time_limit is not None:
            seconds("time_limit", self.time_limit)

    def __repr__(self) -> str:
        return brief(self)


def refuse_unless_deterministic(access: Access, planner: str) -> None:
    """Raise Refused unless the problem has phi_q, deterministic transitions and rewards, and a horizon."""
    name = f"problem {access.problem_name!r}"
    if not access.has_phi_q:
        raise Refused(f"{name} has no phi_q, which {planner} needs")
    for what, declared in (
        ("transitions", access.deterministic_transitions),
        ("rewards", access.deterministic_rewards),
    ):
        if not declared:
            raise Refused(f"{planner} is for deterministic problems, and {name} does not declare deterministic {what}")
    if access.horizon is None:
        raise Refused(f"{planner} rolls out whole episodes: {name} has no horizon")
    undiscounted(planner, access.problem_name, access.discount)


class SolvedStart(NamedTuple):
    """The result for a start state."""

    path: list[PathStep]
    certificate: Certificate


class ThetaSet(Protocol):
    """What is known of θ*, whatever the start state."""

    refuted: bool
    """Whether no parameter agrees with all rollouts."""


M = TypeVar("M", bound=ThetaSet)


class ReplayPlanning(Planning[Replay], Generic[M]):
    """Rollouts from s0, each of which adds information about θ*, until one is optimal.

    ``known``: the result of an earlier episode for the same start state.
    """

    def __init__(self, access: Access, memory: M, rng: np.random.Generator, known: SolvedStart | None = None) -> None:
        self.access, self.memory, self.rng, self.known = access, memory, rng, known
        self.queries = Queries(access, None, 1.0, Experience(access, 1.0))
        self.lower, self.upper = access.return_range(0)
        self.path: list[PathStep] = []

    @abstractmethod
    def promise(self) -> float:
        """The upper bound on v*(s0) that the memory gives."""

    @abstractmethod
    def choose(self, node: Node) -> int:
        """The action for a node of a rollout; no queries."""

    @abstractmethod
    def learn(self, steps: list[PathStep]) -> None:
        """Add a rollout to the memory; at most d of them add information."""

    def _search(self) -> str:
        """Roll out and learn, at most d + 1 times."""
        if self.known is not None:
            return self._recall(self.known)
        for _ in range(self.access.dimension + 1):
            if status := self._ends():
                return status
            self.learn(self._roll_out())
        return self._ends() or ("refuted" if self.memory.refuted else "limit")

    def _recall(self, known: SolvedStart) -> str:
        """Reuse the path of an earlier episode after querying its first steps again."""
        self.path = known.path
        node: Any = self.access.root
        for step in known.path[: math.ceil(RECHECKED * len(known.path))]:
            outcome = self.access.query(node, step.action)[0]
            compare(step, *outcome)
            node = outcome.next
        return known.certificate.status

    def _roll_out(self) -> list[PathStep]:
        """An episode in the simulator, kept if it is the best so far, even if it is cut short."""
        steps: list[PathStep] = []
        node: Any = self.access.root
        try:
            while node is not END:
                action = self.choose(node)
                steps.append(PathStep(node, action, *self.queries.step(node, action)))
                node = steps[-1].following
        finally:
            self._keep(steps)
        return steps

    def _keep(self, steps: list[PathStep]) -> None:
        """Keep a path if its lower bound is the best so far."""
        total = math.fsum(step.reward for step in steps)
        if not steps or steps[-1].following is not END:
            total += self.access.return_range(len(steps))[0]
        if total > self.lower or not self.path:
            self.lower = max(self.lower, total)
            self.path = steps

    def _ends(self) -> str | None:
        """The status once the best return attains the upper bound, else None; a larger return refutes the memory."""
        promise = min(self.promise(), self.access.return_range(0)[1])
        self.upper = min(self.upper, promise)
        if not self.path or promise - self.lower > CLOSED * self.scale:
            return None
        self.memory.refuted |= self.lower - promise > CLOSED * self.scale
        return "refuted" if self.memory.refuted else "certified"

    @property
    def scale(self) -> float:
        """The scale of rounding errors: the range of returns, or 1 + B if that is smaller."""
        low, high = self.access.return_range(0)
        return min(1 + self.access.bound, high - low)

    # ------------------------------------------------------------------ the end

    def _finish(self, status: str) -> str:
        if self.known is not None or status not in ("certified", "refuted", "limit"):
            return status
        return self._attacked(status, lambda: self._challenged(status))

    def _challenged(self, status: str) -> str:
        """The status after an attempt to refute the bracket, and after rechecking some steps of the path."""
        assert self.access.horizon is not None
        doubted, checks = bool(doubts(self.access, self.queries.experience)), math.ceil(RECHECKED * len(self.path))
        allowance = path_allowance(
            self.queries, self.access.horizon, checks, doubted=doubted, hopeless=self.memory.refuted
        )
        end = self.queries.spent + min(allowance, self.queries.room)
        self._keep(find_path(self.queries, self.access.horizon, self.rng, end, self.upper))
        recheck(self.access, self.path, RECHECKED, self.rng)
        if self.lower - self.upper > CLOSED * self.scale or unfit_by_table(self.access, 0.0, "q"):
            self.memory.refuted = True
        if self.memory.refuted:
            return "refuted"
        doubtful = status == "certified" and inconclusive(self.access, self.queries.experience)
        return "doubtful" if doubtful else status

    def _bracket(self, status: str) -> Certificate:
        """The current bracket."""
        high = self.access.return_range(0)[1]
        upper = high if self.memory.refuted else max(self.upper, self.lower)
        return Certificate(
            upper,
            self.lower,
            status,
            assumes="" if upper == high else assumption(self.access, 0.0, "q*(s, a)", "phi_q(s, a)"),
            warnings=tuple(doubts(self.access, self.queries.experience)),
        )

    def _certificate(self, status: str) -> Certificate:
        return self._bracket(status) if self.known is None else replace(self.known.certificate, status=status)

    def _policy(self, certificate: Certificate) -> Replay:
        hopeless = certificate.status in ("refuted", "doubtful")
        idle = hopeless and self.lower == self.access.return_range(0)[0]  # then random play is no worse
        return Replay([] if idle else self.path, certificate, self._random if hopeless else self.choose)

    def _random(self, node: Node) -> int:
        return int(self.rng.integers(self.access.actions))


class ReplaySession(Generic[M]):
    """A planner with a memory, for episodes of one problem; a solved start state costs a few queries only."""

    def __init__(
        self,
        planner: ReplayConfig,
        remember: Callable[[Access], M],
        planning: Callable[[Access, M, np.random.Generator, SolvedStart | None], ReplayPlanning[M]],
    ) -> None:
        self.planner, self.remember, self.planning = planner, remember, planning
        self._problem = OneProblem()
        self._memory: M | None = None
        self._solved: dict[Any, SolvedStart] = {}

    def __repr__(self) -> str:
        return repr(self.planner)

    def begin(self, access: Access, rng: np.random.Generator) -> Replay:
        """Start an episode with the memory of earlier ones."""
        refuse_unless_deterministic(access, type(self.planner).__name__)
        self._problem.check(access)
        access.limit_time(self.planner.time_limit)
        if self._memory is None:
            self._memory = self.remember(access)
        key = access.root.key
        known = None if self._memory.refuted else self._solved.get(key)
        policy = self.planning(access, self._memory, rng, known).plan()
        if key is not None and policy.certificate.status == "certified":
            self._solved[key] = SolvedStart(policy.path, policy.certificate)
        return policy
