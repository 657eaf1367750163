"""Problems: an MDP with features, the bound B on ‖θ*‖, and optionally its exact solution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core.errors import BadInput, ProblemError, TensorplanError, raised, shown
from tensorplan.core.mdp import DECLARATIONS, END, MDP, Array, Features, OptimalValues, State, return_range

NORM_SLACK = 1e-9
"""How far above 1 the norm of a feature may be (rounding)."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A featurized MDP: v*(s) = <φ_v(s), θ*> and/or q*(s,a) = <φ_q(s,a), θ*> with ‖θ*‖ <= bound.

    ``phi_v(state, stage)`` has shape (d,), ``phi_q(state, stage)`` shape (A, d), all norms at most 1.  Neither
    is called at END, where features are zero.  If the horizon is None, nothing may depend on time, and the stage is
    always 0.  With ``discount`` γ < 1 the optimal values are those of the return Σ_t γ^t R_t.
    ``solution``, ``theta`` (θ*) and ``eta`` (its error in sup norm) are for judges and tests.
    """

    mdp: MDP
    phi_v: Features | None = None
    phi_q: Features | None = None
    bound: float = field(default=math.nan, kw_only=True)
    name: str = field(default="problem", kw_only=True)
    solution: OptimalValues | None = field(default=None, kw_only=True, repr=False)
    theta: Array | None = field(default=None, kw_only=True, repr=False)
    eta: float = field(default=0.0, kw_only=True)
    discount: float = field(default=1.0, kw_only=True)
    retries: int = field(default=0, kw_only=True)
    """How often a ``step``, ``step_batch``, ``step_many`` or ``start`` that raises is retried."""
    unmetered: int = field(default=0, kw_only=True, repr=False)
    """Simulator steps outside of any planner's queries, to probe an environment or to list states; it grows."""

    identity: object = field(init=False, repr=False)
    """Unique to this object and otherwise opaque; planners with a memory recognise a problem by it."""
    horizon: int | None = field(init=False)
    actions: int = field(init=False)
    reward_range: tuple[float, float] = field(init=False)
    declared_returns: tuple[float, float] | None = field(init=False)
    """The ``return_range`` of the MDP, or None."""
    deterministic_transitions: bool = field(init=False)
    deterministic_rewards: bool = field(init=False)

    def __post_init__(self) -> None:
        mdp, fix = self.mdp, object.__setattr__
        where = f"problem {self.name!r}"
        for member in ("horizon", "actions", "start", "step"):
            if not hasattr(mdp, member):
                raise ProblemError(f"{where}: the MDP has no {member!r}")
        if self.phi_v is None and self.phi_q is None:
            raise ProblemError(f"{where}: give phi_v, phi_q, or both; neither feature map was given")
        if not (_is_number(self.bound) and 0 < self.bound < math.inf):
            raise ProblemError(f"{where}: the bound B must be a positive number, got {self.bound!r}")
        if not (_is_number(self.discount) and 0 < self.discount <= 1):
            raise ProblemError(f"{where}: the discount must be above 0 and at most 1, got {self.discount!r}")
        horizon = mdp.horizon
        if horizon is not None and not (_is_whole(horizon) and horizon > 0):
            raise ProblemError(f"{where}: the horizon must be a positive whole number or None, got {horizon!r}")
        if not (_is_whole(mdp.actions) and mdp.actions > 0):
            raise ProblemError(f"{where}: the number of actions must be a positive whole number, got {mdp.actions!r}")
        rewards, returns = getattr(mdp, "reward_range", (0.0, 1.0)), getattr(mdp, "return_range", None)
        low, high = _two_numbers(rewards)
        if not -math.inf < low <= high < math.inf:
            raise ProblemError(f"{where}: reward_range must be two finite numbers (low, high), got {rewards!r}")
        least, most = (0.0, 0.0) if returns is None else _two_numbers(returns)
        if not -math.inf < least <= 0 <= most < math.inf:
            raise ProblemError(
                f"{where}: return_range must be two finite numbers (low, high) with 0 between them, got {returns!r}"
            )
        if not (_is_whole(self.retries) and self.retries >= 0):
            raise ProblemError(f"{where}: retries must be a whole number >= 0, got {self.retries!r}")
        fix(self, "identity", object())
        fix(self, "_declared", _declarations(mdp))
        fix(self, "bound", float(self.bound))
        fix(self, "horizon", None if horizon is None else int(horizon))
        fix(self, "actions", int(mdp.actions))
        fix(self, "reward_range", (low, high))
        fix(self, "declared_returns", None if returns is None else (least, most))
        fix(self, "deterministic_transitions", bool(getattr(mdp, "deterministic_transitions", False)))
        fix(self, "deterministic_rewards", bool(getattr(mdp, "deterministic_rewards", False)))

    def check_declarations(self) -> None:
        """Raise ProblemError if the declarations of the MDP changed since the problem was made."""
        before: dict[str, Any] = self._declared  # type: ignore[attr-defined]
        for name, now in _declarations(self.mdp).items():
            if now != before[name]:
                raise ProblemError(
                    f"problem {self.name!r}: its MDP declared {name}={shown(before[name])} when the problem was made, "
                    f"and declares {shown(now)} now: make a new problem"
                )

    def count_unmetered(self, steps: int) -> None:
        """Add simulator steps to ``unmetered``."""
        object.__setattr__(self, "unmetered", self.unmetered + steps)

    @property
    def deterministic(self) -> bool:
        """Whether transitions and rewards are both declared deterministic."""
        return self.deterministic_transitions and self.deterministic_rewards

    @cached_property
    def dimension(self) -> int:
        """d, from the shape of the features of a start state."""
        state = self.mdp.start(np.random.default_rng(0))
        name, features = ("phi_v", self.phi_v) if self.phi_v is not None else ("phi_q", self.phi_q)
        assert features is not None
        shape = _values(name, features, state, 0, np.shape)
        if not shape:
            raise ProblemError(f"{_at(name, state, 0)} gave a single number, expected an array")
        return int(shape[-1])

    def next_stage(self, stage: int) -> int:
        """The stage after ``stage``; always 0 in problems without a horizon."""
        return stage if self.horizon is None else stage + 1

    def arrive(self, following: State, stage: int) -> State:
        """The successor reached from ``stage``: ``following``, or END after the last stage."""
        return END if self.next_stage(stage) == self.horizon else following

    def return_range(self, stage: int = 0, discount: float | None = None) -> tuple[float, float]:
        """The range of the return from ``stage`` on, early END included, with the problem's discount or another one."""
        gamma = self.discount if discount is None else discount
        low, high = return_range(self.reward_range, self.horizon, stage, gamma)
        if self.declared_returns is None or gamma != self.discount:
            return low, high
        return max(low, self.declared_returns[0]), min(high, self.declared_returns[1])

    def state_features(self, state: State, stage: int) -> Array:
        """φ_v(state), checked: (d,), finite, norm <= 1; zero at END."""
        return self._features("phi_v", self.phi_v, (self.dimension,), state, stage)

    def action_features(self, state: State, stage: int) -> Array:
        """φ_q(state, .), checked: (A, d), finite, norms <= 1; zero at END."""
        return self._features("phi_q", self.phi_q, (self.actions, self.dimension), state, stage)

    def many_state_features(self, states: NDArray[Any], stage: int) -> Array:
        """φ_v of many states, (n, d), checked, by ``phi_v.many(states, stage)`` where there is such a method.

        States are numbers or tuples of k numbers, in an array (n,) or (n, k).
        """
        many = getattr(self.phi_v, "many", None)
        if many is None or not len(states):
            rows = [self.state_features(tuple(x) if states.ndim > 1 else x, stage) for x in states.tolist()]
            return np.array(rows).reshape(len(states), self.dimension)
        where = f"phi_v.many({len(states)} states, stage={stage})"
        try:
            values = _floats(many(states, stage))
        except TensorplanError:
            raise
        except Exception as error:
            raise ProblemError(f"{where} {raised(error)}") from error
        if values.shape != (len(states), self.dimension):
            raise ProblemError(f"{where} has shape {values.shape}, expected {(len(states), self.dimension)}")
        squares = np.einsum("ij,ij->i", values, values)
        if not (squares <= (1 + NORM_SLACK) ** 2).all():
            row = int(np.argmax(~(squares <= (1 + NORM_SLACK) ** 2)))
            raise ProblemError(
                f"{where} gave {shown(values[row])} at {shown(states[row])}, whose norm is not at most 1"
            )
        return values

    def _features(self, name: str, phi: Features | None, shape: tuple[int, ...], state: State, stage: int) -> Array:
        if phi is None:
            raise BadInput(f"problem {self.name!r} has no {name}")
        if state is END:
            return np.zeros(shape)
        value: Array = _values(name, phi, state, stage, _floats)
        if value.shape != shape:
            raise ProblemError(f"{_at(name, state, stage)} has shape {value.shape}, expected {shape}")
        squares = np.einsum("...i,...i->...", value, value)
        if not (squares <= (1 + NORM_SLACK) ** 2).all():
            row = int(np.argmax(~(np.atleast_1d(squares) <= (1 + NORM_SLACK) ** 2)))
            bad = np.atleast_2d(value)[row]
            where = _at(name, state, stage) + (f" for action {row}" if len(shape) == 2 else "")
            if not np.isfinite(bad).all():
                raise ProblemError(f"{where} contains {bad[~np.isfinite(bad)][0]}")
            raise ProblemError(f"{where} has norm {np.linalg.norm(bad):.12g}, which is above 1")
        value.flags.writeable = False
        return value

    def _solution(self) -> OptimalValues:
        if self.solution is None:
            raise BadInput(f"the optimal values of problem {self.name!r} are not known")
        return self.solution

    def optimal_value(self, state: State, stage: int = 0) -> float:
        """v*(state); BadInput if it is not known."""
        return 0.0 if state is END else self._solution().value(state, stage)

    def optimal_action_value(self, state: State, action: int, stage: int = 0) -> float:
        """q*(state, action); BadInput if it is not known."""
        return 0.0 if state is END else self._solution().action_value(state, action, stage)

    def optimal_policy(self, state: State, stage: int = 0) -> int:
        """The smallest action that maximises q*(state, .); BadInput if it is not known."""
        return int(np.argmax([self.optimal_action_value(state, a, stage) for a in range(self.actions)]))


