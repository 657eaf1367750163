"""UCT (Kocsis and Szepesvári 2006), with transpositions.

One simulation descends from the current state by

    argmax_a  Q(s,a) + c(s) sqrt(ln N'(s) / N(s,a)),      untried actions first,

until it meets a new state, adds that state, plays random actions from there, and backs up the returns.  States are
shared: N and Q belong to (stage, state), however it was reached, and persist from call to call within an episode.
c(s) is ``exploration`` times the spread of the returns seen from s, which adapts to the scale of rewards.  N'(s) is the
next power of two above N(s): between powers a visit changes the score of one action only, so a descent step is cheap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tensorplan.core import END, Access, Node
from tensorplan.core.errors import BadInput, BudgetSpent
from tensorplan.core.specs import number, whole

_POOL = 8192
"""Random actions drawn at a time: one draw per action would dominate the time of a simulation."""


@dataclass(frozen=True, kw_only=True)
class UCT:
    """Upper confidence trees: ``simulations`` per call, of at most ``depth`` steps where there is no horizon."""

    simulations: int = 1000
    exploration: float = 1.0
    depth: int = 100
    about: ClassVar[str] = "upper confidence trees with transpositions; no bound on queries"

    def __post_init__(self) -> None:
        whole("simulations", self.simulations, 1)
        number("exploration", self.exploration, 0.0)
        whole("depth", self.depth, 1)

    def begin(self, access: Access, rng: np.random.Generator) -> Tree:
        """Start an episode."""
        return Tree(access, self, rng)


class Stats:
    """The statistics of one state at one stage, and the action to take there next."""

    __slots__ = (
        "choice",
        "counts",
        "high",
        "low",
        "node",
        "scores",
        "simulation",
        "sums",
        "untried",
        "visits",
        "width",
    )

    def __init__(self, node: Node, order: list[int]) -> None:
        self.node = node
        self.visits = 0
        self.counts = [0] * len(order)
        self.sums = [0.0] * len(order)
        self.scores = [0.0] * len(order)
        self.untried = order
        self.choice = order.pop()
        self.simulation = 0
        self.low = math.inf
        self.high = -math.inf
        self.width = 0.0

    def mean(self, action: int) -> float:
        """Q(s, a)."""
        return self.sums[action] / self.counts[action] if self.counts[action] else -math.inf

    @property
    def best(self) -> int:
        """The action with the best mean; among ties, the one tried most often."""
        return max(range(len(self.counts)), key=lambda a: (self.mean(a), self.counts[a]))

    def update(self, value: float, exploration: float) -> None:
        """Count one return of ``choice``, and choose again."""
        action, scores = self.choice, self.scores
        self.counts[action] = count = self.counts[action] + 1
        self.sums[action] = total = self.sums[action] + value
        self.visits = visits = self.visits + 1
        if self.low <= value <= self.high and visits & (visits - 1) and not self.untried:
            scores[action] = total / count + self.width / math.sqrt(count)
        else:
            self._rescale(value, exploration)
            if self.untried:
                self.choice = self.untried.pop()
                return
            scores = self.scores
        self.choice = scores.index(max(scores))

    def _rescale(self, value: float, exploration: float) -> None:
        """Recompute all scores; while all returns are equal any width will do, since it only breaks ties."""
        self.low, self.high = min(self.low, value), max(self.high, value)
        log = self.visits.bit_length() * math.log(2.0)
        self.width = exploration * ((self.high - self.low) or 1.0) * math.sqrt(log)
        sums = zip(self.sums, self.counts, strict=True)
        self.scores = [total / n + self.width / math.sqrt(n) if n else math.inf for total, n in sums]


class Simulation(NamedTuple):
    """The actions of a simulation, its return, and whether it came to END."""

    actions: list[int]
    value: float
    ended: bool


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
        """The action with the best mean after the simulations, or as many of them as the budget allows."""
        stats = self.table.get((node.stage, node.key)) or self._add(node)
        try:
            self.grow(node, self.config.simulations)
        except BudgetSpent:
            if not stats.visits:
                raise
        return stats.best

    def grow(self, node: Node, simulations: int) -> None:
        """Run simulations from a node."""
        stats = self.table.get((node.stage, node.key)) or self._add(node)
        for _ in range(simulations):
            self._simulate(stats)

    def choices(self) -> Callable[[Node], int | None]:
        """The policy of the current tree: the action with the best mean, None at states not in the tree."""
        best = {key: stats.best for key, stats in self.table.items() if stats.visits}
        return lambda node: best.get((node.stage, node.key))

    def simulate(self, node: Node) -> Simulation:
        """Run one simulation from a node."""
        return self._simulate(self.table.get((node.stage, node.key)) or self._add(node))

    def _simulate(self, root: Stats) -> Simulation:
        """Descend, add a state, play on at random, back up."""
        self.simulation = simulation = self.simulation + 1
        table, left = self.table, self.depth - root.node.stage

        def choose(node: Node) -> int | None:
            nonlocal left
            stats: Stats | None = node.note or table.get((node.stage, node.key))
            if stats is None:
                self._add(node)
                return None
            if stats.simulation == simulation or not left:  # without a horizon: a cycle, or deep enough
                return None
            stats.simulation = simulation
            left -= 1
            return stats.choice

        steps, last = self.access.walk(root.node, choose)
        exploration, discount, value = self.config.exploration, self.access.discount, 0.0
        random_actions, rewards = list[int](), list[float]()
        if last is not END:
            random_actions = self._random_actions(left)
            rewards, last = self.access.follow(last, random_actions)
            value = sum(reward * discount**t for t, reward in enumerate(rewards)) if discount < 1 else sum(rewards)
        taken = [(node.note or table[node.stage, node.key]).choice for node, _ in steps]
        for node, reward in reversed(steps):
            value = reward + discount * value
            stats = node.note or table[node.stage, node.key]
            stats.update(value, exploration)
        return Simulation(taken + random_actions[: len(rewards)], value, last is END)

    def _add(self, node: Node) -> Stats:
        if node.key is None:
            raise BadInput(f"{node!r} cannot be hashed, and UCT must recognise states: use hashable states")
        order = dict.fromkeys([*self._random_actions(2 * self.access.actions), *range(self.access.actions)])
        self.table[node.stage, node.key] = node.note = stats = Stats(node, list(order))
        return stats

    def _random_actions(self, n: int) -> list[int]:
        """The next n of a stream of uniform actions."""
        start, self.place = self.place, self.place + n
        if self.place > len(self.pool):
            self.pool = self.rng.integers(self.access.actions, size=max(_POOL, n)).tolist()
            start, self.place = 0, n
        return self.pool[start : self.place]
