"""What an experiment is made of: units of work, each of which leaves one row.

A unit has an id, a hash of all that determines what comes out, so that an experiment that is resumed, or has grown,
finds again what is done.  Limits on time and memory are not part of it, nor is the version of the package.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from tensorplan.core import Problem, Run
from tensorplan.core.errors import LONGEST, shortened
from tensorplan.judge.row import Row, traces
from tensorplan.judge.runner import run_unit
from tensorplan.loop import MAX_STEPS
from tensorplan.sweeps.names import complete_planner, complete_problem


class Facts(NamedTuple):
    """A, d and H of an instance."""

    actions: int | None = None
    dimension: int | None = None
    horizon: int | None = None


class Result(NamedTuple):
    """What became of a unit: its row, and its trace as plain data where there is one."""

    row: Row
    trace: Any = None


Built = Callable[[Facts], None]
"""Hears of an instance before the work on it begins."""


class Unit(Protocol):
    """One thing to measure, in any process: it is sent there by pickle."""

    @property
    def id(self) -> str:
        """What its row is found by."""

    @property
    def problem(self) -> str:
        """Like ``planner`` and ``seed`` a column of its row."""

    @property
    def planner(self) -> str:
        """Who is measured."""

    @property
    def seed(self) -> int:
        """Of the instance, and of the run."""

    def run(self, built: Built) -> Result:
        """Do it, in this process."""


class Experiment(Protocol):
    """Units that belong together."""

    @property
    def kind(self) -> str:
        """A word that tells the stores of different experiments apart."""

    @property
    def timeout(self) -> float | None:
        """Seconds that a unit may take."""

    @property
    def memory(self) -> float | None:
        """MB of resident memory that its process may have."""

    @property
    def retries(self) -> int:
        """How often a unit that failed is tried again."""

    def units(self) -> Sequence[Unit]:
        """All of them, each once."""

    def as_json(self) -> str:
        """The experiment as text: a dict, with the ids under ``units`` unless it is a suite, which knows them."""


def content_id(content: Mapping[str, Any]) -> str:
    """SHA-256 of plain data, as hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True)
class PlannerUnit:
    """One planner on one instance."""

    problem: str
    planner: str
    seed: int
    episodes: int = 1
    budget: int | None = None
    max_steps: int = MAX_STEPS
    trace: bool = False

    @cached_property
    def id(self) -> str:
        """Names, every parameter (those left at their defaults too), seed, episodes, budget."""
        whole = {"problem": complete_problem(self.problem), "planner": complete_planner(self.planner)}
        return content_id(asdict(self) | whole)

    def run(self, built: Built) -> Result:
        """Play the episodes."""
        kept: list[Any] = []

        def heard(problem: Problem) -> None:
            built(Facts(problem.actions, problem.dimension, problem.horizon))

        def played(run: Run) -> None:
            if run.episodes[0].trace is not None:
                kept.extend(traces(run.episodes))

        row = run_unit(**asdict(self), built=heard, played=played)
        if not kept:
            return Result(replace(row, id=self.id))
        about = {"problem": self.problem, "planner": self.planner, "seed": self.seed}
        return Result(replace(row, id=self.id, trace=f"{self.id}.json"), {**about, "episodes": kept})


def play(unit: Unit, built: Built) -> Result:
    """What the processes of an engine do, unless told otherwise."""
    return unit.run(built)


def failure(unit: Unit, status: str, error: str, facts: Facts) -> Result:
    """A unit that did not get to its end."""
    sentence = shortened(" ".join(error.split()), LONGEST)
    return Result(Row(unit.id, unit.problem, unit.planner, unit.seed, status, sentence, **facts._asdict()))
