"""The greedy policy of a value function."""

from __future__ import annotations

import numpy as np

from tensorplan.access.batches import BatchAccess
from tensorplan.access.noise import Purpose, episode
from tensorplan.core import State
from tensorplan.hindsight.columns import Fresh
from tensorplan.hindsight.fitting.model import FittedValues
from tensorplan.hindsight.fitting.regression import RegressedValues
from tensorplan.hindsight.scenario import ScenarioPlayer
from tensorplan.hindsight.subject import Players
from tensorplan.hindsight.values import ValueFunction, Values

Fit = FittedValues | RegressedValues

LOOKAHEAD = 32
"""Samples of each action at a state where none were drawn before; they share their noise."""


class Greedy:
    """Plays the action with the largest mean of R + γ V(S'): as fitted, or from new samples."""

    def __init__(self, value: ValueFunction, access: BatchAccess, episode: int) -> None:
        self.access, self.episode = access, episode
        self._values = Values(access, value)
        self._fit = value if isinstance(value, FittedValues) else None
        self._steps = 0

    def act(self, state: State, stage: int) -> int:
        """The action in a state."""
        action = None if self._fit is None else self._fit.action(state, stage)
        return self._look(state, stage) if action is None else action

    def arrive(self, action: int, reward: float, state: State) -> None:
        """Nothing is learned."""

    def _look(self, state: State, stage: int) -> int:
        """One step ahead, with noise that nothing else uses."""
        self._steps += 1
        noise = Fresh(self._values, Purpose.POLICY, self.episode, LOOKAHEAD)
        ahead = noise.look(self._steps, stage, np.array([self.access.number(state)]))
        return int(ahead.residuals[0].argmax())


class GreedyOnArrays:
    """The greedy policy of values that were regressed on features: it takes no samples, and many states at once."""

    def __init__(self, fit: RegressedValues) -> None:
        self.fit, self.act_many = fit, fit.act_many

    def __call__(self, purpose: Purpose, index: int, start: State) -> ScenarioPlayer:
        """It is its own player in every episode."""
        return self

    def act(self, state: State, stage: int) -> int:
        """The action in a state."""
        return self.fit.action(state, stage)

    def arrive(self, action: int, reward: float, state: State) -> None:
        """Nothing is learned."""


def greedy(value: ValueFunction, access: BatchAccess) -> Players:
    """The greedy policy of a value function."""
    if isinstance(value, RegressedValues):
        return GreedyOnArrays(value)

    def player(purpose: Purpose, index: int, start: State) -> ScenarioPlayer:
        return Greedy(value, access, episode(purpose, index))

    return player
