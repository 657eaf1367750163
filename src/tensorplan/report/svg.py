"""Small plots as SVG: two scales, a frame, and series.

Series i has the class ``s{i % COLOURS}`` and draws in ``currentColor``, which the page's style sheet sets; its dashes
and its marker distinguish it without colours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensorplan.report.markup import Markup, join, tag
from tensorplan.report.tables import number

WIDTH, HEIGHT = 520, 350
LEFT, RIGHT, TOP, BOTTOM = 66, 504, 14, 296
COLOURS = 8
DASHES = (None, "7 3", "2 3", "9 3 2 3")
FLOOR = 26
"""Pixels between the end of a logarithmic scale and the tick for values <= 0."""


@dataclass(frozen=True)
class Scale:
    """An axis from pixel ``start`` to pixel ``end``."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    floor: str | None = None
    """The label of a separate tick before a logarithmic scale, for values <= 0."""
    marks: tuple[float, ...] | None = None
    """The ticks, if given."""

    def place(self, value: float) -> float:
        """The pixel of a value, clipped to the ends of the axis."""
        if self.log:
            begin = self.start + math.copysign(FLOOR, self.end - self.start) if self.floor is not None else self.start
            if value <= 0:
                return self.start
            share = math.log(min(max(value, self.low), self.high) / self.low) / math.log(self.high / self.low)
            return begin + share * (self.end - begin)
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """(pixel, label) of some round values."""
        if self.marks is not None:
            values = list(self.marks[:: -(-len(self.marks) // 8)])
        else:
            values = _decades(self.low, self.high) if self.log else _steps(self.low, self.high)
        zero = [] if self.floor is None else [(self.start, self.floor)]
        return zero + [(self.place(value), _label(value)) for value in values]


def log_scale(values: Iterable[float], start: float, end: float, marks: Iterable[float] | None = None) -> Scale:
    """A logarithmic scale that contains the values, with a floor if some are not positive."""
    values = [value for value in values if math.isfinite(value)]
    positive = [value for value in values if value > 0] or [1.0]
    low, high = min(positive), max(positive)
    margin = max((high / low) ** 0.04, 1.15)
    ticks = None if marks is None else tuple(sorted(set(marks)))
    least = min(values, default=1.0)
    floor = None if least > 0 else "0" if least == 0 else "≤ 0"
    return Scale(low / margin, high * margin, start, end, True, floor, ticks)


def _decades(low: float, high: float) -> list[float]:
    if high < 6 * low:
        return _steps(low, high)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if high < 300 * low else (1,)
    every = max(1, -(-(last - first) // 6))
    values = [m * 10.0**e for e in range(first, last + 1, every) for m in steps]
    return [value for value in values if low <= value <= high]


def _steps(low: float, high: float) -> list[float]:
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _label(value: float) -> str:
    if value and not 1e-3 <= abs(value) < 1e5:
        mantissa, exponent = f"{value:.0e}".split("e")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{power}" if mantissa == "1" else f"{mantissa}·10{power}"
    return number(value, 3)


# ----------------------------------------------------------------------------------------- shapes


def plot(x: Scale, y: Scale, x_label: str, y_label: str, series: Iterable[Markup], describe: str) -> Markup:
    """The plot: grid, ticks, labels and the series on top; ``describe`` is its text for screen readers."""
    frame = []
    for at, label in x.ticks():
        frame.append(tag("line", class_="grid", x1=_px(at), x2=_px(at), y1=TOP, y2=BOTTOM))
        frame.append(tag("text", label, x=_px(at), y=BOTTOM + 20, text_anchor="middle"))
    for at, label in y.ticks():
        frame.append(tag("line", class_="grid", x1=LEFT, x2=RIGHT, y1=_px(at), y2=_px(at)))
        frame.append(tag("text", label, x=LEFT - 7, y=_px(at + 4), text_anchor="end"))
    frame.append(tag("path", class_="axis", d=f"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}"))
    middle = (TOP + BOTTOM) / 2
    frame.append(tag("text", x_label, class_="label", x=(LEFT + RIGHT) / 2, y=HEIGHT - 12, text_anchor="middle"))
    turn = f"rotate(-90 14 {middle})"
    frame.append(tag("text", y_label, class_="label", x=14, y=middle, text_anchor="middle", transform=turn))
    return tag(
        "svg",
        *frame,
        *series,
        class_="plot",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=describe,
        preserveAspectRatio="xMidYMid meet",
    )


def group(index: int, name: str, *shapes: Markup) -> Markup:
    """The shapes of one series; hovering shows its name."""
    return tag("g", tag("title", name), *shapes, class_=f"s{index % COLOURS}", data_series=index)


def line(points: Sequence[tuple[float, float]], index: int) -> Markup:
    """A line through pixels."""
    return tag("path", class_="line", d=_path(points), stroke_dasharray=DASHES[index % len(DASHES)])


def band(points: Sequence[tuple[float, float]], back: Sequence[tuple[float, float]]) -> Markup:
    """The area between two lines."""
    return tag("path", class_="band", d=_path([*points, *reversed(back)]) + "Z")


def dots(points: Iterable[tuple[float, float]]) -> Markup:
    """Many small dots, as one path."""
    return tag("path", class_="dots", d="".join(f"M{_px(x)} {_px(y)}h0" for x, y in points))


def whiskers(ends: Iterable[tuple[float, float, float, float]]) -> Markup:
    """Interval bars, from (x, y) to (x, y)."""
    return tag("path", class_="whisker", d="".join(f"M{_px(a)} {_px(b)}L{_px(c)} {_px(d)}" for a, b, c, d in ends))


def marker(x: float, y: float, index: int, title: str | None = None) -> Markup:
    """The marker of a series: circle, square, triangle, diamond, cross."""
    r = 5
    shapes = (
        f"M{_px(x - r)} {_px(y)}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0Z",
        f"M{_px(x - r)} {_px(y - r)}h{2 * r}v{2 * r}h{-2 * r}Z",
        f"M{_px(x)} {_px(y - r - 1)}l{r + 1} {2 * r}h{-2 * r - 2}Z",
        f"M{_px(x)} {_px(y - r - 1)}l{r + 1} {r + 1}l{-r - 1} {r + 1}l{-r - 1} {-r - 1}Z",
        f"M{_px(x - r)} {_px(y - 2)}h3v-3h4v3h3v4h-3v3h-4v-3h-3Z",
    )
    content = [] if title is None else [tag("title", title)]
    return tag("path", *content, class_="marker", d=shapes[index % len(shapes)])


def swatch(index: int) -> Markup:
    """A piece of the line and the marker of a series, for the legend."""
    shapes = join([line([(1, 8), (31, 8)], index), marker(16, 8, index)])
    return tag(
        "svg", tag("g", shapes, class_=f"s{index % COLOURS}"), viewBox="0 0 32 16", class_="swatch", aria_hidden="true"
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_px(x)} {_px(y)}" for x, y in points)


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
