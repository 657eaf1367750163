"""Best-first search where nothing is random: a bracket on v*(s0) that holds for certain, at every moment.

A path that has earned g = Σ_i γ^i R_i in t steps can earn at least g + γ^t low and at most g + γ^t high, where
[low, high] is the range of returns from there on.  So

    max of g + γ^t low over all paths found  <=  v*(s0)  <=  max of g + γ^t high over the paths that are left open.

The open path with the largest upper bound is extended by one query, the deepest one among ties, so that the upper bound
falls as fast as possible (A*; without merging: Hren and Munos 2008).  Of the paths that reach a state at the same time
only the best one is kept: what follows is the same for all of them.  Without horizon and discount the time does not
matter, and states merge whenever they are reached.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

from tensorplan.core import END, Access, Node
from tensorplan.planners.evidence.challenge import PathStep
from tensorplan.planners.hindsight.explored import Explored
from tensorplan.problems.simulate import believable

ROUNDING = 1e-12
"""By how much a path must be better, relative to the range of returns, where a cycle could be repeated for ever to gain
rounding errors."""


class Arrival:
    """A state at a time, and the best path to it."""

    __slots__ = ("came", "depth", "earned", "node", "scale", "tried", "upper")

    def __init__(self, node: Node, depth: int, scale: float) -> None:
        self.node, self.depth, self.scale = node, depth, scale  # scale: γ^t
        self.earned = -math.inf
        self.upper = math.inf
        """The largest return of a path that begins like this one."""
        self.came: tuple[Arrival, int, float] | None = None
        """Where the path came from, by which action, and with which reward."""
        self.tried = 0
        """The actions 0 .. tried - 1 have been tried since the path was last improved."""


class BestFirst:
    """The search from the root of an access object."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.actions, self.discount = access.actions, access.discount
        self.low, self.high = access.return_range(0)
        self.lower = self.low
        """The return of the best path found, with the least that can follow."""
        self._ranges = [access.return_range(stage) for stage in range(access.horizon or 1)]
        self._timed = access.horizon is not None or access.discount < 1
        least, largest = access.reward_range
        self.bounded = self._timed or least >= 0 or largest <= 0
        """Whether there is an upper bound but the largest return: rewards of both signs may cancel in a cycle."""
        self._slack = 0.0 if self.bounded else ROUNDING * (self.high - self.low)
        self._circling = -math.inf
        """The most that a path has earned before it may circle for ever without rewards."""
        self.explored = Explored(access) if access.horizon is None and access.discount < 1 else None
        """The pairs seen, where more can be made of them."""
        self._table: dict[Any, Arrival] = {}
        self._heap: list[tuple[float, int, int, Arrival]] = []
        self._pushed = 0
        root = Arrival(access.root, 0, 1.0)
        root.earned, root.upper = 0.0, self.high
        self.root = root
        self._best: tuple[Arrival, PathStep | None] = root, None
        if access.root.key is not None:
            self._table[0, access.root.key] = root
        self._push(root)

    @property
    def upper(self) -> float:
        """The largest return of a path that is not known to its end, or of the best one that is.

        Where no path ends it would be infinitely small; then it is the largest return, as at first.
        """
        left = -self._heap[0][0] if self._heap else -math.inf
        most = max(left, self.lower, self._circling)
        return min(most, self.high) if self.bounded and most > -math.inf else self.high

    @property
    def size(self) -> int:
        """The number of states and times reached."""
        return self._pushed

    def extend(self) -> bool:
        """Extend the open path with the largest upper bound by one query; False if none can be better than the best.

        The path stays open until that is done, so an error or Ctrl-C on the way leaves a valid bracket.
        """
        heap = self._heap
        while heap and -heap[0][0] > self.lower:
            upper, _, _, arrival = heap[0]
            action = arrival.tried
            if action == self.actions or -upper != arrival.upper:
                heappop(heap)
                continue
            earned = arrival.earned
            self._arrive(arrival, action)
            if arrival.earned == earned:
                arrival.tried = action + 1
            return True
        heap.clear()
        return False

    def follow(self, actions: Iterable[int]) -> None:
        """Add the path of given actions."""
        arrival: Arrival | None = self.root
        for action in actions:
            if arrival is None:
                return
            arrival = self._arrive(arrival, action)

    def dive(self, steps: int, until: float) -> None:
        """Go on greedily from the best path if it is open, else from the one with the largest upper bound.

        Of all actions it takes the one whose path has the largest upper bound.  It ends after so many steps, or before
        more than ``until`` queries are spent.
        """
        arrival, last = self._best
        if last is not None and self._heap:
            arrival, last = self._heap[0][-1], None
        ahead = arrival if last is None else None
        while ahead is not None and steps > 0 and self.access.spent + self.actions <= until:
            tried = [self._arrive(ahead, action) for action in range(self.actions)]
            ahead = max((each for each in tried if each is not None), key=lambda each: each.upper, default=None)
            steps -= 1

    def path(self) -> list[PathStep]:
        """The best path found."""
        arrival, last = self._best
        steps = [] if last is None else [last]
        while arrival.came is not None:
            parent, action, reward = arrival.came
            steps.append(PathStep(parent.node, action, reward, arrival.node))
            arrival = parent
        return steps[::-1]

    def _arrive(self, parent: Arrival, action: int) -> Arrival | None:
        """Query where an action leads; None at END, and where no path can be better than the best."""
        reward, following = self.access.query(parent.node, action)[0]
        if self.explored is not None:
            self.explored.add(parent.node, action, reward, following)
        earned = parent.earned + parent.scale * reward
        if following is END:
            self._offer(earned, parent, PathStep(parent.node, action, reward, END))
            return None
        key = following.key
        place = (parent.depth + 1 if self._timed else 0, key)
        known = self._table.get(place) if key is not None else None
        if known is not None and earned <= known.earned + self._slack:
            if not self._timed and reward == 0:
                self._circling = max(self._circling, earned)
            return known
        scale = parent.scale * self.discount
        low, high = self._ranges[following.stage]
        upper = min(parent.upper, earned + scale * high)
        if upper <= self.lower:
            return None
        arrival = known or Arrival(following, parent.depth + 1, scale)
        arrival.came, arrival.depth = (parent, action, reward), parent.depth + 1
        arrival.earned, arrival.upper, arrival.tried = earned, upper, 0
        if key is not None:
            self._table[place] = arrival
        self._offer(earned + scale * low, arrival, None)
        self._push(arrival)
        return arrival

    def _offer(self, value: float, arrival: Arrival, last: PathStep | None) -> None:
        """Keep a path if it is the best so far."""
        if value > self.lower:
            value = believable(self.access.problem_name, value, (self.low, self.high))
            self._best = arrival, last  # before the bound: Ctrl-C may come between the two
            self.lower = value

    def _push(self, arrival: Arrival) -> None:
        self._pushed += 1
        heappush(self._heap, (-arrival.upper, -arrival.depth, self._pushed, arrival))
