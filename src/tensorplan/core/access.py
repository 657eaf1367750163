"""The interface between planners and problems: nodes, the access object that issues them, query results, deadlines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorplan.core.errors import TimeSpent
from tensorplan.core.mdp import Array


def now() -> float:
    """The wall clock in seconds; all deadlines read it here, so that tests can replace it."""
    return time.perf_counter()


class Deadline:
    """The moment at which planning has to end, so many seconds from now; by default never."""

    __slots__ = ("end",)

    def __init__(self, seconds: float = math.inf) -> None:
        self.end = math.inf if seconds == math.inf else now() + seconds

    @property
    def remaining(self) -> float:
        """Seconds left, at least 0; ``inf`` without a limit."""
        return math.inf if self.end == math.inf else max(0.0, self.end - now())

    @property
    def passed(self) -> bool:
        """Whether the time is over."""
        return self.end != math.inf and now() >= self.end

    def check(self) -> None:
        """Raise TimeSpent once the time is over."""
        if self.passed:
            raise TimeSpent("the time limit has passed")

    def lift(self) -> None:
        """No limit any more: planning has ended, and acting may take as long as it takes."""
        self.end = math.inf


NEVER = Deadline()
"""The deadline where there is no time limit."""


class Node(Protocol):
    """A state as the planner sees it.  Only an access object issues nodes."""

    note: Any
    """Free for the planner's use, initially None; a state seen again is usually, but not always, the same node."""

    @property
    def stage(self) -> int:
        """Steps taken so far; always 0 in problems without a horizon."""

    @property
    def key(self) -> Any:
        """A hashable identity of the state, or None if the state is not hashable."""

    @property
    def phi_v(self) -> Array:
        """φ_v of the state, (d,)."""

    @property
    def phi_q(self) -> Array:
        """φ_q of the state, (A, d)."""


class Outcome(NamedTuple):
    """The result of one query: the reward, and the next node or END."""

    reward: float
    next: Any


class Sample(Protocol):
    """Samples at one state-action pair, as arrays: sample i leads to ``successors[which[i]]``."""

    def __len__(self) -> int: ...
    @property
    def rewards(self) -> Array:
        """The rewards, (n,)."""

    @property
    def successors(self) -> Sequence[Any]:
        """The distinct successors: nodes or END."""

    @property
    def which(self) -> NDArray[np.integer[Any]]:
        """The index of the successor of each sample, (n,)."""


class Trail(NamedTuple):
    """The rewards along a path of given actions, and the node (or END) where it stopped."""

    rewards: list[float]
    last: Any


class Walk(NamedTuple):
    """The (node, reward) steps of a path chosen on the way, and the node (or END) where it stopped."""

    steps: list[tuple[Any, float]]
    last: Any


class Access(Protocol):
    """All that a planner sees of a problem: its declarations, the root, and metered queries."""

    problem_name: str
    horizon: int | None
    actions: int
    reward_range: tuple[float, float]
    deterministic_transitions: bool
    deterministic_rewards: bool
    discount: float
    bound: float
    dimension: int
    has_phi_v: bool
    has_phi_q: bool
    declared_returns: tuple[float, float] | None
    """The range of returns declared by the MDP, or None."""
    joint: bool
    """Whether one batch of queries serves all actions of a state."""
    identity: object
    """Equal for all access objects of one problem, and different between problems."""

    @property
    def root(self) -> Node:
        """The state in which the episode starts."""

    @property
    def spent(self) -> int:
        """Queries charged so far in this episode."""

    @property
    def remaining(self) -> float:
        """Queries left in the budget; ``inf`` without one."""

    @property
    def deadline(self) -> Deadline:
        """When planning has to end; queries after it raise TimeSpent."""

    def limit_time(self, seconds: float | None) -> None:
        """Set the deadline, so many seconds from now, unless there is an earlier one; None sets none."""

    @property
    def drew(self) -> bool:
        """Whether queries declared deterministic drew random numbers, which is a reason to recheck them."""

    @property
    def clipped(self) -> bool:
        """Whether features were evaluated outside of their frame, and replaced by those of the nearest point."""

    def return_range(self, stage: int, discount: float | None = None) -> tuple[float, float]:
        """The range of the return from ``stage`` on, with the problem's discount or another one."""

    def query(self, node: Node, action: int, n: int = 1) -> Sequence[Outcome]:
        """n samples of (reward, next) at a node issued before."""

    def sample(self, node: Node, action: int, n: int) -> Sample:
        """Like ``query``, with the samples as arrays."""

    def misfit(self, kind: str = "v") -> Any:
        """The distance of the features from realizing v* or q*, if known free of charge; else None.

        It serves to check certificates, not to plan (:mod:`tensorplan.problems.realizability`).
        """

    def recheck(self, node: Node, action: int) -> Outcome:
        """One query that bypasses the cache, charged; a result that contradicts an earlier one is an error."""

    def sample_all(self, node: Node, n: int, *, shared: bool = False) -> Sequence[Sample]:
        """n samples of every action, in the order of the actions; they may share rewards if one batch serves all.

        ``shared``: all actions are given the same random numbers, so that their differences vary less.
        """

    def follow(self, node: Node, actions: Iterable[int]) -> Trail:
        """Query along a path of given actions, until END or the last of them."""

    def walk(self, node: Node, choose: Callable[[Any], int | None]) -> Walk:
        """Query along a path of actions ``choose(node)``, until END or until it returns None."""
