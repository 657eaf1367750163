"""Each formula that misleads as printed: what breaks with it; with the corrected one nothing does (test_hard.py).

The numbers are those of the list of errata in ``docs/paper_map.md``.
"""

from __future__ import annotations

import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest
from hard_exact import broken_claims
from printed_errors import Eight, Eleven, Five, Nine, Seven, Six, Ten, Thirteen, Twelve

from tensorplan.core import END
from tensorplan.core.errors import BadInput
from tensorplan.evaluation.verdict import judge_run
from tensorplan.loop import run
from tensorplan.planners.baselines.random import RandomPlanner
from tensorplan.problems.catalog import make
from tensorplan.problems.hard.hypercube import decay, distance
from tensorplan.problems.hard.mdp import HardMDP, shape_for
from tensorplan.problems.tables.tabular import evaluate_tabular, solve_tabular

PHI_V, PHI_Q = "phi_v realizes v*", "phi_q realizes q*"
POLICY, FORMS = "the policy is optimal", "the closed forms are the optimal values"
FAR, BLIND = "rounds end far from where they start", "features do not know the secret"


def broken(cls, p, K, kind):
    assert corrected(p, K, kind) == set()
    return broken_claims(cls(p, K, kind=kind, number=Fraction))


@functools.cache
def corrected(p, K, kind):
    return broken_claims(HardMDP(p, K, kind=kind, number=Fraction))


@pytest.mark.parametrize("kind", ["v", "q"])
def test_5_normalised_weights_in_phi_v(kind):
    assert broken(Five, 4, 2, kind) == {PHI_V, PHI_Q}


@pytest.mark.parametrize("kind", ["v", "q"])
def test_6_missing_root_of_p_in_phi_q_at_the_last_step(kind):
    assert broken(Six, 4, 2, kind) == {PHI_Q}


@pytest.mark.parametrize("kind", ["v", "q"])
def test_7_phi_q_at_the_last_step_is_not_phi_v_of_the_next_state(kind):
    assert broken(Seven, 3, 2, kind) == {PHI_Q}


def test_8_weights_one_step_too_late_in_phi_q():
    assert broken(Eight, 3, 2, "q") == {PHI_Q}


@pytest.mark.parametrize("kind", ["v", "q"])
def test_9_successors_in_the_mdp_know_the_secret(kind):
    assert broken(Nine, 3, 2, kind) == {PHI_Q, BLIND}


@pytest.mark.parametrize("p", [2, 4, 5])
def test_10_a_repeat_that_flips_back(p):
    mdp = Ten(p, 1, number=Fraction)
    assert broken(Ten, p, 1, "v") >= {FAR}
    ends = [mdp.root]
    for _ in range(p):
        ends = [t for s in ends for a in range(p) if (t := mdp.successor(s, a)) is not END]
    near = sum(4 * distance(0, s.last) < p for s in ends) / len(ends)
    assert 0.2 < near <= 0.5


@pytest.mark.parametrize("kind", ["v", "q"])
def test_11_illegal_actions_are_not_an_ordinary_step(kind):
    assert broken(Eleven, 5, 1, kind) == {FAR, PHI_Q}


@pytest.mark.parametrize("p", [5, 6])
def test_12_the_policy_must_look_at_phi_q_near_the_secret(p):
    mdp = Twelve(p, 2, kind="q", number=Fraction)
    states = [s for layer in mdp.layers() for s in layer]
    choices = {s: mdp.policy(s) for s in states}
    assert all(a is not None and mdp.q_prime(s, a) == mdp.value(s) for s, a in choices.items() if mdp.reachable(s))
    assert {(s.last == mdp.secret, s.step) for s, a in choices.items() if a is None} == {(True, 0)}
    losses = [(mdp.value(s) - mdp.q_prime(s, a)) / s.prefix for s, a in choices.items() if a is not None]
    assert 0.5 < max(losses) < 0.65
    assert all(mdp.q_prime(s, HardMDP.policy(mdp, s)) == mdp.value(s) for s in states)


