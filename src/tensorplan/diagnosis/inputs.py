"""What is diagnosed: a problem by name, of the catalog or of Gymnasium, with its own features or others."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorplan.core import Array, Problem, State
from tensorplan.core.errors import BadInput, Refused
from tensorplan.core.specs import one_of
from tensorplan.core.user_code import is_user_code
from tensorplan.diagnosis.clock import Clock
from tensorplan.diagnosis.targets import UNLIMITED, search
from tensorplan.features import Frame, PointFeatures, resolve
from tensorplan.problems.catalog import CATALOG, instance, is_environment, make, take_apart
from tensorplan.problems.gym.packages import register_package
from tensorplan.problems.tables.tabular import TabularMDP

SEARCHED = 200_000
"""The largest number of places that a search for the coordinates of states visits."""


@dataclass(frozen=True)
class Points:
    """States as points of a frame, which feature maps are functions of."""

    frame: Frame
    point: Callable[[State], Array]


def points_of(problem: Problem, *, states: int = SEARCHED, clock: Clock = UNLIMITED) -> Points:
    """The coordinates of states: those of the environment, the number of a table's state, or the entries of tuples.

    The frame of tuples is that of the reachable states: at most ``states`` places are searched, until the clock is out.
    """
    mdp: Any = problem.mdp
    if hasattr(mdp, "frame") and hasattr(mdp, "point"):
        return Points(mdp.frame, mdp.point)
    if isinstance(mdp, TabularMDP):
        last = max(mdp.states(stage)[-1] for stage in range(mdp.horizon or 1))
        return Points(Frame((0.0,), (float(last),), whole=True, names=("state",), horizon=problem.horizon), _point)
    try:
        found = search(problem, states, clock)
    except Refused as refusal:
        raise BadInput(
            f"the states of problem {problem.name!r} cannot be listed, so their coordinates are not known: {refusal}"
        ) from None
    try:
        points = np.array([_point(state) for _, state in found])
    except (TypeError, ValueError):
        raise BadInput(
            f"the states of problem {problem.name!r}, such as {found[0][1]!r}, are not numbers or tuples of them, so "
            "features have no coordinates to look at"
        ) from None
    whole = bool((points == np.round(points)).all())
    low, high = points.min(axis=0), points.max(axis=0)
    return Points(Frame(tuple(low.tolist()), tuple(high.tolist()), whole=whole, horizon=problem.horizon), _point)


def _point(state: State) -> Array:
    return np.atleast_1d(np.asarray(state, dtype=np.float64))


def refeatured(
    problem: Problem, features: Any, *, kind: str = "v", bound: float | None = None, seed: int = 0, **search: Any
) -> Problem:
    """The problem with other features of its states' coordinates, for v*, or for q* with a block for each action.

    ``search`` are limits of the search for coordinates (:func:`points_of`).
    """
    one_of("kind", kind, ("v", "q"))
    points = points_of(problem, **search)
    chosen = resolve(features, points.frame, seed=seed)
    phi = PointFeatures(points, chosen, problem.actions if kind == "q" else None)
    phi_v, phi_q = (phi, None) if kind == "v" else (None, phi)
    return replace(
        problem,
        phi_v=phi_v,
        phi_q=phi_q,
        bound=problem.bound if bound is None else bound,
        name=f"{problem.name} with {chosen.name}",
        theta=None,
        eta=0.0,
    )


def named(
    name: str,
    *,
    features: str | None = None,
    kind: str | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    bound: float | None = None,
    seed: int = 0,
    **search: Any,
) -> Problem:
    """The problem of a name, such as ``"hanoi/6"`` or ``"FrozenLake-v1"``; features are its own, or those of a spec."""
    family, env, said = take_apart(name)
    if family == "gym":
        options = {"features": features, "kind": kind, "horizon": horizon, "discount": discount, "bound": bound}
        return _environment(name, env, said, {k: v for k, v in options.items() if v is not None}, seed)
    if family not in CATALOG and not is_user_code(family):
        raise _unknown(name)
    if horizon is not None:
        raise BadInput(f"a horizon of {name!r} is part of its name, as in layered/4x10:horizon=20")
    problem = instance(name, seed)
    if discount is not None and discount != problem.discount:
        problem = replace(problem, discount=discount, solution=None, theta=None)
    if bound is not None:
        problem = replace(problem, bound=bound)
    return problem if features is None else refeatured(problem, features, kind=kind or "v", seed=seed, **search)


def _environment(name: str, env: str, said: dict[str, Any], options: dict[str, Any], seed: int) -> Problem:
    """The problem of an environment: what its name says, and options, which come first."""
    if is_environment(name) and ":" not in env and env not in _ids() and not register_package(env):
        raise _unknown(env)  # module:id is looked up by Gymnasium
    if "features" not in (given := {"seed": seed, **said, **options}):
        raise BadInput(f"{name!r} has no features of its own: name some, as in --features poly2")
    problem = make(name, **given)
    return problem if said else replace(problem, name=env)


def _ids() -> list[str]:
    """The ids that Gymnasium knows; others may be registered by a module that is named with them."""
    try:
        from gymnasium.envs.registration import registry
    except ModuleNotFoundError:
        return []
    return list(registry)


def _unknown(name: str) -> BadInput:
    """The error for a name that nothing has, with the nearest ones."""
    ids, examples = _ids(), [entry.example for entry in CATALOG.values()]
    near = [difflib.get_close_matches(name, known, n=1, cutoff=0.4) for known in (examples, ids)]
    guesses = " or ".join(repr(match[0]) for match in near if match) or "'hanoi/6' or 'FrozenLake-v1'"
    missing = "" if ids else " (environments need Gymnasium: pip install 'tensorplan[gym]')"
    return BadInput(f"there is no problem and no environment {name!r}; did you mean {guesses}?{missing}")
