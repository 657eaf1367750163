import math

import numpy as np
import pytest
from scipy import stats

import tensorplan as tp
from tensorplan.core.intervals import BETS, betting_lower_bound, betting_upper_bound, empirical_bernstein
from tensorplan.evaluation.estimates import student


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


def test_the_betting_bound_by_hand():
    """The bound is the m at which the mean wealth is 1/α."""
    x, least, alpha = [3.0, 1.0, 2.0, 2.5, 1.5] * 40, 1.0, 0.01
    low = betting_lower_bound(x, least, alpha)
    wealth = [math.prod(1 + g * ((v - least) / (low - least) - 1) for v in x) for g in BETS]
    assert 1.5 < low < 2.0
    assert np.mean(wealth) == pytest.approx(1 / alpha, rel=1e-2)
    assert betting_upper_bound([-v for v in x], -least, alpha) == pytest.approx(-low)
    assert betting_lower_bound([least] * 10, least, alpha) == least


@pytest.mark.parametrize("p", [0.01, 0.3, 0.9])
def test_betting_bounds_cover_at_all_sizes_at_once(p):
    """Claim: above the mean at any look with probability <= 0.05.  500 trials; 48 have probability < 1e-5 under it."""
    rng = np.random.default_rng(2)
    misses = 0
    for _ in range(500):
        x = rng.random(500) < p
        misses += any(betting_lower_bound(x[:n], 0.0, 0.05) > p for n in (5, 20, 60, 150, 500))
    assert misses < 48
