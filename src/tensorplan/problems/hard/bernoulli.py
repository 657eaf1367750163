"""MDPs with deterministic transitions whose rewards are their means or Bernoulli with that mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array, State

Number = Any
"""float, or Fraction for exact results."""


class BernoulliRewards:
    """The simulator of an MDP that defines ``_outcome``; without ``noise`` rewards are their means."""

    reward_range = (0.0, 1.0)
    deterministic_transitions = True
    noise: bool

    def _outcome(self, state: State, action: int) -> tuple[Number, State, bool]:
        """The mean reward, the next state, and whether the reward is Bernoulli."""
        raise NotImplementedError

    @property
    def deterministic_rewards(self) -> bool:
        """Whether rewards are their means."""
        return not self.noise

    def step(self, state: State, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state)."""
        mean, following, bernoulli = self._outcome(state, action)
        if bernoulli and self.noise:
            return (1.0 if rng.random() < mean else 0.0), following
        return float(mean), following

    def step_batch(
        self, state: State, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """Draw a batch of n samples of one pair."""
        mean, following, bernoulli = self._outcome(state, action)
        drawn = rng.random(n) < float(mean) if bernoulli and self.noise else np.full(n, mean)
        return drawn.astype(np.float64), [following], np.zeros(n, dtype=np.intp)

    def mean_reward(self, state: State, action: int) -> Number:
        """The expected reward of a pair."""
        return self._outcome(state, action)[0]

    def next_state(self, state: State, action: int) -> State:
        """The successor of a pair."""
        return self._outcome(state, action)[1]
