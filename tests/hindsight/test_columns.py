import math

import numpy as np
import pytest
from finite_noise import END, FiniteNoise, fresh, guesses, means, pooled, problem, random_mdp, values
from helpers import Walk
from helpers import problem as walk

from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter
from tensorplan.access.noise import Purpose
from tensorplan.hindsight.columns import Fresh, Pooled, _residuals
from tensorplan.hindsight.scenario import Rules
from tensorplan.hindsight.values import Values


class Peeking(Pooled):
    """Wrong on purpose: estimates use all columns, those that led to the state included."""

    def look(self, time, stage, ids):
        found = super().look(time, stage, ids)
        rewards, following = self.access.steps(ids, stage, self.columns)
        return found._replace(residuals=_residuals(self.values, stage, ids, rewards, following))


class Apart(Pooled):
    """Wrong where scenarios may stop: the estimates of all times use the same columns, none of which moves."""

    def look(self, time, stage, ids):
        found = super().look(time, stage, ids)
        times = self.access.problem.horizon
        rewards, following = self.access.steps(ids, stage, self.columns, slice(times, None))
        return found._replace(residuals=_residuals(self.values, stage, ids, rewards, following))


def test_estimates_with_columns_that_led_to_the_state_would_be_biased():
    """State 1 is reached by noise 1 and pays with noise 0."""
    following, rewards = [[[0, 1]], [[0, 1]]], [[[0, 0]], [[1, 0]]]
    task = problem(FiniteNoise(following, rewards, [0.5, 0.5], 2, (0.0, 1.0)))
    best, zero = values(task)(0, 0), lambda state, stage: 0.0
    assert best == 0.25
    assert means(task, zero, pooled(1), Rules(2, 10))[0] == pytest.approx(best)
    assert means(task, zero, pooled(1, Peeking), Rules(2, 10))[0] < 0.2


def prize_at_the_end(horizon):
    """Noise is the next state's parity, which means nothing: after the last step there is a prize of 1 for sure."""
    states = 2 * horizon
    following = [[[2 * (s // 2) + 2, 2 * (s // 2) + 3]] if s < states - 2 else [[END, END]] for s in range(states)]
    rewards = [[[float(s >= states - 2)] * 2] for s in range(states)]
    mdp = FiniteNoise(following, rewards, [0.8, 0.2], horizon, (0.0, 1.0), (0.0, 1.0))
    return problem(mdp), lambda state, stage: float(state % 2)


@pytest.mark.parametrize("limit", [0.15, 0.3, 0.6])
def test_scenarios_may_stop_since_the_pool_has_the_columns_that_move(limit):
    """Estimates know the later columns, but not their order: given that, the next move is a draw from them.

    Where moves are apart from the pool, scenarios stop when the pool is lucky, and lose the luck that was to come.
    """
    task, function = prize_at_the_end(5)
    rules = Rules(5, 10, limit)
    assert means(task, function, pooled(2), rules)[0] >= 1 - 1e-9
    assert means(task, function, fresh(1), Rules(3, 10, limit))[0] >= 1 - 1e-9
    assert means(task, function, pooled(2, Apart), rules)[0] < 0.999
    assert means(task, function, pooled(2, Apart), Rules(5, 10))[0] >= 1 - 1e-9


@pytest.mark.parametrize("horizon", [3, None])
def test_a_pool_simulates_each_state_once(horizon):
    task = problem(random_mdp(np.random.default_rng(0), horizon, ends=0.0), discount=0.9)
    access = BatchAccess(task, Meter(), 0)
    v = Values(access, guesses(task, np.random.default_rng(1))["random"])
    noise = Pooled(v, Purpose.TEST, 0, 4, 3)
    first = noise.look(0, 0, np.array([access.number(0)]))
    assert access.meter.spent == 2 * 7
    new = [number for number in np.unique(first.following) if number != access.number(0)]
    noise.look(1, task.next_stage(0), np.unique(first.following))
    assert access.meter.spent == 2 * 7 + len(new) * 2 * 6  # the first column is not needed any more


@pytest.mark.parametrize("horizon", [4, None])
def test_estimates_are_means_over_later_columns(horizon):
    task = problem(random_mdp(np.random.default_rng(2), horizon), discount=0.9)
    access = BatchAccess(task, Meter(), 3)
    v = Values(access, guesses(task, np.random.default_rng(1))["random"])
    noise, ids = Pooled(v, Purpose.TEST, 0, 4, 4), np.array([access.number(0)])
    for time in range(3):
        stage = 0 if horizon is None else time
        found = noise.look(time, stage, ids)
        rewards, following = access.steps(ids, stage, noise.columns, slice(time, None))
        gains = rewards + 0.9 * v(following, task.next_stage(stage))
        assert np.allclose(found.residuals, gains[..., 1:].mean(axis=-1) - v(ids, stage)[:, None])
        assert np.array_equal(found.following, following[..., 0])
        assert np.array_equal(found.rewards, rewards[..., 0])


@pytest.mark.parametrize("samples", [3, 2000])
def test_every_later_column_counts(samples):
    """Also where there are many: a cap on them would break what lets pooled scenarios stop."""
    access = BatchAccess(walk(Dice()), Meter(), 3)
    v, ids = Values(access, lambda state, stage: 0.0), np.array([access.number(0)])
    noise = Pooled(v, Purpose.TEST, 0, samples, 3)
    rewards, _ = access.steps(ids, 0, noise.columns)
    assert np.allclose(noise.look(0, 0, ids).residuals, rewards[..., 1:].mean(axis=-1))


class Dice(Walk):
    """Pays what a die shows."""

    reward_range = (1.0, 6.0)

    def step(self, state, action, rng):
        return float(rng.integers(1, 7)), state + action


@pytest.mark.parametrize("kind", ["fresh", "pooled"])
def test_states_and_actions_of_a_time_share_their_noise(kind):
    access = BatchAccess(walk(Dice()), Meter(), 0)
    v = Values(access, lambda state, stage: 0.0)
    noise = Fresh(v, Purpose.TEST, 5, 8) if kind == "fresh" else Pooled(v, Purpose.TEST, 5, 8, 6)
    ids = np.array([access.number(state) for state in range(3)])
    for time in (0, 1):
        found = noise.look(time, time, ids)
        assert np.ptp(found.rewards) == np.ptp(found.residuals) == 0


def test_fresh_columns_of_different_times_differ():
    access = BatchAccess(walk(Dice()), Meter(), 0)
    noise = Fresh(Values(access, lambda state, stage: 0.0), Purpose.TEST, 0, 64)
    means = [noise.look(time, time, np.array([access.number(0)])).residuals[0, 0] for time in range(6)]
    assert len(set(means)) >= 4
    assert math.fsum(means) / 6 == pytest.approx(3.5, abs=0.4)
