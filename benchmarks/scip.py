"""A program as a mixed-integer conic model, solved by SCIP: the binary z_{i,a} chooses alternative a of disjunction i.

    Σ_a z_{i,a} >= 1,      -tol_i - M⁻(1 - z_{i,a}) <= l_{i,a}(θ) <= tol_i + M⁺(1 - z_{i,a}),

with, on each side, the smallest M that the ball allows: l_{i,a} lies within ±B‖l_{i,a}‖ of its constant.  Where a row
already says l_{i,a}(θ) <= tol_i, as Bellman's inequalities do, the upper side is left out, which SCIP is faster with.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from pyscipopt import Model, quicksum

from tensorplan.optimism import Program
from tensorplan.optimism.program import Array


@dataclass(frozen=True)
class Answer:
    """What SCIP said; status, value and bound as in :class:`tensorplan.optimism.Solution`."""

    status: str
    theta: Array | None
    value: float
    bound: float
    nodes: int
    seconds: float
    """Time in ``optimize``; building the model is not counted."""


def solve(program: Program, gap: float = 1e-6, time_limit: float | None = None) -> Answer:
    """Maximise with one thread until the relative or the absolute gap is at most ``gap``."""
    assert not program.product
    model = Model()
    model.hideOutput()
    model.setParam("lp/threads", 1)
    model.setParam("parallel/maxnthreads", 1)
    model.setParam("limits/gap", gap)
    model.setParam("limits/absgap", gap)
    if time_limit is not None:
        model.setParam("limits/time", time_limit)

    d, radius = program.dimension, program.radius
    theta = [model.addVar(f"theta{j}", lb=-radius, ub=radius) for j in range(d)]
    model.setObjective(quicksum(float(c) * x for c, x in zip(program.objective, theta, strict=True)), "maximize")
    model.addCons(quicksum(x * x for x in theta) <= radius**2)
    for row, bound in zip(program.rows, program.rhs, strict=True):
        model.addCons(quicksum(float(g) * x for g, x in zip(row, theta, strict=True)) <= float(bound))
    stated = {row.tobytes(): bound for row, bound in zip(program.rows, program.rhs.tolist(), strict=True)}
    for i, (alternatives, tol) in enumerate(zip(program.forms, program.tol.tolist(), strict=True)):
        chosen = [model.addVar(f"z{i},{a}", vtype="B") for a in range(len(alternatives))]
        model.addCons(quicksum(chosen) >= 1)
        for z, form in zip(chosen, alternatives, strict=True):
            constant, reach = float(form[0]), radius * float(np.linalg.norm(form[1:]))
            value = constant + quicksum(float(g) * x for g, x in zip(form[1:], theta, strict=True))
            if stated.get(form[1:].tobytes(), math.inf) > tol - constant:
                model.addCons(value <= tol + (reach + constant - tol) * (1 - z))
            model.addCons(value >= -tol - (reach - constant - tol) * (1 - z))

    began = time.perf_counter()
    model.optimize()
    seconds = time.perf_counter() - began
    said = model.getStatus()
    status = {"optimal": "optimal", "gaplimit": "optimal", "infeasible": "infeasible"}.get(said, "limit")
    found = model.getNSols() > 0
    return Answer(
        status,
        np.array([model.getVal(x) for x in theta]) if found else None,
        model.getObjVal() if found else -math.inf,
        -math.inf if status == "infeasible" else model.getDualbound(),
        int(model.getNTotalNodes()),
        seconds,
    )
