"""Checks of the claims about a problem, by family; each family has a module with its claims, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tensorplan.core.errors import BadInput
from tensorplan.core.specs import call, lookup
from tensorplan.core.user_code import is_user_code
from tensorplan.paper.verify.claims import STATES, Check, Progress, Verification
from tensorplan.paper.verify.constant_gap import verify_constant_gap
from tensorplan.paper.verify.exponential import verify_exponential
from tensorplan.paper.verify.hard import verify_hard
from tensorplan.problems.catalog import CATALOG, take_apart
from tensorplan.problems.hard.constant_gap import ConstantGapMDP
from tensorplan.problems.hard.exponential import ExponentialMDP
from tensorplan.problems.hard.mdp import HardMDP

__all__ = ["VERIFIERS", "Check", "Verification", "verify"]


def verify(problem_spec: str, *, seed: int = 0, states: int = STATES, progress: Progress | None = None) -> Verification:
    """The checks of the claims about a problem, as in ``verify("hard/4x2")``.

    ``states`` are sampled if there are too many to check all.
    """
    name, size, options = take_apart(problem_spec)
    if name not in VERIFIERS:
        if not is_user_code(name):
            lookup("problem", name, CATALOG)
        *most, last = (f"{family}/{'x'.join(CATALOG[family].size)}" for family in VERIFIERS)
        raise BadInput(f"only {', '.join(most)} and {last} can be verified so far, got {problem_spec!r}")
    params = {"seed": seed, **CATALOG[name].sized(problem_spec, size), **options}
    check: Callable[..., Verification] = call(f"verify {name}", VERIFIERS[name], params)
    return check(states=states, progress=progress)


def _hard(p: int, K: int, secret: Any = None, seed: int = 0) -> Callable[..., Verification]:
    return partial(verify_hard, HardMDP, p, K, secret=secret, seed=seed)


def _exponential(
    d: int = 64, horizon: int | None = None, actions: int | None = None, secret: int | None = None, seed: int = 0
) -> Callable[..., Verification]:
    return partial(verify_exponential, ExponentialMDP, d, horizon=horizon, actions=actions, secret=secret, seed=seed)


def _constant_gap(
    d: int = 128, horizon: int | None = None, actions: int | None = None, secret: int | None = None, seed: int = 0
) -> Callable[..., Verification]:
    return partial(verify_constant_gap, ConstantGapMDP, d, horizon=horizon, actions=actions, secret=secret, seed=seed)


VERIFIERS: dict[str, Callable[..., Callable[..., Verification]]] = {
    "hard": _hard,
    "exponential": _exponential,
    "constant-gap": _constant_gap,
}
"""By catalog name: from the parameters of a problem to its verifier, a function of ``states`` and ``progress``."""
