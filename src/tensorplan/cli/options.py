"""Options that several commands share, and checks of paths before the work begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def output_file(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """The path, if it can be written to; checked before the work begins."""
    from tensorplan.core.files import check_output

    if path is not None:
        check_output(path)
    return path


def picture_file(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """The path, if a figure can be written there."""
    if path is not None:
        from tensorplan.report.figures import check_picture

        check_picture(path)
    return path


def export_file(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """The path, if rows can be exported to it."""
    if path is not None:
        from tensorplan.sweeps.columns import check_export

        check_export(path)
    return path


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


seed = click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Random seed.")


budget = click.option("--budget", default=None, type=click.IntRange(min=0), help="Queries per episode.")


time_limit = click.option(
    "--time-limit", default=None, type=float, metavar="SECONDS", help="Planning of an episode ends after so long."
)


max_steps = click.option(
    "--max-steps",
    default=100_000,
    show_default=True,
    type=click.IntRange(min=1),
    help="Truncate episodes of problems without a horizon.",
)


kept = click.option(
    "--out", default=None, type=click.Path(file_okay=False), help="Folder for measurements, to resume from."
)


def engines(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options for where units of work run."""
    where = click.Choice(["local", "ray"])
    at_a_time = click.IntRange(min=1)
    for option in (
        click.option("--address", default=None, help="Address of a running Ray cluster."),
        click.option("--workers", default=None, type=at_a_time, help="Units at a time.  [default: processors]"),
        click.option("--engine", default="local", show_default=True, type=where, help="Where to run."),
    ):
        command = option(command)
    return command
