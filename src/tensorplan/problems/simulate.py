"""One checked step of a problem's simulator: bad answers become one clear sentence."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import END, Array, Problem, State
from tensorplan.core.errors import QUOTED, BadInput, ProblemError, raised, shown

HALF = QUOTED // 2
"""Characters of a quoted object, where a message quotes several."""

ROUNDING = 1e-12
"""By how much of its size a reward may miss its declared range and count as rounded: it is moved to the nearest end."""


def draw_start(problem: Problem, rng: np.random.Generator) -> State:
    """An initial state, checked."""
    state = _called(problem, f"start() of problem {problem.name!r}", lambda: problem.mdp.start(rng))
    if state is END:
        raise ProblemError(f"start() of problem {problem.name!r} gave END: there is nothing to plan")
    return state


def draw(problem: Problem, state: State, stage: int, action: int, rng: np.random.Generator) -> tuple[float, State]:
    """(reward, next state) from one call of ``step``, checked."""
    try:
        answer = problem.mdp.step(state, action, rng)
    except Exception as error:
        answer = retry(problem, state, stage, action, rng, error)
    return unpack(problem, state, stage, action, answer)


def retry(
    problem: Problem, state: State, stage: int, action: int, rng: np.random.Generator, error: Exception
) -> tuple[float, State]:
    """What ``step`` answers after it raised, from as many tries as the problem allows; else a ProblemError."""

    def ask() -> tuple[float, State]:
        return problem.mdp.step(state, action, rng)

    answer: tuple[float, State] = _called(problem, _step(state, stage, action), ask, error)
    return answer


def draw_batch(
    problem: Problem, state: State, stage: int, action: int, n: int, rng: np.random.Generator
) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
    """n samples of a pair from one call of ``step_batch``, their shapes checked."""
    mdp: Any = problem.mdp
    where = f"step_batch(state={shown(state, HALF)}, action={action}, n={n}) at stage {stage}"
    answer = _called(problem, where, lambda: mdp.step_batch(state, action, n, rng))
    try:
        rewards, following, which = answer
        rewards, which = np.asarray(rewards, dtype=np.float64), np.asarray(which)
        count = len(following)
    except Exception:
        raise ProblemError(f"{where} must return (rewards, successors, which), got {shown(answer)}") from None
    if rewards.shape != (n,) or which.shape != (n,):
        raise ProblemError(f"{where} gave rewards of shape {rewards.shape} and indices of shape {which.shape}")
    if which.dtype.kind not in "iu" or not 0 <= which.min() <= which.max() < count:
        raise ProblemError(f"{where} gave indices that are not among 0 .. {count - 1}, for {count} successors")
    return rewards, following, which


def _called(problem: Problem, what: str, call: Callable[[], Any], error: Exception | None = None) -> Any:
    """What the call gives, tried again after an error as often as the problem allows."""
    tries = problem.retries + (error is None)
    for _ in range(tries):
        try:
            return call()
        except Exception as latest:
            error = latest
    assert error is not None
    again = f" (tried {problem.retries + 1} times)" if problem.retries else ""
    raise ProblemError(f"{what} {raised(error)}{again}") from error


def unpack(problem: Problem, state: State, stage: int, action: int, answer: Any) -> tuple[float, State]:
    """The reward as a float and the next state, or a ProblemError that says what is wrong with them."""
    try:
        reward, following = answer
        reward = float(reward)
    except Exception:
        where = _step(state, stage, action)
        raise ProblemError(f"{where} must return (reward, next_state), got {shown(answer)}") from None
    return checked_reward(problem, state, stage, action, reward), following


def checked_reward(problem: Problem, state: State, stage: int, action: int, reward: float) -> float:
    """The reward, moved into the declared range where only rounding took it out; raises where it is outside."""
    low, high = problem.reward_range
    if low <= reward <= high:
        return reward
    slack = ROUNDING * max(1.0, abs(low), abs(high))
    if low - slack <= reward <= high + slack:
        return min(max(reward, low), high)
    what = "is not a number" if math.isnan(reward) else f"is outside of the declared range [{low:g}, {high:g}]"
    raise ProblemError(f"{_step(state, stage, action)} gave the reward {reward!r}, which {what}")


def contradiction(state: State, stage: int, action: int, what: str, first: Any, then: Any) -> ProblemError:
    """The ProblemError for a declared-deterministic answer that changed."""
    return ProblemError(
        f"{_step(state, stage, action)} is declared to have deterministic {what}s, "
        f"but the {what} was {shown(first, HALF)} and then {shown(then, HALF)}"
    )


def whole_action(action: Any, actions: int, state: State, stage: int) -> int:
    """The action as an int, or BadInput when it is not one of 0 .. actions-1."""
    if isinstance(action, int | np.integer) and not isinstance(action, bool) and 0 <= action < actions:
        return int(action)
    raise BadInput(f"action {shown(action)} at state {shown(state)}, stage {stage}: actions are 0 .. {actions - 1}")


def _step(state: State, stage: int, action: int) -> str:
    return f"step(state={shown(state, HALF)}, action={action}) at stage {stage}"


def believable(problem: str, total: float, declared: tuple[float, float], where: str = "") -> float:
    """A return, within the range that the problem declares; one sentence where it is not."""
    low, high = declared
    slack = 1e-6 * (1 + abs(total))
    if not low - slack <= total <= high + slack:
        raise ProblemError(
            f"problem {problem!r} declares returns in [{low:g}, {high:g}], and {where}an episode had {total:g}"
        )
    return min(max(total, low), high)


def global_generators() -> tuple[Any, ...]:
    """Where Python's and NumPy's global generators are: the words of the latter change after 624 draws only."""
    _, words, *place = np.random.get_state()
    return random.getstate(), np.asarray(words).tobytes(), place


def generators(mdp: Any) -> tuple[Any, ...]:
    """Where the generators are that a simulator may use beside the one that it is given: global ones, and its own."""
    own = [
        found.bit_generator.state if isinstance(found, np.random.Generator) else found.getstate()
        for found in getattr(mdp, "__dict__", {}).values()
        if isinstance(found, np.random.Generator | random.Random)
    ]
    return global_generators(), own
