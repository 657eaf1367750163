"""The pictures and pages that the documentation shows: drawn from runs of the planner, when the site is built."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import griffe
import numpy as np
from docstrings import markdown

import tensorplan as tp
from tensorplan.report.markup import Markup, tag
from tensorplan.report.sol_slice import Plane, convex_part, pieces
from tensorplan.report.svg import BOTTOM, LEFT, RIGHT, TOP, Scale, band, group, line, log_scale, marker, plot
from tensorplan.report.trace_page import sentence, trace_page

RADIUS, MIDDLE = 92.0, 100.0
"""Of the disc, in pixels."""


def walk() -> Markup:
    """TensorPlan on a grid of 5 x 5: in each iteration Sol with the θ that is chosen in it, and the walk of that θ."""
    problem = tp.make("grid/5x5")
    trace = tp.run(problem, tp.TensorPlan(trace=True)).episodes[0].trace
    thetas = [np.array(iteration.theta) for iteration in trace.iterations]
    plane = Plane.through(np.array(trace.objective), thetas[0], thetas[-1], trace.radius)
    rows, disjunctions, panels = list(trace.rows), list(trace.disjunctions), []
    for number, (iteration, theta) in enumerate(zip(trace.iterations, thetas, strict=True), 1):
        region = convex_part(plane, rows, trace.radius)
        sol = pieces(plane, region, disjunctions, trace.radius) if disjunctions else []
        promise = float(np.dot(trace.objective, theta))
        panels.append(
            tag(
                "div",
                _disc(plane, region, sol, plane.place(theta), plane.place(thetas[-1]), number),
                _board(iteration),
                tag("p", tag("b", f"θ{_sub(number)}"), f" promises {promise:.0f}".replace("-", "−")),
            )
        )
        rows += iteration.rows
        disjunctions += iteration.disjunctions
    return tag("figure", *panels, class_="discs")


def _disc(plane: Plane, region: Any, sol: Sequence[Any], theta: Any, last: Any, number: int) -> Markup:
    """What is left of the ball; up is φ(s0)."""

    def at(point: Any) -> tuple[float, float]:
        scale = RADIUS / plane.size
        return round(MIDDLE + scale * float(point[0]), 1), round(MIDDLE - scale * float(point[1]), 1)

    def outline(polygon: Any) -> str:
        return "M" + "L".join("{} {}".format(*at(point)) for point in polygon) + "Z"

    clip = f"ball{number}"
    inside = [tag("path", class_="region" if sol else "region sol", d=outline(region))]
    inside += [tag("path", class_="sol", d=outline(piece)) for piece in sol]
    (x, y), (u, v) = at(theta), at(last)
    return tag(
        "svg",
        tag("clipPath", tag("circle", cx=MIDDLE, cy=MIDDLE, r=RADIUS), id=clip),
        tag("circle", class_="ball", cx=MIDDLE, cy=MIDDLE, r=RADIUS),
        tag("g", *inside, clip_path=f"url(#{clip})"),
        tag("path", class_="height", d=f"M4 {y}H196"),
        tag("circle", class_="star", cx=u, cy=v, r=8),
        tag("circle", class_="theta", cx=x, cy=y, r=5),
        viewBox="0 0 200 200",
        role="img",
        aria_label=f"The parameters that are possible before iteration {number}, and the one that promises most",
    )


def _board(iteration: Any) -> Markup:
    """The states of a rollout; the goal is at the upper right."""

    def at(state: str) -> tuple[int, int]:
        x, y = map(int, re.findall(r"\d+", state))
        return 40 + 30 * x, 160 - 30 * y

    dots = [tag("circle", class_="cell", cx=40 + 30 * i, cy=40 + 30 * j, r=3) for i in range(5) for j in range(5)]
    way = [at(step.state) for step in iteration.path]
    way += [at(failure.state) for failure in iteration.failures] or [at("4, 4")]
    path = "M" + "L".join(f"{x} {y}" for x, y in way)
    end = "fails" if iteration.failures else "arrives"
    return tag(
        "svg",
        *dots,
        tag("circle", class_="goal", cx=160, cy=40, r=9),
        tag("path", class_="way", d=path),
        tag("circle", class_=end, cx=way[-1][0], cy=way[-1][1], r=7),
        viewBox="0 20 200 160",
        role="img",
        aria_label=f"The walk goes {len(way) - 1} steps and {end}",
    )


def _sub(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


@cache
def bracket() -> Markup:
    """Upper and lower bound on v*(s0) against the queries, in certified mode."""
    problem = tp.make("layered-stochastic/2x3")
    episode = tp.run(problem, tp.TensorPlan(delta=0.25, trace=True)).episodes[0]
    optimal = problem.optimal_value(episode.start)
    points = [(i.queries, i.upper, max(i.lower, 0.0)) for i in episode.trace.iterations]
    x = log_scale([queries for queries, _, _ in points], LEFT, RIGHT)
    y = Scale(0.0, 5.2, BOTTOM, TOP)
    upper = [(x.place(queries), y.place(high)) for queries, high, _ in points]
    lower = [(x.place(queries), y.place(low)) for queries, _, low in points]
    level = y.place(optimal)
    series = [
        tag("g", band(upper, lower), class_="s0"),
        tag("path", class_="exact", d=f"M{LEFT} {level:.1f}H{RIGHT}"),
        tag("text", f"v*(s₀) = {optimal:.3f}", x=LEFT + 8, y=f"{level + 18:.1f}"),
        group(0, "upper bound", line(upper, 0), *(marker(*point, 0) for point in upper)),
        group(2, "lower bound", line(lower, 0), *(marker(*point, 0) for point in lower)),
        tag("text", "upper: optimism", x=f"{upper[0][0] + 14:.1f}", y=f"{upper[0][1] + 5:.1f}", class_="s0"),
        tag("text", "lower: returns", x=f"{lower[-1][0]:.1f}", y=f"{lower[-1][1] + 32:.1f}", class_="s2 end"),
    ]
    words = f"The bounds on v*(s₀) close around {optimal:.3f} as queries are made"
    return tag("figure", plot(x, y, "queries", "", series, words), class_="wide")


def steps() -> Markup:
    """What happened, step by step, on Towers of Hanoi."""
    trace = tp.run(tp.make("hanoi/4"), tp.TensorPlan(trace=True)).episodes[0].trace
    return tag("ol", *(tag("li", sentence(trace, k, "move")) for k in range(len(trace.iterations))))


def names() -> str:
    """The public names, by the page that documents them: a table in Markdown."""
    package = griffe.load("tensorplan", search_paths=["src"])
    rows = ["| name | what it is |", "| --- | --- |"]
    for module, found in tp._WHERE.items():
        for name in found.split():
            item = package[f"{module}.{name}".removeprefix("tensorplan.")]
            item = item.final_target if item.is_alias else item
            about = item.docstring.value if item.docstring else type(getattr(tp, name)).__doc__ or ""
            about = about.split("\n\n")[0].replace("\n", " ")
            rows.append(f"| [`tp.{name}`][{module}.{name}] | {markdown(about, module).replace('|', '&#124;')} |")
    return "\n".join(rows)


def _page(spec: str, **options: Any) -> str:
    problem = tp.make(spec)
    (episode,) = tp.run(problem, tp.TensorPlan(trace=True, **options)).episodes
    return trace_page(problem.name, episode.trace, certificate=episode.certificate)


PICTURES = {"walk": walk, "bracket": bracket, "steps": steps, "names": names}
PAGES = {
    "traces/hanoi.html": lambda: _page("hanoi/4"),
    "traces/layered.html": lambda: _page("layered/3x2"),
    "traces/stochastic.html": lambda: _page("layered-stochastic/2x3", delta=0.5),
}
