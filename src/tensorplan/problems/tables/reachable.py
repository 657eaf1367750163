"""Exact optimal values of a deterministic problem, from all states that can be reached.

To list them takes a step of the simulator for each state and action, which no meter sees.  So it is done once for each
problem, within an :class:`Effort`, and ``problem.unmetered`` counts the steps.
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
"""The largest number of states, stages counted apart, that are enumerated."""

PACED = 5
"""Steps that tell how slow a simulator is; the first is left out, since it may load or compile something."""

PULSE = 1.0
"""Seconds between two words about how far a search is."""

SILENCE = 5.0
"""The same where nobody asked for them, in the log."""

log = logging.getLogger("tensorplan")
Progress = Callable[[str], None]


class Effort(NamedTuple):
    """What a search for all states may take of a simulator."""

    steps: float = math.inf
    seconds: float = math.inf
    pace: float = math.inf
    """Seconds of one step; where it takes longer nothing is listed."""


BRIEF = Effort(20_000, 2.0, 0.01)
"""Where v* would be nice to have, as for a regret; within two seconds slower steps do not get to 200."""

WHOLE = Effort()
"""Where somebody asked for v*."""


class ExploredValues:
    """Optimal values of the states found; see :func:`explore`."""

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
    """What a start state leads to: each place (stage, state) with its number, and where each pair leads and pays."""

    places: dict[tuple[int, State], int]
    targets: list[int]
    """The number of the place that a pair leads to, in the order of places and actions; -1 for END."""
    rewards: list[float]


_graphs: WeakKeyDictionary[Problem, Graph] = WeakKeyDictionary()
_solved: WeakKeyDictionary[Problem, ExploredValues] = WeakKeyDictionary()
_refused: WeakKeyDictionary[Problem, dict[tuple[int, Effort], str]] = WeakKeyDictionary()
"""What came of the searches so far, for as long as their problems live; a graph is dropped once it is solved."""


def places(
    problem: Problem, limit: int, effort: Effort = WHOLE, progress: Progress | None = None
) -> dict[tuple[int, State], int]:
    """All places (stage, state) that the start state of a deterministic problem leads to, numbered breadth first."""
    solved = _solved.get(problem)
    found = _graph(problem, limit, effort, progress).places if solved is None else solved.places
    if len(found) > limit:
        raise _too_many(problem, limit)
    return found


def explore(problem: Problem, effort: Effort = WHOLE, progress: Progress | None = None) -> ExploredValues:
    """v* and q* of a deterministic problem, by enumerating what its start state leads to."""
    size = len(places(problem, LIMIT, effort, progress))
    if problem not in _solved:
        _solved[problem] = _solution(problem, _graphs[problem], size)
        del _graphs[problem]
    return _solved[problem]


def _solution(problem: Problem, found: Graph, size: int) -> ExploredValues:
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
    return ExploredValues(found.places, solve_tabular(table, problem.discount))


def _graph(problem: Problem, limit: int, effort: Effort, progress: Progress | None) -> Graph:
    """What the start state leads to; what was found, or refused, before is not searched for again."""
    if problem in _graphs:
        return _graphs[problem]
    refused = _refused.setdefault(problem, {})
    if (limit, effort) in refused:
        raise Refused(refused[limit, effort])
    try:
        _graphs[problem] = _search(problem, limit, _Watch(problem, effort, progress))
    except Refused as refusal:
        refused[limit, effort] = str(refusal)
        raise
    return _graphs[problem]


def _search(problem: Problem, limit: int, watch: _Watch) -> Graph:
    """Breadth first."""
    if not problem.deterministic:
        raise Refused(f"problem {problem.name!r} is not deterministic, so its states cannot be enumerated")
    rng = np.random.default_rng(0)
    start = problem.mdp.start(rng)
    found = Graph({(0, _hashable(start)): 0}, [], [])
    order = [(0, start)]
    for stage, state in order:
        for action in range(problem.actions):
            watch.step(len(order))
            reward, following = draw(problem, state, stage, action, rng)
            found.rewards.append(reward)
            following = problem.arrive(following, stage)
            if following is END:
                found.targets.append(-1)
                continue
            place = found.places.setdefault((problem.next_stage(stage), _hashable(following)), len(order))
            if place == len(order):
                order.append((problem.next_stage(stage), following))
            found.targets.append(place)
        if len(order) > limit:
            raise _too_many(problem, limit)
    return found


class _Watch:
    """Counts the steps of a search, ends it where it takes too much, and tells how far it is."""

    def __init__(self, problem: Problem, effort: Effort, progress: Progress | None) -> None:
        self.problem, self.effort = problem, effort
        self.tell, self.pause = (log.warning, SILENCE) if progress is None else (progress, PULSE)
        self.steps = 0
        self.began = self.told = self.warm = time.perf_counter()

    def step(self, found: int) -> None:
        """One more step is to be made; raises where that would be too much."""
        now, (most, seconds, pace) = time.perf_counter(), self.effort
        self.warm = now if self.steps <= 1 else self.warm
        if self.steps == PACED and now - self.warm > pace * (PACED - 1):
            raise self._refusal(f"are not listed, since a step takes {(now - self.warm) / (PACED - 1):.2g} s")
        if self.steps >= most or now - self.began > seconds:
            raise self._refusal(f"could not be listed within {most:,.0f} steps and {seconds:g} s")
        if now - self.told > self.pause:
            self.told = now
            self.tell(f"listing the states of problem {self.problem.name!r}: {found:,} in {self.steps:,} steps so far")
        self.steps += 1
        self.problem.count_unmetered(1)

    def _refusal(self, why: str) -> Refused:
        return Refused(f"v* of problem {self.problem.name!r} is not known: its states {why}")


def _too_many(problem: Problem, limit: int) -> Refused:
    return Refused(f"problem {problem.name!r} has more than {limit:,} states that can be reached")


def _hashable(state: State) -> State:
    try:
        hash(state)
    except TypeError:
        raise Refused(f"state {state!r} cannot be hashed, so the states cannot be enumerated") from None
    return state
