"""The way of last resort: the actions since the last reset, taken again, with the random numbers of the first time.

It needs nothing of an environment but that its steps depend on its past and its generators alone.  The price: going
back to a state t steps after a reset takes t steps.  They are not queries, and ``replayed`` counts them.  A state that
lies ahead of where the environment is costs the difference only, and the state where it is, nothing.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from tensorplan.core.errors import BadInput
from tensorplan.problems.gym.restoring.randomness import Forbidden, Randomness
from tensorplan.problems.gym.restoring.ways import Held


class Link(NamedTuple):
    """One step of a past: the action, None for a reset, and the state of the generator before it."""

    action: Any
    generator: Any


class Past:
    """The steps since a reset, which share their beginnings with other pasts."""

    __slots__ = ("before", "digest", "length", "link")

    def __init__(self, link: Link, before: Past | None) -> None:
        self.link, self.before = link, before
        self.length: int = 0 if before is None else before.length + 1
        earlier = b"" if before is None else before.digest
        self.digest = blake2b(earlier + repr(link).encode(), digest_size=16).digest()

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
        self.past = Past(Link(None, _generator(self.unwrapped)), None)
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        """A step, with the generator's state before it."""
        self.past = Past(Link(action, _generator(self.unwrapped)), self.past)
        return self.env.step(action)


class Replay:
    """The past of an environment, repeated."""

    name = "replay"
    exact = True

    def __init__(self) -> None:
        self.replayed = 0
        """The steps and resets that were repeated so far."""

    def opened(self, env: Any) -> Any:
        """The environment with a memory."""
        self._randomness = Randomness(env)
        return Recorder(env)

    def capture(self, env: Any) -> Held:
        """The past of the environment."""
        if not isinstance(env, Recorder) or env.past is None:
            raise BadInput("an environment that is restored by replaying its actions can be captured in no other way")
        state = Held(env.past.digest)
        state.value = env.past
        return state

    def restore(self, env: Recorder, state: Held, rng: Any) -> Any:
        """The same environment, after the steps that lead from where it is to the state, or from a reset."""
        target: Past = state.value
        ahead = target.back_to(env.past)
        env.past = None  # a step that raises leaves it nowhere
        for past in reversed(ahead):
            self._randomness.set(env, _generator_in(past.link.generator))
            if past.before is None:
                env.env.reset()
            else:
                env.env.step(past.link.action)
        self.replayed += len(ahead)
        env.past = target
        return env


def _generator(bare: Any) -> Any:
    """The kind of the generator, and its state; None where drawing is forbidden."""
    rng = bare._np_random
    if rng is None or isinstance(rng, Forbidden):
        return None
    bits = rng.bit_generator
    return type(bits).__name__, bits.state


def _generator_in(written: Any) -> Any:
    if written is None:
        return Forbidden()
    kind, state = written
    bits = getattr(np.random, kind)()
    bits.state = state
    return np.random.Generator(bits)
