"""The constant gap: closed forms against backward induction on tables, exact in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.problems.hard.constant_gap import BOUND, FALLEN, ConstantGapMDP, constant_gap, draw, usual_horizon
from tensorplan.problems.hard.near_orthogonal import dot
from tensorplan.testing import check_problem

SMALL = {"d": 9, "actions": 5, "horizon": 4}


def exact(d=64, horizon=None, actions=None, secret=None, seed=0):
    return ConstantGapMDP(*draw(d, horizon, actions, secret, seed), number=Fraction)


def table(mdp):
    """The same MDP as matrices, f last."""
    m = mdp.actions
    transitions, rewards = [], []
    for h in range(mdp.horizon):
        states = [*((h, a) for a in range(m)), FALLEN]
        matrix = np.zeros((m + 1, m, m + 1))
        for i, s in enumerate(states):
            for b in range(m):
                chance = float(mdp.chance(s, b))
                matrix[i, b, b] = chance
                matrix[i, b, m] = 1 - chance
        transitions.append(matrix)
        rewards.append([[float(mdp.reward(s, b)) for b in range(m)] for s in states])
    return tp.TabularMDP(transitions, rewards, horizon=mdp.horizon, reward_range=mdp.reward_range)


@pytest.mark.parametrize(
    "params", [SMALL, {"d": 9, "actions": 3, "horizon": 1}, {}, {"d": 64, "actions": 20, "seed": 3}]
)
def test_the_closed_forms_are_what_backward_induction_finds(params):
    mdp = exact(**params)
    m = mdp.actions
    values = tp.solve_tabular(table(mdp))
    for h in range(mdp.horizon):
        for i, s in enumerate([*((h, a) for a in range(m)), FALLEN]):
            assert float(mdp.value(s)) == pytest.approx(values.v[h][i], abs=1e-12)
            q = [float(mdp.action_value(s, b)) for b in range(m)]
            assert q == pytest.approx(values.q[h][i].tolist(), abs=1e-12)


@pytest.mark.parametrize("params", [SMALL, {}])
def test_realizability_bellman_and_gaps_are_exact(params):
    mdp = exact(**params)
    w, m = mdp.secret, mdp.actions
    gaps = []
    for h in range(mdp.horizon):
        for s in mdp.states(h):
            q = []
            for b in range(m):
                p = mdp.chance(s, b)
                assert p == 0 or Fraction(1, 4) <= p <= Fraction(3, 4)
                q.append(mdp.reward(s, b) + (p * mdp.value((h + 1, b)) if p else 0))
                x, y = mdp.feature(s, b)
                assert q[-1] == x * Fraction(dot(mdp.signs, b, w), mdp.entries) + y == mdp.action_value(s, b)
                assert x * x + y * y <= 1
                assert -1 <= mdp.reward(s, b) <= Fraction(3, 4)
            assert max(q) == mdp.value(s)
            if s == FALLEN or s[1] != w:
                best = 0 if s == FALLEN else w
                gaps.append(q[best] - max(x for b, x in enumerate(q) if b != best))
    assert min(gaps) >= Fraction(1, 16)


def test_rows_are_the_features_of_the_actions_and_do_not_know_the_secret():
    task, mdp, other = constant_gap(**SMALL, secret=1), exact(**SMALL), constant_gap(**SMALL, secret=3)
    for s in [(0, 0), (2, 4), (3, 1), FALLEN]:
        rows = task.action_features(s, 2)
        for b in range(5):
            x, y = mdp.feature(s, b)
            assert rows[b] == pytest.approx([*(float(x) * mdp.signs[b] / np.sqrt(8)), float(y)], abs=1e-15)
        assert (rows == other.action_features(s, 2)).all()


def test_the_state_of_the_secret_is_never_met():
    task = constant_gap(9, actions=5, horizon=30, secret=2)
    for episode in range(50):
        rng = np.random.default_rng(episode)
        state = task.mdp.start(rng)
        assert state == (0, 0)
        for _ in range(29):
            _, state = task.mdp.step(state, int(rng.integers(5)), rng)
            assert state == FALLEN or state[1] != 2


def test_steps_go_on_with_their_chance():
    """5 standard deviations of 20,000 coins."""
    task = constant_gap(**SMALL, secret=4)
    rng = np.random.default_rng(0)
    for s, b in [((0, 0), 1), ((2, 3), 0), ((0, 0), 4), ((1, 1), 1), ((3, 0), 1)]:
        rewards, following, which = task.mdp.step_batch(s, b, 20_000, rng)
        assert set(rewards.tolist()) == {float(task.mdp.reward(s, b))}
        chance = float(task.mdp.chance(s, b))
        assert abs(which.mean() - chance) <= 5 * np.sqrt(0.25 / 20_000) * (chance > 0)
        assert following == ([FALLEN, (s[0] + 1, b)] if chance else [FALLEN])
        singles = [task.mdp.step(s, b, rng) for _ in range(2000)]
        assert {r for r, _ in singles} == {rewards[0]}
        assert abs(np.mean([t != FALLEN for _, t in singles]) - chance) <= 5 * np.sqrt(0.25 / 2000)
    assert task.mdp.step(FALLEN, 0, rng) == (0.0, FALLEN)
    assert task.mdp.step(FALLEN, 2, rng) == (-1.0, FALLEN)


@pytest.mark.parametrize("params", [SMALL, {"d": 64}, {"d": 5, "actions": 2, "horizon": 1}])
def test_the_contract(params):
    task = constant_gap(**params)
    assert check_problem(task, episodes=5) == 5 * task.horizon
    assert task.deterministic_rewards
    assert not task.deterministic_transitions
    assert task.reward_range == (-1.0, 0.75)
    assert task.bound == BOUND == pytest.approx(np.linalg.norm(task.theta))
    assert task.dimension == params["d"]
    assert [len(list(task.mdp.states(h))) for h in range(min(2, task.horizon))] == [
        task.actions + (h > 0) for h in range(min(2, task.horizon))
    ]


def test_seeds_names_and_horizons():
    one, two = constant_gap(64, seed=5), constant_gap(64, seed=5)
    assert (one.mdp.signs == two.mdp.signs).all()
    assert one.mdp.secret == two.mdp.secret
    assert {constant_gap(64, seed=s).mdp.secret for s in range(40)} == set(range(1, 7))
    assert one.name == "constant-gap/64"
    assert tp.make("constant-gap/64:secret=3").mdp.secret == 3
    assert constant_gap().actions == 52
    assert [usual_horizon(m) for m in (2, 7, 52)] == [4, 8, 15]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: constant_gap(2), "d must be a whole number >= 3, got 2"),
        (lambda: constant_gap(64, actions=1), "actions must be a whole number from 2 to 50000, got 1"),
        (lambda: constant_gap(64, secret=0), "secret must be a whole number from 1 to 6, got 0"),
        (lambda: constant_gap(64, horizon=0), "horizon must be a whole number >= 1, got 0"),
        (lambda: constant_gap(64, seed=-1), "seed must be a whole number >= 0, got -1"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, sentence):
    with pytest.raises(tp.BadInput) as info:
        call()
    assert str(info.value) == sentence
