"""The random generators of an environment: found, and replaced by that of the query."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
"""The kinds of generators; contents name them by their place here."""

SKIPPED = ("env", "spec", "_np_random", "_np_random_seed", "_cached_spec", "render_mode", "metadata")
"""Attributes of environments and wrappers that are not part of a state."""

DEPTH = 4
"""The depth of nested objects that are searched for random generators."""


class Forbidden:
    """Replaces the generator of an environment that never drew from it: a draw is an error."""

    def __deepcopy__(self, memo: Any) -> Forbidden:
        return self

    def __reduce__(self) -> str:
        return "FORBIDDEN"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(
            "this step draws a random number, but none of those that were tried did: "
            "use from_gym(..., deterministic=False)"
        )


FORBIDDEN = Forbidden()


class _PythonRandom(random.Random):
    """Python's generator, with its numbers drawn from one of NumPy."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        super().__init__(0)

    def random(self) -> float:
        """Uniform on [0, 1)."""
        return self._rng.random()

    def getrandbits(self, k: int, /) -> int:
        """k random bits."""
        return int.from_bytes(self._rng.bytes((k + 7) // 8)) >> (-k % 8)

    def seed(self, *args: Any, **kwargs: Any) -> None:
        """The generator of the query stays."""
        self.gauss_next = None


class Generators:
    """The generator of a query, as each of the kinds that environments use.

    They share one stream.  Those that are not NumPy's Generator are made anew for each query: they keep a second
    Gaussian number in store, which would link queries.
    """

    def __init__(self) -> None:
        self._made: list[Any] = [None, None, None]

    def use(self, rng: Any) -> None:
        """Take up the generator of a query."""
        self._made = [rng, None, None]

    def like(self, kind: int) -> Any:
        """The generator as one of that kind."""
        if self._made[kind] is None:
            rng = self._made[0]
            if isinstance(rng, Forbidden):
                self._made[kind] = rng
            else:
                self._made[kind] = np.random.RandomState(rng.bit_generator) if kind == 1 else _PythonRandom(rng)
        return self._made[kind]


def kind_of(generator: Any) -> int:
    """The place of its type in :data:`GENERATORS`."""
    return next(i for i, kind in enumerate(GENERATORS) if isinstance(generator, kind))


class Randomness:
    """The places of an environment that hold random generators."""

    def __init__(self, env: Any) -> None:
        self.generators = Generators()
        self._bare = env.unwrapped
        self.elsewhere = [
            (depth, path, kind_of(found))
            for depth, layer in enumerate(layers(env))
            for path, found in _paths(layer, DEPTH, {id(env)})
        ]
        """(layer, attribute path, kind) of generators other than Gymnasium's own."""

    def set(self, env: Any, rng: Any) -> None:
        """Make all random numbers of the environment come from ``rng``."""
        env.unwrapped._np_random = rng
        if self.elsewhere:
            generators = self.generators
            generators.use(rng)
            for depth, path, kind in self.elsewhere:
                owner = layers(env)[depth]
                for name in path[:-1]:
                    owner = getattr(owner, name)
                setattr(owner, path[-1], generators.like(kind))


def layers(env: Any) -> list[Any]:
    """The wrappers of an environment and the environment itself, outermost first."""
    innermost = env.unwrapped
    if innermost is env:
        return [env]
    found = [env]
    while found[-1] is not innermost:
        found.append(found[-1].env)
    return found


def _paths(owner: Any, depth: int, seen: set[int]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, x in list(getattr(owner, "__dict__", {}).items()):
        if name in SKIPPED or id(x) in seen:
            continue
        if isinstance(x, GENERATORS):
            yield (name,), x
        elif depth and hasattr(x, "__dict__") and not isinstance(x, type | gymnasium.Space):
            seen.add(id(x))
            yield from (((name, *rest), found) for rest, found in _paths(x, depth - 1, seen))
