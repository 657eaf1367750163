"""Layered problems: tables against a recursion written here, hashed ones against a table of themselves."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from tensorplan.core import END, Problem
from tensorplan.core.errors import BadInput
from tensorplan.problems.random.layered import TABLE_LIMIT, Procedural, layered
from tensorplan.problems.tables.tabular import TabularMDP, solve_tabular

ALARM = 1e-6  # false alarm of each statistical test; seeds are fixed
HUGE = 10**12


def backward(steps: list[np.ndarray], rewards: list[np.ndarray]) -> tuple[list, list]:
    """v* and q* per stage; ``steps[h]`` is (S, A, S'), its last one is not looked at."""
    v, q = [], []
    for h in reversed(range(len(rewards))):
        ahead = np.einsum("sat,t->sa", steps[h], v[0]) if v else 0.0
        q.insert(0, rewards[h] + ahead)
        v.insert(0, q[0].max(axis=1))
    return v, q


# ---------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("features", ["v", "q", "vq"])
@pytest.mark.parametrize("branching", [1, 3])
@pytest.mark.parametrize("noise", [False, True])
def test_table_features_realize_the_values(noise, branching, features):
    for seed in range(5):
        options = {"states": 8, "horizon": 4, "branching": branching, "noise": noise, "kind": features}
        problem = layered(3, 5, seed=seed, **options)
        mdp = problem.mdp
        steps = [mdp.matrix(h).toarray().reshape(8, 3, 8) for h in range(3)]
        v, q = backward([*steps, None], [mdp.rewards(h) for h in range(4)])
        assert np.linalg.norm(problem.theta) <= problem.bound
        for h, place in itertools.product(range(4), range(8)):
            state = 8 * h + place
            assert problem.optimal_value(state, h) == pytest.approx(v[h][place], abs=1e-12)
            if "v" in features:
                assert problem.state_features(state, h) @ problem.theta == pytest.approx(v[h][place], abs=1e-9)
            if "q" in features:
                assert problem.action_features(state, h) @ problem.theta == pytest.approx(q[h][place], abs=1e-9)


def test_tables_have_the_requested_shape():
    problem = layered(3, 6, states=20, horizon=5, branching=2, seed=1)
    assert (problem.actions, problem.dimension, problem.horizon) == (3, 6, 5)
    assert isinstance(problem.mdp, TabularMDP)
    assert [len(problem.mdp.states(h)) for h in range(5)] == [20] * 5
    entries = np.concatenate([np.diff(problem.mdp.matrix(h).indptr) for h in range(4)])
    assert entries.max() == 2  # two successors; now and then the same one twice
    assert entries.mean() > 1.8
    rewards = np.concatenate([problem.mdp.rewards(h).ravel() for h in range(5)])
    assert stats.kstest(rewards, "uniform").pvalue > ALARM
    assert {problem.mdp.start(np.random.default_rng(i)) for i in range(20)} == {0}


@pytest.mark.parametrize("procedural", [False, True])
@pytest.mark.parametrize(
    ("branching", "noise", "flags", "name"),
    [
        (1, False, (True, True), "layered/2x3"),
        (1, True, (True, False), "layered-stochastic/2x3"),
        (4, False, (False, True), "layered-stochastic/2x3"),
        (4, True, (False, False), "layered-stochastic/2x3"),
    ],
)
def test_declared_determinism(branching, noise, flags, name, procedural):
    problem = layered(2, 3, states=30, horizon=4, branching=branching, noise=noise, procedural=procedural)
    assert (problem.deterministic_transitions, problem.deterministic_rewards) == flags
    assert problem.name == name
    # and it is true: where something is declared deterministic it never varies, elsewhere it does
    rng = np.random.default_rng(0)
    answers = [[problem.mdp.step(state, a, rng) for _ in range(60)] for state in range(10) for a in range(2)]
    assert all(len({s for _, s in pair}) == 1 for pair in answers) is flags[0]
    assert all(len({r for r, _ in pair}) == 1 for pair in answers) is flags[1]


@pytest.mark.parametrize("eta", [0.0, 0.3])
def test_the_form_follows_the_size(eta):
    assert isinstance(layered(1, 2, states=TABLE_LIMIT, horizon=1).mdp, TabularMDP)
    assert isinstance(layered(1, 2, states=TABLE_LIMIT + 1, horizon=1).mdp, Procedural)
    assert isinstance(layered(1, 2, states=3, horizon=1, procedural=True).mdp, Procedural)
    assert layered(1, 2, states=3, horizon=2, eta=eta).eta == eta


# -------------------------------------------------------------------------------- hashed, small enough


def tabulated(problem: Problem, width: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What ``step_batch`` says about every pair: P[h] (S, A, S+1), the last column END, and mean rewards."""
    rng, steps, rewards = np.random.default_rng(0), [], []
    for h in range(problem.horizon):
        step, reward = np.zeros((width, problem.actions, width + 1)), np.zeros((width, problem.actions))
        for place, a in itertools.product(range(width), range(problem.actions)):
            sampled, successors, _ = problem.mdp.step_batch(h * width + place, a, 1, rng)
            for following in successors:  # equally likely, see test_hashed_draws
                column = width if following is END else following - (h + 1) * width
                assert 0 <= column <= width
                step[place, a, column] += 1 / len(successors)
            reward[place, a] = sampled[0]
        steps.append(step)
        rewards.append(reward)
    return steps, rewards


@pytest.mark.parametrize("branching", [1, 2, 4])
@pytest.mark.parametrize(("actions", "horizon"), [(1, 3), (3, 1), (2, 6), (4, 4)])
def test_hashed_values_against_a_table_of_the_problem(actions, horizon, branching):
    width = 5
    for seed in range(4):
        options = {"states": width, "horizon": horizon, "branching": branching, "procedural": True, "seed": seed}
        problem = layered(actions, 3, **options)
        steps, rewards = tabulated(problem, width)
        assert (steps[-1][:, :, width] == 1).all()
        assert all((step[:, :, width] == 0).all() for step in steps[:-1])
        v, q = backward([step[:, :, :width] for step in steps], rewards)
        solution = solve_tabular(TabularMDP(steps, rewards, horizon=horizon))
        for h, place in itertools.product(range(horizon), range(width)):
            state = h * width + place
            assert problem.optimal_value(state, h) == pytest.approx(v[h][place], abs=1e-12)
            assert solution.value(state, h) == pytest.approx(v[h][place], abs=1e-12)
            for a in range(actions):
                assert problem.optimal_action_value(state, a, h) == pytest.approx(q[h][place, a], abs=1e-12)
            assert problem.state_features(state, h) @ problem.theta == pytest.approx(v[h][place], abs=1e-9)


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("branching", [1, 3])
def test_hashed_draws(branching, noise):
    """step and step_batch draw the candidates equally often, and rewards with the mean of the noiseless twin.

    A candidate that is off by 0.05, or a mean off by 0.05, slips through n = 20,000 with probability below 1e-9.
    """
    n, rng = 20_000, np.random.default_rng(1)
    options = {"states": HUGE, "horizon": 3, "branching": branching, "seed": 3}
    mdp, twin = layered(2, 3, noise=noise, **options).mdp, layered(2, 3, **options).mdp
    for state, action in [(0, 0), (0, 1), (HUGE + 17, 1)]:
        mean = twin.step(state, action, rng)[0]
        rewards, successors, which = mdp.step_batch(state, action, n, rng)
        assert len(set(successors)) == branching
        single = [mdp.step(state, action, rng) for _ in range(n)]
        batch = [(r, successors[i]) for r, i in zip(rewards.tolist(), which.tolist(), strict=True)]
        for outcomes in (single, batch):
            ends = {1.0: mean, 0.0: 1 - mean} if noise else {mean: 1.0}
            law = {(r, s): p / branching for r, p in ends.items() for s in successors}
            counts = Counter(outcomes)
            assert set(counts) <= set(law)
            if len(law) > 1:
                expected = np.array(list(law.values())) * n
                assert stats.chisquare([counts[x] for x in law], expected).pvalue > ALARM


# ---------------------------------------------------------------------------------------- hashed, huge


@pytest.mark.parametrize("branching", [1, 3])
@pytest.mark.parametrize("horizon", [1, 2, 20])
def test_a_trillion_states_per_stage(horizon, branching):
    problem = layered(4, 6, states=HUGE, horizon=horizon, branching=branching, seed=2)
    mdp, rng = problem.mdp, np.random.default_rng(0)
    following, best = [], []
    for _ in range(1500):
        h = int(rng.integers(horizon))
        state = h * HUGE + int(rng.integers(HUGE))
        q = []
        for a in range(4):
            rewards, successors, _ = mdp.step_batch(state, a, 2, rng)
            assert rewards[0] == rewards[1]
            assert 0.0 <= rewards[0] <= 1.0
            if h + 1 == horizon:
                assert all(s is END for s in successors)
            else:
                assert all((h + 1) * HUGE <= s < (h + 2) * HUGE for s in successors)
                following += [s % HUGE for s in successors]
            q.append(rewards[0] + np.mean([problem.optimal_value(s, h + 1) for s in successors]))
            assert problem.optimal_action_value(state, a, h) == pytest.approx(q[-1], abs=1e-12)
        # Bellman's equation, with one best action
        assert problem.optimal_value(state, h) == pytest.approx(max(q), abs=1e-12)
        assert sorted(q)[-2] < max(q) - 0.01
        best.append(int(np.argmax(q)))
        assert problem.optimal_policy(state, h) == best[-1]
        phi = problem.state_features(state, h)  # checked to have norm <= 1
        assert phi @ problem.theta == pytest.approx(problem.optimal_value(state, h), abs=1e-9)
        assert np.linalg.norm(phi) == pytest.approx(1.0, abs=1e-9)
    assert np.linalg.norm(problem.theta) <= problem.bound
    # the hash spreads: best actions and successors are uniform, and successors do not collide
    assert stats.chisquare(np.bincount(best, minlength=4)).pvalue > ALARM
    if following:
        assert stats.kstest(np.array(following) / HUGE, "uniform").pvalue > ALARM
        assert len(set(following)) > 0.999 * len(following)


def test_hashed_values_are_spread():
    problem = layered(2, 3, states=HUGE, horizon=7, seed=4)
    states = [3 * HUGE + 1000 * k for k in range(4000)]
    around = np.array([problem.optimal_value(s, 3) for s in states]) - (7 - 3) / 2
    assert stats.kstest(around, stats.uniform(-0.15, 0.3).cdf).pvalue > ALARM


# ------------------------------------------------------------------------------------------------ seeds


@pytest.mark.parametrize("procedural", [False, True])
def test_the_seed_decides_and_nothing_else(procedural):
    def facts(seed: int) -> np.ndarray:
        problem = layered(2, 3, states=10, horizon=3, procedural=procedural, seed=seed)
        rng = np.random.default_rng(0)
        rewards = [problem.mdp.step(s, a, rng)[0] for s in range(30) for a in range(2)]
        features = [problem.state_features(10 * h + i, h) for h in range(3) for i in range(10)]
        return np.concatenate([problem.theta, rewards, *features])

    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    first = facts(5)
    assert (np.random.get_state()[1] == before).all()
    np.random.seed(2)
    assert (facts(5) == first).all()
    other = facts(6)
    assert (other != first).mean() > 0.9


def test_hashed_problems_of_different_seeds_are_unrelated():
    values = [[layered(2, 3, states=HUGE, seed=seed).optimal_value(s) for s in range(2000)] for seed in range(4)]
    for a, b in itertools.combinations(values, 2):
        assert stats.pearsonr(a, b).pvalue > ALARM


# -------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"actions": 0}, "actions must be a whole number >= 1, got 0"),
        ({"d": 1}, "d must be a whole number >= 2, got 1"),
        ({"states": 0}, "states must be a whole number >= 1, got 0"),
        ({"states": 2.5}, "states must be a whole number >= 1, got 2.5"),
        ({"horizon": None}, "horizon must be a whole number >= 1, got None"),
        ({"branching": 0}, "branching must be a whole number >= 1, got 0"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"noise": "no"}, "noise must be true or false, got 'no'"),
        ({"procedural": "yes"}, "procedural must be true or false, got 'yes'"),
        ({"kind": "phi"}, "kind must be one of v, q, vq, got 'phi'"),
        ({"eta": "little"}, "eta must be a number >= 0, got 'little'"),
        ({"eta": -1, "procedural": True}, "eta must be a number >= 0, got -1"),
        ({"eta": "little", "procedural": True}, "eta must be a number >= 0, got 'little'"),
        ({"eta": 0.1, "procedural": True}, "eta of a procedural problem must be one of 0.0, got '0.1'"),
        ({"kind": "q", "states": HUGE}, "the kind of a procedural problem must be one of v, got 'q'"),
    ],
)
def test_bad_input_is_one_clear_sentence(options, sentence):
    with pytest.raises(BadInput) as info:
        layered(**options)
    assert str(info.value) == sentence
