"""Finite MDPs with features that miss v* by a little: the parameter that fits best, and by how much it misses.

    η = min_θ max_s |v*(s) - <φ(s), θ>|

is a linear program in (θ, η), over all states of all stages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from tensorplan.core import Array, Problem, ProblemError
from tensorplan.features import Frame, build
from tensorplan.problems.featurize import SLACK, featurize
from tensorplan.problems.tabular import TabularMDP, solve_tabular

REALIZING = 3
"""d of features that realize v*, where it is not said."""


def featured(
    mdp: TabularMDP, features: str, frame: Frame, point: Callable[[int, int], Array], *, discount: float, name: str
) -> Problem:
    """The MDP with features by name: ``"realizing"`` (d = 3), ``"realizing5"``, or a spec such as ``"poly2"``.

    ``point(state, stage)`` is where a state lies in the frame, for specs (see :mod:`tensorplan.features`).
    """
    if realizing := re.fullmatch(r"realizing(\d{0,4})", str(features)):
        return featurize(mdp, int(realizing[1] or REALIZING), discount=discount, name=name)
    phi = build(features, frame)
    stages = range(mdp.horizon or 1)
    tables = [np.array([phi(point(state, stage), stage) for state in mdp.states(stage)]) for stage in stages]
    return fitted(mdp, tables, discount=discount, name=name)


def fitted(mdp: TabularMDP, tables: Sequence[Array], *, discount: float, name: str) -> Problem:
    """The MDP with φ_v read off tables, (S, d) for each stage: θ* is the best fit to v*, η what it misses by.

    The features are divided by one number so that the largest norm is 1.
    """
    solution = solve_tabular(mdp, discount)
    largest = max(float(np.linalg.norm(table, axis=1).max()) for table in tables)
    phi = [table / largest for table in tables]
    theta, eta = best_fit(np.concatenate(phi), np.concatenate(solution.v[: len(phi)]))
    return Problem(
        mdp,
        lambda state, stage: phi[stage][mdp.index(state, stage)],
        bound=SLACK * (float(np.linalg.norm(theta)) or 1.0),
        name=name,
        solution=solution,
        theta=theta,
        eta=eta,
        discount=discount,
    )


def best_fit(phi: Array, values: Array) -> tuple[Array, float]:
    """θ that misses the values (n,) by the least η in sup norm, and that η, for features (n, d)."""
    from scipy.optimize import linprog

    n, d = phi.shape
    ones = np.ones((n, 1))
    found = linprog(
        np.append(np.zeros(d), 1.0),
        A_ub=np.block([[phi, -ones], [-phi, -ones]]),
        b_ub=np.concatenate([values, -values]),
        bounds=[(None, None)] * d + [(0, None)],
    )
    if found.x is None:
        raise ProblemError(f"the best fit of {d} features to {n} values was not found: {found.message}")
    theta: Array = found.x[:d]
    return theta, float(np.abs(values - phi @ theta).max())
