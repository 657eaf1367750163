"""What an MDP is: a simulator (Assumption 1 of Weisz et al. 2022), and END, where every episode ends."""

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
"""What an MDP says about itself; all but the first two are optional."""


@final
class End:
    """The type of :data:`END`, the absorbing state ⊥: no reward, zero features, never left."""

    __slots__ = ()
    _only: End | None = None

    def __new__(cls) -> End:
        """The one instance."""
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "END"

    def __reduce__(self) -> str:
        return "END"


END = End()
"""⊥, where every episode ends: absorbing, without reward, with features zero."""


class MDP(Protocol):
    """A fixed-horizon or terminating Markov decision process, as a simulator (Assumption 1).

    An MDP may also declare ``reward_range`` (default ``(0.0, 1.0)``), ``deterministic_transitions`` and
    ``deterministic_rewards`` (default False), and ``return_range``, where every return, from every state on, is known
    to be in a smaller range than rewards and steps allow: a single prize is worth 1, however long the way.  Dynamics
    depend on the state alone: where they change with the stage, the state carries its stage.  After ``horizon`` steps
    the process is at ``END``.
    """

    @property
    def horizon(self) -> int | None:
        """H, the number of steps of an episode; None when it runs until END."""

    @property
    def actions(self) -> int:
        """A; actions are 0 .. A-1."""

    def start(self, rng: np.random.Generator) -> State:
        """Draw an initial state."""

    def step(self, state: State, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state) from Q(.|state, action); the next state may be END."""


@runtime_checkable
class Vectorised(Protocol):
    """An MDP that draws many samples of one state-action pair at once."""

    def step_batch(
        self, state: State, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """Draw n samples: rewards (n,), candidate successors, and which of them each sample went to (n,)."""


@runtime_checkable
class Enumerable(Protocol):
    """An MDP that can list its states, which global access needs."""

    def states(self, stage: int) -> Iterable[State]:
        """All states of one stage, END left out."""


class OptimalValues(Protocol):
    """The exact optimal values of a problem; judges and the oracle read it, planners never see it."""

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
