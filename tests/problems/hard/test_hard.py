"""The hard MDPs against their rules for sequences of actions, written again here, and against backward induction."""

from __future__ import annotations

import functools
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hard_exact import broken_claims, secrets

import tensorplan as tp
from tensorplan.core import END, Enumerable, Vectorised
from tensorplan.core.errors import BadInput
from tensorplan.problems.hard.hypercube import decay, to_signs
from tensorplan.problems.hard.mdp import HardMDP, shape_for
from tensorplan.problems.hard.tree import HardState, HardTree
from tensorplan.testing import check_problem

RNG = np.random.default_rng(0)


# ------------------------------------------------------------------------------ the rules, written again


class Sequences:
    """The MDP whose states are sequences of actions, as in the paper, in exact arithmetic."""

    def __init__(self, p, K, secret, kind):
        self.p, self.K, self.kind = p, K, kind
        self.secret = to_signs(secret, p).astype(int).tolist()
        self.optimal = functools.cache(self._optimal)

    def read(self, actions):
        """w_0 .. w_k, the current weights, the fixed components; None where an action was illegal."""
        rounds, weights, used, frozen = [[1] * self.p], [1] * self.p, set(), False
        for t, a in enumerate(actions):
            if not frozen and a in used:
                if t % self.p < self.p / 4:
                    return None
                frozen = True
            if not frozen:
                weights[a] = -weights[a]
                used.add(a)
            if t % self.p == self.p - 1:
                rounds.append(list(weights))
                used, frozen = set(), False
        return rounds, weights, set(range(self.p)) if frozen else used

    def g(self, u, v):
        return decay(sum(x != y for x, y in zip(u, v, strict=True)), self.p)

    def close(self, weights):
        return sum(x != y for x, y in zip(weights, self.secret, strict=True)) < self.p / 4

    def f(self, rounds):
        return math.prod(self.g(u, v) for u, v in itertools.pairwise([*rounds, self.secret]))

    def pays(self, actions):
        """v', in the words of the paper: play on towards the secret with the components that are not fixed."""
        read = self.read(actions)
        if read is None:
            return Fraction(0)
        rounds, weights, fixed = read
        return self.f([*rounds, [weights[j] if j in fixed else self.secret[j] for j in range(self.p)]])

    def unreachable(self, actions):
        return len(actions) >= self.p and self.close(self.read(actions)[0][-1])

    def step(self, actions, a):
        """The mean reward and the next sequence."""
        longer = (*actions, a)
        read = self.read(longer)
        if self.unreachable(actions):
            return self.pays(actions if self.kind == "v" else longer), END
        if read is None:
            return Fraction(0), END
        if len(longer) % self.p == 0 and (self.close(read[0][-1]) or len(longer) == self.K * self.p):
            return self.f(read[0]), END
        return Fraction(0), longer

    def _optimal(self, actions):
        """q*(actions, .)."""
        steps = [self.step(actions, a) for a in range(self.p)]
        return [mean + (0 if longer is END else max(self.optimal(longer))) for mean, longer in steps]

    def states(self):
        for length in range(self.K * self.p):
            for actions in itertools.product(range(self.p), repeat=length):
                if self.read(actions) is not None:
                    yield actions


CASES = [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1), (5, 1)]


