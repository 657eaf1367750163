"""Search at the root, the natural method if one hidden action pays (:mod:`tensorplan.problems.hard.exponential`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tensorplan.core import Access, Node
from tensorplan.core.errors import BudgetSpent
from tensorplan.core.specs import whole


@dataclass(frozen=True, kw_only=True)
class RootSearch:
    """In the first call, try the actions in random order until one of its ``samples`` pays, and play it.

    Later calls play at random, without queries.  The last action is played untried, being the only one left.  If
    exactly one action pays, and surely, the expected cost is (A - 1)(A + 2)/(2A) queries with one sample each.  On
    other problems this is a weak heuristic.  Features are ignored.
    """

    samples: int = 1
    about: ClassVar[str] = "tries actions until one has an immediate reward; no guarantee"

    def __post_init__(self) -> None:
        whole("samples", self.samples, 1)

    def begin(self, access: Access, rng: np.random.Generator) -> RootPolicy:
        """Start an episode."""
        return RootPolicy(access, self.samples, rng)


@dataclass
class RootPolicy:
    """See RootSearch."""

    access: Access
    samples: int
    rng: np.random.Generator
    searched: bool = field(default=False, init=False)

    def act(self, node: Node) -> int:
        """The action that pays, or one of those left when the budget is spent; later a random one."""
        if self.searched:
            return int(self.rng.integers(self.access.actions))
        self.searched = True
        order: list[int] = self.rng.permutation(self.access.actions).tolist()
        for action in order[:-1]:
            try:
                paid = self.access.sample(node, action, self.samples).rewards.max() > 0
            except BudgetSpent:
                return action
            if paid:
                return action
        return order[-1]
