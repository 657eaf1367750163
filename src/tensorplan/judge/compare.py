"""Planners side by side on the same instances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tensorplan.core import Episode, Planner, Problem
from tensorplan.core.errors import BadInput, NotRealizable, Refused, TensorplanError
from tensorplan.core.intervals import Interval
from tensorplan.core.jsonable import plain
from tensorplan.core.specs import whole
from tensorplan.judge.brackets import bracket
from tensorplan.judge.summaries import student
from tensorplan.loop import MAX_STEPS, run
from tensorplan.planners.registry import make_planner
from tensorplan.problems.catalog import instance
from tensorplan.problems.tables.solution import exact_solution


@dataclass(frozen=True)
class Row:
    """One episode of one planner on one instance."""

    problem: str
    planner: str
    seed: int
    optimal: float | None
    """v*(s0), where it is known."""
    total_reward: float
    regret: float | None
    """v*(s0) - total_reward; of an episode that did not end, against what it had earned."""
    steps: int
    queries: int
    worst_call: int
    stopped: str
    seconds: float
    gap: float | None = None
    """Of the planner's certificate, where it gave one; see :class:`tensorplan.Certificate` for what follows."""
    upper: float | None = None
    lower: float | None = None
    certificate: str | None = None
    """Its status."""
    failure: float | None = None
    lower_failure: float | None = None
    assumes: str | None = None
    explained: float | None = None
    warnings: tuple[str, ...] = ()
    unmetered: int = 0
    """Steps of the instance's simulator so far that no planner asked for; see :class:`tensorplan.Problem`."""


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
    notes: tuple[str, ...] = ()
    """Why there is no regret, where there is none; each sentence once."""

    @property
    def summaries(self) -> list[Summary]:
        """One summary per planner, in order of appearance."""
        return [_summary(name, [r for r in self.rows if r.planner == name]) for name in _names(self.rows)]

    def as_json(self) -> dict[str, Any]:
        """Plain data: the problem, the summaries and the rows."""
        return {
            "problem": self.problem,
            "stopped": self.stopped,
            "notes": list(self.notes),
            **plain({"summary": self.summaries, "rows": self.rows}),
        }


def compare(
    problem: str,
    planners: Iterable[str],
    seeds: int = 10,
    seed: int = 0,
    *,
    budget: int | None = None,
    max_steps: int = MAX_STEPS,
    progress: Callable[[Sequence[Row], int, str], None] | None = None,
) -> Comparison:
    """Each planner on each of ``seeds`` instances, counted from ``seed``; random families draw one per seed.

    ``progress(rows so far, number of runs, planner at work)`` is called before each run.  Ctrl-C, or an error
    on the way, ends it with the rows that are done.
    """
    names = list(dict.fromkeys(planners))
    if not names:
        raise BadInput("name at least one planner")
    configs = {name: make_planner(name) for name in names}
    rows: list[Row] = []
    notes: dict[str, None] = {}

    def outcome(stopped: str | None = None, error: TensorplanError | None = None) -> Comparison:
        return Comparison(problem, tuple(rows), stopped, error, tuple(notes))

    total = whole("seeds", seeds, 1) * len(names)
    try:
        for number in range(seed, seed + seeds):
            featured = instance(problem, number)
            for name, planner in configs.items():
                if progress is not None:
                    progress(rows, total, name)
                episode = _played(featured, planner, number, budget, max_steps)
                try:  # after the run: what an oracle found out is known then
                    optimal = exact_solution(featured).value(episode.start, 0)
                except Refused as refusal:
                    optimal = None
                    notes[str(refusal)] = None
                rows.append(_row(problem, name, number, optimal, episode, featured.unmetered))
    except TensorplanError as error:
        return outcome(str(error), error)
    except KeyboardInterrupt:
        return outcome("interrupted")
    return outcome()


def _played(problem: Problem, planner: Planner, seed: int, budget: int | None, max_steps: int) -> Episode:
    """One episode; KeyboardInterrupt where Ctrl-C has cut it short."""
    try:
        played = run(problem, planner, seed=seed, budget=budget, max_steps=max_steps)
    except NotRealizable as error:
        if error.run is None:
            raise
        played = error.run
    if played.interrupted or not played.episodes:
        raise KeyboardInterrupt
    return played.episodes[0]


def _row(problem: str, planner: str, seed: int, optimal: float | None, episode: Episode, unmetered: int) -> Row:
    return Row(
        problem=problem,
        planner=planner,
        seed=seed,
        optimal=optimal,
        total_reward=episode.total_reward,
        regret=None if optimal is None else optimal - episode.total_reward,
        steps=episode.steps,
        queries=episode.total_queries,
        worst_call=max(episode.queries, default=0),
        stopped=episode.stopped,
        seconds=episode.seconds,
        unmetered=unmetered,
        gap=None if episode.certificate is None else episode.certificate.gap,
        **bracket(episode.certificate),
    )


def _summary(planner: str, rows: Sequence[Row]) -> Summary:
    regrets = [r.regret for r in rows if r.regret is not None]
    return Summary(
        planner=planner,
        runs=len(rows),
        ended=sum(r.stopped == "end" for r in rows),
        total_reward=student([r.total_reward for r in rows]),
        regret=student(regrets) if regrets else None,
        queries=student([r.queries for r in rows]),
        worst_call=max(r.worst_call for r in rows),
        seconds=sum(r.seconds for r in rows) / len(rows),
    )


def _names(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row.planner for row in rows))
