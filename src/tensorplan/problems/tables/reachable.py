"""Exact optimal values of a deterministic problem, by enumerating its reachable states.

This takes one unmetered simulator step per state and action.  It is done once per problem, within the limits of an
:class:`Effort`, and ``problem.unmetered`` counts the steps.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tensorplan.core import END, Problem, State
from tensorplan.core.errors import Refused
from tensorplan.problems.simulate import draw
from tensorplan.problems.tables.tabular import TabularMDP, TabularValues, solve_tabular

LIMIT = 2_000_000
"""Most (stage, state) that are enumerated, which bounds memory."""

PACED = 5
"""Steps after which the time per step is measured; the first is excluded, since it may load or compile something."""

PULSE = 1.0
"""Seconds between two progress messages of a search."""

SILENCE = 5.0
"""The same for warnings in the log, when no progress callback is given."""

log = logging.getLogger("tensorplan")
Progress = Callable[[str], None]


class Effort(NamedTuple):
    """Limits of the enumeration of states."""

    steps: float = math.inf
    seconds: float = math.inf
    pace: float = math.inf
    """Seconds per step above which the enumeration is refused."""


BRIEF = Effort(20_000, 2.0, 0.01)
"""For uses where v* is optional, such as a regret; at a slower pace, two seconds allow fewer than 200 steps."""

WHOLE = Effort()
"""No limits, for uses that require v*."""


class ExploredValues:
    """Optimal values of the reachable states (:func:`explore`)."""

    def __init__(self, places: dict[tuple[int, State], int], values: TabularValues) -> None:
        self.places = places
        self.values = values

    def value(self, state: State, stage: int) -> float:
        """v*(state)."""
        return float(self.values.v[0][self._place(state, stage)])

    def action_value(self, state: State, action: int, stage: int) -> float:
        """q*(state, action)."""
        return float(self.values.q[0][self._place(state, stage), action])

    def _place(self, state: State, stage: int) -> int:
        if (stage, state) not in self.places:
            raise Refused(f"state {state!r} at stage {stage} cannot be reached from the start state")
        return self.places[stage, state]


class Graph(NamedTuple):
    """The transition graph of the reachable places (stage, state), each with its number."""

    places: dict[tuple[int, State], int]
    targets: list[int]
    """The number of the successor of each pair, in the order of places and actions; -1 for END."""
    rewards: list[float]


_graphs: WeakKeyDictionary[Problem, Graph] = WeakKeyDictionary()
_solved: WeakKeyDictionary[Problem, ExploredValues] = WeakKeyDictionary()
_refused: WeakKeyDictionary[Problem, dict[tuple[int, Effort], str]] = WeakKeyDictionary()
"""Results of searches, for the lifetime of their problems; a graph is dropped once it is solved."""


def places(
    problem: Problem, limit: int, effort: Effort = WHOLE, progress: Progress | None = None
) -> dict[tuple[int, State], int]:
    """All (stage, state) reachable from the start state of a deterministic problem, numbered breadth first."""
    solved = _solved.get(problem)
    found = _graph(problem, limit, effort, progress).places if solved is None else solved.places
    if len(found) > limit:
        raise _too_many(problem, limit)
    return found


def explore(problem: Problem, effort: Effort = WHOLE, progress: Progress | None = None) -> ExploredValues:
    """v* and q* of a deterministic problem, by enumerating the states reachable from its start state."""
    began = time.perf_counter()
    size = len(places(problem, LIMIT, effort, progress))
    if problem not in _solved:
        left = effort.seconds - (time.perf_counter() - began)
        _solved[problem] = _solution(problem, _graphs[problem], size, sweeping(problem, left, progress))
        del _graphs[problem]
    return _solved[problem]


def sweeping(problem: Problem, seconds: float, progress: Progress | None) -> Callable[[int], None]:
    """Called with the number of each sweep of value iteration: reports progress, and refuses after so many seconds."""
    began = reported = time.perf_counter()

    def swept(number: int) -> None:
        nonlocal reported
        now = time.perf_counter()
        if now - began > seconds:
            raise Refused(
                f"v* of problem {problem.name!r} is not known: value iteration over its states did not converge in time"
            )
        if progress is not None and now - reported > PULSE:
            reported = now
            progress(f"optimal values of problem {problem.name!r}: {number:,} sweeps so far")

    return swept


def _solution(problem: Problem, found: Graph, size: int, swept: Callable[[int], None]) -> ExploredValues:
    from scipy import sparse

    pairs = len(found.targets)
    target = np.where(np.array(found.targets) < 0, size, found.targets)
    matrix = sparse.csr_array((np.ones(pairs), target, np.arange(pairs + 1)), shape=(pairs, size + 1))
    table = TabularMDP(
        matrix,
        np.array(found.rewards).reshape(size, problem.actions),
        horizon=None,
        reward_range=problem.reward_range,
    )
    return ExploredValues(found.places, solve_tabular(table, problem.discount, swept=swept))


def _graph(problem: Problem, limit: int, effort: Effort, progress: Progress | None) -> Graph:
    """The graph of reachable places; the result, or the refusal, of an earlier search is reused."""
    if problem in _graphs:
        return _graphs[problem]
    refused = _refused.setdefault(problem, {})
    if (limit, effort) in refused:
        raise Refused(refused[limit, effort])
    try:
        _graphs[problem] = _search(problem, limit, _Monitor(problem, effort, progress))
    except Refused as refusal:
        refused[limit, effort] = str(refusal)
        raise
    return _graphs[problem]


def _search(problem: Problem, limit: int, monitor: _Monitor) -> Graph:
    """The graph of reachable places, by breadth-first search."""
    if not problem.deterministic:
        raise Refused(f"problem {problem.name!r} is not deterministic, so its states cannot be enumerated")
    rng = np.random.default_rng(0)
    start = problem.mdp.start(rng)
    found = Graph({(0, as_hashable(start)): 0}, [], [])
    order = [(0, start)]
    for stage, state in order:
        for action in range(problem.actions):
            monitor.step(len(order))
            reward, following = draw(problem, state, stage, action, rng)
            found.rewards.append(reward)
            following = problem.arrive(following, stage)
            if following is END:
                found.targets.append(-1)
                continue
            place = found.places.setdefault((problem.next_stage(stage), as_hashable(following)), len(order))
            if place == len(order):
                order.append((problem.next_stage(stage), following))
            found.targets.append(place)
        if len(order) > limit:
            raise _too_many(problem, limit)
    return found


class _Monitor:
    """Counts the steps of a search, enforces its limits, and reports progress."""

    def __init__(self, problem: Problem, effort: Effort, progress: Progress | None) -> None:
        self.problem, self.effort = problem, effort
        self.report, self.pause = (log.warning, SILENCE) if progress is None else (progress, PULSE)
        self.steps = 0
        self.began = self.reported = self.warm = time.perf_counter()

    def step(self, found: int) -> None:
        """Count a step before it is made; Refused if it would exceed the limits."""
        now, (most, seconds, pace) = time.perf_counter(), self.effort
        self.warm = now if self.steps <= 1 else self.warm
        if self.steps == PACED and now - self.warm > pace * (PACED - 1):
            raise self._refusal(f"are not listed, since a step takes {(now - self.warm) / (PACED - 1):.2g} s")
        if self.steps >= most or now - self.began > seconds:
            limits = [f"{most:,.0f} steps"] if math.isfinite(most) else []
            limits += [f"{round(seconds, 1):g} s"] if math.isfinite(seconds) else []
            raise self._refusal(f"could not be listed within {' and '.join(limits)}")
        if now - self.reported > self.pause:
            self.reported = now
            self.report(
                f"listing the states of problem {self.problem.name!r}: {found:,} in {self.steps:,} steps so far"
            )
        self.steps += 1
        self.problem.count_unmetered(1)

    def _refusal(self, why: str) -> Refused:
        if self.problem.solution is not None:
            return Refused(f"the states of problem {self.problem.name!r} {why}")
        return Refused(f"v* of problem {self.problem.name!r} is not known: its states {why}")


def _too_many(problem: Problem, limit: int) -> Refused:
    return Refused(f"problem {problem.name!r} has more than {limit:,} states that can be reached")


def as_hashable(state: State) -> State:
    """The state; Refused if it cannot be hashed."""
    try:
        hash(state)
    except TypeError:
        raise Refused(f"state {state!r} cannot be hashed, so the states cannot be enumerated") from None
    return state
