"""Confidence intervals for means of bounded values: what guarantees rest on."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tensorplan.errors import BadInput


class Interval(NamedTuple):
    """An estimate with its interval."""

    mean: float
    low: float
    high: float

    @property
    def radius(self) -> float:
        """Half of its length."""
        return (self.high - self.low) / 2


def empirical_bernstein(values: ArrayLike, value_range: tuple[float, float], confidence: float = 0.95) -> Interval:
    """A two-sided interval for the mean of independent values in ``value_range``, cut to that range.

    It holds with probability at least ``confidence`` = 1 - α, and each side alone with 1 - α/2; its radius is
    :func:`bernstein_radius`.
    """
    x = np.asarray(values, dtype=np.float64)
    low, high = value_range
    if not 0 < confidence < 1:
        raise BadInput(f"the confidence must be between 0 and 1, got {confidence!r}")
    if x.size == 0 or not (math.isfinite(low) and math.isfinite(high)):
        return Interval(float(x.mean()) if x.size else math.nan, low, high)
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    if not ((x >= low - slack) & (x <= high + slack)).all():
        raise BadInput(f"values from {x.min():g} to {x.max():g} are outside of the range [{low:g}, {high:g}]")
    mean = float(x.mean())
    if x.size == 1:
        return Interval(mean, low, high)
    radius = bernstein_radius(x.size, float(x.var(ddof=1)), high - low, 1 - confidence)
    return Interval(mean, max(low, mean - radius), min(high, mean + radius))


def bernstein_radius(n: int, variance: float, width: float, alpha: float) -> float:
    """How far the mean of n >= 2 independent values may be off, with probability at least 1 - α.

    With the sample variance V and a range of length M (Maurer and Pontil 2009, Theorem 4, on both sides)

        |mean - E| <= sqrt(2 V ln(4/α) / n) + 7 M ln(4/α) / (3 (n - 1)).
    """
    log = math.log(4 / alpha)
    return math.sqrt(2 * variance * log / n) + 7 * width * log / (3 * (n - 1))


def hoeffding_radius(n: int, width: float, alpha: float) -> float:
    """The same without a variance, M sqrt(ln(2/α) / (2n)) (Hoeffding 1963)."""
    return width * math.sqrt(math.log(2 / alpha) / (2 * n))
