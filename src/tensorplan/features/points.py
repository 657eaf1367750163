"""Features of states: a feature map composed with the map from states to points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array, State
from tensorplan.features.maps import FeatureMap


class Located(Protocol):
    """A map from states to points: a Gymnasium environment, a table, or a puzzle.

    It may have a method ``points(states)`` as well, for an array of n states.
    """

    def point(self, state: State) -> Array:
        """The point of a state, (n,)."""


class PointFeatures:
    """A feature map of the points of states, as φ_v, or as φ_q with a block of features per action."""

    def __init__(self, places: Located, features: FeatureMap, blocks: int | None) -> None:
        self.places, self.map, self.blocks = places, features, blocks

    @property
    def names(self) -> tuple[str, ...]:
        """A readable name for each feature, (d,)."""
        if self.blocks is None:
            return self.map.names
        return tuple(f"action {a}: {name}" for a in range(self.blocks) for name in self.map.names)

    @property
    def clipped(self) -> int:
        """How many points were moved into the frame, with ``outside="clip"``."""
        return int(getattr(self.places, "clipped", 0))

    def __call__(self, state: State, stage: int) -> Array:
        """The features of a state, (d,), or (A, A d) with blocks."""
        features = self.map(self.places.point(state), stage)
        return features if self.blocks is None else np.asarray(np.kron(np.eye(self.blocks), features))

    def many(self, states: Sequence[State] | NDArray[Any], stage: int) -> Array:
        """The features of m states, (m, d), or of their state-action pairs, (m A, A d)."""
        every = getattr(self.places, "points", None)
        points = np.array([self.places.point(state) for state in states]) if every is None else every(states)
        features = self.map.many(points, stage)
        if self.blocks is None:
            return features
        blocks = np.eye(self.blocks)[None, :, :, None] * features[:, None, None, :]
        return np.asarray(blocks.reshape(len(states) * self.blocks, -1))
