import numpy as np
import pytest
from finite_noise import fresh, guesses, pooled, problem, random_mdp, scenarios
from helpers import Walk
from helpers import problem as walk
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorplan as tp
from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter
from tensorplan.hindsight.ranges import finite_returns, least_policy, most_gap, most_upper, residual_range
from tensorplan.hindsight.scenario import Rules
from tensorplan.hindsight.values import Values

CLOSE = 1e-9


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["zero", "optimal", "random", "adversarial"]),
    st.sampled_from([fresh(1), pooled(1)]),
    st.booleans(),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.sampled_from([1, 2, 100]),
    st.sampled_from([3, None]),
)
def test_no_scenario_is_worth_more_nor_the_policy_less(seed, guess, way, paired, share, rest, width, horizon):
    """For every noise, with V within the range of returns or within a narrower band."""
    rng = np.random.default_rng(seed)
    task = problem(random_mdp(rng, horizon), discount=0.8)
    function = guesses(task, rng)[guess]
    chosen = {}
    policy = lambda state, stage: chosen.setdefault((state, stage), int(rng.integers(2)))  # noqa: E731
    low, high = task.return_range()
    rules = Rules(3, width, low + share * (high - low), paired, floor=low + rest * (high - low))
    stages = [0] if horizon is None else range(3)
    band = {stage: (0.3 * task.return_range(stage)[0], 0.2 * task.return_range(stage)[1]) for stage in stages}
    for limits in (None, band):
        v = Values(BatchAccess(task, Meter(), 0), function, limits)
        for _, scenario in scenarios(task, function, way, rules, policy, limits):
            assert scenario.policy >= least_policy(v, rules) - CLOSE
            if paired:
                assert scenario.gap <= most_gap(v, rules) + CLOSE
            else:
                assert scenario.upper <= most_upper(v, rules) + CLOSE


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(["zero", "optimal", "random", "adversarial"]))
def test_no_temporal_difference_is_outside_of_its_range(seed, guess):
    rng = np.random.default_rng(seed)
    task = problem(random_mdp(rng, 3), discount=0.8)
    function = guesses(task, rng)[guess]
    v = Values(BatchAccess(task, Meter(), 0), function)
    for _, scenario in scenarios(task, function, fresh(1), Rules(3, 100), lambda state, stage: 0):
        for time, step in enumerate(scenario.path):
            low, high = residual_range(v, step.stage)
            assert low - CLOSE <= step.residual / 0.8**time <= high + CLOSE


def test_a_range_of_returns_must_be_finite():
    with pytest.raises(tp.BadInput, match="has no finite range of returns: give it a horizon, a discount below 1"):
        finite_returns(walk(Walk(horizon=None)))
    assert finite_returns(walk()) == (0.0, 6.0)
    assert finite_returns(walk(Walk(horizon=None, return_range=(0.0, 2.0)))) == (0.0, 2.0)
