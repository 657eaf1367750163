"""Figures with matplotlib (the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from tensorplan.core.errors import BadInput, shown
from tensorplan.core.files import check_output, write_output
from tensorplan.game import Cost
from tensorplan.paper.hardness import Hardness
from tensorplan.paper.table1 import CostCurve, Table1
from tensorplan.paper.table1_rows import InstanceFamily

KINDS = ("png", "svg", "pdf", "jpg", "jpeg", "webp", "tif", "tiff", "eps", "ps", "svgz")
"""File suffixes: the formats that matplotlib writes without other programs."""


def check_picture(path: str) -> None:
    """Raise BadInput if no figure can be written to a file of that name."""
    if _kind(path) not in KINDS:
        raise BadInput(f"cannot draw to {shown(path)}: the name must end in one of {', '.join(KINDS)}")
    _pyplot()
    check_output(path)


def hardness_figure(hardness: Hardness, path: str) -> None:
    """Cost against p on a logarithmic scale: measured with intervals, 2^p/|W_close|, and the bounds."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for name in dict.fromkeys(c.strategy for c in hardness.costs):
        costs = [c for c in hardness.costs if c.strategy == name and c.found]
        sizes, means = [c.p for c in costs], [c.mean.mean for c in costs]
        below, above = [c.mean.mean - c.mean.low for c in costs], [c.mean.high - c.mean.mean for c in costs]
        axes.errorbar(sizes, means, yerr=[below, above], marker="o", capsize=3, label=f"{name}, measured")
    _bounds(axes, [c for c in hardness.costs if c.strategy == hardness.costs[0].strategy])
    axes.set(xlabel="p", ylabel="queries", yscale="log", title="Search in the abstract game")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    _save(figure, path, 150)


def table1_figure(table: Table1, path: str) -> None:
    """One panel per row: queries against size, the size on a logarithmic scale where growth is polynomial."""
    plt = _pyplot()
    across = min(5, len(table.rows))
    down = -(-len(table.rows) // across)
    figure, grid = plt.subplots(down, across, figsize=(3.3 * across, 3.2 * down), squeeze=False)
    for axes in grid.flat[len(table.rows) :]:
        axes.axis("off")
    for axes, result in zip(grid.flat, table.rows, strict=False):
        exponential = False
        for part in result.families:
            for curve in part.curves:
                _curve(axes, curve, part.family, decides=curve.player == result.best)
                grown = curve.growth
                exponential |= curve.player == result.best and grown is not None and grown.verdict == "exponential"
        row, marks = result.row, {True: "tractable", False: "intractable", None: "open"}
        sizes = sorted({a.size for part in result.families for curve in part.curves for a in curve.at})
        axes.set(yscale="log", xscale="linear" if exponential else "log")
        axes.set_xlabel(", ".join(dict.fromkeys(part.family.symbol for part in result.families)))
        if not exponential:
            axes.set_xticks(sizes, [str(size) for size in sizes], fontsize=7)
            axes.minorticks_off()
        axes.set_title(f"{row.number}. {row.members}, A: {row.actions}\n{marks[result.verdict]}", fontsize=9)
        if axes.get_legend_handles_labels()[0]:  # a row without measurements has none
            axes.legend(fontsize=6)
        axes.grid(alpha=0.3)
    for axes in grid[:, 0]:
        axes.set_ylabel("queries")
    figure.tight_layout()
    _save(figure, path, 130)


def _curve(axes: Any, curve: CostCurve, family: InstanceFamily, decides: bool) -> None:
    sizes, means = [a.size for a in curve.at], [a.queries.mean for a in curve.at]
    below = [max(0.0, a.queries.mean - max(a.queries.low, 0.3 * a.queries.mean)) for a in curve.at]
    above = [a.queries.high - a.queries.mean for a in curve.at]
    label = f"{curve.player}, {family.symbol}" + ("" if curve.sound else " (not sound)")
    axes.errorbar(
        sizes, means, yerr=[below, above], marker="o", ms=3, capsize=2, lw=1.5 if decides else 0.7, label=label
    )
    if decides and family.forced is not None:
        axes.plot(sizes, [family.forced(size) or None for size in sizes], "k--", lw=0.8, label="forced, by the theorem")


def _bounds(axes: Any, costs: Sequence[Cost]) -> None:
    sizes = [c.p for c in costs]
    axes.plot(sizes, [float(c.bound.guesses) for c in costs], "k:", label="$2^p/|W_{close}|$")
    axes.plot(sizes, [float(c.bound.sharp) or None for c in costs], "k--", label="forced, by the sharp count")
    axes.plot(sizes, [float(c.bound.forced) or None for c in costs], "k-", label="forced, by the theorem: 0.05 n")


def _save(figure: Any, path: str, dots: int) -> None:
    """Write the figure to its file and close it."""
    check_picture(path)
    drawn = BytesIO()
    figure.savefig(drawn, format=_kind(path), dpi=dots)
    _pyplot().close(figure)
    write_output(path, drawn.getvalue())


def _kind(path: str) -> str:
    return Path(path).suffix.lower().removeprefix(".")


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise BadInput("figures need matplotlib: install tensorplan[plot]") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
