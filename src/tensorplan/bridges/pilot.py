"""A planner in a loop that is not ours: states in, actions out.

In :mod:`tensorplan.loop` we take the steps.  Here somebody else does, who may also reset the world, take another action
than the one advised, or go on after the horizon.  A *flight* is a planning episode: it begins at the state that the
world is in, and its policy goes on as long as the world can be seen to do what was advised.  Else a new flight begins,
which is always sound: the policy of the planner is as good as promised from wherever it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from tensorplan.access import ACCESS, LocalAccess
from tensorplan.core import END, Certificate, Learner, Planner, Policy, Problem, State
from tensorplan.core.errors import BadInput, NotRealizable, Refused
from tensorplan.core.specs import whole
from tensorplan.problems.simulate import draw, whole_action
from tensorplan.problems.states import hashable, same
from tensorplan.problems.tables.tabular import TabularMDP
from tensorplan.problems.transforms.tail import tail


class Place(NamedTuple):
    """Where the world is, as far as it tells."""

    state: State
    stage: int | None = None
    """In the problem; None: one more than last time, and 0 where a flight begins."""
    clock: int | None = None
    """Steps since the world was reset; None where it does not count them."""


class Flight:
    """One planning episode."""

    def __init__(self, problem: Problem, place: Place, access: LocalAccess, world: np.random.Generator) -> None:
        self.problem, self.access, self.world = problem, access, world
        self.place = place
        self.first = place.stage or 0
        self.stage = self.first
        self.action: int | None = None
        """The last advice; None before the first."""
        self.policy: Policy | None = None
        self.charged = 0

    def goes_on(self, place: Place) -> bool:
        """Whether the world may be where the last advice led, one step later; or still where the flight begins."""
        step, before = (0 if self.action is None else 1), self.place
        if None not in (place.clock, before.clock) and place.clock != before.clock + step:  # type: ignore[operator]
            return False
        stage = self.stage if self.problem.horizon is None else self.stage + step
        if place.stage not in (None, stage) or stage == self.problem.horizon:
            return False
        if self.action is None:
            return same(before.state, place.state)
        return could_lead(self.problem, before.state, self.stage, self.action, place.state, self.world)

    def act(self, place: Place) -> int:
        """The advice at the place where the flight has come to."""
        assert self.policy is not None
        if self.action is not None:
            self.stage = self.problem.next_stage(self.stage)
        self.place = place
        node = self.access._admit(place.state, self.stage - self.first)
        self.action = whole_action(self.policy.act(node), self.problem.actions, place.state, self.stage)
        return self.action

    def charge(self) -> int:
        """The queries since the last time this was asked."""
        before, self.charged = self.charged, self.access.spent
        return self.charged - before


class Pilot:
    """A planner, the problem that it plans in, and the flight that it is on.

    ``budget`` bounds the queries of a flight.  Flights have independent random streams made from (seed, number), and a
    :class:`tensorplan.core.Learner` keeps what it learned from flight to flight, as in :func:`tensorplan.run`.
    """

    def __init__(self, planner: Planner, *, budget: int | None = None, seed: int = 0) -> None:
        kind = getattr(planner, "access", "local")
        if not hasattr(planner, "begin"):
            raise BadInput(f"a planner has a method begin(access, rng), and {planner!r} has none")
        if kind not in ACCESS:
            raise Refused(f"planner {planner!r} asks for {kind!r} access; there is: {', '.join(ACCESS)}")
        self.planner, self.budget, self.seed = planner, budget, whole("seed", seed, 0)
        self.queries: list[int] = []
        self.refutation: NotRealizable | None = None
        self.flights = 0
        self._open = ACCESS[kind]
        self._problem: Problem | None = None
        self._flight: Flight | None = None
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
        """Of the flight, where the planner gives one: a bracket on v* of the state where the flight began."""
        return None if self._flight is None else getattr(self._flight.policy, "certificate", None)

    def plan_in(self, problem: Problem) -> None:
        """Plan in this problem from now on; nothing is kept of another one."""
        if problem is not self._problem:
            self._problem = problem
            self.forget()

    def forget(self) -> None:
        """Keep nothing of what was learned so far."""
        self._flight, self.refutation = None, None
        self._sessions, self._tails = {}, {}

    def reset(self) -> None:
        """A new episode begins: a flight that has not acted yet may go on, if it begins where the episode does."""
        if self._flight is not None and self._flight.action is not None:
            self._flight = None

    def begin(self, place: Place) -> Flight:
        """Begin a flight: plan."""
        if place.state is END:
            raise BadInput(f"the episode of problem {self.problem.name!r} is over: reset the environment")
        self._flight = None
        first = place.stage or 0
        problem = self._from(first, place.state)
        streams = np.random.SeedSequence([self.seed, self.flights]).spawn(3)
        world, simulator, mind = (np.random.default_rng(stream) for stream in streams)
        self.flights += 1
        flight = Flight(self.problem, place, self._open(problem, place.state, simulator, budget=self.budget), world)
        try:
            flight.policy = self._actor(first).begin(flight.access, mind)
        except NotRealizable as refutation:
            flight.policy, self.refutation = refutation.policy, refutation
        except BaseException:
            self.queries.append(flight.charge())
            raise
        self._flight = flight
        return flight

    def act(self, place: Place) -> int:
        """The action at a place; the planning that it took, if any, counts as part of this call."""
        if not self.goes_on(place):
            self.begin(place)
        return self.advise(place)

    def goes_on(self, place: Place) -> bool:
        """Whether there is a flight, and it may have come to this place."""
        return self._flight is not None and self._flight.goes_on(place)

    def advise(self, place: Place) -> int:
        """The action of the flight at a place where it goes on, or where it has just begun."""
        flight = self._flight
        assert flight is not None
        try:
            return flight.act(place)
        finally:
            self.queries.append(flight.charge())

    def _from(self, first: int, state: State) -> Problem:
        """The problem from a stage on: one for all flights that begin there, since a session goes by its identity."""
        if not first:
            return self.problem
        if first not in self._tails:
            self._tails[first] = tail(self.problem, state, first)
        return self._tails[first]

    def _actor(self, first: int) -> Any:
        """The planner, with its memory of flights from this stage if it keeps one: tails are problems of their own."""
        if not isinstance(self.planner, Learner):
            return self.planner
        if first not in self._sessions:
            self._sessions[first] = self.planner.session()
        return self._sessions[first]


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
