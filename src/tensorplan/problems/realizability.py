"""The distance of features from realizing v* or q*, for problems that are small tables."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tensorplan.core import Array, Problem, State
from tensorplan.features.misfit import Fitter
from tensorplan.features.points import PointFeatures
from tensorplan.problems.random.featurize import reachable
from tensorplan.problems.tables.tabular import TabularMDP, solve_tabular

ROWS = 20_000
"""Most reachable states, times actions for q*, for which the fit is fast enough to compute unasked."""

REALIZED = 1e-9
"""A misfit relative to the largest value up to which features count as realizing (rounding)."""

ENTRIES = 1_000_000
"""Most entries of the matrix of features, likewise."""


class Misfit(NamedTuple):
    """The distance of features from realizing the optimal values at the reachable states."""

    least: float
    """A lower bound on the largest error of every θ with ‖θ‖ <= B."""
    places: tuple[tuple[int, State], ...]
    """(stage, state) of states that imply this bound."""
    bound: float | None
    """The norm of a θ that realizes the values; None if there is none."""
    kind: str
    """``"v"`` or ``"q"``."""


_known: WeakKeyDictionary[Problem, dict[str, Misfit | None]] = WeakKeyDictionary()


def misfit_of(problem: Problem, kind: str) -> Misfit | None:
    """The misfit of φ_v to v* ("v") or of φ_q to q* ("q"); None unless the problem is a small table."""
    known = _known.setdefault(problem, {})
    if kind not in known:
        known[kind] = _misfit(problem, kind)
    return known[kind]


def _misfit(problem: Problem, kind: str) -> Misfit | None:
    mdp = problem.mdp
    if not isinstance(mdp, TabularMDP):
        return None
    per_stage = len(mdp.states(0)) * (1 if kind == "v" else mdp.actions)
    if per_stage * (mdp.horizon or 1) > 10 * ROWS:
        return None
    places = [
        (stage, mdp.states(stage)[i])
        for stage, mask in enumerate(reachable(mdp))
        for i in np.flatnonzero(mask).tolist()
    ]
    rows = len(places) * (1 if kind == "v" else mdp.actions)
    if rows > ROWS or rows * problem.dimension > ENTRIES:
        return None
    exact = solve_tabular(problem)
    targets = [
        exact.v[stage][mdp.index(state, stage)] if kind == "v" else exact.q[stage][mdp.index(state, stage)]
        for stage, state in places
    ]
    fit = Fitter(_features(problem, kind, places), np.concatenate([np.atleast_1d(x) for x in targets]))
    found = fit.within(problem.bound)
    each = 1 if kind == "v" else mdp.actions
    where = tuple(dict.fromkeys(places[i // each] for i in found.support.tolist()))
    realized = fit.best().upper <= REALIZED * fit.scale
    return Misfit(found.lower, where, fit.shortest(0.0).upper if realized else None, kind)


def _features(problem: Problem, kind: str, places: list[tuple[int, State]]) -> Array:
    """The features of all places, one row per value; maps of points are evaluated in one batch."""
    phi = problem.phi_v if kind == "v" else problem.phi_q
    if kind == "v" and isinstance(phi, PointFeatures):
        points = np.array([phi.places.point(state) for _, state in places])
        return phi.map.many(points, [stage for stage, _ in places])
    each = problem.state_features if kind == "v" else problem.action_features
    return np.concatenate([np.atleast_2d(each(state, stage)) for stage, state in places])
