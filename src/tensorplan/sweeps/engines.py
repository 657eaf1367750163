"""Where units are done: in processes of this machine, each watched, each replaced when it dies.

A worker is a fresh interpreter.  It hears units through a pipe and answers with results, one at a time; the parent
keeps the clock and looks at the memory of those at work.  A unit that ends its process, or goes over a limit, is a
failed unit, and the next one gets a new process; what the unit had started ends with the old one.

What units print, be it in Python, in C or by programs that they start, goes into another pipe.  The parent reads it
all and keeps the end of it, so that a unit which prints without an end costs neither memory nor disk.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing import connection
from pathlib import Path
from typing import Any, Protocol

from tensorplan.core.errors import BadInput, TensorplanError
from tensorplan.core.specs import whole
from tensorplan.evaluation.row import Row
from tensorplan.parallel.processes import Child, processors, resident
from tensorplan.sweeps.unit import Built, Result, Unit, failure, play

TICK = 0.05
"""Seconds between two looks at the memory of the workers."""
PATIENCE = 5
"""How many workers in a row may end while they start."""
KEPT = 2_000
"""Characters of what a unit printed that are kept, the last ones: room for a traceback, and rows stay small."""
WIDEST = 4
"""Bytes of a character in UTF-8, at most."""
CHUNK = 1 << 16
"""Bytes that are read at a time, as many as a pipe holds."""
REDIRECTS = os.name == "posix"
"""Whether what units print can be kept; elsewhere a pipe is no file."""

Work = Callable[[Unit, Built], Result]


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
        self._looked = 0.0
        """When the memory was looked at."""

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
            connection.wait([pipe for w in self._busy for pipe in w.ears], pause)
            used = self._used()
            over = [(w, result) for w in list(self._busy) if (result := self._look(w, used)) is not None]
            for worker, _ in over:
                self._busy.remove(worker)
                self._keep(worker)
            if over or time.monotonic() >= end:
                return [(w.unit, w.with_output(result)) for w, result in over if w.unit is not None]

    def close(self) -> None:
        """End the processes."""
        for worker in self._idle + self._busy:
            worker.end()
        self._idle, self._busy = [], []

    def _used(self) -> dict[int, float]:
        """MB of memory of each worker, where there is a limit on it and it is time to look again."""
        if self.memory is None or time.monotonic() < self._looked + TICK:
            return {}
        used = resident([w.pid for w in self._busy])
        self._looked = time.monotonic()
        return used

    def _look(self, worker: _Worker, used: Mapping[int, float]) -> Result | None:
        """What became of the worker's unit, or None while it is at work; ``used`` is MB of memory by worker."""
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
            return failure(worker.row, "timeout", f"it took longer than {self.timeout:g} seconds")
        if self.memory is not None and used.get(worker.pid, 0.0) > self.memory:
            worker.end()
            return failure(worker.row, "memory", f"it took more than {self.memory:g} MB of memory")
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
        self.printed, theirs = connection.Pipe(duplex=False)
        super().__init__(_serve, theirs, work)
        theirs.close()
        if REDIRECTS:
            os.set_blocking(self.printed.fileno(), False)
        else:
            self.printed.close()
        assert self.process.pid is not None
        self.pid = self.process.pid
        self.ready = False
        self.unit: Unit | None = None
        self.began = 0.0
        """When the unit began, once the interpreter has started."""
        self.tail = b""
        """The end of what the unit has printed."""

    @property
    def ears(self) -> list[Any]:
        """Where to listen."""
        return [self.pipe] if self.printed.closed else [self.pipe, self.printed]

    def take(self, unit: Unit) -> None:
        self.read()  # what the unit before left running may go on printing
        self.unit, self.row, self.tail = unit, unit.row, b""
        self.began = time.monotonic()
        with suppress(OSError):  # it has just died: heard of by whoever listens next
            self.pipe.send(unit)

    def hear(self) -> Result | None:
        """The result, if it is there; that of a unit whose process ended is a failure."""
        assert self.unit is not None
        dead = not self.process.is_alive()  # asked first: what it said before is heard below
        self.read()
        try:
            while self.pipe.poll():
                said = self.pipe.recv()
                if isinstance(said, Result):
                    return said
                if isinstance(said, Row):
                    self.row = said
                else:
                    self.ready, self.began = True, time.monotonic()
        except (EOFError, OSError):
            dead = True
        if not dead:
            return None
        self.end()
        return failure(self.row, "failed", self.last_words)

    def read(self) -> None:
        """Take what was printed out of the pipe, as much as it can hold."""
        if self.printed.closed:
            return
        try:
            said = os.read(self.printed.fileno(), CHUNK)
        except BlockingIOError:
            return
        self.tail = (self.tail + said)[-WIDEST * KEPT :]
        if not said:
            self.printed.close()

    def end(self) -> None:
        """End the process and what it started; what they printed is still there."""
        super().end()
        self.read()
        self.printed.close()

    def with_output(self, result: Result) -> Result:
        """The result with what the unit has printed."""
        self.read()
        text = self.tail.decode("utf-8", "backslashreplace")
        if len(text) > KEPT:
            text = "..." + text[3 - KEPT :]
        return result._replace(row=replace(result.row, output=text or None))


# ------------------------------------------------------------------------------------------- inside a worker


def _serve(pipe: Any, printed: Any, work: Work) -> None:
    """Units in, results out, until nobody asks any more."""
    if REDIRECTS:
        _redirect(printed)
    printed.close()
    flush = _flusher()
    pipe.send("ready")
    while True:
        result = attempt(pipe.recv(), work, pipe.send)
        flush()
        pipe.send(result)


def _redirect(printed: Any) -> None:
    """Let everything that this process prints, and what it starts, go into the pipe; any character can be printed."""
    for stream in (1, 2):
        os.dup2(printed.fileno(), stream)
    sys.stdout, sys.stderr = (
        open(stream, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        for stream in (1, 2)
    )


def _flusher() -> Callable[[], None]:
    """What empties all buffers of text, those of C included, so that a unit's text is there before its result."""
    try:
        c: Callable[[None], Any] = ctypes.CDLL(None).fflush
    except (AttributeError, OSError, TypeError):  # not on this system
        c = id

    def flush() -> None:
        for text in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):  # the unit closed it, or put something else there
                text.flush()
        c(None)

    return flush


def attempt(unit: Unit, work: Work, tell: Built) -> Result:
    """The result of a unit, errors included."""
    row = unit.row

    def built(found: Row) -> None:
        nonlocal row
        row = found
        tell(found)

    try:
        return work(unit, built)
    except MemoryError:
        return failure(row, "memory", "there was no more memory")
    except Exception as error:
        return failure(row, "failed", _sentence(error))


def _sentence(error: Exception) -> str:
    """What an error says; a foreign one with its name, which is all where its text cannot be had."""
    try:
        text = str(error)
    except Exception:
        text = ""
    if isinstance(error, TensorplanError):
        return text
    return f"{type(error).__name__}: {text}" if text.strip() else type(error).__name__
