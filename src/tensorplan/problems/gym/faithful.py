"""Tests of whether a way to restore an environment is faithful, against an undisturbed run of it.

A reference is played without interference, each step with a generator of its own.  Then its states are restored in
random order, and each must continue like the reference: the same observation, reward, end, and next state, for one
step, and for several steps after one restore.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from tensorplan.core.errors import BadInput
from tensorplan.problems.gym.restore import FixedAttributes, Functions, Randomness, Way
from tensorplan.problems.simulate import global_generators

MOMENTS = 120
EPISODES = 60
STEPS = 40
"""The size of a reference: at least so many moments, in at most so many episodes of at most so many steps."""

RESTORED = 40
"""States of a reference that are restored and compared."""

ROUNDING = 1e-9
"""The tolerance for states restored by the user's functions."""

RESAMPLED = 3
"""How often a step is repeated with other random numbers."""

AHEAD = 5
"""Steps compared after one restore."""

SETTLED = 8
"""Moments between two checks of which attributes are constant: a check may take a millisecond."""

SILENCE = 5.0
"""Seconds between two progress messages."""

log = logging.getLogger("tensorplan")


class Unfaithful(Exception):
    """A way to restore states is not faithful; the message says where it differs."""


@dataclass(frozen=True)
class Moment:
    """One step of a reference."""

    episode: int
    time: int
    action: int
    observation: Any
    """The observation before the step."""
    result: tuple[Any, float, bool, bool]
    """Observation, reward, terminated, truncated."""


class Probe:
    """An environment with numbered actions and controlled random generators, for probing."""

    def __init__(self, env: Any, actions: Sequence[Any], seed: int) -> None:
        self.env, self.actions, self.seed = env, actions, seed
        self.randomness = Randomness(env)
        self.drew = False
        """Whether any step drew a random number."""
        self.steps = 0
        """The number of steps so far."""
        self._reported = perf_counter()

    def reset(self, episode: int) -> Any:
        """The first observation of an episode."""
        self.randomness.set(self.env, self.generator(episode, 0))
        return self.env.reset()[0]

    def step(self, env: Any, episode: int, time: int, action: int) -> tuple[Any, float, bool, bool]:
        """The result of a step, with the generator of that moment."""
        self._count()
        rng = self.generator(episode, time + 1)
        self.randomness.set(env, rng)
        before = rng.bit_generator.state
        observation, reward, terminated, truncated, _ = env.step(self.actions[action])
        self.drew |= rng.bit_generator.state != before
        return _copied(observation), float(reward), bool(terminated), bool(truncated)

    def _count(self) -> None:
        """Count a step, and report progress if steps are slow."""
        self.steps += 1
        if perf_counter() - self._reported > SILENCE:
            self._reported = perf_counter()
            log.warning(f"probing {type(self.env.unwrapped).__name__}: {self.steps:,} steps so far")

    def generator(self, episode: int, time: int) -> np.random.Generator:
        """The generator of a reset (time 0) or of a step (its time plus 1)."""
        return np.random.default_rng([self.seed, episode, time])

    def replay(self, moments: Sequence[Moment]) -> Iterator[Moment]:
        """Replay the reference; at each moment yielded, the environment is in its state before the step."""
        for moment in moments:
            if moment.time == 0:
                self.reset(moment.episode)
            yield moment
            self.step(self.env, moment.episode, moment.time, moment.action)

    def play(
        self, way: Way | None = None, constants: FixedAttributes | None = None
    ) -> tuple[list[Moment], list[tuple[Any, Any]]]:
        """A reference by random actions, and with ``way`` its captured states."""
        rng = np.random.default_rng([self.seed])
        moments: list[Moment] = []
        captured: list[tuple[Any, Any]] = []
        for episode in range(EPISODES):
            if len(moments) >= MOMENTS:
                break
            observation = _copied(self.reset(episode))
            for time in range(STEPS):
                if way is not None:
                    captured.append(way.capture(self.env))
                if constants is not None and len(moments) % SETTLED == 0:
                    constants.settle(self.env)
                action = int(rng.integers(len(self.actions)))
                result = self.step(self.env, episode, time, action)
                moments.append(Moment(episode, time, action, observation, result))
                observation = result[0]
                if result[2] or result[3]:
                    break
        return moments, captured


def reference(probe: Probe, name: str) -> list[Moment]:
    """An undisturbed reference; BadInput if it cannot be repeated, since then some randomness is not controlled."""
    before = global_generators()
    first, _ = probe.play()
    if global_generators() != before:
        raise BadInput(
            f"{name} draws from a global random generator, so that its steps cannot be controlled: "
            "let it draw from self.np_random"
        )
    again, _ = probe.play()
    for one, two in zip(first, again, strict=False):
        if not same(one.result, two.result):
            raise BadInput(
                f"{name} is not reproducible (episode {one.episode}, step {one.time}, action {one.action}: "
                f"{_shown(one.result)} and then {_shown(two.result)}): its steps depend on something that is neither "
                "its state nor its generator"
            )
    return first


