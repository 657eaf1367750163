"""Tests of whether a way to restore an environment is faithful, against an undisturbed run of it.

A reference is played without interference, each step with a generator of its own, and once more, to see that it can be
repeated.  A third time its states are captured; then these are restored in random order, and each must continue like
the reference: the same observation, reward, end, and next state, for one step, and for several steps after one restore.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from tensorplan.core.errors import BadInput, ProblemError, TensorplanError, raised, shown
from tensorplan.problems.gym.restoring.constants import FixedAttributes, Pinned, numbers
from tensorplan.problems.gym.restoring.content import Unsaved
from tensorplan.problems.gym.restoring.randomness import Randomness
from tensorplan.problems.gym.restoring.ways import Functions, Held, Pristine, Way
from tensorplan.problems.simulate import global_generators

STEPS, SECONDS = 200, 5.0
"""The effort of a verification, unless given: so many steps or so long, whichever comes first."""

REFERENCE = 1 / 5
"""The share of the steps that are the reference's: it is played three times, and the rest are restored."""

PATIENCE = 1 / 6
"""The share of the time that the reference may take."""

EPISODES = 3
"""A reference has at least so many, unless they are longer than it may be."""

FEWEST = 2
"""A reference has so many steps at least, however slow."""

ROUNDING = 1e-9
"""The tolerance for states restored by functions."""

RESAMPLED = 3
"""How often a step is repeated with other random numbers."""

AHEAD = 5
"""Steps compared after one restore."""

SETTLED = 8
"""Moments between two checks of which attributes are constant: a check may take a millisecond."""

SILENCE = 1.0
"""Seconds between two progress messages."""

OTHER_NUMBERS = 1 << 20
"""Added to the number of an episode for other random numbers."""

log = logging.getLogger("tensorplan")


class Unfaithful(Exception):
    """A way to restore states is not faithful; the message says where it differs."""


