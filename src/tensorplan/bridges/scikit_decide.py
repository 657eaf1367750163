"""Our planners as a scikit-decide solver.

The domains of scikit-decide carry what may be asked of them as a type, as our access objects do.  The solver needs one
agent, one action at a time out of finitely many, states that are seen and hold all that matters, and ``Simulation``:
samples at any state that was seen.  With ``EnumerableTransitions`` outcomes are drawn by us from the listed ones, so
that the seed decides.  Other simulations draw themselves: Python's and numpy's global generators, which scikit-decide
draws from, are seeded from ours for each step and put back; a generator that a domain keeps for itself is not reached.
"""

from __future__ import annotations

import inspect
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.bridges.replanning import Position, Replanner
from tensorplan.core import END, Array, Certificate, Features, Planner, Problem, State
from tensorplan.core.errors import BadInput, NotRealizable
from tensorplan.planners.tensorplan.planner import TensorPlan

try:
    from skdecide import DiscreteDistribution, EnumerableSpace, Solver, StatelessSimulatorDomain
    from skdecide.builders.domain import (
        Actions,
        DeterministicTransitions,
        EnumerableTransitions,
        FullyObservable,
        Initializable,
        Markovian,
        Sequential,
        Simulation,
        SingleAgent,
        UncertainInitialized,
        UncertainTransitions,
        UnrestrictedActions,
    )
    from skdecide.builders.solver import DeterministicPolicies, FromAnyState
except ImportError:
    raise BadInput("TensorPlanSolver needs scikit-decide: pip install 'tensorplan[skdecide]'") from None

LACKS = {
    SingleAgent: "has several agents",
    Sequential: "takes several actions at once",
    Simulation: "cannot be asked what happens in a given state",
    Actions: "has events that nobody decides on",
    Markovian: "depends on its history",
    FullyObservable: "does not show its state",
}
"""What is wrong with a domain that does not inherit from the class."""


class SimulationDomain(StatelessSimulatorDomain, FullyObservable):  # type: ignore[misc,unused-ignore]
    """What the solver asks of a domain."""


