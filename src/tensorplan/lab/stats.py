"""Intervals for means.

Two kinds, never mixed.  :func:`empirical_bernstein` holds for any distribution on a known range, at its stated
confidence: verdicts rest on it.  :func:`student` is the usual description of a handful of runs, exact for
normal data only: tables show it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tensorplan.core import BadInput, Run


class Interval(NamedTuple):
    """An estimate with its interval."""

    mean: float
    low: float
    high: float


def empirical_bernstein(values: ArrayLike, value_range: tuple[float, float], confidence: float = 0.95) -> Interval:
    """A two-sided interval for the mean of independent values in ``value_range`` (Maurer and Pontil 2009, Theorem 4).

    With n values of sample variance V in a range of length M, at α = 1 - confidence,

        |mean - E| <= sqrt(2 V ln(4/α) / n) + 7 M ln(4/α) / (3 (n - 1)),

    cut to the range, with probability at least 1 - α.
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
    log = math.log(4 / (1 - confidence))
    radius = math.sqrt(2 * float(x.var(ddof=1)) * log / x.size) + 7 * (high - low) * log / (3 * (x.size - 1))
    return Interval(mean, max(low, mean - radius), min(high, mean + radius))


def student(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The t interval of a mean; (-inf, inf) around a single value."""
    x = np.asarray(values, dtype=np.float64)
    if x.size < 2:
        return Interval(float(x.mean()) if x.size else math.nan, -math.inf, math.inf)
    from scipy.special import stdtrit

    radius = float(stdtrit(x.size - 1, (1 + confidence) / 2)) * float(x.std(ddof=1)) / math.sqrt(x.size)
    mean = float(x.mean())
    return Interval(mean, mean - radius, mean + radius)


def query_cost(run: Run, confidence: float = 0.95) -> Interval:
    """The paper's query cost, estimated: the mean queries of the t-th call over the episodes, at the worst t."""
    calls = max((len(e.queries) for e in run.episodes), default=0)
    columns = [[e.queries[t] for e in run.episodes if t < len(e.queries)] for t in range(calls)]
    return student(max(columns, key=lambda c: sum(c) / len(c), default=[]), confidence)
