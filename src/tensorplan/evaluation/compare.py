"""Comparisons of planners on the same instances."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorplan.core import Planner, Problem
from tensorplan.core.errors import BadInput, TensorplanError, shown
from tensorplan.core.intervals import Interval
from tensorplan.core.jsonable import plain
from tensorplan.core.specs import seconds, whole
from tensorplan.evaluation.estimates import student
from tensorplan.evaluation.row import Row
from tensorplan.evaluation.runner import run_unit
from tensorplan.loop import MAX_STEPS
from tensorplan.planners.config import with_time_limit
from tensorplan.planners.registry import as_planner
from tensorplan.problems.catalog import as_problem


@dataclass(frozen=True)
class Summary:
    """One planner over all its rows, each mean with its 95% t interval."""

    planner: str
    runs: int
    ended: int
    """Episodes that were completed."""
    total_reward: Interval
    regret: Interval | None
    queries: Interval
    worst_call: int
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """All rows, and why the comparison stopped early: ``"interrupted"``, an error's message, or None."""

    problem: str
    rows: tuple[Row, ...]
    stopped: str | None = None
    error: TensorplanError | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Why regrets are missing, each reason once."""
        return tuple(dict.fromkeys(row.note for row in self.rows if row.note is not None))

    @property
    def summaries(self) -> list[Summary]:
        """One summary per planner, in order of appearance."""
        names = dict.fromkeys(row.planner for row in self.rows)
        return [_summary(name, [row for row in self.rows if row.planner == name]) for name in names]

    def as_json(self) -> dict[str, Any]:
        """Plain data: the problem, the summaries and the rows."""
        return {
            "problem": self.problem,
            "stopped": self.stopped,
            "notes": list(self.notes),
            **plain({"summary": self.summaries, "rows": self.rows}),
        }


def compare(
    problem: Problem | str,
    planners: Iterable[Planner | str] | Planner | str,
    seeds: int = 10,
    seed: int = 0,
    *,
    budget: int | None = None,
    time_limit: float | None = None,
    max_steps: int = MAX_STEPS,
    progress: Callable[[Sequence[Row], int, str], None] | None = None,
) -> Comparison:
    """The rows of each planner on the instances of the seeds ``seed``, .., ``seed + seeds - 1``.

    Problem and planners are objects or names, or some of both; a random family, given by name, has one instance per
    seed.  Planners with the same repr are numbered.  ``budget`` bounds the queries of an episode.  ``time_limit``:
    seconds of planning per episode, for planners that take it.
    ``progress(rows so far, number of runs, planner)`` is called before each run.  Ctrl-C or an error ends the
    comparison with the rows finished so far.
    """
    configs = {name: with_time_limit(config, time_limit) for name, config in _configs(planners).items()}
    name = problem if isinstance(problem, str) else as_problem(problem, seed).name
    if time_limit is not None:
        seconds("time_limit", time_limit)
    rows: list[Row] = []
    total = whole("seeds", seeds, 1) * len(configs)
    try:
        for number in range(seed, seed + seeds):
            task = as_problem(problem, number)
            for planner, config in configs.items():
                if progress is not None:
                    progress(rows, total, planner)
                row = run_unit(task, config, number, budget=budget, max_steps=max_steps)
                rows.append(replace(row, problem=name, planner=planner))
    except TensorplanError as error:
        return Comparison(name, tuple(rows), str(error), error)
    except KeyboardInterrupt:
        return Comparison(name, tuple(rows), "interrupted")
    return Comparison(name, tuple(rows))


def _configs(planners: Iterable[Planner | str] | Planner | str) -> dict[str, Planner]:
    """The planners by name; names that are given twice are one, and objects with one repr are numbered."""
    given = _listed(planners)
    if not given:
        raise BadInput("name at least one planner")
    configs: dict[str, Planner] = {}
    for each in given:
        name = each if isinstance(each, str) else _numbered(repr(as_planner(each)), configs)
        configs.setdefault(name, as_planner(each))
    return configs


def _listed(planners: Any) -> list[Planner | str]:
    """The planners as a list, one by itself too."""
    if isinstance(planners, str) or hasattr(planners, "begin"):
        return [planners]
    try:
        return list(planners)
    except TypeError:
        raise BadInput(f"planners must be a list of planners or their names, got {shown(planners)}") from None


def _numbered(name: str, taken: Collection[str]) -> str:
    """The name, with a number behind it if it is taken."""
    names = itertools.chain([name], (f"{name} ({number})" for number in itertools.count(2)))
    return next(each for each in names if each not in taken)


def _summary(planner: str, rows: Sequence[Row]) -> Summary:
    return Summary(
        planner=planner,
        runs=len(rows),
        ended=sum(row.stopped == "end" for row in rows),
        total_reward=student(_known(row.total_reward for row in rows)),
        regret=student(regrets) if (regrets := _known(row.regret for row in rows)) else None,
        queries=student(_known(row.queries for row in rows)),
        worst_call=max(row.worst_call or 0 for row in rows),
        seconds=sum(row.seconds or 0.0 for row in rows) / len(rows),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
