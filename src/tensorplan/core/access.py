"""What a planner may ask: nodes, the access object that issues them, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorplan.core.mdp import Array


class Node(Protocol):
    """A state as the planner sees it.  Only an access object issues nodes."""

    note: Any
    """For the planner's own use, None at first; a state seen again is usually, not always, the same node."""

    @property
    def stage(self) -> int:
        """Steps taken so far; always 0 in problems without a horizon."""

    @property
    def key(self) -> Any:
        """A hashable identity of the state, or None where the state cannot be hashed."""

    @property
    def phi_v(self) -> Array:
        """φ_v of the state, (d,)."""

    @property
    def phi_q(self) -> Array:
        """φ_q of the state, (A, d)."""


class Outcome(NamedTuple):
    """One answer of the simulator: the reward, and the next node or END."""

    reward: float
    next: Any


class Sample(Protocol):
    """Outcomes of one pair as arrays, for planners that average: sample i went to successors[which[i]]."""

    def __len__(self) -> int: ...
    @property
    def rewards(self) -> Array:
        """The rewards, (n,)."""

    @property
    def successors(self) -> Sequence[Any]:
        """The nodes (or END) that samples may have gone to; samples share them."""

    @property
    def which(self) -> NDArray[np.integer[Any]]:
        """For each sample the index of its successor, (n,)."""


class Trail(NamedTuple):
    """What following a list of actions gave: the rewards, and the node (or END) where it stopped."""

    rewards: list[float]
    last: Any


class Walk(NamedTuple):
    """What walking with a rule gave: the nodes left and their rewards, and the node (or END) where it stopped."""

    steps: list[tuple[Any, float]]
    last: Any


class Access(Protocol):
    """The planner's only window on the world: public facts, the root, and metered queries."""

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
    """The range of returns that the MDP declares, where it does."""
    identity: object
    """The same for all access objects of one problem, and of no other."""

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
    def drew(self) -> bool:
        """Whether answers drew random numbers: where they are declared deterministic, a reason to ask them again."""

    @property
    def clipped(self) -> bool:
        """Whether features were asked for at points outside of their frame, and gave those of the nearest point."""

    def return_range(self, stage: int, discount: float | None = None) -> tuple[float, float]:
        """The range of the return from ``stage`` on, with the problem's discount or another one."""

    def query(self, node: Node, action: int, n: int = 1) -> Sequence[Outcome]:
        """Ask for n samples of (reward, next) at a node issued before."""

    def sample(self, node: Node, action: int, n: int) -> Sample:
        """The same question; the answers as arrays."""

    def misfit(self, kind: str = "v") -> Any:
        """How far the features are from realizing v* or q*, where that is known free of charge; else None.

        It is for holding certificates against, not for planning (:mod:`tensorplan.problems.realizability`).
        """

    def recheck(self, node: Node, action: int) -> Outcome:
        """One query that no cache answers, charged; an answer that contradicts an earlier one is an error."""

    def sample_all(self, node: Node, n: int) -> Sequence[Sample]:
        """n samples of every action, in the order of the actions; they may share rewards where one batch serves all."""

    def follow(self, node: Node, actions: Iterable[int]) -> Trail:
        """Query along a path: the actions in turn, each where the last one led, until END or their end."""

    def walk(self, node: Node, choose: Callable[[Any], int | None]) -> Walk:
        """Query along a path that is chosen on the way, until END or until ``choose(node)`` gives None."""
