"""Fixed policies, their episodes, and lower bounds on their values.

A candidate is fixed before its episodes are drawn, so its returns are independent and identically distributed, and a
lower bound on their mean assumes nothing about features.  Returns that served to select a candidate do not count for
its bound: an evaluation draws fresh ones, with a share of the failure probability that is fixed beforehand.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorplan.core import END, Array, Node
from tensorplan.core.intervals import BETS, betting_lower_bound
from tensorplan.planners.evidence.approx_td import Moments
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.evidence.queries import Queries
from tensorplan.problems.simulate import believable

GROWTH = 1.3
"""The factor by which an evaluation grows between looks; its bound holds at all sizes, so looks cost nothing."""


FEW = 1_000
"""Episodes of an evaluation that are recorded as experience; more would add little."""


def key_of(node: Node) -> Any:
    """The identity of a node's state; one that cannot be hashed counts as new at each visit."""
    key = node.key
    return node if key is None else (node.stage, key)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fixed policy.

    If ``known`` gives no action, ``samples`` fresh samples of each select the one with the largest temporal
    difference under ``theta``; without a θ the action is random.  What was selected once is kept: this is a policy that
    was drawn at random before its episodes, and of which only the part that they meet is ever looked at.
    """

    name: str
    known: Callable[[Node], int | None]
    theta: Array | None = None
    """[1, θ]"""
    samples: int = 0
    chosen: dict[Any, int] = field(default_factory=dict)
    """The actions selected so far; not of states that cannot be hashed."""


RANDOM = Candidate("random", lambda node: None)
"""Uniformly random actions."""


@dataclass(eq=False)
class Visits:
    """What episodes of one policy have seen."""

    returns: list[float] = field(default_factory=list)
    weights: Counter[Any] = field(default_factory=Counter)
    """Σ γ^t over the visits of a state."""
    nodes: dict[Any, Node] = field(default_factory=dict)
    fresh: list[tuple[Any, Moments]] = field(default_factory=list)
    """The moments of the samples drawn at states where no action was known."""
    path: list[tuple[Place, int]] = field(default_factory=list)
    """The first episode."""
    queries: int = 0
    """Queries made for these episodes, cached ones included."""

    def meet(self, node: Node, key: Any, weight: float, action: int) -> None:
        """Count one step, or several equal ones."""
        self.nodes[key] = node
        self.weights[key] += weight  # type: ignore[assignment]
        if not self.returns:
            self.path.append((Place.of(node), action))

    @property
    def mean(self) -> float:
        """The mean return; -inf before the first one."""
        return math.fsum(self.returns) / len(self.returns) if self.returns else -math.inf

    @property
    def error(self) -> float:
        """The standard error of the mean return."""
        return float(np.std(self.returns)) / math.sqrt(len(self.returns)) if self.returns else math.inf


class EpisodePlayer:
    """Plays episodes of candidates from the start state."""

    def __init__(self, queries: Queries, steps: int, rng: np.random.Generator) -> None:
        self.queries, self.access, self.rng = queries, queries.access, rng
        self.discount, self.steps = queries.discount, steps

    def choose(self, candidate: Candidate, node: Node, visits: Visits | None = None) -> int:
        """The candidate's action at a node."""
        action = candidate.known(node)
        if action is not None:
            return action
        if candidate.theta is None:
            return int(self.rng.integers(self.access.actions))
        key = key_of(node)
        action = candidate.chosen.get(key)
        if action is None:
            moments = self.queries.moments(node, [candidate.samples] * self.access.actions)
            if visits is not None:
                visits.fresh.append((key, moments))
            action = int(np.argmax(moments.deltas(node.phi_v) @ candidate.theta))
            if node.key is not None:
                candidate.chosen[key] = action
        return action

    def play(self, candidate: Candidate, n: int, visits: Visits, remember: bool = True) -> None:
        """n more episodes; with deterministic transitions and known actions, all take the same steps."""
        before = self.queries.made
        try:
            self._play(candidate, n, visits, remember)
        finally:
            visits.queries += self.queries.made - before

    def _play(self, candidate: Candidate, n: int, visits: Visits, remember: bool) -> None:
        node: Any = self.access.root
        totals, weight, time = np.zeros(n), 1.0, 0
        while self.access.deterministic_transitions and node is not END and time < self.steps:
            action = candidate.known(node)
            if action is None:
                break
            visits.meet(node, key_of(node), n * weight, action)
            sample = self.queries.batch(node, action, n)
            totals += weight * sample.rewards
            weight, time, node = weight * self.discount, time + 1, sample.successors[sample.which[0]]
        for total in totals.tolist():
            visits.returns.append(self._finish(candidate, node, total, weight, time, visits, remember))

    def _finish(
        self, candidate: Candidate, node: Any, total: float, weight: float, time: int, visits: Visits, remember: bool
    ) -> float:
        """The return of an episode continued from a node; if it is truncated, plus the least that can follow."""
        low, high = self.access.return_range(0, self.discount)
        while node is not END:
            if time == self.steps:
                return max(total + weight * self.access.return_range(time, self.discount)[0], low)
            action = self.choose(candidate, node, visits)
            visits.meet(node, key_of(node), weight, action)
            reward, node = self.queries.step(node, action, remember)
            total += weight * reward
            weight, time = weight * self.discount, time + 1
        return believable(self.access.problem_name, total, (low, high))


class Evaluation:
    """Returns of one candidate, drawn for its lower bound alone."""

    def __init__(
        self,
        candidate: Candidate,
        player: EpisodePlayer,
        number: int,
        share: float,
        least: float,
        bets: Array = BETS,
    ) -> None:
        self.candidate, self.player = candidate, player
        self.number, self.share, self.least, self.bets = number, share, least, bets
        self.visits = Visits()
        self.lower = least
        """A lower bound on the value of the candidate, with probability 1 - share for all sizes at once."""
        self.shown = 0
        """How many returns gave that bound; more of them may give a smaller one."""

    def grow(self, most: float = math.inf) -> None:
        """More episodes, by a factor of :data:`GROWTH`, but about ``most`` queries in all."""
        n = len(self.visits.returns)
        more = max(8, math.ceil((GROWTH - 1) * n))
        if n and most < math.inf:
            more = max(1, min(more, int(most * n / max(self.visits.queries, 1)) - n))
        try:
            self.player.play(self.candidate, more, self.visits, remember=len(self.visits.returns) < FEW)
        finally:  # any prefix of the returns gives a valid bound
            lower = betting_lower_bound(self.visits.returns, self.least, self.share, self.bets)
            if lower > self.lower:
                self.lower, self.shown = lower, len(self.visits.returns)
