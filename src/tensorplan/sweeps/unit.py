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
from typing import Any, ClassVar, NamedTuple, Protocol

from tensorplan.core.errors import LONGEST, shortened
from tensorplan.evaluation.row import Row, traces
from tensorplan.evaluation.runner import run_unit
from tensorplan.loop import MAX_STEPS
from tensorplan.sweeps.names import complete_planner, complete_problem


class Result(NamedTuple):
    """What became of a unit: its row, and its trace as plain data where there is one."""

    row: Row
    trace: Any = None


Built = Callable[[Row], None]
"""Hears of an instance before the work on it begins: a row that knows the sizes, and nothing that was measured."""


class Unit(Protocol):
    """One thing to measure, in any process: it is sent there by pickle."""

    @property
    def row(self) -> Row:
        """Its row before anything is known but the names; ``row.id`` is what it is found by."""

    def run(self, built: Built) -> Result:
        """Do it, in this process."""


class Experiment:
    """Units that belong together, and their limits."""

    kind: ClassVar[str]
    """A word that tells the stores of different experiments apart."""
    timeout: float | None = None
    """Seconds that a unit may take."""
    memory: float | None = None
    """MB (10^6 bytes) of resident memory that the process of a unit and those that it starts may have together, the 150
    or so of Python included."""
    retries: int = 2
    """How often a unit that failed is tried again: its process may be lost through no fault of its own."""

    def check(self) -> None:
        """Raise BadInput if the units cannot be done here; asked before the first one."""

    def units(self) -> Sequence[Unit]:
        """All of them, each once."""
        raise NotImplementedError

    def asked(self) -> dict[str, Any]:
        """What the experiment is, as plain data."""
        raise NotImplementedError

    def as_json(self) -> str:
        """The experiment as text, with the ids of its units."""
        return json.dumps({**self.asked(), "units": [unit.row.id for unit in self.units()]})


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

    @property
    def row(self) -> Row:
        """Its row before anything is known."""
        return Row(self.id, self.problem, self.planner, self.seed)

    def run(self, built: Built) -> Result:
        """Play the episodes."""
        kept: list[Any] = []
        row = run_unit(**asdict(self), id=self.id, built=built, played=lambda run: kept.extend(traces(run.episodes)))
        if kept[0] is None:
            return Result(row)
        about = {"problem": self.problem, "planner": self.planner, "seed": self.seed}
        return Result(replace(row, trace=f"{self.id}.json"), {**about, "episodes": kept})


def play(unit: Unit, built: Built) -> Result:
    """What the processes of an engine do, unless told otherwise."""
    return unit.run(built)


def failure(row: Row, status: str, error: str) -> Result:
    """A unit that did not get to its end, with what is known of it."""
    return Result(replace(row, status=status, error=shortened(" ".join(error.split()), LONGEST)))
