"""The units of an experiment, each of which produces one row.

The id of a unit is a hash of all that determines its result, so that an experiment that is resumed or extended finds
its finished units.  Limits on time and memory are not part of it, nor is the version of the package.
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
    """The result of a unit: its row, and its trace as plain data, if any."""

    row: Row
    trace: Any = None


Built = Callable[[Row], None]
"""Called before the planner begins with a row that has the sizes of the instance, and no measurements."""


class Unit(Protocol):
    """One measurement, in any process; it must be picklable."""

    @property
    def row(self) -> Row:
        """The row before the run, with the names only; ``row.id`` identifies the unit."""

    def run(self, built: Built) -> Result:
        """Run in this process."""


class Experiment:
    """A set of units, and their limits."""

    kind: ClassVar[str]
    """A word that distinguishes the stores of different experiments."""
    timeout: float | None = None
    """The most seconds of a unit."""
    memory: float | None = None
    """The most MB (10^6 bytes) of resident memory of the process of a unit and its children together, about 150 for
    Python included."""
    retries: int = 2
    """How often a failed unit is tried again: its process may be lost for external reasons."""

    def check(self) -> None:
        """Raise BadInput if the units cannot be run here; called before the first one."""

    def units(self) -> Sequence[Unit]:
        """All units, each once."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The parameters of the experiment as plain data."""
        raise NotImplementedError

    def as_json(self) -> str:
        """The parameters and the ids of the units as JSON."""
        return json.dumps({**self.parameters(), "units": [unit.row.id for unit in self.units()]})


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
        """A hash of names, all parameters (defaults included), seed, episodes and budget."""
        whole = {"problem": complete_problem(self.problem), "planner": complete_planner(self.planner)}
        return content_id(asdict(self) | whole)

    @property
    def row(self) -> Row:
        """The row before the run."""
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
    """Run a unit: the default work of an engine."""
    return unit.run(built)


def failure(row: Row, status: str, error: str) -> Result:
    """The result of a unit that failed, with the row so far."""
    return Result(replace(row, status=status, error=shortened(" ".join(error.split()), LONGEST)))
