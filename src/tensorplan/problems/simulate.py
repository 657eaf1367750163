"""Checked calls of a simulator: invalid results and exceptions become ProblemError."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import END, Array, Problem, State
from tensorplan.core.errors import QUOTED, BadInput, ProblemError, raised, shown
from tensorplan.problems.states import unpack as unpack_states

HALF = QUOTED // 2
"""Characters of a quoted object in a message that quotes several."""

NOT_LISTS = (str, bytes, dict, set, frozenset)
"""Types that can be taken apart, but have no first and second entry."""

ENVIRONMENT = (4, 5)
"""Values that ``step`` of an environment returns: the old interface of Gym, and Gymnasium's."""

ROUNDING = 1e-12
"""The relative distance from the declared range up to which a reward is clipped to it (rounding)."""

FLOAT_ROUNDING = 4
"""The same in units of the relative precision of rewards that come as an array: ``step_many`` may use 32 bits."""

RETURN_SLACK = 1e-6
"""The same for returns, which accumulate the rounding of many steps."""


def draw_start(problem: Problem, rng: np.random.Generator) -> State:
    """An initial state, checked."""
    state = _called(problem, f"start() of problem {problem.name!r}", lambda: problem.mdp.start(rng))
    if state is END:
        raise ProblemError(f"start() of problem {problem.name!r} gave END: there is nothing to plan")
    return state


def draw(problem: Problem, state: State, stage: int, action: int, rng: np.random.Generator) -> tuple[float, State]:
    """(reward, next state) from one call of ``step``, checked."""
    try:
        result = problem.mdp.step(state, action, rng)
    except Exception as error:
        result = retry(problem, state, stage, action, rng, error)
    return unpack(problem, state, stage, action, result)


def retry(
    problem: Problem, state: State, stage: int, action: int, rng: np.random.Generator, error: Exception
) -> tuple[float, State]:
    """The result of ``step`` after it raised, within the retries of the problem; else ProblemError."""

    def step() -> tuple[float, State]:
        return problem.mdp.step(state, action, rng)

    result: tuple[float, State] = _called(problem, _step(state, stage, action), step, error)
    return result


def draw_batch(
    problem: Problem, state: State, stage: int, action: int, n: int, rng: np.random.Generator
) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
    """n samples of a pair from one call of ``step_batch``, with their shapes checked."""
    mdp: Any = problem.mdp
    where = f"step_batch(state={shown(state, HALF)}, action={action}, n={n}) at stage {stage}"
    result = _called(problem, where, lambda: mdp.step_batch(state, action, n, rng))
    try:
        rewards, following, which = result
        rewards, which = np.asarray(rewards, dtype=np.float64), np.asarray(which)
        count = len(following)
    except Exception:
        raise ProblemError(f"{where} must return (rewards, successors, which), got {shown(result)}") from None
    if rewards.shape != (n,) or which.shape != (n,):
        raise ProblemError(f"{where} gave rewards of shape {rewards.shape} and indices of shape {which.shape}")
    if isinstance(following, NOT_LISTS):
        raise ProblemError(f"{where} gave successors that are not a list: {shown(following)}")
    if not count:
        raise ProblemError(f"{where} gave no successors")
    if which.dtype.kind not in "iu":
        raise ProblemError(f"{where} gave indices of the type {which.dtype}, not whole numbers")
    if not 0 <= which.min() <= which.max() < count:
        raise ProblemError(f"{where} gave indices that are not among 0 .. {count - 1}, for {count} successors")
    return rewards, following, which