@pytest.mark.parametrize("kind", ["v", "q"])
@pytest.mark.parametrize(("p", "K"), CASES)
def test_compact_states_are_sequences_of_actions(p, K, kind):
    for secret in secrets(p)[:4]:
        mdp, reference = HardMDP(p, K, secret, kind, number=Fraction), Sequences(p, K, secret, kind)
        seen = [set() for _ in range(mdp.horizon)]
        unreachable = 0
        for actions in reference.states():
            s = functools.reduce(mdp.successor, actions, mdp.root)
            rounds, weights, fixed = reference.read(actions)
            seen[len(actions)].add(s)
            assert (s.round, s.step) == divmod(len(actions), p)
            assert to_signs(s.last, p).tolist() == rounds[-1]
            assert to_signs(s.weights, p).tolist() == weights
            assert {j for j in range(p) if s.fixed >> j & 1} == fixed
            assert s.prefix == math.prod(reference.g(u, v) for u, v in itertools.pairwise(rounds))
            assert s.frozen == (len(set(actions[s.round * p :])) < s.step)
            assert s.flips == sum(x != y for x, y in zip(rounds[-1], weights, strict=True))
            assert mdp.reachable(s) != reference.unreachable(actions)
            unreachable += not mdp.reachable(s)
            assert mdp.value(s) == max(reference.optimal(actions))
            for a in range(p):
                mean, longer = reference.step(actions, a)
                assert mdp.illegal(s, a) == (reference.read((*actions, a)) is None)
                assert mdp.mean_reward(s, a) == mean
                assert mdp.next_state(s, a) == (END if longer is END else mdp.successor(s, a))
                assert mdp.action_value(s, a) == reference.optimal(actions)[a]
        assert [set(mdp.states(h)) for h in range(mdp.horizon)] == seen
        assert [len(mdp.states(h)) for h in range(mdp.horizon)] == [len(states) for states in seen]
        assert (unreachable > 0) == (K > 1)


@pytest.mark.parametrize("kind", ["v", "q"])
@pytest.mark.parametrize(("p", "K"), CASES)
def test_every_claim_holds_exactly_at_every_state(p, K, kind):
    for secret in secrets(p)[:: 1 if p < 5 else 7]:
        assert broken_claims(HardMDP(p, K, secret, kind, number=Fraction)) == set()


@pytest.mark.slow
@pytest.mark.parametrize(("p", "K", "kind"), [(4, 2, "v"), (4, 2, "q"), (5, 2, "q")])
def test_every_claim_holds_exactly_in_larger_trees(p, K, kind):
    assert broken_claims(HardMDP(p, K, kind=kind, number=Fraction)) == set()


def test_both_maps_hold_at_reachable_states_only():
    # the reach class: at unreachable states of M^v, φ_q is wrong, and max_a <φ_q, θ*> differs from <φ_v, θ*>
    mdp = HardMDP(4, 2, 0b0011, "v", number=Fraction)
    states = [s for layer in mdp.layers() for s in layer]
    gaps = {s: max(mdp.q_prime(s, a) for a in range(4)) - mdp.v_prime(s) for s in states}
    assert not any(gap for s, gap in gaps.items() if mdp.reachable(s))
    wrong = {s: abs(gap) / s.prefix for s, gap in gaps.items() if gap}
    assert set(wrong.values()) == {Fraction(7, 16)}  # 1 - g(1)²
    assert {(s.last, s.step) for s in wrong} == {(mdp.secret, 0)}


# ------------------------------------------------------------------------------------------- the simulator


def random_state(mdp, rng):
    """A legal state at a random stage, often unreachable."""
    s = mdp.root
    for _ in range(rng.integers(mdp.horizon)):
        a = mdp.policy(s) if rng.random() < 0.6 else int(rng.integers(mdp.p))
        s = s if mdp.illegal(s, a) else mdp.successor(s, a)
    return s if s.round < mdp.K else mdp.root


@pytest.mark.parametrize("kind", ["v", "q"])
@pytest.mark.parametrize("p", [2, 5, 16, 128])
def test_steps_follow_the_mean_rewards(p, kind):
    mdp, rng, chance = HardMDP(p, 3, kind=kind), np.random.default_rng(p), 0
    assert isinstance(mdp, Vectorised)
    assert isinstance(mdp, Enumerable)
    for _ in range(300):
        s, a = random_state(mdp, rng), int(rng.integers(p))
        mean, following = mdp.mean_reward(s, a), mdp.next_state(s, a)
        rewards, successors, which = mdp.step_batch(s, a, 50, rng)
        reward, where = mdp.step(s, a, rng)
        assert type(reward) is float
        assert where == following
        assert [successors[i] for i in which] == [following] * 50
        if set(rewards.tolist()) | {reward} == {mean}:
            continue
        assert set(rewards.tolist()) | {reward} <= {0.0, 1.0}  # cases 2 and 3
        assert following is END
        assert mdp.reachable(s)
        assert s.step == p - 1
        assert abs(rewards.sum() - 50 * mean) < 30  # Hoeffding: 2e-16 each
        chance += 1
    assert chance > 0


