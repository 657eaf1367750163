"""Betting bounds: right as often as stated, at every size at once, however skewed the values are."""

import math

import numpy as np
import pytest
from scipy import stats

from tensorplan.core import intervals
from tensorplan.core.errors import BadInput
from tensorplan.core.intervals import bernstein_radius, betting_lower_bound, betting_upper_bound

TRIALS = 2_000

DRAWS = {
    "coin": (lambda rng, n: (rng.random(n) < 0.5).astype(float), 0.5),
    "rare": (lambda rng, n: (rng.random(n) < 0.01).astype(float), 0.01),
    "often": (lambda rng, n: (rng.random(n) < 0.99).astype(float), 0.99),
    "heavy": (lambda rng, n: rng.pareto(2.5, n), 1 / 1.5),
    "uniform": (lambda rng, n: rng.random(n), 0.5),
    "mixed": (lambda rng, n: np.where(rng.random(n) < 0.001, 100.0, 0.1), 0.1999),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_it_is_wrong_as_rarely_as_stated_even_if_one_looks_again_and_again(draw):
    """No upper end of the range is used: the Pareto distribution has none."""
    sample, mean = DRAWS[draw]
    rng, alpha, wrong = np.random.default_rng(0), 0.1, 0
    for _ in range(TRIALS // 10):
        values = sample(rng, 1000)
        wrong += any(betting_lower_bound(values[:n], 0.0, alpha) > mean for n in (1, 2, 5, 20, 100, 300, 1000))
    assert wrong <= stats.binom.isf(1e-6, TRIALS // 10, alpha)


def test_it_is_not_far_from_what_can_be_known():
    """Near the bound that knows the variance, and far better than Bernstein's where little is paid."""
    rng, alpha = np.random.default_rng(1), 0.05
    for p in (0.5, 0.02):
        values = (rng.random(5000) < p).astype(float)
        found = values.mean() - betting_lower_bound(values, 0.0, alpha)
        normal = stats.norm.isf(alpha) * math.sqrt(p * (1 - p) / 5000)
        assert normal < found < 2.2 * normal
    assert found < 0.8 * bernstein_radius(5000, p * (1 - p), 1.0, alpha)


def test_the_bound_from_above_is_the_mirror_image():
    values = np.random.default_rng(2).random(300)
    assert betting_upper_bound(values, 1.0, 0.05) == pytest.approx(1 - betting_lower_bound(1 - values, 0.0, 0.05))
    assert betting_lower_bound(values, 0.0, 0.05) < 0.5 < betting_upper_bound(values, 1.0, 0.05)


def test_values_are_rounded_down_where_there_are_many(monkeypatch):
    values = np.random.default_rng(3).random(4000)
    exact = betting_lower_bound(values, 0.0, 0.05)
    monkeypatch.setattr(intervals, "CELLS", 50)
    assert exact - 1 / 50 <= betting_lower_bound(values, 0.0, 0.05) <= exact


def test_scale_and_shift():
    values = np.random.default_rng(4).random(200)
    bound = betting_lower_bound(values, 0.0, 0.01)
    assert betting_lower_bound(1e6 * values - 7, -7.0, 0.01) == pytest.approx(1e6 * bound - 7, rel=1e-5)


def test_what_says_nothing():
    assert betting_lower_bound([], -3.0, 0.05) == -3.0
    assert betting_lower_bound([-3.0, -3.0], -3.0, 0.05) == -3.0
    assert betting_lower_bound([1.0], 0.0, 0.05) < 1.0
    for alpha in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(BadInput, match="alpha must be between 0 and 1"):
            betting_lower_bound([1.0], 0.0, alpha)
