"""Measured states: rows of Sol that hold for θ*, at all sample sizes at once.

From the moment a state is measured, its samples count for A + 1 events: T1 of every action, and T3 of its optimal
action, whichever that is.  Each is a bet (:mod:`tensorplan.planners.certified.bets`) with a share of the failure
probability (:mod:`tensorplan.planners.evidence.ledger`), and holds whatever decides when more samples are drawn.  Radii
depend on a box that contains θ*: Sol bounds the box, and the box tightens the rows of Sol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tensorplan.core import Array
from tensorplan.optimism import Solution
from tensorplan.planners.certified.bets import WIDE, Bet, Tally, Term
from tensorplan.planners.certified.box import Box
from tensorplan.planners.certified.table import Estimate, StateTable
from tensorplan.planners.evidence.ledger import Ledger
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.tensorplan.sol import ROUNDING, Sol

BOX_NODES = 60
"""Node limit for each side of the box."""

DIRECTIONS = 32
"""The most directions in which a box is bounded."""

NEGLIGIBLE = 1e-12
"""The variance, relative to the largest, up to which features count as constant in a direction."""

CUTS = 50
"""Rounds per optimistic step of adding the value ranges that θ violates."""

BROKEN = 1e-6
"""By how much, relative to 1 + B, θ must violate a value range for it to be added."""


@dataclass(frozen=True, eq=False)
class Measured:
    """A state whose samples, from some moment on, count for its rows."""

    number: int
    """i, which determines its share of the failure probability."""
    estimate: Estimate
    bets: Sequence[Bet]
    """By action; the same bet serves T1, and T3 if the action is optimal."""

    @staticmethod
    def begin(estimate: Estimate, number: int, share: float, planned: Array) -> Measured:
        """``share`` is that of the state, ``planned`` the bets, (A,)."""
        actions, each = range(len(planned)), share / (len(planned) + 1)
        tallies = [Tally(len(estimate.phi)) for _ in actions]
        estimate.tallies = tallies
        terms = [Term(tallies[a], a, estimate.phi, estimate.width, 1.0, estimate) for a in actions]
        return Measured(number, estimate, [Bet([t], each, b) for t, b in zip(terms, planned.tolist(), strict=True)])

    @property
    def counts(self) -> Array:
        """Samples of each action, (A,)."""
        return np.array([bet.all[0].tally.n for bet in self.bets])

    @property
    def deltas(self) -> Array:
        """Δ_a, (A, d+1); zero where an action has no samples."""
        return np.array([bet.total / max(bet.all[0].tally.n, 1) for bet in self.bets])

    def radii(self, box: Box) -> Array:
        """The radii of l_a(θ*), (A,), if the box contains θ*; infinite where an action has no samples."""
        rounding = ROUNDING * (1 + box.radius)
        sizes = [(bet, bet.all[0].tally.n) for bet in self.bets]
        return np.array([bet.radius(box) / n + rounding if n else math.inf for bet, n in sizes])

    def copy(self, copied: Callable[[Tally], Tally]) -> Measured:
        """The same with the samples so far."""
        return Measured(self.number, self.estimate, [copy_bet(bet, copied) for bet in self.bets])


def copy_bet(bet: Bet, copied: Callable[[Tally], Tally]) -> Bet:
    """A bet with the samples so far."""
    terms = [Term(copied(t.tally), t.action, t.phi, t.width, t.weight, t.about) for t in bet.all]
    return Bet(terms, bet.share, bet.planned)


def write_rows(
    sol: Sol,
    ranged: Iterable[Estimate],
    measured: Iterable[Measured],
    box: Box,
    value_range: Callable[[int], tuple[float, float]],
) -> None:
    """Write T2 for some states, and T1 and T3 for measured ones, into Sol anew."""
    sol.renew()
    for estimate in ranged:
        sol.values(estimate.place, estimate.phi, *value_range(estimate.place.stage), estimate, samples=0)
    for state in measured:
        deltas, radii, place, counts = state.deltas, state.radii(box), state.estimate.place, state.counts
        for action in np.flatnonzero(np.isfinite(radii)).tolist():
            sol.inequality(place, deltas[action], float(radii[action]), state, action, int(counts[action]))
        if np.isfinite(radii).all():
            allowed = radii + sol.step * sol.eta
            scale = allowed.max() / allowed  # |l_a| <= ρ_a + (1 + γ) η for some a, as forms with one tolerance
            sol.disjunction(place, deltas * scale[:, None], float(radii.max()), state, int(counts.sum()))


class Measurements:
    """The measured states of a session, Sol, and the box."""

    def __init__(self, sol: Sol, table: StateTable, ledger: Ledger) -> None:
        self.sol, self.table, self.ledger = sol, table, ledger
        self.measured: dict[Estimate, Measured] = {}
        self.ranged = 0
        """How many states have T2 in Sol."""
        self.box = Box.ball(sol.radius, sol.dimension)
        self._listed: list[Estimate] = []
        self._phis, self._ends = np.zeros((0, sol.dimension)), np.zeros((0, 2))
        """The features of listed states, and the ranges of their values."""

    @property
    def version(self) -> tuple[int, int, int]:
        """What changes whenever rows can."""
        return self.table.tallied, len(self.measured), self.ranged

    def value_range(self, stage: int) -> tuple[float, float]:
        """The range of returns from a stage on."""
        queries = self.table.queries
        return queries.access.return_range(stage, queries.discount)

    def begin(self, estimate: Estimate, targets: Array) -> Measured:
        """Measure a state from now on; ``targets`` are the radii that are aimed at, (A,)."""
        number, share = self.ledger.take("rows")
        spread = np.maximum(estimate.variances(self.one), 1e-4 * max(estimate.width, ROUNDING) ** 2)
        self.measured[estimate] = state = Measured.begin(estimate, number, share, targets / spread)
        return state

    @property
    def one(self) -> Array:
        """[1, θ] for the centre of the box."""
        return np.concatenate([[1.0], self.box.centre])

    def write(self) -> None:
        """Write Sol anew, with all samples so far."""
        ranged = [estimate for estimate in self.table.estimates.values() if estimate.ranged]
        write_rows(self.sol, ranged, self.measured.values(), self.box, self.value_range)

    def tighten(self) -> None:
        """Bound the box by Sol, and write Sol anew."""
        self.write()
        if not self.measured or self.sol.deadline.passed:
            return
        directions = spread_directions(self.measured.values(), self.sol.dimension)
        ends = [[self.sol.most(sign * v, BOX_NODES).bound for v in directions.T] for sign in (1, -1)]
        if -math.inf not in ends[0] and -math.inf not in ends[1]:  # otherwise Sol is empty
            self.box = Box.within(directions, -np.array(ends[1]), np.array(ends[0]), self.sol.radius)
            self.write()

    def excluding(self, theta: Array) -> list[tuple[Place, float]]:
        """The measured states that exclude θ, with the size of the temporal difference that does."""
        one, found = np.concatenate([[1.0], theta]), list[tuple[Place, float]]()
        least = self.sol.step * self.sol.eta + BROKEN * (1 + self.sol.radius)
        for state in self.measured.values():
            values, allowed = state.deltas @ one, state.radii(self.box) + least
            if (values < -allowed).all() or (values > allowed).any():
                found.append((state.estimate.place, float(np.abs(values[np.abs(values) > allowed]).min())))
        return found

    def add_range(self, estimate: Estimate) -> None:
        """T2 for a state, once."""
        if not estimate.ranged:
            estimate.ranged = True
            self.ranged += 1
            self.sol.values(estimate.place, estimate.phi, *self.value_range(estimate.place.stage), estimate, samples=0)

    def _list(self) -> list[Estimate]:
        """All states of the table, in arrays too."""
        new = list(islice(self.table.estimates.values(), len(self._listed), None))
        if new:
            self._listed += new
            self._phis = np.concatenate([self._phis, [estimate.phi for estimate in new]])
            self._ends = np.concatenate([self._ends, [self.value_range(estimate.place.stage) for estimate in new]])
        return self._listed

    def cut(self, theta: Array) -> bool:
        """Add the value ranges that θ violates most; whether there were any."""
        listed = self._list()
        values = self._phis @ theta
        excess = np.maximum(values - self._ends[:, 1], self._ends[:, 0] - values) - self.sol.eta
        excess[np.fromiter((estimate.ranged for estimate in listed), dtype=bool, count=len(listed))] = -math.inf
        worst = np.argsort(-excess)[: 2 * self.sol.dimension]
        broken = [listed[i] for i in worst if excess[i] > BROKEN * (1 + self.sol.radius)]
        for estimate in broken:
            self.add_range(estimate)
        return bool(broken)

    def optimum(self, search: Callable[[], Solution]) -> Solution:
        """The optimistic step; value ranges (T2) that its θ violates at known states are added, without queries."""
        for _ in range(CUTS):
            found = search()
            if found.theta is None or self.sol.deadline.passed or not self.cut(found.theta):
                break
        return found


def spread_directions(measured: Iterable[Measured], dimension: int) -> Array:
    """Orthonormal directions, (d, k): those in which next features vary most, over all measured pairs."""
    if dimension >= WIDE:
        return np.zeros((dimension, 0))
    spread = np.zeros((dimension, dimension))
    for state in measured:
        for bet in state.bets:
            tally = bet.all[0].tally
            if tally.scatter is not None:
                spread += tally.scatter[1:, 1:] / max(tally.n, 1)
    sizes, directions = np.linalg.eigh(spread)
    vary = sizes > NEGLIGIBLE * max(float(sizes[-1]), NEGLIGIBLE)
    return np.asarray(directions[:, vary][:, -DIRECTIONS:])
