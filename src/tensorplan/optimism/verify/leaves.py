"""The leaves: each claims what its multipliers prove, and the largest of them is the bound."""

from __future__ import annotations

import math

import numpy as np

from tensorplan.optimism.verify.floating import evaluate
from tensorplan.optimism.verify.rational import check_exactly
from tensorplan.optimism.verify.terms import SMALLEST_NORMAL, Leaves, Terms

CLAIM = 1e-9
"""A claimed number may be off by this much of |claim| + B ‖c‖: claims are floating-point evaluations."""

DOUBT = 1e-6
"""A leaf may be off by the worst rounding of a plain evaluation too, but not by more than this much of the same."""


def check_leaves(terms: Terms, leaves: Leaves, exact: bool) -> float:
    """The largest right-hand side of (*) over the leaves that are not empty, rounded up; claims are checked.

    Floating point settles the leaves that are plainly as claimed; the others, wrong or undecided because the rounding
    is larger than the margin, are evaluated exactly, which also finds the number to report.
    """
    with np.errstate(all="ignore"):
        value, doubt = evaluate(terms, leaves)
        upper = np.nextafter(value + doubt, math.inf)
        size = np.abs(leaves.claim) + terms.scale + SMALLEST_NORMAL
        allowed = CLAIM * size + np.fmin(doubt, DOUBT * size)
        agrees = (np.abs(value - leaves.claim) <= CLAIM * size) & (doubt <= CLAIM * size) & np.isfinite(upper + size)
        clear = np.where(leaves.empty, upper < 0, agrees)
    for t in range(len(clear)) if exact else np.flatnonzero(~clear).tolist():
        upper[t] = check_exactly(terms, leaves, t, float(allowed[t]))
    return float(np.max(upper[~leaves.empty], initial=-math.inf))
