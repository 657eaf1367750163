"""Finite MDPs with given features: the best fit of v*, and its error.

    η = min_θ max_s |v*(s) - <φ(s), θ>|

over the states of all stages (:mod:`tensorplan.features.misfit`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from tensorplan.core import MDP, Array, OptimalValues, Problem, State
from tensorplan.features import Frame, build
from tensorplan.features.misfit import Fitter
from tensorplan.problems.random.featurize import SLACK, featurize, realizing
from tensorplan.problems.tables.tabular import TabularMDP, solve_tabular


class Numbered(MDP, Protocol):
    """An MDP whose states are numbered, such as a table."""

    def index(self, state: State, stage: int) -> int:
        """The position of a state among those of its stage."""


class NumberedValues(OptimalValues, Protocol):
    """The optimal values of numbered states."""

    @property
    def v(self) -> tuple[Array, ...]:
        """v* by stage, each (S,) in the order of ``index``."""


def featured(
    mdp: TabularMDP, features: str, frame: Frame, point: Callable[[int, int], Array], *, discount: float, name: str
) -> Problem:
    """The MDP with features by name: ``"realizing"`` (d = 5), ``"realizing3"``, or a spec such as ``"poly2"``.

    ``point(state, stage)`` is the point of a state in the frame, for specs (:mod:`tensorplan.features`).
    """
    if (d := realizing(features)) is not None:
        return featurize(mdp, d, discount=discount, name=name)
    phi = build(features, frame)
    stages = range(mdp.horizon or 1)
    tables = [np.array([phi(point(state, stage), stage) for state in mdp.states(stage)]) for stage in stages]
    return fitted(mdp, tables, discount=discount, name=name)


def fitted(
    mdp: Numbered, tables: Sequence[Array], *, discount: float, name: str, solution: NumberedValues | None = None
) -> Problem:
    """The MDP with φ_v from tables, (S, d) per stage; θ* is the best fit of v*, and η its error.

    All features are divided by the largest norm.  ``solution`` may be omitted for tables, which are solved.
    """
    if solution is None:
        assert isinstance(mdp, TabularMDP)
        solution = solve_tabular(mdp, discount)
    largest = max(float(np.linalg.norm(table, axis=1).max()) for table in tables)
    phi = [table / largest for table in tables]
    best = Fitter(np.concatenate(phi), np.concatenate(solution.v[: len(phi)])).best()
    return Problem(
        mdp,
        lambda state, stage: phi[stage][mdp.index(state, stage)],
        bound=SLACK * (float(np.linalg.norm(best.theta)) or 1.0),
        name=name,
        solution=solution,
        theta=best.theta,
        eta=best.upper,
        discount=discount,
    )
