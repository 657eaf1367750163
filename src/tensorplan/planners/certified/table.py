"""The table: every state that was met in a session, and all samples drawn there.

What it says is an estimate.  It decides which policy is tried and where samples go next, never what is proved: bounds
rest on tallies of samples drawn after it was decided what they are for (:mod:`tensorplan.planners.certified.bets`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorplan.core import Access, Array, Node
from tensorplan.planners.certified.bets import WIDE, Tally
from tensorplan.planners.evidence.approx_td import Moments
from tensorplan.planners.evidence.evaluation import Visits, key_of
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.evidence.queries import Queries

NO_TALLIES: Mapping[int, Sequence[Tally]] = {}


class Estimate:
    """One state in the table: its features, and the moments of all samples drawn there."""

    __slots__ = ("first", "moments", "node", "phi", "place", "ranged", "tallies", "width")

    def __init__(self, node: Node, actions: int, width: float) -> None:
        self.place = Place.of(node)
        self.phi = node.phi_v
        self.node: Node | None = node
        """The node to query in this episode; None if only an earlier episode was here."""
        self.width = width
        """The length of the range of R + γ <φ(S'), θ*>."""
        self.moments = Moments(actions, len(self.phi))
        self.first = Moments(actions, len(self.phi))
        """Of the first half of the samples: see :mod:`tensorplan.planners.certified.fit`."""
        self.ranged = False
        """Whether its value range (T2) is in Sol."""
        self.tallies: list[Tally] = []
        """By action, of all samples since the state is measured; empty before."""

    @property
    def known(self) -> bool:
        """Whether every action has samples, and a variance."""
        return self.moments.n >= 2

    def values(self, theta: Array) -> Array:
        """The estimated l_a(θ), (A,)."""
        return np.asarray(self.moments.deltas(self.phi) @ theta)

    def violation(self, theta: Array) -> float:
        """-max_a of the estimated l_a(θ)."""
        return -float(np.max(self.values(theta)))

    def variances(self, theta: Array) -> Array:
        """The sample variances of l_a(θ), (A,)."""
        return np.array([self.moments.variance(action, theta) for action in range(len(self.moments.counts))])

    def add(self, batch: Moments, more: Mapping[int, Sequence[Tally]], *, first: bool) -> None:
        """Add fresh samples; tallies have a mean of earlier samples as their prediction."""
        for action in np.flatnonzero(batch.counts).tolist():
            tallies = [*self.tallies[action : action + 1], *more.get(action, ())]
            if tallies:
                wide = len(self.phi) >= WIDE
                origin = self.moments.sums[action] / self.moments.counts[action]
                scatter = None if wide else batch.second(action, origin)
                for tally in tallies:
                    tally.add(int(batch.counts[action]), batch.sums[action], scatter)
        self.learn(batch, first=first)

    def learn(self, batch: Moments, *, first: bool) -> None:
        """Add samples to the estimate alone."""
        self.moments.add(batch)
        if first:
            self.first.add(batch)


class StateTable:
    """All states met in a session."""

    queries: Queries

    def __init__(self, experience: Experience, eta: float) -> None:
        self.experience, self.eta = experience, eta
        self.drawn = self.tallied = 0
        """Samples so far, and those of them that count for rows."""
        self.estimates: dict[Any, Estimate] = {}

    def begin(self, queries: Queries) -> None:
        """Start an episode: nodes of the last one cannot be queried any more."""
        self.queries = queries
        for estimate in self.estimates.values():
            estimate.node = None

    def at(self, node: Node, key: Any = None) -> Estimate:
        """The estimate of a node's state, created if it is new."""
        key = key_of(node) if key is None else key
        estimate = self.estimates.get(key)
        if estimate is None:
            width = td_width(self.queries.access, self.queries.discount, self.eta, node.stage)
            self.estimates[key] = estimate = Estimate(node, self.experience.actions, width)
            self.experience.meet(node)
        estimate.node = node
        return estimate

    def draw(
        self, estimate: Estimate, counts: Sequence[int], tallies: Mapping[int, Sequence[Tally]] = NO_TALLIES
    ) -> None:
        """Fresh samples of each action at a state of this episode, in two halves.

        ``tallies`` are those of one action that count them too.  Samples of several actions may share their noise, so
        that no sum may count them together.
        """
        assert estimate.node is not None
        halves = [(n + 1) // 2 for n in counts]
        self.drawn += sum(counts)
        self.tallied += sum(counts) if estimate.tallies else 0
        for part, first in ((halves, True), ([n - half for n, half in zip(counts, halves, strict=True)], False)):
            if any(part):
                estimate.add(self.queries.moments(estimate.node, part), tallies, first=first)

    def fill(self, estimate: Estimate, n: int) -> None:
        """Samples of every action until each has n of them."""
        missing = [max(0, n - int(count)) for count in estimate.moments.counts]
        if any(missing) and estimate.node is not None:
            self.draw(estimate, missing)

    def learn(self, visits: Visits) -> None:
        """Add the states and samples of episodes to the table."""
        for key, node in visits.nodes.items():
            self.at(node, key)
        for key, moments in visits.fresh:
            estimate = self.estimates[key]
            self.drawn += int(moments.counts.sum())
            estimate.learn(moments, first=2 * estimate.first.n <= estimate.moments.n)
        visits.fresh.clear()

    def visited(self, visits: Visits) -> list[tuple[Estimate, float]]:
        """The visited states that have samples, with the weights of their visits in an episode."""
        known = [(self.estimates[key], weight) for key, weight in visits.weights.items()]
        return [(estimate, weight / len(visits.returns)) for estimate, weight in known if estimate.known]


def td_width(access: Access, discount: float, eta: float, stage: int) -> float:
    """The length of the range of R + γ <φ(S'), θ*>; at most that of returns, since R + γ v*(S') is an expected one."""
    width = 0.0
    if not (access.deterministic_rewards and access.deterministic_transitions):  # R may depend on S'
        width += access.reward_range[1] - access.reward_range[0]
    if not access.deterministic_transitions:
        low, high = access.return_range(stage if access.horizon is None else stage + 1, discount)
        low, high = max(low - eta, -access.bound), min(high + eta, access.bound)
        width += discount * (high - low)
    low, high = access.return_range(stage, discount)
    return min(width, high - low + 2 * discount * eta)