def draw_noise(problem: Problem, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """The noise of n steps of ``step_many``, (n, ...)."""
    mdp: Any = problem.mdp
    where = f"draw_noise({n})"
    result = _called(problem, where, lambda: mdp.draw_noise(n, rng))
    try:
        noise: NDArray[Any] = np.asarray(result)
    except Exception as error:
        raise ProblemError(f"{where} gave noise that is no array, {shown(result)}: NumPy {raised(error)}") from None
    if noise.shape[:1] != (n,):
        raise ProblemError(f"{where} gave noise of shape {noise.shape}, expected {n} rows")
    return noise


def draw_many(
    problem: Problem, states: NDArray[Any], stage: int, actions: NDArray[Any], noise: NDArray[Any]
) -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
    """(rewards, next states, where these are END) of many pairs of one stage from one ``step_many``, checked."""
    mdp: Any = problem.mdp
    where = f"step_many({len(states)} states) at stage {stage}"
    result = _called(problem, where, lambda: mdp.step_many(states, actions, noise))
    try:
        rewards, following, ended = (np.asarray(part) for part in result)
    except Exception:
        raise ProblemError(f"{where} must return (rewards, next states, ended), got {_counted(result)}") from None
    shapes = (rewards.shape, following.shape, ended.shape)
    if shapes != (actions.shape, states.shape, actions.shape):
        raise ProblemError(
            f"{where} gave rewards, next states and ended of the shapes {', '.join(map(str, shapes))}, "
            f"for states of shape {states.shape}"
        )
    if rewards.dtype.kind not in "biuf" or following.dtype.kind not in "biuf" or ended.dtype != np.bool_:
        kinds = f"{rewards.dtype}, {following.dtype} and {ended.dtype}"
        raise ProblemError(f"{where} gave rewards, next states and ended of the types {kinds}, not numbers and bool")
    if problem.next_stage(stage) == problem.horizon:
        ended = np.ones(ended.shape, dtype=np.bool_)
    return _checked_rewards(problem, states, stage, actions, rewards), _checked_states(where, following, ended), ended


def _checked_rewards(
    problem: Problem, states: NDArray[Any], stage: int, actions: NDArray[Any], rewards: NDArray[Any]
) -> Array:
    """The rewards, clipped if outside of the declared range by rounding only; ProblemError names the first other."""
    low, high = problem.reward_range
    floats: Array = rewards.astype(np.float64, copy=False)
    if not floats.size or low <= floats.min() <= floats.max() <= high:
        return floats
    precision = FLOAT_ROUNDING * float(np.finfo(rewards.dtype).eps) if rewards.dtype.kind == "f" else 0.0
    slack = max(ROUNDING, precision) * max(1.0, abs(low), abs(high))
    bad = ~((floats >= low - slack) & (floats <= high + slack))
    if bad.any():
        i = int(np.argmax(bad))
        (state,) = unpack_states(states[i : i + 1])
        checked_reward(problem, state, stage, int(actions[i]), float(floats[i]))
    return floats.clip(low, high)


def _checked_states(where: str, following: NDArray[Any], ended: NDArray[np.bool_]) -> NDArray[Any]:
    """The next states, after checking that those that are not END are finite."""
    if following.dtype.kind == "f":
        bad = ~np.isfinite(following).reshape(len(ended), -1).all(axis=1) & ~ended
        if bad.any():
            raise ProblemError(f"{where} gave the next state {shown(following[bad][0].tolist())}")
    return following


def _called(problem: Problem, what: str, call: Callable[[], Any], error: Exception | None = None) -> Any:
    """``call()``, retried after an exception as often as the problem allows."""
    tries = problem.retries + (error is None)
    for _ in range(tries):
        try:
            return call()
        except Exception as latest:
            error = latest
    assert error is not None
    again = f" (tried {problem.retries + 1} times)" if problem.retries else ""
    raise ProblemError(f"{what} {raised(error)}{again}") from error


def unpack(problem: Problem, state: State, stage: int, action: int, result: Any) -> tuple[float, State]:
    """The checked reward as a float, and the next state, from the result of ``step``."""
    try:
        reward, following = _listed(result)
    except Exception:
        where = _step(state, stage, action)
        raise ProblemError(f"{where} must return (reward, next_state), got {_counted(result)}{_gym(result)}") from None
    try:
        number = _number(reward)
    except Exception:
        where = _step(state, stage, action)
        raise ProblemError(
            f"{where} must return (reward, next_state), and gave the reward {shown(reward)}, which is not a number"
        ) from None
    return checked_reward(problem, state, stage, action, number), following


def _listed(result: Any) -> Any:
    """The result; TypeError for one whose entries have no order."""
    if isinstance(result, NOT_LISTS):
        raise TypeError
    return result


def _number(reward: Any) -> float:
    """The reward as a float; arrays of one entry are numbers, too, and words are not."""
    if isinstance(reward, str | bytes):
        raise TypeError
    return float(reward.item() if isinstance(reward, np.ndarray) else reward)


def _counted(result: Any) -> str:
    """What was returned, in words, after the number of values if it is a tuple."""
    return f"{len(result)} values: {shown(result)}" if isinstance(result, tuple) else shown(result)


def _gym(result: Any) -> str:
    """A hint for those who return what environments return."""
    environment = isinstance(result, tuple) and len(result) in ENVIRONMENT
    return "; problems of environments are made by tp.from_gym" if environment else ""


def checked_reward(problem: Problem, state: State, stage: int, action: int, reward: float) -> float:
    """The reward, clipped to the declared range if it is outside by rounding only; otherwise ProblemError."""
    low, high = problem.reward_range
    if low <= reward <= high:
        return reward
    slack = ROUNDING * max(1.0, abs(low), abs(high))
    if low - slack <= reward <= high + slack:
        return min(max(reward, low), high)
    what = "is not a number" if math.isnan(reward) else f"is outside of the declared range [{low:g}, {high:g}]"
    raise ProblemError(f"{_step(state, stage, action)} gave the reward {reward!r}, which {what}")


def contradiction(state: State, stage: int, action: int, what: str, first: Any, then: Any) -> ProblemError:
    """The error for a result that changed although it is declared deterministic."""
    return ProblemError(
        f"{_step(state, stage, action)} is declared to have deterministic {what}s, "
        f"but the {what} was {shown(first, HALF)} and then {shown(then, HALF)}"
    )


def whole_action(action: Any, actions: int, state: State, stage: int) -> int:
    """The action as an int; BadInput unless it is one of 0 .. actions-1."""
    if isinstance(action, int | np.integer) and not isinstance(action, bool) and 0 <= action < actions:
        return int(action)
    raise BadInput(f"action {shown(action)} at state {shown(state)}, stage {stage}: actions are 0 .. {actions - 1}")


def _step(state: State, stage: int, action: int) -> str:
    return f"step(state={shown(state, HALF)}, action={action}) at stage {stage}"


def believable(problem: str, total: float, declared: tuple[float, float], where: str = "") -> float:
    """The return, clipped to the declared range if it is outside by rounding only; otherwise ProblemError."""
    low, high = declared
    slack = RETURN_SLACK * (1 + abs(total))
    if not low - slack <= total <= high + slack:
        raise ProblemError(
            f"problem {problem!r} declares returns in [{low:g}, {high:g}], and {where}an episode had {total:g}"
        )
    return min(max(total, low), high)


def global_generators() -> tuple[Any, ...]:
    """The states of Python's and NumPy's global generators; NumPy's words change only every 624 draws."""
    _, words, *position = np.random.get_state()
    return random.getstate(), np.asarray(words).tobytes(), position


def generators(mdp: Any) -> tuple[Any, ...]:
    """The states of the generators that a simulator may use besides its argument: global ones, and its attributes."""
    own = [
        found.bit_generator.state if isinstance(found, np.random.Generator) else found.getstate()
        for found in getattr(mdp, "__dict__", {}).values()
        if isinstance(found, np.random.Generator | random.Random)
    ]
    return global_generators(), own
