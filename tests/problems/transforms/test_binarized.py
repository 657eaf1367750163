"""Actions spelled in bits: the same problem, with values from backward induction on the longer one."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import problem

import tensorplan as tp
from tensorplan.problems.random.layered import layered
from tensorplan.problems.tables.reachable import explore
from tensorplan.problems.transforms.binarized import MAPS, binarize
from tensorplan.testing import check_problem


def small(actions, **params):
    return layered(actions, 4, **{"states": 5, "horizon": 3, "kind": "q"} | params)


@pytest.mark.parametrize("actions", [2, 3, 4, 5, 8, 9])
def test_values_are_what_backward_induction_finds(actions):
    task = small(actions)
    bits = {2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 9: 4}[actions]
    longer = binarize(task)
    assert (longer.horizon, longer.actions) == (3 * bits, 2)
    found = explore(longer)
    for h, state in found.places:
        inner, prefix = state
        assert len(prefix) == h % bits
        assert task.mdp.stage_of(inner) == h // bits
        assert longer.optimal_value(state, h) == pytest.approx(found.value(state, h))
        for bit in (0, 1):
            assert longer.optimal_action_value(state, bit, h) == pytest.approx(found.action_value(state, bit, h))
    assert longer.optimal_value((0, ())) == pytest.approx(task.optimal_value(0))


@pytest.mark.parametrize("actions", [2, 3, 5, 8, 9])
def test_every_action_has_a_code_and_every_code_an_action(actions):
    mdp = binarize(small(actions)).mdp
    codes = [tuple(map(int, f"{code:0{mdp.bits}b}")) for code in range(2**mdp.bits)]
    assert [list(mdp.completions(code)) for code in codes] == [[min(c, actions - 1)] for c in range(2**mdp.bits)]
    assert list(mdp.completions(())) == list(range(actions))
    for length in range(mdp.bits):
        for code in {c[:length] for c in codes}:
            below = set(mdp.completions((*code, 0))) | set(mdp.completions((*code, 1)))
            assert set(mdp.completions(code)) == below


def test_steps_are_those_of_the_problem():
    task = small(5, noise=True, branching=2)
    longer = binarize(task)
    for code, action in [((0, 0, 0), 0), ((0, 1, 1), 3), ((1, 0, 0), 4), ((1, 1, 1), 4)]:
        state = (0, ())
        for bit in code[:-1]:
            reward, state = longer.mdp.step(state, bit, np.random.default_rng(1))
            assert reward == 0.0
        assert state == (0, code[:-1])
        reward, following = longer.mdp.step(state, code[-1], np.random.default_rng(1))
        assert (reward, following) == (lambda r, s: (r, (s, ())))(*task.mdp.step(0, action, np.random.default_rng(1)))
    assert not longer.deterministic_transitions
    assert not longer.deterministic_rewards


@pytest.mark.parametrize("features", MAPS)
def test_candidates(features):
    task = small(5)
    longer = binarize(task, features)
    rows = task.action_features(2, 0)
    at = longer.state_features((2, (0, 1)), 2)  # actions 2 and 3
    if features == "first":
        assert (at == rows[2]).all()
    elif features == "mean":
        assert at == pytest.approx((rows[2] + rows[3]) / 2)
    else:
        blocks = at.reshape(5, 4)
        assert (blocks[[2, 3]] == rows[[2, 3]] / 2).all()
        assert not blocks[[0, 1, 4]].any()
        assert at @ np.tile(task.theta, 5) == pytest.approx((rows[2] + rows[3]) @ task.theta / 2)
    assert longer.dimension == (20 if features == "concat" else 4)
    assert longer.bound == pytest.approx(task.bound * (np.sqrt(5) if features == "concat" else 1))
    assert longer.phi_q is None
    assert longer.theta is None


@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("params", [{}, {"noise": True, "branching": 2}])
def test_the_contract(features, params):
    assert check_problem(binarize(small(3, **params), features), episodes=5) == 5 * 6


def test_the_optimal_policy_earns_the_same():
    task = small(6)
    (one,) = tp.run(task, tp.Oracle()).episodes
    (two,) = tp.run(binarize(task), tp.Oracle()).episodes
    assert two.total_reward == pytest.approx(one.total_reward)
    assert two.steps == 3 * one.steps


class Countdown:
    """From n, action a takes a + 1 away, at the price of 1; END at or below 0.  No horizon."""

    horizon, actions, reward_range = None, 3, (-1.0, -0.5)
    deterministic_transitions = deterministic_rewards = True

    def start(self, rng):
        return 7

    def step(self, state, action, rng):
        return -1.0, state - action - 1 if state > action + 1 else tp.END


def test_a_problem_without_horizon_has_none():
    task = problem(Countdown(), None, phi_q=lambda s, h: np.eye(3), bound=1.0)
    longer = binarize(task)
    assert longer.horizon is None
    assert longer.solution is None
    assert longer.reward_range == (-1.0, 0.0)
    (episode,) = tp.run(longer, tp.Oracle()).episodes
    assert (episode.total_reward, episode.steps) == (-3.0, 6)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: binarize(layered(3, 4)), "binarize needs phi_q, which problem 'layered/3x4' does not have"),
        (lambda: binarize(small(1)), "binarize needs two actions or more, and problem 'layered/1x4' has one"),
        (lambda: binarize(small(3), "sum"), "features must be one of first, mean, concat, got 'sum'"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, sentence):
    with pytest.raises(tp.BadInput) as info:
        call()
    assert str(info.value) == sentence
