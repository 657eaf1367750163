"""``tensorplan compare``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tensorplan.cli.options import as_json, budget, max_steps, seed, time_limit
from tensorplan.cli.shared import say_why
from tensorplan.cli.terminal import DONE, interrupted, print_json, print_table, progress

if TYPE_CHECKING:
    from tensorplan.evaluation.row import Row


@click.command()
@click.argument("problem")
@click.option("--planners", default="tensorplan,uct", show_default=True, help="Names separated by commas.")
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(min=1), help="Number of instances.")
@budget
@time_limit
@max_steps
@seed
@as_json
def compare(
    problem: str,
    planners: str,
    seeds: int,
    budget: int | None,
    time_limit: float | None,
    max_steps: int,
    seed: int,
    as_json: bool,
) -> int:
    """Compare planners on the same instances: regret and queries, with intervals.

    --budget holds for all planners, --time-limit for those with the parameter time_limit.
    """
    from tensorplan.evaluation.compare import compare as compare_planners

    names = [name.strip() for name in planners.split(",") if name.strip()]
    with progress(seeds * len(names)) as show:

        def step(rows: Sequence[Row], total: int, name: str) -> None:
            regrets = [r.regret for r in rows if r.planner == name and r.regret is not None]
            so_far = f", regret so far {sum(regrets) / len(regrets):.4g}" if regrets else ""
            show(len(rows), f"{name} on {problem}{so_far}")

        result = compare_planners(
            problem, names, seeds, seed, budget=budget, time_limit=time_limit, max_steps=max_steps, progress=step
        )
    if as_json:
        print_json(result.as_json())
    elif result.rows:
        from tensorplan.report.tables import comparison_table

        print_table(comparison_table(result))
    say_why(result.notes)
    if result.error is not None:
        raise result.error
    return interrupted() if result.stopped else DONE
