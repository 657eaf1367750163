"""Ways to capture and restore the state of a Gymnasium environment.

* :class:`Attributes`: copies of the attributes of the environment and its wrappers, except for spaces, the spec and
  random generators.  The copies are cheap if they are plain data, and make states comparable.
* :class:`Deepcopy`: a copy of the whole environment.
* :class:`Functions`: two functions of the user, for state outside of Python (MuJoCo, ALE).

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
"""Immutable types, with their subclasses."""
PLAIN = frozenset({type(None), bool, int, float, str, bytes, np.float64, np.float32, np.int64, np.int32, np.bool_})
"""Exact types that need neither copying nor freezing; a set lookup is faster than isinstance."""
FIXED = (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType)
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
STAYING = GENERATORS + FIXED
"""Types of values that are not part of a state."""
COPIED = frozenset({np.ndarray, list})
"""The mutable types among the known attributes; their entries are numbers."""
SKIPPED = ("env", "spec", "_np_random", "_np_random_seed", "_cached_spec", "render_mode", "metadata")
"""Attributes of environments and wrappers that are not part of a state."""
KNOWN = {
    "gymnasium.envs.toy_text": ("s", "fickle_step", "player", "dealer"),
    "gymnasium.envs.classic_control": ("state", "steps_beyond_terminated"),
}
"""The attributes that make up the state in Gymnasium's own environments; others are tables, constants, pictures."""

OPAQUE = object()
"""Replaces a value that is not plain data."""

DRAWN = ("taxi_orientation", "lastaction", "isopen")
"""Attributes of Gymnasium's own environments that only concern rendering."""

DEPTH = 4
"""The depth of nested objects that are searched for random generators."""


class Held(tuple[Any, ...]):
    """A captured state that is a tuple of its identity, so that comparing states is as fast as comparing tuples."""

    value: Any
    """The value to restore it from."""
    observation: Any
    """The observation in this state."""

    def __repr__(self) -> str:
        return f"<{self.observation}>"


class Nameless:
    """A captured state without an identity: it equals no other."""

    __hash__ = None  # type: ignore[assignment]

    value: Any
    observation: Any

    def __repr__(self) -> str:
        return f"<{self.observation}>"


def hold(value: Any, observation: Any, key: tuple[Any, ...] | None) -> Held | Nameless:
    """The captured state, with an identity if there is a key."""
    state = Nameless() if key is None else Held(key)
    state.value = value
    state.observation = observation.copy() if type(observation) is np.ndarray else observation
    return state


class Way(Protocol):
    """A way to capture and restore states."""

    name: str

    def capture(self, env: Any) -> tuple[Any, tuple[Any, ...] | None]:
        """The value to restore the current state from, and its identity or None."""

    def restore(self, env: Any, value: Any) -> Any:
        """The environment in that state: the given one, or another."""


def layers(env: Any) -> list[Any]:
    """The wrappers of an environment and the environment itself, outermost first."""
    innermost = env.unwrapped
    if innermost is env:
        return [env]
    found = [env]
    while found[-1] is not innermost:
        found.append(found[-1].env)
    return found


# ------------------------------------------------------------------------------------------ the ways


class Attributes:
    """Copies of the attributes of all layers."""

    name = "attributes"

    def __init__(self) -> None:
        self._known: dict[type, tuple[int, Any, list[str]]] = {}

    def capture(self, env: Any) -> tuple[Any, tuple[Any, ...] | None]:
        """Copies of the attributes of all layers, and a key made of them if they are plain data."""
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
        """The same environment, with its attributes set to copies of the captured ones."""
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
        """The attributes of a layer that may be part of its state, cached until its set of attributes changes."""
        count, keys, names = self._known.get(type(layer), (-1, None, []))
        if count != len(own) or (keys is not None and own.keys() != keys):
            names, complete = _names(layer)
            self._known[type(layer)] = (len(own), None if complete else dict.fromkeys(own).keys(), names)
        return names


class Known:
    """The known state attributes of one of Gymnasium's own environments, without wrappers."""

    name = "attributes"

    def __init__(self, env: Any) -> None:
        self.names, _ = _names(env)

    @staticmethod
    def fits(env: Any) -> bool:
        """Whether this applies to an environment."""
        return env is env.unwrapped and _names(env)[1]

    def capture(self, env: Any) -> tuple[Any, tuple[Any, ...] | None]:
        """Copies of the attributes, and a key made of them."""
        own = env.__dict__
        value = [x.copy() if type(x) in COPIED else x for x in [own[name] for name in self.names]]
        return value, tuple([x if type(x) in PLAIN else _freeze(x) for x in value])

    def restore(self, env: Any, value: Any) -> Any:
        """The same environment, with its attributes set to copies of the captured ones."""
        own = env.__dict__
        for name, x in zip(self.names, value):  # noqa: B905  # in the inner loop of every query
            own[name] = x.copy() if type(x) in COPIED else x
        return env


