"""The queries of the modes of TensorPlan on a problem of a given shape, for comparison with the paper's worst case."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tensorplan.evaluation.row import Row
from tensorplan.evaluation.runner import run_unit
from tensorplan.planners.printed.constants import Constants
from tensorplan.planners.tensorplan.planner import TensorPlan
from tensorplan.problems.random.layered import layered

STATES = 50
"""States per stage of the measured problem."""

CASES = (
    ("exact", "nothing random", 1, False),
    ("certified", "random rewards", 1, True),
    ("certified", "random steps and rewards", 3, True),
)
"""Mode, what is random, successors per pair, Bernoulli rewards."""


def mode_costs(constants: Constants, seed: int = 0) -> list[Row]:
    """One row for each of :data:`CASES`, on random layered problems with the A, d, H, δ and B of the constants.

    Rewards are scaled so that values are at most B.  Ctrl-C returns the finished cases.
    """
    rows: list[Row] = []
    scale = min(1.0, 0.8 * constants.B / constants.H)
    shape: dict[str, Any] = {
        "states": STATES,
        "horizon": constants.H,
        "scale": scale,
        "bound": constants.B,
        "seed": seed,
    }
    with suppress(KeyboardInterrupt):
        for mode, _, branching, noise in CASES:
            problem = layered(constants.A, max(2, constants.d), branching=branching, noise=noise, **shape)
            rows.append(run_unit(problem, TensorPlan(mode=mode, delta=constants.delta, anyway=0), seed))
    return rows


def case_records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as plain data, each with its case; ``loss`` is v*(s0) minus the lower bound on the policy's value."""
    return [
        {"mode": mode, "what": what, "queries": row.queries, "loss": _above(row.optimal, row.lower), "gap": row.gap}
        for (mode, what, *_), row in zip(CASES, rows, strict=False)
    ]


def _above(optimal: float | None, lower: float | None) -> float | None:
    return None if optimal is None or lower is None else optimal - lower