def _values(name: str, phi: Features, state: State, stage: int, read: Callable[[Any], Any]) -> Any:
    """``read(phi(state, stage))``; errors of the feature map become ProblemError."""
    try:
        return read(phi(state, stage))
    except TensorplanError:
        raise
    except (TypeError, ValueError) as error:
        raise ProblemError(f"{_at(name, state, stage)} did not give an array of numbers: it {raised(error)}") from error
    except Exception as error:
        raise ProblemError(f"{_at(name, state, stage)} {raised(error)}") from error


def _at(name: str, state: State, stage: int) -> str:
    return f"{name}(state={shown(state)}, stage={stage})"


def _floats(x: Any) -> Array:
    return np.array(x, dtype=np.float64)


def _two_numbers(x: Any) -> tuple[float, float]:
    """x as two floats, or (nan, nan)."""
    try:
        low, high = (float(each) for each in x)
    except (TypeError, ValueError):
        return math.nan, math.nan
    return low, high


def _declarations(mdp: MDP) -> dict[str, Any]:
    """The current declarations of an MDP."""
    return {name: getattr(mdp, name, None) for name in DECLARATIONS}


def _is_whole(x: object) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _is_number(x: object) -> bool:
    return isinstance(x, int | float | np.integer | np.floating) and not isinstance(x, bool)
