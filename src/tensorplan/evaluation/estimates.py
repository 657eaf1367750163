"""Means over a few runs, with t intervals.

These are exact for normal data only and serve tables; verdicts use :mod:`tensorplan.core.intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tensorplan.core import Run
from tensorplan.core.intervals import Interval


def student(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The mean and its t interval; (-inf, inf) for a single value."""
    x = np.asarray(values, dtype=np.float64)
    if x.size < 2:
        return Interval(float(x.mean()) if x.size else math.nan, -math.inf, math.inf)
    from scipy.special import stdtrit

    radius = float(stdtrit(x.size - 1, (1 + confidence) / 2)) * float(x.std(ddof=1)) / math.sqrt(x.size)
    mean = float(x.mean())
    return Interval(mean, mean - radius, mean + radius)


def query_cost(run: Run, confidence: float = 0.95) -> Interval:
    """An estimate of the paper's query cost: the mean number of queries of the t-th call, at the worst t."""
    calls = max((len(e.queries) for e in run.episodes), default=0)
    columns = [[e.queries[t] for e in run.episodes if t < len(e.queries)] for t in range(calls)]
    return student(max(columns, key=lambda c: sum(c) / len(c), default=[]), confidence)
