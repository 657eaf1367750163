"""States of anybody's making: whether they can be compared, and copies of those that could be changed."""

from __future__ import annotations

import copy

from tensorplan.core import State
from tensorplan.core.errors import ProblemError, raised, shown


def hashable(state: State) -> bool:
    """Whether a state can be hashed, so that it can be compared and will not change."""
    try:
        hash(state)
    except Exception:
        return False
    return True


def same(one: State, other: State) -> bool:
    """Whether two states are known to be the same."""
    return one is other or (hashable(one) and hashable(other) and equal(one, other))


def equal(one: State, other: State) -> bool:
    """``one == other``, or one sentence where comparing them raises."""
    try:
        return bool(one == other)
    except Exception as error:
        raise incomparable(one, error) from error


def incomparable(state: State, error: Exception) -> ProblemError:
    """The error for a state whose ``__eq__`` raises."""
    return ProblemError(f"comparing the state {shown(state)} with another one {raised(error)}")


def own(state: State) -> State:
    """The state, or a copy where it could be changed."""
    return state if hashable(state) else copy.deepcopy(state)
