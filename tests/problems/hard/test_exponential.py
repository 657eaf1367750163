"""Exponentially many actions: closed forms against backward induction, and the bound against exact games."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from printed_errors import PrintedStages

import tensorplan as tp
from tensorplan.access import GlobalAccess
from tensorplan.problems.hard.exponential import (
    BOUND,
    EXIT,
    ExponentialMDP,
    draw,
    exponential,
    forced_queries,
    usual_horizon,
)
from tensorplan.problems.hard.near_orthogonal import closest, dot, near_orthogonal, usual_count
from tensorplan.problems.tables.reachable import explore
from tensorplan.testing import check_problem

SMALL = {"d": 9, "actions": 5, "horizon": 4}


def exact(secret=None, cls=ExponentialMDP, **params):
    signs, horizon, drawn = draw(**{"d": 64, "horizon": None, "actions": None, "secret": None, "seed": 0} | params)
    return cls(signs, horizon, drawn if secret is None else secret, number=Fraction)


def backward(mdp):
    """q* by stages from FACTS alone: the simulator's mean rewards and transitions, all states included."""
    q = []
    ahead = None
    for h in reversed(range(mdp.horizon)):
        states = [*permutations(range(mdp.actions), h), *([EXIT] if h else [])]
        assert sorted(map(str, mdp.states(h))) == sorted(map(str, states))
        rows = {}
        for s in states:
            steps = [(mdp.mean_reward(s, a), mdp.next_state(s, a)) for a in range(mdp.actions)]
            rows[s] = [mean + (0 if ahead is None else max(ahead[t])) for mean, t in steps]
        q.append(rows)
        ahead = rows
    return q[::-1]


# ------------------------------------------------------------------------------------------- vectors


@pytest.mark.parametrize(("count", "n"), [(7, 63), (60, 63), (8, 8), (4, 4), (500, 127), (2, 2)])
def test_vectors_are_signs_and_nearly_orthogonal(count, n):
    signs = near_orthogonal(count, n, np.random.default_rng(3))
    assert signs.shape == (count, n)
    assert set(np.unique(signs).tolist()) == {-1, 1}
    gram = signs.astype(int) @ signs.astype(int).T
    off = np.abs(gram - n * np.eye(count, dtype=int))
    assert 4 * off.max() <= n
    assert closest(signs) == off.max()
    assert dot(signs, 0, 1) == gram[0, 1]
    assert (signs == near_orthogonal(count, n, np.random.default_rng(3))).all()


def test_the_number_of_vectors_grows_exponentially():
    assert [usual_count(n) for n in (2, 63, 127, 255)] == [2, 7, 52, 2889]
    for n in (63, 127, 255):
        assert exponential(n + 1).actions == usual_count(n)


# ---------------------------------------------------------------------------------- values and features


@pytest.mark.parametrize("params", [SMALL, {"d": 6, "actions": 4, "horizon": 5}, {"d": 64, "actions": 6, "horizon": 3}])
@pytest.mark.parametrize("secret", [0, 3])
def test_the_closed_forms_are_what_backward_induction_finds(params, secret):
    mdp = exact(secret, **params)
    for h, rows in enumerate(backward(mdp)):
        for s, q in rows.items():
            assert mdp.value(s, h) == max(q)
            assert [mdp.action_value(s, a, h) for a in range(mdp.actions)] == q
            for a in range(mdp.actions):
                x, y = mdp.feature(s, a)
                assert Fraction(5, 9) * (x + y * Fraction(dot(mdp.signs, a, secret), mdp.entries)) == q[a]
                assert x * x + y * y <= 1


@pytest.mark.parametrize("params", [SMALL, {"d": 64, "actions": 6, "horizon": 4, "seed": 2}])
def test_what_can_be_reached_has_these_values(params):
    task = exponential(**params, noise=False)
    found = explore(task)
    for (h, s), _ in found.places.items():
        assert task.optimal_value(s, h) == pytest.approx(found.value(s, h), abs=1e-12)
        q = [found.action_value(s, a, h) for a in range(task.actions)]
        assert task.action_features(s, h) @ task.theta == pytest.approx(q, abs=1e-12)
        assert s == EXIT or task.mdp.secret not in s


