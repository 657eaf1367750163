"""A page that steps through a run of TensorPlan: states, bounds, queries, and Sol with the optimistic θ in it.

The page is self-contained, and its script inserts all data as text.
"""

from __future__ import annotations

import html
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from tensorplan.core import Array, Certificate
from tensorplan.core.errors import BadInput
from tensorplan.core.files import write_output
from tensorplan.planners.tensorplan.trace import Disjunction, Failure, Iteration, Trace
from tensorplan.report.certificates import certificate_lines
from tensorplan.report.markup import Markup, tag
from tensorplan.report.pieces import asset, count
from tensorplan.report.sol_slice import Plane, convex_part, pieces, strips
from tensorplan.report.trace_pictures import Pictures, pictures_of, state_of

FILM = 256
"""The most states drawn in one step; of longer paths every second, third, .. one is."""

STRIPS = 60
"""The most alternatives of new disjunctions drawn in one step."""

CLOSED = 1e-6
"""The gap, relative to 1 + B and to the length of the path, at which bounds meet."""

LABEL = 48
"""The most characters of a state."""


def write_trace_page(
    problem: str,
    trace: Trace,
    path: str | Path,
    *,
    certificate: Certificate | None = None,
    pictures: Pictures | None = None,
) -> Path:
    """Write the page of a recorded run, with its certificate; its path.

    ``pictures`` draw the states of the problem; puzzles of the catalog have their own, and other problems are drawn as
    a graph of the visited states, stage by stage.
    """
    return write_output(path, trace_page(problem, trace, certificate=certificate, pictures=pictures))


def trace_page(
    problem: str, trace: Trace, *, certificate: Certificate | None = None, pictures: Pictures | None = None
) -> str:
    """The page as text."""
    if not trace.iterations:
        raise BadInput(f"the trace of problem {problem!r} holds no iteration: there is nothing to show")
    data = json.dumps(_data(trace, pictures or pictures_of(problem) or Pictures(move="step")), allow_nan=False)
    parts = {
        "title": html.escape(f"TensorPlan on {problem}"),
        "claim": "" if certificate is None else _claim(certificate),
        "style": asset("trace_assets/trace.css"),
        "script": asset("trace_assets/trace.js"),
        "data": data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
    }
    before, *rest = asset("trace_assets/trace.html").split("{{")
    return before + "".join(parts[name] + text for name, text in (part.split("}}", 1) for part in rest))


def _claim(certificate: Certificate) -> Markup:
    """The section on the certificate."""
    lines = (tag("p", line) for line in certificate_lines([certificate]))
    return tag("section", tag("h2", "Certificate"), *lines, id="claim")


def _data(trace: Trace, pictures: Pictures) -> dict[str, Any]:
    """The data for the script."""
    chart = _Chart(trace, pictures)
    slices = _slices(trace)
    steps, before = [], 0
    for k, (now, cut) in enumerate(zip(trace.iterations, slices, strict=True)):
        steps.append(
            {
                "sentence": sentence(trace, k, pictures.move),
                "theta": [_short(x) for x in now.theta],
                "upper": _finite(now.upper),
                "lower": _finite(now.lower),
                "queries": now.queries,
                "asked": now.queries - before,
                "rows": len(now.rows),
                "disjunctions": len(now.disjunctions),
                **chart.steps[k],
                "slice": cut,
            }
        )
        before = now.queries
    return {
        "mode": trace.mode,
        "dimension": len(trace.objective),
        "move": pictures.move,
        "chart": chart.layout(),
        "sol": _caption(len(trace.objective), trace.mode),
        "steps": steps,
    }


# --------------------------------------------------------------------------------------- sentences


