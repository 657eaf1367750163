"""The MDP as a simulator (Weisz et al. 2022, Assumption 1), its optional capabilities, and the end state ⊥."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

State = Any
Array = NDArray[np.float64]
Features = Callable[[State, int], Any]

DECLARATIONS = (
    *("horizon", "actions", "reward_range", "return_range"),
    *("deterministic_transitions", "deterministic_rewards"),
)
"""The attributes that an MDP declares; all but the first two are optional."""


@final
class End:
    """The type of :data:`END`."""

    __slots__ = ()
    _only: End | None = None

    def __new__(cls) -> End:
        """The only instance, :data:`END`."""
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "END"

    def __reduce__(self) -> str:
        return "END"


END = End()
"""The absorbing end state ⊥ of every episode: zero reward, zero features."""


class MDP(Protocol):
    """A simulator of a finite-horizon or terminating Markov decision process (Weisz et al. 2022, Assumption 1).

    An MDP may also declare ``reward_range`` (default ``(0.0, 1.0)``), ``deterministic_transitions`` and
    ``deterministic_rewards`` (default False), and ``return_range``, if the return from every state is known to lie in
    a smaller range than rewards and horizon imply, such as (0, 1) for a single prize.  The dynamics depend on the state
    only: if they change with the stage, the state must include it.  After ``horizon`` steps the process is at ``END``.
    """

    @property
    def horizon(self) -> int | None:
        """H, the number of steps of an episode; None if it runs until END."""

    @property
    def actions(self) -> int:
        """A; actions are 0 .. A-1."""

    def start(self, rng: np.random.Generator) -> State:
        """Draw an initial state."""

    def step(self, state: State, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state) from Q(.|state, action); the next state may be END."""


@runtime_checkable
class Vectorised(Protocol):
    """An MDP that draws a batch of samples at one state-action pair."""

    def step_batch(
        self, state: State, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """n samples: rewards (n,), the distinct successors, and the index of the successor of each sample (n,)."""


@runtime_checkable
class Batched(Protocol):
    """An MDP that steps many (state, action) pairs at once, with noise that pairs may share.

    Its states are numbers, or tuples of k numbers; n of them are an array (n,), or (n, k).  For every pair, the law of
    ``step_many`` over a row of noise is that of ``step``.  Results may be arrays of NumPy or JAX.  An MDP whose noise
    is k independent numbers, uniform on [0, 1), may declare ``uniforms = k``: means over many steps then use noise that
    covers the interval evenly, which makes them more accurate.
    """

    def draw_noise(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """The noise of n steps, (n, ...); rows are independent and identically distributed."""

    def step_many(
        self, states: NDArray[Any], actions: NDArray[Any], noise: NDArray[Any]
    ) -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
        """Step pair i with noise[i]: rewards (n,), next states shaped like ``states``, and where these are END (n,).

        A deterministic function of its arguments: repeating a row of noise shares it between pairs.  Next states that
        are END may be any numbers.
        """


@runtime_checkable
class Enumerable(Protocol):
    """An MDP that can list its states, which global access needs."""

    def states(self, stage: int) -> Iterable[State]:
        """All states of one stage, without END."""


class OptimalValues(Protocol):
    """The exact optimal values of a problem, for judges and the oracle; planners cannot access them."""

    def value(self, state: State, stage: int) -> float:
        """v*(state)."""

    def action_value(self, state: State, action: int, stage: int) -> float:
        """q*(state, action)."""


def return_range(
    reward_range: tuple[float, float], horizon: int | None, stage: int = 0, discount: float = 1.0
) -> tuple[float, float]:
    """The range of the (discounted) total reward from ``stage`` on, early END included."""
    if horizon is None:
        steps = float("inf") if discount == 1 else 1 / (1 - discount)
    else:
        left = horizon - stage
        steps = left if discount == 1 else (1 - discount**left) / (1 - discount)
    low, high = min(reward_range[0], 0.0), max(reward_range[1], 0.0)
    return (low * steps if low else 0.0, high * steps if high else 0.0)
