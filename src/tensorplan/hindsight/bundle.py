"""Many scenarios at once, where states are points: the same as :mod:`tensorplan.hindsight.scenario`, in arrays.

States are not numbered, since hardly any is reached twice: paths never meet.  All of a block of scenarios are at the
same time, and every row of an array is a path of one of them, its *owner*.  The path of the policy is one of the rows,
and is never cut for lack of width.  What a block is depends on its number alone, so a scenario does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorplan.access.noise import Purpose
from tensorplan.core import Array
from tensorplan.hindsight.scenario import Rules, Scenario
from tensorplan.hindsight.values import Values

BLOCK = 128
"""Scenarios of a block."""

ROWS = 500_000
"""Most steps of the simulator at once; bounds memory."""

NONE = -1
"""No row: the policy has come to END."""

Rows = NDArray[np.intp]


class ArrayPolicy(Protocol):
    """A policy that depends on state and stage alone, for many states at once."""

    def act_many(self, states: NDArray[Any], stage: int) -> NDArray[np.intp]:
        """The actions of n states, (n,)."""


class Bundle:
    """Some scenarios of a block, from start to end."""

    def __init__(
        self,
        values: Values,
        policy: ArrayPolicy,
        rules: Rules,
        samples: Sequence[int],
        starts: NDArray[Any],
        chosen: range,
    ) -> None:
        self.values, self.policy, self.rules, self.samples = values, policy, rules, samples
        self.access, self.problem = values.access, values.access.problem
        count = len(starts)
        self.chosen, self.count = chosen, count  # their places in the block, and how many there are
        self.states, self.owner, self.mine = starts, np.arange(count), np.arange(count)
        first = values.of(starts, 0)
        self.sums: Array = first.copy()
        self.policy_sums: Array = first.copy()
        self.best: Array = np.full(count, -np.inf)
        self.largest: Array = first.copy()
        self.largest_gap: Array = np.zeros(count)
        self.smallest: Array = first.copy()
        self.stopped: NDArray[np.bool_] = np.zeros(count, dtype=np.bool_)
        self.late: NDArray[np.bool_] = np.zeros(count, dtype=np.bool_)
        self.cut, self.looked = np.zeros(count, dtype=np.intp), np.zeros(count, dtype=np.intp)
        self.trails: Array = np.zeros((count, rules.times))
        """γ^t l̂ along each path."""
        self.varied: NDArray[np.bool_] = np.zeros(self.problem.actions, dtype=np.bool_)
        """Whether samples of R + γ V(S') of an action at one state have ever differed."""
        self.best_trails, self.policy_trails = np.zeros((count, rules.times)), np.zeros((count, rules.times))

    def run(self, purpose: Purpose, block: int) -> list[Scenario]:
        """The scenarios."""
        time, stage = 0, 0
        while len(self.states):
            ended = self._ends(time)
            self._cut_off(ended[self.owner], time, stage)
            if not len(self.states):
                break
            rng = np.random.default_rng(self.access.noise.at(purpose, block, (1 << 41) + time).integers(2**63, size=4))
            moves = self.access.separate_noise(BLOCK, 1, rng)[self.chosen.start : self.chosen.stop]
            most = max(self.samples)
            nested = self.access.separate_noise(BLOCK, most, rng)
            nested = nested.reshape(BLOCK, most, *nested.shape[1:])[self.chosen.start : self.chosen.stop]
            self._advance(time, stage, moves, nested)
            time, stage = time + 1, self.problem.next_stage(stage)
        over = ~(self.stopped | self.late)
        self.largest[over] = np.maximum(self.largest, self.best)[over]
        self.largest_gap[over] = np.maximum(self.largest_gap, self.best - self.policy_sums)[over]
        return [self._scenario(i) for i in range(self.count)]

    def _ends(self, time: int) -> NDArray[np.bool_]:
        """Which scenarios stop here: by their running maximum, or as it is late."""
        running = self.best.copy()
        np.maximum.at(running, self.owner, self.sums)
        alive = np.zeros(self.count, dtype=np.bool_)
        alive[self.owner] = True
        self.largest = np.where(alive, np.maximum(self.largest, running), self.largest)
        gap = running - self.policy_sums
        self.largest_gap = np.where(alive, np.maximum(self.largest_gap, gap), self.largest_gap)
        over = alive & ((gap if self.rules.paired else running) > self.rules.limit)
        self.stopped |= over
        if time == self.rules.times:
            self.late |= alive
            return alive
        return over

    def _cut_off(self, which: NDArray[np.bool_], time: int, stage: int) -> None:
        """Continue these paths with the largest return that is possible, and that of the policy with the least one."""
        if not which.any():
            return
        gamma = self.problem.discount**time
        rest = self.problem.return_range(stage)[1] - self.values.of(self.states[which], stage)
        self._offer(self.sums[which] + gamma * rest, self.owner[which], self.trails[which])
        ours = np.flatnonzero(self.mine != NONE)
        self._give_up(ours[which[self.mine[ours]]], time, stage)
        self._keep(~which)

    def _offer(self, worth: Array, owner: Rows, trails: Array) -> None:
        """The best of these paths are candidates for the maxima of their owners."""
        order = np.argsort(worth, kind="stable")
        row = np.full(self.count, NONE)
        row[owner[order]] = order
        found = np.flatnonzero(row != NONE)
        better = found[worth[row[found]] > self.best[found]]
        self.best[better], self.best_trails[better] = worth[row[better]], trails[row[better]]

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        """Go on with these paths only."""
        place = np.where(kept, np.cumsum(kept) - 1, NONE)
        self.mine = np.where(self.mine == NONE, NONE, place[self.mine])
        self.states, self.owner = self.states[kept], self.owner[kept]
        self.sums, self.trails = self.sums[kept], self.trails[kept]

    def _advance(self, time: int, stage: int, moves: NDArray[Any], nested: NDArray[Any]) -> None:
        """One step of all paths, with all actions."""
        actions, gamma = self.problem.actions, self.problem.discount**time
        residuals = gamma * self._residuals(stage, nested)
        self.looked += np.bincount(self.owner, minlength=self.count)
        rows = len(self.states)
        every = np.tile(np.arange(actions), rows)
        _, following, ended = self.access.move(
            np.repeat(self.states, actions, axis=0), stage, every, np.repeat(moves[self.owner], actions, axis=0)
        )
        pair = self._follow(time, stage, residuals)
        sums, owner = (self.sums[:, None] + residuals).ravel(), np.repeat(self.owner, actions)
        trails = np.repeat(self.trails, actions, axis=0)
        trails[:, time] = residuals.ravel()
        if ended.any():
            self._offer(sums[ended], owner[ended], trails[ended])
        self.states, self.owner, self.sums, self.trails, self.mine = following, owner, sums, trails, pair
        self._keep(~ended)
        self._narrow(time + 1, self.problem.next_stage(stage))

    def _follow(self, time: int, stage: int, residuals: Array) -> Rows:
        """One step of the policy; the pair of state and action that it takes in each scenario."""
        pair: Rows = np.full(self.count, NONE)
        self._give_up(np.flatnonzero((self.mine != NONE) & (self.policy_sums < self.rules.floor)), time, stage)
        going = np.flatnonzero(self.mine != NONE)
        if len(going):
            rows = self.mine[going]
            chosen = self.policy.act_many(self.states[rows], stage)
            step = residuals[rows, chosen]
            self.policy_sums[going] += step
            self.smallest[going] = np.minimum(self.smallest, self.policy_sums)[going]
            self.policy_trails[going, time] = step
            pair[going] = rows * self.problem.actions + chosen
        return pair

    def _give_up(self, owners: Rows, time: int, stage: int) -> None:
        """Continue the paths of the policy in these scenarios with the least return that is possible."""
        if len(owners):
            rest = self.problem.return_range(stage)[0] - self.values.of(self.states[self.mine[owners]], stage)
            self.policy_sums[owners] += self.problem.discount**time * rest
            self.mine[owners] = NONE

    def _residuals(self, stage: int, nested: NDArray[Any]) -> Array:
        """Estimates of l_a(V; s), (rows, A); actions with fewer samples use the first of the others'."""
        rows = len(self.states)
        q = np.empty((rows, self.problem.actions))
        for action, samples in enumerate(self.samples):
            size = max(ROWS // samples, 1)
            for first in range(0, rows, size):
                part = slice(first, first + size)
                gains = self._gains(self.states[part], stage, action, nested[self.owner[part], :samples])
                q[part, action] = gains.mean(axis=1)
                self.varied[action] |= bool((np.ptp(gains, axis=1) > 0).any())
        residuals: Array = q - self.values.of(self.states, stage)[:, None]
        return residuals

    def _gains(self, states: NDArray[Any], stage: int, action: int, noise: NDArray[Any]) -> Array:
        """Samples of R + γ V(S'), (rows, samples)."""
        rows, samples = noise.shape[:2]
        gains, following, ended = self.access.move(
            np.repeat(states, samples, axis=0),
            stage,
            np.full(rows * samples, action),
            noise.reshape(rows * samples, *noise.shape[2:]),
        )
        ahead, going = self.problem.next_stage(stage), ~ended
        if ahead != self.problem.horizon and going.any():
            gains = gains.copy()
            gains[going] += self.problem.discount * self.values.of(following[going], ahead)
        return gains.reshape(rows, samples)

    def _narrow(self, time: int, stage: int) -> None:
        """Cut the paths beyond the width of their scenario, except for those of the policy."""
        if len(self.states) <= self.rules.width:
            return
        mine = np.zeros(len(self.states), dtype=np.bool_)
        mine[self.mine[self.mine != NONE]] = True
        order = np.lexsort((-self.sums, ~mine, self.owner))
        sizes = np.bincount(self.owner, minlength=self.count)
        rank = np.empty(len(order), dtype=np.intp)
        rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        beyond = rank >= self.rules.width
        if beyond.any():
            self.cut += np.bincount(self.owner[beyond], minlength=self.count)
            self._cut_off(beyond, time, stage)

    def _scenario(self, i: int) -> Scenario:
        return Scenario(
            float(self.best[i]),
            float(self.policy_sums[i]),
            float(self.largest[i]),
            float(self.largest_gap[i]),
            cut=int(self.cut[i]),
            stopped=bool(self.stopped[i]),
            smallest=float(self.smallest[i]),
            looked=int(self.looked[i]),
            stages=(self._by_stage(self.best_trails[i]), self._by_stage(self.policy_trails[i])),
        )

    def _by_stage(self, trail: Array) -> Array:
        return trail.sum(keepdims=True) if self.problem.horizon is None else trail
