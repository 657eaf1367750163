"""The only registry of problems: ``"hanoi/8"`` -> Problem, and those of the user's own by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from re import compile as pattern
from typing import Any

from tensorplan.core import Problem
from tensorplan.core.errors import BadInput, shown
from tensorplan.core.specs import call, literal, lookup, parameters, whole
from tensorplan.core.user_code import is_user_code, load, parse_name
from tensorplan.problems.cases.bermudan import max_call, put
from tensorplan.problems.cases.inventory import lost_sales
from tensorplan.problems.cases.option import american_put
from tensorplan.problems.cases.queueing import queue_admission
from tensorplan.problems.gym.convert import gym
from tensorplan.problems.hard.constant_gap import constant_gap
from tensorplan.problems.hard.exponential import exponential
from tensorplan.problems.hard.mdp import hard
from tensorplan.problems.puzzles import chinese_rings, grid, hanoi
from tensorplan.problems.random.layered import layered


@dataclass(frozen=True)
class Entry:
    """How to build one family of problems from a name."""

    build: Callable[..., Problem]
    size: tuple[str, ...]
    """The parameters behind the slash, separated by x; a single name with a star takes them all, one with an equals
    sign the text as it stands."""
    example: str
    about: str
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verbatim(self) -> bool:
        """Whether the part behind the slash is text that stands for itself."""
        return bool(self.size) and self.size[0].startswith("=")

    @property
    def seeded(self) -> bool:
        """Whether instances are random, drawn by a parameter ``seed``."""
        return "seed" in inspect.signature(self.build).parameters

    def sized(self, spec: str, size: str) -> dict[str, Any]:
        """The parameters that the part behind the slash gives."""
        if not size:
            return {}
        if self.verbatim:
            return {self.size[0][1:]: size}
        values = [literal(part) for part in size.split("x")]
        if self.size[0].startswith("*"):
            return {self.size[0][1:]: values}
        if len(values) != len(self.size):
            raise BadInput(f"{spec!r}: expected {'x'.join(self.size)} behind the slash, as in {self.example!r}")
        return dict(zip(self.size, values, strict=True))

    def parameters(self, spec: str, size: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """All that a spec of this family says, and the defaults of the family."""
        sized = self.sized(spec, size)
        for key in sized:
            if key in options:
                raise BadInput(f"{spec!r}: {key!r} is given twice, behind the slash and behind the colon")
        return {**self.defaults, **sized, **options}


CATALOG: dict[str, Entry] = {
    "hanoi": Entry(hanoi, ("disks",), "hanoi/6", "Towers of Hanoi: d = disks, A = 3, 2^n - 1 steps"),
    "chinese-rings": Entry(chinese_rings, ("rings",), "chinese-rings/6", "Chinese rings (Gray code): d = rings, A = 2"),
    "grid": Entry(grid, ("*sides",), "grid/5x5", "open grid of any dimension: d = sides, A = 2d"),
    "layered": Entry(layered, ("actions", "d"), "layered/4x10", "random layered MDP, deterministic, of any size"),
    "layered-stochastic": Entry(
        layered,
        ("actions", "d"),
        "layered-stochastic/2x3",
        "the same with random steps, Bernoulli rewards",
        defaults={"states": 50, "horizon": 5, "branching": 3, "noise": True},
    ),
    "hard": Entry(hard, ("p", "K"), "hard/2x3", "hard MDPs of the lower bound: A = p, horizon Kp, a hidden secret"),
    "exponential": Entry(exponential, ("d",), "exponential/64", "one of e^(d/32) actions pays: linear q*, exact steps"),
    "constant-gap": Entry(constant_gap, ("d",), "constant-gap/64", "the same with a constant gap and random steps"),
    "queue-admission": Entry(
        queue_admission, ("capacity",), "queue-admission/10", "M/M/c queue, discounted: let a customer in, or not"
    ),
    "american-put": Entry(american_put, ("dates",), "american-put/6", "American put on a tree: hold it or exercise it"),
    "put": Entry(put, ("=case",), "put/36-20-1", "put on a share: price, volatility in per cent, years"),
    "max-call": Entry(max_call, ("shares",), "max-call/2", "call on the dearest of several shares"),
    "lost-sales": Entry(lost_sales, ("lead",), "lost-sales/2", "inventory: how much to order, lead time, lost sales"),
    "gym": Entry(gym, ("=env",), "gym/Taxi-v4:features=realizing5", "any Gymnasium environment"),
}

ENVIRONMENT = pattern(r"(?:[^\W\d][\w.]*:)?(?:[^\W\d][\w.-]*/)?[^\W\d][\w.-]*-v\d+(?=:|$)")
"""An id of Gymnasium: ``name-v1``, behind a namespace and a slash, behind a module to import and a colon."""


def make(spec: str, **params: Any) -> Problem:
    """The problem of that name: ``make("hanoi/8")``, ``make("layered", actions=4, d=10, seed=1)``.

    ``make("FrozenLake-v1:features=poly2")``, ``make("gym/minigrid:MiniGrid-Empty-8x8-v0", features=...)`` are
    Gymnasium's environments.

    ``make("mymodule:make_problem:size=5")`` and ``make("./mine.py:make_problem")`` import the module or run the file,
    and call the function, which returns a Problem.
    """
    name, entry, said = find(spec)
    return _checked(call(name, entry.build, {**said, **params}), f"{name!r} must return a problem, got")


def instance(spec: str, seed: int) -> Problem:
    """The seed-th instance of a random family; the one problem that there is otherwise."""
    _, entry, said = find(spec)
    if not entry.seeded or "seed" in said:
        return make(spec)
    return make(spec, seed=whole("seed", seed, 0))


def as_problem(problem: Problem | str, seed: int = 0) -> Problem:
    """A problem as it is, or the one of a name; of a random family that is named without a seed, the seed-th."""
    if isinstance(problem, str):
        return instance(problem, seed)
    return _checked(problem, "expected a problem, or the name of one such as 'hanoi/3', got")


def find(spec: str) -> tuple[str, Entry, dict[str, Any]]:
    """The name, the family and the parameters that a spec gives."""
    name, size, options = take_apart(spec)
    if is_user_code(name):
        return name, Entry(load(name), (), name, "a problem of the user's own"), options
    entry = lookup("problem", name, CATALOG)
    return name, entry, entry.parameters(spec, size, options)


def is_environment(spec: str) -> bool:
    """Whether a spec begins with an id of Gymnasium, rather than with a name of the catalog or of user code."""
    return ENVIRONMENT.match(spec.strip()) is not None and spec.strip().partition("/")[0] not in CATALOG


def take_apart(spec: str) -> tuple[str, str, dict[str, Any]]:
    """The name, the size and the parameters of a spec; user code, and Gymnasium's ``module:id``, keep their colon.

    An id by itself, such as ``FrozenLake-v1`` or ``minigrid:MiniGrid-Empty-8x8-v0``, is short for ``gym/`` and the id.
    """
    if not isinstance(spec, str):
        raise BadInput(f"expected the name of a problem such as 'hanoi/3', got {shown(spec)}")
    if is_environment(spec):
        spec = f"gym/{spec.strip()}"
    head, *options = spec.split(":")
    name, _, size = (part.strip() for part in head.partition("/"))
    if name in CATALOG and CATALOG[name].verbatim and options and options[0] and "=" not in options[0]:
        return name, f"{size}:{options[0].strip()}", parameters(spec, options[1:])
    return parse_name(spec, CATALOG)


def _checked(thing: Any, lead: str) -> Problem:
    """The problem, or BadInput that says what it is instead."""
    if isinstance(thing, Problem):
        return thing
    raise BadInput(f"{lead} {shown(thing)}{_instead(thing)}")


def _instead(thing: Any) -> str:
    if isinstance(thing, type):
        return ", a class: make an instance of it"
    if hasattr(thing, "begin"):
        return ", a planner: the problem comes first, then the planner"
    if hasattr(thing, "step") and hasattr(thing, "start"):
        return ", an MDP without features: make a problem of it, as in tensorplan.Problem(mdp, phi_v=.., bound=..)"
    if hasattr(thing, "step") and hasattr(thing, "reset"):
        return ", an environment: make a problem of it, as in tensorplan.from_gym(env, features='poly2')"
    return ", a function: call it first" if callable(thing) else ""
