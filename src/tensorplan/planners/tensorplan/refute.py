"""Why Sol is empty: the states that contradict one another, and the η or B that would resolve it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from tensorplan.core import Policy
from tensorplan.core.errors import NotRealizable
from tensorplan.optimism import Search
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.tensorplan.sol import Sol

NODES = 100_000
"""Nodes of the branch and bound for one program, at most."""

ONE, ALL = 0.2, 5.0
"""About how many seconds one program may take, and all those that look for a minimal conflict."""

SEARCHED = 48
"""Places that are known to be in conflict among which a smaller conflict, and the least η and B, are looked for."""

CLOSE = 1.01
"""The ratio of the bounds at which a bisection stops."""

SHOWN = 4
"""Places named in a message."""

FLOOR = 0.9995
"""A factor so that rounding to four digits does not make a lower bound larger."""

LARGEST = 1e6
"""The largest radius tried, relative to B."""

UNKNOWN = "which eta or B it would take was not looked for to the end"
"""What is said of them if something ended the search."""

RESOLUTION = 1e-9
"""The tolerance of the optimiser for a disjunction, relative to the radius."""


class _Stopped(Exception):
    """The search for a smaller conflict, or for the least η and B, was stopped."""


def _never() -> bool:
    return False


Empty = Callable[..., tuple[bool, int]]
"""Whether the set is known to be empty with changes as in :meth:`Sol.program` (another radius or η, or fewer places),
and the nodes of the search.
"""


def refutation(
    sol: Sol,
    problem: str,
    eta: float,
    certainty: str,
    policy: Policy,
    places: list[Place] | None = None,
    stop: Callable[[], bool] = _never,
    empty: Empty | None = None,
) -> NotRealizable:
    """The error for an empty Sol, with the places in conflict and the least η and B.

    ``eta`` is the allowed misspecification, without rounding; ``certainty`` is the confidence in words; ``places``
    contradict one another, if that is known; a true ``stop()`` ends the search for more, as Ctrl-C does; ``empty`` is
    for sets of which another η or B changes more than right-hand sides.
    """
    found = look_into(sol, places, stop, empty)
    places, smallest, larger = found.places, found.eta, found.bound
    excused = f" up to eta={eta:g}" if eta else ""
    return NotRealizable(
        f"problem {problem!r} is not realizable{excused} with B={sol.radius:g} ({certainty}): no parameter agrees with "
        f"what was measured at {listed(places)}; {at_least(smallest, larger)}",
        [(place.stage, place.state) for place in places],
        smallest,
        larger,
        policy,
    )


class Conflict(NamedTuple):
    """Why the set is empty: the places that contradict one another, and the least η and B, None if not looked for."""

    places: list[Place]
    eta: float | None
    bound: float | None


def look_into(
    sol: Sol, places: list[Place] | None = None, stop: Callable[[], bool] = _never, empty: Empty | None = None
) -> Conflict:
    """The conflict, among ``places`` if it is known to be; all of them if Ctrl-C, a true ``stop()`` or the deadline
    ends the search for a smaller one: the refutation stands, and less is said about it.
    """
    among, smallest, larger = places, None, None
    places, inquiry = places or measured(sol), Inquiry(sol, stop, empty)
    try:
        if (among is None or len(among) <= SEARCHED) and inquiry.empty(among=among):
            places = inquiry.conflict(places)
            smallest = inquiry.smallest_eta(among)
            larger = inquiry.smallest_bound(smallest - sol.eta, among)
    except (KeyboardInterrupt, _Stopped):
        pass
    return Conflict(places, smallest, larger)


def listed(places: Sequence[Place], most: int = SHOWN) -> str:
    """The first of the places, and how many more there are."""
    rest = len(places) - most
    return ", ".join(map(str, places[:most])) + (f" and {rest} more" if rest > 0 else "")


def at_least(eta: float | None, bound: float | None) -> str:
    """The least η or B needed, up to a hundredth less than the one found to be enough."""
    ways = [f"{name}={x / CLOSE * FLOOR:.4g}" for name, x in (("eta", eta), ("B", bound)) if x is not None]
    return f"at least {' or '.join(ways)} is needed" if ways else UNKNOWN


def measured(sol: Sol) -> list[Place]:
    """All places in Sol, in the order in which they were measured."""
    return list(dict.fromkeys([*sol.row_places, *sol.form_places]))


class Inquiry:
    """Searches of the sets with fewer places, another η or another B."""

    def __init__(self, sol: Sol, stop: Callable[[], bool] = _never, empty: Empty | None = None) -> None:
        self.sol, self.stop, self._empty = sol, stop, empty
        self.searched = 0
        """Nodes so far."""

    def empty(self, **changes: Any) -> bool:
        """Whether the set with these changes is known to be empty; _Stopped if there is no time to find out."""
        if self.stop():
            raise _Stopped
        empty, nodes = (self._search if self._empty is None else self._empty)(**changes)
        self.searched += nodes
        if self.sol.deadline.passed:
            raise _Stopped
        return empty

    def _search(self, **changes: Any) -> tuple[bool, int]:
        program = self.sol.program(np.zeros(self.sol.dimension), **changes)
        found = self.sol.solve(Search(program), min(NODES, self.sol.nodes_in(ONE)))
        return found.status == "infeasible", found.nodes

    def conflict(self, places: list[Place]) -> list[Place]:
        """The places that contradict one another, without those that can be spared, in the order of measurement.

        The set is minimal unless a search for that takes too long.
        """
        size, most = max(1, len(places) // 2), self.searched + self.sol.nodes_in(ALL)
        while True:  # leave out halves, then quarters, .. of the rest
            start = 0
            while start < len(places) and len(places) > 1:
                rest = places[:start] + places[start + size :]
                empty = self.empty(among=set(rest))
                if self.searched > most:
                    return places
                if empty:
                    places = rest
                else:
                    start += size
            if size == 1:
                return places
            size //= 2

    def smallest_eta(self, among: Collection[Place] | None = None) -> float:
        """An η for which the set is nonempty, at most a hundredth above the least one that the optimiser can tell."""
        low = self.sol.eta + RESOLUTION * (1 + self.sol.radius)
        return _bisect(low, lambda eta: self.empty(eta=eta, among=among))

    def smallest_bound(self, excess: float, among: Collection[Place] | None = None) -> float | None:
        """A radius for which the set is nonempty, at most a hundredth above the least; None if a huge one does not
        help.

        ``excess`` is by how much η is too small: in a ball so large that the optimiser's tolerance is a tenth of that,
        a point it finds proves nothing.
        """
        largest = min(LARGEST * self.sol.radius, excess / (10 * RESOLUTION))
        if largest <= self.sol.radius or self.empty(radius=largest, among=among):
            return None
        return _bisect(self.sol.radius, lambda radius: self.empty(radius=radius, among=among))


def _bisect(low: float, empty: Callable[[float], bool]) -> float:
    """The least parameter >= low for which the set is not known to be empty, approximated from above."""
    high = 2 * low
    while empty(high):
        low, high = high, 2 * high
    while high > CLOSE * low:
        middle = float(np.sqrt(low * high))
        if empty(middle):
            low = middle
        else:
            high = middle
    return high
