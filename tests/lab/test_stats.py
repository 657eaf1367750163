import math

import numpy as np
import pytest
from scipy import stats

import tensorplan as tp
from tensorplan.intervals import empirical_bernstein
from tensorplan.lab.stats import student


def test_student_agrees_with_scipy():
    x = np.random.default_rng(0).normal(size=12)
    low, high = stats.t.interval(0.95, 11, loc=x.mean(), scale=stats.sem(x))
    assert student(x) == pytest.approx((x.mean(), low, high))


def test_one_value_has_no_interval():
    assert student([3.0]) == (3.0, -math.inf, math.inf)
    assert empirical_bernstein([3.0], (0.0, 5.0)) == (3.0, 0.0, 5.0)
    assert math.isnan(student([]).mean)


def test_empirical_bernstein_is_the_stated_formula():
    x = [0.0, 1.0, 1.0, 0.0, 1.0] * 200
    log = math.log(4 / 0.05)
    radius = math.sqrt(2 * np.var(x, ddof=1) * log / 1000) + 7 * log / (3 * 999)
    assert empirical_bernstein(x, (0, 1)) == pytest.approx((0.6, 0.6 - radius, 0.6 + radius))


@pytest.mark.parametrize("p", [0.01, 0.3, 0.9])
def test_empirical_bernstein_covers(p):
    """Claim: misses with probability <= 0.05.  2000 trials; 145 misses or more have probability < 1e-5 under it."""
    rng = np.random.default_rng(1)
    misses = 0
    for _ in range(2000):
        interval = empirical_bernstein(rng.random(60) < p, (0, 1))
        misses += not interval.low <= p <= interval.high
    assert misses < 145


def test_without_a_range_nothing_can_be_said():
    assert empirical_bernstein([1.0, 2.0], (-math.inf, 0.0)) == (1.5, -math.inf, 0.0)


def test_values_outside_of_the_range_are_an_error():
    with pytest.raises(tp.BadInput, match=r"values from 0 to 2 are outside of the range \[0, 1\]"):
        empirical_bernstein([0.0, 2.0], (0.0, 1.0))
    with pytest.raises(tp.BadInput, match="the confidence must be between 0 and 1, got 1"):
        empirical_bernstein([0.0], (0.0, 1.0), confidence=1)
