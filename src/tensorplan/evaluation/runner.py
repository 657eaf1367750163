"""The runner of all experiments: a problem, a planner and a seed give a row."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from tensorplan.core import Episode, Planner, Problem, Run
from tensorplan.core.errors import NotRealizable, Refused
from tensorplan.evaluation.loss import LossMeter
from tensorplan.evaluation.row import Row, certificate_columns
from tensorplan.loop import MAX_STEPS, run
from tensorplan.planners.registry import as_planner
from tensorplan.planners.tensorplan.trace import Trace
from tensorplan.problems.catalog import as_problem
from tensorplan.problems.tables.solution import exact_solution


def run_unit(
    problem: Problem | str,
    planner: Planner | str,
    seed: int,
    *,
    episodes: int = 1,
    budget: int | None = None,
    max_steps: int = MAX_STEPS,
    trace: bool = False,
    id: str = "",
    built: Callable[[Row], None] | None = None,
    played: Callable[[Run], None] | None = None,
) -> Row:
    """The row of a planner on an instance; both are objects or names.

    A random family, given by name, has one instance per seed.  ``trace`` makes planners that can record a trace do so.
    ``built`` is called with a row without measurements before the planner begins, ``played`` with the run.  Ctrl-C
    raises KeyboardInterrupt, since a run that was cut short is no measurement.
    """
    task, config = as_problem(problem, seed), _tracing(as_planner(planner), trace)
    names = problem if isinstance(problem, str) else task.name, planner if isinstance(planner, str) else repr(planner)
    row = Row(id, *names, seed, actions=task.actions, dimension=task.dimension, horizon=task.horizon)
    if built is not None:
        built(row)
    meter = LossMeter(task) if hasattr(task.solution, "action_value") else None
    refuted: NotRealizable | None = None
    try:
        found = run(task, config, episodes, seed, budget=budget, max_steps=max_steps, on_action=meter)
    except NotRealizable as error:
        if error.run is None or not error.run.episodes:
            raise
        found, refuted = error.run, error
    if found.interrupted or not found.episodes:
        raise KeyboardInterrupt
    if played is not None:
        played(found)
    said = None if refuted is None else " ".join(str(refuted).split())
    return dataclasses.replace(row, status="done", error=said, **_measured(task, found, meter))


def _tracing(planner: Any, trace: bool) -> Any:
    """The planner, recording a trace if it is wanted and the planner can."""
    if trace and dataclasses.is_dataclass(planner) and any(f.name == "trace" for f in dataclasses.fields(planner)):
        return dataclasses.replace(planner, trace=True)  # type: ignore[type-var]
    return planner


def _measured(problem: Problem, played: Run, meter: LossMeter | None) -> dict[str, Any]:
    """The columns of a run."""
    episodes, first = played.episodes, played.episodes[0]
    stopped = next((episode.stopped for episode in episodes if not episode.complete), "end")
    reward = fmean(episode.total_reward for episode in episodes)
    optimal, note = _optimal(problem, episodes)
    return {
        "optimal": optimal,
        "total_reward": reward,
        "regret": None if optimal is None else optimal - reward,
        "loss": None if meter is None or stopped != "end" else fmean(meter.losses.values()),
        "steps": first.steps,
        "queries": first.total_queries,
        "worst_call": played.worst_call,
        "stopped": stopped,
        "seconds": math.fsum(episode.seconds for episode in episodes),
        "unmetered": problem.unmetered,
        "note": note,
        **certificate_columns(first.certificate),
        **_counts(first.trace),
    }


def _optimal(problem: Problem, episodes: Sequence[Episode]) -> tuple[float | None, str | None]:
    """The mean of v*, or why it is unknown; called after the run, in which an oracle may have computed it."""
    try:
        solution = exact_solution(problem)
        return fmean(solution.value(episode.start, 0) for episode in episodes), None
    except Refused as refusal:
        return None, str(refusal)


def _counts(trace: Any) -> dict[str, Any]:
    """The columns of a trace of TensorPlan, if there is one."""
    if not isinstance(trace, Trace):
        return {}
    failures = sum(len(iteration.failures) for iteration in trace.iterations)
    return {"failed_states": failures, "nodes": sum(iteration.nodes for iteration in trace.iterations)}
