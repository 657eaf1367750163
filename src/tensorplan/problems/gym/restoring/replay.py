"""Ways back to a state whose content is not known: it is identified by its past, the actions since the last reset.

* :class:`Deepcopy`: a copy of the whole environment.
* :class:`ActionReplay`, the last resort: the actions taken again, with the random numbers of the first time.  It needs
  nothing of an environment but that its steps depend on its past and its generators alone.  The price: going back to a
  state t steps after a reset takes t steps.  They are not queries, and ``replayed`` counts them.  A state that lies
  ahead of where the environment is costs the difference only, and the state where it is, nothing.

Equal pasts are equal states; equal states with different pasts are not recognised.
"""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from tensorplan.core.errors import BadInput
from tensorplan.problems.gym.restoring.randomness import FORBIDDEN, Randomness
from tensorplan.problems.gym.restoring.ways import Held, Pristine


class Link(NamedTuple):
    """One step of a past: the action, None for a reset, and the state of the generator before it."""

    action: Any
    generator: Any


class Past:
    """The steps since a reset, which share their beginnings with other pasts."""

    __slots__ = ("before", "digest", "link")

    def __init__(self, link: Link, before: Past | None) -> None:
        self.link, self.before = link, before
        earlier: bytes = b"" if before is None else before.digest
        self.digest: bytes = blake2b(earlier + repr(link).encode(), digest_size=16).digest()

    def __reduce__(self) -> Any:
        return _past, ([past.link for past in reversed(self.back_to(None))],)

    def back_to(self, other: Past | None) -> list[Past]:
        """The pasts from this one back to the one behind ``other``; to the reset, if ``other`` is not among them."""
        steps: list[Past] = []
        past: Past | None = self
        while past is not None and (other is None or past.digest != other.digest):
            steps.append(past)
            past = past.before
        return steps


def _past(links: list[Link]) -> Past:
    past = None
    for link in links:
        past = Past(link, past)
    assert past is not None
    return past


class Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Remembers its past."""

    past: Past | None = None

    def reset(self, **options: Any) -> Any:
        """A reset, with the generator's state before it."""
        return self._recorded(None, None, lambda: self.env.reset(**options))

    def step(self, action: Any) -> Any:
        """A step, with the generator's state before it."""
        return self._recorded(action, self.past, lambda: self.env.step(action))

    def _recorded(self, action: Any, before: Past | None, take: Callable[[], Any]) -> Any:
        generator = saved_generator(self.unwrapped._np_random)
        self.past = None  # nowhere, if it raises
        result = take()
        drew = saved_generator(self.unwrapped._np_random) != generator
        self.past = Past(Link(action, generator if drew else None), before)
        return result

    def held(self) -> Held:
        """A state with this past."""
        assert self.past is not None
        return Held(self.past.digest)


class Unrecorded(Held):
    """A state of an environment whose past is not known: it cannot be compared with others."""

    __hash__ = None  # type: ignore[assignment]


class Deepcopy:
    """A copy of the whole environment."""

    name = "deepcopy"
    exact = True
    _found = itertools.count()

    def opened(self, env: Any, fresh: Pristine | None) -> Any:
        """The environment with a memory."""
        return Recorder(env)

    def capture(self, env: Any) -> Held:
        """A copy of the environment."""
        if isinstance(env, Recorder):
            state = env.held()
            state.value = copy.deepcopy(env)
            return state
        state = Unrecorded()
        state.value = Recorder(copy.deepcopy(env))
        state.value.past = Past(Link("found", next(self._found)), None)
        return state

    def restore(self, env: Any, state: Held, rng: Any) -> Any:
        """A copy of the captured copy, since the next step changes it."""
        return copy.deepcopy(state.value)


class ActionReplay:
    """The past of an environment, repeated."""

    name = "replay"
    exact = True

    def __init__(self) -> None:
        self.replayed = 0
        """The steps and resets that were repeated so far."""

    def opened(self, env: Any, fresh: Pristine | None) -> Any:
        """The environment with a memory."""
        self._randomness, self._fresh = Randomness(env), fresh
        return Recorder(env)

    def capture(self, env: Any) -> Held:
        """The past of the environment."""
        if not isinstance(env, Recorder):
            raise BadInput(
                f"the state that {env} is in cannot be captured, only those that its own steps lead to: "
                "give get_state(env) and set_state(env, state)"
            )
        state = env.held()
        state.value = env.past
        return state

    def restore(self, env: Recorder, state: Held, rng: Any) -> Any:
        """The same environment, after the steps that lead from where it is to the state, or from a reset."""
        target: Past = state.value
        ahead = target.back_to(env.past)
        env.past = None  # a step that raises leaves it nowhere
        for past in reversed(ahead):
            rng = generator_in(past.link.generator)
            if past.before is None and self._fresh is not None:
                self._fresh.put(rng)
            self._randomness.set(env, rng)
            if past.before is None:
                env.env.reset()
            else:
                env.env.step(past.link.action)
        self.replayed += len(ahead)
        env.past = target
        return env


def saved_generator(rng: Any) -> tuple[str, bytes] | None:
    """The kind of a generator and its state; None where drawing is forbidden."""
    if rng is None or rng is FORBIDDEN:
        return None
    bits = rng.bit_generator
    return type(bits).__name__, pickle.dumps(bits.state)


def generator_in(saved: tuple[str, bytes] | None) -> Any:
    """The generator in a saved state."""
    if saved is None:
        return FORBIDDEN
    bits = getattr(np.random, saved[0])()
    bits.state = pickle.loads(saved[1])
    return np.random.Generator(bits)
