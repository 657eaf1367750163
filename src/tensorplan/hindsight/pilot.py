"""The pilot: which design will give the narrowest bracket within the budget?

Its scenarios and episodes are not used again, so that whatever it chooses leaves the bounds valid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tensorplan.access.meter import Allowance
from tensorplan.access.noise import Purpose
from tensorplan.core import Array
from tensorplan.core.errors import BudgetSpent
from tensorplan.core.intervals import BETS, tuned_bets
from tensorplan.hindsight.ranges import finite_returns, least_policy, most_gap, most_upper
from tensorplan.hindsight.scenario import Rules, Scenario
from tensorplan.hindsight.subject import Design, Subject
from tensorplan.hindsight.values import Band, Values

SAMPLES = (3, 12, 48, 192)
"""Samples per temporal difference that are tried.  Stratified ones are exact where all probabilities are multiples of
their inverse, so these have many divisors."""


class Quota(NamedTuple):
    """How many scenarios or episodes to try: as many as a share of the budget allows, but within limits."""

    share: float
    fewest: int
    most: int


FIRST, FINAL = Quota(0.01, 4, 256), Quota(0.04, 10, 512)
"""For comparing designs, which see the same noise, and for the limits and bets of the one that is chosen."""

LARGEST_PILOT = 0.4
"""The largest share of the budget for the pilot: if one needs more, the rest would not suffice for a test."""

AFFORDABLE = 0.04
"""The largest share of the budget for the fewest trials of a design: about what a better design saves."""

DEVIATIONS = 5.0
"""Standard deviations above the mean of the pilot at which scenarios stop; more if the pilot is small."""

MANY, ROOM = 5_000, 0.05
"""With more scenarios than this the test meets far rarer ones than the pilot.  The limit is then higher by this share
of what a scenario that stops may be worth beyond it, which costs little."""

SMALL = 1e-6
"""The smallest limit, relative to the range of returns."""

MARGIN = 0.1
"""How far beyond the values of the pilot the band reaches to which V is clipped, relative to their range."""

EPISODE_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85)
"""Shares of the budget for episodes among which the pilot chooses."""

LOWER_SHARE, UPPER_SHARE = 0.2, 0.2
"""Shares of the failure probability for returns, from below and, if paired, from above; scenarios have the rest."""

PRECISE = 1.3
"""The factor in ln(factor/α) that betting with tuned bets costs."""


class Shares(NamedTuple):
    """Shares of the failure probability."""

    lower: float
    upper: float
    scenarios: float

    @classmethod
    def of(cls, alpha: float, paired: bool) -> Shares:
        """For a bracket that fails with probability at most α."""
        lower, upper = LOWER_SHARE * alpha, UPPER_SHARE * alpha if paired else 0.0
        return cls(lower, upper, alpha - lower - upper)


class PilotRun(NamedTuple):
    """A scenario of the pilot, and its queries."""

    scenario: Scenario
    cost: int


@dataclass(frozen=True)
class Plan:
    """How to get a bracket."""

    design: Design
    most: float
    """The largest value of a scenario: its gap if paired, else its upper bound."""
    scenarios: int
    episodes: int
    """None if the lower bound comes from what the policy is worth in the scenarios, too."""
    width: float
    """The width to be expected."""
    least: float = -math.inf
    """The least value of the policy in a scenario."""


@dataclass(frozen=True)
class Bets:
    """Bets for the mean of scenarios, and for returns from below and from above."""

    scenarios: Array
    lower: Array
    upper: Array


class Pilot:
    """Tries designs on a subject, and predicts how wide a bracket each will give."""

    def __init__(self, subject: Subject, rules: Rules, alpha: float, budget: int) -> None:
        self.subject, self.rules, self.alpha, self.budget = subject, rules, alpha, budget
        self.meter = subject.access.meter
        self.end = self.meter.spent + budget
        self.range = finite_returns(subject.access.problem)
        self.returns: list[float] = []
        self._episode_queries = 0

    def choose(self) -> tuple[Subject, Plan, Bets]:
        """The subject with V clipped to a band, the plan with the smallest expected width, and its bets.

        If that would take too much of the budget, there is no hope for an upper bound, and all goes into episodes.
        """
        access = self.subject.access
        access.meter = Allowance(self.meter, int(LARGEST_PILOT * self.budget))
        try:
            return self._choose()
        except BudgetSpent:
            return self.subject, self._only_episodes(), Bets(BETS, BETS, BETS)
        finally:
            access.meter = self.meter

    def _only_episodes(self) -> Plan:
        """As many episodes as the budget allows."""
        high = self.range[1]
        left = self.end - self.meter.spent
        return Plan(Design(self.rules, SAMPLES[0], pooled=True), high, 0, left, math.inf)

    def _choose(self) -> tuple[Subject, Plan, Bets]:
        self._play()
        tried = self._first_trials()
        best = self._best(tried)
        for samples in (best.samples // 2, best.samples * 2):
            design = replace(best, samples=samples)
            if self._affordable(design, tried[best][0].scenario):
                tried[design] = self._try(design)
        best = self._best(tried)
        subject = self._clipped(best, tried[best])
        trials = self._try(best, subject, FINAL)
        plan = self._plan(best, trials, subject.values)
        return subject, plan, self._bets(plan, trials)

    def _clipped(self, design: Design, trials: list[PilotRun]) -> Subject:
        """The subject with V clipped to the values seen, or to those on paths if that is better."""
        wide, narrow = (self.subject.within(band) for band in (self._band(), self._band_of_paths(trials)))
        if not self._affordable(design, trials[0].scenario):
            return wide
        expected = self._plan(design, trials, wide.values).width
        return narrow if self._plan(design, self._try(design, narrow), narrow.values).width < expected else wide

    def _first_trials(self) -> dict[Design, list[PilotRun]]:
        """Designs of all kinds, as far as they are affordable."""
        recur = not self.subject.access.points  # else pooled columns would save nothing
        cheapest = Design(self.rules, SAMPLES[0], pooled=recur)
        steady = self.subject.steady_actions(cheapest)
        cheapest = replace(cheapest, steady=steady)
        tried = {cheapest: self._try(cheapest)}
        example = tried[cheapest][0].scenario
        for design in (Design(self.rules, samples, pooled, steady) for pooled in {recur, False} for samples in SAMPLES):
            if design != cheapest and self._affordable(design, example):
                tried[design] = self._try(design)
        return tried

    def _affordable(self, design: Design, example: Scenario) -> bool:
        """Whether the fewest trials take little of the budget; their cost follows from the states of another."""
        queries = design.queries(example, self.subject.access.problem.actions)
        return FIRST.fewest * queries <= AFFORDABLE * self.budget

    def _best(self, tried: dict[Design, list[PilotRun]]) -> Design:
        values = self.subject.values.within(self._band())
        return min(tried, key=lambda design: self._plan(design, tried[design], values).width)

    def _try(self, design: Design, subject: Subject | None = None, effort: Quota = FIRST) -> list[PilotRun]:
        """Scenarios of a design."""
        subject, found, began = subject or self.subject, list[PilotRun](), self.meter.spent
        while self._more(len(found), began, effort):
            before, count = self.meter.spent, max(effort.fewest, len(found)) if subject.in_bundles else 1
            indices = range(len(found), min(len(found) + count, effort.most))
            scenarios = list(subject.some_scenarios(design, Purpose.PILOT, indices))
            found += [PilotRun(scenario, (self.meter.spent - before) // len(indices)) for scenario in scenarios]
        return found

    def _play(self) -> None:
        """Episodes of the policy."""
        began = self.meter.spent
        while self._more(len(self.returns), began, FIRST):
            index = (1 << 40) + len(self.returns)  # apart from scenarios
            self.returns.append(self.subject.episode(self.rules.times, Purpose.PILOT, index))
        self._episode_queries = self.meter.spent - began

    def _more(self, count: int, began: int, effort: Quota) -> bool:
        within = self.meter.spent - began < effort.share * self.budget
        return count < effort.fewest or (count < effort.most and within)

    def _band(self) -> Band:
        """All values seen so far."""
        return self._with_margin(self.subject.values.seen())

    def _band_of_paths(self, trials: list[PilotRun]) -> Band:
        """From the least value on a path: that of states where no path goes matters little."""
        least: Band = {}
        for step in (step for scenario, _ in trials for step in (*scenario.path, *scenario.policy_path)):
            at = np.array([self.subject.access.number(step.state)])
            value = float(self.subject.values(at, step.stage)[0])
            least[step.stage] = (min(value, least.get(step.stage, (value, value))[0]), value)
        seen = self.subject.values.seen()
        return self._with_margin({s: (least.get(s, seen[s])[0], high) for s, (_, high) in seen.items()})

    def _with_margin(self, band: Band) -> Band:
        """The band with a margin, within the range of returns."""
        wider = {}
        for stage, (low, high) in band.items():
            least, most = self.subject.access.problem.return_range(stage)
            margin = MARGIN * (high - low)
            wider[stage] = (max(low - margin, least), min(high + margin, most))
        return wider

    def _plan(self, design: Design, trials: list[PilotRun], values: Values) -> Plan:
        """The best plan with a design: direct or paired, and the share of episodes."""
        direct, most = self._limited(design, trials, values, False)
        plans = [
            self._forecast(limited, largest, trials, share)
            for limited, largest in ((direct, most), self._limited(design, trials, values, True))
            for share in EPISODE_SHARES
        ]
        plans.append(self._forecast_without_episodes(*self._floored(direct, trials, values), most, trials))
        return min(plans, key=lambda plan: plan.width)

    def _floored(self, design: Design, trials: list[PilotRun], values: Values) -> tuple[Design, float]:
        """The design with a floor that the policy hardly reaches, and the least value that it then has."""
        (low, high), seen = self.range, np.array([t.scenario.smallest for t in trials])
        deviations = DEVIATIONS * (1 + 2 / math.sqrt(len(trials)))
        floor = min(float(seen.mean() - deviations * seen.std()), float(seen.min())) - SMALL * (high - low)
        rules = replace(design.rules, floor=floor)
        rules = replace(rules, floor=floor - self._room(trials) * (floor - least_policy(values, rules)))
        return replace(design, rules=rules), least_policy(values, rules)

    def _forecast_without_episodes(self, design: Design, least: float, most: float, trials: list[PilotRun]) -> Plan:
        """The lower bound comes from scenarios as well: there, temporal differences stand for the noise of returns."""
        scenarios = max(round(self._scenarios(trials)), 1)
        shares = Shares.of(self.alpha, paired=False)
        worth, mine = _worth(trials, paired=False), _policy_worth(trials)
        width = float(np.mean([trial.scenario.gap for trial in trials]))
        width += _radius(worth, most - float(worth.mean()), scenarios, shares.scenarios)
        width += _radius(mine, float(mine.mean()) - least, scenarios, shares.lower)
        return Plan(design, most, scenarios, 0, width, least)

    def _limited(self, design: Design, trials: list[PilotRun], values: Values, paired: bool) -> tuple[Design, float]:
        """The design with a limit that scenarios hardly reach, and the largest value that they then have."""
        low, high = self.range
        seen = np.array([t.scenario.largest_gap if paired else t.scenario.largest for t in trials])
        deviations = DEVIATIONS * (1 + 2 / math.sqrt(len(trials)))
        limit = max(float(seen.mean() + deviations * seen.std()), float(seen.max())) + SMALL * (high - low)
        most = most_gap if paired else most_upper
        rules = replace(design.rules, paired=paired, limit=limit)
        rules = replace(rules, limit=limit + self._room(trials) * (most(values, rules) - limit))
        return replace(design, rules=rules), most(values, rules)

    def _room(self, trials: list[PilotRun]) -> float:
        return ROOM if self._scenarios(trials) > MANY else 0.0

    def _scenarios(self, trials: list[PilotRun]) -> float:
        """How many scenarios like these the queries that are left allow."""
        return max(self.end - self.meter.spent, 1) / float(np.mean([trial.cost for trial in trials]))

    def _forecast(self, design: Design, most: float, trials: list[PilotRun], share: float) -> Plan:
        (low, high), paired = self.range, design.rules.paired
        left = max(self.end - self.meter.spent, 1)
        scenarios = max(round((1 - share) * self._scenarios(trials)), 1)
        episodes = max(round(share * left * len(self.returns) / self._episode_queries), 1)
        shares, worth = Shares.of(self.alpha, paired), _worth(trials, paired)
        returns = np.array(self.returns)
        width = float(np.mean([trial.scenario.gap for trial in trials]))
        width += _radius(worth, most - float(worth.mean()), scenarios, shares.scenarios)
        width += _radius(returns, float(returns.mean()) - low, episodes, shares.lower)
        if paired:
            width += _radius(returns, high - float(returns.mean()), episodes, shares.upper)
        return Plan(design, most, scenarios, episodes, width)

    def _bets(self, plan: Plan, trials: list[PilotRun]) -> Bets:
        (low, high), paired = self.range, plan.design.rules.paired
        shares, returns = Shares.of(self.alpha, paired), np.array(self.returns)
        return Bets(
            tuned_bets(-_worth(trials, paired), -plan.most, plan.scenarios, shares.scenarios),
            tuned_bets(returns, low, plan.episodes, shares.lower)
            if plan.episodes
            else tuned_bets(_policy_worth(trials), plan.least, plan.scenarios, shares.lower),
            tuned_bets(-returns, -high, plan.episodes, shares.upper) if paired else np.zeros(0),
        )


def _worth(trials: list[PilotRun], paired: bool) -> Array:
    """The values of scenarios whose mean is bounded."""
    return np.array([trial.scenario.gap if paired else trial.scenario.upper for trial in trials])


def _policy_worth(trials: list[PilotRun]) -> Array:
    """What the policy is worth in scenarios."""
    return np.array([trial.scenario.policy for trial in trials])


def _radius(values: Array, room: float, n: int, alpha: float) -> float:
    """About how far the bound on the mean of n such values will be from it, with ``room`` to the end of the range."""
    log = math.log(PRECISE / alpha)
    return float(values.std()) * math.sqrt(2 * log / n) + room * log / n
