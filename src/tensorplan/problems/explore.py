"""Exact optimal values of a deterministic problem, from all states that can be reached."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensorplan.core import END, Problem, State
from tensorplan.errors import Refused
from tensorplan.problems.simulate import draw
from tensorplan.problems.tabular import TabularMDP, TabularValues, solve_tabular

LIMIT = 2_000_000
"""The largest number of states, stages counted apart, that are enumerated."""


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


def graph(problem: Problem, limit: int) -> Graph:
    """All places that the start state of a deterministic problem leads to, breadth first."""
    if not problem.deterministic:
        raise Refused(f"problem {problem.name!r} is not deterministic, so its states cannot be enumerated")
    rng = np.random.default_rng(0)
    start = problem.mdp.start(rng)
    found = Graph({(0, _hashable(start)): 0}, [], [])
    order = [(0, start)]
    for stage, state in order:
        for action in range(problem.actions):
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
            raise Refused(f"problem {problem.name!r} has more than {limit:,} states that can be reached")
    return found


def explore(problem: Problem) -> ExploredValues:
    """v* and q* of a deterministic problem, by enumerating what its start state leads to."""
    places, targets, rewards = graph(problem, LIMIT)
    from scipy import sparse

    size, pairs = len(places), len(targets)
    target = np.where(np.array(targets) < 0, size, targets)
    matrix = sparse.csr_array((np.ones(pairs), target, np.arange(pairs + 1)), shape=(pairs, size + 1))
    table = TabularMDP(
        matrix,
        np.array(rewards).reshape(size, problem.actions),
        horizon=None,
        reward_range=problem.reward_range,
    )
    return ExploredValues(places, solve_tabular(table, problem.discount))


def _hashable(state: State) -> State:
    try:
        hash(state)
    except TypeError:
        raise Refused(f"state {state!r} cannot be hashed, so the states cannot be enumerated") from None
    return state
