"""Programs to solve: those that exact TensorPlan meets on layered problems, and random ones that conflict."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import tensorplan as tp
from tensorplan.optimism import Program
from tensorplan.optimism.program import Array

LAYERED = ((2, 10), (2, 20), (2, 30), (2, 40), (3, 20), (4, 10), (4, 15), (4, 20), (4, 30))
"""The (A, d) of the layered problems."""


def layered_run(actions: int, d: int, seed: int = 0) -> Iterator[Program]:
    """The programs of one run on the layered problem with 200 states per stage and 20 stages.

    TensorPlan asks all actions of a state.  A program holds, for every measured state, Bellman's inequality
    l_a(θ) <= 0 for each action as rows and "l_a(θ) = 0 for some a" as a disjunction, and for every state seen at
    stage h the range 0 <= <φ(s), θ> <= H - h; all of them up to rounding.
    """
    problem = tp.make("layered", states=200, horizon=20, actions=actions, d=d, seed=seed)
    (episode,) = tp.run(problem, tp.TensorPlan(mode="exact", ask="all", trace=True)).episodes
    best = problem.optimal_value(episode.start)
    assert math.isclose(episode.total_reward, best, abs_tol=1e-6), f"the return is {episode.total_reward}, not {best}"
    trace = episode.trace
    program = Program(np.array(trace.objective), trace.radius)
    for record in (trace, *trace.iterations[:-1]):  # what comes after the last call is in no program
        rows = np.array(record.rows).reshape(-1, d + 1)
        tols, forms = [tol for tol, _ in record.disjunctions], [forms for _, forms in record.disjunctions]
        program = program.extend(rows[:, :-1], rows[:, -1], forms or None, tols or 0.0)
        yield program


@dataclass(frozen=True)
class Conflict:
    """The shape of a random program."""

    d: int
    actions: int
    disjunctions: int
    rows: int
    tol: float
    seed: int

    @property
    def name(self) -> str:
        """What tells it from the others."""
        tol = f" tol {self.tol:g}" if self.tol else ""
        return f"#{self.seed}{tol}"


CONFLICTS = (
    Conflict(5, 2, 10, 0, 0.0, 0),
    Conflict(5, 3, 15, 0, 0.0, 1),
    Conflict(6, 2, 15, 12, 0.01, 2),
    Conflict(6, 3, 12, 12, 0.0, 3),
    Conflict(8, 2, 16, 0, 0.01, 4),
    Conflict(8, 2, 24, 16, 0.0, 5),
    Conflict(8, 3, 16, 16, 0.01, 6),
    Conflict(8, 3, 24, 0, 0.0, 7),
    Conflict(10, 2, 20, 0, 0.0, 8),
    Conflict(10, 2, 25, 20, 0.01, 9),
    Conflict(10, 3, 20, 20, 0.0, 10),
    Conflict(12, 2, 24, 0, 0.0, 11),
    Conflict(12, 2, 30, 24, 0.01, 12),
    Conflict(12, 3, 24, 24, 0.0, 13),
    Conflict(12, 3, 36, 0, 0.0, 14),
)


def conflict(shape: Conflict) -> Program:
    """Random disjunctions that a planted point satisfies: per disjunction one random alternative holds there.

    The others are random hyperplanes, most of which meet the ball, so that each disjunction alone is easy and together
    they conflict.
    """
    rng = np.random.default_rng([shape.seed, shape.d, shape.actions])
    d, n = shape.d, shape.disjunctions
    planted = _unit(rng, d) * 0.7
    slopes = _unit(rng, n, shape.actions, d)
    offsets = rng.uniform(-0.5, 0.5, (n, shape.actions))
    which, all_ = rng.integers(shape.actions, size=n), np.arange(n)
    offsets[all_, which] = rng.uniform(-shape.tol, shape.tol, n) - slopes[all_, which] @ planted
    rows = _unit(rng, shape.rows, d)
    rhs = rows @ planted + rng.uniform(0, 0.5, shape.rows)
    forms = np.concatenate([offsets[:, :, None], slopes], axis=2)
    return Program(_unit(rng, d), 1.0, rows, rhs, forms, np.float64(shape.tol))


def _unit(rng: np.random.Generator, *shape: int) -> Array:
    x = rng.standard_normal(shape)
    unit: Array = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return unit


def clauses(variables: int, count: int, seed: int) -> Program:
    """Random 3-CNF: in every clause one of three literals holds, and θ_i = ±1 says that variable i is true or false.

    It is feasible exactly if the formula is satisfiable, since the ball holds all assignments: no algorithm is known
    that needs no search.
    """
    rng = np.random.default_rng([seed, variables, count])
    forms = np.zeros((count, 3, variables + 1))
    for clause in forms:
        for form, variable in zip(clause, rng.choice(variables, 3, replace=False), strict=True):
            form[0], form[1 + variable] = rng.choice([-1.0, 1.0]), 1.0
    return Program(_unit(rng, variables), math.sqrt(variables), forms=forms)
