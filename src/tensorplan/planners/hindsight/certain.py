"""Hindsight where nothing is random: best-first search, and a bracket that holds for certain.

Simulations of UCT find good paths soon, which gives the lower bound; best-first search gives the upper one, and closes
the gap if the problem is small enough (:mod:`tensorplan.planners.hindsight.best_first`).  Each takes half of the steps,
and a query that both make is charged once.  The policy repeats the best path.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tensorplan.core import Access, Certificate, Node
from tensorplan.core.errors import BadInput
from tensorplan.hindsight.bracket import PolicyBounds
from tensorplan.planners.anytime import Planning
from tensorplan.planners.baselines.uct import UCT, Tree
from tensorplan.planners.evidence.challenge import DRAWS, RECHECKED, PathStep, random_after_all, recheck
from tensorplan.planners.evidence.replay import Replay
from tensorplan.planners.hindsight.best_first import BestFirst

NEGLIGIBLE, LONGEST = 1e-3, 1_000
"""Without a horizon, simulations end when the rest of the return is this share of its range, or after so many steps."""

LARGEST = 1_000_000
"""States and times reached after which the search ends, to bound memory."""

LOOK = 1.1
"""The callback sees the bracket whenever the number of steps has grown by this factor."""

CERTAIN = "nothing is random here, as the problem declares: the bracket holds for certain, not with some confidence"
"""What a certificate says of its bracket."""


class CertainPlanning(Planning[Replay]):
    """The search of one episode, for a bracket of width ``delta`` within ``budget`` queries."""

    def __init__(
        self,
        access: Access,
        delta: float,
        budget: int | None,
        callback: Callable[[PolicyBounds, int], object] | None,
        rng: np.random.Generator,
    ) -> None:
        self.access, self.delta, self.callback, self.rng = access, delta, callback, rng
        self.search = BestFirst(access)
        self.depth = access.horizon or _depth(access.discount)
        self.tree: Tree | None = None
        if access.root.key is not None:
            self.tree = Tree(access, UCT(depth=self.depth), rng)
        left = access.remaining if budget is None else min(access.remaining, budget)
        self.end = access.spent + left - math.ceil(min(RECHECKED * self.depth, RECHECKED * left))
        """The queries of the episode after which the search ends: some are kept to recheck the path."""
        self.path: list[PathStep] = []
        self._steps, self._look = 0, 1.0

    @property
    def bounds(self) -> PolicyBounds:
        """The current bracket."""
        lower, upper = self.search.lower, self.search.upper
        return PolicyBounds(lower, upper, upper - lower)

    def _search(self) -> str:
        """Alternate a simulation and as many steps of best-first search."""
        while self.bounds.width > self.delta:
            for _ in range(self._simulate()):
                if self.access.spent >= self.end:
                    return "budget"
                if not self.search.extend():
                    return "certified" if self.bounds.width <= self.delta else "limit"
            if self._stopped():
                return "stopped"
            if self.search.size > LARGEST:
                return "limit"
        self._stopped()
        return "certified"

    def _simulate(self) -> int:
        """Simulate if there are enough queries, keep the path if it is the best, and count its steps."""
        if self.tree is None or self.access.spent + self.depth > self.end:
            return self.depth
        try:
            actions, value = self.tree.simulate(self.access.root)
        except BadInput:  # a state that cannot be hashed
            self.tree = None
            return self.depth
        if value + self._rest(len(actions)) > self.search.lower:
            self.search.follow(actions)
        return len(actions)

    def _rest(self, steps: int) -> float:
        """The least that can follow after a simulation."""
        return 0.0 if self.access.horizon is not None else self.access.discount**steps * self.search.low

    def _stopped(self) -> bool:
        """Whether the callback, if it is time for it, returned true."""
        self._steps += 1
        if self.callback is None or self._steps < self._look:
            return False
        self._look = LOOK * self._steps
        return bool(self.callback(self.bounds, self.access.spent))

    def _finish(self, status: str) -> str:
        self.path = self.search.path()
        if status == "certified":
            status = self._ended(self._recheck)
        return status

    def _recheck(self) -> str:
        """Query some steps of the path again, and raise if one has changed."""
        recheck(self.access, self.path, RECHECKED, self.rng)
        return "doubtful" if random_after_all(self.access) else "certified"

    def _bracket(self, status: str) -> Certificate:
        lower, upper, _ = self.bounds
        return Certificate(
            upper,
            lower,
            status,
            warnings=(DRAWS,) if random_after_all(self.access) else (),
            discount=self.access.discount,
            notes=(CERTAIN,),
        )

    def _policy(self, certificate: Certificate) -> Replay:
        return Replay(self.path, certificate, self._improvise)

    def _improvise(self, node: Node) -> int:
        """An action after the end of a path that was cut short."""
        stats = None if self.tree is None else self.tree.table.get((node.stage, node.key))
        return stats.best if stats is not None and stats.visits else int(self.rng.integers(self.access.actions))


def _depth(discount: float) -> int:
    """The steps of a simulation without a horizon."""
    return LONGEST if discount == 1 else min(math.ceil(math.log(NEGLIGIBLE) / math.log(discount)), LONGEST)
