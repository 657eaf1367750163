"""The optimal policy, the upper end of every comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tensorplan.access.everywhere import ModelAccess
from tensorplan.core import Node, OptimalValues
from tensorplan.problems.tables.reachable import WHOLE
from tensorplan.problems.tables.solution import exact_solution


@dataclass(frozen=True, kw_only=True)
class Oracle:
    """The optimal policy, from exact dynamic programming or a closed form.

    A yardstick: it reads the model and makes no queries.
    """

    about: ClassVar[str] = "the optimal policy, read off the exact solution; no queries"
    access: ClassVar[str] = "model"
    memoryless: ClassVar[bool] = True

    def begin(self, access: ModelAccess, rng: np.random.Generator) -> OptimalPolicy:
        """Start an episode."""
        return OptimalPolicy(access, exact_solution(access.problem, WHOLE))


@dataclass(frozen=True)
class OptimalPolicy:
    """The smallest action that maximises q*."""

    access: ModelAccess
    solution: OptimalValues

    def act(self, node: Node) -> int:
        """argmax_a q*(s, a)."""
        state, stage = self.access.state(node), node.stage
        return int(np.argmax([self.solution.action_value(state, a, stage) for a in range(self.access.actions)]))