def test_the_constants_are_those_of_the_construction():
    mdp = exact(**SMALL)
    H = mdp.horizon
    third = Fraction(2, 3)
    assert mdp.offset(H - 1) == third**H / 2
    for h in range(H - 1):
        assert mdp.offset(h) == mdp.offset(h + 1) + Fraction(5, 8) * third ** (h + 1)
    sigma, state = Fraction(1), (2, 0, 4)
    for a, b in ((2, 0), (0, 4), (4, 1)):
        sigma = Fraction(5, 8) + Fraction(3, 2) * sigma * Fraction(dot(mdp.signs, a, b), mdp.entries)
    assert mdp.scale(state, 1) == sigma
    again = exact(**SMALL)
    again.last_scale((2,))  # remembered or not
    again.last_scale((2, 0))
    assert again.scale(state, 1) == sigma


def test_rows_are_the_features_of_the_actions():
    task, mdp = exponential(**SMALL), exact(**SMALL)
    for s in [(), (1,), (3, 0), (4, 2, 1), EXIT]:
        rows = task.action_features(s, 3)
        for a in range(5):
            x, y = mdp.feature(s, a)
            assert rows[a] == pytest.approx([float(x), *(float(y) * mdp.signs[a] / np.sqrt(8))], abs=1e-15)
        assert not rows[list(s) if s != EXIT else range(5)].any()


def test_features_do_not_depend_on_the_secret():
    one, two = exponential(**SMALL, secret=1), exponential(**SMALL, secret=2)
    for s in [(), (1,), (2, 1), (0, 3)]:
        assert (one.action_features(s, len(s)) == two.action_features(s, len(s))).all()
    assert not np.array_equal(one.theta, two.theta)


def test_the_printed_stage_index_makes_rewards_negative():
    signs = np.ones((3, 8), dtype=np.int8)
    signs[1, 5:] = -1
    signs[2, [0, 1, 2, 7]] = -1
    assert [dot(signs, *pair) for pair in ((0, 1), (1, 2), (0, 2))] == [2, -2, 0]
    for cls, mean in ((ExponentialMDP, Fraction(1, 54)), (PrintedStages, Fraction(-1, 108))):
        mdp = cls(signs, 2, 2, number=Fraction)
        assert mdp.scale((0,), 1) == 1  # above 8/9
        assert mdp.mean_reward((0,), 1) == mean


def test_the_secret_is_better_by_a_quarter_at_the_root():
    for seed in range(5):
        mdp = exact(seed=seed, actions=30)
        q = [mdp.action_value((), a) for a in range(30)]
        assert mdp.value(()) == q[mdp.secret]
        assert sorted(q)[-1] - sorted(q)[-2] >= Fraction(1, 4)


# ------------------------------------------------------------------------------------------- the problem


@pytest.mark.parametrize("params", [{}, {"noise": False}, SMALL, {"d": 3, "horizon": 1}, {"d": 128, "horizon": 3}])
def test_the_contract(params):
    task = exponential(**params)
    assert check_problem(task, episodes=5) == 5 * task.horizon
    assert task.deterministic_transitions
    assert task.deterministic_rewards == (params.get("noise") is False)
    assert task.bound == BOUND == pytest.approx(np.linalg.norm(task.theta))
    assert task.phi_v is None
    assert task.dimension == params.get("d", 64)


def test_only_the_last_stage_is_noisy():
    task = exponential(**SMALL, secret=4)
    rng = np.random.default_rng(0)
    for s, a in [((), 0), ((), 4), ((0,), 0), ((4, 1), 2), ((0, 1, 2), 4), ((0, 1, 2), 1), (EXIT, 3)]:
        rewards, (following,), _ = task.mdp.step_batch(s, a, 50, rng)
        assert set(rewards.tolist()) == {float(task.mdp.mean_reward(s, a))}
        assert task.mdp.step(s, a, rng) == (rewards[0], following)
    assert task.mdp.step((), 0, rng) == (0.0, (0,))
    rewards, _, _ = task.mdp.step_batch((0, 1, 2), 3, 100_000, rng)
    assert set(rewards.tolist()) == {0.0, 1.0}
    mean = float(task.mdp.mean_reward((0, 1, 2), 3))
    assert abs(rewards.mean() - mean) < 5 * np.sqrt(mean / 100_000)  # five standard deviations


