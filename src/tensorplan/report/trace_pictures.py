"""Pictures of states for pages: drawings of puzzles, and maps of their states.

They are made from the ``repr`` of a state, as recorded in a trace, and the problem's name alone.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensorplan.problems.puzzles import Hanoi

Point = tuple[float, float]

MAPPED = 5
"""The most disks, the largest ones, that the map of Hanoi resolves; triangles stand for the smaller ones."""


@dataclass(frozen=True)
class Pictures:
    """How to draw the states of a family.

    ``picture(state)`` is the content of an SVG with the view box ``0 0 120 60``, and is not escaped.  ``place(state)``
    is the state's point on a map, x to the right and y down, and ``backdrop`` the edges of the map.  ``goal`` is the
    state drawn at END, and ``move`` the word for a step.
    """

    picture: Callable[[Any], str] | None = None
    place: Callable[[Any], Point] | None = None
    backdrop: tuple[tuple[Point, Point], ...] = ()
    goal: Any = None
    move: str = "move"


def pictures_of(problem: str) -> Pictures | None:
    """The pictures of a problem's family, if it has any."""
    family, size = re.split(r"[/:]", problem + "/")[:2]
    numbers = [int(n) for n in re.findall(r"\d+", size)]
    if family == "hanoi" and numbers:
        return Pictures(hanoi_picture, hanoi_place, _hanoi_map(numbers[0]), (2,) * numbers[0])
    if family == "chinese-rings" and numbers:
        return Pictures(rings_picture, goal=(0,) * numbers[0])
    if family == "grid" and len(numbers) == 2:
        goal = tuple(side - 1 for side in numbers)
        return Pictures(None, grid_place(numbers), _grid_map(numbers), goal, "step")
    return None


def state_of(text: str) -> tuple[int, ...] | None:
    """The state with this ``repr``, if it is a tuple of whole numbers."""
    try:
        state = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return state if isinstance(state, tuple) and all(isinstance(part, int) for part in state) else None


# ------------------------------------------------------------------------------------------ Hanoi


def hanoi_picture(state: tuple[int, ...]) -> str:
    """Pegs and disks."""
    n, height = len(state), [0, 0, 0]
    thick = min(8.0, 42 / n)
    parts = ['<path class="wood" d="M2 55H118M20 55V8M60 55V8M100 55V8"/>']
    for disk in range(n - 1, -1, -1):
        peg = state[disk]
        height[peg] += 1
        width = 10 + 26 * (disk + 1) / n
        x, y = 20 + 40 * peg - width / 2, 54 - thick * height[peg]
        hue = round(205 + 150 * disk / max(n - 1, 1))
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{thick - 0.7:.1f}" rx="{thick / 3:.1f}" '
            f'fill="hsl({hue} 62% 55%)"/>'
        )
    return "".join(parts)


def hanoi_place(state: tuple[int, ...]) -> Point:
    """The state's point in the Sierpiński triangle, the graph of the game (Hinz et al., The Tower of Hanoi).

    The largest disk selects one of three triangles; inside it the other two pegs swap roles, so that states one move
    apart are neighbours.
    """
    corners = ((0.0, math.sqrt(0.75)), (0.5, 0.0), (1.0, math.sqrt(0.75)))
    x, y, roles = 0.0, 0.0, [0, 1, 2]
    for disk in range(len(state) - 1, -1, -1):
        peg = state[disk]
        share = 2**disk / (2 ** len(state) - 1)
        x, y = x + share * corners[roles[peg]][0], y + share * corners[roles[peg]][1]
        first, second = (p for p in range(3) if p != peg)
        roles[first], roles[second] = roles[second], roles[first]
    return x, y


def _hanoi_map(disks: int) -> tuple[tuple[Point, Point], ...]:
    """The edges of the map: triangles of states that differ in small disks, and moves of large ones between them."""
    game, large = Hanoi(disks), min(disks - 1, MAPPED)
    edges: list[tuple[Point, Point]] = []
    for rest in itertools.product(range(3), repeat=large):
        corners = [(peg,) * (disks - large) + rest for peg in range(3)]
        edges += [(hanoi_place(one), hanoi_place(other)) for one, other in itertools.combinations(corners, 2)]
        for peg, corner in enumerate(corners):
            following = game.move(corner, next(a for a, pair in enumerate(game.pegs) if peg not in pair))
            if corner < following:
                edges.append((hanoi_place(corner), hanoi_place(following)))
    return tuple(edges)


# ---------------------------------------------------------------------------------- Chinese rings


def rings_picture(state: tuple[int, ...]) -> str:
    """A bar with the rings on it, the others below; ring 0 is at the free end, on the right."""
    n = len(state)
    step = 104 / n
    radius = min(8.0, 0.42 * step)
    parts = ['<path class="wood" d="M2 20H116"/>']
    for ring, on in enumerate(state):
        x, y = 114 - step * (ring + 0.5), 20 if on else 44
        parts.append(f'<circle class="{"on" if on else "off"}" cx="{x:.1f}" cy="{y}" r="{radius:.1f}"/>')
    return "".join(parts)


# ------------------------------------------------------------------------------------------- grids


def grid_place(sides: list[int]) -> Callable[[tuple[int, ...]], Point]:
    """The point of a cell, with the start at the lower left."""
    longest = max(sides) - 1

    def place(state: tuple[int, ...]) -> Point:
        return state[0] / longest, (sides[1] - 1 - state[1]) / longest

    return place


def _grid_map(sides: list[int]) -> tuple[tuple[Point, Point], ...]:
    place, (across, up) = grid_place(sides), (side - 1 for side in sides)
    along = [(place((x, 0)), place((x, up))) for x in range(across + 1)]
    return (*along, *((place((0, y)), place((across, y))) for y in range(up + 1)))
