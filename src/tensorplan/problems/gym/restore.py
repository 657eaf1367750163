"""Ways to capture the state of a Gymnasium environment and to put it back.

* :class:`Attributes`: copies of what the environment and its wrappers keep in their attributes; spaces, the spec and
  random generators stay.  The copies are cheap where they are plain data, and make states comparable.
* :class:`Deepcopy`: a copy of the whole environment.
* :class:`Functions`: two functions of the user's, for what lives outside of Python (MuJoCo, ALE).

None of them is trusted: :mod:`tensorplan.problems.gym.faithful` compares each with an undisturbed environment.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Protocol

import gymnasium
import numpy as np

ATOMS = (type(None), bool, int, float, complex, str, bytes, np.bool_, np.number, range)
PLAIN = frozenset({type(None), bool, int, float, str, bytes, np.float64, np.float32, np.int64, np.int32, np.bool_})
"""Types of values that are neither copied nor frozen."""
FIXED = (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType)
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
STAYING = GENERATORS + FIXED
COPIED = frozenset({np.ndarray, list})
"""The mutable ones among the attributes that are known; their entries are numbers."""
SKIPPED = ("env", "spec", "_np_random", "_np_random_seed", "_cached_spec", "render_mode", "metadata")
KNOWN = {
    "gymnasium.envs.toy_text": ("s", "fickle_step", "player", "dealer"),
    "gymnasium.envs.classic_control": ("state", "steps_beyond_terminated"),
}
"""All attributes that change the future in Gymnasium's own environments: the others are tables, constants, pictures."""

OPAQUE = object()
"""What stands for something that is no plain data."""

DRAWN = ("taxi_orientation", "lastaction", "isopen")
"""Attributes of Gymnasium's own environments that rendering changes, or that only pictures show."""

DEPTH = 4
"""How many objects deep random generators are looked for."""


class Held(tuple[Any, ...]):
    """A captured state; as a tuple it is its own identity, so that states are told apart at the speed of tuples."""

    value: Any
    """What it takes to restore it."""
    observation: Any
    """What the environment showed there."""

    def __repr__(self) -> str:
        return f"<{self.observation}>"


class Nameless:
    """A captured state without an identity: no other is equal to it."""

    __hash__ = None  # type: ignore[assignment]

    value: Any
    observation: Any

    def __repr__(self) -> str:
        return f"<{self.observation}>"


def hold(value: Any, observation: Any, key: tuple[Any, ...] | None) -> Held | Nameless:
    """The captured state."""
    state = Nameless() if key is None else Held(key)
    state.value = value
    state.observation = observation.copy() if type(observation) is np.ndarray else observation
    return state


class Way(Protocol):
    """How states are captured and restored."""

    name: str

    def capture(self, env: Any) -> tuple[Any, tuple[Any, ...] | None]:
        """What it takes to restore the state that an environment is in, and its identity or None."""

    def restore(self, env: Any, value: Any) -> Any:
        """The environment in that state: the one given, or another."""


def layers(env: Any) -> list[Any]:
    """The environment and what it wraps, outermost first."""
    innermost = env.unwrapped
    if innermost is env:
        return [env]
    found = [env]
    while found[-1] is not innermost:
        found.append(found[-1].env)
    return found


# ------------------------------------------------------------------------------------------ the ways


class Attributes:
    """Copies of the attributes; see the module."""

    name = "attributes"

    def __init__(self) -> None:
        self._known: dict[type, tuple[int, Any, list[str]]] = {}

    def capture(self, env: Any) -> tuple[Any, tuple[Any, ...] | None]:
        """Copies of the attributes of all layers, and the same as a key where they are plain data."""
        value, key = [], []
        memo: dict[int, Any] = {}
        for layer in layers(env):
            own = layer.__dict__
            names = self._names(layer, own)
            part = [x if type(x) in PLAIN else _copy(x, memo, env) for x in [own[name] for name in names]]
            value.append((names, part))
            key += part
        try:
            return value, tuple([x if type(x) in PLAIN else _freeze(x) for x in key])
        except (_Opaque, RecursionError):
            return value, None

    def restore(self, env: Any, value: Any) -> Any:
        """The same environment, its attributes set to copies of what was captured."""
        memo: dict[int, Any] = {}
        for layer, (names, part) in zip(layers(env), value, strict=True):
            own = layer.__dict__
            present = self._names(layer, own)
            if present is not names and present != names:
                for name in set(present).difference(names):
                    del own[name]
            for name, x in zip(names, part, strict=True):
                own[name] = x if type(x) in PLAIN else _copy(x, memo, env)
        return env

    def _names(self, layer: Any, own: dict[str, Any]) -> list[str]:
        """The attributes of a layer that may be part of its state; looked for again when the attributes are others."""
        count, keys, names = self._known.get(type(layer), (-1, None, []))
        if count != len(own) or (keys is not None and own.keys() != keys):
            names, complete = _names(layer)
            self._known[type(layer)] = (len(own), None if complete else dict.fromkeys(own).keys(), names)
        return names


