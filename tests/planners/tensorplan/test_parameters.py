"""Parameters and problems that TensorPlan does not take."""

import math

import pytest

import tensorplan as tp


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"delta": 0}, "delta must be positive, got 0"),
        ({"delta": -0.5}, "delta must be positive, got -0.5"),
        ({"delta": math.nan}, "got nan"),
        ({"delta": math.inf}, "got inf"),
        ({"mode": "fast"}, "mode must be one of auto, exact, certified, paper, got 'fast'"),
        ({"eta": -0.1}, "eta must be a number >= 0, got -0.1"),
        ({"discount": 0.0}, "discount must be above 0 and at most 1, got 0.0"),
        ({"discount": 1.1}, "discount must be a number from 0 to 1, got 1.1"),
        ({"ask": "some"}, "ask must be one of lazy, all, got 'some'"),
        ({"budget": -1}, "budget must be a whole number >= 0, got -1"),
        ({"callback": 3}, "callback must be callable, got 3"),
        ({"n1": 3}, "n1 is a constant of mode 'paper', and the mode is 'auto'"),
        ({"zeta": 0.1, "mode": "exact"}, "zeta is a constant of mode 'paper', and the mode is 'exact'"),
    ],
)
def test_bad_parameters(options, sentence):
    with pytest.raises(tp.BadInput) as error:
        tp.TensorPlan(**options)
    assert str(error.value).endswith(sentence)


@pytest.mark.parametrize(
    ("spec", "options", "kind", "sentence"),
    [
        (
            "layered-stochastic/2x3",
            {"mode": "exact"},
            tp.Refused,
            "mode 'exact' is for deterministic problems, and problem 'layered-stochastic/2x3' does not declare "
            "deterministic transitions",
        ),
        (
            "layered/2x3:noise=true",
            {"mode": "exact"},
            tp.Refused,
            "mode 'exact' is for deterministic problems, and problem 'layered-stochastic/2x3' does not declare "
            "deterministic rewards",
        ),
        (
            "layered/2x3:kind=q",
            {},
            tp.Refused,
            "problem 'layered/2x3' has no phi_v, which TensorPlan needs; TensorPlanQ plans with phi_q",
        ),
        (
            "layered/2x3",
            {"delta": 10.0},
            tp.BadInput,
            "delta=10 is trivial in problem 'layered/2x3': returns are at least 0 and v*(s0) is at most 10, so "
            "every policy is that good",
        ),
    ],
)
def test_problems_that_do_not_fit(spec, options, kind, sentence):
    task = tp.make(spec)
    with pytest.raises(kind) as error:
        tp.run(task, tp.TensorPlan(**options))
    assert str(error.value) == sentence
    assert error.value.run.episodes == ()
