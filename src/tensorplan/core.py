"""The shared nouns: what a problem is, what a planner is, and what the two may say to each other.

Section 2 of Weisz, Szepesvári and György (2022) is the specification.  An :class:`MDP` is a simulator;
a :class:`Problem` adds features and the bound B; a :class:`Planner` sees :class:`Node` objects and asks an
:class:`Access` about them; the loop turns the conversation into an :class:`Episode`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tensorplan.errors import BadInput, ProblemError, TensorplanError, raised, shown

State = Any
Array = NDArray[np.float64]
Features = Callable[[State, int], Any]

DECLARATIONS = (
    *("horizon", "actions", "reward_range", "return_range"),
    *("deterministic_transitions", "deterministic_rewards"),
)
"""What an MDP says about itself; all but the first two are optional."""

NORM_SLACK = 1e-9
"""How far above 1 the norm of a feature may be (rounding)."""


# ---------------------------------------------------------------------------------------------- END


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


# ------------------------------------------------------------------------------------------ the MDP


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


class Solution(Protocol):
    """The exact optimal values of a problem; judges and the oracle read it, planners never see it."""

    def value(self, state: State, stage: int) -> float:
        """v*(state)."""

    def action_value(self, state: State, action: int, stage: int) -> float:
        """q*(state, action)."""


# ------------------------------------------------------------------------------------- the problem


@dataclass(frozen=True, eq=False)
class Problem:
    """A featurized MDP: v*(s) = <φ_v(s), θ*> and/or q*(s,a) = <φ_q(s,a), θ*> with ‖θ*‖ <= bound.

    ``phi_v(state, stage)`` has shape (d,), ``phi_q(state, stage)`` shape (A, d), all norms at most 1.  Neither
    is ever called at END, where features are zero.  When the horizon is None nothing may depend on time,
    and the stage is always 0.  With ``discount`` γ < 1 the optimal values are those of the return Σ_t γ^t R_t.
    ``solution``, ``theta`` (θ*) and ``eta`` (by how much it misses, in sup norm) are for judges and tests.
    """

    mdp: MDP
    phi_v: Features | None = None
    phi_q: Features | None = None
    bound: float = field(default=math.nan, kw_only=True)
    name: str = field(default="problem", kw_only=True)
    solution: Solution | None = field(default=None, kw_only=True, repr=False)
    theta: Array | None = field(default=None, kw_only=True, repr=False)
    eta: float = field(default=0.0, kw_only=True)
    discount: float = field(default=1.0, kw_only=True)
    retries: int = field(default=0, kw_only=True)
    """How often a ``step``, ``step_batch`` or ``start`` that raises is called again before it is an error."""
    unmetered: int = field(default=0, kw_only=True, repr=False)
    """Steps of the simulator that no planner asked for: to try an environment out, to list states; it grows."""

    identity: object = field(init=False, repr=False)
    """Tells this problem from any other, however alike, and says nothing about it: planners with a memory go by it."""
    horizon: int | None = field(init=False)
    actions: int = field(init=False)
    reward_range: tuple[float, float] = field(init=False)
    declared_returns: tuple[float, float] | None = field(init=False)
    """The MDP's ``return_range``, where it has one."""
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
        """Raise where the MDP declares something else now than when the problem was made."""
        before: dict[str, Any] = self._declared  # type: ignore[attr-defined]
        for name, now in _declarations(self.mdp).items():
            if now != before[name]:
                raise ProblemError(
                    f"problem {self.name!r}: its MDP declared {name}={shown(before[name])} when the problem was made, "
                    f"and declares {shown(now)} now: make a new problem"
                )

    def count_unmetered(self, steps: int) -> None:
        """Add to ``unmetered``."""
        object.__setattr__(self, "unmetered", self.unmetered + steps)

    @property
    def deterministic(self) -> bool:
        """Whether transitions and rewards are both declared deterministic."""
        return self.deterministic_transitions and self.deterministic_rewards

    @cached_property
    def dimension(self) -> int:
        """d, read off the features of a start state."""
        state = self.mdp.start(np.random.default_rng(0))
        name, features = ("phi_v", self.phi_v) if self.phi_v is not None else ("phi_q", self.phi_q)
        assert features is not None
        shape = _values(name, features, state, 0, np.shape)
        if not shape:
            raise ProblemError(f"{_at(name, state, 0)} gave a single number, expected an array")
        return int(shape[-1])

    def next_stage(self, stage: int) -> int:
        """The stage after ``stage``; time stands still in problems without a horizon."""
        return stage if self.horizon is None else stage + 1

    def arrive(self, following: State, stage: int) -> State:
        """Where a step from ``stage`` to ``following`` leads: END after the last stage."""
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

    def _solution(self) -> Solution:
        if self.solution is None:
            raise BadInput(f"the optimal values of problem {self.name!r} are not known")
        return self.solution

    def optimal_value(self, state: State, stage: int = 0) -> float:
        """v*(state), where it is known."""
        return 0.0 if state is END else self._solution().value(state, stage)

    def optimal_action_value(self, state: State, action: int, stage: int = 0) -> float:
        """q*(state, action), where it is known."""
        return 0.0 if state is END else self._solution().action_value(state, action, stage)

    def optimal_policy(self, state: State, stage: int = 0) -> int:
        """The smallest action that maximises q*(state, .), where it is known."""
        return int(np.argmax([self.optimal_action_value(state, a, stage) for a in range(self.actions)]))


