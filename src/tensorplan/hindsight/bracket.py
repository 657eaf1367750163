"""A bracket on v*, and on what a policy loses, from scenarios and episodes.

There are two ways to an upper bound on v*(s0):

* direct: a bound on the mean of ``Scenario.upper``;
* paired: one on the policy's value, from its returns, plus one on the mean of ``Scenario.gap``: errors that the best
  path and the policy's have in common cancel.

The lower bound is on the policy's mean return, from episodes, or from what it is worth in the scenarios: there,
temporal differences stand for most of the noise of a return.  Means are bounded by betting
(:mod:`tensorplan.core.intervals`), for all sample sizes at once: the bracket may be looked at, and stopped, any time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tensorplan.core.errors import BudgetSpent
from tensorplan.core.intervals import betting_lower_bound, betting_upper_bound
from tensorplan.hindsight.blame import Blame
from tensorplan.hindsight.pilot import Bets, Plan, Shares
from tensorplan.hindsight.ranges import finite_returns
from tensorplan.hindsight.subject import ScenarioSource, Subject

LOOKS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Parts of the plan after which the bracket is looked at."""


class PolicyBounds(NamedTuple):
    """lower <= v^π(s0) <= v*(s0) <= upper, and v*(s0) - v^π(s0) <= gap."""

    lower: float
    upper: float
    gap: float

    @property
    def width(self) -> float:
        """upper - lower."""
        return self.upper - self.lower


class BracketTest:
    """Evidence for a bracket that fails with probability at most α."""

    def __init__(
        self, subject: Subject, plan: Plan, bets: Bets, alpha: float, source: ScenarioSource | None = None
    ) -> None:
        self.subject, self.plan, self.bets = subject, plan, bets
        self.source = source or subject
        self.shares = Shares.of(alpha, plan.design.rules.paired)
        self.returns: list[float] = []
        self.policy_worth: list[float] = []
        """What the policy is worth in each scenario."""
        self.worth: list[float] = []
        """Of each scenario: its gap if paired, else its upper bound."""
        self.blame = Blame()
        self.cut = self.stopped = 0

    def grow(self) -> Iterator[PolicyBounds]:
        """Follow the plan, with a look at the bracket now and then; ends early if the budget is spent."""
        for part in LOOKS:
            try:
                self._episodes(round(part * self.plan.episodes))
                self._scenarios(round(part * self.plan.scenarios))
            except BudgetSpent:
                yield self.bounds()
                return
            yield self.bounds()

    def _episodes(self, count: int) -> None:
        times = self.plan.design.rules.times
        for total in self.source.episodes(times, range(len(self.returns), count)):
            self.returns.append(total)

    def _scenarios(self, count: int) -> None:
        design = self.plan.design
        for scenario in self.source.scenarios(design, range(len(self.worth), count)):
            self.worth.append(scenario.gap if design.rules.paired else scenario.upper)
            self.policy_worth.append(scenario.policy)
            self.blame.add(scenario)
            self.cut += scenario.cut
            self.stopped += scenario.stopped

    @property
    def mean_return(self) -> float:
        """An estimate of the policy's value."""
        found = self.returns or self.policy_worth
        return math.fsum(found) / max(len(found), 1)

    def bounds(self) -> PolicyBounds:
        """What the evidence shows so far."""
        low, high = finite_returns(self.subject.access.problem)
        shares, returns, worth = self.shares, np.array(self.returns), np.array(self.worth)
        if self.plan.episodes or not len(worth):
            lower = betting_lower_bound(returns, low, shares.lower, self.bets.lower)
        else:
            lower = betting_lower_bound(np.array(self.policy_worth), self.plan.least, shares.lower, self.bets.lower)
        lower, most = max(lower, low), self.plan.most
        upper = betting_upper_bound(worth, most, shares.scenarios, self.bets.scenarios) if len(worth) else most
        gap = high - low
        if self.plan.design.rules.paired:
            gap, upper = upper, betting_upper_bound(returns, high, shares.upper, self.bets.upper) + upper
        upper = max(min(upper, high), lower)
        return PolicyBounds(lower, upper, max(min(gap, upper - lower), 0.0))
