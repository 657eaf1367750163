"""Verification passes the hard MDPs, and names what each of the paper's printed errors breaks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from printed_errors import Eight, Eleven, Five, Nine, Seven, Six, Ten, Thirteen, Twelve

from tensorplan.core.errors import BadInput
from tensorplan.paper.verify import hard as module
from tensorplan.paper.verify.families import Check, Verification, verify
from tensorplan.paper.verify.hard import (
    BELLMAN,
    BLIND,
    CLAIMS,
    FAR,
    FORMS,
    FORMULAS,
    LOST,
    NORMS,
    PHI_Q,
    PHI_V,
    POLICY,
    REACH,
    REWARDS,
    verify_hard,
)
from tensorplan.problems.hard.features import HardFeature
from tensorplan.problems.hard.mdp import HardMDP

EXHAUSTIVE = "exhaustive, exact fractions"


@pytest.mark.parametrize(
    ("spec", "states", "secrets"), [("2x3", 27, 1), ("3x2", 80, 2), ("4x2", 464, 3), ("5x1", 61, 2)]
)
def test_small_trees_pass_exhaustively(spec, states, secrets):
    seen = []
    found = verify(f"hard/{spec}", progress=lambda done, total: seen.append((done, total)))
    assert found.passed, str(found)
    assert (found.name, found.method, found.states, found.secrets) == (f"hard/{spec}", EXHAUSTIVE, states, secrets)
    assert [check.name for check in found.checks] == list(CLAIMS)
    total = 2 * states * secrets
    assert seen == [(i + 1, total) for i in range(total)]
    exact = {
        check.name: check.worst for check in found.checks if check.name in (PHI_V, PHI_Q, REACH, BELLMAN, FORMULAS)
    }
    assert set(exact.values()) == {0.0}
    assert 0.6 < next(check.worst for check in found.checks if check.name == NORMS) < 0.69


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "states"), [("64x70", 60), ("16x3", 100), ("9x2", 100), ("40x1", 40)])
def test_large_ones_pass_on_samples(spec, states, monkeypatch):
    monkeypatch.setattr(module, "CLASSES", 1000)
    found = verify(f"hard/{spec}", seed=1, states=states)
    assert found.passed, str(found)
    assert (found.method, found.states, found.secrets) == ("sampled", states, 1)
    assert [check.name for check in found.checks] == list(CLAIMS)


def test_samples_are_of_all_kinds():
    mdp = HardMDP(16, 3, number=Fraction)
    found = module._sample(mdp, 300, np.random.default_rng(0))
    assert len(set(found)) == 300
    sorts = {(mdp.reachable(s), s.frozen, s.round) for s in found}
    assert sorts == {(r, f, k) for r in (True, False) for f in (True, False) for k in range(3) if r or k}
    assert {s.step for s in found} == set(range(16))
    assert any(mdp.illegal(s, a) for s in found for a in range(16))
    assert any(s.last == mdp.secret for s in found)
    assert any(mdp.close(s.last) and s.last != mdp.secret for s in found)


def test_samples_stop_where_there_are_no_more_states():
    found = verify_hard(HardMDP, 2, 1, states=50, exhaustive=0)
    assert (found.method, found.states, found.passed) == ("sampled", 3, True)


def test_classes_of_states_have_the_values_of_their_states():
    mdp = HardMDP(5, 2, kind="q", number=Fraction)
    layers = list(mdp.layers())
    q, solve = module._backward_induction(mdp, layers), module._Classes(mdp)
    assert all(solve(s) == max(q[s]) for layer in layers for s in layer[::3])
    assert len(solve.values) < len(q) / 3


# ------------------------------------------------------------- errors: those that were printed, and some others


class Generous(HardMDP):
    """Rewards twice as large."""

    def _outcome(self, state, action):
        mean, following, chance = super()._outcome(state, action)
        return 2 * mean, following, chance


class Endless(HardMDP):
    """The episode goes on where the secret was found."""

    def _outcome(self, state, action):
        mean, following, chance = super()._outcome(state, action)
        on = self.successor(state, action)
        if chance and on.round < self.K:
            return self.number(0), on, False
        return mean, following, chance


class Long(HardFeature):
    """Twice as long as it may be, in its inner products."""

    def dot(self, other):
        return 4 * super().dot(other)


class LongFeatures(HardMDP):
    """Features whose norms are wrong."""

    def features(self, state):
        f = super().features(state)
        return Long(f.p, f.prefix, f.flips, f.weights, f.fixed)


BROKEN = [
    (Five, 4, 1, {PHI_V, PHI_Q, REACH, FORMS}),
    (Six, 4, 1, {PHI_Q, REACH}),
    (Seven, 3, 2, {PHI_Q, REACH}),
    (Eight, 3, 2, {PHI_Q, REACH}),
    (Nine, 3, 2, {PHI_Q, REACH, BLIND}),
    (Ten, 4, 1, {FAR}),
    (Eleven, 5, 1, {PHI_Q, REACH, FAR}),
    (Thirteen, 3, 2, {POLICY}),
    (Generous, 3, 1, {PHI_V, PHI_Q, REACH, REWARDS, BELLMAN, FORMULAS}),
    (Endless, 3, 2, {LOST}),
    (LongFeatures, 3, 1, {NORMS, FORMS}),
]


WIDE = {Ten, Generous, Endless}
"""What these break breaks most other claims too."""


@pytest.mark.parametrize(("cls", "p", "K", "claims"), BROKEN, ids=lambda x: getattr(x, "__name__", ""))
def test_errors_are_caught_exhaustively(cls, p, K, claims):
    found = verify_hard(cls, p, K)
    assert found.method == EXHAUSTIVE
    assert set(found.failed) >= claims
    assert set(found.failed) == claims or cls in WIDE


@pytest.mark.parametrize(("cls", "p", "K", "claims"), BROKEN, ids=lambda x: getattr(x, "__name__", ""))
def test_errors_are_caught_on_samples(cls, p, K, claims, monkeypatch):
    monkeypatch.setattr(module, "CLASSES", 1000)
    size = (4, 2) if cls in (Five, Six) else (12, 2)  # normalised weights are rational for p = 4
    found = verify_hard(cls, *size, states=100, exhaustive=0)
    assert found.method == "sampled"
    # no walk takes an illegal action
    expected = claims - {FAR} if cls is Eleven else claims
    assert set(found.failed) >= expected
    assert set(found.failed) == expected or cls in WIDE


def test_the_printed_policy_is_caught_near_the_secret():
    found = verify_hard(Twelve, 5, 2, states=200, exhaustive=0)
    assert found.failed == (POLICY,)


def test_what_was_not_looked_at_has_not_passed():
    found = verify("hard/33x2", states=1)
    assert set(found.failed) == {FAR, FORMULAS}
    check = next(check for check in found.checks if check.name == FAR)
    assert check.detail == "no checked state is relevant: sample more of them"
    huge = verify("hard/104x1", states=1)
    assert [check.name for check in huge.checks] == [claim for claim in CLAIMS if claim != FORMS]


def test_a_failure_says_where():
    found = verify_hard(Thirteen, 3, 1, secret=0b011)
    check = next(check for check in found.checks if not check.passed)
    assert check.name == POLICY
    assert check.worst == float("inf")
    assert check.detail.startswith("fails in ")
    assert " cases, first in M^v with the secret 011 in round 0 at step 2: weights " in check.detail
    assert str(found) == f"hard/3x1: NOT verified ({POLICY}), {EXHAUSTIVE}, {found.states} states, 2 secrets"


# ---------------------------------------------------------------------------------------------------- input


def test_the_name_of_the_problem_gives_the_parameters():
    found = verify("hard:p=2:K=1:secret=1", seed=3)
    assert found == verify("hard/2x1:secret=1") == verify_hard(HardMDP, 2, 1, secret=1)
    assert str(found) == f"hard/2x1: verified, {EXHAUSTIVE}, 3 states, 1 secret"
    assert isinstance(found, Verification)
    assert all(isinstance(check, Check) for check in found.checks)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: verify("hrad/2x3"), "unknown problem 'hrad'; did you mean 'hard'?"),
        (lambda: verify("hard/2"), "'hard/2': expected pxK behind the slash, as in 'hard/2x3'"),
        (lambda: verify("hard/1x3"), "p must be a whole number >= 2, got 1"),
        (lambda: verify("hard/2x3", states=0), "states must be a whole number >= 1, got 0"),
        (lambda: verify("hard/2x3", seed=-1), "seed must be a whole number >= 0, got -1"),
        (lambda: verify("hard/2x3:kind=v"), "'verify hard' has no parameter 'kind'; there are: K, p, secret, seed"),
        (lambda: verify("hard"), "'verify hard' needs the parameter 'p'"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, sentence):
    with pytest.raises(BadInput) as info:
        call()
    assert str(info.value) == sentence
