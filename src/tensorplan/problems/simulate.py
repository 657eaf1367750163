"""One checked step of a problem's simulator: bad answers become one clear sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorplan.core import END, BadInput, Problem, ProblemError, State


def draw_start(problem: Problem, rng: np.random.Generator) -> State:
    """An initial state, checked."""
    try:
        state = problem.mdp.start(rng)
    except Exception as error:
        raise ProblemError(f"start() of problem {problem.name!r} raised {type(error).__name__}: {error}") from error
    if state is END:
        raise ProblemError(f"start() of problem {problem.name!r} gave END: there is nothing to plan")
    return state


def draw(problem: Problem, state: State, stage: int, action: int, rng: np.random.Generator) -> tuple[float, State]:
    """(reward, next state) from one call of ``step``, checked."""
    try:
        answer = problem.mdp.step(state, action, rng)
    except Exception as error:
        raise step_raised(state, stage, action, error) from error
    return unpack(problem, state, stage, action, answer)


def unpack(problem: Problem, state: State, stage: int, action: int, answer: Any) -> tuple[float, State]:
    """The reward as a float and the next state, or a ProblemError that says what is wrong with them."""
    try:
        reward, following = answer
        reward = float(reward)
    except (TypeError, ValueError):
        raise ProblemError(f"{_step(state, stage, action)} must return (reward, next_state), got {answer!r}") from None
    check_reward(problem, state, stage, action, reward)
    return reward, following


def check_reward(problem: Problem, state: State, stage: int, action: int, reward: float) -> None:
    """Raise unless the reward is a number in the declared range."""
    low, high = problem.reward_range
    if not low <= reward <= high:
        what = "is not a number" if math.isnan(reward) else f"is outside of the declared range [{low:g}, {high:g}]"
        raise ProblemError(f"{_step(state, stage, action)} gave the reward {reward!r}, which {what}")


def step_raised(state: State, stage: int, action: int, error: Exception) -> ProblemError:
    """The ProblemError for a ``step`` that raised."""
    return ProblemError(f"{_step(state, stage, action)} raised {type(error).__name__}: {error}")


def contradiction(state: State, stage: int, action: int, what: str, first: Any, then: Any) -> ProblemError:
    """The ProblemError for a declared-deterministic answer that changed."""
    return ProblemError(
        f"{_step(state, stage, action)} is declared to have deterministic {what}s, "
        f"but the {what} was {first!r} and then {then!r}"
    )


def whole_action(action: Any, actions: int, state: State, stage: int) -> int:
    """The action as an int, or BadInput when it is not one of 0 .. actions-1."""
    if isinstance(action, int | np.integer) and not isinstance(action, bool) and 0 <= action < actions:
        return int(action)
    raise BadInput(f"action {action!r} at state {state!r}, stage {stage}: actions are 0 .. {actions - 1}")


def _step(state: State, stage: int, action: int) -> str:
    return f"step(state={state!r}, action={action}) at stage {stage}"


def believable(problem: str, total: float, declared: tuple[float, float], where: str = "") -> float:
    """A return, within the range that the problem declares; one sentence where it is not."""
    low, high = declared
    slack = 1e-6 * (1 + abs(total))
    if not low - slack <= total <= high + slack:
        raise ProblemError(
            f"problem {problem!r} declares returns in [{low:g}, {high:g}], and {where}an episode had {total:g}"
        )
    return min(max(total, low), high)