class Known:
    """The attributes that are known to be the state, of one of Gymnasium's own environments without wrappers."""

    name = "attributes"

    def __init__(self, env: Any) -> None:
        self.names, _ = _names(env)

    @staticmethod
    def fits(env: Any) -> bool:
        """Whether it is such an environment."""
        return env is env.unwrapped and _names(env)[1]

    def capture(self, env: Any) -> tuple[Any, tuple[Any, ...] | None]:
        """Copies of the attributes, and the same as a key."""
        own = env.__dict__
        value = [x.copy() if type(x) in COPIED else x for x in [own[name] for name in self.names]]
        return value, tuple([x if type(x) in PLAIN else _freeze(x) for x in value])

    def restore(self, env: Any, value: Any) -> Any:
        """The same environment, its attributes set to copies of what was captured."""
        own = env.__dict__
        for name, x in zip(self.names, value):  # noqa: B905  # on the way of every query
            own[name] = x.copy() if type(x) in COPIED else x
        return env


class Deepcopy:
    """A copy of the whole environment; its states have no identity."""

    name = "deepcopy"

    def capture(self, env: Any) -> tuple[Any, tuple[Any, ...] | None]:
        """A copy."""
        return copy.deepcopy(env), None

    def restore(self, env: Any, value: Any) -> Any:
        """A copy of the copy, since the next step changes it."""
        return copy.deepcopy(value)


class Functions:
    """``get_state(env)`` and ``set_state(env, state)``, as the user gave them."""

    name = "functions"

    def __init__(self, get_state: Callable[[Any], Any], set_state: Callable[[Any, Any], Any]) -> None:
        self.get_state, self.set_state = get_state, set_state
        self.exact = True
        """Whether they restore to the bit; if not, states have no identity."""

    def capture(self, env: Any) -> tuple[Any, tuple[Any, ...] | None]:
        """What ``get_state`` gives, and the same as a key where it is plain data."""
        value = self.get_state(env)
        try:
            return value, (_freeze(value),) if self.exact else None
        except _Opaque:
            return value, None

    def restore(self, env: Any, value: Any) -> Any:
        """The same environment after ``set_state``."""
        self.set_state(env, value)
        return env


def _names(layer: Any) -> tuple[list[str], bool]:
    """The attributes of a layer that may be part of its state, and whether these are known to be all for good."""
    own = vars(layer)
    for package, known in KNOWN.items():
        if type(layer).__module__.startswith(package):
            return [name for name in known if name in own], True
    return [name for name, x in own.items() if name not in SKIPPED and not _stays(x)], False


def _stays(x: Any) -> bool:
    """Whether a value is left alone: generators, spaces, functions, classes and modules."""
    return isinstance(x, STAYING) or type(x).__module__.startswith("gymnasium.spaces")


def _copy(x: Any, memo: dict[int, Any], env: Any) -> Any:
    """A copy that shares no mutable part; one object stays one object, and the environment itself is not copied.

    ``memo``: what was copied already, by the identity of the original, as ``copy.deepcopy`` keeps it.
    """
    if id(x) in memo:
        return memo[id(x)]
    kind = type(x)
    made: Any
    if kind is np.ndarray and x.dtype.kind != "O":
        made = x.copy()
    elif kind in PLAIN or (kind is tuple and PLAIN.issuperset(map(type, x))) or isinstance(x, ATOMS) or _stays(x):
        return x
    elif kind is tuple:
        made = tuple([_copy(y, memo, env) for y in x])
    elif kind is list:
        made = [_copy(y, memo, env) for y in x]
    elif kind is dict:
        made = {key: _copy(y, memo, env) for key, y in x.items()}
    else:
        memo.update((id(layer), layer) for layer in layers(env))
        made = copy.deepcopy(x, memo)
    memo[id(x)] = made
    return made


