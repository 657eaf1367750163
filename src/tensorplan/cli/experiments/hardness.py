"""``tensorplan hardness``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tensorplan.cli.options import as_json, engines, kept, picture_file, seed
from tensorplan.cli.shared import ended, show_missing, teller
from tensorplan.cli.terminal import console, print_json, print_table, progress

if TYPE_CHECKING:
    from tensorplan.paper.hardness import Hardness


@click.command()
@click.option("--p", "sizes", default="16:64", show_default=True, help="Dimensions: 16, 16:96 or 16:96:8.")
@click.option("--K", "rounds", default=None, type=click.IntRange(min=1), help="Rounds of the game.  [default: p]")
@click.option("--strategies", default="uniform,best", show_default=True, help="Names separated by commas.")
@click.option("--seeds", default=20, show_default=True, type=click.IntRange(min=1), help="Games per point.")
@click.option("--plot", default=None, callback=picture_file, help="Also draw a figure.", metavar="FILE")
@kept
@engines
@seed
@as_json
def hardness(
    sizes: str,
    rounds: int | None,
    strategies: str,
    seeds: int,
    plot: str | None,
    out: str | None,
    seed: int,
    as_json: bool,
    **where: Any,
) -> int:
    """The measured cost of search in the abstract game against the lower bound, and planners on the hard MDPs."""
    from tensorplan.paper.hardness import HardnessExperiment, parse_sizes
    from tensorplan.paper.hardness import hardness as measure

    names = tuple(name.strip() for name in strategies.split(",") if name.strip())
    experiment = HardnessExperiment(tuple(parse_sizes(sizes)), names, rounds, seeds, seed)
    with progress(len(experiment.units())) as show:
        result = measure(experiment, out, progress=teller(show), **where)
    if as_json:
        from tensorplan.report.tables import attempt_record, cost_record

        print_json(
            {
                "costs": [cost_record(cost) for cost in result.costs],
                "growth": result.growth,
                "planners": [attempt_record(row) for row in result.attempts],
                "not_measured": result.missing,
            }
        )
    else:
        _show_hardness(result)
    if plot is not None and result.costs:
        from tensorplan.report.figures import hardness_figure

        hardness_figure(result, plot)
    return ended(result.stopped)


def _show_hardness(result: Hardness) -> None:
    """Print the tables that are not empty, and what was not measured."""
    from tensorplan.report.tables import attempts_table, costs_table, growth_sentences

    if result.costs:
        print_table(costs_table(result))
    for sentence in growth_sentences(result):
        console().print(sentence, highlight=False, soft_wrap=True)
    if result.attempts:
        print_table(attempts_table(result))
    show_missing(result.missing)
