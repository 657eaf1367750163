"""The query counter, which enforces the budget."""

from __future__ import annotations

import math

from tensorplan.core.errors import BadInput, BudgetSpent

UNLIMITED = 2**62
"""The budget in place of None: an int, so that counting stays cheap, beyond any number of queries."""


class Meter:
    """Queries spent and left; the loop reads it before and after each call of the planner."""

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
        """Charge n queries; raise BudgetSpent, and charge nothing, if fewer are left."""
        if n > self.left:
            raise BudgetSpent(
                f"the budget of {self.budget:,} queries is spent: {self.spent:,} used, {n:,} more requested"
            )
        self.left -= n

    def limit(self, left: int) -> None:
        """Leave no more than so many queries."""
        if left < self.left:
            self.budget -= self.left - left
            self.left = left


class Allowance(Meter):
    """A part of another meter's queries: what is charged here is charged there too."""

    __slots__ = ("whole",)

    def __init__(self, whole: Meter, budget: int) -> None:
        super().__init__(budget)
        self.whole = whole

    def charge(self, n: int) -> None:
        """Charge n queries to both; raise BudgetSpent, and charge nothing, if fewer are left in one of them."""
        if n <= self.left:
            self.whole.charge(n)
        super().charge(n)
