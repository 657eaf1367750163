"""Means over all noise of tiny problems: the bound holds for every V and every way to cut."""

import itertools
import math

import numpy as np
import pytest
from finite_noise import (
    END,
    FiniteNoise,
    Follows,
    Given,
    all_noise,
    fresh,
    guesses,
    means,
    pooled,
    problem,
    random_mdp,
    scenarios,
    values,
)
from helpers import problem as any_problem

import tensorplan as tp
from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter
from tensorplan.access.noise import Purpose
from tensorplan.hindsight.columns import Fresh, Pooled
from tensorplan.hindsight.scenario import Rules, play
from tensorplan.hindsight.values import Values

CLOSE = 1e-9
WAYS = {"fresh": fresh(1), "pooled": pooled(1)}


def random_policy(rng):
    chosen = {}
    return lambda state, stage: chosen.setdefault((state, stage), int(rng.integers(2)))


# ------------------------------------------------------------------------------------------ the bound


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("guess", ["zero", "optimal", "random", "adversarial"])
def test_without_cutting_the_mean_is_a_bound_and_that_of_the_policy_is_exact(way, guess):
    for seed in range(4):
        rng = np.random.default_rng([seed, 1])
        task = problem(random_mdp(rng, horizon=3, noise=2 if way == "fresh" else 3), discount=(1.0, 0.8)[seed % 2])
        policy = random_policy(rng)
        upper, earned = means(task, guesses(task, rng)[guess], WAYS[way], Rules(3, 100), policy)
        assert upper >= values(task)(0, 0) - CLOSE
        assert earned == pytest.approx(values(task, policy)(0, 0), abs=CLOSE)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("guess", ["zero", "optimal", "random", "adversarial"])
@pytest.mark.parametrize("cut", ["width", "limit", "paired limit", "width and limit", "floor", "floor and limit"])
def test_cutting_leaves_the_bound_valid(way, guess, cut):
    """Limits and floors from one that stops at once to one that stops rarely; the policy is cut from below."""
    for seed in range(3):
        rng = np.random.default_rng([seed, 2])
        task = problem(random_mdp(rng, horizon=3, noise=2 if way == "fresh" else 3), discount=(1.0, 0.8)[seed % 2])
        policy, function = random_policy(rng), guesses(task, rng)[guess]
        found = [s for _, s in scenarios(task, function, WAYS[way], Rules(3, 100), policy)]
        largest, smallest = max(s.largest for s in found), min(s.smallest for s in found)
        for share in (0.1, 0.5, 0.9):
            limit = share * largest if "limit" in cut else np.inf
            floor = smallest + (1 - share) * (largest - smallest) if "floor" in cut else -np.inf
            rules = Rules(3, 1 if "width" in cut else 100, limit, paired="paired" in cut, floor=floor)
            upper, earned = means(task, function, WAYS[way], rules, policy)
            assert upper >= values(task)(0, 0) - CLOSE
            assert earned <= values(task, policy)(0, 0) + CLOSE


@pytest.mark.parametrize("way", WAYS)
def test_without_a_horizon_paths_are_cut_in_time(way):
    for seed, guess in itertools.product(range(3), ["zero", "optimal", "random", "adversarial"]):
        rng = np.random.default_rng([seed, 3])
        task = problem(random_mdp(rng, horizon=None), discount=0.7)
        policy = random_policy(rng)
        upper, earned = means(task, guesses(task, rng)[guess], WAYS[way], Rules(3, 100), policy)
        assert upper >= values(task)(0, 0) - CLOSE
        assert earned <= values(task, policy)(0, 0) + CLOSE


def test_the_values_of_the_optimal_policy_make_it_tight_with_many_samples():
    """With V = v* the bound is attained but for the error of the temporal differences, which more samples reduce."""
    task = problem(random_mdp(np.random.default_rng(4), horizon=2, noise=2))
    best = values(task)
    few, many = (means(task, best, pooled(samples), Rules(2, 100))[0] for samples in (1, 6))
    assert best(0, 0) <= few + CLOSE
    assert best(0, 0) <= many < few


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("width", [1, 2, 100])
def test_a_scenario_is_the_maximum_over_all_sequences_of_actions(way, width):
    """Against all sequences one by one, for every noise; merging states changes nothing."""
    rng = np.random.default_rng(5)
    task = problem(random_mdp(rng, horizon=3), discount=0.9)
    function = guesses(task, rng)["random"]
    make, sizes = WAYS[way]
    for _, rows in itertools.islice(all_noise(task.mdp, sizes(3)), 0, None, 3):
        v = Values(Given(task, rows), function)
        scenario = play(v, make(v, 3), 0, Rules(3, width), None)
        expected = by_hand(task, function, rows, way)
        assert scenario.upper >= expected - CLOSE
        if not scenario.cut:
            assert scenario.upper == pytest.approx(expected, abs=CLOSE)
            along = function(0, 0) + math.fsum(step.residual for step in scenario.path)
            assert scenario.upper == pytest.approx(along, abs=CLOSE)