# ------------------------------------------------------------------------- what a planner may ask


class Node(Protocol):
    """A state as the planner sees it.  Only an access object issues nodes."""

    note: Any
    """For the planner's own use, None at first; a state seen again is usually, not always, the same node."""

    @property
    def stage(self) -> int:
        """Steps taken so far; always 0 in problems without a horizon."""

    @property
    def key(self) -> Any:
        """A hashable identity of the state, or None where the state cannot be hashed."""

    @property
    def phi_v(self) -> Array:
        """φ_v of the state, (d,)."""

    @property
    def phi_q(self) -> Array:
        """φ_q of the state, (A, d)."""


class Outcome(NamedTuple):
    """One answer of the simulator: the reward, and the next node or END."""

    reward: float
    next: Any


class Sample(Protocol):
    """Outcomes of one pair as arrays, for planners that average: sample i went to successors[which[i]]."""

    def __len__(self) -> int: ...
    @property
    def rewards(self) -> Array:
        """The rewards, (n,)."""

    @property
    def successors(self) -> Sequence[Any]:
        """The nodes (or END) that samples may have gone to; samples share them."""

    @property
    def which(self) -> NDArray[np.integer[Any]]:
        """For each sample the index of its successor, (n,)."""


class Trail(NamedTuple):
    """What following a list of actions gave: the rewards, and the node (or END) where it stopped."""

    rewards: list[float]
    last: Any


class Walk(NamedTuple):
    """What walking with a rule gave: the nodes left and their rewards, and the node (or END) where it stopped."""

    steps: list[tuple[Any, float]]
    last: Any


class Access(Protocol):
    """The planner's only window on the world: public facts, the root, and metered queries."""

    problem_name: str
    horizon: int | None
    actions: int
    reward_range: tuple[float, float]
    deterministic_transitions: bool
    deterministic_rewards: bool
    discount: float
    bound: float
    dimension: int
    has_phi_v: bool
    has_phi_q: bool
    declared_returns: tuple[float, float] | None
    """The range of returns that the MDP declares, where it does."""
    identity: object
    """The same for all access objects of one problem, and of no other."""

    @property
    def root(self) -> Node:
        """The state in which the episode starts."""

    @property
    def spent(self) -> int:
        """Queries charged so far in this episode."""

    @property
    def remaining(self) -> float:
        """Queries left in the budget; ``inf`` without one."""

    @property
    def drew(self) -> bool:
        """Whether answers drew random numbers: where they are declared deterministic, a reason to ask them again."""

    @property
    def clipped(self) -> bool:
        """Whether features were asked for at points outside of their frame, and gave those of the nearest point."""

    def return_range(self, stage: int, discount: float | None = None) -> tuple[float, float]:
        """The range of the return from ``stage`` on, with the problem's discount or another one."""

    def query(self, node: Node, action: int, n: int = 1) -> Sequence[Outcome]:
        """Ask for n samples of (reward, next) at a node issued before."""

    def sample(self, node: Node, action: int, n: int) -> Sample:
        """The same question; the answers as arrays."""

    def misfit(self, values: str = "v") -> Any:
        """How far the features are from realizing v* or q*, where that is known free of charge; else None.

        It is for holding certificates against, not for planning (:mod:`tensorplan.problems.realizability`).
        """

    def recheck(self, node: Node, action: int) -> Outcome:
        """One query that no cache answers, charged; an answer that contradicts an earlier one is an error."""

    def sample_all(self, node: Node, n: int) -> Sequence[Sample]:
        """n samples of every action, in the order of the actions; they may share rewards where one batch serves all."""

    def follow(self, node: Node, actions: Iterable[int]) -> Trail:
        """Query along a path: the actions in turn, each where the last one led, until END or their end."""

    def walk(self, node: Node, choose: Callable[[Any], int | None]) -> Walk:
        """Query along a path that is chosen on the way, until END or until ``choose(node)`` gives None."""


class Policy(Protocol):
    """A planner at work in one episode; what it remembers lives here."""

    def act(self, node: Node) -> int:
        """The action for the current state, after as many queries as it likes."""


class Planner(Protocol):
    """A frozen configuration that can start an episode."""

    def begin(self, access: Any, rng: np.random.Generator) -> Policy:
        """Start an episode at ``access.root``."""


@runtime_checkable
class Learner(Planner, Protocol):
    """A planner that can keep what it learns in one episode for the next ones."""

    def session(self) -> Planner:
        """A planner with a memory, empty at first, for episodes in one problem."""


# ---------------------------------------------------------------------------------- what came of it


