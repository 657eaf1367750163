"""The meter: counts queries and stops at the budget."""

from __future__ import annotations

import math

from tensorplan.core.errors import BadInput, BudgetSpent

UNLIMITED = 2**62


class Meter:
    """Queries spent and left.  The loop reads it before and after each call of the planner."""

    __slots__ = ("budget", "left")

    def __init__(self, budget: int | None = None) -> None:
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 0):
            raise BadInput(f"the budget must be a whole number of queries >= 0 or None, got {budget!r}")
        self.budget = UNLIMITED if budget is None else budget
        self.left = self.budget

    @property
    def spent(self) -> int:
        """Queries charged so far."""
        return self.budget - self.left

    @property
    def remaining(self) -> float:
        """Queries left; ``inf`` without a budget."""
        return math.inf if self.budget == UNLIMITED else self.left

    def charge(self, n: int) -> None:
        """Count n queries, or raise BudgetSpent and count nothing."""
        if n > self.left:
            raise BudgetSpent(
                f"the budget of {self.budget:,} queries is spent: {self.spent:,} asked, {n:,} more wanted"
            )
        self.left -= n
