"""A bound on v* in hindsight for planners whose own bound assumes something about the features."""

from __future__ import annotations

import math

import numpy as np

from tensorplan.access.local import LocalAccess
from tensorplan.core import Access
from tensorplan.planners.hindsight.planner import Hindsight, HindsightPlanning


def upper_in_any_case(access: Access, budget: int, alpha: float, rng: np.random.Generator) -> float:
    """An upper bound on v*(s0) that fails with probability at most α; infinite if the budget is too small for one."""
    if not isinstance(access, LocalAccess):
        return math.inf
    planning = HindsightPlanning(Hindsight(confidence=1 - alpha), access, rng)
    planning.round(budget, alpha)
    return planning.bounds.upper if planning.bounds.upper < access.return_range(0)[1] else math.inf
