"""Gymnasium environments with discrete actions as problems.

Local access must return to states seen before.  The fastest faithful way is chosen per environment: its transition
table, two functions, the content of its attributes, a copy, or its actions taken again; each is first compared with an
undisturbed environment (:mod:`tensorplan.problems.gym.restoring.faithful`).  Random numbers of the environment come
from the generator of the query, so that repeated queries are independent samples.

The time limit of an environment becomes the horizon, and both termination and truncation are END.  Rewards, returns
and certificates are in the units of the environment: planners accept any range of rewards.  (Shifting rewards would
change the optimal policy if episodes can end early.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorplan.core import Problem
from tensorplan.core.errors import BadInput, shown
from tensorplan.core.specs import number, one_of, whole
from tensorplan.features import PointFeatures, resolve
from tensorplan.problems.random.featurize import SLACK, featurize, reachable, realizing
from tensorplan.problems.tables.tabular import TabularMDP, solve_tabular

RESTORE = ("auto", "table", "adapter", "attributes", "deepcopy", "replay")
"""Ways to restore a state."""
OUTSIDE = ("refuse", "clip")
"""What to do with observations outside of the frame."""


def from_gym(
    env: Any,
    *,
    features: Any = "linear",
    kind: str = "v",
    horizon: int | str | None = "limit",
    discount: float = 1.0,
    bound: float | None = None,
    scale: float = 1.0,
    observation: Any = "auto",
    frame: Any = None,
    outside: str = "refuse",
    reward_range: tuple[float, float] | str | None = None,
    return_range: tuple[float, float] | None = None,
    deterministic: bool | None = None,
    restore: str = "auto",
    get_state: Callable[[Any], Any] | None = None,
    set_state: Callable[[Any, Any], Any] | None = None,
    verify: bool | int = True,
    ignore: Sequence[str] = (),
    seed: int = 0,
    name: str | None = None,
    retries: int = 0,
    **options: Any,
) -> Problem:
    """The environment as a Problem.

    ``env``: an id (``options`` are passed to ``gymnasium.make``), an environment, which is copied, or a function that
    makes one.  ``features``: a spec such as ``"poly2"`` (:mod:`tensorplan.features`), a function of the coordinates, a
    fitted scikit-learn transformer, a module of PyTorch (its last hidden layer), or a list of these, with ``scale`` for
    functions; or, for environments with a table, ``"realizing5"``: d = 5 features computed from the exact solution, for
    benchmarks.  ``kind``: "v" for φ_v, or "q" for φ_q, with a block of features per action.  ``observation``: how
    observations become coordinates: "auto" (the numbers of single spaces and tuples; dictionaries as Gymnasium flattens
    them, discrete parts one-hot; large images averaged over a grid), "numbers" (just the numbers), "flat" (all as
    Gymnasium flattens it), "image" (images of any size over a grid), or a function of the observation that returns an
    array of numbers.  ``frame``: (low, high) of the coordinates, or a :class:`~tensorplan.features.Frame`; by default
    the bounds of the observation space, or, where it is unbounded, the range seen in random play plus a
    margin.  ``outside``: an observation outside of the frame is an error ("refuse"), or is moved to the nearest point
    of it ("clip"), so that features do not separate such states; ``problem.mdp.clipped`` counts them.
    ``horizon``: a number of steps, "limit" for the environment's time limit, or None to ignore it.  ``bound``: B; by
    default computed from the exact solution if there is a table, else the largest possible return times √d, which is
    enough for indicators, and assumed for other features.  ``reward_range``: (low, high), or "probe" for the range seen
    in random episodes; known for tables, classic control and some simulators.  ``return_range``: the same for returns,
    from every state, if it is smaller than rewards and horizon imply, such as (0, 1) for a single prize; it saves
    queries in stochastic problems.  ``deterministic``: tested if not given.

    ``get_state(env)`` and ``set_state(env, state)`` say how to go back to a state; without them the fastest faithful
    way is found, or the one that ``restore`` names: "table", "adapter", "attributes", "deepcopy" or "replay".
    ``verify``: the steps that are compared with an undisturbed environment; True takes 200, or 5 seconds, and False
    compares nothing.  ``ignore``: attributes, such as a counter of steps, that are kept at their values after a reset,
    and so are no part of the state.  ``retries``: how often a step that raises is retried.  ``problem.mdp.restoring``
    says what was found, and ``problem.unmetered`` counts the steps that this took.
    """
    try:
        from tensorplan.problems.gym.opening import Opened
        from tensorplan.problems.gym.restoring.faithful import Diligence
    except ModuleNotFoundError as error:
        raise BadInput("from_gym needs Gymnasium: pip install 'tensorplan[gym]'") from error

    one_of("kind", kind, ("v", "q"))
    one_of("restore", restore, RESTORE)
    one_of("outside", outside, OUTSIDE)
    number("discount", discount, 0.0, 1.0)
    if (get_state is None) != (set_state is None):
        raise BadInput("give both get_state and set_state, or neither")
    opened = Opened(env, options, frame, outside == "clip", observation)
    mdp = opened.mdp(
        horizon=horizon,
        reward_range=reward_range,
        deterministic=deterministic,
        restore=restore,
        functions=None if get_state is None or set_state is None else (get_state, set_state),
        seed=whole("seed", seed, 0),
        effort=Diligence.of(verify),
        ignore=_names(ignore),
    )
    if return_range is not None:
        mdp.return_range = return_range
    if (d := realizing(features)) is None:
        problem = _featured(mdp, features, kind, discount, bound, scale, seed, name or opened.name)
        return replace(problem, retries=retries, unmetered=opened.probed)
    if not isinstance(mdp, TabularMDP):
        raise BadInput(f"{features!r} is made from the exact solution, and {opened.name} has no transition table")
    label = name or f"{opened.name} with {features} features"
    problem = featurize(mdp, d, kind=kind, bound=bound, discount=discount, seed=seed, name=label)
    return replace(problem, retries=retries, unmetered=opened.probed)


def _names(ignore: Sequence[str] | str) -> tuple[str, ...]:
    """The attributes to ignore; one, or several with commas, may be given as text."""
    if isinstance(ignore, str):
        return tuple(name.strip() for name in ignore.split(","))
    names = tuple(ignore) if isinstance(ignore, Iterable) else (ignore,)
    if not all(isinstance(name, str) for name in names):
        raise BadInput(f"ignore must be names of attributes, got {shown(ignore)}")
    return names


def gym(env: str, features: str = "linear", seed: int = 0, **options: Any) -> Problem:
    """The problem for a name such as ``gym/CliffWalking-v1:features=poly2``."""
    if "name" in options:
        raise BadInput("'gym' has no parameter 'name': its problems are named after their parameters")
    for key in ("get_state", "set_state"):
        if options.get(key) is not None and not callable(options[key]):
            raise BadInput(f"{key} must be a function, got {shown(options[key])}")
    rewards = options.get("reward_range")
    if isinstance(rewards, str | int | float) and rewards != "probe":
        raise BadInput(f"reward_range must be probe, or from Python a pair (low, high), got {shown(rewards)}")
    given = {"features": features, **({"seed": seed} if seed else {}), **options}
    name = f"gym/{env}" + "".join(f":{key}={str(value).lower()}" for key, value in given.items())
    return from_gym(env, features=features, seed=seed, name=name, **options)


def _featured(
    mdp: Any, features: Any, kind: str, discount: float, bound: float | None, scale: float, seed: int, label: str
) -> Problem:
    chosen = resolve(features, mdp.frame, seed=seed, scale=scale)
    phi = PointFeatures(mdp, chosen, mdp.actions if kind == "q" else None)
    solution = solve_tabular(mdp, discount) if isinstance(mdp, TabularMDP) else None
    if bound is None:
        bound = _fitted_bound(mdp, phi, solution, kind) if isinstance(mdp, TabularMDP) else None
    phi_v, phi_q = (phi, None) if kind == "v" else (None, phi)
    problem = Problem(mdp, phi_v, phi_q, bound=bound or 1.0, name=label, solution=solution, discount=discount)
    return problem if bound else replace(problem, bound=_assumed_bound(problem, chosen.dimension))


def _assumed_bound(problem: Problem, dimension: int) -> float:
    """The largest return there can be, times √d: enough where features are indicators, and assumed elsewhere."""
    largest = max(map(abs, problem.return_range(0)))
    if not math.isfinite(largest):
        raise BadInput(
            f"the bound on ‖θ*‖ is not known for {problem.name}: give bound=B, such as the largest value you expect "
            f"times the square root of the number of features, {dimension}"
        )
    return largest * math.sqrt(dimension) or 1.0


def _fitted_bound(mdp: TabularMDP, phi: PointFeatures, solution: Any, kind: str) -> float:
    """Slightly more than the norm of the θ that fits the exact solution best, by least squares, on reachable states."""
    square: Any = 0.0
    moment: Any = 0.0  # normal equations, summed over stages: a table with a horizon has many rows
    for stage, mask in enumerate(reachable(mdp)):
        states = [mdp.states(stage)[index] for index in np.flatnonzero(mask).tolist()]
        rows = phi.many(states, stage)
        target = (solution.v if kind == "v" else solution.q)[stage][mask].ravel()
        square, moment = square + rows.T @ rows, moment + rows.T @ target
    theta = np.linalg.lstsq(square, moment, rcond=None)[0]
    return float(SLACK * np.linalg.norm(theta)) or 1.0
