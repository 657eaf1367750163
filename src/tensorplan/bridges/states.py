"""States of anybody's making: whether they can be compared, and copies of those that could be changed."""

from __future__ import annotations

import copy

from tensorplan.core import State


def hashable(state: State) -> bool:
    """Whether a state can be hashed, so that it can be compared and will not change."""
    try:
        hash(state)
    except TypeError:
        return False
    return True


def same(one: State, other: State) -> bool:
    """Whether two states are known to be the same."""
    return one is other or (hashable(one) and hashable(other) and bool(one == other))


def own(state: State) -> State:
    """The state, or a copy where it could be changed."""
    return state if hashable(state) else copy.deepcopy(state)
