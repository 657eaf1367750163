"""Good paths by UCT, where nothing is random.

Simulations start from a state that moves on after some of them, by the best action, as in an episode of UCT; at the end
of the episode another one begins, with twice as many.  So long paths become good at their end too, with few queries.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorplan.core import END, Access
from tensorplan.planners.baselines.uct import UCT, Simulation, Tree

FEWEST = 2
"""Simulations from each state of the first episode."""


class PathFinder:
    """A source of paths from the root, of at most ``depth`` steps where there is no horizon."""

    def __init__(self, access: Access, depth: int, rng: np.random.Generator) -> None:
        self.access, self.depth = access, depth
        self.tree = Tree(access, UCT(depth=depth), rng)
        self._begin(FEWEST)

    def _begin(self, each: int) -> None:
        """An episode, with so many simulations from each of its states."""
        self._each, self._made = each, 0
        self._node: Any = self.access.root
        self._actions: list[int] = []
        self._earned, self._scale = 0.0, 1.0

    def find(self) -> Simulation:
        """The next path."""
        if self._made == self._each:
            self._move_on()
        self._made += 1
        actions, value, ended = self.tree.simulate(self._node)
        return Simulation(self._actions + actions, self._earned + self._scale * value, ended)

    def _move_on(self) -> None:
        """Take the best action; at the end of the episode begin another one."""
        action = self.tree.table[self._node.stage, self._node.key].best
        reward, following = self.access.query(self._node, action)[0]
        if following is END or len(self._actions) + 1 == self.depth:
            self._begin(2 * self._each)
            return
        self._actions.append(action)
        self._earned, self._scale = self._earned + self._scale * reward, self._scale * self.access.discount
        self._node, self._made = following, 0