class FixedAttributes:
    """The plain attributes that steps and resets do not change: gravity, masses, a map."""

    def __init__(self, env: Any) -> None:
        names, self.sure = _names(env.unwrapped)
        """Whether it is known what changes; else these are attributes that were not seen to change."""
        self._varying = {*SKIPPED, *DRAWN, *(names if self.sure else ())}
        self._kind = type(env.unwrapped)
        self._values = self._read(env)

    def settle(self, env: Any) -> None:
        """Leave out what is not as it was: only steps and resets were made in between."""
        now = self._read(env)
        for name in [name for name, value in self._values.items() if name not in now or now[name] != value]:
            del self._values[name]
            self._varying.add(name)

    def renew(self, env: Any) -> None:
        """Take the attributes as they are now."""
        self._values |= self._read(env)

    def changed(self, env: Any) -> str | None:
        """The name of one that is not as it was; None where all are, or where it is an environment of another kind."""
        if type(env.unwrapped) is not self._kind:
            return None
        for name, now in self._read(env).items():
            before = self._values.get(name, OPAQUE)
            if before is OPAQUE and hasattr(self._kind, name):  # it hides what the class has
                before = _plain(getattr(self._kind, name))
            if before is not OPAQUE and before != now:
                return name
        return None

    def _read(self, env: Any) -> dict[str, Any]:
        """The plain attributes, frozen."""
        own = {name: _plain(x) for name, x in vars(env.unwrapped).items() if name not in self._varying}
        return {name: x for name, x in own.items() if x is not OPAQUE}


def _plain(x: Any) -> Any:
    """Numbers, texts, arrays and containers of them as something that can be compared; else :data:`OPAQUE`."""
    try:
        return _freeze(x, plain=True)
    except (_Opaque, RecursionError):
        return OPAQUE


class _Opaque(Exception):
    """Not plain data."""


def _freeze(x: Any, plain: bool = False) -> Any:
    """Data as something hashable: equal exactly where the data are; with ``plain`` no functions and no objects."""
    if type(x) is np.ndarray and x.dtype.kind != "O":
        return (x.dtype.char, x.shape, x.tobytes())
    if isinstance(x, ATOMS):
        return x
    if isinstance(x, list | tuple):
        return tuple([_freeze(y, plain) for y in x])
    if isinstance(x, dict):
        return tuple([(_freeze(key, plain), _freeze(y, plain)) for key, y in x.items()])
    if isinstance(x, set | frozenset):
        return frozenset(_freeze(y, plain) for y in x)
    if plain:
        raise _Opaque
    if isinstance(x, FIXED):
        return x
    if isinstance(x, gymnasium.Env):  # parts may know the environment that they are part of
        return "env"
    own = getattr(x, "__dict__", None)
    if own is None or _stays(x) or hasattr(type(x), "__slots__") or not _in_python(type(x)):
        raise _Opaque
    return (type(x), _freeze(own))


def _in_python(kind: type) -> bool:
    """Whether objects of a class keep all they know in their attributes: no base is built in or compiled."""
    heap_type = 1 << 9  # Py_TPFLAGS_HEAPTYPE
    return all(base is object or base.__flags__ & heap_type for base in kind.__mro__)


# ------------------------------------------------------------------------------------------ randomness


class Forbidden:
    """What takes the place of a generator where no step has ever drawn from it: a draw is an error."""

    def __deepcopy__(self, memo: Any) -> Forbidden:
        return self

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "this step draws a random number, and no step did when the environment was tried out: "
            "say from_gym(..., deterministic=False)"
        )


FORBIDDEN = Forbidden()


class Randomness:
    """Where an environment keeps its random generators, and how they are set."""

    def __init__(self, env: Any) -> None:
        self.elsewhere = [
            (depth, path) for depth, layer in enumerate(layers(env)) for path in _paths(layer, DEPTH, {id(env)})
        ]
        """(layer, attribute path) of generators other than Gymnasium's own."""
        self.seeded = any(not isinstance(self._at(env, place), np.random.Generator) for place in self.elsewhere)
        """Whether some are of another kind, and are made anew for each step."""

    def set(self, env: Any, rng: Any) -> None:
        """Let all random numbers of the environment come from ``rng``."""
        env.unwrapped._np_random = rng
        if self.elsewhere:
            for depth, path in self.elsewhere:
                owner = self._at(env, (depth, path[:-1]))
                setattr(owner, path[-1], _like(getattr(owner, path[-1]), rng))

    @staticmethod
    def _at(env: Any, place: tuple[int, tuple[str, ...]]) -> Any:
        found = layers(env)[place[0]]
        for name in place[1]:
            found = getattr(found, name)
        return found


def _like(old: Any, rng: Any) -> Any:
    """A generator of the same kind that ``rng`` determines."""
    if isinstance(rng, Forbidden) or isinstance(old, np.random.Generator | Forbidden):
        return rng
    seed = int(rng.integers(2**32))
    return np.random.RandomState(seed) if isinstance(old, np.random.RandomState) else random.Random(seed)


def _paths(owner: Any, depth: int, seen: set[int]) -> Iterator[tuple[str, ...]]:
    for name, x in list(getattr(owner, "__dict__", {}).items()):
        if name in SKIPPED or id(x) in seen:
            continue
        if isinstance(x, GENERATORS):
            yield (name,)
        elif depth and hasattr(x, "__dict__") and not _stays(x):
            seen.add(id(x))
            yield from ((name, *rest) for rest in _paths(x, depth - 1, seen))
