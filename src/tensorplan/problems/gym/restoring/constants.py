"""Attributes of an environment that steps do not change, and counters that every step changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tensorplan.core.errors import BadInput
from tensorplan.core.specs import suggestion
from tensorplan.problems.gym.restoring.layers import SKIPPED, layers
from tensorplan.problems.gym.restoring.ways import STATE_OF

ATOMS = (type(None), bool, int, float, complex, str, bytes, np.bool_, np.number, range)
"""Immutable types, with their subclasses."""

DRAWN = ("taxi_orientation", "lastaction", "isopen")
"""Attributes of Gymnasium's own environments that only concern rendering."""

OPAQUE = object()
"""Replaces a value that is not plain data."""

DEPTH = 2
"""The depth of nested objects that are searched for counters."""

COUNTED = 3
"""The fewest steps over which a counter is recognised."""


class FixedAttributes:
    """The plain attributes that steps and resets do not change, such as gravity, masses or a map."""

    def __init__(self, env: Any) -> None:
        module = type(env.unwrapped).__module__
        state = [names for package, names in STATE_OF.items() if module.startswith(package)]
        self.sure = bool(state)
        """Whether the changing attributes are known; if not, constants are those that were not seen to change."""
        self._varying = {*SKIPPED, *DRAWN, *(state[0] if state else ())}
        self._kind = type(env.unwrapped)
        self._values = self._read(env)

    def settle(self, env: Any) -> None:
        """Drop the attributes that changed since construction, by steps and resets only."""
        now = self._read(env)
        for name in [name for name, value in self._values.items() if name not in now or now[name] != value]:
            del self._values[name]
            self._varying.add(name)

    def renew(self, env: Any) -> None:
        """Replace the stored values by the current ones."""
        self._values |= self._read(env)

    def changed(self, env: Any) -> str | None:
        """The name of an attribute that changed; None if there is none, or for an environment of another class."""
        if type(env.unwrapped) is not self._kind:
            return None
        for name, now in self._read(env).items():
            before = self._values.get(name, OPAQUE)
            if before is OPAQUE and hasattr(self._kind, name):  # it shadows an attribute of the class
                before = _plain(getattr(self._kind, name))
            if before is not OPAQUE and before != now:
                return name
        return None

    def _read(self, env: Any) -> dict[str, Any]:
        """The plain attributes in comparable form."""
        own = {name: _plain(x) for name, x in vars(env.unwrapped).items() if name not in self._varying}
        return {name: x for name, x in own.items() if x is not OPAQUE}


def _plain(x: Any) -> Any:
    """Numbers, strings, arrays and containers of them in comparable form; else :data:`OPAQUE`."""
    try:
        return _frozen(x)
    except (TypeError, RecursionError):
        return OPAQUE


def _frozen(x: Any) -> Any:
    """Plain data in hashable form, equal iff the data are."""
    if type(x) is np.ndarray and x.dtype.kind != "O":
        return (x.dtype.char, x.shape, x.tobytes())
    if isinstance(x, ATOMS):
        return x
    if isinstance(x, list | tuple):
        return tuple([_frozen(y) for y in x])
    if isinstance(x, dict):
        return tuple([(_frozen(key), _frozen(y)) for key, y in x.items()])
    if isinstance(x, set | frozenset):
        return frozenset(_frozen(y) for y in x)
    raise TypeError


# ------------------------------------------------------------------------------------------ counters


class Pinned:
    """Attributes that are set back, after each step, to what they were after a reset, and so are no part of a state.

    ``paths``: names such as ``"step_count"`` or ``"game.env.terminate_timer"``, of the environment or a wrapper.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        self._values: dict[str, Any] = {}

    def begin(self, env: Any) -> None:
        """Note the values after a reset; those of the first reset stay."""
        for path in self.paths:
            self._values.setdefault(path, getattr(*_owner(env, path)))
        self.set(env)

    def set(self, env: Any) -> None:
        """Set the attributes back."""
        for path, value in self._values.items():
            setattr(*_owner(env, path), value)


def _owner(env: Any, path: str) -> tuple[Any, str]:
    """The object that has the attribute, and the attribute's own name."""
    *way, name = path.split(".")
    for layer in layers(env):
        found: Any = layer
        for step in way:
            found = vars(found).get(step) if hasattr(found, "__dict__") else None
        if hasattr(found, "__dict__") and name in vars(found):
            return found, name
    listed = [path for path, _ in numbers(env)]
    raise BadInput(f"ignore: {env.unwrapped} has no attribute {path!r}; {suggestion(path, listed)}")


def numbers(env: Any) -> Iterator[tuple[str, float]]:
    """The attributes of an environment, of its wrappers and of the objects in them that are numbers."""
    for layer in reversed(layers(env)):
        yield from _numbers(layer, "", DEPTH, {id(each) for each in layers(env)})


def _numbers(owner: Any, path: str, depth: int, seen: set[int]) -> Iterator[tuple[str, float]]:
    for name, x in list(vars(owner).items()):
        if type(x) in (int, float) or isinstance(x, np.integer | np.floating):
            yield path + name, float(x)
        elif depth and id(x) not in seen and hasattr(x, "__dict__") and not isinstance(x, type):
            seen.add(id(x))
            yield from _numbers(x, f"{path}{name}.", depth - 1, seen)


def counters(readings: Sequence[Sequence[dict[str, float]]]) -> list[str]:
    """The attributes that grow by the same amount in every step, from the same number on; by episode and step.

    Those that count down are timers: something happens at their end.
    """
    if sum(len(episode) - 1 for episode in readings) < COUNTED:
        return []
    found = []
    for path, first in readings[0][0].items():
        values = [[reading.get(path) for reading in episode] for episode in readings]
        if any(None in episode or episode[0] != first for episode in values):
            continue
        changes = {two - one for episode in values for one, two in pairwise(episode)}  # type: ignore[operator]
        if len(changes) == 1 and min(changes) > 0:
            found.append(path)
    return found
