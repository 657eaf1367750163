"""``tensorplan constants``."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from tensorplan.cli.options import as_json, seed
from tensorplan.cli.shared import show_missing
from tensorplan.cli.terminal import DONE, interrupted, print_json, print_table, progress


@click.command()
@click.option("--A", "actions", required=True, type=int, help="Actions.")
@click.option("--d", "dimension", required=True, type=int, help="Features.")
@click.option("--H", "horizon", required=True, type=int, help="Horizon.")
@click.option("--delta", required=True, type=float, help="Allowed loss.")
@click.option("--B", "bound", required=True, type=float, help="Bound on the norm of theta*.")
@click.option("--measure/--no-measure", default=True, show_default=True, help="Also run exact and certified mode.")
@seed
@as_json
def constants(
    actions: int, dimension: int, horizon: int, delta: float, bound: float, measure: bool, seed: int, as_json: bool
) -> int:
    """The paper's constants and the queries they imply, beside those that the other modes make."""
    from tensorplan.paper.mode_costs import CASES, case_records, mode_costs
    from tensorplan.planners.printed.constants import constants as paper_constants

    printed = paper_constants(actions, dimension, horizon, delta, bound)
    records: list[dict[str, Any]] = []
    if measure:
        with progress(1) as show:
            show(0, "measuring on random layered problems")
            records = case_records(mode_costs(printed, seed))
    missing = [f"{mode} mode, {what}" for mode, what, *_ in CASES[len(records) :]] if measure else []
    if as_json:
        totals = {"init_queries": printed.init_queries, "call_queries": printed.call_queries}
        constants_ = {**dataclasses.asdict(printed), **totals}
        print_json({"constants": constants_, "measured": records, "not_measured": missing})
    else:
        from tensorplan.report.tables import constants_table, mode_costs_table

        print_table(constants_table(printed))
        if records:
            print_table(mode_costs_table(printed, records))
        show_missing(missing)
    return interrupted() if missing else DONE
