"""Exact optimal values of a deterministic problem, from all states that can be reached."""

from __future__ import annotations

import numpy as np

from tensorplan.core import END, Problem, Refused, State
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


def explore(problem: Problem) -> ExploredValues:
    """v* and q* of a deterministic problem, by enumerating what its start state leads to."""
    if not problem.deterministic:
        raise Refused(f"problem {problem.name!r} is not deterministic, so its states cannot be enumerated")
    rng = np.random.default_rng(0)
    start = problem.mdp.start(rng)
    places: dict[tuple[int, State], int] = {(0, _hashable(start)): 0}
    order, columns, rewards = [(0, start)], [], []
    for stage, state in order:
        for action in range(problem.actions):
            reward, following = draw(problem, state, stage, action, rng)
            rewards.append(reward)
            following = problem.arrive(following, stage)
            if following is END:
                columns.append(-1)
                continue
            place = places.setdefault((problem.next_stage(stage), _hashable(following)), len(order))
            if place == len(order):
                order.append((problem.next_stage(stage), following))
            columns.append(place)
        if len(order) > LIMIT:
            raise Refused(f"problem {problem.name!r} has more than {LIMIT:,} states that can be reached")
    from scipy import sparse

    size, pairs = len(order), len(columns)
    target = np.where(np.array(columns) < 0, size, columns)
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
