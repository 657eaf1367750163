"""Hindsight where nothing is random: best-first search, and a bracket that holds for certain.

Episodes of UCT find good paths soon, which gives the lower bound (:mod:`tensorplan.planners.hindsight.simulated`);
best-first search gives the upper one, and closes the gap if the problem is small enough
(:mod:`tensorplan.planners.hindsight.best_first`).  Each takes about half of the steps, and a query that both make is
charged once.  The policy repeats the best path.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tensorplan.core import END, Access, Certificate, Node
from tensorplan.core.errors import BadInput
from tensorplan.hindsight.bracket import PolicyBounds
from tensorplan.planners.anytime import Planning
from tensorplan.planners.evidence.challenge import DRAWS, RECHECKED, random_after_all, recheck
from tensorplan.planners.evidence.replay import Replay
from tensorplan.planners.hindsight.best_first import BestFirst
from tensorplan.planners.hindsight.explored import Lasso
from tensorplan.planners.hindsight.simulated import PathFinder
from tensorplan.problems.simulate import believable

NEGLIGIBLE, LONGEST = 1e-3, 1_000
"""Without a horizon, simulations end when the rest of the return is this share of its range, or after so many steps."""

LARGEST = 1_000_000
"""States and times reached after which the search ends, to bound memory."""

STEP = 1_000
"""The pairs of a sweep of value iteration that take as long as a step of the search: both get the same time."""

DIVES = 0.1
"""The share of the steps that goes on from the best path to its end."""

LOOK = 1.1
"""The callback sees the bracket whenever the number of steps has grown by this factor."""

CERTAIN = "nothing is random here, as the problem declares: the bracket holds for certain, not with some confidence"
"""What a certificate says of its bracket."""

FULL = f"the search was ended after {LARGEST:,} states, to bound memory"
"""The same, if that is why it ended."""


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
        self.finder = PathFinder(access, self.depth, rng) if access.root.key is not None else None
        left = access.remaining if budget is None else min(access.remaining, budget)
        self.all = access.spent + left - math.ceil(RECHECKED * min(self.depth, left))
        """The queries of the episode that may be spent: some are kept to recheck the path."""
        self.end = self.all - math.ceil(min(access.actions * self.depth, DIVES * left))
        """Those after which the search ends: some are kept to go on from the best path to its end."""
        self.upper = self.search.high
        """The upper bound by value iteration, where there is one."""
        self.lasso = Lasso([], None, -math.inf)
        """The best path that value iteration has found."""
        self._steps, self._look = 0, 1.0
        self._credit, self._cost = 0.0, 0
        self._per_simulation, self._undived = self.depth, 0

    @property
    def bounds(self) -> PolicyBounds:
        """The current bracket."""
        lower = self.search.lower
        upper = max(min(self.search.upper, self.upper), lower)
        return PolicyBounds(lower, upper, upper - lower)

    def _search(self) -> str:
        """Alternate a simulation and as many steps of best-first search."""
        if self.access.spent >= self.end:
            return "budget"
        self._per_simulation = 1 + self.depth * (1 + self._repetition())
        while self.bounds.width > self.delta:
            self.access.deadline.check()  # queries that are answered from the cache take time too
            steps = self._simulate()
            for _ in range(steps):
                if self.access.spent >= self.end:
                    return self._reached("budget")
                if not self.search.extend():
                    return self._reached("limit")
            self._merge_times(STEP * steps)
            self._dive(steps)
            if self._stopped():
                return "stopped"
            if self.search.size > LARGEST:
                return self._reached("limit")
        return self._reached("certified")

    def _reached(self, status: str) -> str:
        """``"certified"`` if the bracket, looked at for the last time, is narrow enough, else ``status``."""
        if status == "budget":
            self.search.dive(self.depth, self.all)
        self._merge_times(math.inf)
        self._look = 0.0
        self._stopped()
        return "certified" if self.bounds.width <= self.delta else status

    def _merge_times(self, credit: float) -> None:
        """Improve the bracket by what is known of states, at whatever time they were reached, if it is time for it."""
        explored = self.search.explored
        self._credit += credit
        if explored is None or self._credit < self._cost:
            return
        before = explored.work
        self.upper = min(self.upper, explored.upper(self.delta))
        lasso = explored.lasso(self.delta)
        if lasso.value > self.search.lower:
            self.lasso = lasso  # before the bound: Ctrl-C may come between the two
            self.search.lower = believable(self.access.problem_name, lasso.value, (self.search.low, self.search.high))
        self._credit, self._cost = 0.0, explored.work - before
        if self.bounds.width > self.delta and self.access.spent + self.access.actions <= self.end:
            explored.probe(self.depth)

    def _dive(self, steps: int) -> None:
        """Go on from the best path to its end, if it is time for it after so many more steps."""
        self._undived += steps
        if DIVES * self._undived >= self.access.actions * self.depth:
            self._undived = 0
            self.search.dive(self.depth, self.end)

    def _repetition(self) -> int:
        """What it costs to repeat a query: nothing, unless the access object was told not to cache."""
        self.access.query(self.access.root, 0)
        before = self.access.spent
        if before < self.end:
            self.access.query(self.access.root, 0)
        return self.access.spent - before

    def _simulate(self) -> int:
        """Simulate if there are enough queries, keep the path if it is the best, and count its steps."""
        if self.finder is None or self.access.spent + self._per_simulation > self.end:
            return self.depth
        try:
            actions, value, ended = self.finder.find()
        except BadInput:  # a state that cannot be hashed
            self.finder = None
            return self.depth
        least = 0.0 if ended else self.access.discount ** len(actions) * self.search.low
        if value + least > self.search.lower:
            self.search.follow(actions)
        return len(actions)

    def _stopped(self) -> bool:
        """Whether the callback, if it is time for it, returned true."""
        self._steps += 1
        if self.callback is None or self._steps < self._look:
            return False
        self._look = LOOK * self._steps
        return bool(self.callback(self.bounds, self.access.spent))

    def _finish(self, status: str) -> str:
        if self.lasso.value < self.search.lower or not self.lasso.steps:
            self.lasso = Lasso(self.search.path(), None, self.search.lower)
        return self._ended(self._recheck) if status == "certified" else status

    def _recheck(self) -> str:
        """Query some steps of the path again, and raise if one has changed."""
        recheck(self.access, self.lasso.steps, RECHECKED, self.rng)
        return "doubtful" if random_after_all(self.access) else "certified"

    def _bracket(self, status: str) -> Certificate:
        lower, upper, _ = self.bounds
        drew, full = random_after_all(self.access), self.search.size > LARGEST
        return Certificate(
            upper,
            lower,
            status,
            warnings=(DRAWS,) if drew else (),
            discount=self.access.discount,
            notes=(() if drew else (CERTAIN,)) + ((FULL,) if full else ()),
        )

    def _policy(self, certificate: Certificate) -> Replay:
        steps, loop, _ = self.lasso
        complete = loop is not None or (steps and steps[-1].following is END)
        known = None if self.finder is None or complete else self.finder.tree.choices()
        rng, actions = self.rng, self.access.actions

        def improvise(node: Node) -> int:
            """An action after the end of a path that was cut short."""
            action = None if known is None else known(node)
            return int(rng.integers(actions)) if action is None else action

        return Replay(steps, certificate, improvise, loop)


def _depth(discount: float) -> int:
    """The steps of a simulation without a horizon."""
    return LONGEST if discount == 1 else min(math.ceil(math.log(NEGLIGIBLE) / math.log(discount)), LONGEST)
