"""The random generators of an environment: found, and replaced by that of the query."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import gymnasium
import numpy as np

from tensorplan.problems.gym.restoring.layers import SKIPPED, layers

GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
"""The kinds of generators; contents name them by their place here."""

KEPT = (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType, gymnasium.Space)
"""Types of objects that are not searched for random generators."""

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

    def __deepcopy__(self, memo: Any) -> _PythonRandom:
        return self  # the next step brings another one

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

    def use(self, rng: Any) -> list[Any]:
        """Take up the generator of a query; what there is of each kind."""
        self._made = [rng, None, None]
        return self._made

    def like(self, kind: int) -> Any:
        """The generator as one of that kind."""
        made = self._made[kind]
        if made is None:
            rng = self._made[0]
            if rng is FORBIDDEN:
                made = rng
            else:
                made = np.random.RandomState(rng.bit_generator) if kind == 1 else _PythonRandom(rng)
            self._made[kind] = made
        return made


def kind_of(generator: Any) -> int:
    """The place of its type in :data:`GENERATORS`."""
    return next(i for i, kind in enumerate(GENERATORS) if isinstance(generator, kind))


class Randomness:
    """The places of an environment that hold random generators."""

    def __init__(self, env: Any) -> None:
        stack = layers(env)
        self._bare: Any = env if len(stack) == 1 else None
        self.generators = Generators()
        self.elsewhere = [
            (depth - len(stack), _owner(path), path[-1], kind_of(found))
            for depth, layer in enumerate(stack)
            for path, found in _paths(layer, DEPTH, {id(each) for each in stack})
        ]
        """Of generators other than Gymnasium's own: the layer, counted from behind, their owner, name and kind."""

    def set(self, env: Any, rng: Any) -> None:
        """Make all random numbers of the environment come from ``rng``."""
        stack: list[Any] = [env] if env is self._bare else layers(env)  # the common case is fast
        stack[-1]._np_random = rng
        if self.elsewhere:
            generators = self.generators
            made = generators.use(rng)
            for depth, owner, name, kind in self.elsewhere:
                setattr(owner(stack[depth]), name, made[kind] or generators.like(kind))


def _owner(path: tuple[str, ...]) -> Callable[[Any], Any]:
    """The function from a layer to the object whose attribute is the last of the path."""
    return attrgetter(".".join(path[:-1])) if len(path) > 1 else lambda layer: layer


def _paths(owner: Any, depth: int, seen: set[int]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, x in list(getattr(owner, "__dict__", {}).items()):
        if id(x) in seen or (depth == DEPTH and name in SKIPPED):
            continue
        if isinstance(x, GENERATORS):
            yield (name,), x
        elif depth and hasattr(x, "__dict__") and not isinstance(x, KEPT):
            seen.add(id(x))
            yield from (((name, *rest), found) for rest, found in _paths(x, depth - 1, seen))