def test_without_noise_the_last_stage_gives_the_parameter():
    task = exponential(9, actions=8, horizon=3, noise=False, secret=7)
    mdp, rng = task.mdp, np.random.default_rng(0)
    pairs = [((a, b), c) for a, b, c in permutations(range(7), 3)]
    rows = np.array([task.action_features(s, 2)[c] for s, c in pairs])
    chosen = []
    for i in range(len(rows)):
        if np.linalg.matrix_rank(rows[[*chosen, i]]) > len(chosen):
            chosen.append(i)
    rewards = [mdp.step(*pairs[i], rng)[0] for i in chosen]
    theta = np.linalg.lstsq(rows[chosen], rewards, rcond=None)[0]
    assert len(chosen) <= task.dimension
    assert int(np.argmax(task.action_features((), 0) @ theta)) == 7


def test_global_access_lists_the_states():
    task = exponential(**SMALL)
    access = GlobalAccess(task, (), np.random.default_rng(0))
    assert [len(list(access.states(h))) for h in range(4)] == [1, 6, 21, 61]
    (outcome,) = access.query(access.node((task.mdp.secret,), 1), (task.mdp.secret + 1) % 5)
    assert outcome.next.key == EXIT
    assert outcome.reward > 0
    with pytest.raises(
        tp.Refused, match="stage 9 of this problem has 1,335,062,881,152,000 states, too many to enumerate"
    ):
        exponential(128).mdp.states(9)


def test_seeds_and_names():
    one, two = exponential(seed=5), exponential(seed=5)
    assert (one.mdp.signs == two.mdp.signs).all()
    assert one.mdp.secret == two.mdp.secret
    assert (one.mdp.signs != exponential(seed=6).mdp.signs).any()
    assert one.name == "exponential/64"
    assert tp.make("exponential/64:secret=3").mdp.secret == 3
    assert {exponential(seed=s).mdp.secret for s in range(40)} == set(range(7))
    assert [usual_horizon(k) for k in (2, 7, 8, 52)] == [2, 5, 6, 10]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: exponential(2), "d must be a whole number >= 3, got 2"),
        (lambda: exponential(64, actions=1), "actions must be a whole number from 2 to 50000, got 1"),
        (lambda: exponential(64, secret=7), "secret must be a whole number from 0 to 6, got 7"),
        (lambda: exponential(64, secret="a"), "secret must be a whole number from 0 to 6, got 'a'"),
        (lambda: exponential(64, horizon=0), "horizon must be a whole number >= 1, got 0"),
        (lambda: exponential(64, noise="no"), "noise must be true or false, got 'no'"),
        (lambda: exponential(64, seed=-1), "seed must be a whole number >= 0, got -1"),
        (
            lambda: exponential(4),
            "2 actions need as many sign vectors of 3 entries with |<u, v>| <= 1/4, and only 1 were found among 10,240 "
            "random ones: use fewer actions or a larger d",
        ),
        (
            lambda: exponential(1000),
            "vectors of 999 entries imply e^31.22 actions, more than 50,000: give actions",
        ),
        (lambda: forced_queries(1, 5), "k must be a whole number >= 2, got 1"),
        (lambda: forced_queries(5, 5, access="model"), "access must be one of local, global, got 'model'"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, sentence):
    with pytest.raises(tp.BadInput) as info:
        call()
    assert str(info.value) == sentence


# ---------------------------------------------------------------------------------------- the lower bound


@pytest.mark.parametrize("access", ["local", "global"])
@pytest.mark.parametrize(
    ("k", "H", "delta"), [(2, 1, 0.0), (7, 5, 9 / 128), (52, 10, 9 / 128), (52, 3, 0.1), (300, 15, 0)]
)
def test_the_bound_is_the_sum_of_the_proof(k, H, delta, access):
    fresh = 1 if access == "local" else H
    leak = Fraction(2, 3) ** H / 8
    terms = (1 - 4 * Fraction(delta) - Fraction(1 + fresh * n, k) - n * leak for n in range(10 * k))
    assert forced_queries(k, H, delta=delta, access=access) == pytest.approx(float(sum(max(0, t) for t in terms)))


def test_the_bound_is_void_where_anything_is_sound():
    assert forced_queries(100, 20, delta=0.25) == 0
    assert forced_queries(100, 20, delta=0.2499) < forced_queries(100, 20) < forced_queries(100, 20, delta=0)


def best_search(k, p):
    """The least expected queries of a search without leaks that plays the secret with probability p or more.

    Such a search tries new actions one by one, and stops after n of them, n random, with a guess.  By enumeration of n
    and of the place of the secret; the optimum of the linear program mixes two n.
    """
    success = [Fraction(sum(1 for place in range(k) if place <= n), k) for n in range(k)]
    cost = [Fraction(sum(min(place + 1, n) for place in range(k)), k) for n in range(k)]
    best = min((c for c, s in zip(cost, success, strict=True) if s >= p), default=None)
    for i in range(k):
        for j in range(i + 1, k):
            if success[i] < p <= success[j]:
                weight = (p - success[i]) / (success[j] - success[i])
                mixed = cost[i] + weight * (cost[j] - cost[i])
                best = mixed if best is None else min(best, mixed)
    return best


