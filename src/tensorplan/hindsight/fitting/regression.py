"""Fitted Q-iteration on features, for states that are points: hardly any of them is reached twice.

Clouds of states are drawn along paths of a policy that is more or less greedy, the paths going on where it would end.
Backwards over the stages, at the states of a cloud and with samples of their own,

    q(s, a) = mean of R + γ V(S'),    V(s) = max_a <φ(s), θ_a>

and θ_a is the least-squares fit of q(., a) on the features, one for each stage; what the cloud of a stage leaves open
is that of the next one.  For options this is the method of Tsitsiklis and Van Roy (2001), a relative of Longstaff and
Schwartz's.  Everything is done with arrays, a cloud at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorplan.access.batches import BatchAccess
from tensorplan.access.noise import Purpose
from tensorplan.core import Array, Problem, State
from tensorplan.core.errors import BudgetSpent
from tensorplan.hindsight.fitting.model import least_squares
from tensorplan.hindsight.scenario import Rules
from tensorplan.problems.states import pack

SAMPLES = 8
"""Samples of each action at a state of a cloud."""

ROUNDS = (0.25, 0.75)
"""Shares of the queries: the clouds of the first round are random, those of the second one know the greedy policy."""

FEWEST, MOST = 10, 20_000
"""States of a cloud: fewer show nothing, more are not needed."""

SWEEPS, CONVERGED = 300, 1e-6
"""Most sweeps of value iteration without a horizon, and the change, relative to the range of returns, that ends it."""


class RegressedValues:
    """q(s, a) = <φ(s), θ_a> by stage, clipped to the range of returns; V(s) is the largest of them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        """Its features; left behind when the values are sent to another process."""
        self.theta: dict[int, Array] = {}
        """(d, A) by stage."""

    def on(self, problem: Problem) -> RegressedValues:
        """The same values on another copy of the problem."""
        other = RegressedValues(problem)
        other.theta = self.theta
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "problem": None}

    def action_values(self, states: NDArray[Any], stage: int) -> Array:
        """q of n states, (n, A)."""
        theta = self.theta.get(stage)
        if theta is None:
            return np.zeros((len(states), self.problem.actions))
        q: Array = self.problem.many_state_features(states, stage) @ theta
        return q.clip(*self.problem.return_range(stage))

    def many(self, states: NDArray[Any], stage: int) -> Array:
        """V of n states, (n,)."""
        return np.asarray(self.action_values(states, stage).max(axis=1))

    def act_many(self, states: NDArray[Any], stage: int) -> NDArray[np.intp]:
        """The greedy actions of n states, (n,)."""
        return np.asarray(self.action_values(states, stage).argmax(axis=1))

    def __call__(self, state: State, stage: int) -> float:
        """V of a state."""
        return float(self.many(pack([state]), stage)[0])

    def action(self, state: State, stage: int) -> int:
        """The greedy action in a state."""
        return int(self.act_many(pack([state]), stage)[0])


class CloudSamples(NamedTuple):
    """Samples of all actions at the states of a cloud."""

    rewards: Array
    """Their means, (n, A)."""
    following: NDArray[Any]
    """The successors that are not END."""
    pairs: NDArray[np.intp]
    """The pair of state and action that each of them belongs to, as an index into (n, A)."""


