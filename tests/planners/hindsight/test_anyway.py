"""Certified mode's second bracket holds where its features are wrong."""

import math

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.access import LocalAccess
from tensorplan.planners.hindsight.anyway import upper_in_any_case


def test_certified_mode_reports_what_holds_in_any_case():
    problem = tp.make("layered-stochastic/2x3")
    certificate = tp.run(problem, tp.TensorPlan(delta=0.5, anyway=5.0), seed=1).episodes[0].certificate
    assert certificate.assumes
    assert problem.optimal_value(0) <= certificate.upper_anyway < 5
    assert certificate.anyway_failure == certificate.failure
    assert f"and no policy more than {certificate.upper_anyway:.6g}" in certificate.sentence


def test_it_can_be_left_out():
    problem = tp.make("layered-stochastic/2x3")
    with_it = tp.run(problem, tp.TensorPlan(delta=0.5), seed=1).episodes[0]
    without = tp.run(problem, tp.TensorPlan(delta=0.5, anyway=0), seed=1).episodes[0]
    assert without.certificate.upper_anyway == math.inf
    assert without.certificate.upper == with_it.certificate.upper
    assert 1.1 < with_it.total_queries / without.total_queries < 1.25
    with pytest.raises(tp.BadInput, match="anyway"):
        tp.TensorPlan(anyway=-1)


def test_it_holds_although_the_features_are_wrong():
    """The bracket that trusts them is below v* here."""

    class Walk:
        """Three steps; each pays 1 with probability 0.9 for action 1, 0.1 for action 0."""

        horizon = 3
        actions = 2

        def start(self, rng):
            return 0

        def step(self, state, action, rng):
            return float(rng.random() < (0.9 if action else 0.1)), state + 1

    problem = tp.Problem(Walk(), lambda state, stage: np.array([0.1]), bound=1.0, name="flat")
    access = LocalAccess(problem, 0, np.random.default_rng(0))
    upper = upper_in_any_case(access, 40_000, 0.05, np.random.default_rng(1))
    assert 2.7 <= upper < 3
    assert access.spent <= 40_000
    assert (
        upper_in_any_case(LocalAccess(problem, 0, np.random.default_rng(0)), 10, 0.05, np.random.default_rng(1))
        == math.inf
    )
