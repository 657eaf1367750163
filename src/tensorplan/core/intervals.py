"""Confidence intervals for the mean of bounded independent values."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tensorplan.core import Array
from tensorplan.core.errors import BadInput

RANGE_SLACK = 1e-9
"""How far outside of their range values may be, relative to its ends (rounding)."""

BETS = 0.95 * 2.0 ** -np.arange(14)
"""Fractions of the wealth to bet: a mixture over them needs no tuning, from a handful of values to 10^8 of them."""

CELLS = 4096
"""Most distinct values that a betting bound is computed from; more are rounded down, which keeps it valid."""

PRECISION, NEGLIGIBLE = 1e-6, 1e-9
"""The search for a betting bound ends at this relative width, or, with the trivial bound, below this share of the mean;
it returns the lower end, which is valid."""


class Interval(NamedTuple):
    """An estimate of a mean with a confidence interval."""

    mean: float
    low: float
    high: float

    @property
    def radius(self) -> float:
        """Half of the length of the interval."""
        return (self.high - self.low) / 2


def empirical_bernstein(values: ArrayLike, value_range: tuple[float, float], confidence: float = 0.95) -> Interval:
    """A two-sided interval for the mean of independent values in ``value_range``, cut to that range.

    It holds with probability at least ``confidence`` = 1 - α, and each side alone with 1 - α/2; the radius is
    :func:`bernstein_radius`.
    """
    x = np.asarray(values, dtype=np.float64)
    low, high = value_range
    if not 0 < confidence < 1:
        raise BadInput(f"the confidence must be between 0 and 1, got {confidence!r}")
    if x.size == 0 or not (math.isfinite(low) and math.isfinite(high)):
        return Interval(float(x.mean()) if x.size else math.nan, low, high)
    slack = RANGE_SLACK * max(1.0, abs(low), abs(high))
    if not ((x >= low - slack) & (x <= high + slack)).all():
        raise BadInput(f"values from {x.min():g} to {x.max():g} are outside of the range [{low:g}, {high:g}]")
    mean = float(x.mean())
    if x.size == 1:
        return Interval(mean, low, high)
    radius = bernstein_radius(x.size, float(x.var(ddof=1)), high - low, 1 - confidence)
    return Interval(mean, max(low, mean - radius), min(high, mean + radius))


def bernstein_radius(n: int, variance: float, width: float, alpha: float) -> float:
    """A bound on the error of the mean of n >= 2 independent values that holds with probability at least 1 - α.

    With the sample variance V and a range of length M (Maurer and Pontil 2009, Theorem 4, two-sided)

        |mean - E| <= sqrt(2 V ln(4/α) / n) + 7 M ln(4/α) / (3 (n - 1)).
    """
    log = math.log(4 / alpha)
    return math.sqrt(2 * variance * log / n) + 7 * width * log / (3 * (n - 1))


def hoeffding_radius(n: int, width: float, alpha: float) -> float:
    """Like :func:`bernstein_radius`, without the variance: M sqrt(ln(2/α) / (2n)) (Hoeffding 1963)."""
    return width * math.sqrt(math.log(2 / alpha) / (2 * n))


def betting_lower_bound(values: ArrayLike, least: float, alpha: float) -> float:
    """A lower bound on the mean of independent values >= ``least``, at confidence 1 - α for all sample sizes at once.

    Betting the fraction g of the wealth on the next value being above m yields, after x_1 .. x_n,

        W_g(m) = Π_i (1 + g ((x_i - least)/(m - least) - 1)).

    If the mean is m, this is a non-negative martingale, and so is its average over several g.  By Ville's inequality
    it ever reaches 1/α with probability at most α, so that every m at which it does is excluded (Waudby-Smith and
    Ramdas 2024).  No upper end of the range is needed, and the sample size may depend on the values.
    """
    if not 0 < alpha < 1:
        raise BadInput(f"alpha must be between 0 and 1, got {alpha!r}")
    gains, counts = _distinct(np.asarray(values, dtype=np.float64) - least)
    if not len(gains) or gains[-1] <= 0:
        return least
    enough = math.log(len(BETS) / alpha) + 1e-9  # a margin for rounding

    def excluded(gain: float) -> bool:
        wealth = np.log1p(np.outer(BETS, gains / gain - 1)) @ counts
        return bool(np.logaddexp.reduce(wealth) >= enough)

    high = float(gains @ counts) / float(counts.sum())
    smallest = NEGLIGIBLE * high
    low = high / 2
    while not excluded(low):
        low, high = low / 2, low
        if low < smallest:
            return least
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if excluded(middle) else (low, middle)
    return least + low


def betting_upper_bound(values: ArrayLike, most: float, alpha: float) -> float:
    """An upper bound on the mean of independent values <= ``most``; see :func:`betting_lower_bound`."""
    return -betting_lower_bound(-np.asarray(values, dtype=np.float64), -most, alpha)


def _distinct(gains: Array) -> tuple[Array, Array]:
    """The distinct values in increasing order and their counts; rounded down if there are more than ``CELLS``."""
    gains = np.maximum(gains, 0.0)
    values, counts = np.unique(gains, return_counts=True)
    if len(values) > CELLS:
        first, width = values[0], (values[-1] - values[0]) / CELLS
        values, counts = np.unique(first + width * np.floor((gains - first) / width), return_counts=True)
        values = np.maximum(values - 1e-12 * width, 0.0)  # rounding must not increase a value
    return values, counts.astype(np.float64)
