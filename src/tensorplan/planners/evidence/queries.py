"""The queries of one planning run: held within the budget and the time limit, and recorded as experience."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorplan.core import Access, Node, Outcome, Sample
from tensorplan.core.errors import BudgetSpent
from tensorplan.planners.evidence.approx_td import Moments, sample_moments
from tensorplan.planners.evidence.experience import Experience


class Queries:
    """Queries the simulator within the budget, of which ``kept_back`` queries are reserved."""

    def __init__(self, access: Access, budget: int | None, discount: float, experience: Experience) -> None:
        self.access, self.discount, self.experience = access, discount, experience
        self.total = min(access.spent + access.remaining, math.inf if budget is None else float(budget))
        """The most queries in the episode."""
        self.kept_back = 0.0
        self.made = 0
        """Queries of this planning run, those from a cache included, which are not charged."""

    @property
    def spent(self) -> int:
        """Charged so far in the episode."""
        return self.access.spent

    @property
    def room(self) -> float:
        """Queries that may be made now."""
        return self.total - self.kept_back - self.spent

    def charge(self, n: int) -> None:
        """Raise BudgetSpent or TimeSpent unless n queries may be made; the access object counts the charged ones.

        Those that a cache answers are not charged there, but they take time too.
        """
        self.access.deadline.check()
        if n > self.room:
            raise BudgetSpent("no queries are left for this")
        self.made += n

    def step(self, node: Node, action: int, remember: bool = True) -> Outcome:
        """One outcome, recorded if ``remember``."""
        self.charge(1)
        outcome = self.access.query(node, action)[0]
        if remember:
            self.experience.add_one(node, action, outcome.reward, outcome.next)
        return outcome

    def batch(self, node: Node, action: int, n: int) -> Sample:
        """n outcomes of one action."""
        self.charge(n)
        sample = self.access.sample(node, action, n)
        self.experience.add(node, action, sample)
        return sample

    def moments(self, node: Node, counts: Sequence[int]) -> Moments:
        """The moments of so many fresh samples of each action; actions share their noise where counts are the same."""
        self.charge(max(counts) if self.access.joint else sum(counts))
        return sample_moments(self.access, node, counts, self.discount, self.experience.add, shared=True)
