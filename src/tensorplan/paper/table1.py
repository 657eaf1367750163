"""Table 1 of the paper as an experiment: which problem classes are tractable.

A row is a class of problems, with *families* of instances that grow in one parameter, and planners that are run on
them.  A planner is *sound* at a size if the 95% interval of its mean loss lies below δ (the loss is that of
:class:`tensorplan.evaluation.row.Row`).  Its cost is the largest call of an episode.

The verdict depends on the measurements alone, by one rule for all rows: a class is tractable, ✓, if some planner is
sound at every size of every family and its cost does not grow exponentially by :mod:`tensorplan.paper.growth`; it is
intractable, ✗, if each planner is unsound somewhere or has a cost that grows exponentially; else the verdict is open.
That no planner can do better is shown by the theorems, not by an experiment: their bounds are given beside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from tensorplan.core.errors import BadInput
from tensorplan.core.intervals import Interval
from tensorplan.core.jsonable import plain
from tensorplan.core.specs import whole
from tensorplan.evaluation.estimates import student
from tensorplan.evaluation.row import Row
from tensorplan.paper.growth import Growth, growth
from tensorplan.paper.table1_rows import ROWS, Contender, InstanceFamily, TableRow
from tensorplan.sweeps.statistics import grouped
from tensorplan.sweeps.sweep import collect
from tensorplan.sweeps.unit import Experiment, PlannerUnit

APART = 1_000_000
"""The offset between the seeds of different rows, so that rows are independent."""

SLACK = 1e-6
"""By how much a loss may exceed δ, relative to δ + 1, before a planner is unsound: rounding."""


class TablePoint(NamedTuple):
    """The place of a measurement in the table."""

    row: int
    family: int
    player: str
    size: int
    seed: int


@dataclass(frozen=True)
class Table1Experiment(Experiment):
    """The measurements for some rows; several points of a row may share a unit."""

    rows: tuple[TableRow, ...]
    quick: bool = False
    """Small sizes and few seeds."""
    seed: int = 0
    kind: ClassVar[str] = "table1"

    @cached_property
    def points(self) -> dict[TablePoint, PlannerUnit]:
        """The units by point, large sizes first, so that none of them is left for the end."""
        found: dict[TablePoint, PlannerUnit] = {}
        for row in self.rows:
            for number, family in enumerate(row.families):
                for player in family.players:
                    found |= self._of(row, number, family, player)
        sizes = {where: sorted(set(known)) for where, known in grouped((p[:2], p.size) for p in found).items()}
        return dict(sorted(found.items(), key=lambda item: -sizes[item[0][:2]].index(item[0].size)))

    def _of(
        self, row: TableRow, number: int, family: InstanceFamily, player: Contender
    ) -> dict[TablePoint, PlannerUnit]:
        found = {}
        for above, size in enumerate(reversed(player.sizes or family.sizes(self.quick))):
            problem = family.problem(size, **player.options)
            few = (player.seeds or family.seeds[0 if self.quick else 1]) * 2 ** min(above, 2)
            for seed in range(self.seed, self.seed + few):
                point = TablePoint(row.number, number, player.name, size, seed)
                found[point] = PlannerUnit(problem, player.spec, APART * row.number + seed, family.episodes)
        return found

    def units(self) -> list[PlannerUnit]:
        """The units, each once."""
        return list({unit.id: unit for unit in self.points.values()}.values())

    def parameters(self) -> dict[str, Any]:
        """The parameters of the experiment as plain data."""
        return {"quick": self.quick, "rows": [row.number for row in self.rows], "seed": self.seed}


@dataclass(frozen=True)
class AtSize:
    """One planner at one size of a family, over the seeds."""

    size: int
    queries: Interval
    loss: Interval
    sound: bool
    runs: int
    refuted: int
    """Runs in which the planner refuted that the problem is of its class."""


@dataclass(frozen=True)
class CostCurve:
    """One planner on one family."""

    player: str
    whole: bool
    """Whether it was measured at every size."""
    at: tuple[AtSize, ...]
    growth: Growth | None

    @property
    def sound(self) -> bool:
        """Whether it is sound at every size."""
        return all(a.sound for a in self.at)


@dataclass(frozen=True)
class FamilyResult:
    """All planners on one family."""

    family: InstanceFamily
    curves: tuple[CostCurve, ...]


@dataclass(frozen=True)
class RowResult:
    """The measurements of one row."""

    row: TableRow
    families: tuple[FamilyResult, ...]

    @property
    def candidates(self) -> list[str]:
        """The planners measured at every size of every family."""
        curves = [{c.player for c in f.curves if c.whole} for f in self.families]
        return [p.name for p in self.row.families[0].players if curves and all(p.name in names for names in curves)]

    @property
    def verdict(self) -> bool | None:
        """Whether the class is tractable; None if that is open."""
        if not self.candidates or any(not f.curves for f in self.families):
            return None
        kinds = [self._kind(name) for name in self.candidates]
        if True in kinds:
            return True
        return False if all(kind is False for kind in kinds) else None

    @property
    def best(self) -> str | None:
        """The decisive planner: the cheapest of those that make the row tractable, else of the sound ones."""
        fine = [n for n in self.candidates if self._kind(n)]
        sound = [n for n in self.candidates if all(c.sound for c in self.curves(n))]
        pool = fine or sound or self.candidates
        return min(pool, key=lambda n: self.curves(n)[0].at[-1].queries.mean, default=None)

    def curves(self, player: str) -> list[CostCurve]:
        """The curves of one planner, family by family."""
        return [c for f in self.families for c in f.curves if c.player == player]

    def _kind(self, player: str) -> bool | None:
        """Whether the planner is sound at a cost that is not exponential; None if undecided."""
        curves = self.curves(player)
        verdicts = [None if c.growth is None else c.growth.verdict for c in curves]
        if "exponential" in verdicts or not all(c.sound for c in curves):
            return False
        return True if all(v in ("polynomial", "flat") for v in verdicts) else None


@dataclass(frozen=True)
class Table1:
    """The measured table, and why it stopped early, if it did."""

    rows: tuple[RowResult, ...]
    stopped: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether every verdict is the paper's."""
        return all(r.verdict is r.row.paper for r in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"stopped": self.stopped, "agrees": self.agrees, "rows": [_plain_row(r) for r in self.rows]}


