"""Random actions, the lower end of every comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tensorplan.core import Access, Node


@dataclass(frozen=True, kw_only=True)
class RandomPlanner:
    """Uniformly random actions, no queries."""

    about: ClassVar[str] = "uniformly random actions; no queries"

    def begin(self, access: Access, rng: np.random.Generator) -> RandomPolicy:
        """Start an episode."""
        return RandomPolicy(access.actions, rng)


@dataclass(frozen=True)
class RandomPolicy:
    """See RandomPlanner."""

    actions: int
    rng: np.random.Generator

    def act(self, node: Node) -> int:
        """A uniformly random action."""
        return int(self.rng.integers(self.actions))
