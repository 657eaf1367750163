"""The query counter, which enforces the budget and the time limit."""

from __future__ import annotations

import math
from collections.abc import Callable

from tensorplan.core import NEVER, Deadline
from tensorplan.core.errors import BadInput, BudgetSpent

UNLIMITED = 2**62
"""The budget in place of None: an int, so that counting stays cheap, beyond any number of queries."""


class Meter:
    """Queries spent and left; the loop reads it before and after each call of the planner."""

    __slots__ = ("budget", "left")

    @property
    def deadline(self) -> Deadline:
        """When queries end, whatever is left."""
        return NEVER

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
        left = self.left  # may change the budget of a meter that is watched
        return math.inf if self.budget == UNLIMITED else left

    def charge(self, n: int) -> None:
        """Charge n queries; raise BudgetSpent, and charge nothing, if fewer are left."""
        if n > self.left:
            raise BudgetSpent(
                f"the budget of {self.budget:,} queries is spent: {self.spent:,} used, {n:,} more requested"
            )
        self.left -= n

    def check(self) -> None:
        """Raise BudgetSpent if queries that are charged already may not be made any more; called before slow ones."""

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

    @property
    def deadline(self) -> Deadline:
        """That of the other meter."""
        return self.whole.deadline

    def charge(self, n: int) -> None:
        """Charge n queries to both; raise BudgetSpent, and charge nothing, if fewer are left in one of them."""
        if n <= self.left:
            self.whole.charge(n)
        super().charge(n)

    def check(self) -> None:
        """As the other meter does."""
        self.whole.check()


class TimedMeter(Meter):
    """Another meter with a deadline: from then on charges raise TimeSpent, until the deadline is lifted."""

    __slots__ = ("_deadline", "whole")

    def __init__(self, whole: Meter, deadline: Deadline) -> None:
        self.whole, self._deadline = whole, deadline

    @property
    def deadline(self) -> Deadline:
        """When queries end, whatever is left."""
        return self._deadline

    @property
    def budget(self) -> int:  # type: ignore[override]
        """That of the other meter."""
        return self.whole.budget

    @property
    def left(self) -> int:
        """Queries that may be made now: none after the deadline, so that whoever reads this charges, and finds out."""
        return 0 if self._deadline.passed else self.whole.left

    @left.setter
    def left(self, left: int) -> None:
        self.whole.left = left

    @property
    def spent(self) -> int:
        """Queries charged so far."""
        return self.whole.spent

    @property
    def remaining(self) -> float:
        """Queries left in the budget, whatever the time; ``inf`` without a budget."""
        return self.whole.remaining

    def charge(self, n: int) -> None:
        """Charge n queries; raise TimeSpent or BudgetSpent, and charge nothing, if they may not be made."""
        self._deadline.check()
        self.whole.charge(n)

    def check(self) -> None:
        """Raise if queries that are charged already may not be made any more."""
        self._deadline.check()
        self.whole.check()

    def limit(self, left: int) -> None:
        """Leave no more than so many queries."""
        self.whole.limit(left)


class WatchedMeter(Meter):
    """A meter that asks ``stop(spent)`` before queries, and has none left from when that is true."""

    __slots__ = ("_left", "stop", "stopped")

    def __init__(self, meter: Meter, stop: Callable[[int], bool]) -> None:
        super().__init__()
        self.budget, self._left = meter.budget, meter.left
        self.stop, self.stopped = stop, False

    @property
    def left(self) -> int:
        """Queries left."""
        if not self.stopped and self.stop(self.budget - self._left):
            self.stopped = True
            self.limit(0)
        return self._left

    @left.setter
    def left(self, left: int) -> None:
        self._left = left

    def check(self) -> None:
        """Raise BudgetSpent once it is stopped."""
        if not self.left and self.stopped:
            raise BudgetSpent(f"queries were stopped after {self.spent:,} of them")
