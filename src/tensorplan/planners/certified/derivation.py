"""The derivation of an upper bound from samples alone, as it is written into a proof.

While planning goes on, rows are tightened by a box that rests on earlier rows.  A proof begins with the ball instead:
the rows of the last samples bound a box, the box tightens the rows, and so on in a few passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tensorplan.core import Array
from tensorplan.optimism import Solution
from tensorplan.planners.certified.bets import Tally
from tensorplan.planners.certified.box import Box
from tensorplan.planners.certified.measuring import BOX_NODES, Measured, Measurements, spread_directions, write_rows
from tensorplan.planners.certified.sums import Case, Sum
from tensorplan.planners.certified.table import Estimate
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.tensorplan.sol import Sol

PASSES = 8
"""Most passes of a derivation."""

ROUNDED = 1e-9
"""By how much of 1 + B a derived bound may exceed the one that planning found."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What an upper bound rests on: samples as they were when it was found."""

    ranged: Sequence[Estimate] = ()
    measured: Sequence[Measured] = ()
    cases: Sequence[Case] = ()
    """Of the sum, if the bound is by cases."""
    number: int = 0
    """Of the sum."""

    @staticmethod
    def keep(measurements: Measurements, running: Sum | None) -> Evidence:
        """Copy the samples so far, and those of a sum if there is one."""
        copies: dict[int, Tally] = {}

        def copied(tally: Tally) -> Tally:
            if id(tally) not in copies:
                copies[id(tally)] = tally.copy()
            return copies[id(tally)]

        states = {state: state.copy(copied) for state in measurements.measured.values()}
        ranged = [estimate for estimate in measurements.table.estimates.values() if estimate.ranged]
        if running is None:
            return Evidence(ranged, list(states.values()))
        cases = [case.copy(states, copied) for case in running.cases]
        return Evidence(ranged, list(states.values()), cases, running.number)


class Pass(NamedTuple):
    """Bounds on <v_j, θ> and <-v_j, θ> over rows that are tightened by a box."""

    box: Box
    directions: Array
    up: list[Solution]
    down: list[Solution]


@dataclass(frozen=True, eq=False)
class Derivation:
    """The passes that lead to a box, and the bound with the rows that it gives."""

    passes: list[Pass]
    box: Box
    found: list[Solution]
    """By case; a single one where there are no cases."""

    @property
    def bound(self) -> float:
        """On <φ(s0), θ*>; -inf if nothing is feasible."""
        return max(solution.bound for solution in self.found)


def derive(
    evidence: Evidence,
    sol: Sol,
    root: tuple[Place, Array],
    value_range: Callable[[int], tuple[float, float]],
    claimed: float,
    earned: float | None,
    nodes: int,
) -> Derivation:
    """The bound by the evidence, in as many passes as it takes to reach the claimed one.

    ``sol`` is for the rows; ``root`` is s0 with φ(s0); ``earned`` is a lower bound on v*(s0) that is used too, if there
    is one; ``nodes`` is the node limit of the search.
    """
    (place, phi), box, passes = root, Box.ball(sol.radius, sol.dimension), list[Pass]()
    sol.aim(phi)
    while True:
        write_rows(sol, evidence.ranged, evidence.measured, box, value_range)
        if earned is not None:
            sol.earned(place, phi, earned)
        bound = _bound(evidence, sol, phi, box, nodes)
        if bound <= claimed + ROUNDED * (1 + sol.radius) or len(passes) == PASSES or not evidence.measured:
            break
        directions = spread_directions(evidence.measured, sol.dimension)
        ends = [[sol.most(sign * v, BOX_NODES, certificate=True) for v in directions.T] for sign in (1, -1)]
        passes.append(Pass(box, directions, *ends))
        up, down = (np.array([end.bound for end in side]) for side in ends)
        if np.isneginf([*up, *down]).any():
            break
        box = Box.within(directions, -down, up, sol.radius)
    if evidence.cases:
        return Derivation(passes, box, [case.solve(sol, phi, box, certificate=True) for case in evidence.cases])
    return Derivation(passes, box, [sol.proof()])


def _bound(evidence: Evidence, sol: Sol, phi: Array, box: Box, nodes: int) -> float:
    if evidence.cases:
        return max(case.solve(sol, phi, box).bound for case in evidence.cases)
    return sol.optimum(nodes).bound
