"""``tensorplan diagnose``."""

from __future__ import annotations

from typing import Any

import click

from tensorplan.cli.options import as_json, seed
from tensorplan.cli.terminal import DONE, interrupted, print_json, print_table, progress


@click.command()
@click.argument("problem")
@click.option("--features", default=None, help="A spec such as poly2.  [default: the problem's own]")
@click.option("--kind", default=None, type=click.Choice(["v", "q"]), help="Values to realize.  [default: v, or both]")
@click.option("--horizon", default=None, type=click.IntRange(min=1), help="Horizon of a Gymnasium environment.")
@click.option("--discount", default=None, type=click.FloatRange(0, 1, min_open=True), help="The discount.")
@click.option("--bound", default=None, type=click.FloatRange(0, min_open=True), help="B, to judge or to try with.")
@click.option("--budget", default=100_000, show_default=True, type=click.IntRange(min=0), help="Queries of a trial.")
@click.option("--states", default=200_000, show_default=True, type=click.IntRange(min=1), help="States listed at most.")
@click.option("--seconds", default=60.0, show_default=True, type=click.FloatRange(min=0), help="Time, about.")
@seed
@as_json
def diagnose(
    problem: str, kind: str | None, budget: int, states: int, seconds: float, seed: int, as_json: bool, **options: Any
) -> int:
    """How far the features are from realizing v* or q*, and what follows: diagnose FrozenLake-v1 --features poly2.

    It ends after about --seconds, and says which states it could not list or fit.
    """
    from tensorplan.diagnosis.clock import Clock
    from tensorplan.diagnosis.diagnosis import diagnose as examine
    from tensorplan.diagnosis.inputs import named

    with progress(1) as show:
        show(0, f"opening {problem}")
        clock = Clock(seconds, lambda text: show(0, text))
        task = named(problem, kind=kind, seed=seed, states=states, clock=clock, **options)
        result = examine(
            task,
            kind=kind,
            budget=budget,
            states=states,
            seconds=clock.left,
            seed=seed,
            progress=clock.progress,
        )
    if as_json:
        print_json(result.as_json())
    else:
        from tensorplan.report.tables import diagnosis_table

        print_table(diagnosis_table(result))
    return interrupted() if result.interrupted else DONE