def verify(probe: Probe, way: Way, moments: Sequence[Moment], constants: FixedAttributes) -> list[tuple[Any, Any]]:
    """The captured states of the reference, a sample of which is restored and compared; raises Unfaithful.

    Copies must continue exactly like the reference.  A user's functions may restore up to rounding, as MuJoCo's
    ``set_state`` does; if the rounding varies between restores, states have no identity.
    """
    slack = ROUNDING if isinstance(way, Functions) else 0.0
    try:
        played, captured = probe.play(way, constants)
        for expected, found in zip(moments, played, strict=True):
            _compare(expected, found.result, 0.0, "capturing its state disturbs it")
        for start in np.random.default_rng([probe.seed, 1]).permutation(len(moments))[:RESTORED].tolist():
            first, again = (_once(probe, way, moments[start], captured[start][0], slack) for _ in range(2))
            if isinstance(way, Functions):
                way.exact &= same(first, again)
            elif not same(first, again):
                raise Unfaithful(f"restored twice at step {moments[start].time}, it continues in two ways")
            if not isinstance(way, Functions):
                _follow(probe, way, moments, captured, start)
    except Unfaithful:
        raise
    except Exception as error:
        raise Unfaithful(f"{type(error).__name__}: {error}".removesuffix(": ")) from error
    return captured


def resampled(probe: Probe, way: Way, moments: Sequence[Moment], captured: Sequence[tuple[Any, Any]]) -> str | None:
    """A sentence on a step of the reference that differs with other random numbers; None if none does."""
    for moment, (value, _) in zip(moments, captured, strict=True):
        for other in range(1, RESAMPLED + 1):
            env = way.restore(probe.env, value)
            found = probe.step(env, moment.episode + other * EPISODES, moment.time, moment.action)
            if not same(found, moment.result):
                return (
                    f"step {moment.time} of episode {moment.episode} with action {moment.action} gave "
                    f"{_shown(moment.result)}, and with other random numbers {_shown(found)}"
                )
    return None


def _once(probe: Probe, way: Way, moment: Moment, value: Any, slack: float) -> Any:
    """The result of one step from a restored state, and the identity of the next state."""
    env = way.restore(probe.env, value)
    result = probe.step(env, moment.episode, moment.time, moment.action)
    _compare(moment, result, slack, "restored")
    return result, None if result[2] or result[3] else way.capture(env)[1]


def _follow(probe: Probe, way: Way, moments: Sequence[Moment], captured: Sequence[tuple[Any, Any]], start: int) -> None:
    """Compare several steps after one restore, and the states in between."""
    env = way.restore(probe.env, captured[start][0])
    for ahead in range(start, min(start + AHEAD, len(moments))):
        moment = moments[ahead]
        if moment.episode != moments[start].episode:
            break
        if captured[ahead][1] is not None and way.capture(env)[1] != captured[ahead][1]:
            raise Unfaithful(f"restored at step {moments[start].time}, it is in another state at step {moment.time}")
        _compare(moment, probe.step(env, moment.episode, moment.time, moment.action), 0.0, "restored")


def _compare(moment: Moment, found: tuple[Any, float, bool, bool], slack: float, how: str) -> None:
    if not same(moment.result, found, slack):
        raise Unfaithful(
            f"{how}: step {moment.time} of episode {moment.episode} with action {moment.action} gave {_shown(found)} "
            f"instead of {_shown(moment.result)}"
        )


def same(one: Any, two: Any, slack: float = 0.0) -> bool:
    """Whether two results are equal, with NaN equal to itself, or differ by at most ``slack`` (1 + size)."""
    if isinstance(one, dict):
        return isinstance(two, dict) and one.keys() == two.keys() and all(same(one[k], two[k], slack) for k in one)
    if isinstance(one, tuple | list):
        pairs = zip(one, two, strict=True) if isinstance(two, tuple | list) and len(one) == len(two) else None
        return pairs is not None and all(same(x, y, slack) for x, y in pairs)
    if isinstance(one, np.ndarray | np.generic | float):
        if np.asarray(one).dtype.kind not in "fc":
            return bool(np.array_equal(one, two))
        if np.shape(one) != np.shape(two):
            return False
        return bool(np.allclose(one, two, rtol=slack, atol=slack, equal_nan=True))
    return bool(one == two)


def _shown(result: tuple[Any, float, bool, bool]) -> str:
    observation, reward, terminated, truncated = result
    if isinstance(observation, np.ndarray):
        observation = np.array2string(observation.ravel(), precision=6, threshold=8, max_line_width=10_000)
    return f"{observation}, reward {reward:g}{', the end' if terminated or truncated else ''}"


def _copied(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x
