"""Sums: one event for a whole weighted sum of temporal differences, in cases of which one is true.

A *case* fixes the optimal actions of some measured states, so that T3 holds for these, and has a bet on a sum over
several states, with weights that are fixed before its samples are drawn (:mod:`tensorplan.planners.certified.design`).
The cases cover all combinations of optimal actions.  At least one of them is true; the bet of the first true one is a
supermartingale, and which one that is does not depend on any sample.  So one share of the failure probability serves
all cases together, and the largest bound of a case is an upper bound on <φ(s0), θ*>.
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
from tensorplan.planners.certified.design import Design, Model
from tensorplan.planners.certified.measuring import Measured, Measurements, copy_bet
from tensorplan.planners.certified.table import Estimate
from tensorplan.planners.tensorplan.sol import ROUNDING, Sol

LEAST = 16
"""The fewest samples of a term, and of each action at a state of a case."""

EXTRA = 1.0
"""What is added to ln(1/α) for the mixture of bets, and for rare values."""

TermKey = tuple[Estimate, int]
"""A state and an action."""


@dataclass(frozen=True, eq=False)
class Case:
    """Optimal actions of some states, and a bet on a sum, if any."""

    choices: Mapping[Measured, int]
    bet: Bet | None

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

    def bound(self, sol: Sol, objective: Array, box: Box, certificate: bool = False) -> Solution:
        """The bound on <objective, θ*> in this case."""
        search = Search(self.program(sol, objective, box))
        return search.solve(node_limit=1, certificate=certificate)

    def copy(self, states: Mapping[Measured, Measured], copied: Callable[[Tally], Tally]) -> Case:
        """The same with the samples so far."""
        choices = {states[state]: action for state, action in self.choices.items()}
        return Case(choices, None if self.bet is None else copy_bet(self.bet, copied))


@dataclass(eq=False)
class Sum:
    """An experiment under way."""

    number: int
    """Which determines its share of the failure probability."""
    cases: Sequence[Case]
    tallies: dict[TermKey, Tally]
    designed: dict[TermKey, float]
    """Samples of each term."""
    states: list[Measured]
    target: float
    done: float = 0.0
    """The share of the designed samples that were drawn."""
    upper: float = math.inf

    @staticmethod
    def begin(design: Design, model: Model, measurements: Measurements, target: float) -> Sum:
        """Fix the weights of the sums, and measure their states from now on."""
        number, share = measurements.ledger.take("sum")
        designed = needed_samples(design, model, share)
        view = model.view
        members = sorted({i for case in design.cases for i in (*case.choices, *(j for j, _ in case.weights))})
        for i in members:
            estimate = view.estimates[i]
            if estimate not in measurements.measured:
                measurements.begin(estimate, model.deviations[i] / 2)
        dimension = len(model.objective)
        keys = {(i, a): (view.estimates[i], a) for i, a in designed}
        tallies = {key: Tally(dimension) for key in keys.values()}
        for (estimate, action), tally in tallies.items():
            estimate.tallies.setdefault(action, []).append(tally)
        cases = []
        for case in design.cases:
            choices = {measurements.measured[view.estimates[i]]: a for i, a in case.choices.items()}
            terms, variance = [], 0.0
            for pair, w in case.weights.items():
                estimate, action = keys[pair]
                n = designed[pair]
                variance += w**2 * float(model.deviations[pair]) ** 2 / n
                term = Term(tallies[keys[pair]], action, estimate.phi, estimate.width, w / n, estimate)
                terms.append(term)
            cases.append(Case(choices, Bet(terms, share, planned_bet(share, variance)) if terms else None))
        samples = {keys[pair]: n for pair, n in designed.items()}
        states = [measurements.measured[view.estimates[i]] for i in members]
        return Sum(number, cases, tallies, samples, states, target)

    def end(self) -> None:
        """Count no more samples."""
        for (estimate, action), tally in self.tallies.items():
            estimate.tallies[action].remove(tally)

    @property
    def drawable(self) -> bool:
        """Whether all of its states can be queried in this episode."""
        return all(estimate.node is not None for estimate, _ in self.tallies)

    def missing(self, share: float) -> dict[Estimate, list[int]]:
        """Samples that are missing for a share of the designed ones, by state and action."""
        wanted: dict[Estimate, list[int]] = {}
        for (estimate, action), n in self.designed.items():
            counts = wanted.setdefault(estimate, [0] * len(estimate.moments.counts))
            counts[action] = max(0, math.ceil(n * share) - self.tallies[estimate, action].n)
        for state in self.states:
            counts = wanted.setdefault(state.estimate, [0] * len(state.bets))
            for action, n in enumerate(state.counts.tolist()):
                counts[action] = max(counts[action], LEAST - n)
        return {estimate: counts for estimate, counts in wanted.items() if any(counts)}

    def prove(self, sol: Sol, objective: Array, box: Box) -> float:
        """The largest bound of a case; -inf if none of them is possible."""
        self.upper = max(case.bound(sol, objective, box).bound for case in self.cases)
        return self.upper


def needed_samples(design: Design, model: Model, share: float) -> dict[tuple[int, int], float]:
    """Samples of each pair with which the sums of all cases are accurate enough."""
    log = math.log(1 / share) + EXTRA
    needed: dict[tuple[int, int], float] = {}
    radii = model.radii(design.accuracy)
    for case in design.cases:
        sizes = {pair: abs(w) * float(radii[pair]) for pair, w in case.weights.items()}
        together = math.fsum(sizes.values())
        for pair, size in sizes.items():
            needed[pair] = max(needed.get(pair, LEAST), 2 * log / case.accuracy**2 * size / together)
    return needed