class Regression:
    """Clouds that are drawn, and fits to them."""

    def __init__(self, access: BatchAccess, start: Callable[[int], State], rules: Rules) -> None:
        self.access, self.problem, self.start = access, access.problem, start
        self.stages = rules.times
        self.fit = RegressedValues(access.problem)
        """The values fitted last."""
        self._clouds = 0

    def spend(self, budget: int) -> None:
        """Draw clouds and fit values to them, with about so many queries."""
        for share in ROUNDS:
            try:
                self.fit = self._round(int(share * budget))
            except BudgetSpent:
                return

    def _round(self, budget: int) -> RegressedValues:
        self._clouds += 1
        rng = np.random.default_rng(self.access.noise.at(Purpose.FIT, self._clouds, 1 << 52).integers(2**63, size=4))
        each = self.stages * self.problem.actions * (SAMPLES + 1)
        clouds = self._explore(min(max(budget // each, FEWEST), MOST), rng)
        return self._iterate(clouds, rng) if self.problem.horizon is None else self._backwards(clouds, rng)

    def _explore(self, count: int, rng: np.random.Generator) -> list[NDArray[Any]]:
        """The states of ``count`` paths at each time; each path has its own share of random actions."""
        states = pack([self.start(i) for i in range(count)])
        random, stage, clouds = rng.random(count) ** 2, 0, list[NDArray[Any]]()
        for time in range(self.stages):
            clouds.append(states)
            if time + 1 == self.stages:
                break
            chosen = self._actions(states, stage, random, rng)
            states, random = self._go_on(states, stage, chosen, random, rng)
            if not len(states):
                break
            stage = self.problem.next_stage(stage)
        return clouds

    def _actions(self, states: NDArray[Any], stage: int, random: Array, rng: np.random.Generator) -> NDArray[np.intp]:
        anything = rng.integers(self.problem.actions, size=len(states))
        if not self.fit.theta:
            return anything
        return np.where(rng.random(len(states)) < random, anything, self.fit.act_many(states, stage))

    def _go_on(
        self, states: NDArray[Any], stage: int, chosen: NDArray[np.intp], random: Array, rng: np.random.Generator
    ) -> tuple[NDArray[Any], Array]:
        """The next states; where the chosen action ends the path, another one takes its place if there is one."""
        actions, count = self.problem.actions, len(states)
        noise = np.repeat(self.access.separate_noise(count, 1, rng), actions, axis=0)
        every = np.tile(np.arange(actions), count)
        _, following, ended = self.access.move(np.repeat(states, actions, axis=0), stage, every, noise)
        liking = np.where(ended.reshape(count, actions), -1.0, rng.random((count, actions)))
        rows = np.arange(count)
        liking[rows, chosen] += 2 * (liking[rows, chosen] >= 0)
        best = liking.argmax(axis=1)
        alive = liking[rows, best] >= 0
        return following[rows * actions + best][alive], random[alive]

    def _sample(self, states: NDArray[Any], stage: int, rng: np.random.Generator) -> CloudSamples:
        """Samples of all actions at the states of a cloud; the actions of a state share their noise."""
        actions, count = self.problem.actions, len(states)
        noise = self.access.separate_noise(count, SAMPLES, rng)
        inner = noise.shape[1:]
        shared = np.repeat(noise.reshape(count, 1, SAMPLES, *inner), actions, axis=1).reshape(-1, *inner)
        every = np.repeat(np.tile(np.arange(actions), count), SAMPLES)
        rewards, following, ended = self.access.move(np.repeat(states, actions * SAMPLES, axis=0), stage, every, shared)
        going = np.flatnonzero(~ended)
        means = rewards.reshape(count, actions, SAMPLES).mean(axis=-1)
        return CloudSamples(means, following[going], going // SAMPLES)

    def _backup(self, samples: CloudSamples, values: Array) -> Array:
        """q of a cloud from V of the successors, (n, A)."""
        ahead = np.bincount(samples.pairs, values, samples.rewards.size) / SAMPLES
        q: Array = samples.rewards + self.problem.discount * ahead.reshape(samples.rewards.shape)
        return q

    def _backwards(self, clouds: list[NDArray[Any]], rng: np.random.Generator) -> RegressedValues:
        """From the last stage to the first one."""
        fit = RegressedValues(self.problem)
        for stage in reversed(range(len(clouds))):
            samples = self._sample(clouds[stage], stage, rng)
            self._keep(fit, stage, clouds[stage], self._backup(samples, fit.many(samples.following, stage + 1)))
        return fit

    def _keep(self, fit: RegressedValues, stage: int, states: NDArray[Any], q: Array) -> None:
        phi = self.problem.many_state_features(states, stage)
        near = fit.theta.get(stage + 1, np.zeros((phi.shape[1], self.problem.actions)))
        fit.theta[stage] = near + least_squares(phi) @ (q.clip(*self.problem.return_range(stage)) - phi @ near)

    def _iterate(self, clouds: list[NDArray[Any]], rng: np.random.Generator) -> RegressedValues:
        """Without a horizon: sweeps over one cloud, until values change no more."""
        states = np.concatenate(clouds)
        states = states[rng.permutation(len(states))[:MOST]]
        samples = self._sample(states, 0, rng)
        ahead, own = (self.problem.many_state_features(each, 0) for each in (samples.following, states))
        low, high = self.problem.return_range()
        fit, solve = RegressedValues(self.problem), least_squares(own)
        theta = np.zeros((own.shape[1], self.problem.actions))
        for _ in range(SWEEPS):
            q = self._backup(samples, (ahead @ theta).clip(low, high).max(axis=1))
            before, theta = theta, solve @ q.clip(low, high)
            if np.abs(own @ (theta - before)).max() <= CONVERGED * (high - low):
                break
        fit.theta[0] = theta
        return fit
