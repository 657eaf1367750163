"""The data of a planning run in certified mode as the proof of its certificate (:mod:`tensorplan.proofs`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorplan.core import Access, Certificate
from tensorplan.planners.certified.bets import Bet, Tally
from tensorplan.planners.certified.box import Box
from tensorplan.planners.certified.derivation import Derivation, Evidence
from tensorplan.planners.certified.measuring import Measured
from tensorplan.planners.certified.table import Estimate
from tensorplan.planners.evidence.evaluation import Evaluation
from tensorplan.planners.tensorplan.sol import Sol
from tensorplan.planners.tensorplan.transcript import Transcript
from tensorplan.proofs.proof import Proof, plain_tree, written


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
    return {"n": tally.n, "sums": tally.sums.tolist(), "scatter": tally.scatter.tolist()}


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
