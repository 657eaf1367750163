"""Whether a way of restoring an environment is faithful, found out against an undisturbed one.

A reference is played without any interference, each step with a generator of its own.  Then its states are restored in
random order, and each must go on as the reference did: observation, reward, end, and the state that follows; for one
step, and for several without another restore.
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
"""A reference ends with the episode that reaches so many moments, or after so many episodes of so many steps."""

RESTORED = 40
"""States of a reference that are restored."""

ROUNDING = 1e-9
"""How far a user's functions may miss what they restore."""

RESAMPLED = 3
"""Times that a step is repeated with other random numbers."""

AHEAD = 5
"""Steps that are repeated after one restore."""

SETTLED = 8
"""Moments between two looks at what stays as it is: a look may take a millisecond."""

SILENCE = 5.0
"""Seconds between two words about how far it is."""

log = logging.getLogger("tensorplan")


class Unfaithful(Exception):
    """A way of restoring that does not give back what was captured; says where."""


@dataclass(frozen=True)
class Moment:
    """One step of a reference."""

    episode: int
    time: int
    action: int
    observation: Any
    """Before the step."""
    result: tuple[Any, float, bool, bool]
    """Observation, reward, terminated, truncated."""


class Stage:
    """An environment with numbered actions and generators that are ours."""

    def __init__(self, env: Any, actions: Sequence[Any], seed: int) -> None:
        self.env, self.actions, self.seed = env, actions, seed
        self.randomness = Randomness(env)
        self.drew = False
        """Whether any step drew a random number."""
        self.steps = 0
        """Made so far, by all who use it."""
        self._told = perf_counter()

    def reset(self, episode: int) -> Any:
        """The first observation of an episode."""
        self.randomness.set(self.env, self.generator(episode, 0))
        return self.env.reset()[0]

    def step(self, env: Any, episode: int, time: int, action: int) -> tuple[Any, float, bool, bool]:
        """What a step gives, with the generator of that moment."""
        self._count()
        rng = self.generator(episode, time + 1)
        self.randomness.set(env, rng)
        before = rng.bit_generator.state
        observation, reward, terminated, truncated, _ = env.step(self.actions[action])
        self.drew |= rng.bit_generator.state != before
        return _copied(observation), float(reward), bool(terminated), bool(truncated)

    def _count(self) -> None:
        """One more step; and a word now and then where they take long."""
        self.steps += 1
        if perf_counter() - self._told > SILENCE:
            self._told = perf_counter()
            log.warning(f"trying {type(self.env.unwrapped).__name__} out: {self.steps:,} steps so far")

    def generator(self, episode: int, time: int) -> np.random.Generator:
        """The generator of a reset (time 0) or of a step (its time and 1)."""
        return np.random.default_rng([self.seed, episode, time])

    def replay(self, moments: Sequence[Moment]) -> Iterator[Moment]:
        """The reference once more, moment by moment; the environment is then where the moment begins."""
        for moment in moments:
            if moment.time == 0:
                self.reset(moment.episode)
            yield moment
            self.step(self.env, moment.episode, moment.time, moment.action)

    def play(
        self, way: Way | None = None, constants: FixedAttributes | None = None
    ) -> tuple[list[Moment], list[tuple[Any, Any]]]:
        """A reference by random actions; with ``way``, its states are captured as it goes."""
        dice = np.random.default_rng([self.seed])
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
                action = int(dice.integers(len(self.actions)))
                result = self.step(self.env, episode, time, action)
                moments.append(Moment(episode, time, action, observation, result))
                observation = result[0]
                if result[2] or result[3]:
                    break
        return moments, captured


def reference(stage: Stage, name: str) -> list[Moment]:
    """An undisturbed reference; refused where it cannot be repeated, since then something random is out of reach."""
    before = global_generators()
    first, _ = stage.play()
    if global_generators() != before:
        raise BadInput(
            f"{name} draws from a global random generator, so that its steps cannot be controlled: "
            "let it draw from self.np_random"
        )
    again, _ = stage.play()
    for one, two in zip(first, again, strict=False):
        if not same(one.result, two.result):
            raise BadInput(
                f"{name} answers differently when everything is repeated (episode {one.episode}, step {one.time}, "
                f"action {one.action}: {_told(one.result)} and then {_told(two.result)}): something that is neither "
                "its state nor its generator decides"
            )
    return first


