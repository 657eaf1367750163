"""The only registry of problems: ``"hanoi/8"`` -> Problem."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorplan.core import Problem
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import call, literal, lookup, parse, whole
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
    def seeded(self) -> bool:
        """Whether instances are random, drawn by a parameter ``seed``."""
        return "seed" in inspect.signature(self.build).parameters

    def sized(self, spec: str, size: str) -> dict[str, Any]:
        """The parameters that the part behind the slash gives."""
        if not size:
            return {}
        if self.size[0].startswith("="):
            return {self.size[0][1:]: size}
        values = [literal(part) for part in size.split("x")]
        if self.size[0].startswith("*"):
            return {self.size[0][1:]: values}
        if len(values) != len(self.size):
            raise BadInput(f"{spec!r}: expected {'x'.join(self.size)} behind the slash, as in {self.example!r}")
        return dict(zip(self.size, values, strict=True))

    def parameters(self, spec: str) -> dict[str, Any]:
        """All that a spec of this family says, and the defaults of the family."""
        _, size, options = parse(spec)
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
    "gym": Entry(gym, ("=env",), "gym/Taxi-v4:features=realizing5", "any Gymnasium environment"),
}


def make(spec: str, **params: Any) -> Problem:
    """The problem of that name: ``make("hanoi/8")``, ``make("layered", actions=4, d=10, seed=1)``."""
    name, *_ = parse(spec)
    entry = lookup("problem", name, CATALOG)
    return call(name, entry.build, {**entry.parameters(spec), **params})


def instance(spec: str, seed: int) -> Problem:
    """The seed-th instance of a random family; the one problem that there is otherwise."""
    name, _, options = parse(spec)
    entry = lookup("problem", name, CATALOG)
    if not entry.seeded or "seed" in options:
        return make(spec)
    return make(spec, seed=whole("seed", seed, 0))