def test_means_are_paid_without_noise():
    mdp = HardMDP(4, 2, noise=False, seed=3)
    assert mdp.deterministic_rewards
    s = mdp.root
    for _ in range(4):
        reward, s = mdp.step(s, mdp.policy(s), RNG)
    assert s is END
    assert reward == mdp.value(mdp.root) > 0


@pytest.mark.parametrize("kind", ["v", "q"])
def test_the_policy_of_a_large_one_gets_the_optimal_value(kind):
    mdp = HardMDP(128, 128, kind=kind, noise=False, seed=1)
    s, rng = mdp.root, np.random.default_rng(1)
    for _ in range(40):  # a few steps astray first
        a = int(rng.integers(128))
        s = s if mdp.illegal(s, a) else mdp.successor(s, a)
    optimum, reward = mdp.value(s), 0.0
    while s is not END:
        assert mdp.value(s) == pytest.approx(optimum, rel=1e-12)
        reward, s = mdp.step(s, mdp.policy(s), rng)
    assert reward == pytest.approx(optimum, rel=1e-12)


# --------------------------------------------------------------------------------------------- the problem


@pytest.mark.parametrize("noise", [True, False])
@pytest.mark.parametrize("kind", ["v", "q", "vq"])
@pytest.mark.parametrize("features", ["paper", "reduced", "structured"])
def test_problems_keep_the_contract(features, kind, noise):
    for p, K in [(2, 3), (3, 2), (5, 2), (6, 1)]:
        task = tp.make("hard", p=p, K=K, kind=kind, features=features, noise=noise, seed=p)
        assert check_problem(task, episodes=5) >= 5
        assert (task.actions, task.horizon, task.name) == (p, K * p, f"hard/{p}x{K}")
        assert (task.phi_v is not None, task.phi_q is not None) == ("v" in kind, "q" in kind)
        assert (task.deterministic_transitions, task.deterministic_rewards) == (True, not noise)
        assert task.mdp.kind == kind[0]


@pytest.mark.parametrize("kind", ["v", "q"])
@pytest.mark.parametrize("features", ["paper", "reduced", "structured"])
def test_problems_realize_the_values_of_unreachable_states_too(features, kind):
    task = tp.make("hard", p=5, K=2, kind=kind, features=features, seed=1)
    access = tp.GlobalAccess(task, task.mdp.root, RNG)
    lost = [node for stage in (5, 7) for node in access.states(stage) if not task.mdp.reachable(node.key)]
    assert len(lost) > 50
    for node in lost[::7]:
        v = task.optimal_value(node.key, node.stage)
        q = [task.optimal_action_value(node.key, a, node.stage) for a in range(5)]
        assert v == pytest.approx(max(q))
        assert q[task.optimal_policy(node.key, node.stage)] == q[task.mdp.policy(node.key)] == max(q)
        realized = node.phi_v @ task.theta if kind == "v" else node.phi_q @ task.theta
        assert realized == pytest.approx(v if kind == "v" else q, abs=1e-12)


def test_the_paper_s_scale_and_padding():
    task = tp.make("hard", p=2, K=9, features="paper", scale=63, d=40)
    assert task.dimension == 40
    assert np.linalg.norm(task.theta) == pytest.approx(task.bound) == pytest.approx(63 * math.sqrt(5))
    assert task.bound <= 315
    assert check_problem(task) >= 20
    assert tp.make("hard/2x9:features=paper").bound == pytest.approx(math.sqrt(5))
    assert tp.make("hard/4x9").bound == 4.0


