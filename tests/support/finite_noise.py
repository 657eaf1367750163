"""Tiny MDPs whose noise takes finitely many values, so that means over scenarios are sums over all noise."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right

import numpy as np

import tensorplan as tp
from tensorplan.access.batches import BatchAccess, Columns
from tensorplan.access.meter import Meter
from tensorplan.access.noise import Purpose
from tensorplan.hindsight.columns import Fresh, Pooled
from tensorplan.hindsight.scenario import play
from tensorplan.hindsight.values import Values

END = -1


class FiniteNoise:
    """State s, action a and noise w pay ``rewards[s, a, w]`` and lead to ``following[s, a, w]``, -1 for END."""

    def __init__(self, following, rewards, chances, horizon, reward_range, return_range=None):
        self.following, self.rewards = np.asarray(following), np.asarray(rewards, dtype=float)
        self.chances, self.horizon, self.reward_range = np.asarray(chances, dtype=float), horizon, reward_range
        self.actions = self.following.shape[1]
        self._below = np.cumsum(self.chances).tolist()
        if return_range is not None:
            self.return_range = return_range

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        noise = min(bisect_right(self._below, rng.random()), len(self.chances) - 1)
        following = int(self.following[state, action, noise])
        return float(self.rewards[state, action, noise]), tp.END if following == END else following

    def draw_noise(self, n, rng):
        return rng.choice(len(self.chances), size=(n, 1), p=self.chances)

    def step_many(self, states, actions, noise):
        at = states, actions, noise[:, 0]
        following = self.following[at]
        return self.rewards[at], following, following == END


def problem(mdp, discount=1.0):
    return tp.Problem(mdp, lambda state, stage: np.ones(1), bound=1.0, name="tiny", discount=discount)


def values(task, policy=None):
    """v*(s, stage) or v^π, backwards, as a function; without a horizon after 2,000 sweeps."""
    mdp, table = task.mdp, {}
    following = np.zeros(len(mdp.following) + 1)
    for left in range(1, (mdp.horizon or 2_000) + 1):
        q = (mdp.rewards + task.discount * following[mdp.following]) @ mdp.chances
        stage = 0 if mdp.horizon is None else mdp.horizon - left
        chosen = q.max(axis=1) if policy is None else [q[s, policy(s, stage)] for s in range(len(q))]
        following = np.append(chosen, 0.0)
        table[stage] = following
    return lambda state, stage: float(table[stage][state])


class Given(BatchAccess):
    """Access whose noise is given: one row of columns per call of ``columns``."""

    def __init__(self, task, rows):
        super().__init__(task, Meter(), 0)
        self.rows = iter(rows)

    def columns(self, purpose, scenario, first, size, stratified=0):
        row = next(self.rows)
        assert len(row) == size
        return Columns(purpose, scenario, first, size, np.array(row)[:, None])


class Follows:
    """A player that follows a function of state and stage."""

    def __init__(self, policy):
        self.policy = policy

    def act(self, state, stage):
        return self.policy(state, stage)

    def arrive(self, action, reward, state):
        """Nothing."""


def all_noise(mdp, sizes):
    """(probability, rows) of every noise, for rows of these sizes."""
    for flat in itertools.product(range(len(mdp.chances)), repeat=sum(sizes)):
        rest = iter(flat)
        yield math.prod(mdp.chances[w] for w in flat), [[next(rest) for _ in range(size)] for size in sizes]


def fresh(samples):
    """Columns of its own for every time: how to make them, and the sizes of the rows."""
    return lambda v, times: Fresh(v, Purpose.TEST, 0, samples), lambda times: [samples + 1] * times


def pooled(samples, kind=Pooled):
    """One pool for all times, likewise."""
    return lambda v, times: kind(v, Purpose.TEST, 0, samples, times), lambda times: [times + samples]


def scenarios(task, function, way, rules, policy=None, band=None):
    """(probability, scenario) for every noise."""
    make, sizes = way
    for chance, rows in all_noise(task.mdp, sizes(rules.times)):
        v = Values(Given(task, rows), function, band)
        yield chance, play(v, make(v, rules.times), 0, rules, policy and Follows(policy))


def means(task, function, way, rules, policy=None):
    """The means of ``upper`` and ``policy`` over all noise."""
    found = [(chance, s.upper, s.policy) for chance, s in scenarios(task, function, way, rules, policy)]
    return math.fsum(p * x for p, x, _ in found), math.fsum(p * y for p, _, y in found)


def random_mdp(rng, horizon, states=3, actions=2, noise=2, ends=0.2):
    """Random tables; some steps end the episode, and some rewards are rare and large."""
    shape = (states, actions, noise)
    following = np.where(rng.random(shape) < ends, END, rng.integers(states, size=shape))
    rewards = rng.choice([-1.0, 0.0, 0.5, 2.0], size=shape)
    return FiniteNoise(following, rewards, rng.dirichlet(np.ones(noise)), horizon, (-1.0, 2.0))


def guesses(task, rng):
    """Value functions: zero, v*, random, and hugely wrong within the range of returns."""
    best, cells = values(task), {}

    def random(state, stage):
        low, high = task.return_range(stage)
        return low + (high - low) * cells.setdefault((state, stage), rng.random())

    def adversarial(state, stage):
        return (-1e9, 1e9)[(state + stage) % 2]

    return {"zero": lambda state, stage: 0.0, "optimal": best, "random": random, "adversarial": adversarial}
