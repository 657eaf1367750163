"""Whether features realize v* or q*, where a table says what these are and is small enough to look."""

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
"""States, times actions for q*, that are looked at most; more is not cheap."""

REALIZED = 1e-9
"""A misfit, relative to the largest value, that is rounding."""

ENTRIES = 1_000_000
"""Numbers in the matrix of their features, likewise."""


class Misfit(NamedTuple):
    """How far features are from realizing the optimal values at the states that can be reached."""

    least: float
    """Every θ with ‖θ‖ <= B misses some value by this or more."""
    places: tuple[tuple[int, State], ...]
    """(stage, state) where no θ does better."""
    bound: float | None
    """A θ of this norm realizes the values; None if none does."""
    kind: str
    """``"v"`` or ``"q"``."""


_known: WeakKeyDictionary[Problem, dict[str, Misfit | None]] = WeakKeyDictionary()


def misfit_of(problem: Problem, kind: str) -> Misfit | None:
    """The misfit of φ_v to v* ("v") or of φ_q to q* ("q"); None where there is no table, or it is too large."""
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
    wanted = [
        exact.v[stage][mdp.index(state, stage)] if kind == "v" else exact.q[stage][mdp.index(state, stage)]
        for stage, state in places
    ]
    fit = Fitter(_features(problem, kind, places), np.concatenate([np.atleast_1d(x) for x in wanted]))
    found = fit.within(problem.bound)
    each = 1 if kind == "v" else mdp.actions
    where = tuple(dict.fromkeys(places[i // each] for i in found.support.tolist()))
    realized = fit.best().upper <= REALIZED * fit.scale
    return Misfit(found.lower, where, fit.shortest(0.0).upper if realized else None, kind)


def _features(problem: Problem, kind: str, places: list[tuple[int, State]]) -> Array:
    """The features of all places, one row for each value; maps of points are asked for many at once."""
    phi = problem.phi_v if kind == "v" else problem.phi_q
    if kind == "v" and isinstance(phi, PointFeatures):
        points = np.array([phi.places.point(state) for _, state in places])
        return phi.map.many(points, [stage for stage, _ in places])
    each = problem.state_features if kind == "v" else problem.action_features
    return np.concatenate([np.atleast_2d(each(state, stage)) for stage, state in places])
