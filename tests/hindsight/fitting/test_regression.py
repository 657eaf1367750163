"""Fitted Q-iteration on features, where states are points."""

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter
from tensorplan.hindsight.fitting.regression import RegressedValues, Regression
from tensorplan.hindsight.fitting.rounds import SampledFitting, start_fitting
from tensorplan.hindsight.scenario import Rules


class Tilt:
    """A point in [0, 1]; action 1 moves it up, action 0 down, both with noise; where it is is the reward."""

    actions, uniforms = 2, 1
    reward_range = (0.0, 1.0)

    def __init__(self, horizon):
        self.horizon = horizon

    def start(self, rng):
        return 0.5

    def step(self, state, action, rng):
        rewards, following, _ = self.step_many(np.array([state]), np.array([action]), self.draw_noise(1, rng))
        return float(rewards[0]), float(following[0])

    def draw_noise(self, n, rng):
        return rng.random((n, 1))

    def step_many(self, states, actions, noise):
        push = np.where(actions == 1, 0.1, -0.1) + 0.05 * (noise[:, 0] - 0.5)
        return states, np.clip(states + push, 0.0, 1.0), np.zeros(len(states), dtype=bool)


class Powers:
    """1, x, x^2 and x^3, halved, also of many states."""

    def __call__(self, state, stage):
        return self.many(np.array([state]), stage)[0]

    def many(self, states, stage):
        return 0.5 * states[:, None] ** np.arange(4)


def task(horizon=4, phi=None):
    discount = 1.0 if horizon else 0.8
    return tp.Problem(Tilt(horizon), phi or Powers(), bound=100.0, discount=discount)


def fitted(problem, budget=200_000):
    access = BatchAccess(problem, Meter(), 0)
    fitting = start_fitting(access, lambda index: 0.5, Rules.of(problem))
    assert isinstance(fitting, Regression)
    fitting.spend(budget)
    return fitting.fit, access


def exact(state, stage, horizon):
    """Going up is best, and ends below 1 from 0.5 on."""
    return sum(state + 0.1 * k for k in range(horizon - stage))


def test_values_are_those_of_the_best_policy():
    fit, _ = fitted(task())
    for stage in range(4):
        state = 0.5 + 0.1 * stage
        assert fit(state, stage) == pytest.approx(exact(state, stage, 4), abs=0.01)
        assert stage == 3 or fit.action(state, stage) == 1


def test_without_a_horizon():
    fit, _ = fitted(task(None))
    greedy = sum(0.8**k * min(0.5 + 0.1 * k, 0.99) for k in range(60))
    assert fit(0.5, 0) == pytest.approx(greedy, abs=0.05)
    assert fit.act_many(np.array([0.3, 0.6]), 0).tolist() == [1, 1]


@pytest.mark.parametrize("horizon", [4, None])
def test_it_takes_about_the_queries_that_it_may(horizon):
    _, access = fitted(task(horizon), 100_000)
    assert 60_000 < access.meter.spent < 120_000


def test_a_spent_budget_leaves_what_there_is():
    problem = task()
    access = BatchAccess(problem, Meter(500), 0)
    fitting = Regression(access, lambda index: 0.5, Rules.of(problem))
    fitting.spend(100_000)
    assert access.meter.spent <= 500
    assert fitting.fit(0.5, 0) == 0.0


def test_features_one_by_one_give_the_same_fit():
    one = fitted(task(phi=lambda state, stage: Powers()(state, stage)), 20_000)[0]
    many = fitted(task(), 20_000)[0]
    np.testing.assert_allclose(one.theta[0], many.theta[0])


def test_values_travel_without_their_problem():
    import pickle

    problem = task()
    fit, _ = fitted(problem, 20_000)
    there = pickle.loads(pickle.dumps(fit)).on(problem)
    assert there(0.4, 1) == fit(0.4, 1)


def test_nothing_is_known_of_a_stage_without_states():
    fit = RegressedValues(task())
    assert fit(0.5, 0) == 0.0
    assert fit.action(0.5, 0) == 0


def test_whole_numbers_and_problems_without_features_of_states_are_sampled():
    for problem in (tp.make("lost-sales/2"), tp.make("layered-stochastic/2x3")):
        fitting = start_fitting(BatchAccess(problem, Meter(), 0), problem.mdp.start, Rules.of(problem))
        assert isinstance(fitting, SampledFitting)


class TooLong(Powers):
    def many(self, states, stage):
        return np.full((len(states), 4), 2.0)


class Ragged(Powers):
    def __call__(self, state, stage):
        return 0.5 * state ** np.arange(4)

    def many(self, states, stage):
        return np.zeros((len(states), 3))


class Broken(Powers):
    def many(self, states, stage):
        raise KeyError("no idea")


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        (TooLong(), r"phi_v.many\(\d+ states, stage=\d\) gave .* whose norm is not at most 1"),
        (Ragged(), r"has shape \(\d+, 3\), expected \(\d+, 4\)"),
        (Broken(), r"phi_v.many\(\d+ states, stage=\d\) raised KeyError"),
    ],
)
def test_bad_features_of_many_states(phi, message):
    with pytest.raises(tp.ProblemError, match=message):
        fitted(task(phi=phi))
