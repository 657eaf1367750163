"""Steps that several commands share: configuring a planner, reporting progress."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from tensorplan.cli.terminal import DONE, FAILED, complain, console, interrupted

if TYPE_CHECKING:
    from tensorplan.hindsight.bracket import PolicyBounds
    from tensorplan.planners.tensorplan.trace import Iteration
    from tensorplan.sweeps.sweep import Progress


def configured(config: Any, delta: float | None, trace: bool, show: Callable[[str], None]) -> Any:
    """The planner with δ, a trace and progress reports, if it has these options."""
    from tensorplan.core.specs import options

    knows = options(config)
    changes: dict[str, Any] = {}
    if "delta" in knows and delta is not None:
        changes["delta"] = delta
    if trace:
        if "trace" not in knows:
            raise click.UsageError(f"{config!r} keeps no trace")
        changes["trace"] = True
    if "callback" in knows:
        changes["callback"] = _watcher(config, show)
    return dataclasses.replace(config, **changes) if changes else config


def limited(config: Any, time_limit: float | None) -> Any:
    """The planner with a time limit, if one is given."""
    from tensorplan.planners.config import takes_time_limit, with_time_limit

    if time_limit is not None and not takes_time_limit(config):
        raise click.UsageError(f"{config!r} takes no time limit, only planners with a certificate do")
    return with_time_limit(config, time_limit)


def _watcher(config: Any, show: Callable[[str], None]) -> Callable[..., None]:
    """A callback of the planner that shows its bracket."""
    from tensorplan.planners.hindsight.planner import Hindsight

    def bracket(lower: float, upper: float, queries: int) -> str:
        return f"upper {upper:.5g}, lower {lower:.5g}, gap {upper - lower:.3g}, {queries:,} queries"

    def tell(iteration: Iteration) -> None:
        show(f"iteration {iteration.number}, {bracket(iteration.lower, iteration.upper, iteration.queries)}")

    def tell_bounds(bounds: PolicyBounds, queries: int) -> None:
        show(bracket(bounds.lower, bounds.upper, queries))

    return tell_bounds if isinstance(config, Hindsight) else tell


def teller(show: Callable[..., None]) -> Callable[[Progress], None]:
    """A callback that shows the progress of an experiment, and its results so far."""
    from tensorplan.report.tables import so_far_table

    def tell(p: Progress) -> None:
        left = "" if p.remaining is None else f", {p.remaining:,.0f} s left"
        show(p.done, f"{p.rate:.2f} units/s{left}, {p.failures} failed", lambda: so_far_table(p.rows))

    return tell


def ended(stopped: str | None) -> int:
    """The exit code of an experiment that has finished or was stopped, after a message."""
    if stopped is None:
        return DONE
    return interrupted() if stopped == "interrupted" else complain(stopped, FAILED)


def show_missing(missing: Sequence[str]) -> None:
    """Print what Ctrl-C left unmeasured."""
    if missing:
        console().print(f"not measured: {'; '.join(missing)}", highlight=False, soft_wrap=True)


def say_why(notes: Sequence[str]) -> None:
    """Print why there is no regret; one note stands for all, since the instances of a family share the reason."""
    if notes:
        more = f" (and so for {len(notes) - 1:,} more instances)" if len(notes) > 1 else ""
        complain(f"there is no regret: {notes[0]}{more}", DONE)