def by_hand(task, function, rows, way, stops=lambda time, rows: False):
    """The largest sum of temporal differences, where all paths stop at the first time at which ``stops`` says so."""
    mdp, gamma = task.mdp, task.discount
    best = -np.inf
    for actions in itertools.product(range(mdp.actions), repeat=mdp.horizon):
        state, total = 0, function(0, 0)
        for time, action in enumerate(actions):
            if stops(time, rows):
                total += gamma**time * (task.return_range(time)[1] - clipped(task, function, state, time))
                break
            move, samples = (rows[time][0], rows[time][1:]) if way == "fresh" else (rows[0][time], rows[0][time + 1 :])
            gains = [
                mdp.rewards[state, action, w]
                + gamma * clipped(task, function, mdp.following[state, action, w], time + 1)
                for w in samples
            ]
            total += gamma**time * (np.mean(gains) - clipped(task, function, state, time))
            state = mdp.following[state, action, move]
            if state == END:
                break
        best = max(best, total)
    return best


def clipped(task, function, state, stage):
    if state == END or stage == task.horizon:
        return 0.0
    return float(np.clip(function(state, stage), *task.return_range(stage)))


# ------------------------------------------------------------------------------------------ rules that are wrong


def lucky_or_not():
    """Noise 1 leads to a state that pays 1, noise 0 to one that pays nothing; V believes the opposite."""
    following = [[[1, 2]], [[END, END]], [[END, END]]]
    rewards = [[[0, 0]], [[0, 0]], [[1, 1]]]
    task = problem(FiniteNoise(following, rewards, [0.5, 0.5], 2, (0.0, 1.0), (0.0, 1.0)))
    return task, lambda state, stage: (0.5, 1.0, 0.0)[state]


def test_a_rule_that_looks_ahead_would_be_wrong():
    """A planted rule stops just before good luck, and its mean is below v*; ours, which cannot look, is not."""
    task, function = lucky_or_not()

    def mean(stops):
        _, sizes = fresh(1)
        return math.fsum(p * by_hand(task, function, rows, "fresh", stops) for p, rows in all_noise(task.mdp, sizes(2)))

    best = values(task)(0, 0)
    assert best == 0.5
    assert mean(lambda time, rows: False) == pytest.approx(0.5)
    assert mean(lambda time, rows: time == 0 and rows[0][0] == 1) == pytest.approx(0.25)
    for limit in (-1.0, 0.4, 0.6, 0.9, 1.4):
        assert means(task, function, fresh(1), Rules(2, 100, limit))[0] >= best - CLOSE
        assert means(task, function, pooled(1), Rules(2, 100, limit))[0] >= best - CLOSE


# ------------------------------------------------------------------------------------------ states of all kinds


def test_a_policy_whose_state_was_cut_is_followed_to_its_end():
    """The kept path ends at once, the policy's goes on, and must not be credited with V, which is far too high."""
    following = [[[1], [2]], [[END], [END]], [[2], [2]]]
    mdp = FiniteNoise(following, np.zeros((3, 2, 1)), [1.0], 6, (0.0, 1.0))
    task = problem(mdp)
    function = lambda state, stage: (0.0, 3.0, 2.9)[state]  # noqa: E731 - state 1 looks best, and ends
    upper, earned = means(task, function, fresh(1), Rules(6, 1), lambda state, stage: 1)
    assert upper >= 0.0
    assert earned <= 0.0


class Lists:
    """States are lists, which are not hashable: nothing is merged, and nothing is changed in place."""

    horizon, actions = 3, 2

    def start(self, rng):
        return [0]

    def step(self, state, action, rng):
        state[0] += action + int(rng.integers(2))
        return 0.25, state


def test_unhashable_states_are_not_merged():
    task = any_problem(Lists())
    for way in (Fresh, Pooled):
        access = BatchAccess(task, Meter(), 0)
        v = Values(access, lambda state, stage: 0.1 * state[0])
        noise = way(v, Purpose.TEST, 0, 2) if way is Fresh else Pooled(v, Purpose.TEST, 0, 2, 3)
        scenario = play(v, noise, [0], Rules(3, 100), Follows(lambda state, stage: 1))
        assert [len(ids) for ids in scenario.reached] == [1, 2, 4]
        assert scenario.upper >= scenario.policy
        assert scenario.gap >= 0


def test_states_reached_by_several_paths_are_merged():
    task = any_problem()  # walks: the sum of the actions is the state
    access = BatchAccess(task, Meter(), 0)
    v = Values(access, lambda state, stage: 0.0)
    scenario = play(v, Fresh(v, Purpose.TEST, 0, 2), 0, Rules(6, 100), None)
    assert [len(ids) for ids in scenario.reached] == [1, 2, 3, 4, 5, 6]
    assert scenario.upper == 3.0
    assert math.isnan(scenario.policy)


def test_one_step_and_one_action():
    mdp = FiniteNoise([[[END, 0]]], [[[0.25, 0.75]]], [0.5, 0.5], 1, (0.0, 1.0))
    for way in (fresh(2), pooled(2)):
        assert means(problem(mdp), lambda state, stage: 0.9, way, Rules(1, 10), lambda state, stage: 0) == (0.5, 0.5)


@pytest.mark.parametrize("way", WAYS)
def test_stopping_problems(way):
    """Action 1 takes the offer and ends; action 0 waits for the next one."""
    offers = np.array([0.2, 0.9])
    following = [[[0, 1], [END, END]], [[0, 1], [END, END]]]
    rewards = [[[0, 0], [offers[0]] * 2], [[0, 0], [offers[1]] * 2]]
    task = problem(FiniteNoise(following, rewards, [0.7, 0.3], 3, (0.0, 1.0), (0.0, 1.0)))
    for guess, function in guesses(task, np.random.default_rng(0)).items():
        upper, _ = means(task, function, WAYS[way], Rules(3, 100))
        assert upper >= values(task)(0, 0) - CLOSE, guess
    assert tp.END is task.arrive(0, 2)