@dataclass(frozen=True)
class Diligence:
    """How much a verification may take; without one, the reference is short and nothing is compared."""

    steps: int = STEPS
    seconds: float = SECONDS
    compare: bool = True

    @classmethod
    def of(cls, verify: bool | int) -> Diligence:
        """The effort of ``verify``: True, False, or a number of steps however long they take."""
        if isinstance(verify, bool):
            return cls() if verify else cls(60, 2.0, compare=False)
        if not isinstance(verify, int) or verify < 1:
            raise BadInput(f"verify must be True, False, or a number of steps, got {shown(verify)}")
        return cls(verify, float("inf"))


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

    def __init__(self, env: Any, actions: Sequence[Any], seed: int, effort: Diligence, pinned: Pinned) -> None:
        self.env, self.actions, self.seed, self.effort, self.pinned = env, actions, seed, effort, pinned
        self.fresh: Pristine | None = None
        """What the environment is set back to before each reset."""
        self.randomness = Randomness(env)
        self.drew = False
        """Whether any step drew a random number."""
        self.steps = 0
        """The number of steps so far."""
        self._reported = perf_counter()

    def reset(self, episode: int) -> Any:
        """The first observation of an episode."""
        rng = self.generator(episode, 0)
        if self.fresh is not None:
            self.fresh.put(rng)
        self.randomness.set(self.env, rng)
        observation = first_observation(self.env)
        self.pinned.begin(self.env)
        return observation

    def step(self, env: Any, episode: int, time: int, action: int) -> tuple[Any, float, bool, bool]:
        """The result of a step, with the generator of that moment."""
        self._count()
        rng = self.generator(episode, time + 1)
        self.randomness.set(env, rng)
        before = rng.bit_generator.state
        observation, reward, terminated, truncated = outcome(env.step(self.actions[action]))
        self.drew |= rng.bit_generator.state != before
        self.pinned.set(env)
        return copied(observation), reward, terminated, truncated

    def _count(self) -> None:
        """Count a step, and report progress if steps are slow."""
        self.steps += 1
        if perf_counter() - self._reported > SILENCE:
            self._reported = perf_counter()
            log.warning(f"verifying {type(self.env.unwrapped).__name__}: {self.steps:,} steps so far")

    def generator(self, episode: int, time: int) -> np.random.Generator:
        """The generator of a reset (time 0) or of a step (its time plus 1)."""
        return np.random.default_rng([self.seed, episode, time])

    def reference(self) -> tuple[list[Moment], list[list[dict[str, float]]]]:
        """A reference by random actions, and the numbers among the attributes, by episode and step."""
        rng = np.random.default_rng([self.seed])
        moments: list[Moment] = []
        readings: list[list[dict[str, float]]] = []
        begun, most = perf_counter(), max(FEWEST, int(self.effort.steps * REFERENCE))
        while len(moments) < most:
            observation = copied(self.reset(len(readings)))
            readings.append([])
            for time in range(max(most // EPISODES, FEWEST)):
                readings[-1].append(dict(numbers(self.env)))
                action = int(rng.integers(len(self.actions)))
                result = self.step(self.env, len(readings) - 1, time, action)
                moments.append(Moment(len(readings) - 1, time, action, observation, result))
                late = perf_counter() - begun > self.effort.seconds * PATIENCE
                if late and len(moments) >= FEWEST:
                    return moments, readings
                observation = result[0]
                if result[2] or result[3] or len(moments) == most:
                    break
        return moments, readings

    def replay(self, moments: Sequence[Moment]) -> Iterator[Moment]:
        """Replay the reference; at each moment yielded, the environment is in its state before the step.

        A step that differs raises Unfaithful.
        """
        for moment in moments:
            if moment.time == 0:
                self.reset(moment.episode)
            yield moment
            _compare(moment, self.step(self.env, moment.episode, moment.time, moment.action), 0.0)


def play_reference(probe: Probe, name: str) -> tuple[list[Moment], list[list[dict[str, float]]]]:
    """An undisturbed reference; BadInput if it draws from a global generator, ProblemError if it raises."""
    before = global_generators()
    try:
        found = probe.reference()
    except TensorplanError:
        raise
    except Exception as error:
        raise ProblemError(f"random play of {name} {raised(error)}") from error
    if global_generators() != before:
        raise BadInput(
            f"{name} draws from a global random generator, so that its steps cannot be controlled: "
            "let it draw from self.np_random"
        )
    return found


def reproducible(probe: Probe, moments: Sequence[Moment]) -> str | None:
    """Why the reference cannot be repeated; None if it can."""
    try:
        for _ in probe.replay(moments):
            pass
    except Unfaithful as difference:
        return str(difference)
    return None


def captured(probe: Probe, way: Way, moments: Sequence[Moment], constants: FixedAttributes) -> list[Held]:
    """The states of the reference; raises Unfaithful if capturing them disturbs it."""
    held = []
    try:
        for number, _ in enumerate(probe.replay(moments)):
            held.append(way.capture(probe.env))
            if number % SETTLED == 0:
                constants.settle(probe.env)
    except Unfaithful as difference:
        raise Unfaithful(f"capturing its state disturbs it: {difference}") from None
    except Unsaved as reason:
        raise Unfaithful(str(reason)) from None
    except Exception as error:
        raise Unfaithful(f"{type(error).__name__}: {error}".removesuffix(": ")) from error
    return held


def verify(probe: Probe, way: Way, moments: Sequence[Moment], held: Sequence[Held]) -> None:
    """Restore states of the reference in random order, as many as the effort allows; raises Unfaithful.

    Copies must continue exactly like the reference.  Functions may restore up to rounding, as MuJoCo's ``set_state``
    does; they are then not exact.
    """
    slack = ROUNDING if isinstance(way, Functions) else 0.0
    begun, first = perf_counter(), probe.steps
    allowed = probe.effort.steps - 3 * len(moments)
    try:
        for start in np.random.default_rng([probe.seed, 1]).permutation(len(moments)).tolist():
            one, two = (_once(probe, way, moments[start], held[start], slack) for _ in range(2))
            if not same(one, two) and not isinstance(way, Functions):
                raise Unfaithful(f"restored twice at step {moments[start].time}, it continues in two ways")
            way.exact &= same(one, two)
            if way.exact:
                _follow(probe, way, moments, held, start)
            if probe.steps - first >= allowed or perf_counter() - begun > probe.effort.seconds / 2:
                return
    except Unfaithful:
        raise
    except Exception as error:
        raise Unfaithful(f"{type(error).__name__}: {error}".removesuffix(": ")) from error


def resampled(probe: Probe, way: Way, moments: Sequence[Moment], held: Sequence[Held]) -> str | None:
    """A sentence on a step of the reference that differs with other random numbers; None if none does."""
    for moment, state in zip(moments, held, strict=True):
        for other in range(1, RESAMPLED + 1):
            env = way.restore(probe.env, state, probe.generator(0, 0))
            found = probe.step(env, moment.episode + other * OTHER_NUMBERS, moment.time, moment.action)
            if not same(found, moment.result):
                return (
                    f"with other random numbers, step {moment.time} of episode {moment.episode} with action "
                    f"{moment.action} differs: {_difference(moment.result, found)}"
                )
    return None


def _once(probe: Probe, way: Way, moment: Moment, state: Held, slack: float) -> tuple[Any, Held | None]:
    """One step from a restored state: its result and the next state."""
    env = way.restore(probe.env, state, probe.generator(0, 0))
    result = probe.step(env, moment.episode, moment.time, moment.action)
    _compare(moment, result, slack)
    return result, None if result[2] or result[3] else way.capture(env)


def _follow(probe: Probe, way: Way, moments: Sequence[Moment], held: Sequence[Held], start: int) -> None:
    """Compare several steps after one restore, and the states in between."""
    env = way.restore(probe.env, held[start], probe.generator(0, 0))
    for ahead in range(start, min(start + AHEAD, len(moments))):
        moment = moments[ahead]
        if moment.episode != moments[start].episode:
            break
        if way.capture(env) != held[ahead]:
            raise Unfaithful(f"restored at step {moments[start].time}, it is in another state at step {moment.time}")
        _compare(moment, probe.step(env, moment.episode, moment.time, moment.action), 0.0)


def _compare(moment: Moment, found: tuple[Any, float, bool, bool], slack: float) -> None:
    if not same(moment.result, found, slack):
        where = f"step {moment.time} of episode {moment.episode} with action {moment.action}"
        raise Unfaithful(f"{where}: {_difference(moment.result, found)}")


def _difference(one: tuple[Any, float, bool, bool], two: tuple[Any, float, bool, bool]) -> str:
    """Where two results of a step differ first."""
    for what, x, y in zip(("observation", "reward", "terminated", "truncated"), one, two, strict=True):
        if not same(x, y):
            return f"{what} {_first_difference(x, y)}"
    return "rounding"


def _first_difference(one: Any, two: Any) -> str:
    if isinstance(one, dict) and isinstance(two, dict) and one.keys() == two.keys():
        key = next(key for key in one if not same(one[key], two[key]))
        return f"{key!r}: {_first_difference(one[key], two[key])}"
    if isinstance(one, np.ndarray) and np.shape(one) == np.shape(two) and one.size > 1:
        place = next(place for place, x in np.ndenumerate(one) if not same(x, two[place]))
        entry = ", ".join(map(str, place))
        return f"[{entry}] was {one[place]:.6g} and then {two[place]:.6g}"
    return f"was {shown(one)} and then {shown(two)}"


# ------------------------------------------------------------------------------------------ results of steps


def first_observation(env: Any) -> Any:
    """What a reset shows."""
    result = env.reset()
    if not isinstance(result, tuple) or len(result) != 2:
        raise ProblemError(f"reset() returned {shown(result)}, expected (observation, info)")
    return result[0]


def outcome(result: Any) -> tuple[Any, float, bool, bool]:
    """(observation, reward, terminated, truncated) of a step, checked."""
    try:
        observation, reward, terminated, truncated, _ = result
    except (TypeError, ValueError):
        raise unusable(result) from None
    return observation, number_of(reward), bool(terminated), bool(truncated)


def unusable(result: Any) -> ProblemError:
    """The error for a step that did not return five things."""
    listed = f"{len(result)} values" if isinstance(result, tuple | list) else shown(result)
    old = ", as in Gym before 0.26" if isinstance(result, tuple) and len(result) == 4 else ""
    return ProblemError(f"step() returned {listed}{old}, expected (observation, reward, terminated, truncated, info)")


def number_of(reward: Any) -> float:
    """A reward as a float."""
    if type(reward) is int:
        return float(reward)
    if isinstance(reward, np.ndarray) and reward.shape:
        raise ProblemError(f"step() returned a reward of shape {reward.shape}, expected a number")
    try:
        return float(reward)
    except (TypeError, ValueError):
        raise ProblemError(f"step() returned the reward {shown(reward)}, expected a number") from None


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


def copied(x: Any) -> Any:
    """An observation that the environment does not change any more."""
    if isinstance(x, np.ndarray):
        return x.copy()
    if isinstance(x, dict):
        return {key: copied(y) for key, y in x.items()}
    return tuple([copied(y) for y in x]) if type(x) is tuple else x