def test_secrets_are_given_or_drawn():
    given = tp.make("hard", p=4, K=9, secret=[1, -1, -1, 1])
    assert given.mdp.secret == tp.make("hard/4x9:secret=6").mdp.secret == 0b0110
    drawn = [tp.make("hard", p=16, K=2, seed=seed).mdp.secret for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_problem_too_large_to_write_out_can_be_played():
    task = tp.make("hard", p=128, K=128, features="structured", secret=(1 << 64) - 1)
    assert (task.dimension, task.horizon, task.theta) == (270_549_121, 128 * 128, None)
    for planner in (tp.RandomPlanner(), tp.UCT(simulations=5), tp.Oracle()):
        (episode,) = tp.run(task, planner).episodes
        assert episode.complete
    state = task.mdp.root
    assert task.mdp.features(state).value(task.mdp.secret) == pytest.approx(task.optimal_value(state))
    with pytest.raises(tp.BadInput, match="have d = 270,549,121 entries, too many to store"):
        tp.run(task, tp.TensorPlan(delta=0.1))


def test_states_are_plain_values():
    mdp = HardMDP(5, 2)
    s = mdp.successor(mdp.root, 3)
    assert s == HardState(0, 1, 0, 0b1000, 0b1000, 1.0)
    assert pickle.loads(pickle.dumps(s)) == s
    assert hash(s) == hash(HardTree(5, 2).successor(mdp.root, 3))


# ------------------------------------------------------------------------------------ from d and H, bad input


@pytest.mark.parametrize(
    ("d", "H", "shape"),
    [(31, 81, (2, 40)), (120, 81, (2, 40)), (121, 81, (3, 27)), (341, 100, (4, 25)), (10**6, 81, (9, 9))],
)
def test_the_shape_for_a_dimension_and_a_horizon(d, H, shape):
    assert shape_for(d, H) == shape
    p, K = shape
    assert 1 + p + p**2 + p**3 + p**4 <= d
    assert K * p <= H
    assert K >= 9


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: shape_for(30, 81), "d must be a whole number >= 31, got 30"),
        (lambda: shape_for(31, 80), "H must be a whole number >= 81, got 80"),
        (lambda: tp.make("hard/1x3"), "p must be a whole number >= 2, got 1"),
        (lambda: tp.make("hard/2x0"), "K must be a whole number >= 1, got 0"),
        (lambda: tp.make("hard", p=2), "'hard' needs the parameter 'K'"),
        (lambda: tp.make("hard/4x2:kind=w"), "kind must be one of v, q, vq, got 'w'"),
        (lambda: HardMDP(4, 2, kind="vq"), "kind must be one of v, q, got 'vq'"),
        (lambda: tp.make("hard/4x2:features=dense"), "features must be one of paper, reduced, structured, got 'dense'"),
        (
            lambda: tp.make("hard", p=4, K=2, secret=[1, 1, 1, 1]),
            "the secret must have between p/4 = 1 and 3p/4 = 3 components -1, got 0",
        ),
        (lambda: tp.make("hard", p=4, K=2, secret=[1, -1]), "the secret must have p = 4 components, got 2"),
        (lambda: tp.make("hard/4x2:scale=0.5:features=paper"), "scale must be a number >= 1, got 0.5"),
        (lambda: tp.make("hard/4x2:scale=63"), "scale and d are for features='paper', got features='reduced'"),
        (lambda: tp.make("hard/4x2:d=340:features=paper"), "d must be a whole number >= 341, got 340"),
        (lambda: tp.make("hard/4x2:noise=maybe"), "noise must be true or false, got 'maybe'"),
        (
            lambda: tp.make("hard/46x2:features=paper"),
            "features='paper' have 4,576,955 entries for p = 46, too many to store; use features='structured'",
        ),
        (
            lambda: tp.make("hard/128x2"),
            "features='reduced' have 11,017,633 entries for p = 128, too many to store; use features='structured'",
        ),
        (lambda: HardMDP(2, 3).states(6), "stage must be a whole number from 0 to 5, got 6"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, sentence):
    with pytest.raises(BadInput) as info:
        call()
    assert str(info.value) == sentence