class DomainMDP:
    """A domain as an MDP: numbered actions, rewards (costs are negative ones), END at terminal states.

    Where an action is not applicable its number stands for the first one that is, which leaves v* as it is.
    """

    def __init__(self, domain: Any, horizon: int | None, reward_range: tuple[float, float]) -> None:
        self.domain, self.horizon, self.reward_range = domain, horizon, reward_range
        self.elements = list(domain.get_action_space().get_elements())
        self.actions = len(self.elements)
        self.deterministic_transitions = isinstance(domain, DeterministicTransitions)
        self.deterministic_rewards = self.deterministic_transitions or (
            isinstance(domain, UncertainTransitions) and not domain.is_transition_value_dependent_on_next_state()
        )
        self.shelter = Shelter()
        self.seen: State | None = None
        """A state to start from where the domain has none of its own."""
        if isinstance(domain, EnumerableTransitions):
            self.step_batch, self.successors = self._batch, self._successors

    def start(self, rng: np.random.Generator) -> State:
        """Draw an initial state, or take the one that was seen."""
        domain = self.domain
        if isinstance(domain, UncertainInitialized):
            with self.shelter:
                return _draw(domain.get_initial_state_distribution(), rng)
        if isinstance(domain, Initializable):
            with self.shelter:
                _seed_globally(rng)
                return domain.reset()
        if self.seen is None:
            raise BadInput(f"{type(domain).__name__} has no initial state: use solve(from_memory=state)")
        return self.seen

    def step(self, state: State, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state)."""
        domain, chosen = self.domain, self.action(state, action)
        if isinstance(domain, EnumerableTransitions):
            return self._arrive(state, chosen, _draw(domain.get_next_state_distribution(state, chosen), rng))
        with self.shelter:
            _seed_globally(rng)
            outcome = domain.sample(state, chosen)
        return float(outcome.value.reward), END if outcome.termination else outcome.observation

    def action(self, state: State, number: int) -> Any:
        """The domain's own action."""
        wanted, domain = self.elements[number], self.domain
        if isinstance(domain, UnrestrictedActions):
            return wanted
        applicable = domain.get_applicable_actions(state)
        for action in (wanted, *self.elements):
            if applicable.contains(action):
                return action
        raise BadInput(f"no action is applicable in state {state!r}, which is not terminal")

    def over(self, state: State) -> bool:
        """Whether a state is known to be terminal."""
        return isinstance(self.domain, UncertainTransitions) and bool(self.domain.is_terminal(state))

    def _arrive(self, state: State, chosen: Any, following: State) -> tuple[float, State]:
        reward = float(self.domain.get_transition_value(state, chosen, following).reward)
        return reward, END if self.domain.is_terminal(following) else following

    def _batch(
        self, state: State, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """Draw n samples of one pair at once."""
        chosen = self.action(state, action)
        states, ends = _listed(self.domain.get_next_state_distribution(state, chosen))
        rewards, following = zip(*(self._arrive(state, chosen, each) for each in states), strict=True)
        which = np.searchsorted(ends[:-1], rng.random(n) * ends[-1], side="right")
        return np.array(rewards)[which], list(following), which

    def _successors(self, state: State, action: int) -> list[State]:
        """All states that the action may lead to."""
        return _listed(self.domain.get_next_state_distribution(state, self.action(state, action)))[0]


class TensorPlanSolver(Solver, DeterministicPolicies, FromAnyState):  # type: ignore[misc,unused-ignore]
    """TensorPlan, or another planner of ours, as a solver.

    ``features(state, stage)``: φ_v, (d,), of norm at most 1; the stage is 0 without a horizon.  ``bound``: B.
    ``reward_range``: the least and the largest reward; a cost c is the reward -c.  ``horizon``: None where every
    episode ends at a terminal state.  ``budget`` bounds the queries from one start.

    ``solve`` plans, from the initial state or the one given, and ``certificate`` says what that proved.  The policy is
    defined in every state that is not terminal: where it is asked about a state to which its last action cannot have
    led, it plans from there.  ``reset``, which ``rollout`` calls, begins a new episode.
    """

    T_domain = SimulationDomain

    def __init__(
        self,
        domain_factory: Callable[[], Any],
        *,
        features: Features,
        bound: float,
        reward_range: tuple[float, float],
        horizon: int | None = None,
        discount: float = 1.0,
        planner: Planner | str | None = None,
        budget: int | None = None,
        seed: int = 0,
    ) -> None:
        _refuse_unless_callable(features)
        refuse_unless_fit(domain_factory())
        super().__init__(domain_factory)
        self._mdp = DomainMDP(self.domain_factory(), horizon, reward_range)
        self._replanner = Replanner(TensorPlan() if planner is None else planner, budget=budget, seed=seed)
        name = type(self._mdp.domain).__name__
        self._replanner.plan_in(Problem(self._mdp, features, bound=bound, name=name, discount=discount))

    @classmethod
    def _check_domain_additional(cls, domain: Any) -> bool:
        return isinstance(domain.get_action_space(), EnumerableSpace)

    @property
    def problem(self) -> Problem:
        """The domain as our planners see it."""
        return self._replanner.problem

    @property
    def certificate(self) -> Certificate | None:
        """Where the planner gives one: a bracket on v* of the state that it last planned from."""
        return self._replanner.certificate

    @property
    def queries(self) -> list[int]:
        """Samples of the domain per decision so far, in order; the first one pays for the planning."""
        return list(self._replanner.queries)

    @property
    def refutation(self) -> NotRealizable | None:
        """The last proof that the features do not realize v*; the policy is the best one found."""
        return self._replanner.refutation

    def _solve(self, from_memory: Any = None) -> None:
        self._solve_from(
            self._mdp.start(np.random.default_rng(self._replanner.seed)) if from_memory is None else from_memory
        )

    def _solve_from(self, memory: Any) -> None:
        with self._mdp.shelter:
            self._replanner.begin(self._position(memory))

    def _reset(self) -> None:
        self._replanner.reset()

    def _get_next_action(self, observation: Any, domain: Any = None) -> Any:
        with self._mdp.shelter:
            return self._mdp.action(observation, self._replanner.act(self._position(observation)))

    def _is_policy_defined_for(self, observation: Any) -> bool:
        return not self._mdp.over(observation)

    def _position(self, state: State) -> Position:
        if self._mdp.over(state):
            raise BadInput(f"state {state!r} is terminal: there is nothing to plan")
        self._mdp.seen = state
        return Position(state)


def refuse_unless_fit(domain: Any) -> None:
    """Raise BadInput unless the solver can plan in the domain."""
    name = type(domain).__name__
    for kind, lack in LACKS.items():
        if not isinstance(domain, kind):
            raise BadInput(f"TensorPlanSolver needs a domain with {kind.__name__}, and {name} {lack}")
    if not isinstance(domain.get_action_space(), EnumerableSpace):
        raise BadInput(
            f"TensorPlanSolver chooses among finitely many actions, and those of {name} cannot be listed: "
            "discretise them (EnumerableSpace)"
        )


def _refuse_unless_callable(features: Any) -> None:
    try:
        inspect.signature(features).bind(None, 0)
    except TypeError as error:
        raise BadInput(f"features must be a function of (state, stage), and {features!r} is not: {error}") from None
    except ValueError:  # compiled functions have no signature
        pass


class Shelter:
    """Python's and numpy's global generators: whatever is done to them inside, they are put back at the end."""

    def __init__(self) -> None:
        self.depth = 0
        self.kept: Any = None

    def __enter__(self) -> None:
        if not self.depth:
            self.kept = random.getstate(), np.random.get_state()
        self.depth += 1

    def __exit__(self, *args: object) -> None:
        self.depth -= 1
        if not self.depth:
            random.setstate(self.kept[0])
            np.random.set_state(self.kept[1])


def _seed_globally(rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**32))
    random.seed(seed)
    np.random.seed(seed)


def _listed(distribution: Any) -> tuple[list[State], list[float]]:
    """The elements of a discrete distribution that can occur, and their weights summed up."""
    possible = [(element, float(weight)) for element, weight in distribution.get_values() if weight > 0]
    return [element for element, _ in possible], list(accumulate(weight for _, weight in possible))


def _draw(distribution: Any, rng: np.random.Generator) -> State:
    """One element, drawn by us where the distribution lists them."""
    if not isinstance(distribution, DiscreteDistribution):
        _seed_globally(rng)
        return distribution.sample()
    elements, ends = _listed(distribution)
    return elements[bisect_right(ends[:-1], rng.random() * ends[-1])] if len(elements) > 1 else elements[0]
