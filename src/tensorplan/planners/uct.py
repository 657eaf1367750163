"""UCT (Kocsis and Szepesvári 2006), with transpositions.

One simulation descends from the current state by

    argmax_a  Q(s,a) + c(s) sqrt(ln N(s) / N(s,a)),      untried actions first,

until it meets a state for the first time, adds that state, plays random actions from there, and backs up the returns.
States are shared: N and Q belong to (stage, state), however it was reached, and they are kept from one call to the
next within an episode.  c(s) is ``exploration`` times the spread of the returns seen from s, so that it
follows the scale of what is left to gain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tensorplan.core import END, Access, BadInput, BudgetSpent, Node
from tensorplan.specs import number, whole

_POOL = 8192


@dataclass(frozen=True, kw_only=True)
class UCT:
    """Upper confidence trees: ``simulations`` per call, each of at most ``depth`` steps where there is no horizon."""

    simulations: int = 1000
    exploration: float = 1.0
    depth: int = 1000
    about: ClassVar[str] = "upper confidence trees with transpositions; no bound on queries"

    def __post_init__(self) -> None:
        whole("simulations", self.simulations, 1)
        number("exploration", self.exploration, 0.0)
        whole("depth", self.depth, 1)

    def begin(self, access: Access, rng: np.random.Generator) -> Tree:
        """Start an episode."""
        return Tree(access, self, rng)


class Stats:
    """What is known of one state at one stage."""

    __slots__ = ("counts", "high", "low", "means", "node", "simulation", "untried", "visits")

    def __init__(self, node: Node, actions: list[int]) -> None:
        self.node = node
        self.visits = 0
        self.counts = [0] * len(actions)
        self.means = [0.0] * len(actions)
        self.untried = actions
        self.simulation = 0
        self.low = math.inf
        self.high = -math.inf


class Tree:
    """See UCT."""

    def __init__(self, access: Access, config: UCT, rng: np.random.Generator) -> None:
        self.access = access
        self.config = config
        self.rng = rng
        self.depth = config.depth if access.horizon is None else access.horizon
        self.table: dict[Any, Stats] = {}
        self.simulation = 0
        self.pool: list[int] = []
        self.place = 0

    def act(self, node: Node) -> int:
        """The action with the best mean after the simulations, or after as many as the budget allows."""
        stats = self.table.get((node.stage, node.key)) or self._add(node)
        try:
            for _ in range(self.config.simulations):
                self._simulate(stats)
        except BudgetSpent:
            if not stats.visits:
                raise
        return max(range(self.access.actions), key=lambda a: (stats.counts[a] > 0, stats.means[a], stats.counts[a]))

    def _simulate(self, stats: Stats) -> None:
        query, table, exploration = self.access.query, self.table, self.config.exploration
        self.simulation += 1
        path: list[tuple[Stats, int, float]] = []
        left = self.depth - stats.node.stage
        while True:
            stats.simulation = self.simulation
            action = stats.untried[-1] if stats.untried else _select(stats, exploration)
            ((reward, following),) = query(stats.node, action)
            path.append((stats, action, reward))
            left -= 1
            if following is END or left == 0:
                value = 0.0
                break
            known = table.get((following.stage, following.key))
            if known is None:
                self._add(following)
            elif known.simulation < self.simulation:
                stats = known
                continue
            # A new state, or (where there is no horizon) one that closes a circle.
            value = sum(self.access.follow(following, self._random_actions(left)).rewards)
            break
        for stats, action, reward in reversed(path):
            value += reward
            if stats.untried:
                stats.untried.pop()
            stats.visits += 1
            stats.counts[action] += 1
            stats.means[action] += (value - stats.means[action]) / stats.counts[action]
            if value < stats.low:
                stats.low = value
            if value > stats.high:
                stats.high = value

    def _add(self, node: Node) -> Stats:
        if node.key is None:
            raise BadInput(f"{node!r} cannot be hashed, and UCT must recognise states: use hashable states")
        order = self._random_actions(self.access.actions * 4)
        untried = list(dict.fromkeys([*order, *range(self.access.actions)]))
        self.table[node.stage, node.key] = stats = Stats(node, untried)
        return stats

    def _random_actions(self, n: int) -> list[int]:
        """The next n of a stream of uniform actions."""
        start, self.place = self.place, self.place + n
        if self.place > len(self.pool):
            self.pool = self.rng.integers(self.access.actions, size=max(_POOL, n)).tolist()
            start, self.place = 0, n
        return self.pool[start : self.place]


def _select(stats: Stats, exploration: float) -> int:
    """argmax_a Q(s,a) + c(s) sqrt(ln N(s) / N(s,a))."""
    width = exploration * (stats.high - stats.low) * math.sqrt(math.log(stats.visits))
    best, choice = -math.inf, 0
    for action, (mean, count) in enumerate(zip(stats.means, stats.counts, strict=True)):
        score = mean + width / math.sqrt(count)
        if score > best:
            best, choice = score, action
    return choice
