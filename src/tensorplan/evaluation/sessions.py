"""Comparisons of planners over sessions of many episodes with common random numbers.

A planner with a memory (:class:`tensorplan.core.Learner`) reuses measurements in later episodes, so it plays several
sessions of many episodes, and its queries per episode are the average over a session.  The episodes of others are
independent, and one session suffices.

The world of an episode has its own random stream, derived from (seed, episode): as long as two planners act alike, they
visit the same states.  So the difference to the return of the optimal policy *in the same worlds* estimates the loss
v*(s0) - E[return] with far less variance than the returns themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorplan.core import Certificate, Episode, Learner, Planner, Problem
from tensorplan.core.errors import Refused
from tensorplan.core.intervals import Interval
from tensorplan.core.specs import whole
from tensorplan.evaluation.estimates import student
from tensorplan.loop import MAX_STEPS, run
from tensorplan.planners.baselines.oracle import Oracle


@dataclass(frozen=True)
class SessionSummary:
    """The results of one planner; each mean has its 95% t interval."""

    planner: str
    total_reward: Interval
    """Over all episodes."""
    loss: Interval | None
    """The return of the optimal policy less that of the planner, over all episodes; None if the former is unknown."""
    queries: Interval
    """Per episode; over the sessions of a planner with a memory, else over the episodes."""
    certificate: Certificate | None
    """Of the first episode."""


@dataclass(frozen=True)
class SideBySide:
    """One line per planner; ``str`` gives a plain table."""

    lines: tuple[SessionSummary, ...]

    def __str__(self) -> str:
        width = max(len("planner"), *(len(line.planner) for line in self.lines))
        rows = [("planner".ljust(width), "return", "loss", "queries an episode")]
        for line in self.lines:
            loss = "" if line.loss is None else _cell(line.loss, ".3f")
            cells = _cell(line.total_reward, ".2f"), loss, _cell(line.queries, ",.0f")
            rows.append((line.planner.ljust(width), *cells))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)


def side_by_side(
    problem: Problem,
    planners: Mapping[str, Planner],
    *,
    episodes: int,
    sessions: int = 3,
    seed: int = 0,
    max_steps: int = MAX_STEPS,
) -> SideBySide:
    """Sessions of ``episodes`` episodes of each planner; ``sessions`` of them if it has a memory, else one.

    Session i of every planner has the seed ``seed`` + i.
    """
    sessions = whole("sessions", sessions, 1)

    def play(planner: Planner, number: int) -> list[tuple[Episode, ...]]:
        return [run(problem, planner, episodes, seed + i, max_steps=max_steps).episodes for i in range(number)]

    try:
        best = [episode.total_reward for session in play(Oracle(), sessions) for episode in session]
    except Refused:
        best = []
    lines = []
    for name, planner in planners.items():
        played = play(planner, sessions if isinstance(planner, Learner) else 1)
        returns = [episode.total_reward for session in played for episode in session]
        counts = [[episode.total_queries for episode in session] for session in played]
        shares = [sum(each) / episodes for each in counts] if isinstance(planner, Learner) else counts[0]
        loss = student([b - r for b, r in zip(best, returns, strict=False)]) if best else None
        lines.append(SessionSummary(name, student(returns), loss, student(shares), played[0][0].certificate))
    return SideBySide(tuple(lines))


def _cell(interval: Interval, how: str) -> str:
    return f"{interval.mean:{how}} ± {interval.radius:{how}}"