def sentence(trace: Trace, step: int, move: str = "step") -> str:
    """A sentence on one iteration."""
    now = trace.iterations[step]
    promise = f"θ promises {_number(float(np.dot(trace.objective, now.theta)))}"
    if trace.mode == "certified":
        return promise + _certified(now)
    staged = any(s.stage for i in trace.iterations for s in i.path)
    paper = trace.mode == "paper"
    if now.failures:
        failure = now.failures[0]
        n = len(now.path)
        kept = f" and is consistent for {count(n, move)}; " if n else "; but "
        where = f"at stage {failure.stage} " if staged and n else "then " if n else "already at the start "
        what = "misses" if paper else "falls short"
        learned = "its temporal differences are recorded" if paper else "the state is recorded"
        return (
            f"{promise}{kept}{where}no action is consistent (the best {what} by {_number(failure.violation)}): "
            f"{learned}, which excludes this θ."
        )
    if paper:
        return f"{promise}, and the rollouts are clean: no state fails the test, and this θ acts."
    path = f"a path of {count(len(now.path), move)}"
    if abs(now.gap) <= CLOSED * (1 + trace.radius) * (1 + len(now.path)):
        return f"{promise}, and {path} earns it: the bounds meet, and the path is optimal."
    return f"{promise}, and {path} is consistent, but the bounds are {_number(now.gap)} apart: it earns less."


def _certified(now: Iteration) -> str:
    bounds = (
        f"the bounds on v* are {_number(now.gap)} apart" if math.isfinite(now.gap) else "there is no lower bound yet"
    )
    if not now.failures:
        return f", and no visited state is measured; {bounds}."
    stages = sorted({failure.stage for failure in now.failures})
    where = f"stage{'s' if len(stages) > 1 else ''} {_list(stages)}"
    worst = max(failure.violation for failure in now.failures)
    return (
        f"; episodes of its policy meet {count(len(now.failures), 'state')} ({where}) where every action falls short, "
        f"by up to {_number(worst)}: once measured, {'they exclude' if len(now.failures) > 1 else 'it excludes'}"
        " this θ."
    )


def _caption(d: int, mode: str) -> str:
    if d == 1:
        which = "d = 1: Sol is part of a line, from bottom to top, drawn as wide as a disc."
    elif d == 2:
        which = "d = 2: this is all of Sol, as it was when θ was chosen."
    else:
        which = f"A slice of Sol (d = {d}): the plane through this θ and the last one, along φ(s₀)."
    product = (
        " Strips |l| ≤ c^(1/A) stand for the product form of the paper, and contain it." if mode == "paper" else ""
    )
    return f"{which} Up is φ(s₀): the higher a point, the more it promises.{product}"


def _list(items: Sequence[Any]) -> str:
    texts = [str(item) for item in items]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]


def _number(x: float) -> str:
    return f"{x:.4g}".replace("-", "−") if abs(x) > 5e-10 else "0"


def _short(x: float) -> float:
    """The number with four decimals, or four significant digits."""
    return round(x, 4) if abs(x) >= 0.1 else float(f"{x:.4g}") if abs(x) > 5e-10 else 0.0


def _finite(x: float) -> float | None:
    return float(f"{x + 0.0:.8g}") if math.isfinite(x) else None


# -------------------------------------------------------------------------------- states on a map


@dataclass
class _Spot:
    """The dot of a state, in a column if there is no map."""

    number: int
    column: int
    text: str
    state: tuple[int, ...] | None
    before: set[int] = field(default_factory=set)
    x: float = 0.0
    y: float = 0.0


