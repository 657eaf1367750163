"""Table 1 of the paper as an experiment: which classes are tractable, and which are not.

A row is a class of problems.  It has *families* of instances in that class that grow in one parameter, and planners
that are run on them.  A planner is *sound* at a size when the 95% interval of its mean loss lies below δ; the loss of
an episode is Σ_t v*(S_t) - q*(S_t, A_t), whose mean is v*(s0) - E[return].  Its cost is the largest call of an episode.

The verdict is read off the measurements alone, by one rule for all rows: a class is tractable, ✓, when some planner is
sound at every size of every family, and its cost does not grow exponentially by :mod:`tensorplan.paper.growth`; it is
intractable, ✗, when each planner is unsound somewhere or has a cost that grows exponentially; else the verdict is open.
That no planner at all can do better is what the theorems say, not what an experiment can show: the bound stands beside.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tensorplan.core import Learner, Node, Planner, Policy, Problem
from tensorplan.core.errors import BadInput, NotRealizable
from tensorplan.core.intervals import Interval
from tensorplan.core.jsonable import plain
from tensorplan.core.specs import whole
from tensorplan.judge.summaries import student
from tensorplan.loop import run
from tensorplan.paper.growth import Growth, growth
from tensorplan.paper.table1_rows import ROWS, Family, Player, Row

VERSION = 1
"""Of what a file of measurements holds."""

APART = 1_000_000
"""Seeds of different rows are apart by this, so that rows are independent of one another."""

SLACK = 1e-6
"""What a loss may be above δ by, relative to δ + 1, before a planner is unsound: rounding."""


class Unit(NamedTuple):
    """One thing to measure."""

    row: int
    family: int
    player: str
    size: int
    seed: int


@dataclass(frozen=True)
class Point:
    """What was measured."""

    queries: int
    """The largest call."""
    loss: float
    """The mean over the episodes."""
    refuted: bool
    """Whether the planner found that the problem is not of its class."""
    seconds: float


@dataclass(frozen=True)
class AtSize:
    """One planner at one size of a family, over the seeds."""

    size: int
    queries: Interval
    loss: Interval
    sound: bool
    runs: int
    refuted: int
    """Runs in which the planner found that the problem is not of its class."""


@dataclass(frozen=True)
class Curve:
    """One planner on one family."""

    player: str
    whole: bool
    """Whether it was measured at every size."""
    at: tuple[AtSize, ...]
    growth: Growth | None

    @property
    def sound(self) -> bool:
        """At every size."""
        return all(a.sound for a in self.at)


@dataclass(frozen=True)
class FamilyResult:
    """All planners on one family."""

    family: Family
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class RowResult:
    """One row, measured."""

    row: Row
    families: tuple[FamilyResult, ...]

    @property
    def candidates(self) -> list[str]:
        """The planners that were measured at every size of every family."""
        curves = [{c.player for c in f.curves if c.whole} for f in self.families]
        return [p.name for p in self.row.families[0].players if curves and all(p.name in names for names in curves)]

    @property
    def verdict(self) -> bool | None:
        """Tractable, intractable, or open."""
        if not self.candidates or any(not f.curves for f in self.families):
            return None
        kinds = [self._kind(name) for name in self.candidates]
        if True in kinds:
            return True
        return False if all(kind is False for kind in kinds) else None

    @property
    def best(self) -> str | None:
        """The planner that decides: the cheapest of those that make the row tractable, else of those that are sound."""
        fine = [n for n in self.candidates if self._kind(n)]
        sound = [n for n in self.candidates if all(c.sound for c in self.curves(n))]
        pool = fine or sound or self.candidates
        return min(pool, key=lambda n: self.curves(n)[0].at[-1].queries.mean, default=None)

    def curves(self, player: str) -> list[Curve]:
        """Of one planner, family by family."""
        return [c for f in self.families for c in f.curves if c.player == player]

    def _kind(self, player: str) -> bool | None:
        """Whether the planner is sound at a cost that is not exponential; None where that is not clear."""
        curves = self.curves(player)
        verdicts = [None if c.growth is None else c.growth.verdict for c in curves]
        if "exponential" in verdicts or not all(c.sound for c in curves):
            return False
        return True if all(v in ("polynomial", "flat") for v in verdicts) else None


@dataclass(frozen=True)
class Table1:
    """The table, measured, and what stopped it early."""

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


def table1(
    *,
    quick: bool = False,
    rows: Iterable[int] | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    workers: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Table1:
    """Measure the table, or some of its rows, in ``workers`` processes (as many as there are processors, unless given).

    ``out``: a file to which each measurement is added as soon as it is made; those that it holds are not made again.
    ``progress(done, total, what)`` is called after each.  Ctrl-C leaves the table as far as it got.
    """
    chosen = rows_of(rows)
    seed = whole("seed", seed, 0)
    todo = list(units(chosen, quick, seed))
    book = Book(None if out is None else Path(out), quick)
    done = {unit: book.points[unit] for unit in todo if unit in book.points}
    left = [unit for unit in todo if unit not in done]
    stopped = None
    try:
        for unit, point in _measured(left, whole("workers", workers or os.cpu_count() or 1, 1)):
            done[unit] = point
            book.add(unit, point)
            if progress is not None:
                progress(len(done), len(todo), f"row {unit.row}, {unit.player}, size {unit.size}")
    except KeyboardInterrupt:
        stopped = "interrupted"
    return Table1(tuple(_row_result(row, done, quick) for row in chosen), stopped)


def units(rows: Sequence[Row], quick: bool, seed: int = 0) -> Iterator[Unit]:
    """All that is to be measured; the large sizes first, so that no processor is left alone with one at the end."""
    found = []
    for row in rows:
        for number, family in enumerate(row.families):
            sizes = family.quick if quick else family.full
            seeds = family.seeds[0 if quick else 1]
            for player in family.players:
                for above, size in enumerate(reversed(player.sizes or sizes)):
                    few = (player.seeds or seeds) * 2 ** min(above, 2)
                    found += [Unit(row.number, number, player.name, size, s) for s in range(seed, seed + few)]
    rank = {unit: sorted({u.size for u in found if u[:2] == unit[:2]}).index(unit.size) for unit in found}
    return iter(sorted(found, key=lambda unit: -rank[unit]))


def measure(unit: Unit) -> Point:
    """One planner on one instance."""
    family, player = _find(unit)
    seed = APART * unit.row + unit.seed
    problem = family.problem(unit.size, seed, **player.options)
    scored = Scored(player.build(), problem)
    began, refuted = time.perf_counter(), False
    try:
        played = run(problem, scored, family.episodes, seed)
    except NotRealizable as error:
        if error.run is None:
            raise
        refuted, played = True, error.run
    if played.interrupted or (not refuted and len(played.episodes) < family.episodes):
        raise KeyboardInterrupt  # what it has asked until then is no measurement
    ended = all(e.complete for e in played.episodes) and len(scored.losses) == len(played.episodes)
    loss = float(np.mean(scored.losses)) if ended else float("inf")
    return Point(played.worst_call, loss, refuted, time.perf_counter() - began)


class Scored:
    """A planner, with its memory, whose losses are added up: of an episode, Σ_t v*(S_t) - q*(S_t, A_t)."""

    def __init__(self, planner: Planner, problem: Problem) -> None:
        self.planner = planner.session() if isinstance(planner, Learner) else planner
        self.problem = problem
        self.access = getattr(planner, "access", "local")
        self.losses: list[float] = []

    def begin(self, access: Any, rng: np.random.Generator) -> Policy:
        """Start an episode."""
        try:
            policy = self.planner.begin(access, rng)
        except NotRealizable as refuted:
            refuted.policy = self._scored(refuted.policy)
            raise
        return self._scored(policy)

    def _scored(self, policy: Policy) -> Policy:
        certificate = getattr(policy, "certificate", None)
        if certificate is not None and certificate.status == "interrupted":
            raise KeyboardInterrupt  # which the planner has heard, and nobody else
        self.losses.append(0.0)
        return _ScoredPolicy(policy, self)

    def score(self, node: Node, action: int) -> None:
        """Add the loss of one action."""
        value = self.problem.optimal_value(node.key, node.stage)
        self.losses[-1] += float(value - self.problem.optimal_action_value(node.key, action, node.stage))


@dataclass(frozen=True)
class _ScoredPolicy:
    policy: Policy
    judge: Scored

    def act(self, node: Node) -> int:
        action = self.policy.act(node)
        self.judge.score(node, action)
        return action


def _measured(todo: Sequence[Unit], workers: int) -> Iterator[tuple[Unit, Point]]:
    """Each unit with what was measured, as they are finished."""
    if workers == 1 or len(todo) < 2:
        for unit in todo:
            yield unit, measure(unit)
        return
    others = set(active_children())
    pool = ProcessPoolExecutor(
        min(workers, len(todo)), get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)
    )
    running: dict[Future[Point], Unit] = {}
    try:
        waiting = iter(todo)
        while True:
            for unit in waiting:
                running[pool.submit(measure, unit)] = unit
                if len(running) >= 2 * workers:
                    break
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    finally:
        if running:  # Ctrl-C: what is under way is not waited for
            for process in set(active_children()) - others:
                process.terminate()
        pool.shutdown(cancel_futures=True)


class Book:
    """The measurements in a file, one JSON line each behind a line that says what they are."""

    def __init__(self, path: Path | None, quick: bool) -> None:
        self.path = path
        self.points: dict[Unit, Point] = {}
        if path is None:
            return
        header = {"tensorplan": "table1", "version": VERSION, "quick": quick}
        try:
            lines = path.read_text().splitlines(keepends=True) if path.exists() else []
            if lines:
                self._read(lines, header)
            else:
                path.write_text(json.dumps(header) + "\n")
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from error

    def add(self, unit: Unit, point: Point) -> None:
        """Write one down."""
        self.points[unit] = point
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({**unit._asdict(), **asdict(point)}) + "\n")

    def _read(self, lines: list[str], header: dict[str, Any]) -> None:
        assert self.path is not None
        if _parse(lines[0]) != header:
            raise BadInput(f"{self.path} does not hold measurements of this table ({json.dumps(header)}); name another")
        for number, line in enumerate(lines[1:], 2):
            record = _parse(line)
            if record is None:
                if number < len(lines) or line.endswith("\n"):
                    raise BadInput(f"{self.path}, line {number}: not a measurement")
                text = "".join(lines[:-1])
                self.path.write_text(text)  # the last line was cut off while it was written
                break
            unit = Unit(**{name: record.pop(name) for name in Unit._fields})
            self.points[unit] = Point(**record)


def _parse(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


# ------------------------------------------------------------------------------------------------------ reading


def _row_result(row: Row, points: dict[Unit, Point], quick: bool) -> RowResult:
    families = []
    for number, family in enumerate(row.families):
        sizes = family.quick if quick else family.full
        found = [_curve(row, number, family, player, points, sizes) for player in family.players]
        families.append(FamilyResult(family, tuple(curve for curve in found if curve.at)))
    return RowResult(row, tuple(families))


def _curve(
    row: Row, number: int, family: Family, player: Player, points: dict[Unit, Point], sizes: Sequence[int]
) -> Curve:
    mine = {u: points[u] for u in sorted(points) if (u.row, u.family, u.player) == (row.number, number, player.name)}
    at = []
    for size in sorted({u.size for u in mine}):
        here = [p for u, p in mine.items() if u.size == size]
        loss = student([p.loss for p in here])
        sound = loss.high <= family.delta + SLACK * (1 + family.delta)
        queries, refuted = student([p.queries for p in here]), sum(p.refuted for p in here)
        at.append(AtSize(size, queries, loss, sound, len(here), refuted))
    grown = growth([u.size for u in mine], [p.queries for p in mine.values()])
    return Curve(player.name, {a.size for a in at} >= set(sizes), tuple(at), grown)


def rows_of(numbers: Iterable[int] | None) -> list[Row]:
    """The rows with these numbers, all of them for None."""
    if numbers is None:
        return list(ROWS)
    chosen = [whole("row", n, 1, len(ROWS)) for n in numbers]
    if not chosen:
        raise BadInput("name at least one row")
    return [row for row in ROWS if row.number in chosen]


def _find(unit: Unit) -> tuple[Family, Player]:
    row = next(row for row in ROWS if row.number == unit.row)
    family = row.families[unit.family]
    return family, next(player for player in family.players if player.name == unit.player)
