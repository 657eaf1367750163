"""Comparing and copying states, whose type is up to the user."""

from __future__ import annotations

import copy

from tensorplan.core import State
from tensorplan.core.errors import ProblemError, raised, shown


def hashable(state: State) -> bool:
    """Whether a state is hashable, which implies that it can be compared and is immutable."""
    try:
        hash(state)
    except Exception:
        return False
    return True


def same(one: State, other: State) -> bool:
    """Whether two states are known to be equal."""
    return one is other or (hashable(one) and hashable(other) and equal(one, other))


def equal(one: State, other: State) -> bool:
    """``one == other``; ProblemError if the comparison raises."""
    try:
        return bool(one == other)
    except Exception as error:
        raise incomparable(one, error) from error


def incomparable(state: State, error: Exception) -> ProblemError:
    """The error for a state whose ``__eq__`` raises."""
    return ProblemError(f"comparing the state {shown(state)} with another one {raised(error)}")


def own(state: State) -> State:
    """The state, or a copy if it may be mutable."""
    return state if hashable(state) else copy.deepcopy(state)
