"""Features of states: a map of points, and the point that each state stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tensorplan.core import Array, State
from tensorplan.features.maps import FeatureMap


class Located(Protocol):
    """Anything that knows where states lie: a Gymnasium environment, a table, a puzzle."""

    def point(self, state: State) -> Array:
        """The point that a state stands for, (n,)."""


class PointFeatures:
    """A feature map of the points that states stand for, as φ_v; or as φ_q, a block of features for each action."""

    def __init__(self, places: Located, features: FeatureMap, blocks: int | None) -> None:
        self.places, self.map, self.blocks = places, features, blocks

    @property
    def names(self) -> tuple[str, ...]:
        """What each feature is, (d,)."""
        if self.blocks is None:
            return self.map.names
        return tuple(f"action {a}: {name}" for a in range(self.blocks) for name in self.map.names)

    @property
    def clipped(self) -> int:
        """How often a point had to be moved into the frame, where the user asked for that (``outside="clip"``)."""
        return int(getattr(self.places, "clipped", 0))

    def __call__(self, state: State, stage: int) -> Array:
        """(d,), or (A, A d) with blocks."""
        features = self.map(self.places.point(state), stage)
        return features if self.blocks is None else np.asarray(np.kron(np.eye(self.blocks), features))

    def many(self, states: Sequence[State], stage: int) -> Array:
        """The rows of all states, (m, d), or of all their pairs, (m A, A d)."""
        features = self.map.many(np.array([self.places.point(state) for state in states]), stage)
        if self.blocks is None:
            return features
        blocks = np.eye(self.blocks)[None, :, :, None] * features[:, None, None, :]
        return np.asarray(blocks.reshape(len(states) * self.blocks, -1))