@dataclass(frozen=True)
class Certificate:
    """A bracket on v*(s0) that the planner vouches for: lower <= v*(s0) <= upper.

    ``lower`` is a lower bound on the expected return of the policy that acts, and rests on nothing but the simulator;
    ``upper`` rests on what ``assumes`` says.
    """

    upper: float
    lower: float
    status: str
    """``"certified"``: the gap is as small as was asked for, and an attempt to refute the bracket has failed; else what
    ended the planning: ``"budget"`` (spent before the gap was closed, or before that attempt was over),
    ``"interrupted"``, ``"stopped"`` (by a callback), ``"limit"`` (of double precision), ``"eta"`` (what is left of the
    gap is what the misspecification eta explains), ``"doubtful"`` (the gap has closed, and ``warnings`` say why that
    proves little), ``"refuted"``, or ``"failed"`` by an error."""
    failure: float = 0.0
    """The probability that the bracket is wrong is at most this; in a session, the probability that any of its
    brackets is."""
    lower_failure: float = 0.0
    """The part of ``failure`` that is the lower bound's."""
    assumes: str = ""
    """What the upper bound rests on; empty if on nothing but the declared ranges."""
    explained: float = 0.0
    """How much of the gap the allowed misspecification eta explains."""
    warnings: tuple[str, ...] = ()
    """Reasons to doubt what the upper bound assumes."""
    discount: float = 1.0
    """Of the returns that the bracket is about."""
    proof: Any = field(default=None, repr=False, compare=False)
    """What ``tensorplan check`` verifies, or None."""

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise BadInput(f"a bracket [{self.lower!r}, {self.upper!r}] is none: lower must not be above upper")

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower

    @property
    def upper_failure(self) -> float:
        """The part of ``failure`` that is the upper bound's."""
        return self.failure - self.lower_failure

    @property
    def sentence(self) -> str:
        """What is claimed, and under which assumption."""
        sure = f", at confidence {1 - self.failure:.4g}" if self.failure else ""
        if not self.assumes:
            return f"v*(s0) is in [{self.lower:.6g}, {self.upper:.6g}]{sure}, whatever the features"
        return (
            f"v*(s0) is in [{self.lower:.6g}, {self.upper:.6g}]{sure}, if {self.assumes}; "
            f"the policy earns at least {self.lower:.6g} in any case"
        )


@dataclass(frozen=True)
class Episode:
    """One closed-loop episode."""

    start: State
    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    queries: tuple[int, ...]
    """Queries charged per call of the planner, in order; a call that was cut short comes last."""
    stopped: str
    """Why it ended: ``"end"`` (END or the horizon), ``"budget"``, ``"max_steps"``, ``"interrupted"``, or ``"failed"``
    by an error."""
    seconds: float
    discount: float = 1.0
    certificate: Certificate | None = None
    trace: Any = None
    """What the planner recorded of its planning, where it was asked to."""

    @property
    def total_reward(self) -> float:
        """The return of the episode, Σ_t γ^t R_t."""
        return math.fsum(self.discount**t * reward for t, reward in enumerate(self.rewards))

    @property
    def steps(self) -> int:
        """The number of actions executed."""
        return len(self.actions)

    @property
    def total_queries(self) -> int:
        """Queries charged in the whole episode."""
        return sum(self.queries)

    @property
    def complete(self) -> bool:
        """Whether the episode ran to its end, so that its return is that of the policy."""
        return self.stopped == "end"


@dataclass(frozen=True)
class Run:
    """The episodes of one planner on one problem."""

    problem: str
    planner: str
    seed: int
    episodes: tuple[Episode, ...]

    @property
    def worst_call(self) -> int:
        """The largest number of queries in one call."""
        return max((q for e in self.episodes for q in e.queries), default=0)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the last episode, or its planning."""
        return any("interrupted" in (e.stopped, e.certificate and e.certificate.status) for e in self.episodes)


def return_range(
    reward_range: tuple[float, float], horizon: int | None, stage: int = 0, discount: float = 1.0
) -> tuple[float, float]:
    """The range of the (discounted) total reward from ``stage`` on, early END included."""
    if horizon is None:
        steps = math.inf if discount == 1 else 1 / (1 - discount)
    else:
        left = horizon - stage
        steps = left if discount == 1 else (1 - discount**left) / (1 - discount)
    low, high = min(reward_range[0], 0.0), max(reward_range[1], 0.0)
    return (low * steps if low else 0.0, high * steps if high else 0.0)


def _values(name: str, phi: Features, state: State, stage: int, read: Callable[[Any], Any]) -> Any:
    """What ``read`` makes of what a feature map gives; what is raised on the way, as one sentence."""
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
    """The two numbers that x is, or not numbers."""
    try:
        low, high = (float(each) for each in x)
    except (TypeError, ValueError):
        return math.nan, math.nan
    return low, high


def _declarations(mdp: MDP) -> dict[str, Any]:
    """What an MDP says about itself, as it stands."""
    return {name: getattr(mdp, name, None) for name in DECLARATIONS}


def _is_whole(x: object) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _is_number(x: object) -> bool:
    return isinstance(x, int | float | np.integer | np.floating) and not isinstance(x, bool)
