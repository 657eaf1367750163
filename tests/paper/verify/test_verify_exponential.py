"""Verification passes the two families of secret actions, and names what an error breaks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from printed_errors import PrintedStages

from tensorplan.core.errors import BadInput
from tensorplan.paper.verify import constant_gap as gap
from tensorplan.paper.verify import exponential as exp
from tensorplan.paper.verify.families import VERIFIERS, verify
from tensorplan.problems.hard.constant_gap import FALLEN, ConstantGapMDP
from tensorplan.problems.hard.exponential import EXIT, ExponentialMDP

EXHAUSTIVE = "exhaustive, exact fractions"
TINY = {"d": 9, "actions": 5, "horizon": 3, "seed": 1}


@pytest.mark.parametrize(
    ("spec", "states", "secrets"), [("18:actions=5:horizon=3", 28, 5), ("9:actions=3:horizon=5", 20, 3)]
)
def test_small_trees_pass_exhaustively(spec, states, secrets):
    seen = []
    found = verify(f"exponential/{spec}", progress=lambda done, total: seen.append((done, total)))
    assert found.passed, str(found)
    assert (found.method, found.states, found.secrets) == (EXHAUSTIVE, states, secrets)
    assert found.name == f"exponential/{spec.split(':')[0]}"
    assert [check.name for check in found.checks] == list(exp.CLAIMS)
    assert seen == [(i + 1, states * secrets) for i in range(states * secrets)]
    worst = {check.name: check.worst for check in found.checks}
    assert {worst[c] for c in (exp.PHI_Q, exp.POLICY, exp.BELLMAN, exp.FORMULAS, exp.GAP)} == {0.0}
    assert worst[exp.NEAR] <= 0.25
    assert worst[exp.NORMS] <= 1


@pytest.mark.parametrize(("spec", "states"), [("64", 40), ("128", 30), ("256", 30)])
def test_large_ones_pass_on_samples(spec, states):
    found = exp.verify_exponential(ExponentialMDP, int(spec), seed=1, states=states, exhaustive=0)
    assert found.passed, str(found)
    assert (found.method, found.states, found.secrets) == ("sampled", states, 1)
    assert [check.name for check in found.checks] == [c for c in exp.CLAIMS if c != exp.FORMULAS]
    detail = next(check.detail for check in found.checks if check.name == exp.PHI_Q)
    assert ("32 of the" in detail) == (spec != "64")


def test_samples_are_of_all_kinds():
    signs, H, w = exp.draw(64, 5, 20, None, 0)
    mdp = ExponentialMDP(signs, H, w, number=Fraction)
    layers = exp._sample(mdp, 200, np.random.default_rng(0))
    assert sum(map(len, layers)) == 200
    assert layers[0] == [()]
    assert EXIT in layers[-1]
    assert all(len(s) == h and len(set(s)) == h for h, layer in enumerate(layers) for s in layer if s != EXIT)
    assert {w in s for s in layers[3]} == {True, False}
    few = exp.verify_exponential(ExponentialMDP, 9, actions=2, horizon=2, states=50, exhaustive=0)
    assert (few.passed, few.states) == (True, 4)


def test_the_gap_is_that_of_all_actions():
    signs, _, w = exp.draw(128, 3, 200, None, 0)
    found = exp.verify_exponential(ExponentialMDP, 128, actions=200, horizon=3, states=5)
    closest = max(int(signs[a].astype(int) @ signs[w]) for a in range(200) if a != w)
    detail = next(check.detail for check in found.checks if check.name == exp.GAP)
    assert detail == f"1 case, the smallest is {(1 - closest / 127) / 3:.4g}"


def test_the_smallest_of_all():
    found = verify("exponential/3:horizon=1")
    assert found.passed, str(found)
    assert [check.name for check in found.checks] == [c for c in exp.CLAIMS if c != exp.SILENT]


# ------------------------------------------------------------------------------------------------------ errors


class Longer(ExponentialMDP):
    """Features that are a little too long below the root."""

    def feature(self, state, action):
        x, y = super().feature(state, action)
        return (x, y + self.number(1) / 100) if state and state != EXIT and action not in state else (x, y)


class Knowing(ExponentialMDP):
    """The feature of the secret is in the first entry, where it realizes the same."""

    def feature(self, state, action):
        x, y = super().feature(state, action)
        return (x + y, self.number(0)) if action == self.secret else (x, y)


class Talkative(ExponentialMDP):
    """At the root, the action before the secret pays a little."""

    def _outcome(self, state, action):
        mean, following, chance = super()._outcome(state, action)
        hint = state == () and (action + 1) % self.actions == self.secret
        return mean + (self.number(1) / 1000 if hint else 0), following, chance


class Short(ExponentialMDP):
    """All actions lead to the exit lane in stage 1."""

    def _outcome(self, state, action):
        mean, following, chance = super()._outcome(state, action)
        return mean, EXIT if len(state) == 1 else following, chance


class Tempting(ExponentialMDP):
    """What was taken can be taken again."""

    def _outcome(self, state, action):
        if state not in (EXIT, ()) and action == state[-1] != self.secret:
            return self.number(1), EXIT, False
        return super()._outcome(state, action)


class Rounded(ExponentialMDP):
    """Features written with three digits."""

    def phi_q(self, state, stage):
        return np.round(super().phi_q(state, stage), 3)


class Doubled(ExponentialMDP):
    """θ* twice as long."""

    @property
    def theta(self):
        return 2 * super().theta


BROKEN = [
    (PrintedStages, {exp.NORMS, exp.REWARDS, exp.SILENT}),
    (Longer, {exp.PHI_Q, exp.FORMS}),
    (Knowing, {exp.BLIND, exp.NORMS, exp.FORMS}),
    (Talkative, {exp.PHI_Q, exp.SILENT, exp.BELLMAN, exp.FORMULAS, exp.GAP}),
    (Short, {exp.PHI_Q, exp.BELLMAN, exp.FORMULAS}),
    (Tempting, {exp.PHI_Q, exp.POLICY, exp.SILENT, exp.BELLMAN, exp.FORMULAS, exp.GAP}),
    (Rounded, {exp.FORMS}),
    (Doubled, {exp.THETA, exp.FORMS}),
]


@pytest.mark.parametrize(("cls", "claims"), BROKEN, ids=lambda x: getattr(x, "__name__", ""))
def test_errors_are_caught(cls, claims):
    found = exp.verify_exponential(cls, **TINY)
    assert found.method == EXHAUSTIVE
    assert set(found.failed) == claims


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "claims"), BROKEN, ids=lambda x: getattr(x, "__name__", ""))
def test_errors_are_caught_on_samples(cls, claims):
    found = exp.verify_exponential(cls, 64, actions=30, horizon=5, states=60, exhaustive=0)
    assert found.method == "sampled"
    assert set(found.failed) == claims - {exp.FORMULAS, exp.GAP}  # the gap of this instance is larger


@pytest.mark.parametrize("module", [exp, gap])
def test_vectors_that_are_too_close_are_caught(module, monkeypatch):
    signs = np.ones((3, 8), dtype=np.int8)
    signs[1, 6:] = -1
    signs[2, :4] = -1
    monkeypatch.setattr(module, "draw", lambda *_: (signs, 2, 2))
    found = exp.verify_exponential(ExponentialMDP, 9) if module is exp else gap.verify_constant_gap(ConstantGapMDP, 9)
    check = next(check for check in found.checks if check.name == module.NEAR)
    assert not check.passed
    assert check.worst == 0.5
    assert check.detail == "fails in 1 of 1 case, first among 3 vectors of 8 entries"


def test_a_failure_says_where():
    found = exp.verify_exponential(Longer, 9, actions=3, horizon=2, secret=1)
    check = next(check for check in found.checks if not check.passed)
    assert check.name == exp.PHI_Q
    assert "first with the secret 1 in stage 1 at (0,)" in check.detail
    assert str(found).startswith(f"exponential/9: NOT verified ({exp.PHI_Q}")


# -------------------------------------------------------------------------------------------------- constant gap


@pytest.mark.parametrize(("spec", "states"), [("64", 63), ("9:actions=5:horizon=3", 17), ("9:actions=2:horizon=1", 2)])
def test_small_gaps_pass_exhaustively(spec, states):
    seen = []
    found = verify(f"constant-gap/{spec}", progress=lambda done, total: seen.append((done, total)))
    assert found.passed, str(found)
    assert (found.method, found.states, found.secrets) == (EXHAUSTIVE, states, 1)
    assert [check.name for check in found.checks] == list(gap.CLAIMS)
    assert seen == [(i + 1, states) for i in range(states)]


@pytest.mark.parametrize(("d", "states"), [(64, 40), (192, 60)])
def test_large_gaps_pass_on_samples(d, states):
    found = gap.verify_constant_gap(ConstantGapMDP, d, states=states, exhaustive=0)
    assert found.passed, str(found)
    assert (found.method, found.states) == ("sampled", states)
    assert [check.name for check in found.checks] == [c for c in gap.CLAIMS if c != gap.FORMULAS]


class Unshifted(ConstantGapMDP):
    """Other rewards before the last stage: -γ p for -2γ p."""

    def reward(self, state, action):
        reward = super().reward(state, action)
        return reward / 2 if state != FALLEN and state[0] < self.horizon - 1 and reward < 0 else reward


class Indifferent(ConstantGapMDP):
    """No penalty at f."""

    def reward(self, state, action):
        return self.number(0) if state == FALLEN else super().reward(state, action)

    def action_value(self, state, action, stage=0):
        return self.number(0) if state == FALLEN else super().action_value(state, action)

    def feature(self, state, action):
        return (self.number(0), self.number(0)) if state == FALLEN else super().feature(state, action)


class Reaching(ConstantGapMDP):
    """The secret leads on as other actions do."""

    def chance(self, state, action):
        if state == FALLEN or action == state[1] or state[0] == self.horizon - 1:
            return self.number(0)
        return self.weight(state[1], action)


class Telling(ConstantGapMDP):
    """The feature of the secret is in the last entry, where it realizes the same."""

    def feature(self, state, action):
        x, y = super().feature(state, action)
        return (self.number(0), x) if state != FALLEN and action == self.secret else (x, y)


@pytest.mark.parametrize(
    ("cls", "claims"),
    [
        (Unshifted, {gap.PHI_Q, gap.BELLMAN}),
        (Indifferent, {gap.GAP}),
        (Reaching, {gap.LOST}),
        (Telling, {gap.BLIND}),
    ],
)
def test_errors_of_the_gap_are_caught(cls, claims):
    found = gap.verify_constant_gap(cls, 9, actions=5, horizon=4)
    assert set(found.failed) >= claims
    sampled = gap.verify_constant_gap(cls, 64, actions=40, horizon=4, states=60, exhaustive=0)
    assert set(sampled.failed) >= claims


# ----------------------------------------------------------------------------------------------------------- input


def test_the_registry():
    assert list(VERIFIERS) == ["hard", "exponential", "constant-gap"]
    small = verify("exponential:d=9:actions=3:horizon=2:secret=1", seed=4)
    assert small == exp.verify_exponential(ExponentialMDP, 9, actions=3, horizon=2, secret=1, seed=4)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: verify("hanoi/3"),
            "only hard/pxK, exponential/d and constant-gap/d can be verified so far, got 'hanoi/3'",
        ),
        (lambda: verify("exponential/64x2"), "'exponential/64x2': expected d behind the slash, as in 'exponential/64'"),
        (lambda: verify("exponential/2"), "d must be a whole number >= 3, got 2"),
        (lambda: verify("exponential/64:secret=9"), "secret must be a whole number from 0 to 6, got 9"),
        (lambda: verify("exponential/64", states=0), "states must be a whole number >= 1, got 0"),
        (lambda: verify("constant-gap/64", states=0), "states must be a whole number >= 1, got 0"),
        (
            lambda: verify("constant-gap/64:noise=true"),
            "'verify constant-gap' has no parameter 'noise'; there are: actions, d, horizon, secret, seed",
        ),
    ],
)
def test_bad_input_is_one_clear_sentence(call, sentence):
    with pytest.raises(BadInput) as info:
        call()
    assert str(info.value) == sentence
