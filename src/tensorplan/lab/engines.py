"""Where units are done: in processes of this machine, each watched, each replaced when it dies.

A worker is a fresh interpreter.  It hears units through a pipe and answers with results, one at a time; the parent
keeps the clock and looks at the memory of those at work.  A unit that ends its process, or goes over a limit, is a
failed unit, and the next one gets a new process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection
from pathlib import Path
from typing import Any, Protocol

from tensorplan.access.processes import Child, processors
from tensorplan.errors import BadInput, TensorplanError
from tensorplan.lab.suites import Unit
from tensorplan.lab.units import Facts, Result, failure, play
from tensorplan.specs import whole

TICK = 0.05
"""Seconds between two looks at the memory of the workers."""
PATIENCE = 5
"""How many workers in a row may end while they start."""

Work = Callable[[Unit, Callable[[Facts], None]], Result]


class Engine(Protocol):
    """Does units, ``slots`` of them at a time."""

    slots: int

    def submit(self, unit: Unit) -> None:
        """Take on a unit; a slot must be free."""

    def wait(self, seconds: float) -> list[tuple[Unit, Result]]:
        """What was finished, after at most so many seconds; may be nothing."""

    def close(self) -> None:
        """Drop what is under way and let go of everything."""


class LocalEngine:
    """Processes of this machine; ``timeout`` in seconds and ``memory`` in MB bound every unit."""

    def __init__(
        self,
        workers: int | None = None,
        *,
        timeout: float | None = None,
        memory: float | None = None,
        work: Work = play,
    ) -> None:
        self.slots = processors() if workers is None else whole("workers", workers, 1)
        if memory is not None and not Path("/proc/self/statm").exists():
            raise BadInput("a limit on memory needs /proc, as Linux has it, and this system has none")
        self.timeout, self.memory, self.work = timeout, memory, work
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []
        self._stillborn = 0

    def submit(self, unit: Unit) -> None:
        """Take on a unit; a slot must be free."""
        worker = self._idle.pop() if self._idle else None
        if worker is not None and not worker.process.is_alive():
            worker.end()
            worker = None
        worker = worker or _Worker(self.work)
        self._busy.append(worker)
        worker.take(unit)

    def wait(self, seconds: float) -> list[tuple[Unit, Result]]:
        """What was finished, after at most so many seconds; may be nothing."""
        end = time.monotonic() + seconds
        while True:
            pause = max(0.0, end - time.monotonic())
            if self.memory is not None:
                pause = min(pause, TICK)
            if self.timeout is not None:
                first = min((w.began for w in self._busy if w.ready), default=math.inf)
                pause = max(0.0, min(pause, first + self.timeout - time.monotonic()))
            connection.wait([w.pipe for w in self._busy], pause)
            over = [(w, result) for w in list(self._busy) if (result := self._look(w)) is not None]
            for worker, _ in over:
                self._busy.remove(worker)
                self._keep(worker)
            if over or time.monotonic() >= end:
                return [(w.unit, result) for w, result in over if w.unit is not None]

    def close(self) -> None:
        """End the processes."""
        for worker in self._idle + self._busy:
            worker.end()
        self._idle, self._busy = [], []

    def _look(self, worker: _Worker) -> Result | None:
        """What became of the worker's unit, or None while it is at work."""
        assert worker.unit is not None
        result = worker.hear()
        if not worker.ready:
            if result is not None:
                self._replace(worker, worker.unit)
            return None
        self._stillborn = 0
        if result is not None:
            return result
        if self.timeout is not None and time.monotonic() - worker.began >= self.timeout:
            worker.end()
            return failure(worker.unit, "timeout", f"it took longer than {self.timeout:g} seconds", worker.facts)
        if self.memory is not None and worker.resident() > self.memory:
            worker.end()
            return failure(worker.unit, "memory", f"it took more than {self.memory:g} MB of memory", worker.facts)
        return None

    def _replace(self, worker: _Worker, unit: Unit) -> None:
        """Another process for a unit that has not begun, because the first ended while it started."""
        self._stillborn += 1
        if self._stillborn > PATIENCE:
            raise TensorplanError(
                f"the workers end while they start ({worker.last_words}); "
                "a script that sweeps must do so below: if __name__ == '__main__'"
            )
        self._busy.remove(worker)
        self.submit(unit)

    def _keep(self, worker: _Worker) -> None:
        """Use the worker again, unless it is dead or has left too little memory for the next unit."""
        if not worker.ended and (self.memory is None or worker.resident() <= self.memory / 2):
            self._idle.append(worker)
        else:
            worker.end()


class _Worker(Child):
    """A process and the unit it is at."""

    def __init__(self, work: Work) -> None:
        super().__init__(_serve, work)
        self.ready = False
        self.unit: Unit | None = None
        self.began = 0.0
        """When the unit began, once the interpreter has started."""
        self.facts = Facts()

    def take(self, unit: Unit) -> None:
        self.unit, self.facts = unit, Facts()
        self.began = time.monotonic()
        with suppress(OSError):  # it has just died: heard of by whoever listens next
            self.pipe.send(unit)

    def hear(self) -> Result | None:
        """The result, if it is there; that of a unit whose process ended is a failure."""
        assert self.unit is not None
        try:
            while self.pipe.poll():
                said = self.pipe.recv()
                if isinstance(said, Result):
                    return said
                if isinstance(said, Facts):
                    self.facts = said
                else:
                    self.ready, self.began = True, time.monotonic()
        except (EOFError, OSError):
            self.end()
            return failure(self.unit, "failed", self.last_words, self.facts)
        return None


# ------------------------------------------------------------------------------------------- inside a worker


def _serve(pipe: Any, work: Work) -> None:
    """Units in, results out, until nobody asks any more."""
    pipe.send("ready")
    while True:
        pipe.send(attempt(pipe.recv(), work, pipe.send))


def attempt(unit: Unit, work: Work, tell: Callable[[Facts], None]) -> Result:
    """The result of a unit, errors included."""
    facts = Facts()

    def built(found: Facts) -> None:
        nonlocal facts
        facts = found
        tell(found)

    try:
        return work(unit, built)
    except MemoryError:
        return failure(unit, "memory", "there was no more memory", facts)
    except Exception as error:
        named = str(error) if isinstance(error, TensorplanError) else f"{type(error).__name__}: {error}"
        return failure(unit, "failed", named, facts)
