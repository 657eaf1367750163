"""The greedy policy of fitted values."""

from __future__ import annotations

import numpy as np

from tensorplan.access.batches import BatchAccess
from tensorplan.access.noise import Purpose
from tensorplan.core import State
from tensorplan.hindsight.columns import Fresh
from tensorplan.hindsight.fitting.model import FittedValues
from tensorplan.hindsight.values import Values

LOOKAHEAD = 32
"""Samples of each action at a state where none were drawn before; they share their noise."""


class Greedy:
    """Plays the action with the largest mean of R + γ V(S'): as fitted, or from new samples."""

    def __init__(self, fit: FittedValues, access: BatchAccess, episode: int) -> None:
        self.fit, self.access, self.episode = fit, access, episode
        self._values = Values(access, fit.value)
        self._steps = 0

    def act(self, state: State, stage: int) -> int:
        """The action in a state."""
        action = self.fit.action(state, stage)
        return self._look(state, stage) if action is None else action

    def arrive(self, action: int, reward: float, state: State) -> None:
        """Nothing is learned."""

    def _look(self, state: State, stage: int) -> int:
        """One step ahead, with noise that nothing else uses."""
        self._steps += 1
        noise = Fresh(self._values, Purpose.POLICY, self.episode, LOOKAHEAD)
        ahead = noise.look(self._steps, stage, np.array([self.access.number(state)]))
        return int(ahead.residuals[0].argmax())
