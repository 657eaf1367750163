"""Sol in two dimensions: its intersection with a plane.

In a plane every row <g, θ> <= b of :mod:`tensorplan.planners.tensorplan.sol` is a half-plane and every temporal
difference l_a a line, so T1 and T2 leave a convex polygon and T3, some |l_a| <= tol, a union of strips; the ball
‖θ‖ <= B is a disc.  For d = 2 this is all of Sol.  Otherwise the plane contains two parameters and the direction φ(s0).

Constraints are widened by an invisible :data:`SLACK`, since parameters are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tensorplan.core import Array
from tensorplan.planners.tensorplan.trace import Disjunction

SLACK = 1e-7
"""How much constraints are widened, relative to 1 + B."""

MOST = 300
"""The most pieces before further disjunctions are ignored: the picture then contains Sol."""


@dataclass(frozen=True, eq=False)
class Plane:
    """The points origin + x across + y up, where up is the direction of φ(s0): the higher, the larger <φ(s0), θ>.

    ``origin`` is orthogonal to ``up``, so y = <up, θ>.  The ball is a disc in the plane, around (centre, 0).
    """

    origin: Array
    across: Array
    up: Array
    centre: float
    size: float

    @classmethod
    def through(cls, objective: Array, theta: Array, other: Array, radius: float) -> Plane:
        """The plane through two parameters along φ(s0); the only one for d = 2, and a degenerate one for d = 1."""
        d = len(objective)
        norm = float(np.linalg.norm(objective))
        up = objective / norm if norm > 0 else np.eye(d)[0]
        if d == 1:
            return cls(np.zeros(1), np.zeros(1), up, 0.0, radius)
        if d == 2:
            return cls(np.zeros(2), np.array([up[1], -up[0]]), up, 0.0, radius)
        across = theta - other
        across = across - (across @ up) * up
        if np.linalg.norm(across) <= SLACK * (1 + radius):  # they differ along φ(s0) only: any direction will do
            across = np.eye(d)[int(np.argmin(np.abs(up)))]
            across = across - (across @ up) * up
        across = across / np.linalg.norm(across)
        origin = other - (other @ up) * up
        centre = -float(origin @ across)
        size = math.sqrt(max(radius**2 - float(origin @ origin) + centre**2, 0.0))
        return cls(origin, across, up, centre, size)

    def place(self, theta: Array) -> tuple[float, float]:
        """(x, y) of the projection of a parameter on the plane."""
        return float((theta - self.origin) @ self.across), float(theta @ self.up)

    def lift(self, x: float, y: float) -> Array:
        """The parameter at (x, y)."""
        return np.asarray(self.origin + x * self.across + y * self.up)

    def lines(self, normals: Array, offsets: Array) -> Array:
        """<g, θ> + o for every normal, (m, d), and offset, (m,), as α x + β y + γ: (m, 3)."""
        normals = normals.reshape(-1, len(self.up))
        return np.column_stack([normals @ self.across, normals @ self.up, normals @ self.origin + offsets])

    def square(self) -> Array:
        """The square around the disc, (4, 2)."""
        x, r = self.centre, self.size
        return np.array([[x - r, -r], [x + r, -r], [x + r, r], [x - r, r]])

    def meets_disc(self, polygon: Array) -> bool:
        """Whether a convex polygon has a point in the disc."""
        points = polygon - [self.centre, 0.0]
        steps = np.roll(points, -1, axis=0) - points
        turns = points[:, 0] * steps[:, 1] - points[:, 1] * steps[:, 0]  # on which side of each edge the centre is
        if len(points) > 2 and (turns >= 0).all() and turns.max() > 0:
            return True
        lengths = np.einsum("ij,ij->i", steps, steps)
        t = -np.einsum("ij,ij->i", points, steps) / np.where(lengths > 0, lengths, 1.0)
        nearest = points + np.clip(t, 0.0, 1.0)[:, None] * steps
        return bool(np.linalg.norm(nearest, axis=1).min() <= self.size * (1 + SLACK))


def convex_part(plane: Plane, rows: Sequence[Sequence[float]], radius: float) -> Array:
    """The part of the square around the disc that satisfies the rows: a convex polygon, (n, 2), counterclockwise."""
    if not len(rows):
        return plane.square()
    table = np.array(rows, dtype=np.float64)
    lines = plane.lines(table[:, :-1], -table[:, -1])
    lines[:, 2] -= SLACK * (1 + radius)
    return _cut(plane.square(), lines)


def strips(plane: Plane, polygon: Array, disjunction: Disjunction, radius: float) -> list[Array]:
    """The parts of a convex polygon that satisfy each alternative |l_a| <= tol."""
    tol, deltas = disjunction
    table = np.array(deltas, dtype=np.float64)
    lines = plane.lines(table[:, 1:], table[:, 0])
    width = np.array([0.0, 0.0, tol + SLACK * (1 + radius)])
    left = (_cut(polygon, np.array([line - width, -line - width])) for line in lines)
    return [piece for piece in left if len(piece)]


def pieces(plane: Plane, polygon: Array, disjunctions: Iterable[Disjunction], radius: float) -> list[Array]:
    """Sol in the plane as a union of convex polygons, by disjunctions in increasing order of tolerance."""
    found = [polygon] if len(polygon) and plane.meets_disc(polygon) else []
    for disjunction in sorted(disjunctions, key=lambda pair: pair[0]):
        found = _distinct(
            piece
            for old in found
            for piece in strips(plane, old, disjunction, radius)
            if plane.meets_disc(piece)  # polygons are clipped to the square, not to the disc
        )
        if len(found) > MOST:
            break
    return found


def _cut(polygon: Array, lines: Array) -> Array:
    """The part of a convex polygon where all α x + β y + γ <= 0; the line that cuts deepest goes first."""
    scale = np.hypot(lines[:, 0], lines[:, 1])
    scale = np.where(scale > 0, scale, 1.0)
    while len(polygon):
        outside = ((polygon @ lines[:, :2].T + lines[:, 2]) / scale).max(axis=0)
        deepest = int(np.argmax(outside))
        if not outside[deepest] > 0:
            break
        polygon = _clip(polygon, lines[deepest])
        lines, scale = np.delete(lines, deepest, axis=0), np.delete(scale, deepest)
        if not len(lines):
            break
    return polygon


def _clip(polygon: Array, line: Array) -> Array:
    """One step of Sutherland and Hodgman (1974)."""
    values = polygon @ line[:2] + line[2]
    kept: list[Array] = []
    for i, (point, value) in enumerate(zip(polygon, values, strict=True)):
        before, last = polygon[i - 1], values[i - 1]
        if (last <= 0) != (value <= 0):
            kept.append(before + (point - before) * (last / (last - value)))
        if value <= 0:
            kept.append(point)
    return np.array(kept).reshape(-1, 2)


def _distinct(polygons: Iterable[Array]) -> list[Array]:
    """The polygons that are not inside another one."""
    kept: list[Array] = []
    for polygon in polygons:
        if any(_inside(polygon, other) for other in kept):
            continue
        kept = [other for other in kept if not _inside(other, polygon)]
        kept.append(polygon)
    return kept


def _inside(polygon: Array, other: Array) -> bool:
    steps = np.roll(other, -1, axis=0) - other
    across = polygon[:, None, :] - other
    turns = steps[:, 0] * across[..., 1] - steps[:, 1] * across[..., 0]
    lengths = np.hypot(steps[:, 0], steps[:, 1])
    room = 1e-9 * (1 + np.abs(other).max())
    low, high = other.min(axis=0) - room, other.max(axis=0) + room
    boxed = ((polygon >= low) & (polygon <= high)).all()
    return bool(boxed and (turns >= -room * lengths).all())
