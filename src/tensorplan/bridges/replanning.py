"""A planner in a loop that is not ours: states in, actions out.

In :func:`tensorplan.run` we take the steps.  Here the caller does, and may also reset the world, take another action
than the one advised, or go on after the horizon.  A planning episode begins at the state that the world is in, and its
policy goes on as long as the world can be seen to do what was advised.  Otherwise the planner plans again, which is
always sound: its policy is as good as promised from wherever it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from tensorplan.core import END, Certificate, Learner, Planner, Problem, State
from tensorplan.core.errors import BadInput, NotRealizable
from tensorplan.core.specs import whole
from tensorplan.loop import Driver, Streams, access_type
from tensorplan.planners.registry import as_planner
from tensorplan.problems.simulate import draw
from tensorplan.problems.states import hashable, same
from tensorplan.problems.tables.tabular import TabularMDP
from tensorplan.problems.transforms.tail import tail


class Position(NamedTuple):
    """Where the world is, as far as it tells."""

    state: State
    stage: int | None = None
    """In the problem; None: one more than last time, and 0 where a planning episode begins."""
    clock: int | None = None
    """Steps since the world was reset; None where it does not count them."""


class PlanningEpisode:
    """One planning, and the actions that were advised since."""

    def __init__(self, problem: Problem, position: Position, driver: Driver, world: np.random.Generator) -> None:
        self.problem, self.driver, self.world = problem, driver, world
        self.clock = position.clock
        self.advised: int | None = None
        """The last action; None before the first."""

    def goes_on(self, position: Position) -> bool:
        """Whether the world may be where the last action led, one step later; or still where the episode begins."""
        step, before = (0 if self.advised is None else 1), self.driver
        if None not in (position.clock, self.clock) and position.clock != self.clock + step:  # type: ignore[operator]
            return False
        stage = before.stage if self.problem.horizon is None else before.stage + step
        if position.stage not in (None, stage) or stage == self.problem.horizon:
            return False
        if self.advised is None:
            return same(before.state, position.state)
        return could_lead(self.problem, before.state, before.stage, self.advised, position.state, self.world)

    def act(self, position: Position) -> int:
        """The action at the position that the episode has come to."""
        self.clock = position.clock
        if self.advised is not None:
            self.driver.arrive(position.state)
        self.advised = self.driver.act()
        return self.advised


class Replanner:
    """A planner, the problem that it plans in, and the planning episode that it is in.

    ``budget`` bounds the queries of a planning episode.  Planning episodes have independent random streams made from
    (seed, number), and a :class:`tensorplan.core.Learner` keeps what it learned from one to the next, as in
    :func:`tensorplan.run`.
    """

    def __init__(self, planner: Planner | str, *, budget: int | None = None, seed: int = 0) -> None:
        self.planner = as_planner(planner)
        self.access = access_type(self.planner)
        self.budget, self.seed = budget, whole("seed", seed, 0)
        self.queries: list[int] = []
        self.refutation: NotRealizable | None = None
        self.plannings = 0
        self._problem: Problem | None = None
        self._episode: PlanningEpisode | None = None
        self._sessions: dict[int, Planner] = {}
        self._tails: dict[int, Problem] = {}

    @property
    def problem(self) -> Problem:
        """What it plans in."""
        if self._problem is None:
            raise BadInput("there is no problem to plan in yet: give one, or an environment to act in")
        return self._problem

    @property
    def certificate(self) -> Certificate | None:
        """Where the planner gives one: a bracket on v* of the state that it last planned from."""
        return None if self._episode is None else self._episode.driver.certificate

    def plan_in(self, problem: Problem) -> None:
        """Plan in this problem from now on; nothing is kept of another one."""
        if problem is not self._problem:
            self._problem = problem
            self.forget()

    def forget(self) -> None:
        """Keep nothing of what was learned so far."""
        self._end()
        self.refutation = None
        self._sessions, self._tails = {}, {}

    def reset(self) -> None:
        """The world was reset: a plan that has not been used yet may serve, if the world is where it begins."""
        if self._episode is not None and self._episode.advised is not None:
            self._end()

    def begin(self, position: Position) -> None:
        """Plan at a position."""
        if position.state is END:
            raise BadInput(f"the episode of problem {self.problem.name!r} is over: reset the environment")
        self._end()
        first = position.stage or 0
        problem, streams = self._from(first, position.state), Streams.of(self.seed, self.plannings)
        self.plannings += 1
        driver = Driver(
            problem,
            self._actor(first),
            position.state,
            streams,
            access=self.access,
            first=first,
            budget=self.budget,
        )
        try:
            driver.begin()
        except BaseException:
            self.queries.append(driver.charge())
            raise
        self.refutation = driver.refutation or self.refutation
        self._episode = PlanningEpisode(self.problem, position, driver, streams.world)

    def act(self, position: Position) -> int:
        """The action at a position; the planning that it took, if any, counts as part of this call."""
        if not self.goes_on(position):
            self.begin(position)
        return self.advise(position)

    def goes_on(self, position: Position) -> bool:
        """Whether there is a planning episode that may have come to this position."""
        return self._episode is not None and self._episode.goes_on(position)

    def advise(self, position: Position) -> int:
        """The action where the planning episode goes on, or has just begun."""
        assert self._episode is not None
        try:
            return self._episode.act(position)
        finally:
            self.queries.append(self._episode.driver.charge())

    def _end(self) -> None:
        if self._episode is not None:
            self._episode.driver.close()
        self._episode = None

    def _from(self, first: int, state: State) -> Problem:
        """The problem from a stage on: one for all plannings at that stage, since a session goes by its identity."""
        if not first:
            return self.problem
        if first not in self._tails:
            self._tails[first] = tail(self.problem, state, first)
        return self._tails[first]

    def _actor(self, first: int) -> Planner:
        """The planner, with its memory of plannings at this stage if it keeps one: tails are problems of their own."""
        if first not in self._sessions and isinstance(self.planner, Learner):
            self._sessions[first] = self.planner.session()
        return self._sessions.get(first, self.planner)


@runtime_checkable
class Foreseeable(Protocol):
    """An MDP that can list where an action may lead."""

    def successors(self, state: State, action: int) -> Sequence[State]:
        """All states that the action may lead to."""


def could_lead(
    problem: Problem, state: State, stage: int, action: int, following: State, rng: np.random.Generator
) -> bool:
    """Whether the action may lead to ``following``, as far as can be told.

    That is known where successors are listed, and where transitions are deterministic; states that cannot be compared
    may be anything.
    """
    mdp: Any = problem.mdp
    if not hashable(following):
        return True
    if isinstance(mdp, TabularMDP):
        return following in mdp.step_batch(state, action, 1, rng)[1]
    if isinstance(mdp, Foreseeable):
        return following in mdp.successors(state, action)
    if problem.deterministic_transitions:
        problem.count_unmetered(1)
        return same(draw(problem, state, stage, action, rng)[1], following)
    return True