def verify(stage: Stage, way: Way, moments: Sequence[Moment], constants: FixedAttributes) -> list[tuple[Any, Any]]:
    """The captured states of the reference, many of them restored and compared; raises Unfaithful.

    Copies must go on as the reference does, to the bit.  A user's functions may restore up to rounding, as MuJoCo's
    ``set_state`` does; where that differs from one time to the next, states have no identity.
    """
    slack = ROUNDING if isinstance(way, Functions) else 0.0
    try:
        played, captured = stage.play(way, constants)
        for expected, found in zip(moments, played, strict=True):
            _compare(expected, found.result, 0.0, "capturing its state disturbs it")
        for start in np.random.default_rng([stage.seed, 1]).permutation(len(moments))[:RESTORED].tolist():
            first, again = (_once(stage, way, moments[start], captured[start][0], slack) for _ in range(2))
            if isinstance(way, Functions):
                way.exact &= same(first, again)
            elif not same(first, again):
                raise Unfaithful(f"restored twice at step {moments[start].time}, it goes on in two ways")
            if not isinstance(way, Functions):
                _follow(stage, way, moments, captured, start)
    except Unfaithful:
        raise
    except Exception as error:
        raise Unfaithful(f"{type(error).__name__}: {error}".removesuffix(": ")) from error
    return captured


def resampled(stage: Stage, way: Way, moments: Sequence[Moment], captured: Sequence[tuple[Any, Any]]) -> str | None:
    """What a step gives, and what with other random numbers, where that differs at a moment of the reference."""
    for moment, (value, _) in zip(moments, captured, strict=True):
        for other in range(1, RESAMPLED + 1):
            env = way.restore(stage.env, value)
            found = stage.step(env, moment.episode + other * EPISODES, moment.time, moment.action)
            if not same(found, moment.result):
                return (
                    f"step {moment.time} of episode {moment.episode} with action {moment.action} gave "
                    f"{_told(moment.result)}, and with other random numbers {_told(found)}"
                )
    return None


def _once(stage: Stage, way: Way, moment: Moment, value: Any, slack: float) -> Any:
    """The result of one step from a restored state, and the identity of the state that follows."""
    env = way.restore(stage.env, value)
    result = stage.step(env, moment.episode, moment.time, moment.action)
    _compare(moment, result, slack, "restored")
    return result, None if result[2] or result[3] else way.capture(env)[1]


def _follow(stage: Stage, way: Way, moments: Sequence[Moment], captured: Sequence[tuple[Any, Any]], start: int) -> None:
    """Several steps after one restore, and the states on the way."""
    env = way.restore(stage.env, captured[start][0])
    for ahead in range(start, min(start + AHEAD, len(moments))):
        moment = moments[ahead]
        if moment.episode != moments[start].episode:
            break
        if captured[ahead][1] is not None and way.capture(env)[1] != captured[ahead][1]:
            raise Unfaithful(f"restored at step {moments[start].time}, it is in another state at step {moment.time}")
        _compare(moment, stage.step(env, moment.episode, moment.time, moment.action), 0.0, "restored")


def _compare(moment: Moment, found: tuple[Any, float, bool, bool], slack: float, how: str) -> None:
    if not same(moment.result, found, slack):
        raise Unfaithful(
            f"{how}: step {moment.time} of episode {moment.episode} with action {moment.action} gave {_told(found)} "
            f"instead of {_told(moment.result)}"
        )


def same(one: Any, two: Any, slack: float = 0.0) -> bool:
    """Equal to the bit, NaN included; or within ``slack``, relative to 1 + the size."""
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


def _told(result: tuple[Any, float, bool, bool]) -> str:
    observation, reward, terminated, truncated = result
    if isinstance(observation, np.ndarray):
        observation = np.array2string(observation.ravel(), precision=6, threshold=8, max_line_width=10_000)
    return f"{observation}, reward {reward:g}{', the end' if terminated or truncated else ''}"


def _copied(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x
