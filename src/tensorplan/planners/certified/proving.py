"""Proofs of the certified mode: an upper bound derived from samples alone, and written down with them.

While planning goes on, rows are tightened by a box that rests on earlier rows.  A proof begins with the ball instead:
the rows of the last samples bound a box, the box tightens the rows, and so on in a few passes.  The checker of
:mod:`tensorplan.proofs` follows them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tensorplan.core import Access, Array, Certificate
from tensorplan.optimism import Solution
from tensorplan.planners.certified.bets import Bet, Tally
from tensorplan.planners.certified.box import Box
from tensorplan.planners.certified.measuring import BOX_NODES, Measured, Measurements, spread_directions, write_rows
from tensorplan.planners.certified.sums import Case, Sum
from tensorplan.planners.certified.table import Estimate
from tensorplan.planners.evidence.evaluation import Evaluation
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.tensorplan.sol import Sol
from tensorplan.planners.tensorplan.transcript import Transcript
from tensorplan.proofs.proof import Proof, plain_tree, written

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

    def at(self, places: Collection[Place]) -> Evidence:
        """What is known at some places; the sum only if all its states are among them."""
        ranged = [estimate for estimate in self.ranged if estimate.place in places]
        measured = [state for state in self.measured if state.estimate.place in places]
        summed = {state.estimate for case in self.cases for state in case.choices}
        summed |= {term.about for case in self.cases for term in case.terms}
        known = all(estimate.place in places for estimate in summed)
        return Evidence(ranged, measured, self.cases if known else (), self.number)


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
    searched: int
    """Nodes of the searches for the bound."""

    @property
    def bound(self) -> float:
        """On <φ(s0), θ*>; -inf if nothing is feasible."""
        return max(solution.bound for solution in self.found)

    @property
    def nodes(self) -> int:
        """Of all searches."""
        return sum(end.nodes for part in self.passes for end in (*part.up, *part.down)) + self.searched


def derive(
    evidence: Evidence,
    sol: Sol,
    root: tuple[Place, Array],
    value_range: Callable[[int], tuple[float, float]],
    claimed: float,
    earned: float | None,
    nodes: int,
    most_passes: int = PASSES,
) -> Derivation:
    """The bound by the evidence, in as many passes as it takes to reach the claimed one.

    ``sol`` is for the rows; ``root`` is s0 with φ(s0); ``earned`` is a lower bound on v*(s0) that is used too, if there
    is one; ``nodes`` is the node limit of the search.
    """
    (place, phi), box, passes, searched = root, Box.ball(sol.radius, sol.dimension), list[Pass](), 0
    sol.aim(phi)
    while True:
        write_rows(sol, evidence.ranged, evidence.measured, box, value_range)
        if earned is not None:
            sol.earned(place, phi, earned)
        bound, took = _bound(evidence, sol, phi, box, nodes)
        searched += took
        if bound <= claimed + ROUNDED * (1 + sol.radius) or len(passes) == most_passes or not evidence.measured:
            break
        directions = spread_directions(evidence.measured, sol.dimension)
        if not directions.size:
            break
        ends = [[sol.most(sign * v, BOX_NODES, certificate=True) for v in directions.T] for sign in (1, -1)]
        passes.append(Pass(box, directions, *ends))
        up, down = (np.array([end.bound for end in side]) for side in ends)
        if np.isneginf([*up, *down]).any():
            break
        box = Box.within(directions, -down, up, sol.radius)
    found = [case.solve(sol, phi, box, certificate=True) for case in evidence.cases] or [sol.proof()]
    return Derivation(passes, box, found, searched)


def _bound(evidence: Evidence, sol: Sol, phi: Array, box: Box, nodes: int) -> tuple[float, int]:
    """The bound with a box, and how many nodes it took."""
    found = [case.solve(sol, phi, box) for case in evidence.cases] or [sol.optimum(nodes)]
    return max(each.bound for each in found), sum(each.nodes for each in found)


def certified_proof(
    access: Access,
    sol: Sol,
    discount: float,
    root: Estimate,
    evidence: Evidence,
    derivation: Derivation,
    earned: bool,
    evaluation: Evaluation | None,
    certificate: Certificate,
) -> Proof:
    """The proof: the samples of all measured states, what is derived from them, and the returns of the policy."""
    transcript = Transcript(access, sol, discount, root.place, root.phi)
    numbers = {state: number for number, state in enumerate(evidence.measured)}
    measured = [
        {
            "number": state.number,
            "state": transcript.number(state.estimate.place, state.estimate.phi),
            "samples": [{**_samples(bet.all[0].tally), "bet": bet.planned} for bet in state.bets],
        }
        for state in evidence.measured
    ]
    by_place = {state.estimate: number for state, number in numbers.items()}
    trees = [plain_tree(found.certificate) for found in derivation.found]
    cases = [
        {
            "choices": [[numbers[state], action] for state, action in case.choices.items()],
            **_sum(case.bet, by_place, derivation.box),
            "tree": tree,
        }
        for case, tree in zip(evidence.cases, trees, strict=bool(evidence.cases))
    ]
    parts = {
        "measured": measured,
        "ranged": [transcript.number(estimate.place, estimate.phi) for estimate in evidence.ranged],
        "passes": [
            {
                "radii": _radii(evidence.measured, part.box),
                "directions": part.directions.tolist(),
                "up": [plain_tree(end.certificate) for end in part.up],
                "down": [plain_tree(end.certificate) for end in part.down],
            }
            for part in derivation.passes
        ],
        "radii": _radii(evidence.measured, derivation.box),
        "earned": earned,
        "sum": {"number": evidence.number, "cases": cases} if cases else None,
        "returns": _returns(evaluation),
    }
    return transcript.proof("certified", certificate.failure, certificate, parts, None if cases else trees[0])


def _samples(tally: Tally) -> dict[str, Any]:
    scatter = None if tally.scatter is None else tally.scatter.tolist()
    return {"n": tally.n, "sums": tally.sums.tolist(), "scatter": scatter}


def _radii(measured: Sequence[Measured], box: Box) -> list[list[Any]]:
    """The radii of all measured states, with a box."""
    return [[written(radius) for radius in state.radii(box).tolist()] for state in measured]


def _sum(bet: Bet | None, numbers: dict[Estimate, int], box: Box) -> dict[str, Any]:
    if bet is None:
        return {"bet": 0.0, "radius": 0.0, "terms": []}
    terms = [
        {"measured": numbers[t.about], "action": t.action, "weight": t.weight, **_samples(t.tally)} for t in bet.all
    ]
    return {"bet": bet.planned, "radius": bet.radius(box), "terms": terms}


def _returns(evaluation: Evaluation | None) -> dict[str, Any]:
    if evaluation is None:
        return {"kind": "none"}
    values, counts = np.unique(evaluation.visits.returns[: evaluation.shown], return_counts=True)
    bets, copies = np.unique(evaluation.bets, return_counts=True)
    return {
        "kind": "sample",
        "number": evaluation.number,
        "values": _pairs(values.tolist(), counts.tolist()),
        "bets": _pairs(bets.tolist(), copies.tolist()),
    }


def _pairs(values: Sequence[float], counts: Sequence[int]) -> list[list[float]]:
    return [list(pair) for pair in zip(values, counts, strict=True)]
