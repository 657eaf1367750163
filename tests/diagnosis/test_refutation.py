"""Refutations against the exact way, and against answers known by hand."""

import json

import numpy as np
import pytest
from lines import Line, Noisy, Scattered, line, states_of

import tensorplan as tp
from tensorplan.diagnosis.diagnosis import Fitted, diagnose
from tensorplan.diagnosis.refutation import RefutationAttempt, try_to_refute


@pytest.mark.parametrize("bound", [5.0, 20.0, 1000.0])
@pytest.mark.parametrize("degree", [0, 1, 2])
def test_a_refutation_claims_no_more_than_the_exact_way(bound, degree):
    task = line(degree=degree, bound=bound)
    truth, test = diagnose(task)["v"], try_to_refute(task, "v", 1000, 0)
    assert isinstance(truth, Fitted)
    assert test.refuted
    assert test.failure == 0
    assert 0 < test.eta <= truth.in_ball.upper
    assert test.needed_bound is None or truth.declared_norm is None or test.needed_bound <= truth.declared_norm.upper
    assert "for certain" in test.sentence
    assert all(0 <= stage < 7 for stage, _ in test.places)


def test_a_refutation_with_a_known_answer():
    """One step pays 1, and features are 0: the misfit is 1, and what was collected shows it."""

    class Step(Line):
        horizon = 1

        def step(self, state, action, rng):
            return 1.0, state

    test = try_to_refute(tp.Problem(Step(), lambda s, h: np.zeros(1), bound=1.0, name="step"), "v", 10, 0)
    assert 0.98 <= test.eta <= 1.0
    assert test.needed_bound is None  # no θ helps
    assert test.places == ((0, 0.25),)


def test_problems_that_cannot_be_listed_are_tested():
    for mdp in (Scattered(), type("Long", (Line,), {"horizon": 40})()):
        diagnosis = diagnose(line(mdp), budget=500)
        part = diagnosis["v"]
        assert isinstance(part, RefutationAttempt)
        assert part.refuted
        assert part.queries <= 500
        assert "refuted by" in str(diagnosis)
        json.dumps(diagnosis.as_json(), allow_nan=False)


def test_nothing_is_claimed_where_nothing_is_refuted():
    (part,) = diagnose(tp.make("hanoi/5"), states=10).parts
    assert isinstance(part, RefutationAttempt)
    assert (part.refuted, part.eta, part.needed_bound, part.failure) == (False, 0.0, None, 0.0)
    assert part.certificate.status == "certified"
    assert "not refuted by" in part.sentence
    assert "says nothing about other states" in part.sentence
    (part,) = diagnose(tp.make("hanoi/5"), states=10, budget=3).parts
    assert part.certificate.status == "budget"
    assert part.queries <= 3


@pytest.mark.parametrize("seed", range(3))
def test_a_random_problem_is_refuted_with_confidence(seed):
    """Against the exact misfit: the same process as a table.  Wrong with probability 0.05 at most, far less in fact."""
    task = line(Noisy(), degree=0, bound=3.0)
    part = diagnose(task, seed=seed)["v"]
    assert isinstance(part, RefutationAttempt)
    values = {3: dict.fromkeys(states_of(3), 0.0)}
    for stage in (2, 1, 0):
        values[stage] = {
            s: abs(s - 0.5)
            + max(p * values[stage + 1][0.7 * s] + (1 - p) * values[stage + 1][1 - 0.9 * s] for p in (0.2, 0.8))
            for s in states_of(stage)
        }
    everything = [v for stage in range(3) for v in values[stage].values()]
    truth = (max(everything) - min(everything)) / 2  # a constant fits half-way between
    assert part.refuted
    assert 0 < part.eta <= truth
    assert 0 < part.failure <= 0.05 + 1e-9
    assert "at confidence" in part.sentence


def test_what_cannot_be_tested_is_said(monkeypatch):
    blocks = lambda state, stage: np.array([[1.0, 0.0], [0.0, state]])  # noqa: E731
    both = tp.Problem(Noisy(), lambda s, h: np.array([1.0, s]) / 2, blocks, bound=3.0, name="both")
    diagnosis = diagnose(both, budget=2000)
    assert [part.kind for part in diagnosis.parts] == ["v"]
    assert "deterministic transitions" in diagnosis.notes[0]
    with pytest.raises(tp.Refused, match="deterministic transitions"):
        diagnose(both, kind="q")
    with pytest.raises(tp.BadInput, match="has no part 'q'"):
        diagnosis["q"]