def _plain_row(result: RowResult) -> dict[str, Any]:
    row = result.row
    families = [
        {
            "family": f.family.name,
            "grows": f.family.symbol,
            "delta": f.family.delta,
            "forced": {a.size: f.family.forced(a.size) for a in f.curves[0].at} if f.family.forced else None,
            "planners": [{**plain(c), "sound": c.sound} for c in f.curves],
        }
        for f in result.families
    ]
    return {
        "row": row.number,
        "source": row.source,
        "actions": row.actions,
        "class": row.members,
        "verdict": result.verdict,
        "paper": row.paper,
        "planner": result.best,
        "families": families,
    }


# ------------------------------------------------------------------------------------------------------ running


def table1(experiment: Table1Experiment, out: str | Path | None = None, **options: Any) -> Table1:
    """The measured rows of the experiment; ``out`` and ``options`` as in :func:`tensorplan.sweeps.sweep.collect`."""
    found, stopped = collect(experiment, out, **options)
    done = {point: found[unit.id] for point, unit in sorted(experiment.points.items()) if unit.id in found}
    return Table1(tuple(_row_result(row, done, experiment.quick) for row in experiment.rows), stopped)


def rows_of(numbers: Iterable[int] | None) -> tuple[TableRow, ...]:
    """The rows with these numbers; None for all."""
    if numbers is None:
        return ROWS
    chosen = [whole("row", n, 1, len(ROWS)) for n in numbers]
    if not chosen:
        raise BadInput("name at least one row")
    return tuple(row for row in ROWS if row.number in chosen)


# ------------------------------------------------------------------------------------------------------ reading


def _row_result(row: TableRow, done: Mapping[TablePoint, Row], quick: bool) -> RowResult:
    families = []
    for number, family in enumerate(row.families):
        mine = grouped((p.player, (p.size, r)) for p, r in done.items() if p[:2] == (row.number, number))
        curves = [_curve(p.name, family, mine[p.name], quick) for p in family.players if p.name in mine]
        families.append(FamilyResult(family, tuple(curves)))
    return RowResult(row, tuple(families))


def _curve(player: str, family: InstanceFamily, mine: Sequence[tuple[int, Row]], quick: bool) -> CostCurve:
    at = [_at_size(size, family, rows) for size, rows in grouped(mine).items()]
    grown = growth([size for size, _ in mine], [_cost(row) for _, row in mine])
    return CostCurve(player, {a.size for a in at} >= set(family.sizes(quick)), tuple(at), grown)


def _at_size(size: int, family: InstanceFamily, rows: Sequence[Row]) -> AtSize:
    loss = student([math.inf if row.loss is None else row.loss for row in rows])
    sound = loss.high <= family.delta + SLACK * (1 + family.delta)
    refuted = sum(row.error is not None for row in rows)
    return AtSize(size, student([_cost(row) for row in rows]), loss, sound, len(rows), refuted)


def _cost(row: Row) -> int:
    assert row.worst_call is not None
    return row.worst_call
