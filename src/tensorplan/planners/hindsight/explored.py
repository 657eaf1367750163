"""What is known of a discounted problem without a horizon: bounds by value iteration on the pairs queried so far.

A pair that was not queried is worth between the least and the largest return.  Value iteration keeps an upper bound on
v* an upper bound, and a lower one a lower bound, so it may stop at any time.  States are merged at all times, which
best-first search cannot do: it compares paths that have taken the same number of steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import END, Access, Array, Node
from tensorplan.planners.evidence.challenge import PathStep

UNKNOWN, ENDED = -2, -1
"""In place of the number of the next state: not queried, and END.  They refer to the last places of a table."""

FIRST = 256
"""States for which there is room at first."""

SWEEPS = 10_000
"""Most sweeps of value iteration at a time, which continues from there the next time."""

SWEEP = 3_000
"""The pairs that take as long as what every sweep costs in any case."""

ACCURACY = 0.1
"""How far from the fixed point value iteration may end, as a share of the wanted width of the bracket."""


class Lasso(NamedTuple):
    """A path that may come back to its step ``loop`` and go round for ever, with its return."""

    steps: list[PathStep]
    loop: int | None
    value: float


class Explored:
    """The pairs queried so far, and bounds on v* of their states."""

    def __init__(self, access: Access) -> None:
        self.access, self.discount = access, access.discount
        self.low, self.high = access.return_range(0)
        self._numbers: dict[Any, int] = {}
        self._nodes: list[Node] = []
        self._rewards: Array = np.zeros((FIRST, access.actions))
        self._following = np.full((FIRST, access.actions), UNKNOWN)
        self.work = 0
        """The effort of value iteration so far: pairs times sweeps, and what a sweep costs in any case."""
        self._upper: Array = np.zeros(0)
        self._lower: Array = np.zeros(0)
        self._number(access.root)

    def add(self, node: Node, action: int, reward: float, following: Any) -> None:
        """Record the answer to a query; states that cannot be hashed are left out."""
        number = self._number(node)
        ahead = ENDED if following is END else self._number(following)
        if number != UNKNOWN:
            self._rewards[number, action], self._following[number, action] = reward, ahead

    def _number(self, node: Node) -> int:
        key = node.key
        if key is None:
            return UNKNOWN
        number = self._numbers.setdefault(key, len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(node)
            if len(self._nodes) > len(self._rewards):
                self._rewards = np.concatenate([self._rewards, np.zeros_like(self._rewards)])
                self._following = np.concatenate([self._following, np.full_like(self._following, UNKNOWN)])
        return number

    def upper(self, width: float) -> float:
        """An upper bound on v* of the root, for a bracket of about this width."""
        if not self._nodes:
            return self.high
        self._upper = self._iterate(self._upper, self.high, np.minimum, width)
        return float(self._upper[0])

    def probe(self, steps: int) -> None:
        """Follow the policy with the largest upper bound to an action that was not queried, and query it."""
        if not self._nodes:
            return
        actions = self._pairs(self.high).ahead(self._upper).argmax(axis=1).tolist()
        number = 0
        for _ in range(steps):
            ahead = int(self._following[number, actions[number]])
            if ahead == UNKNOWN:
                self._query(number)
            if ahead < 0:
                return
            number = ahead

    def _query(self, number: int) -> None:
        """Query all actions of a state that were not queried: they have the same upper bound."""
        node = self._nodes[number]
        for action in np.flatnonzero(self._following[number] == UNKNOWN).tolist():
            self.add(node, action, *self.access.query(node, action)[0])

    def lasso(self, width: float) -> Lasso:
        """The path of the policy that is best if pairs that were not queried earn the least possible."""
        if not self._nodes:
            return Lasso([], None, self.low)
        self._lower = self._iterate(self._lower, self.low, np.maximum, width)
        return self._follow(self._pairs(self.low).ahead(self._lower).argmax(axis=1).tolist())

    def _iterate(self, values: Array, new: float, keep: np.ufunc, width: float) -> Array:
        """Value iteration from bounds on v*, of which it keeps the better ones; ``new`` is that of new states."""
        pairs = self._pairs(new)
        values = np.append(values, np.full(len(self._nodes) - len(values), new))
        for _ in range(SWEEPS):
            if self.access.deadline.passed:
                break
            self.work += SWEEP + pairs.rewards.size
            before, values = values, keep(values, pairs.ahead(values).max(axis=1))
            if np.abs(values - before).max() <= ACCURACY * width * (1 - self.discount):
                break
        return values

    def _pairs(self, unknown: float) -> Pairs:
        size = len(self._nodes)
        return Pairs(self._rewards[:size], self._following[:size], self.discount, unknown)

    def _follow(self, actions: list[int]) -> Lasso:
        """The path of a policy, as far as it is known."""
        steps, visited, number = list[PathStep](), dict[int, int](), 0
        earned, scale, on_the_way = 0.0, 1.0, list[tuple[float, float]]()
        while number >= 0 and number not in visited and self._following[number, actions[number]] != UNKNOWN:
            visited[number] = len(steps)
            on_the_way.append((earned, scale))
            action, node = actions[number], self._nodes[number]
            reward, number = float(self._rewards[number, action]), int(self._following[number, action])
            steps.append(PathStep(node, action, reward, END if number == ENDED else self._nodes[number]))
            earned, scale = earned + scale * reward, scale * self.discount
        if number == ENDED:
            return Lasso(steps, None, earned)
        if number not in visited:
            return Lasso(steps, None, earned + scale * self.low)
        before, first = on_the_way[visited[number]]
        return Lasso(steps, visited[number], before + (earned - before) / (1 - scale / first))


class Pairs(NamedTuple):
    """Rewards and next states of all pairs, both (S, A)."""

    rewards: Array
    following: NDArray[np.int64]
    discount: float
    unknown: float
    """The value of a pair that was not queried."""

    def ahead(self, values: Array) -> Array:
        """R + γ V(S') of all pairs."""
        ahead: Array = self.rewards + self.discount * np.append(values, [0.0, 0.0])[self.following]
        ahead[self.following == UNKNOWN] = self.unknown
        return ahead
