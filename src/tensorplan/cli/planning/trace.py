"""``tensorplan trace``."""

from __future__ import annotations

import click

from tensorplan.cli.options import as_json, output_file, seed
from tensorplan.cli.shared import configured
from tensorplan.cli.terminal import DONE, interrupted, print_json, progress, say


@click.command()
@click.argument("problem")
@click.option("--out", default=None, callback=output_file, help="Page to write.", metavar="FILE")
@click.option("--delta", default=None, type=float, help="Allowed loss.")
@seed
@as_json
def trace(problem: str, out: str | None, delta: float | None, seed: int, as_json: bool) -> int:
    """Run TensorPlan and write an HTML page that steps through the run."""
    from tensorplan.core.errors import NotRealizable
    from tensorplan.evaluation.row import traces
    from tensorplan.loop import run
    from tensorplan.planners.tensorplan.planner import TensorPlan
    from tensorplan.problems.catalog import instance
    from tensorplan.report.trace_page import write_trace_page

    if out is None and not as_json:
        raise click.UsageError("give a file for the page (--out x.html), or print the trace (--json)")
    task, refuted = instance(problem, seed), None
    with progress(1) as show:
        config = configured(TensorPlan(), delta, True, lambda text: show(0, text))
        try:
            played = run(task, config, seed=seed)
        except NotRealizable as error:
            if error.run is None or not error.run.episodes:
                raise
            played, refuted = error.run, error
    if not played.episodes:
        raise KeyboardInterrupt  # before the first query: there is nothing to show
    recorded, certificate = played.episodes[0].trace, played.episodes[0].certificate
    if as_json:
        (told,) = traces(played.episodes)
        print_json({"problem": task.name, "planner": played.planner, "seed": seed, "trace": told})
    if out is not None:
        path = write_trace_page(task.name, recorded, out, certificate=certificate)
        n = len(recorded.iterations)
        say(f"{n} step{'' if n == 1 else 's'}: {path.resolve().as_uri()}", err=True)
    if refuted is not None:
        raise refuted
    return interrupted() if played.interrupted else DONE