@pytest.mark.parametrize("kind", ["v", "q"])
def test_13_a_frozen_round_has_all_components_fixed(kind):
    assert broken(Thirteen, 3, 2, kind) == {POLICY}


def test_14_g_is_one_at_zero():
    assert [decay(0, p) for p in (2, 5, 128)] == [1, 1, 1]


def test_15_weights_come_from_the_step_before_not_from_the_round_before():
    """Printed w_ki = w(s_{k-1,i}, a_{k-1,i}); it is w_{k,i+1} = w(s_ki, a_ki)."""
    tree, states = HardMDP(4, 3), []
    state, actions = tree.root, [0, 1, 2, 3, 2, 0, 1]
    for action in actions:
        states.append(state)
        state = tree.successor(state, action)
    at = {(s.round, s.step): s.weights for s in [*states, state]}
    assert all(at[divmod(t + 1, 4)] == at[divmod(t, 4)] ^ 1 << actions[t] for t in range(7))
    printed = {(1, i): at[0, i] ^ 1 << actions[i] for i in range(4)}  # the step i of the round before
    assert any(printed[1, i] != at[1, i] for i in range(1, 4))


def test_18_phi_q_is_taken_at_the_state_of_the_action():
    """Printed q'(s_ki, a) = <φ_q(s_{k,i+1}, a), θ*>; it is that of s_ki."""
    mdp = HardMDP(3, 2, number=Fraction)
    printed = 0
    for state in [s for layer in mdp.layers() for s in layer if mdp.reachable(s)]:
        for action, feature in enumerate(mdp.action_features(state)):
            assert feature.value(mdp.secret) == mdp.q_prime(state, action)
            following = mdp.successor(state, action)
            if following.round < mdp.K:
                printed += mdp.action_features(following)[action].value(mdp.secret) != mdp.q_prime(state, action)
    assert printed > 20


def test_16_no_state_has_as_many_actions_as_the_horizon():
    mdp = HardMDP(3, 2)
    assert max(3 * s.round + s.step for layer in mdp.layers() for s in layer) == 5
    with pytest.raises(BadInput):
        mdp.states(6)


def test_23_a_weight_at_distance_p_over_4_is_not_close():
    """Printed "<= p/4" in two lemmas: then a legal step could lead from a close weight to a close one."""
    mdp = HardMDP(8, 2, secret=0b00001111)
    assert not mdp.close(mdp.secret ^ 0b11)
    assert mdp.close(mdp.secret ^ 0b1)
    state = mdp.root._replace(round=1, last=mdp.secret ^ 0b11, weights=mdp.secret ^ 0b11)
    assert mdp.reachable(state)
    assert mdp.next_state(state, 0) is not END


def test_20_p_is_not_bounded_by_08_times_the_fourth_root_of_d():
    assert shape_for(31, 81)[0] > 0.8 * 31**0.25


def test_1_a_large_delta_asks_for_nothing():
    """Printed "δ sufficiently large": with δ = 1 a planner that never asks is sound.  The proof needs δ <= 0.01."""
    hard = make("hard/3x2")
    played = run(hard, RandomPlanner(), episodes=3000)
    assert played.worst_call == 0
    assert [judge_run(hard, played, delta).verdict for delta in (1.0, 0.01)] == ["sound", "not sound"]


def test_17_the_optimal_action_value_is_that_of_the_action():
    """Printed q*(s, a) = sup_π q^π(s), the same for all a; it is sup_π q^π(s, a), here over all 2^6 policies."""
    mdp = make("layered", actions=2, d=2, states=3, horizon=2, branching=2).mdp
    policies = [[row[:3], row[3:]] for row in itertools.product(range(2), repeat=6)]
    values = [evaluate_tabular(mdp, policy).q for policy in policies]
    for stage, best in enumerate(solve_tabular(mdp).q):
        np.testing.assert_allclose(np.max([q[stage] for q in values], axis=0), best, atol=1e-12)
        assert (np.ptp(best, axis=1) > 0.01).any()
