"""What planners for linear q* share where nothing is random: whom they refuse, rollouts, and replaying the best one.

A rollout in the simulator is worth as much as an episode: its return is a lower bound on v*(s0), and who repeats its
actions collects it for certain.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from tensorplan.core import END, Access, Certificate, Node, Planner
from tensorplan.errors import BadInput, BudgetSpent, Refused
from tensorplan.specs import undiscounted

ROUNDING = 1e-12
"""By how much, relative to 1 + B, equations may be off, since features and rewards are floats."""

CLOSED = 1e-8
"""The gap, relative to 1 + B, at which the upper and the lower bound have met."""


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


class Step(NamedTuple):
    """One step of a rollout."""

    node: Node
    action: int
    reward: float


class Replay:
    """The policy that repeats a path; behind its end, where planning was cut short, it takes what seems best."""

    def __init__(self, path: list[int], certificate: Certificate, choose: Callable[[Node], int]) -> None:
        self.path, self.certificate, self.choose = path, certificate, choose
        self.time = 0

    def act(self, node: Node) -> int:
        """The next action of the path."""
        self.time += 1
        return self.path[self.time - 1] if self.time <= len(self.path) else self.choose(node)


class Memory(Protocol):
    """What is known of θ*, wherever an episode starts."""

    refuted: bool
    """Whether no parameter agrees with all that was seen."""


M = TypeVar("M", bound=Memory)


class Search(ABC, Generic[M]):
    """Planning in one episode: rollouts from s0, each of which teaches something, until one is optimal."""

    def __init__(self, access: Access, memory: M) -> None:
        self.access, self.memory = access, memory
        self.lower, self.upper = access.return_range(0)
        self.path: list[int] = []

    @abstractmethod
    def promise(self) -> float:
        """The most that v*(s0) can be, as far as the memory knows."""

    @abstractmethod
    def choose(self, node: Node) -> int:
        """The action for a node of a rollout; nothing is asked."""

    @abstractmethod
    def learn(self, steps: list[Step]) -> None:
        """What a rollout says about θ*; at most d of them say anything new."""

    def policy(self) -> Replay:
        """Plan, and act along the best path that was found."""
        try:
            status = self.plan()
        except BudgetSpent:
            status = "budget"
        except KeyboardInterrupt:
            status = "interrupted"
        upper = self.access.return_range(0)[1] if self.memory.refuted else max(self.upper, self.lower)
        return Replay(self.path, Certificate(upper, self.lower, status), self.choose)

    def plan(self) -> str:
        """Roll out and learn, at most d + 1 times; the status of the certificate."""
        for _ in range(self.access.dimension + 1):
            if status := self._ends():
                return status
            self.learn(self._roll_out())
        return self._ends() or ("refuted" if self.memory.refuted else "limit")

    def _roll_out(self) -> list[Step]:
        """An episode in the simulator, kept if it is the best one so far, be it cut short."""
        steps: list[Step] = []
        node: Any = self.access.root
        try:
            while node is not END:
                action = self.choose(node)
                reward, following = self.access.query(node, action)[0]
                steps.append(Step(node, action, reward))
                node = following
        finally:
            total = math.fsum(step.reward for step in steps)
            if node is not END:
                total += self.access.return_range(len(steps))[0]
            if total > self.lower or not self.path:
                self.lower = max(self.lower, total)
                self.path = [step.action for step in steps]
        return steps

    def _ends(self) -> str | None:
        """The status if the best return is as much as is promised; a larger one refutes the memory.  Else None."""
        promise, scale = min(self.promise(), self.access.return_range(0)[1]), 1 + self.access.bound
        self.upper = min(self.upper, promise)
        if not self.path or promise - self.lower > CLOSED * scale:
            return None
        self.memory.refuted |= self.lower - promise > ROUNDING * scale
        return "refuted" if self.memory.refuted else "certified"


class Session(Generic[M]):
    """A planner with a memory, for episodes in one problem; a start state that was solved costs nothing again."""

    def __init__(
        self, planner: Planner, remember: Callable[[Access], M], search: Callable[[Access, M], Search[M]]
    ) -> None:
        self.planner, self.remember, self.search = planner, remember, search
        self._facts: tuple[Any, ...] | None = None
        self._memory: M | None = None
        self._solved: dict[Any, tuple[list[int], Certificate]] = {}

    def __repr__(self) -> str:
        return repr(self.planner)

    def begin(self, access: Access, rng: np.random.Generator) -> Replay:
        """Start an episode with what earlier ones have taught."""
        refuse_unless_deterministic(access, type(self.planner).__name__)
        facts = access.problem_name, access.horizon, access.actions, access.dimension, access.bound, access.reward_range
        if self._facts not in (None, facts):
            raise BadInput(f"this session is for another problem than {access.problem_name!r}: begin a new one")
        self._facts = facts
        if self._memory is None:
            self._memory = self.remember(access)
        search, key = self.search(access, self._memory), access.root.key
        if key in self._solved and not self._memory.refuted:
            return Replay(*self._solved[key], search.choose)
        policy = search.policy()
        if key is not None and policy.certificate.status == "certified":
            self._solved[key] = policy.path, policy.certificate
        return policy
