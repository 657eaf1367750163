"""Confidence intervals for the mean of bounded independent values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tensorplan.core import Array
from tensorplan.core.errors import BadInput

RANGE_SLACK = 1e-9
"""How far outside of their range values may be, relative to its ends (rounding)."""

BETS: Array = 0.95 * 0.5 ** np.arange(14.0)
"""Fractions of the wealth to bet: a mixture over them needs no tuning, from a handful of values to 10^8 of them."""

TRIED: Array = 1 / (1 + np.exp(-np.linspace(-14.0, 5.0, 96)))
"""Fractions among which a pilot chooses, from 10^-6 to 0.993: neighbours differ by 22% at most, which costs 1% of a
radius at most."""

TRUST = 3
"""How many times the weight of :data:`BETS` the bet chosen by a pilot has: a pilot that is right costs ln(4/3) in the
logarithm of the wealth, a misleading one ln 4 more than no pilot."""

CELLS = 4096
"""Most distinct values that a betting bound is computed from; more are moved to a grid, which keeps it valid."""

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


def betting_lower_bound(values: ArrayLike, least: float, alpha: float, bets: Array = BETS) -> float:
    """A lower bound on the mean of independent values >= ``least``, at confidence 1 - α for all sample sizes at once.

    Betting the fraction g of the wealth on the next value being above m yields, after x_1 .. x_n,

        W_g(m) = Π_i (1 + g ((x_i - least)/(m - least) - 1)).

    If the mean is m, this is a non-negative martingale, and so is its average over several g.  By Ville's inequality
    it ever reaches 1/α with probability at most α, so that every m at which it does is excluded (Waudby-Smith and
    Ramdas 2024).  No upper end of the range is needed, and the sample size may depend on the values.

    ``bets`` are the fractions g, in (0, 1) and chosen before the values are drawn; one that occurs twice has twice the
    weight in the average.
    """
    _check_alpha(alpha)
    fractions, copies = np.unique(np.asarray(bets, dtype=np.float64), return_counts=True)
    if not (len(fractions) and fractions[0] > 0 and fractions[-1] < 1):
        raise BadInput("bets must be fractions between 0 and 1, and at least one")
    gains, counts = _distinct(values, least)
    if not len(gains) or gains[-1] <= 0:
        return least
    enough = math.log(copies.sum() / alpha) + 1e-9  # a margin for rounding
    weights = np.log(copies)

    def excluded(gain: float) -> bool:
        with np.errstate(under="ignore"):  # bets that have lost nearly all add nothing
            return bool(np.logaddexp.reduce(weights + _wealth(fractions, gains, counts, gain)) >= enough)

    return least + _largest(excluded, _mean(gains, counts))


def betting_upper_bound(values: ArrayLike, most: float, alpha: float, bets: Array = BETS) -> float:
    """An upper bound on the mean of independent values <= ``most``; see :func:`betting_lower_bound`."""
    return -betting_lower_bound(-np.asarray(values, dtype=np.float64), -most, alpha, bets)


def betting_interval(values: ArrayLike, value_range: tuple[float, float], confidence: float = 0.95) -> Interval:
    """A two-sided interval for the mean of independent values in ``value_range``, for all sample sizes at once.

    It holds with probability at least ``confidence`` = 1 - α, and each side alone with 1 - α/2: that of
    :func:`betting_lower_bound` if the range has a least value, that of :func:`betting_upper_bound` if it has a
    greatest.
    """
    x = np.asarray(values, dtype=np.float64)
    low, high = value_range
    if not 0 < confidence < 1:
        raise BadInput(f"the confidence must be between 0 and 1, got {confidence!r}")
    if x.size == 0:
        return Interval(math.nan, low, high)
    slack = RANGE_SLACK * max([1.0, *(abs(end) for end in value_range if math.isfinite(end))])
    if not ((x >= low - slack) & (x <= high + slack)).all():
        raise BadInput(f"values from {x.min():g} to {x.max():g} are outside of the range [{low:g}, {high:g}]")
    alpha = (1 - confidence) / 2
    if math.isfinite(low):
        low = betting_lower_bound(x, low, alpha)
    if math.isfinite(high):
        high = betting_upper_bound(x, high, alpha)
    return Interval(float(x.mean()), low, high)


def tuned_bets(pilot: ArrayLike, least: float, n: int, alpha: float) -> Array:
    """Bets for :func:`betting_lower_bound` of n values, chosen by pilot values that are independent of them.

    Most of the weight is on the bet with the best bound if the n values look like the pilot: near 1 where they vary
    little, else about sqrt(2 ln(1/α)/n) (mean - least)/sd.  The rest is on :data:`BETS`, so that a misleading pilot,
    or another sample size, costs no more than a confidence of 1 - α/4 without a pilot would.  The bound is valid
    whatever the pilot is.  For an upper bound negate the pilot and the end of the range.
    """
    _check_alpha(alpha)
    gains, counts = _distinct(pilot, least)
    if not len(gains) or gains[-1] <= 0:
        return BETS
    enough = math.log((1 + 1 / TRUST) / alpha) * counts.sum() / n

    def excluded(gain: float) -> bool:
        return bool(_wealth(TRIED, gains, counts, gain).max() >= enough)

    bound = _largest(excluded, _mean(gains, counts))
    if bound == 0:
        return BETS
    best = TRIED[int(_wealth(TRIED, gains, counts, bound).argmax())]
    return np.concatenate([np.full(TRUST * len(BETS), best), BETS])


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise BadInput(f"alpha must be between 0 and 1, got {alpha!r}")


def _wealth(bets: Array, gains: Array, counts: Array, gain: float) -> Array:
    """ln W_g(least + ``gain``) for each bet g."""
    wealth: Array = np.log1p(np.outer(bets, gains / gain - 1)) @ counts
    return wealth


def _largest(excluded: Callable[[float], bool], high: float) -> float:
    """About the largest gain below ``high`` that is excluded (as is every smaller one); 0 if it is negligible."""
    smallest = NEGLIGIBLE * high
    low = high / 2
    while not excluded(low):
        low, high = low / 2, low
        if low < smallest:
            return 0.0
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if excluded(middle) else (low, middle)
    return low


def _mean(gains: Array, counts: Array) -> float:
    return float(gains @ counts) / float(counts.sum())


def _distinct(values: ArrayLike, least: float) -> tuple[Array, Array]:
    """The distinct values of x - least and their counts, on a grid if they are many; x < least counts as least."""
    x = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(x).all():
        raise BadInput("a betting bound needs finite values")
    distinct, numbers = np.unique(np.maximum(x - least, 0.0), return_counts=True)
    gains, counts = distinct.astype(np.float64), numbers.astype(np.float64)
    return _on_grid(gains, counts) if len(gains) > CELLS else (gains, counts)


def _on_grid(gains: Array, counts: Array) -> tuple[Array, Array]:
    """Sorted gains, each split between its two neighbours on a grid so that the mean is kept, and the new counts.

    As the logarithm is concave, this can only reduce the wealth.
    """
    grid: Array = np.linspace(gains[0], gains[-1], CELLS)
    below = np.clip(np.searchsorted(grid, gains, side="right") - 1, 0, CELLS - 2)
    above = np.clip((gains - grid[below]) / (grid[below + 1] - grid[below]), 0.0, 1.0) * counts
    split: Array = np.zeros(CELLS)
    np.add.at(split, below, counts - above)
    np.add.at(split, below + 1, above)
    return grid, split
