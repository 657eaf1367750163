"""Any policy as a player of scenarios: a planner or its spec, a function of state and stage, or a trained agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.access.batches import BatchAccess
from tensorplan.access.noise import Purpose, episode
from tensorplan.core import Planner, Problem, State
from tensorplan.core.errors import BadInput, BudgetSpent, ProblemError, TensorplanError, raised, shown
from tensorplan.evaluation.agents import best_output, predicted
from tensorplan.features.network import is_network
from tensorplan.hindsight.scenario import ScenarioPlayer
from tensorplan.hindsight.subject import Players
from tensorplan.loop import Driver, Streams
from tensorplan.planners.registry import as_planner
from tensorplan.problems.simulate import whole_action


def players(access: BatchAccess, policy: Any) -> Players:
    """Players of a policy: a planner, its spec, a callable (state, stage) -> action, or a trained agent.

    A callable may have a method ``act_many(states, stage)`` for arrays of states.  An agent has a method
    ``predict(observation)``, or is a network with one output for each action.
    """
    if isinstance(policy, type):
        raise _no_policy(policy)
    if isinstance(policy, str) or callable(getattr(policy, "begin", None)):
        return _Planned(access, as_planner(policy))
    problem = access.problem
    if callable(getattr(policy, "predict", None)):
        return _Stateless(problem, predicted(problem, policy))
    if is_network(policy):
        return _Stateless(problem, best_output(problem, policy))
    if callable(policy):
        return (_StatelessOnArrays if hasattr(policy, "act_many") else _Stateless)(problem, policy)
    raise _no_policy(policy)


def _no_policy(policy: Any) -> BadInput:
    return BadInput(
        "policy must be a planner, its name, a function of state and stage, or an object with a method predict; "
        f"got {shown(policy)}"
    )


@dataclass(frozen=True)
class _Stateless:
    """A function of state and stage; it is its own player."""

    problem: Problem
    function: Callable[[State, int], Any]

    def __call__(self, purpose: Purpose, index: int, start: State) -> ScenarioPlayer:
        return self

    def act(self, state: State, stage: int) -> int:
        try:
            action = self.function(state, stage)
        except TensorplanError:
            raise
        except Exception as error:
            raise ProblemError(f"the policy at state {shown(state)}, stage {stage} {raised(error)}") from error
        return whole_action(action, self.problem.actions, state, stage)

    def arrive(self, action: int, reward: float, state: State) -> None:
        """A function of the state needs to know nothing else."""


class _StatelessOnArrays(_Stateless):
    """The same for a function that takes many states at once, too."""

    def act_many(self, states: NDArray[Any], stage: int) -> NDArray[np.intp]:
        where = f"act_many of the policy for {len(states)} states, stage {stage},"
        function: Any = self.function
        try:
            actions = np.asarray(function.act_many(states, stage))
        except TensorplanError:
            raise
        except Exception as error:
            raise ProblemError(f"{where} {raised(error)}") from error
        if actions.shape != (len(states),) or actions.dtype.kind not in "iu":
            raise ProblemError(f"{where} must give as many whole numbers, got {shown(actions)}")
        if len(actions) and not 0 <= actions.min() <= actions.max() < self.problem.actions:
            raise ProblemError(f"{where} gave actions that are not among 0 .. {self.problem.actions - 1}")
        return actions.astype(np.intp)


class _Planned:
    """A planner; each episode begins anew, and its queries are charged."""

    def __init__(self, access: BatchAccess, planner: Planner) -> None:
        self.access, self.planner = access, planner

    def __call__(self, purpose: Purpose, index: int, start: State) -> ScenarioPlayer:
        return _PlannedEpisode(self.access, self.planner, episode(purpose, index), start)


class _PlannedEpisode:
    """A planner in one episode; if it takes all queries that are left, the episode does not count."""

    def __init__(self, access: BatchAccess, planner: Planner, number: int, start: State) -> None:
        self.meter = access.meter
        key = access.noise.at(Purpose.POLICY, number).integers(2**31, size=4).tolist()
        self.driver = Driver(access.problem, planner, start, Streams.of(*key))
        self.driver.limit_time(access.meter.deadline.remaining)
        self._begun = False

    def act(self, state: State, stage: int) -> int:
        if self.meter.remaining < float("inf"):
            self.driver.limit(self.meter.left)
        try:
            if not self._begun:
                self._begun = True
                self.driver.begin()
            action = self.driver.act()
        finally:
            self.meter.charge(self.driver.charge())
        if not self.meter.left:
            raise BudgetSpent("the policy has taken all queries that were left")
        return action

    def arrive(self, action: int, reward: float, state: State) -> None:
        self.driver.arrive(state)
        self.driver.observe(action, reward)
