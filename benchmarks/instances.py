"""Programs to solve: those that exact TensorPlan meets on layered problems, and random ones that conflict.

TensorPlan here is its exact mode for deterministic problems.  A state is measured by trying all its actions; the
program holds, for every measured state, Bellman's inequality l_a(θ) <= 0 for each action as rows and "l_a(θ) = 0 for
some a" as a disjunction, and for every state seen at stage h the range 0 <= <φ(s), θ> <= H - h.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import tensorplan as tp
from tensorplan.optimism import Program
from tensorplan.optimism.program import Array

LAYERED = ((2, 10), (2, 20), (2, 30), (2, 40), (3, 20), (4, 10), (4, 15), (4, 20), (4, 30))
"""The (A, d) of the layered problems."""

CONSISTENT = 1e-7
"""How far from zero l_a(θ) may be at a new state for action a to count as consistent with θ."""

Optimise = Callable[[Program], Array]


def layered_run(actions: int, d: int, optimise: Optimise, seed: int = 0) -> Iterator[Program]:
    """The programs of one run on the layered problem with 200 states per stage and 20 stages."""
    problem = tp.make("layered", states=200, horizon=20, actions=actions, d=d, seed=seed)
    yield from tensorplan_run(problem, optimise)


def tensorplan_run(problem: tp.Problem, optimise: Optimise) -> Iterator[Program]:
    """The programs of the optimistic steps, one per rollout; ``optimise`` gives the maximiser of each.

    A rollout ends at the first new state where no action is consistent, and the next call knows what it measured.
    The last one reaches END; that its return is optimal is checked.
    """
    rng = np.random.default_rng(0)
    start = problem.mdp.start(rng)
    assert problem.deterministic
    assert problem.horizon is not None
    measured: dict[tuple[int, tp.State], tuple[Array, list[tuple[float, tp.State]]]] = {}
    seen: set[tuple[int, tp.State]] = set()

    def see(state: tp.State, stage: int) -> tuple[list[Array], list[float]]:
        if state is tp.END or (stage, state) in seen:
            return [], []
        seen.add((stage, state))
        low, high = problem.return_range(stage)
        phi = problem.state_features(state, stage)
        return [phi, -phi], [high, -low]

    program = Program(problem.state_features(start, 0), problem.bound, *see(start, 0))
    while True:
        yield program
        theta = optimise(program)
        state, stage, total = start, 0, 0.0
        while state is not tp.END:
            new = (stage, state) not in measured
            if new:
                phi = problem.state_features(state, stage)
                outcomes, forms, rows, rhs = [], [], [], []
                for action in range(problem.actions):
                    reward, following = problem.mdp.step(state, action, rng)
                    following = problem.arrive(following, stage)
                    outcomes.append((reward, following))
                    more, bounds = see(following, stage + 1)
                    difference = problem.state_features(following, stage + 1) - phi
                    forms.append(np.concatenate([[reward], difference]))
                    rows += [difference, *more]
                    rhs += [-reward, *bounds]
                measured[stage, state] = np.array(forms), outcomes
                program = program.extend(rows, rhs, [forms])
            forms_here, outcomes = measured[stage, state]
            error = np.abs(forms_here[:, 0] + forms_here[:, 1:] @ theta)
            # Old states are consistent by the program, up to the accuracy of whoever solved it.
            if new and error.min() > CONSISTENT:
                break
            reward, state = outcomes[int(error.argmin())]
            stage, total = stage + 1, total + reward
        else:
            best = problem.optimal_value(start)
            assert math.isclose(total, best, abs_tol=1e-6), f"the return is {total}, the optimal value {best}"
            return


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
