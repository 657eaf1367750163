"""Fitted value iteration: V from samples, at the states that matter.

Samples are drawn at states on the best paths in hindsight, where V is too low, and on those of the greedy policy, where
it is too high; where states recur, at all of them.  Backwards over the stages,

    q(s, a) = mean of R + γ V(S'),    V(s) = max_a q(s, a)

at these states.  Elsewhere V is the least-squares fit on the features, one θ for each stage; what the states of a stage
leave open is that of the next one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorplan.access.batches import ENDED, BatchAccess, Columns, Ids
from tensorplan.core import Array, Problem, State
from tensorplan.hindsight.values import Values
from tensorplan.problems.states import hashable

RIDGE = 1e-8
"""Regularisation of the fit, so that more features than states are no problem."""

SWEEPS, CONVERGED = 2_000, 1e-9
"""Most sweeps of value iteration without a horizon, and the change, relative to the range of returns, that ends it."""


class FittedValues:
    """Values and greedy actions at sampled states, and θ for all others, by stage."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        """Its features; left behind when the values are sent to another process."""
        self.values: dict[int, dict[State, float]] = {}
        self.actions: dict[int, dict[State, int]] = {}
        self.theta: dict[int, Array] = {}

    def on(self, problem: Problem) -> FittedValues:
        """The same values on another copy of the problem."""
        other = FittedValues(problem)
        other.values, other.actions, other.theta = self.values, self.actions, self.theta
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "problem": None}

    def __call__(self, state: State, stage: int) -> float:
        """V(state)."""
        known = self.values.get(stage, {}).get(state) if hashable(state) else None
        if known is not None:
            return known
        theta = self.theta.get(stage)
        return 0.0 if theta is None else float(self.features(state, stage) @ theta)

    def action(self, state: State, stage: int) -> int | None:
        """The greedy action, where the state was sampled."""
        return self.actions.get(stage, {}).get(state) if hashable(state) else None

    def features(self, state: State, stage: int) -> Array:
        """φ(state), (d,); constant where the problem has features of actions only."""
        return np.ones(1) if self.problem.phi_v is None else self.problem.state_features(state, stage)


class Block(NamedTuple):
    """Samples of some states, drawn together."""

    rows: NDArray[np.intp]
    rewards: Array
    """Sums over the samples, (n, A)."""
    following: Ids
    """(n, A, samples)."""


class Model:
    """Samples at states."""

    def __init__(self, access: BatchAccess) -> None:
        self.access, self.problem = access, access.problem
        self.rows: dict[int, int] = {}
        """The row of each sampled state, by its number."""
        self.samples: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        """Samples of each action at each sampled state."""
        self._blocks: list[Block] = []
        self._reached: dict[int, set[int]] = {}

    def add(self, ids: Iterable[int], columns: Columns) -> None:
        """Sample all actions of these states, whatever their stage: successors at the horizon have no value."""
        chosen = np.array(list(ids), dtype=np.int64)
        rewards, following = self.access.steps(chosen, 0, columns)
        for number in chosen.tolist():
            self.rows.setdefault(number, len(self.rows))
        rows = np.array([self.rows[number] for number in chosen.tolist()], dtype=np.intp)
        grown = np.zeros(len(self.rows), dtype=np.intp)
        grown[: len(self.samples)] = self.samples
        grown[rows] += columns.size
        self.samples = grown
        self._blocks.append(Block(rows, rewards.sum(axis=-1), following))

    def reached(self, stage: int, ids: Iterable[int]) -> None:
        """These states occur at that stage."""
        self._reached.setdefault(stage, set()).update(ids)

    def successors(self) -> dict[int, float]:
        """The states that were reached from sampled ones and not sampled, with the mean number of times per action."""
        found: dict[int, float] = defaultdict(float)
        for block in self._blocks:
            numbers, counts = np.unique(block.following, return_counts=True)
            for number, count in zip(numbers.tolist(), (counts / block.following[0].size).tolist(), strict=True):
                if number != ENDED and number not in self.rows:
                    found[number] += count
        return found

    # ------------------------------------------------------------------ fitting

    def fit(self) -> FittedValues:
        """The values that follow from all samples so far."""
        fit = FittedValues(self.problem)
        if self.problem.horizon is None:
            self._iterate(fit)
        else:
            self._backwards(fit, self.problem.horizon)
        return fit

    def _backwards(self, fit: FittedValues, horizon: int) -> None:
        """From the last stage to the first one."""
        occurring = self._occurring(horizon)
        values = Values(self.access, fit)
        for stage in range(horizon - 1, -1, -1):
            ids = np.array(sorted(occurring[stage]), dtype=np.int64)
            if len(ids):
                rows = np.array([self.rows[number] for number in ids.tolist()])
                self._keep(fit, stage, ids, self._backup(rows, values, stage + 1))

    def _occurring(self, horizon: int) -> list[set[int]]:
        """The sampled states of each stage: reached there, or successors of those of the stage before."""
        found = [{number for number in self._reached.get(stage, ()) if number in self.rows} for stage in range(horizon)]
        for stage in range(1, horizon):
            found[stage] |= self._successors(found[stage - 1])
        return found

    def _successors(self, ids: set[int]) -> set[int]:
        """The sampled states among the successors of sampled states."""
        chosen = np.zeros(len(self.rows), dtype=bool)
        chosen[[self.rows[number] for number in ids]] = True
        found = set[int]()
        for block in self._blocks:
            found.update(np.unique(block.following[chosen[block.rows]]).tolist())
        return found & self.rows.keys()

    def _backup(self, rows: NDArray[np.intp], values: Values, stage: int) -> Array:
        """q of sampled states, whose successors are at ``stage``, (n, A)."""
        chosen = np.zeros(len(self.rows), dtype=bool)
        chosen[rows] = True
        sums = np.zeros((len(self.rows), self.problem.actions))
        for block in self._blocks:
            part = chosen[block.rows]
            ahead = values(block.following[part], stage).sum(axis=-1)
            np.add.at(sums, block.rows[part], block.rewards[part] + self.problem.discount * ahead)
        q: Array = sums[rows] / self.samples[rows, None]
        return q

    def _keep(self, fit: FittedValues, stage: int, ids: Ids, q: Array) -> None:
        """The values and greedy actions of a stage, and the fit on its features."""
        low, high = self.problem.return_range(stage)
        values = np.clip(q.max(axis=1), low, high)
        states = [self.access.state(number) for number in ids.tolist()]
        if all(map(hashable, states)):
            fit.values[stage] = dict(zip(states, values.tolist(), strict=True))
            fit.actions[stage] = dict(zip(states, q.argmax(axis=1).tolist(), strict=True))
        near = fit.theta.get(stage + 1, np.zeros(1))
        features = self._features(fit, ids, stage)
        fit.theta[stage] = near + least_squares(features) @ (values - (features * near).sum(axis=1))

    def _iterate(self, fit: FittedValues) -> None:
        """Without a horizon: sweeps over all sampled states, until values change no more."""
        low, high = self.problem.return_range()
        ids = np.array(list(self.rows), dtype=np.int64)
        others = np.setdiff1d(np.concatenate([np.unique(block.following) for block in self._blocks]), [*ids, ENDED])
        weights, features = least_squares(self._features(fit, ids, 0)), self._features(fit, others, 0)
        table = np.zeros(self.access.count + 1)  # the last place is END's
        q: Array = np.zeros((len(ids), self.problem.actions))
        for _ in range(SWEEPS):
            sums = np.zeros_like(q)
            for block in self._blocks:
                gains = block.rewards + self.problem.discount * table[block.following].sum(axis=-1)
                np.add.at(sums, block.rows, gains)
            q[:] = sums / self.samples[:, None]
            before = table[ids]
            table[ids] = np.clip(q.max(axis=1), low, high)
            table[others] = np.clip(features @ (weights @ table[ids]), low, high)
            if np.abs(before - table[ids]).max() <= CONVERGED * (high - low):
                break
        self._keep(fit, 0, ids, q)

    def _features(self, fit: FittedValues, ids: Ids, stage: int) -> Array:
        """φ of numbered states, (n, d)."""
        rows = [fit.features(self.access.state(number), stage) for number in ids.tolist()]
        return np.array(rows) if rows else np.zeros((0, len(fit.features(self.access.state(0), stage))))


def least_squares(features: Array) -> Array:
    """The matrix that takes values to the θ of least squares, (d, n)."""
    scale = RIDGE * max(float(np.square(features).sum()), 1e-300)
    if features.shape[0] < features.shape[1]:
        gram = features @ features.T
        return np.asarray(features.T @ np.linalg.inv(gram + scale * np.eye(len(gram))), dtype=np.float64)
    gram = features.T @ features
    return np.asarray(np.linalg.solve(gram + scale * np.eye(len(gram)), features.T), dtype=np.float64)
