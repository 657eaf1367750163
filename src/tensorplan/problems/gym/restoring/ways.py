"""Ways to capture and restore the state of a Gymnasium environment.

* :class:`Attributes`: the content of the attributes of the environment and its wrappers, parts outside of Python by
  adapters.
* :class:`Functions`: two functions of the environment, given by the user or by an adapter.
* by the past of the environment (:mod:`tensorplan.problems.gym.restoring.replay`): a copy of all of it, or its actions
  since the last reset, taken again.

None of them is trusted: :mod:`tensorplan.problems.gym.restoring.faithful` compares each with an undisturbed
environment.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Protocol

import gymnasium
import numpy as np

from tensorplan.core import Array
from tensorplan.core.errors import QUOTED, shortened
from tensorplan.problems.gym.restoring.content import SHAPES, Content, Shape
from tensorplan.problems.gym.restoring.layers import SKIPPED, layers

STATE_OF = {
    "gymnasium.envs.toy_text": ("s", "fickle_step", "player", "dealer"),
    "gymnasium.envs.classic_control": ("state", "steps_beyond_terminated"),
}
"""The attributes that make up the state in Gymnasium's own environments; others are tables, constants, pictures."""


class Held(bytes):
    """A captured state, equal to others of the same content."""

    value: Any
    """What it is restored from, if not from its content."""
    observation: Any
    """The observation in this state, unless it is large."""
    point: Array
    """If it is large, what features see of it."""
    origin: tuple[Held, int, Any]
    """If it is large, the step that showed it: from which state, by which action, and the generator's state."""

    def __repr__(self) -> str:
        seen = self.__dict__.get("observation")
        if seen is None:
            return f"<state {blake2b(self, digest_size=4).hexdigest()}>"
        return f"<{shortened(str(seen), QUOTED)}>"

    def __reduce__(self) -> Any:
        own = dict(self.__dict__)
        if "origin" in own:
            before, action, generator = own["origin"]
            earlier = Held(before)
            earlier.__dict__.update((name, x) for name, x in before.__dict__.items() if name != "origin")
            own["origin"] = (earlier, action, generator)
        return _held, (bytes(self), own, SHAPES)


def _held(content: bytes, own: dict[str, Any], shapes: dict[int, Shape]) -> Held:
    """A state that comes from another process."""
    SHAPES.update(shapes)
    state = Held(content)
    state.__dict__.update(own)
    return state


class Way(Protocol):
    """A way to capture and restore states."""

    name: str
    exact: bool
    """Whether a restored state continues to the last bit as the original did."""

    def opened(self, env: Any, fresh: Pristine | None) -> Any:
        """The environment as it is used from now on, the given one or a wrapper of it, with resets from ``fresh``."""

    def capture(self, env: Any) -> Held:
        """The current state, without its observation."""

    def restore(self, env: Any, state: Held, rng: Any) -> Any:
        """The environment in that state, the given one or another; its generators may be ``rng``, or anything."""


class Attributes:
    """The content of the attributes of all layers."""

    name = "attributes"
    exact = True

    def __init__(self) -> None:
        self._content = Content(skipped)

    def opened(self, env: Any, fresh: Pristine | None) -> Any:
        """The environment itself."""
        return env

    def capture(self, env: Any) -> Held:
        """The content of all layers."""
        return Held(self._content.write(layers(env)))

    def restore(self, env: Any, state: Held, rng: Any) -> Any:
        """The same environment, with attributes made from the content."""
        self._content.generators.use(rng)
        self._content.read(state, layers(env))
        return env


class Pristine:
    """The state of an environment before its first reset, from which all resets start: nothing is left over.

    Where the innermost layer cannot be captured, it is that of the wrappers.
    """

    def __init__(self, env: Any) -> None:
        self._env, self._content = env, Content(skipped)
        try:
            self._state = self._content.write(layers(env))
        except Exception:
            self._state = self._content.write(layers(env), len(layers(env)) - 1)

    def put(self, rng: Any) -> None:
        """Set the environment back to it."""
        self._content.generators.use(rng)
        self._content.read(self._state, layers(self._env))


class Functions:
    """``get_state(env)`` and ``set_state(env, state)``."""

    def __init__(self, get_state: Callable[[Any], Any], set_state: Callable[[Any, Any], Any], name: str) -> None:
        self.get_state, self.set_state = get_state, set_state
        self.name = name
        self.exact = True
        self._content = Content(skipped)

    def opened(self, env: Any, fresh: Pristine | None) -> Any:
        """The environment itself."""
        return env

    def capture(self, env: Any) -> Held:
        """What ``get_state`` returns, and its content."""
        value = self.get_state(env)
        if type(value) is bytes:
            return Held(value)
        state = Held(self._content.write_value(value))
        state.value = value
        return state

    def restore(self, env: Any, state: Held, rng: Any) -> Any:
        """The same environment after ``set_state``."""
        self.set_state(env, state.__dict__.get("value", state))
        return env


def skipped(layer: Any, name: str) -> bool:
    """Whether an attribute of a layer is no part of its state."""
    for package, known in STATE_OF.items():
        if type(layer).__module__.startswith(package):
            return name not in known
    return name in SKIPPED or isinstance(vars(layer)[name], gymnasium.Space | np.random.Generator)
