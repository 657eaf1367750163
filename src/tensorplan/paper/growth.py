"""Whether a cost grows polynomially or exponentially with the size.

Two models of the logarithm of the cost, with normal errors and as many parameters each,

    log2 cost = a + degree log2 size      or      log2 cost = a + doublings size,

are fitted by least squares to all measurements and compared by Akaike's criterion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorplan.core import Array
from tensorplan.core.intervals import Interval

EVIDENCE = 6.0
"""The difference of Akaike's criteria that selects a model: the other is then exp(-6/2) = 1/20 as likely."""

FLAT = 1.0
"""Doublings over the range of sizes below which a cost counts as flat."""

EXACT = 1e-6
"""The least standard deviation of log2 cost, for exact data."""


@dataclass(frozen=True)
class Growth:
    """Both fits, each rate with its 95% t interval, and the verdict."""

    degree: Interval
    """Of the power of the size."""
    doublings: Interval
    """Per unit of the size."""
    evidence: float
    """Akaike's criterion of the exponential model minus that of the power; positive favours the power."""
    verdict: str
    """``"polynomial"``, ``"exponential"``, ``"flat"`` or ``"undecided"``."""


def growth(sizes: Sequence[float], costs: Sequence[float]) -> Growth | None:
    """The growth of the cost with the size; None with fewer than three different sizes."""
    x, y = np.asarray(sizes, dtype=np.float64), np.log2(np.maximum(costs, 1.0))
    if len(np.unique(x)) < 3:
        return None
    degree, power = _line(np.log2(x), y)
    doublings, exponential = _line(x, y)
    evidence = len(x) * math.log(exponential / power)
    if degree.high * math.log2(x.max() / x.min()) < FLAT and doublings.high * (x.max() - x.min()) < FLAT:
        verdict = "flat"
    elif abs(evidence) < EVIDENCE:
        verdict = "undecided"
    else:
        verdict = "polynomial" if evidence > 0 else "exponential"
    return Growth(degree, doublings, evidence, verdict)


def slope(x: Sequence[float], y: Sequence[float]) -> Interval:
    """The slope of the least-squares line with its 95% t interval; at least three points."""
    return _line(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))[0]


def _line(x: Array, y: Array) -> tuple[Interval, float]:
    """The slope with its interval, and the residual sum of squares."""
    from scipy.special import stdtrit

    centred = x - x.mean()
    spread = float(centred @ centred)
    rate = float(centred @ y) / spread
    rest = y - y.mean() - rate * centred
    squares = max(float(rest @ rest), len(x) * EXACT**2)
    radius = float(stdtrit(len(x) - 2, 0.975)) * math.sqrt(squares / (len(x) - 2) / spread)
    return Interval(rate, rate - radius, rate + radius), squares
