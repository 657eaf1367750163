"""Comparing and copying states, whose type is up to the user, and many numeric ones as one array."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def pack(states: Sequence[State]) -> NDArray[Any]:
    """States that are numbers, or tuples of k numbers, as an array (n,) or (n, k); ProblemError for others."""
    try:
        array = np.asarray(states)
    except ValueError:  # tuples of different lengths
        array = np.empty(0, dtype=object)
    tuples = all(isinstance(state, tuple) for state in states)
    if array.dtype.kind not in "biuf" or array.ndim != 1 + tuples:
        raise ProblemError(
            f"many states at once must be numbers, or tuples of numbers of one length, got {shown(list(states[:3]))}"
        )
    return array


def unpack(array: NDArray[Any]) -> list[State]:
    """The states of an array (n,) or (n, k), as Python numbers or tuples of them."""
    listed: list[State] = array.tolist()
    return listed if array.ndim == 1 else [tuple(state) for state in listed]
