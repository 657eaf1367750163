"""``tensorplan table1``."""

from __future__ import annotations

from typing import Any

import click

from tensorplan.cli.options import as_json, engines, kept, picture_file, seed
from tensorplan.cli.shared import ended, teller
from tensorplan.cli.terminal import DONE, FAILED, print_json, print_table, progress


@click.command()
@click.option("--quick", is_flag=True, help="Small sizes and few seeds: minutes instead of hours.")
@click.option("--rows", default=None, help="Only these rows, as in 1,4,6.")
@click.option("--plot", default=None, callback=picture_file, help="Also draw a figure.", metavar="FILE")
@kept
@engines
@seed
@as_json
def table1(
    quick: bool, rows: str | None, plot: str | None, out: str | None, seed: int, as_json: bool, **where: Any
) -> int:
    """The paper's Table 1, measured: which problem classes are tractable.

    Exits with 1 if a verdict is not the paper's.
    """
    from tensorplan.paper.table1 import Table1Experiment, rows_of
    from tensorplan.paper.table1 import table1 as measure

    experiment = Table1Experiment(rows_of(None if rows is None else _whole_numbers("--rows", rows)), quick, seed)
    with progress(len(experiment.units())) as show:
        result = measure(experiment, out, progress=teller(show), **where)
    if as_json:
        print_json(result.as_json())
    else:
        from tensorplan.report.tables import table1_table

        print_table(table1_table(result))
    if plot is not None:
        from tensorplan.report.figures import table1_figure

        table1_figure(result, plot)
    return ended(result.stopped) or (DONE if result.agrees else FAILED)


def _whole_numbers(option: str, text: str) -> list[int]:
    from tensorplan.core.errors import BadInput

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"{option} must be whole numbers separated by commas, got {text!r}") from None
