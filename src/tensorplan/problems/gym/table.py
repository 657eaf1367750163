"""Gymnasium environments with a transition table: the toy-text ones, and any with the same attributes.

``env.P[s][a]`` lists (probability, next state, reward, terminated), ``env.s`` is the state, and
``env.initial_state_distrib`` its distribution at a reset.  A step samples from the list with the random number that the
environment would draw, so that both agree; optimal values are computed exactly.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import END, Array, State
from tensorplan.problems.gym.points import ObservationPoints, Viewed
from tensorplan.problems.tables.outcomes import ENDED, Outcomes
from tensorplan.problems.tables.tabular import TabularMDP


def has_table(env: Any) -> bool:
    """Whether an unwrapped environment has the three attributes, and observations that are numbered states."""
    table, states = getattr(env, "P", None), getattr(env.observation_space, "n", None)
    if not isinstance(table, dict) or states is None or not hasattr(env, "s"):
        return False
    return len(table) == states and hasattr(env, "initial_state_distrib")


class GymTable(Viewed, TabularMDP):
    """The table of an environment as an MDP; rewards may depend on the next state."""

    def __init__(self, env: Any, horizon: int | None, view: ObservationPoints) -> None:
        from scipy import sparse

        size, actions = len(env.P), len(env.P[0])
        places: list[tuple[int, int, float]] = []
        means = np.zeros((size, actions))
        self._outcomes: list[tuple[list[float], list[tuple[float, State]]]] = []
        certain, rewards = True, []
        for pair, listed in enumerate(env.P[s][a] for s in range(size) for a in range(actions)):
            outcomes: list[tuple[float, float, Any]] = [
                (float(p), float(r), END if done else int(s)) for p, s, r, done in listed if p > 0
            ]
            rewards += [r for _, r, _ in outcomes]
            certain &= len({r for _, r, _ in outcomes}) == 1
            means.flat[pair] = sum(p * r for p, r, _ in outcomes)
            places += [(pair, size if following is END else following, p) for p, _, following in outcomes]
            self._outcomes.append(
                (np.cumsum([p for p, _, _ in outcomes])[:-1].tolist(), [(r, following) for _, r, following in outcomes])
            )
        rows, columns, weights = zip(*places, strict=True)
        matrix = sparse.coo_array((weights, (rows, columns)), shape=(size * actions, size + 1)).tocsr()
        start = np.asarray(env.initial_state_distrib, dtype=np.float64)
        reward_range = (min(rewards), max(rewards))
        super().__init__(matrix, means.clip(*reward_range), horizon=horizon, start=start, reward_range=reward_range)
        self.deterministic_rewards = certain
        self.view = view
        self._source = copy.deepcopy(env.P)

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state)."""
        cumulative, outcomes = self._outcomes[state * self.actions + action]
        drawn: tuple[float, State] = outcomes[bisect_right(cumulative, rng.random())] if cumulative else outcomes[0]
        return drawn

    def step_batch(
        self, state: int, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """Draw a batch of n samples of one pair."""
        cumulative, outcomes = self._outcomes[state * self.actions + action]
        which = np.searchsorted(np.array(cumulative), rng.random(n), side="right") if cumulative else np.zeros(n, int)
        rewards = np.array([reward for reward, _ in outcomes])
        return rewards[which], [following for _, following in outcomes], which

    step_many = TabularMDP.step_many  # with the outcomes and rewards below, which are those of step

    def _moves(self, stage: int) -> Outcomes:
        return self._listed[0]

    def _drawn_rewards(self, stage: int, pairs: NDArray[Any], picked: NDArray[Any], noise: NDArray[Any]) -> Array:
        drawn: Array = self._listed[1].take(picked)
        return drawn

    @cached_property
    def _listed(self) -> tuple[Outcomes, Array]:
        """The outcomes of all pairs, and their rewards."""
        ends = np.cumsum([0, *(len(outcomes) for _, outcomes in self._outcomes)])
        cumulative = np.concatenate([[*sums, 1.0] for sums, _ in self._outcomes])
        drawn = [outcome for _, outcomes in self._outcomes for outcome in outcomes]
        successors = np.array([ENDED if following is END else following for _, following in drawn])
        return Outcomes(ends, cumulative, successors), np.array([reward for reward, _ in drawn])

    # ----------------------------------------------------------------- as an environment

    def capture(self, env: Any, observation: Any = None) -> int:
        """The current state of an environment of this kind."""
        return int(env.unwrapped.s)

    @property
    def constants(self) -> None:
        """None: the table is the only constant."""

    def changed(self, env: Any, fresh: bool) -> str | None:
        """``"P"`` if the table of an environment changed since this object was made, else None."""
        return None if getattr(env.unwrapped, "P", None) == self._source else "P"

    def observation(self, state: int) -> int:
        """The observation in a state, which is the state itself."""
        return state

    def point(self, state: int) -> Array:
        """The state as a point for feature maps, (n,)."""
        return self.view.point(state)
