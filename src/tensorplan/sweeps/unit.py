"""One unit of work, done: the instance built, the episodes played, the row written."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tensorplan.core import Certificate, Planner, Problem
from tensorplan.core.errors import LONGEST, NotRealizable, Refused, shortened
from tensorplan.core.jsonable import plain
from tensorplan.core.specs import options
from tensorplan.judge.brackets import bracket, traces
from tensorplan.loop import run
from tensorplan.planners.registry import make_planner
from tensorplan.problems.catalog import instance
from tensorplan.problems.tables.solution import exact_solution
from tensorplan.sweeps.store import RunRow
from tensorplan.sweeps.suite import Unit


class Facts(NamedTuple):
    """A, d and H of an instance."""

    actions: int | None = None
    dimension: int | None = None
    horizon: int | None = None


class Result(NamedTuple):
    """What became of a unit: its row, and its trace as plain data where there is one."""

    row: RunRow
    trace: Any = None


def failure(unit: Unit, status: str, error: str, facts: Facts) -> Result:
    """A unit that did not get to its end."""
    sentence = shortened(" ".join(error.split()), LONGEST)
    return Result(RunRow(unit.id, unit.problem, unit.planner, unit.seed, status, sentence, **facts._asdict()))


def play(unit: Unit, built: Callable[[Facts], None]) -> Result:
    """Do it, in this process; ``built`` hears of the instance before the planner begins."""
    problem = instance(unit.problem, unit.seed)
    facts = Facts(problem.actions, problem.dimension, problem.horizon)
    built(facts)
    refuted: NotRealizable | None = None
    try:
        played = run(
            problem,
            _planner(unit),
            unit.episodes,
            unit.seed,
            budget=unit.budget,
            max_steps=unit.max_steps,
        )
    except NotRealizable as error:
        if error.run is None:
            raise
        played, refuted = error.run, error
    first = played.episodes[0]
    reward = _mean([episode.total_reward for episode in played.episodes])
    optimal, note = _optimal(problem, [episode.start for episode in played.episodes])
    row = RunRow(
        unit.id,
        unit.problem,
        unit.planner,
        unit.seed,
        "done",
        None if refuted is None else " ".join(str(refuted).split()),
        **facts._asdict(),
        optimal=optimal,
        total_reward=reward,
        regret=None if optimal is None else optimal - reward,
        steps=first.steps,
        queries=first.total_queries,
        worst_call=played.worst_call,
        seconds=math.fsum(episode.seconds for episode in played.episodes),
        trace=None if first.trace is None else f"{unit.id}.json",
        unmetered=problem.unmetered,
        note=note,
        **_bracket(first.certificate),
    )
    if first.trace is None:
        return Result(row)
    about = {"problem": unit.problem, "planner": unit.planner, "seed": unit.seed}
    return Result(row, {**about, "episodes": traces(played.episodes)})


def _bracket(certificate: Certificate | None) -> dict[str, Any]:
    """The columns of a certificate; SQLite knows neither lists nor infinite numbers."""
    told = plain(bracket(certificate))
    return {**told, "warnings": "; ".join(told.get("warnings", ())) or None}


def _planner(unit: Unit) -> Planner:
    planner: Any = make_planner(unit.planner)
    if unit.trace and "trace" in options(planner):
        planner = dataclasses.replace(planner, trace=True)
    configured: Planner = planner
    return configured


def _optimal(problem: Problem, starts: Sequence[Any]) -> tuple[float | None, str | None]:
    """The mean of v*, or why it is not known."""
    try:
        solution = exact_solution(problem)
        return _mean([solution.value(start, 0) for start in starts]), None
    except Refused as refusal:
        return None, str(refusal)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
