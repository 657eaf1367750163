"""``tensorplan list``."""

from __future__ import annotations

import dataclasses

import click

from tensorplan.cli.options import as_json, seed
from tensorplan.cli.terminal import print_json, print_table


@click.command("list")
@as_json
@seed
def list_command(as_json: bool, seed: int) -> None:
    """Problems and planners, one line each."""
    from tensorplan.planners.registry import PLANNERS
    from tensorplan.problems.catalog import CATALOG

    options = {
        name: {f.name: f.default for f in dataclasses.fields(planner) if f.init and f.name != "callback"}
        for name, planner in PLANNERS.items()
    }
    if as_json:
        problems = [{"name": n, "example": e.example, "about": e.about} for n, e in CATALOG.items()]
        planners = [{"name": n, "options": options[n], "about": p.about} for n, p in PLANNERS.items()]
        return print_json({"problems": problems, "planners": planners})
    from tensorplan.report.tables import planners_table, problems_table

    print_table(problems_table(CATALOG))
    print_table(planners_table((n, options[n], p.about) for n, p in PLANNERS.items()))
