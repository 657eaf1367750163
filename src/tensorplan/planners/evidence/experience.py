"""Transition counts and mean rewards of the simulator, and the policies that are optimal for them.

Dynamics depend on the state alone (see :class:`tensorplan.core.MDP`), so a transition seen at one stage counts at all.
These policies assume nothing about features: they are candidates for acting, and challenge certificates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import END, Access, Array, Node, Sample

LARGEST = 500_000
"""Distinct transitions that are recorded; later ones are dropped, which bounds the memory."""

SWEEPS = 200
"""The most sweeps of value iteration without a horizon."""

ENOUGH = 1e-3
"""Value iteration without a horizon ends when a sweep changes no value by more than this share of the largest."""

ENDED, TIME_IS_UP = -1, -2
"""Successors: END, and END after the last stage, which says nothing about the next state."""

PATIENT = 1 - 1e-6
"""A discount on top of the problem's, which prefers the earlier of equal rewards."""


class Experience:
    """Transition counts between states; states that cannot be hashed are not recorded."""

    def __init__(self, access: Access, discount: float) -> None:
        self.actions, self.horizon, self.discount = access.actions, access.horizon, discount
        self.certain = access.deterministic_transitions and access.deterministic_rewards
        self.index: dict[Any, int] = {}
        """The number of each state by its key."""
        self.pairs: dict[int, dict[int, list[float]]] = {}
        """By pair, state * A + action: for each successor, its count and the sum of its rewards."""
        self.size = 0
        self.paid = False
        """Whether any reward was not zero."""
        self._first: dict[Any, tuple[int, Array]] = {}
        self._timeless = self._timely = 0

    # ------------------------------------------------------------------ learning

    def add(self, node: Node, action: int, sample: Sample) -> None:
        """Record a batch of outcomes."""
        counts = np.bincount(sample.which, minlength=len(sample.successors))
        rewards = np.bincount(sample.which, weights=sample.rewards, minlength=len(sample.successors))
        reached = np.flatnonzero(counts).tolist()
        self.paid = self.paid or bool(np.any(sample.rewards))
        for i in reached:
            self._count(node, action, sample.successors[i], float(counts[i]), float(rewards[i]))

    def add_one(self, node: Node, action: int, reward: float, following: Any) -> None:
        """Record one outcome."""
        self.paid = self.paid or reward != 0
        self._count(node, action, following, 1.0, reward)

    def _count(self, node: Node, action: int, following: Any, count: float, reward: float) -> None:
        state = self._number(node)
        over = node.stage + 1 == self.horizon
        ahead = (TIME_IS_UP if over else ENDED) if following is END else self._number(following)
        if state is None or ahead is None:
            return
        successors = self.pairs.setdefault(state * self.actions + action, {})
        entry = successors.get(ahead)
        if entry is None:
            if self.size < LARGEST:
                successors[ahead] = [count, reward]
                self.size += 1
        else:
            entry[0] += count
            entry[1] += reward

    def _number(self, node: Node) -> int | None:
        key = node.key
        if key is None:
            return None
        number = self.index.get(key)
        if number is None and len(self.index) < LARGEST:
            number = self.index[key] = len(self.index)
        return number

    def meet(self, node: Node) -> None:
        """Compare the features of a state at a new stage with those at the stage where it was first seen."""
        if self.horizon is None or node.key is None:
            return
        stage, phi = self._first.setdefault(node.key, (node.stage, node.phi_v))
        if stage != node.stage:
            if np.array_equal(phi, node.phi_v):
                self._timeless += 1
            else:
                self._timely += 1

    @property
    def timeless(self) -> bool:
        """Whether every state seen at several stages had the same features at all of them."""
        return self._timeless > 0 and not self._timely

    # ------------------------------------------------------------------ planning

    def greedy(self) -> Choices:
        """The optimal policy for the transitions seen; untried actions are not taken."""
        return self._plan(0.0, None)

    def curious(self, prize: float) -> Choices:
        """An exploring policy: an untried action is worth ``prize``, or as much as the best known one if that is more.

        In a random problem others have a bonus: the spread of rewards and next values over the square root of their
        count.
        """
        return self._plan(0.0 if self.certain else 1.0, prize)

    def _plan(self, bonus: float, prize: float | None) -> Choices:
        model = _Model(self)
        if self.horizon is not None:
            value, stages = np.zeros(model.states + 1), []
            for _ in range(self.horizon):
                choice, value = model.back_up(value, bonus, prize)
                stages.append(choice)
            return Choices(self.index, np.array(stages[::-1]))
        value = np.zeros(model.states + 1)
        for _ in range(SWEEPS):
            before = value
            choice, value = model.back_up(value, bonus, prize)
            if np.abs(value - before).max() <= ENOUGH * np.abs(value).max():
                break
        return Choices(self.index, choice[None])


class Choices:
    """A fixed table of actions by stage and known state."""

    def __init__(self, index: dict[Any, int], table: NDArray[np.int16]) -> None:
        self.index, self.table = index, table

    def __call__(self, node: Node) -> int | None:
        """The action, or None if none is known."""
        number = self.index.get(node.key)
        if number is None or number >= self.table.shape[1]:
            return None
        action = int(self.table[min(node.stage, len(self.table) - 1), number])
        return None if action < 0 else action


class _Model:
    """The counts as arrays."""

    def __init__(self, experience: Experience) -> None:
        self.actions, self.states = experience.actions, len(experience.index)
        self.discount = PATIENT * experience.discount
        entries: Sequence[tuple[int, int, float, float]] = [
            (pair, ahead, count, reward)
            for pair, successors in experience.pairs.items()
            for ahead, (count, reward) in successors.items()
        ]
        table = np.array(entries, dtype=np.float64).reshape(-1, 4)
        size, pair, count = self.states * self.actions, table[:, 0].astype(np.intp), table[:, 2]
        paid = np.bincount(pair, weights=count, minlength=size)
        self.tried = paid > 0
        self.reward = np.bincount(pair, weights=table[:, 3], minlength=size) / np.maximum(paid, 1.0)
        led = table[:, 1] != TIME_IS_UP
        self.pair, self.ahead, self.count = pair[led], table[led, 1].astype(np.intp), count[led]
        total = np.bincount(self.pair, weights=self.count, minlength=size)
        self.followed = total > 0
        """Pairs with a known successor."""
        self.total = np.maximum(total, 1.0)

    def back_up(self, value: Array, bonus: float, prize: float | None) -> tuple[NDArray[np.int16], Array]:
        """The best actions, -1 if none was tried, and their values; ``value`` (S + 1,) is that of the next states.

        Unknown states get the average value of the others.
        """
        ahead = value[self.ahead]
        expected = np.bincount(self.pair, weights=self.count * ahead, minlength=len(self.tried)) / self.total
        q = self.reward + self.discount * expected
        if bonus:
            spread = float(np.ptp(self.reward[self.tried])) if self.tried.any() else 0.0
            q += bonus * (spread + float(np.ptp(value))) / np.sqrt(self.total)
        known, untried = self.tried, -np.inf
        if prize is not None:
            known = self.followed
            untried = max(prize, float(q[known].max(initial=-np.inf)))
        q = np.where(known, q, untried).reshape(self.states, self.actions)
        best = q.max(axis=1, initial=-np.inf)
        sure = best > -np.inf
        average = float(best[sure].mean()) if sure.any() else 0.0
        return (
            np.where(sure, q.argmax(axis=1), -1).astype(np.int16),
            np.append(np.where(sure, best, average), 0.0),
        )
