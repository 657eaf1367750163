"""The upper bound on v*(s0) by cases: which action is optimal at some of the states under watch.

A state under watch has A + 1 bets that matter: T1 of every action, and T3 of its optimal action, whichever that is.  A
*case* fixes the optimal actions of some states, so that T3 holds for these, and may have a bet on a sum over several
states, with weights that were fixed before its samples were drawn.  If the cases cover all combinations, exactly one of
them is true, and one event suffices for the sums of all cases together.

Within a case θ* satisfies linear rows, and their right-hand sides depend on a box that contains θ*: the rows of one
pass bound the box of the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tensorplan.core import Array
from tensorplan.optimism import Program, Search, Solution
from tensorplan.planners.closing.bets import Bet, Term, planned_bet
from tensorplan.planners.closing.box import MARGIN, Box
from tensorplan.planners.evidence.approx_td import Moments
from tensorplan.planners.tensorplan.measuring import Estimate
from tensorplan.planners.tensorplan.sol import ROUNDING

PASSES = 4
"""Most rounds in which rows bound the box and the box tightens the rows."""

SHRINKS = 0.9
"""Another pass follows if the last one has shrunk some side of the box to less than this."""


@dataclass(frozen=True, eq=False)
class Watched:
    """A state whose samples from now on count for its rows."""

    estimate: Estimate
    number: int
    """Which determines its share of the failure probability."""
    tally: Moments
    above: list[Bet]
    """T1, by action."""
    below: list[Bet]
    """T3, by action; it holds for an optimal one."""

    @staticmethod
    def begin(
        estimate: Estimate, number: int, share: float, width: float, excused: float, planned: Array
    ) -> Watched:
        """``share`` is that of the state, ``planned`` the expected sums of squared temporal differences, (A,)."""
        tally, each = Moments(len(planned), len(estimate.phi)), share / (len(planned) + 1)
        sides = (
            [
                Bet([term(estimate, action, sign, width, excused, tally)], each, planned_bet(each, variance))
                for action, variance in enumerate(planned.tolist())
            ]
            for sign in (1.0, -1.0)
        )
        return Watched(estimate, number, tally, *sides)

    def frozen(self, copy: Callable[[Moments], Moments]) -> Watched:
        """The same with copies of its samples."""
        above, below = ([bet.frozen(copy) for bet in bets] for bets in (self.above, self.below))
        return Watched(self.estimate, self.number, copy(self.tally), above, below)


def term(estimate: Estimate, action: int, weight: float, width: float, excused: float, tally: Moments) -> Term:
    """A term of a bet at a state."""
    origin = np.concatenate([[math.copysign(excused, weight)], estimate.phi])
    return Term(tally, action, origin, width, weight, estimate)


@dataclass(frozen=True, eq=False)
class Case:
    """Optimal actions of some states, and a bet on a sum, if any."""

    choices: Mapping[Watched, int]
    bet: Bet | None = None


class Pass(NamedTuple):
    """Bounds on <v_j, θ> and <-v_j, θ> over the rows of a case."""

    up: list[Solution]
    down: list[Solution]


@dataclass(frozen=True, eq=False)
class CaseBound:
    """A bound on <φ(s0), θ*> in one case, and its derivation."""

    case: Case
    directions: Array
    passes: list[Pass]
    found: Solution

    @property
    def value(self) -> float:
        """The bound; -inf if the case is impossible."""
        return self.found.bound


@dataclass(frozen=True, eq=False)
class CaseRows:
    """The rows that hold in every case: ranges of values, the return of a policy, and T1 of all states under watch."""

    ranged: Sequence[tuple[Estimate, float, float]]
    """States with the least and the largest value that they can have."""
    earned: tuple[Estimate, float] | None
    """A state, and a proved return from there."""
    watched: Sequence[Watched]
    radius: float
    eta: float

    @cached_property
    def _fixed(self) -> tuple[Array, Array]:
        """What does not depend on samples, and the return."""
        rows = [(estimate.phi, high + self.eta) for estimate, _, high in self.ranged if high < math.inf]
        rows += [(-estimate.phi, self.eta - low) for estimate, low, _ in self.ranged if low > -math.inf]
        if self.earned is not None:
            rows.append((-self.earned[0].phi, self.eta - self.earned[1]))
        return np.array([normal for normal, _ in rows]), np.array([end for _, end in rows])

    def bound(self, case: Case, objective: Array, certificate: bool = False) -> CaseBound:
        """The bound in one case."""
        directions = self._directions(len(objective))
        box, passes = Box.ball(self.radius, directions), list[Pass]()
        while len(passes) < PASSES:
            rows = self._rows(case, box)
            ends = Pass(*([self._most(rows, sign * v, certificate) for v in directions.T] for sign in (1, -1)))
            passes.append(ends)
            if any(end.status == "infeasible" for side in ends for end in side):
                break
            smaller = _tightened(box, ends)
            done = bool(np.all(smaller.reach > SHRINKS * box.reach))
            box = smaller
            if done:
                break
        return CaseBound(case, directions, passes, self._most(self._rows(case, box), objective, certificate))

    def _rows(self, case: Case, box: Box) -> tuple[Array, Array]:
        """The rows of a case, for a box that contains θ*."""
        bets = [bet for state in self.watched for bet in state.above]
        bets += [state.below[action] for state, action in case.choices.items()]
        bets += [] if case.bet is None else [case.bet]
        rows = [bet.row(box, ROUNDING * (1 + self.radius)) for bet in bets]
        normals, ends = self._fixed
        d = len(box.centre)
        return (
            np.concatenate([normals.reshape(-1, d), np.array([g for g, _ in rows]).reshape(-1, d)]),
            np.concatenate([ends, np.array([b for _, b in rows])]),
        )

    def _most(self, rows: tuple[Array, Array], objective: Array, certificate: bool) -> Solution:
        """The largest <objective, θ> over rows in the ball."""
        return Search(Program(objective, self.radius, *rows)).solve(node_limit=1, certificate=certificate)

    def _directions(self, dimension: int) -> Array:
        """Orthonormal directions, (d, d): those in which next features vary most and least, over all samples."""
        squares = np.zeros((dimension, dimension))
        for state in self.watched:
            for part in state.tally.squares:
                squares += part.matrix()[1:, 1:]
        return np.asarray(np.linalg.eigh(squares)[1])


@dataclass(eq=False)
class CaseEvidence:
    """What an upper bound by cases rests on: samples as they were when it was proved."""

    root: Estimate
    rows: CaseRows | None = None
    cases: Sequence[Case] = ()
    number: int = 0
    """Of the sum."""

    def keep(self, rows: CaseRows, cases: Sequence[Case], number: int) -> None:
        """Copy the samples of a bound that was just proved."""
        copies: dict[int, Moments] = {}

        def copy(tally: Moments) -> Moments:
            if id(tally) not in copies:
                copies[id(tally)] = tally.copy()
            return copies[id(tally)]

        kept = {state: state.frozen(copy) for state in rows.watched}
        self.rows, self.number = replace(rows, watched=list(kept.values())), number
        self.cases = [
            Case(
                {kept[state]: action for state, action in case.choices.items()},
                None if case.bet is None else case.bet.frozen(copy),
            )
            for case in cases
        ]

    def bounds(self) -> list[CaseBound]:
        """The bounds again, with their certificates."""
        assert self.rows is not None
        return [self.rows.bound(case, self.root.phi, certificate=True) for case in self.cases]


def _tightened(box: Box, ends: Pass) -> Box:
    """The box within new bounds on its directions."""
    middles = box.directions.T @ box.centre
    high = np.minimum([end.bound for end in ends.up], middles + box.reach)
    low = np.maximum([-end.bound for end in ends.down], middles - box.reach)
    reach = np.maximum(high - low, 0.0) / 2 + MARGIN * box.radius
    return Box(box.directions @ ((high + low) / 2), box.directions, reach, box.radius)
