"""Resumable sweeps: every finished unit is on disk before the next one begins in its place.

After any interruption, SIGKILL and power cuts included, ``resume=True`` runs what is left, and nothing twice.  A unit
is finished when it is done, or has failed ``retries`` + 1 times.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tensorplan.core.errors import BadInput
from tensorplan.core.specs import one_of
from tensorplan.evaluation.row import Row
from tensorplan.sweeps.engines import Engine, LocalEngine
from tensorplan.sweeps.store import Store, lock
from tensorplan.sweeps.unit import Experiment, Unit

ENGINES = ("local", "ray")
REPORT_EVERY = 0.5
"""The most seconds between progress reports."""


@dataclass(frozen=True)
class Progress:
    """The progress of a sweep."""

    done: int
    """Finished units, failures included."""
    total: int
    failures: int
    rate: float
    """Units finished per second, by this process."""
    remaining: float | None
    """Seconds at that rate; None before the first unit has finished."""
    rows: Sequence[Row]
    """The rows so far, in the order of finishing; a live list."""


def sweep(
    experiment: Experiment,
    out: str | Path,
    *,
    engine: str | Engine = "local",
    workers: int | None = None,
    address: str | None = None,
    resume: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Store:
    """Run all units of the experiment, a suite for instance; the store of their rows, in the folder ``out``.

    ``engine``: ``"local"`` for processes of this machine, ``"ray"`` for a Ray cluster, at ``address`` or started here,
    or your own engine.  ``workers``: units at a time, by default one per processor.  ``resume``: continue with the
    runs in the folder; otherwise a folder with runs is refused.  ``progress`` is called after every unit and twice a
    second.  Ctrl-C ends the sweep with the finished rows and ``stopped == "interrupted"``.
    """
    out = Path(out)
    experiment.check()
    with lock(out):
        store = Store.create(out, experiment, grow=resume)
        try:
            crew = _engine(engine, workers, address, experiment)
            with closing(crew):
                _Sweep(experiment, store, crew, progress).run()
        except KeyboardInterrupt:
            store.stopped = "interrupted"
        except BaseException:
            store.close()
            raise
        return store


def collect(experiment: Experiment, out: str | Path | None, **options: Any) -> tuple[dict[str, Row], str | None]:
    """The rows that are done by the ids of their units, and why the experiment stopped early, or None.

    Runs in the folder ``out`` are not repeated; without one nothing is kept.  ``options`` are those of :func:`sweep`.
    """
    place = TemporaryDirectory() if out is None else nullcontext(str(out))
    with place as folder, sweep(experiment, folder, resume=True, **options) as store:
        rows, stopped = store.rows(), store.stopped
    failed = [row for row in rows if not row.done]
    if failed and stopped is None:
        first = f"{failed[0].planner} on {failed[0].problem}, seed {failed[0].seed}: {failed[0].error}"
        stopped = f"{len(failed):,} of {len(rows):,} units failed, the first of them {first}"
    return {row.id: row for row in rows if row.done}, stopped


def _engine(engine: str | Engine, workers: int | None, address: str | None, limits: Experiment) -> Engine:
    if not isinstance(engine, str):
        return engine
    if one_of("engine", engine, ENGINES) == "local":
        if address is not None:
            raise BadInput(f"the address {address!r} is that of a Ray cluster, and the engine is 'local'")
        return LocalEngine(workers, timeout=limits.timeout, memory=limits.memory)
    from tensorplan.sweeps.engine_ray import RayEngine

    return RayEngine(workers, address=address, timeout=limits.timeout, memory=limits.memory)


class _Sweep:
    """A running sweep."""

    def __init__(
        self, experiment: Experiment, store: Store, engine: Engine, progress: Callable[[Progress], None] | None
    ) -> None:
        self.store, self.engine, self.progress = store, engine, progress
        self.retries = experiment.retries
        units, found = experiment.units(), store.found()
        self.total = len(units)
        ids = [unit.row.id for unit in units]
        self.attempts = {id: found[id].attempts for id in ids if id in found}
        self.rows = [found[id] for id in ids if id in found and self._final(found[id])]
        final = {row.id for row in self.rows}
        self.todo = deque(unit for unit, id in zip(units, ids, strict=True) if id not in final)
        self.failures = sum(not row.done for row in self.rows)
        self.before = len(self.rows)
        self.began = time.monotonic()

    def run(self) -> None:
        """Run until all units are finished."""
        self._tell()
        busy = 0
        while self.todo or busy:
            while self.todo and busy < self.engine.slots:
                self.engine.submit(self.todo.popleft())
                busy += 1
            for unit, (row, trace) in self.engine.wait(REPORT_EVERY):
                busy -= 1
                if trace is not None and row.trace is not None:
                    self.store.write_trace(row.trace, trace)
                self._finish(unit, row)
            self._tell()

    def _finish(self, unit: Unit, row: Row) -> None:
        """Store the row, and queue a failed unit again if retries are left."""
        self.attempts[row.id] = self.attempts.get(row.id, 0) + 1
        row = replace(row, attempts=self.attempts[row.id])
        self.store.add(row)
        if self._final(row):
            self.rows.append(row)
            self.failures += not row.done
        else:
            self.todo.append(unit)

    def _final(self, row: Row) -> bool:
        return row.done or row.attempts > self.retries

    def _tell(self) -> None:
        if self.progress is not None:
            done = len(self.rows)
            rate = (done - self.before) / max(time.monotonic() - self.began, 1e-9)
            left = (self.total - done) / rate if rate else None
            self.progress(Progress(done, self.total, self.failures, rate, left, self.rows))