class Deepcopy:
    """A copy of the whole environment; its states have no identity."""

    name = "deepcopy"

    def capture(self, env: Any) -> tuple[Any, tuple[Any, ...] | None]:
        """A copy of the environment."""
        return copy.deepcopy(env), None

    def restore(self, env: Any, value: Any) -> Any:
        """A copy of the captured copy, since the next step changes it."""
        return copy.deepcopy(value)


class Functions:
    """The user's ``get_state(env)`` and ``set_state(env, state)``."""

    name = "functions"

    def __init__(self, get_state: Callable[[Any], Any], set_state: Callable[[Any, Any], Any]) -> None:
        self.get_state, self.set_state = get_state, set_state
        self.exact = True
        """Whether they restore exactly; if not, states have no identity."""

    def capture(self, env: Any) -> tuple[Any, tuple[Any, ...] | None]:
        """The value of ``get_state``, and a key made of it if it is plain data."""
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
    """The attributes of a layer that may be part of its state, and whether this list is known to be complete."""
    own = vars(layer)
    for package, known in KNOWN.items():
        if type(layer).__module__.startswith(package):
            return [name for name in known if name in own], True
    return [name for name, x in own.items() if name not in SKIPPED and not _stays(x)], False


def _stays(x: Any) -> bool:
    """Whether a value is not part of a state: generators, spaces, functions, classes and modules."""
    return isinstance(x, STAYING) or type(x).__module__.startswith("gymnasium.spaces")


def _copy(x: Any, memo: dict[int, Any], env: Any) -> Any:
    """A deep copy that preserves shared references and does not copy the environment itself.

    ``memo``: the copies so far by the id of the original, as in ``copy.deepcopy``.
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
    """The plain attributes that steps and resets do not change, such as gravity, masses or a map."""

    def __init__(self, env: Any) -> None:
        names, self.sure = _names(env.unwrapped)
        """Whether the changing attributes are known; if not, constants are those that were not seen to change."""
        self._varying = {*SKIPPED, *DRAWN, *(names if self.sure else ())}
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
        return _freeze(x, plain=True)
    except (_Opaque, RecursionError):
        return OPAQUE


class _Opaque(Exception):
    """The value is not plain data."""


def _freeze(x: Any, plain: bool = False) -> Any:
    """Data in hashable form, equal iff the data are; with ``plain``, functions and objects raise ``_Opaque``."""
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
    if isinstance(x, gymnasium.Env):  # parts may refer to their environment
        return "env"
    own = getattr(x, "__dict__", None)
    if own is None or _stays(x) or hasattr(type(x), "__slots__") or not _in_python(type(x)):
        raise _Opaque
    return (type(x), _freeze(own))


def _in_python(kind: type) -> bool:
    """Whether objects of a class keep all their data in attributes: no base class is built in or compiled."""
    heap_type = 1 << 9  # Py_TPFLAGS_HEAPTYPE
    return all(base is object or base.__flags__ & heap_type for base in kind.__mro__)


# ------------------------------------------------------------------------------------------ randomness


class Forbidden:
    """Replaces the generator of an environment that never drew from it: a draw is an error."""

    def __deepcopy__(self, memo: Any) -> Forbidden:
        return self

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "this step draws a random number, but no step did when the environment was probed: "
            "use from_gym(..., deterministic=False)"
        )


FORBIDDEN = Forbidden()


class Randomness:
    """The random generators of an environment, found and replaced."""

    def __init__(self, env: Any) -> None:
        self.elsewhere = [
            (depth, path) for depth, layer in enumerate(layers(env)) for path in _paths(layer, DEPTH, {id(env)})
        ]
        """(layer, attribute path) of generators other than Gymnasium's own."""
        self.seeded = any(not isinstance(self._at(env, place), np.random.Generator) for place in self.elsewhere)
        """Whether some are not NumPy generators, and are created again for each step."""

    def set(self, env: Any, rng: Any) -> None:
        """Make all random numbers of the environment come from ``rng``."""
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
    """A generator of the same type as ``old``, seeded by ``rng``."""
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
