"""The noise of a scenario, and the temporal differences that are estimated in it.

One column of noise moves all states of a time; the others are samples for the temporal differences of that time.
Estimates use columns that did not lead to the state, so they are unbiased, whatever the state.  All states and actions
of a time use the same columns: errors that are common to them cannot be exploited by the maximum.

* :class:`Fresh`: every time has columns of its own, which may be stratified.
* :class:`Pooled`: all times share one pool.  Time t moves with column t and estimates with all later columns, those of
  later moves and ``samples`` more.  A state that is reached at several times is simulated once, which saves most
  queries where states recur; the errors of different times are then no longer independent, which costs variance.

The estimates of earlier times depend on the columns from t on, and so may the decision to cut a path at time t, but
only on the set of these columns, not on their order.  Given the set, the next move is one of its columns, each equally
likely, and the estimate, the mean over all others, has the mean of R + γ V(S') of that move.  So V(s0) plus the sum of
γ^s l̂_s before t minus γ^t V(S_t) has the mean of the rewards before t, also where paths are cut at t, and what is
certainly at least the return from t on makes up for the rest.  For this, estimates must use *all* later columns, and
moves must be among them: these columns cannot be stratified.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from tensorplan.access.batches import BatchAccess, Columns, Ids
from tensorplan.access.noise import Purpose
from tensorplan.core import Array
from tensorplan.hindsight.values import Values


class Ahead(NamedTuple):
    """All actions of some states at a time, each (n, A)."""

    residuals: Array
    """Estimates of l_a(V; s)."""
    rewards: Array
    following: Ids


class ScenarioNoise(Protocol):
    """The noise of one scenario."""

    def look(self, time: int, stage: int, ids: Ids) -> Ahead:
        """The temporal differences at these states, and where they go."""


class Fresh:
    """Columns of its own for every time."""

    def __init__(self, values: Values, purpose: Purpose, scenario: int, samples: int) -> None:
        self.values, self.purpose, self.scenario, self.samples = values, purpose, scenario, samples
        self._time = -1
        self._columns: Columns | None = None

    def look(self, time: int, stage: int, ids: Ids) -> Ahead:
        """The temporal differences at these states, and where they go."""
        access = self.values.access
        columns = self._columns
        if columns is None or time != self._time:
            columns = access.columns(self.purpose, self.scenario, time << 32, self.samples + 1, self.samples)
            self._time, self._columns = time, columns
        if self.values.vectorised:
            return self._look_at_arrays(stage, ids, columns)
        rewards, following = access.steps(ids, stage, columns)
        residuals = _residuals(self.values, stage, ids, rewards[..., 1:], following[..., 1:])
        return Ahead(residuals, rewards[..., 0], following[..., 0])

    def _look_at_arrays(self, stage: int, ids: Ids, columns: Columns) -> Ahead:
        """The same with values of arrays: the states that serve for temporal differences only get no numbers."""
        access, problem = self.values.access, self.values.access.problem
        shape, ahead = (len(ids), problem.actions, columns.size), problem.next_stage(stage)
        rewards, following, ended = access.moves(access.packed(ids), stage, columns.noise)
        moved = np.arange(len(rewards)) % columns.size == 0
        numbers = access.numbers(following[moved], ended[moved]).reshape(shape[:2])
        gains, going = rewards.copy(), ~ended & ~moved
        if ahead != problem.horizon and going.any():
            gains[going] += problem.discount * self.values.of(following[going], ahead)
        rewards, gains = rewards.reshape(shape), gains.reshape(shape)
        residuals = gains[..., 1:].mean(axis=-1) - self.values(ids, stage)[:, None]
        return Ahead(residuals, rewards[..., 0], numbers)


class Pooled:
    """One pool of columns for all times."""

    def __init__(self, values: Values, purpose: Purpose, scenario: int, samples: int, times: int) -> None:
        self.values = values
        self.access: BatchAccess = values.access
        self.columns: Columns = self.access.columns(purpose, scenario, 0, times + samples)
        self._row: dict[int, int] = {}
        shape = (0, self.access.problem.actions, self.columns.size)
        self._rewards, self._following = np.empty(shape), np.empty(shape, dtype=np.int64)
        self._means = np.empty(shape)

    def look(self, time: int, stage: int, ids: Ids) -> Ahead:
        """The temporal differences at these states, and where they go."""
        problem = self.access.problem
        new = [number for number in ids.tolist() if number not in self._row]
        if new:
            self._simulate(np.array(new), time, stage)
        rows = np.array([self._row[number] for number in ids.tolist()])
        rewards, following = self._rewards[rows, :, time], self._following[rows, :, time]
        if problem.horizon is None:
            residuals = self._means[rows, :, time] - self.values(ids, stage)[:, None]
        else:
            later = slice(time + 1, None)
            residuals = _residuals(
                self.values, stage, ids, self._rewards[rows, :, later], self._following[rows, :, later]
            )
        return Ahead(residuals, rewards, following)

    def _simulate(self, ids: Ids, time: int, stage: int) -> None:
        """Step states for the first time; earlier columns will not be needed."""
        problem, first = self.access.problem, len(self._row)
        self._grow(first + len(ids))
        rewards, following = self.access.steps(ids, stage, self.columns, slice(time, None))
        rows = slice(first, first + len(ids))
        self._rewards[rows, :, time:], self._following[rows, :, time:] = rewards, following
        self._row.update(zip(ids.tolist(), range(first, first + len(ids)), strict=True))
        if problem.horizon is None:  # V does not change with time: the means over all later columns at once
            gains = rewards + problem.discount * self.values(following, stage)
            sums = np.cumsum(gains[..., ::-1], axis=-1)[..., ::-1]
            later = np.arange(gains.shape[-1] - 1, 0, -1)
            self._means[rows, :, time:-1] = sums[..., 1:] / later

    def _grow(self, rows: int) -> None:
        have = len(self._rewards)
        if rows > have:
            shape = (max(rows, 2 * have) - have, *self._rewards.shape[1:])
            self._rewards = np.concatenate([self._rewards, np.empty(shape)])
            self._following = np.concatenate([self._following, np.empty(shape, dtype=np.int64)])
            if self.access.problem.horizon is None:
                self._means = np.concatenate([self._means, np.empty(shape)])


def _residuals(values: Values, stage: int, ids: Ids, rewards: Array, following: Ids) -> Array:
    """Estimates of l_a(V; s) from samples (n, A, samples), (n, A)."""
    problem = values.access.problem
    gains = rewards + problem.discount * values(following, problem.next_stage(stage))
    estimates: Array = gains.mean(axis=-1) - values(ids, stage)[:, None]
    return estimates
