"""Any value function, right or wrong, by the numbers of states, and clipped to a band."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tensorplan.access.batches import ENDED, BatchAccess, Ids
from tensorplan.core import Array, Problem, State
from tensorplan.core.errors import BadInput, ProblemError, TensorplanError, raised, shown

ValueFunction = Callable[[State, int], float]


@runtime_checkable
class ArrayFunction(Protocol):
    """A value function that also takes many states at once."""

    def __call__(self, state: State, stage: int) -> float:
        """V of one state."""

    def many(self, states: NDArray[Any], stage: int) -> Array:
        """V of n states, numbers or tuples of k numbers in an array (n,) or (n, k), (n,)."""


Band = dict[int, tuple[float, float]]
"""For each stage, the least and the largest value."""


def value_function(problem: Problem, value: Any) -> ValueFunction:
    """V(state, stage) from a callable, or from θ for the features of the problem."""
    if callable(value):
        function: ValueFunction = value
        return function
    try:
        theta = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        theta = np.zeros(0)
    if problem.phi_v is None or theta.shape != (problem.dimension,) or not np.isfinite(theta).all():
        raise BadInput(
            f"value must be a function of state and stage, or theta ({problem.dimension} finite numbers for phi_v); "
            f"got {shown(value)}"
        )
    return lambda state, stage: float(problem.state_features(state, stage) @ theta)


class Values:
    """V of numbered states, zero at END; clipped to a band, by default the range of returns.

    Every V gives a valid bound, so clipping does: it keeps temporal differences in a known range.
    """

    def __init__(self, access: BatchAccess, function: ValueFunction, band: Band | None = None) -> None:
        self.access, self.function = access, function
        self.limits = band or {}
        self._arrays = access.batched and isinstance(function, ArrayFunction)
        self.vectorised = self._arrays and access.points
        """Whether many values are computed at once, and anew whenever they are needed, since states do not recur."""
        self._generation = access.generation
        self._known: dict[int, Array] = {}
        self._seen: Band = {}

    def band(self, stage: int) -> tuple[float, float]:
        """The least and the largest value at a stage; the ends of the range of returns where no band is given."""
        return self.limits.get(stage) or self.access.problem.return_range(stage)

    def within(self, band: Band) -> Values:
        """The same function, clipped to another band."""
        return Values(self.access, self.function, band)

    def seen(self) -> Band:
        """The least and the largest value of each stage among the states looked at so far."""
        if self.vectorised:
            return dict(self._seen)
        found = {stage: known[:-1][~np.isnan(known[:-1])] for stage, known in self._known.items()}
        return {stage: (float(x.min()), float(x.max())) for stage, x in found.items() if len(x)}

    def __call__(self, ids: Ids, stage: int) -> Array:
        """V of the states with these numbers, in an array of the same shape; zero at END and after the horizon."""
        if stage == self.access.problem.horizon:
            return np.zeros(ids.shape)
        if self.vectorised:
            return self._of_arrays(ids, stage)
        known = self._table(stage)
        values: Array = known[ids]
        if np.isnan(values).any():
            low, high = self.band(stage)
            missing = np.unique(ids[np.isnan(values)])
            if self._arrays:
                known[missing] = self.of(self.access.packed(missing), stage)
            else:
                for number in missing.tolist():
                    known[number] = min(max(self._computed(self.access.state(number), stage), low), high)
            values = known[ids]
        return values

    def _of_arrays(self, ids: Ids, stage: int) -> Array:
        values, going = np.zeros(ids.shape), ids != ENDED
        if going.any():
            values[going] = self.of(self.access.packed(ids[going]), stage)
        return values

    def of(self, states: NDArray[Any], stage: int) -> Array:
        """V of many states at once, (n,), before the horizon."""
        assert isinstance(self.function, ArrayFunction)
        where = f"the value function at {len(states)} states, stage {stage}"
        try:
            values = np.asarray(self.function.many(states, stage), dtype=np.float64)
        except TensorplanError:
            raise
        except Exception as error:
            raise ProblemError(f"{where} {raised(error)}") from error
        if values.shape != (len(states),) or np.isnan(values).any():
            raise ProblemError(f"{where} must give as many numbers, got {shown(values)}")
        clipped: Array = values.clip(*self.band(stage))
        if len(clipped):
            low, high = self._seen.get(stage, (np.inf, -np.inf))
            self._seen[stage] = min(low, float(clipped.min())), max(high, float(clipped.max()))
        return clipped

    def _table(self, stage: int) -> Array:
        """Values by number, NaN where not known; the last place, which the number -1 refers to, is END's."""
        if self._generation != self.access.generation:
            self._known, self._generation = {}, self.access.generation
        known = self._known.get(stage)
        if known is None or len(known) <= self.access.count:
            grown = np.full(2 * self.access.count + 64, np.nan)
            if known is not None:
                grown[: len(known) - 1] = known[:-1]
            grown[-1] = 0.0
            known = self._known[stage] = grown
        return known

    def _computed(self, state: State, stage: int) -> float:
        where = f"the value function at state {shown(state)}, stage {stage}"
        try:
            value = float(self.function(state, stage))
        except TensorplanError:
            raise
        except Exception as error:
            raise ProblemError(f"{where} {raised(error)}") from error
        if value != value:
            raise ProblemError(f"{where} gave NaN")
        return value
