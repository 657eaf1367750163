"""``tensorplan plan``: run a planner, show the result, and write its trace and its proof."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tensorplan.cli.options import as_json, budget, max_steps, output_file, seed, time_limit
from tensorplan.cli.shared import configured, limited, say_why
from tensorplan.cli.terminal import (
    DONE,
    USAGE,
    complain,
    console,
    interrupted,
    print_json,
    print_table,
    progress,
    shorten,
)

if TYPE_CHECKING:
    from tensorplan.core import Episode, Problem, Run
    from tensorplan.evaluation.verdict import Verdict


@click.command()
@click.argument("problem")
@click.option("--planner", default="tensorplan", show_default=True, help="Planner.")
@click.option("--episodes", default=1, show_default=True, type=click.IntRange(min=1), help="Number of episodes.")
@click.option("--delta", default=None, type=float, help="Allowed loss, for the planner and the verdict.")
@click.option("--trace", default=None, callback=output_file, help="Write the trace as JSON.", metavar="FILE")
@click.option("--proof", default=None, callback=output_file, help="Write the first episode's proof.", metavar="FILE")
@budget
@time_limit
@max_steps
@seed
@as_json
def plan(
    problem: str,
    planner: str,
    episodes: int,
    delta: float | None,
    trace: str | None,
    proof: str | None,
    budget: int | None,
    time_limit: float | None,
    max_steps: int,
    seed: int,
    as_json: bool,
) -> int:
    """Run a planner on a problem and show the result."""
    from tensorplan.core.errors import TensorplanError
    from tensorplan.evaluation.estimates import query_cost
    from tensorplan.loop import run
    from tensorplan.planners.registry import make_planner
    from tensorplan.problems.catalog import instance

    task, config = instance(problem, seed), limited(make_planner(planner), time_limit)
    if proof is not None and not _proves(config):
        raise click.UsageError(f"{config!r} gives no proofs: TensorPlan does, in the modes exact and certified")
    ended: TensorplanError | None = None
    with progress(episodes) as show:
        config = configured(config, delta, trace is not None, lambda text: show(0, f"{planner}: {text}"))

        def step(episode: int, steps: int, queries: int) -> None:
            show(episode, f"{planner}: episode {episode}, step {steps:,}, {queries:,} queries")

        try:
            played = run(
                task, config, episodes, seed, budget=budget, learn=delta is None, max_steps=max_steps, progress=step
            )
        except TensorplanError as error:
            if error.run is None or not error.run.episodes:
                raise
            played, ended = error.run, error
    if not played.episodes:
        raise KeyboardInterrupt  # before the first query: there is nothing to show
    optimal = _optimal(task, played, thorough=delta is not None)
    verdict = None if delta is None or None in optimal else _verdict(task, config, played, delta)
    if as_json:
        rows = [_episode_row(episode, best) for episode, best in zip(played.episodes, optimal, strict=True)]
        soundness = None if verdict is None else dataclasses.replace(verdict, run=None)
        data = {"problem": task.name, "planner": played.planner, "seed": seed, "episodes": rows}
        print_json({**data, "query_cost": query_cost(played), "unmetered": task.unmetered, "soundness": soundness})
    else:
        _show_run(task, played, optimal, verdict)
    if trace is not None:
        _write_traces(trace, played)
    written = proof is None or _write_proof(proof, played, time_limit is not None)
    if ended is not None:
        raise ended
    return interrupted() if played.interrupted else DONE if written else USAGE


def _proves(config: Any) -> bool:
    """Whether a planner may give proofs."""
    from tensorplan.planners.tensorplan.planner import TensorPlan

    return isinstance(config, TensorPlan) and config.mode != "paper"


def _optimal(task: Problem, played: Run, *, thorough: bool) -> list[float | None]:
    """v* of each start state, None if it is unknown; ``thorough`` allows more work to compute it."""
    from tensorplan.core.errors import TensorplanError
    from tensorplan.problems.tables.reachable import BRIEF, WHOLE
    from tensorplan.problems.tables.solution import exact_solution

    try:
        solution = exact_solution(task, WHOLE if thorough else BRIEF)
        return [solution.value(episode.start, 0) for episode in played.episodes]
    except TensorplanError as error:
        say_why([str(error)])
        return [None] * len(played.episodes)


def _verdict(task: Problem, config: Any, played: Run, delta: float) -> Verdict | None:
    """The verdict on soundness: exact, or from the episodes if there are several."""
    from tensorplan.evaluation.verdict import exact_loss, exact_verdict, judge_run

    loss = exact_loss(task, config, played.seed)
    if loss is not None:
        return exact_verdict(loss, delta)
    return judge_run(task, played, delta) if len(played.episodes) > 1 else None


def _show_run(task: Problem, played: Run, optimal: Sequence[float | None], verdict: Verdict | None) -> None:
    """Print the episodes as a table, and below it queries, actions and certificates."""
    from tensorplan.evaluation.estimates import query_cost
    from tensorplan.report.tables import certificate_sentences, run_table, with_interval

    print_table(run_table(task, played, optimal))
    lines = [f"query cost (mean of the worst call): {with_interval(query_cost(played))}"]
    if task.unmetered:
        lines.append(f"steps of the simulator outside of the meter: {task.unmetered:,}")
    if len(played.episodes) == 1 and played.episodes[0].actions:
        lines.append("actions: " + shorten(played.episodes[0].actions))
    sentences = certificate_sentences(played) + ([] if verdict is None else [str(verdict)])
    out = console()
    for line in lines:
        out.print(line, highlight=False, markup=False)
    for sentence in sentences:
        out.print(sentence, highlight=False, markup=False, soft_wrap=True)


def _episode_row(episode: Episode, optimal: float | None) -> dict[str, Any]:
    """One episode as plain data, without its trace."""
    certificate = episode.certificate
    row = {**vars(episode), "start": repr(episode.start), "steps": episode.steps, "total_reward": episode.total_reward}
    del row["trace"]
    return {
        **row,
        "total_queries": episode.total_queries,
        "gap": None if certificate is None else certificate.gap,
        "optimal": optimal,
        "regret": None if optimal is None else optimal - episode.total_reward,
    }


def _write_traces(path: str, played: Run) -> None:
    from tensorplan.core.files import write_output
    from tensorplan.evaluation.row import traces

    data = {"problem": played.problem, "planner": played.planner, "seed": played.seed}
    write_output(path, json.dumps({**data, "episodes": traces(played.episodes)}, allow_nan=False))


def _write_proof(path: str, played: Run, timed: bool) -> bool:
    """Whether the first episode has a proof, which is written; otherwise print why not, which may be a time limit."""
    from tensorplan.core.files import save_output

    certificate = played.episodes[0].certificate
    if certificate is not None and certificate.proof is not None:
        save_output(path, certificate.proof.save)
        return True
    status = "no certificate" if certificate is None else f"status {certificate.status!r}"
    why = f"the first episode has none, since its bounds do not come from rows ({status})"
    if timed and certificate is not None and certificate.status != "refuted":
        why = f"there was no time to write it ({status})"
    complain(f"no proof was written: {why}", USAGE)
    return False
