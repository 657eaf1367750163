"""Terminal tables that fit 80 columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.table import Table

from tensorplan.core import Problem, Run
from tensorplan.intervals import Interval
from tensorplan.lab.compare import Comparison
from tensorplan.problems.catalog import Entry


def _table(title: str, left: Sequence[str], right: Sequence[str], note: str | None = None) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0), caption=note)
    table.caption_justify = "left"
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def number(x: float, digits: int = 4) -> str:
    """A few digits, thousands apart, no exponent for what people count."""
    if not math.isfinite(x):
        return "-"
    if abs(x) < 5e-10:
        return "0"
    if abs(x) >= 10 ** (digits - 1) or float(x).is_integer():
        return f"{float(f'{x:.{digits}g}') if abs(x) >= 1e9 else round(x):,.0f}"
    return f"{x:.{digits}g}"


def with_interval(x: Interval | None) -> str:
    """``mean ± radius``; a dash where there is nothing to show."""
    if x is None or math.isnan(x.mean):
        return "-"
    return number(x.mean, 3) + (f" ± {number(x.high - x.mean, 2)}" if math.isfinite(x.high) else "")


def seconds(x: float) -> str:
    """Hundredths are enough."""
    return "<0.01" if x < 0.01 else f"{x:.2f}" if x < 100 else f"{x:,.0f}"


def problems_table(catalog: Mapping[str, Entry]) -> Table:
    """The catalog."""
    table = _table("Problems", ["name", "what it is"], [])
    for entry in catalog.values():
        table.add_row(entry.example, entry.about)
    return table


def planners_table(planners: Iterable[tuple[str, Mapping[str, object], str]]) -> Table:
    """The planners, with their parameters and defaults."""
    table = _table("Planners", ["name", "parameters", "what it is"], [])
    for name, options, about in planners:
        table.add_row(name, "\n".join(f"{k}={v}" for k, v in options.items()), about)
    return table


def run_table(problem: Problem, run: Run, optimal: Sequence[float | None]) -> Table:
    """One line per episode."""
    right = ["steps", "return", "v*", "regret", "queries", "worst call", "seconds", "ended by"]
    table = _table(f"{problem.name}, {run.planner}", ["#"], right)
    for number_, (episode, best) in enumerate(zip(run.episodes, optimal, strict=True)):
        table.add_row(
            str(number_),
            f"{episode.steps:,}",
            number(episode.total_reward),
            "-" if best is None else number(best),
            "-" if best is None else number(best - episode.total_reward),
            f"{episode.total_queries:,}",
            f"{max(episode.queries, default=0):,}",
            seconds(episode.seconds),
            episode.stopped,
        )
    return table


def comparison_table(comparison: Comparison) -> Table:
    """One line per planner, best regret first."""
    seeds = len({row.seed for row in comparison.rows})
    table = _table(
        f"{comparison.problem}, {seeds} seed{'s' * (seeds != 1)}",
        ["planner"],
        ["regret", "return", "queries", "worst", "secs", "ended"],
        "mean per episode ± half-width of the 95% t interval; worst: largest call",
    )
    summaries = comparison.summaries
    table.columns[0].min_width = min(20, max(len(s.planner) for s in summaries))
    if any(s.ended < s.runs for s in summaries):
        table.caption = f"{table.caption};\nepisodes that did not end count with what they had earned"
    for s in sorted(summaries, key=lambda s: math.inf if s.regret is None else s.regret.mean):
        table.add_row(
            s.planner,
            with_interval(s.regret),
            with_interval(s.total_reward),
            with_interval(s.queries),
            f"{s.worst_call:,}",
            seconds(s.seconds),
            f"{s.ended}/{s.runs}",
        )
    return table