class _Chart:
    """The positions of all states: on the map of a puzzle, or in columns by stage or number of steps."""

    def __init__(self, trace: Trace, pictures: Pictures) -> None:
        self.pictures = pictures
        stages = [[s.stage for s in i.path] + [f.stage for f in i.failures] for i in trace.iterations]
        self.staged = any(map(any, stages))
        self.spots: dict[tuple[int, str], _Spot] = {}
        self.films: dict[int, str] = {}
        self.steps = [self._step(trace, now) for now in trace.iterations]
        self.mapped = pictures.place is not None and all(spot.state is not None for spot in self.spots.values())
        if self.mapped:
            self._by_place()
        else:
            self._by_column()

    def _step(self, trace: Trace, now: Iteration) -> dict[str, Any]:
        path = [self._spot(k if not self.staged else step.stage, step.state) for k, step in enumerate(now.path)]
        failed = [(self._failed(now, failure), failure) for failure in now.failures]
        way = list(path)
        if trace.mode != "certified":
            way += [spot for spot, _ in failed[:1]]
        ended = bool(path) and (trace.mode == "certified" or not failed) and now.lower > -math.inf
        for one, other in itertools.pairwise(way):
            other.before.add(one.number)
        return {
            "path": [spot.number for spot in path],
            "actions": [step.action for step in now.path],
            "failures": [[spot.number, _short(failure.violation)] for spot, failure in failed],
            "walked": trace.mode != "certified" and bool(failed),
            "ended": ended,
            "film": self._film(way, ended),
        }

    def _spot(self, column: int, text: str) -> _Spot:
        state = state_of(text) if self.pictures.place or self.pictures.picture else None
        key = (0 if self.pictures.place and state is not None else column, text)
        if key not in self.spots:
            self.spots[key] = _Spot(len(self.spots), column, text, state)
        return self.spots[key]

    def _failed(self, now: Iteration, failure: Failure) -> _Spot:
        if self.staged:
            return self._spot(failure.stage, failure.state)
        met = [k for k, step in enumerate(now.path) if step.state == failure.state]
        return self._spot(met[0] if met else len(now.path), failure.state)

    def _film(self, way: list[_Spot], ended: bool) -> list[list[int]]:
        """[number of moves, spot] of the states that are drawn; the goal is spot -1."""
        draw = self.pictures.picture
        if draw is None or any(spot.state is None for spot in way):
            return []
        every = max(1, math.ceil(len(way) / FILM))
        chosen = sorted({*range(0, len(way), every), len(way) - 1} - {-1})
        for k in chosen:
            if way[k].number not in self.films:
                self.films[way[k].number] = draw(way[k].state)
        film = [[k, way[k].number] for k in chosen]
        if ended and self.pictures.goal is not None:
            self.films[-1] = draw(self.pictures.goal)
            film.append([len(way), -1])
        return film

    def _by_place(self) -> None:
        assert self.pictures.place is not None
        for spot in self.spots.values():
            spot.x, spot.y = self.pictures.place(spot.state)

    def _by_column(self) -> None:
        """Columns from left to right; a state is about as high as its predecessors."""
        columns: dict[int, list[_Spot]] = {}
        for spot in self.spots.values():
            columns.setdefault(spot.column, []).append(spot)
        heights: dict[int, float] = {}
        most = max(map(len, columns.values()), default=1)
        for c in sorted(columns):
            column = columns[c]
            wish = {s.number: fmean([heights[b] for b in s.before if b in heights] or [0.5]) for s in column}
            column.sort(key=lambda spot: (wish[spot.number], spot.number))
            for i, spot in enumerate(column):
                spot.x = float(spot.column)
                spot.y = heights[spot.number] = (i + 0.5) / len(column) if most > 1 else 0.5

    def layout(self) -> dict[str, Any]:
        ordered = sorted(self.spots.values(), key=lambda spot: spot.number)
        return {
            "kind": "map" if self.mapped else "staged" if self.staged else "steps",
            "spots": [[round(s.x, 4), round(s.y, 4), _clip_text(s.text)] for s in ordered],
            "backdrop": [[round(v, 4) for point in edge for v in point] for edge in self.pictures.backdrop]
            if self.mapped
            else [],
            "goal": self._goal(),
            "pictures": {str(number): svg for number, svg in sorted(self.films.items())},
        }

    def _goal(self) -> list[float] | None:
        place, goal = self.pictures.place, self.pictures.goal
        return [round(v, 4) for v in place(goal)] if self.mapped and place is not None and goal is not None else None


def _clip_text(text: str) -> str:
    return text if len(text) <= LABEL else text[: LABEL - 1] + "…"