@pytest.mark.parametrize("k", [2, 3, 7, 20, 40])
def test_the_bound_is_below_the_best_search_and_not_far(k):
    for delta in (Fraction(0), Fraction(1, 50), Fraction(9, 128)):
        p = 1 - 4 * delta
        best = best_search(k, p)
        assert best == max(0, (p * k - 1) * Fraction(k + 2, 2 * k))
        bound = forced_queries(k, 200, delta=float(delta))
        assert p * float(best) - 1 <= bound <= best
    assert forced_queries(k, 200, delta=0) == pytest.approx((k - 1) / 2)
    assert best_search(k, 1) - Fraction(k - 1, 2) < 1


def chance_to_win(mdps, reached, beliefs, n, everywhere):
    """The best probability to name the secret after n queries, exactly: dynamic programming over all histories."""
    best = max(beliefs)
    if n == 0:
        return best
    for s in reached:
        for a in range(len(mdps)):
            answers = {}
            for w, mdp in enumerate(mdps):
                mean, following, noisy = mdp._outcome(s, a)
                for reward, chance in ((1, mean), (0, 1 - mean)) if noisy else ((mean, Fraction(1)),):
                    if beliefs[w] * chance:
                        answers.setdefault((reward, following), [Fraction(0)] * len(mdps))[w] += beliefs[w] * chance
            total = Fraction(0)
            for (_, following), joint in answers.items():
                mass = sum(joint)
                more = reached if everywhere or len(s) + 1 == mdps[0].horizon else reached | {following}
                total += mass * chance_to_win(mdps, more - {EXIT}, [x / mass for x in joint], n - 1, everywhere)
            best = max(best, total)
    return best


@pytest.mark.parametrize(("k", "H", "n"), [(3, 2, 2), (4, 2, 2), (3, 1, 2), (2, 2, 2), (3, 3, 2)])
def test_no_planner_beats_the_probabilities_of_the_proof(k, H, n):
    """P(A_0 = a*, N <= n) <= (1 + m n)/k + n τ, against the best adaptive planner; and the search attains (1 + n)/k."""
    signs, horizon, _ = draw(6, H, k, None, 1)
    mdps = [ExponentialMDP(signs, horizon, w, number=Fraction) for w in range(k)]
    leak = Fraction(2, 3) ** H / 8
    uniform = [Fraction(1, k)] * k
    states = frozenset(s for h in range(H) for s in permutations(range(k), h))
    for queries in range(n + 1):
        local = chance_to_win(mdps, frozenset({()}), uniform, queries, False)
        assert min(1, Fraction(1 + queries, k)) <= local <= Fraction(1 + queries, k) + queries * leak
        if queries < 2 or H < 3:
            anywhere = chance_to_win(mdps, states, uniform, queries, True)
            assert local <= anywhere <= Fraction(1 + H * queries, k) + queries * leak


def test_the_last_stage_does_tell_a_little():
    signs, _, _ = draw(6, 2, 4, None, 1)
    mdps = [ExponentialMDP(signs, 2, w, number=Fraction) for w in range(4)]
    win = chance_to_win(mdps, frozenset({()}), [Fraction(1, 4)] * 4, 2, False)
    assert Fraction(3, 4) < win < Fraction(3, 4) + 2 * Fraction(2, 3) ** 2 / 8


def test_a_query_anywhere_can_ask_about_many_actions():
    signs, _, _ = draw(9, 2, 5, None, 0)
    mdps = [ExponentialMDP(signs, 2, w, number=Fraction) for w in range(5)]
    uniform, states = [Fraction(1, 5)] * 5, frozenset([(), *((a,) for a in range(5))])
    assert chance_to_win(mdps, frozenset({()}), uniform, 1, False) == Fraction(2, 5)
    assert chance_to_win(mdps, states, uniform, 1, True) > Fraction(2, 5)


def test_the_horizon_makes_the_last_stage_say_less_than_the_root():
    for k in (7, 52, 2889):
        H = usual_horizon(k)
        assert forced_queries(k, H) > 0.85 * forced_queries(k, 10 * H)
