"""Where to sample for fitted value iteration: rounds of scenarios, of samples at the states found, and of fitting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from tensorplan.access.batches import BatchAccess
from tensorplan.access.noise import Purpose, episode
from tensorplan.core import State
from tensorplan.core.errors import BudgetSpent
from tensorplan.hindsight.columns import Fresh
from tensorplan.hindsight.fitting.greedy import Greedy
from tensorplan.hindsight.fitting.model import FittedValues, Model
from tensorplan.hindsight.fitting.regression import Regression
from tensorplan.hindsight.scenario import Rules, play
from tensorplan.hindsight.values import Values

FIT_SHARE = 0.1
"""The share of the queries for a bracket that is spent on fitting values."""

ROUNDS = 3
"""Rounds of exploring, sampling and fitting: with better values scenarios lead to states that matter more."""

EXPLORED, EXPLORING = 32, 0.2
"""Most scenarios of a round, and the share of its queries after which no other one begins."""

EXPLORING_SAMPLES = 2
"""Samples per temporal difference while exploring, where only the order of paths matters."""

FEWEST, MOST = 32, 4096
"""Samples of each action at a state: with fewer, values are noise; with more, other states deserve them."""

SEEN = 1e-3
"""The weight of a state that was reached, relative to one on the best path or on that of the policy."""


def start_fitting(access: BatchAccess, start: Callable[[int], State], rules: Rules) -> SampledFitting | Regression:
    """Values are regressed on features where states are points, and sampled at the states that matter elsewhere."""
    if access.points and access.problem.phi_v is not None:
        return Regression(access, start, rules)
    return SampledFitting(access, start, rules)


class SampledFitting:
    """A model that grows by rounds."""

    def __init__(self, access: BatchAccess, start: Callable[[int], State], rules: Rules) -> None:
        self.access, self.start, self.rules = access, start, rules
        self.fit = FittedValues(access.problem)
        """The values fitted last."""
        self._scenarios = self._batches = 0
        self._begin()

    def _begin(self) -> None:
        """No samples yet; they belong to the numbers that states have now."""
        self.model = Model(self.access)
        self._generation = self.access.generation
        self._weights: defaultdict[int, float] = defaultdict(float)

    def spend(self, budget: int) -> None:
        """Improve the model with about so many queries."""
        if self._generation != self.access.generation:
            self._begin()
        for left in range(ROUNDS, 0, -1):
            before = self.access.meter.spent
            enough = self._round(budget // left)
            if self.model.rows:
                self.fit = self.model.fit()
            budget -= self.access.meter.spent - before
            if not enough:
                return

    def _round(self, budget: int) -> bool:
        """Explore and sample; whether the meter had enough queries for both."""
        before = self.access.meter.spent
        try:
            self._explore(int(EXPLORING * budget))
            self._sample(budget - (self.access.meter.spent - before))
        except BudgetSpent:
            return False
        return True

    def _explore(self, budget: int) -> None:
        """Find the states that matter."""
        values = Values(self.access, self.fit)
        before = self.access.meter.spent
        for _ in range(EXPLORED):
            self._scenarios += 1
            noise = Fresh(values, Purpose.FIT, self._scenarios, EXPLORING_SAMPLES)
            player = Greedy(self.fit, self.access, episode(Purpose.FIT, self._scenarios))
            scenario = play(values, noise, self.start(self._scenarios), self.rules, player)
            for time, ids in enumerate(scenario.reached):
                stage = 0 if self.access.problem.horizon is None else time
                self.model.reached(stage, ids.tolist())
                for number in ids.tolist():
                    self._weights[number] += SEEN
            for step in (*scenario.path, *scenario.policy_path):
                self._weights[self.access.number(step.state)] += 1
            if self.access.meter.spent - before > budget:
                return

    def _sample(self, budget: int) -> None:
        """Samples at the states of the largest weight."""
        actions = self.access.problem.actions
        for number, share in self.model.successors().items():
            self._weights[number] += SEEN * share
        each = min(max(budget // (actions * max(len(self._weights), 1)), FEWEST), MOST)
        ranked = sorted(self._weights, key=lambda number: -self._weights[number])
        self._batches += 1
        columns = self.access.columns(Purpose.FIT, self._batches, 1 << 48, each, each)
        self.model.add(ranked[: max(budget // (actions * each), 1)], columns)
