"""Why Sol is empty: the states that contradict one another, and the η or B that would resolve it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorplan.core import Policy
from tensorplan.core.errors import NotRealizable
from tensorplan.optimism import Program, Search
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.tensorplan.sol import Sol

NODES = 100_000
"""Nodes of the branch and bound for one program."""

CLOSE = 1.01
"""The ratio of the bounds at which a bisection stops."""

SHOWN = 4
"""Places named in a message."""

FLOOR = 0.9995
"""A factor so that rounding to four digits does not make a lower bound larger."""

LARGEST = 1e6
"""The largest radius tried, relative to B."""

RESOLUTION = 1e-9
"""The tolerance of the optimiser for a disjunction, relative to the radius."""


def refutation(
    sol: Sol, problem: str, eta: float, certainty: str, policy: Policy, places: list[Place] | None = None
) -> NotRealizable:
    """The error for an empty Sol, with the places in conflict and the least η and B.

    ``eta`` is the allowed misspecification, without rounding; ``certainty`` is the confidence in words; ``places``
    contradict one another, if that is known.
    """
    smallest, larger = None, None
    places = measured(sol) if places is None else places
    try:
        places = conflict(sol, places)
        smallest = smallest_eta(sol)
        larger = smallest_bound(sol, smallest - sol.eta)
    except KeyboardInterrupt:
        pass  # the refutation stands; less is said about it
    known = f" up to eta={eta:g}" if eta else ""
    needed = at_least(smallest, larger) or "what it would need was not looked for to the end"
    return NotRealizable(
        f"problem {problem!r} is not realizable{known} with B={sol.radius:g} ({certainty}): no parameter agrees with "
        f"what was measured at {listed(places)}; {needed}",
        [(place.stage, place.state) for place in places],
        smallest,
        larger,
        policy,
    )


def listed(places: Sequence[Place], most: int = SHOWN) -> str:
    """The first of the places, and how many more there are."""
    rest = len(places) - most
    return ", ".join(map(str, places[:most])) + (f" and {rest} more" if rest > 0 else "")


def at_least(eta: float | None, bound: float | None) -> str:
    """The least η or B needed, up to a hundredth less than the one found to be enough."""
    ways = [f"{name}={x / CLOSE * FLOOR:.4g}" for name, x in (("eta", eta), ("B", bound)) if x is not None]
    return f"at least {' or '.join(ways)} is needed" if ways else ""


def measured(sol: Sol) -> list[Place]:
    """All places in Sol, in the order in which they were measured."""
    return list(dict.fromkeys([*sol.row_places, *sol.form_places]))


def conflict(sol: Sol, places: list[Place]) -> list[Place]:
    """A minimal set of places that contradict one another, in the order in which they were measured."""
    size = max(1, len(places) // 2)
    while True:  # leave out halves, then quarters, .. of the rest
        start = 0
        while start < len(places) and len(places) > 1:
            rest = places[:start] + places[start + size :]
            if _empty(_feasibility(sol, among=set(rest))):
                places = rest
            else:
                start += size
        if size == 1:
            return places
        size //= 2


def smallest_eta(sol: Sol) -> float:
    """An η for which the set is nonempty, at most a hundredth above the least one that the optimiser can tell."""
    low = sol.eta + RESOLUTION * (1 + sol.radius)
    return _bisect(low, lambda eta: _feasibility(sol, eta=eta))


def smallest_bound(sol: Sol, excess: float) -> float | None:
    """A radius for which the set is nonempty, at most a hundredth above the least; None if a huge one does not help.

    ``excess`` is by how much η is too small: in a ball so large that the optimiser's tolerance is a tenth of that, a
    point it finds proves nothing.
    """
    largest = min(LARGEST * sol.radius, excess / (10 * RESOLUTION))
    if largest <= sol.radius or _empty(_feasibility(sol, radius=largest)):
        return None
    return _bisect(sol.radius, lambda radius: _feasibility(sol, radius=radius))


def _bisect(low: float, program: Callable[[float], Program]) -> float:
    """The least parameter >= low that makes the program feasible, approximated from above."""
    high = 2 * low
    while _empty(program(high)):
        low, high = high, 2 * high
    while high > CLOSE * low:
        middle = float(np.sqrt(low * high))
        if _empty(program(middle)):
            low = middle
        else:
            high = middle
    return high


def _feasibility(sol: Sol, **changes: Any) -> Program:
    return sol.program(np.zeros(sol.dimension), **changes)


def _empty(program: Program) -> bool:
    return Search(program).solve(node_limit=NODES).status == "infeasible"
