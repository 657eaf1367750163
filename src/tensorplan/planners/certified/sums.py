"""Sums: one event for a whole weighted sum of temporal differences, in cases of which one is true.

A *case* fixes the optimal actions of some measured states, so that T3 holds for these, and has a bet on a sum over
several states, with weights that are fixed before its samples are drawn (:mod:`tensorplan.planners.certified.design`).
The cases cover all combinations of optimal actions.  At least one of them is true; the bet of the first true one is a
supermartingale, and which one that is does not depend on any sample.  So one share of the failure probability serves
all cases together, and the largest bound of a case is an upper bound on <φ(s0), θ*>.

Samples of a sum are drawn for one pair at a time, so that they are independent given those before; samples of several
actions that share their noise count for rows only.  A case counts as many samples of each of its pairs as its weights
ask for, so that cases may grow apart: one that is wrong by far is excluded by a few samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tensorplan.core import Array
from tensorplan.optimism import Program, Search, Solution
from tensorplan.planners.certified.bets import Bet, Tally, Term, planned_bet
from tensorplan.planners.certified.box import Box
from tensorplan.planners.certified.design import Blueprint, Hypothesis, Pair, PlannedCase
from tensorplan.planners.certified.measuring import Measured, Measurements, copy_bet
from tensorplan.planners.certified.table import Estimate
from tensorplan.planners.tensorplan.sol import ROUNDING, Sol

LEAST = 16
"""The fewest samples of each action at a state of a case."""

FEWEST = 4
"""The fewest samples of a term."""

EXTRA = 1.0
"""What is added to ln(1/α) for the mixture of bets, and for rare values."""

PART, MORE = 0.5, 0.3
"""The first part of the designed samples that is drawn; and the growth after all of them were."""

CHEAP = 0.1
"""Cases that have taken at most this share of all designed samples grow by a factor of two."""

OVERDUE = 1.3
"""A case that has had so many times its designed samples has missed the target, if it is not a cheap one."""

Draws = list[tuple[Estimate, list[int], dict[int, list[Tally]]]]
"""Samples of each action at a state, and the tallies that count them, by action."""


@dataclass(eq=False)
class Case:
    """Optimal actions of some states, and a bet on a sum, if any."""

    choices: Mapping[Measured, int]
    bet: Bet | None
    designed: Sequence[float] = ()
    """Samples of each term of the bet."""
    done: float = 0.0
    """How much of them was drawn."""
    bound: float = math.inf
    """On <φ(s0), θ*> in this case, by the samples so far."""

    @property
    def drawn(self) -> float:
        """Samples so far."""
        return self.done * math.fsum(self.designed)

    @property
    def terms(self) -> list[Term]:
        """The terms of the bet."""
        return [] if self.bet is None else self.bet.all

    def program(self, sol: Sol, objective: Array, box: Box) -> Program:
        """What is known of θ* in this case: T1 and T2 of Sol, T3 of the choices, and the sum."""
        excused, rounding = sol.step * sol.eta, ROUNDING * (1 + sol.radius)
        normals, ends = sol.linear
        for state, action in self.choices.items():
            radius = float(state.radii(box)[action])
            if math.isfinite(radius):
                delta = state.deltas[action]
                normals.append(-delta[1:])
                ends.append(radius + float(delta[0]) + excused)
        if self.bet is not None:
            total = self.bet.total
            normals.append(total[1:])
            ends.append(self.bet.radius(box) + (excused + rounding) * self.bet.size - float(total[0]))
        return Program(objective, sol.radius, np.array(normals).reshape(-1, sol.dimension), np.array(ends))

    def solve(self, sol: Sol, objective: Array, box: Box, certificate: bool = False) -> Solution:
        """The bound on <objective, θ*> in this case."""
        return Search(self.program(sol, objective, box)).solve(node_limit=1, certificate=certificate)

    def copy(self, states: Mapping[Measured, Measured], copied: Callable[[Tally], Tally]) -> Case:
        """The same with the samples so far."""
        choices = {states[state]: action for state, action in self.choices.items()}
        return Case(choices, None if self.bet is None else copy_bet(self.bet, copied), self.designed, self.done)


@dataclass(eq=False)
class Sum:
    """An experiment under way."""

    number: int
    """Which determines its share of the failure probability."""
    cases: Sequence[Case]
    states: list[Measured]
    target: float

    @staticmethod
    def begin(design: Blueprint, model: Hypothesis, measurements: Measurements, target: float) -> Sum:
        """Fix the weights of the sums, and measure their states from now on."""
        number, share = measurements.ledger.take("sum")
        estimates = model.view.estimates
        members = sorted({i for case in design.cases for i in (*case.choices, *(j for j, _ in case.weights))})
        for i in members:
            if estimates[i] not in measurements.measured:
                measurements.begin(estimates[i], model.deviations[i] / 2)
        cases = []
        for case in design.cases:
            sizes = samples_of(case, model, share)
            terms, variance = [], 0.0
            for (i, action), w in case.weights.items():
                estimate, n = estimates[i], sizes[i, action]
                variance += w**2 * float(model.deviations[i, action]) ** 2 / n
                terms.append(Term(Tally(len(estimate.phi)), action, estimate.phi, estimate.width, w / n, estimate))
            choices = {measurements.measured[estimates[i]]: a for i, a in case.choices.items()}
            bet = Bet(terms, share, planned_bet(share, variance)) if terms else None
            cases.append(Case(choices, bet, list(sizes.values())))
        return Sum(number, cases, [measurements.measured[estimates[i]] for i in members], target)

    @property
    def upper(self) -> float:
        """The largest bound of a case."""
        return max(case.bound for case in self.cases)

    @property
    def finished(self) -> bool:
        """Whether it has met its target, or is not going to."""
        late = [case for case in self.cases if case.bound > self.target and not self._cheap(case)]
        return self.upper <= self.target or any(case.done >= OVERDUE for case in late)

    def _cheap(self, case: Case) -> bool:
        """Whether a case has taken few samples compared with all of them."""
        return case.drawn <= CHEAP * max(math.fsum(other.designed) for other in self.cases)

    def grow(self) -> Draws:
        """The samples to draw next: more for every case that has not met the target."""
        for case in self.cases:
            if case.bound > self.target and case.bet is not None:
                if not case.done:
                    case.done = PART
                elif self._cheap(case):
                    case.done *= 2
                else:
                    case.done += PART if case.done < 1 else MORE * case.done
        draws: Draws = []
        for state in self.states:
            fewest = [max(0, LEAST - int(n)) for n in state.counts]
            if any(fewest):
                draws.append((state.estimate, fewest, {}))
        for (estimate, action), wanted in self._wanted().items():
            before = 0
            for n in sorted({n for n, _ in wanted}):  # those that want most count all, others the first part
                counts = [0] * len(estimate.moments.counts)
                counts[action] = n - before
                draws.append((estimate, counts, {action: [tally for m, tally in wanted if m >= n]}))
                before = n
        return draws

    def _wanted(self) -> dict[tuple[Estimate, int], list[tuple[int, Tally]]]:
        """By pair, how many samples each case wants."""
        wanted: dict[tuple[Estimate, int], list[tuple[int, Tally]]] = {}
        for case in self.cases:
            for term, n in zip(case.terms, case.designed, strict=True):
                missing = math.ceil(n * case.done) - term.tally.n
                if missing > 0:
                    wanted.setdefault((term.about, term.action), []).append((missing, term.tally))
        return wanted

    def prove(self, sol: Sol, objective: Array, box: Box) -> float:
        """The largest bound of a case; -inf if none of them is possible."""
        for case in self.cases:
            case.bound = case.solve(sol, objective, box).bound
        return self.upper


def samples_of(case: PlannedCase, model: Hypothesis, share: float) -> dict[Pair, float]:
    """Samples of each pair with which the sum of a case is accurate enough."""
    radii, log = model.radii(case.accuracy), math.log(1 / share) + EXTRA
    sizes = {pair: abs(w) * float(radii[pair]) for pair, w in case.weights.items()}
    together = math.fsum(sizes.values())
    return {pair: max(FEWEST, 2 * log / case.accuracy**2 * size / together) for pair, size in sizes.items()}
