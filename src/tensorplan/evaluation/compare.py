"""Planners side by side on the same instances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorplan.core import Planner, Problem
from tensorplan.core.errors import BadInput, TensorplanError
from tensorplan.core.intervals import Interval
from tensorplan.core.jsonable import plain
from tensorplan.core.specs import whole
from tensorplan.evaluation.estimates import student
from tensorplan.evaluation.row import Row
from tensorplan.evaluation.runner import run_unit
from tensorplan.loop import MAX_STEPS
from tensorplan.planners.registry import as_planner
from tensorplan.problems.catalog import as_problem


@dataclass(frozen=True)
class Summary:
    """One planner over all its rows, each mean with its 95% t interval."""

    planner: str
    runs: int
    ended: int
    """Episodes that ran to their end."""
    total_reward: Interval
    regret: Interval | None
    queries: Interval
    worst_call: int
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """All rows, and what stopped the comparison early: ``"interrupted"``, an error's sentence, or None."""

    problem: str
    rows: tuple[Row, ...]
    stopped: str | None = None
    error: TensorplanError | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Why there is no regret, where there is none; each sentence once."""
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
    planners: Iterable[Planner | str] | str,
    seeds: int = 10,
    seed: int = 0,
    *,
    budget: int | None = None,
    max_steps: int = MAX_STEPS,
    progress: Callable[[Sequence[Row], int, str], None] | None = None,
) -> Comparison:
    """Each planner on each of ``seeds`` instances, counted from ``seed``; random families draw one per seed.

    Problem and planners are given as they are or by name; a problem that is no name is the instance of every seed.
    ``progress(rows so far, number of runs, planner at work)`` is called before each run.  Ctrl-C, or an error
    on the way, ends it with the rows that are done.
    """
    configs = _configs(planners)
    name = problem if isinstance(problem, str) else as_problem(problem, seed).name
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


def _configs(planners: Iterable[Planner | str] | str) -> dict[str, Planner]:
    """The planners by their names."""
    given = [planners] if isinstance(planners, str) else list(planners)
    if not given:
        raise BadInput("name at least one planner")
    return {each if isinstance(each, str) else repr(each): as_planner(each) for each in given}


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
