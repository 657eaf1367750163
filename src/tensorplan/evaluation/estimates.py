"""Means over a handful of runs, with t intervals.

:func:`student` is the usual description, exact for normal data only: tables show it.  Verdicts
rest on :mod:`tensorplan.core.intervals` instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tensorplan.core import Run
from tensorplan.core.intervals import Interval


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
