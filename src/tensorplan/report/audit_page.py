"""The page on an audit: the bracket as a picture, the sentence, and where the gap comes from.

Self-contained, without scripts; what comes from the audit is escaped (:mod:`tensorplan.report.markup`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from tensorplan.core.files import write_output
from tensorplan.evaluation.audit import RESTS_ON, Audit
from tensorplan.report import svg
from tensorplan.report.certificates import MEANINGS
from tensorplan.report.markup import Markup, join, tag
from tensorplan.report.pieces import Section, count, document, duration, sections, table, terms
from tensorplan.report.tables import number

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page's Content-Security-Policy: no scripts, no requests."""

LINE_HEIGHT = 96
"""Pixels of the picture of a bracket."""

MARGIN = 0.25
"""How far the close-up of a bracket reaches beyond it, relative to its width."""

FEW = 0.5
"""A bracket that covers less than this share of the range of returns is also drawn close up."""

SIDES = ("hindsight", "policy")


def write_audit_page(audit: Audit, path: str | Path) -> Path:
    """Write the page atomically; its path."""
    return write_output(Path(path), audit_page(audit))


def audit_page(audit: Audit) -> str:
    """The page as text."""
    title = f"Audit of {audit.policy} on {audit.problem}"
    parts = [_bracket(audit), *_blame(audit), _basis(audit)]
    return document(title, POLICY, tag("header", tag("h1", title)), tag("main", sections(parts)))


def _bracket(audit: Audit) -> Section:
    a = audit
    tiles = [
        ("lower", f"{a.lower:.5g}"),
        ("mean return", "–" if math.isnan(a.mean_return) else f"{a.mean_return:.5g}"),
        ("upper", f"{a.upper:.5g}"),
        ("loses at most", f"{a.gap:.4g}"),
        ("of the optimum", f"{100 * a.loss:.3g}%" if a.loss < 1 else "–"),
        ("confidence", f"{a.confidence:g}"),
        ("queries", f"{a.queries:,}"),
        ("time", duration(a.seconds)),
    ]
    low, high = a.return_range
    figures = [_figure(a, low, high, "The range of returns")]
    width = a.upper - a.lower
    if 0 < width < FEW * (high - low):
        figures.append(_figure(a, a.lower - MARGIN * width, a.upper + MARGIN * width, "Close up"))
    content = [
        tag("p", a.advice or f"{a.sentence[:1].upper()}{a.sentence[1:]}."),
        tag("div", *(tag("div", tag("b", value), tag("span", name)) for name, value in tiles), class_="tiles"),
        tag("div", *figures, class_="figures"),
    ]
    return "bracket", "The bracket", join(content)


def _figure(audit: Audit, low: float, high: float, caption: str) -> Markup:
    """The bracket on an axis: a band from lower to upper, and the mean return."""
    x, middle, axis = svg.Scale(low, high, svg.LEFT, svg.RIGHT), 34.0, 60
    lower, upper = x.place(audit.lower), x.place(audit.upper)
    shapes = [tag("path", class_="axis", d=f"M{svg.LEFT} {axis}H{svg.RIGHT}")]
    for at, label in x.ticks():
        shapes.append(tag("path", class_="axis", d=f"M{at:.1f} {axis}v5"))
        shapes.append(tag("text", label, x=f"{at:.1f}", y=axis + 20, text_anchor="middle"))
    ends = svg.whiskers([(lower, middle, upper, middle), *((at, middle - 9, at, middle + 9) for at in (lower, upper))])
    shapes.append(svg.group(0, f"lower {audit.lower:.5g}, upper {audit.upper:.5g}", ends))
    if math.isfinite(audit.mean_return):
        dot = svg.marker(x.place(audit.mean_return), middle, 1)
        shapes.append(svg.group(1, f"mean return {audit.mean_return:.5g}", dot))
    said = f"{caption}: lower {audit.lower:.5g}, upper {audit.upper:.5g}, mean return {audit.mean_return:.5g}"
    picture = tag("svg", *shapes, class_="plot", viewBox=f"0 0 {svg.WIDTH} {LINE_HEIGHT}", role="img", aria_label=said)
    note = "the bar is from lower to upper, the square is the mean return"
    return tag("figure", tag("h3", caption), picture, tag("figcaption", note))


def _blame(audit: Audit) -> Iterator[Section]:
    """Where the gap comes from, if scenarios were simulated."""
    if not audit.states and len(audit.stages) <= 1:
        return
    heads = ["state", "both", *SIDES]
    lines = [[state, *(number(x, 3) for x in (s.total, s.hindsight, s.policy))] for state, s in audit.states]
    note = (
        "Parts of the mean gap.  hindsight: along the best path in hindsight, where V is too low or the noise is "
        "lucky.  policy: along the policy's path, where its actions are worse than V promises, or V is too high."
    )
    bars = [_bars(audit)] if len(audit.stages) > 1 else []
    states = [table("States", heads, lines)] if lines else []
    content = [tag("p", note, class_="note"), tag("div", *bars, *states, class_="figures")]
    yield "blame", "Where the gap comes from", join(content)


def _bars(audit: Audit) -> Markup:
    """The shares of all stages, a bar for each side."""
    values = [0.0, *(x for share in audit.stages.values() for x in share)]
    low, high = min(values), max(values)
    margin = 0.05 * ((high - low) or 1.0)
    x = svg.Scale(min(audit.stages) - 0.7, max(audit.stages) + 0.7, svg.LEFT, svg.RIGHT, marks=tuple(audit.stages))
    y = svg.Scale(low - margin, high + margin, svg.BOTTOM, svg.TOP)
    half = 0.4 * (x.place(1) - x.place(0))
    series = []
    for side, name in enumerate(SIDES):
        bars = [
            _bar(x.place(s) - half * (1 - side), half, y.place(0), y.place(v[side])) for s, v in audit.stages.items()
        ]
        series.append(svg.group(side, name, *bars))
    said = f"the part of each of {count(len(audit.stages), 'stage')} in the mean gap"
    legend = [tag("span", svg.swatch(side), name, class_="name") for side, name in enumerate(SIDES)]
    caption = tag("figcaption", join([legend[0], " ", legend[1]]))
    return tag("figure", svg.plot(x, y, "stage", "part of the gap", series, said), caption)


def _bar(left: float, width: float, zero: float, end: float) -> Markup:
    return tag("path", class_="marker", d=f"M{left:.1f} {zero:.1f}h{width:.1f}V{end:.1f}h{-width:.1f}Z")


def _basis(audit: Audit) -> Section:
    a = audit
    told = {
        "rests on": RESTS_ON,
        "range of returns": f"[{a.return_range[0]:g}, {a.return_range[1]:g}]",
        "discount": f"{a.discount:g}",
        "scenarios": f"{a.scenarios:,} ({a.design})" if a.scenarios else "0",
        "episodes": a.episodes,
        "paths cut": a.cut,
        "ended by": f"{a.status}: {MEANINGS.get(a.status, 'the bracket is as narrow as requested')}",
    }
    note = "V, the guess of v*, makes the bracket narrow or wide; it cannot make it wrong."
    return "basis", "What this rests on", join([terms(told), tag("p", note, class_="note")])