# -------------------------------------------------------------------------------------------- Sol


def _slices(trace: Trace) -> list[dict[str, Any]]:
    """Sol in the plane of every iteration when its θ was chosen, and the constraints that the iteration added."""
    rows, disjunctions = list(trace.rows), list(trace.disjunctions)
    thetas = [np.array(i.theta) for i in trace.iterations]
    drawn = []
    for k, now in enumerate(trace.iterations):
        early = _ranges(now) if trace.mode == "certified" else 0
        rows += now.rows[:early]
        plane = Plane.through(np.array(trace.objective), thetas[k], _other(thetas, k), trace.radius)
        drawn.append(_slice(trace, plane, thetas, k, rows, disjunctions, now.rows[early:]))
        rows += now.rows[early:]
        disjunctions += now.disjunctions
    return drawn


def _ranges(now: Iteration) -> int:
    """How many rows were added before θ was chosen: value ranges, which come as pairs <φ, θ> <= b, <-φ, θ> <= -a."""
    n = 0
    while n + 1 < len(now.rows) and np.array_equal(now.rows[n][:-1], -np.array(now.rows[n + 1][:-1])):
        n += 2
    return n


def _other(thetas: list[Array], k: int) -> Array:
    """The last θ; for the last one itself, the latest that differs from it."""
    for other in (thetas[-1], *reversed(thetas[:k])):
        if np.linalg.norm(other - thetas[k]) > 1e-6 * (1 + np.linalg.norm(other)):
            return other
    return thetas[-1]


def _slice(
    trace: Trace,
    plane: Plane,
    thetas: list[Array],
    k: int,
    rows: list[tuple[float, ...]],
    disjunctions: list[Disjunction],
    new_rows: Sequence[tuple[float, ...]],
) -> dict[str, Any]:
    now, radius = trace.iterations[k], trace.radius
    region = convex_part(plane, rows, radius)
    left = convex_part(plane, [*rows, *new_rows], radius)
    known = [_strip(pair, trace.mode) for pair in disjunctions]
    new = [_strip(pair, trace.mode) for pair in now.disjunctions]
    cuts = [piece for pair in new for piece in strips(plane, region, pair, radius) if plane.meets_disc(piece)]
    scale = float(np.linalg.norm(trace.objective)) or 1.0
    height = {"upper": now.upper / scale / plane.size, "lower": now.lower / scale / plane.size}
    trail = thetas[:k] if len(trace.objective) == 2 else []
    return {
        "region": _outline(plane, region),
        "left": _outline(plane, left),
        "sol": [_outline(plane, piece) for piece in pieces(plane, region, known, radius)] if disjunctions else None,
        "cuts": [_outline(plane, piece) for piece in cuts[:STRIPS]],
        "theta": _point(plane, plane.place(thetas[k])),
        "last": _point(plane, plane.place(thetas[-1])),
        "trail": [_point(plane, plane.place(theta)) for theta in trail],
        **{name: round(y, 4) if abs(y) <= 1.2 else None for name, y in height.items()},
    }


def _strip(disjunction: Disjunction, mode: str) -> Disjunction:
    """|Π_a l_a| <= c implies some |l_a| <= c^(1/A), so strips of that width contain the product form."""
    tol, deltas = disjunction
    return (tol ** (1 / len(deltas)), deltas) if mode == "paper" else disjunction


def _outline(plane: Plane, polygon: Array) -> list[list[float]]:
    """Corners in units of the disc, without repetitions."""
    kept: list[list[float]] = []
    for corner in polygon:
        point = _point(plane, (float(corner[0]), float(corner[1])))
        if not kept or point != kept[-1]:
            kept.append(point)
    return kept


def _point(plane: Plane, place: Iterable[float]) -> list[float]:
    x, y = place
    size = plane.size or 1.0
    return [round((x - plane.centre) / size, 4) + 0.0, round(y / size, 4) + 0.0]
