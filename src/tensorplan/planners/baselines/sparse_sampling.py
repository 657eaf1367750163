"""Sparse sampling (Kearns, Mansour and Ng 2002): a lookahead tree of fixed width, for any simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tensorplan.core import END, Access, Node
from tensorplan.core.errors import Refused
from tensorplan.core.specs import whole


@dataclass(frozen=True, kw_only=True)
class SparseSampling:
    """q̂_h(s,a) = mean over ``width`` samples of R + γ max_a' q̂_{h+1}(S',a'); act greedily.

    Up to (A·width)^(H-h) queries per call; fewer if sampled states coincide, since a call estimates every state once
    per stage.  ``depth`` truncates the lookahead (0 beyond it), and is required without a horizon.  Features are
    ignored.
    """

    width: int = 4
    depth: int | None = None
    about: ClassVar[str] = "lookahead tree of fixed width; at most (A·width)^(H-h) queries"

    def __post_init__(self) -> None:
        whole("width", self.width, 1)
        if self.depth is not None:
            whole("depth", self.depth, 1)

    def begin(self, access: Access, rng: np.random.Generator) -> Lookahead:
        """Start an episode."""
        if access.horizon is None and self.depth is None:
            raise Refused(
                f"sparse sampling needs a horizon or a depth, and problem {access.problem_name!r} has no horizon; "
                "set depth, as in sparse-sampling:depth=6"
            )
        return Lookahead(access, self.width, self.depth, rng)


@dataclass(frozen=True)
class Lookahead:
    """See SparseSampling."""

    access: Access
    width: int
    depth: int | None
    rng: np.random.Generator

    def act(self, node: Node) -> int:
        """The action with the largest estimate, ties broken at random."""
        horizon = self.access.horizon
        depth = self.depth if horizon is None else horizon - node.stage
        assert depth is not None
        estimates = self._estimates(node, min(depth, self.depth or depth), {})
        return int(self.rng.choice(np.flatnonzero(estimates == estimates.max())))

    def _estimates(self, node: Node, depth: int, memory: dict[Any, np.ndarray[Any, Any]]) -> Any:
        """q̂(s, .), (A,)."""
        key = node.key
        if key is not None and (depth, key) in memory:
            return memory[depth, key]
        estimates = np.zeros(self.access.actions)
        for action in range(self.access.actions):
            sample = self.access.sample(node, action, self.width)
            total = float(sample.rewards.sum())
            if depth > 1:
                counts = np.bincount(sample.which, minlength=len(sample.successors)).tolist()
                for successor, count in zip(sample.successors, counts, strict=True):
                    if count and successor is not END:
                        ahead = float(self._estimates(successor, depth - 1, memory).max())
                        total += count * self.access.discount * ahead
            estimates[action] = total / self.width
        if key is not None:
            memory[depth, key] = estimates
        return estimates
