"""Parts of pages: assets, tables, lists of terms, and formatted numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from tensorplan.core.intervals import Interval
from tensorplan.report.markup import Markup, join, tag
from tensorplan.report.tables import number

Section = tuple[str, str, Markup]
"""The anchor, the heading and the content of a section."""


def asset(path: str) -> str:
    """The text of a file of this package."""
    return files("tensorplan.report").joinpath(path).read_text(encoding="utf-8")


def document(title: str, policy: str, *body: object) -> str:
    """A self-contained page with the style of reports and this Content-Security-Policy."""
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(asset("assets/report.css"))),
    ]
    return f"<!DOCTYPE html>\n{tag('html', tag('head', *head), tag('body', *body), lang='en')}\n"


def sections(parts: Iterable[Section]) -> Markup:
    """Sections, each with its heading."""
    return join(tag("section", tag("h2", name), content, id=anchor) for anchor, name, content in parts)


def table(name: str, heads: Sequence[str], lines: Iterable[Sequence[object]], left: Sequence[int] = (0,)) -> Markup:
    """A table whose first column has row headers; columns that are not ``left`` are numbers."""
    kinds = [None if at in left else "n" for at in range(len(heads))]
    head = [tag("th", text, scope="col", class_=kind) for text, kind in zip(heads, kinds, strict=True)]
    body = [
        tag(
            "tr",
            tag("th", line[0], scope="row"),
            *(tag("td", cell, class_=kind) for cell, kind in zip(line[1:], kinds[1:], strict=True)),
        )
        for line in lines
    ]
    grid = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))
    return tag("div", grid, class_="scroll", tabindex="0", role="region", aria_label=name)


def terms(told: Mapping[str, Any]) -> Markup:
    """A list of keys and values, with nested lists and mappings."""
    pairs = (join([tag("dt", key.replace("_", " ")), tag("dd", _value(value))]) for key, value in told.items())
    return tag("dl", *pairs)


def _value(value: Any) -> object:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {part}" for key, part in value.items())
    if isinstance(value, list) and all(isinstance(part, int) for part in value):
        return _ranges(value)
    if isinstance(value, list):
        return tag("ul", *(tag("li", _value(part)) for part in value))
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:,}" if isinstance(value, int | float) else value


def _ranges(values: Sequence[int]) -> str:
    """0 to 5 for 0, 1, 2, 3, 4, 5."""
    if len(values) > 2 and list(values) == list(range(values[0], values[0] + len(values))):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))


def interval(x: Interval | None) -> Markup:
    """The estimate, and its interval in small type, if any."""
    mean, _, rest = spelled(x).partition(" ")
    return join([mean, " ", tag("small", rest)] if rest else [mean])


def spelled(x: Interval | None) -> str:
    """``mean [low, high]``."""
    if x is None or math.isnan(x.mean):
        return "–"
    mean = number(x.mean, 3)
    return f"{mean} [{number(x.low, 3)}, {number(x.high, 3)}]" if math.isfinite(x.high) else mean


def number_or_dash(x: float | None) -> str:
    """The number with three digits, or a dash."""
    return "–" if x is None else number(x, 3)


def p_value(x: float | None) -> str:
    """The p-value with three decimals, or a dash."""
    return "–" if x is None else "< 0.001" if x < 0.001 else f"{x:.3f}"


def count(n: int, noun: str) -> str:
    """1 run, 2 runs."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def duration(seconds: float) -> str:
    """The duration in the largest unit of which there are at least two."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"
