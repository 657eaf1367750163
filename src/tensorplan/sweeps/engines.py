"""Local processes that run units, each watched and replaced when it dies.

A worker is a fresh interpreter.  It receives units through a pipe and sends back results, one at a time; the parent
watches the time and the memory of busy workers.  A unit that ends its process, or exceeds a limit, has failed, and the
next one gets a new process; processes that the unit started end with the old one.

The output of units, from Python, C or programs that they start, goes into another pipe.  The parent reads all of it and
keeps the end, so that unlimited output takes neither memory nor disk.
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
"""Seconds between checks of the workers' memory."""
FAILED_STARTS = 5
"""How many workers in a row may end during start-up."""
KEPT = 2_000
"""The last characters of a unit's output that are kept: enough for a traceback, and rows stay small."""
WIDEST = 4
"""The most bytes of a character in UTF-8."""
CHUNK = 1 << 16
"""Bytes read at a time, as many as a pipe holds."""
REDIRECTS = os.name == "posix"
"""Whether the output of units can be captured; elsewhere a pipe is no file."""

Work = Callable[[Unit, Built], Result]


class Engine(Protocol):
    """Runs units, ``slots`` of them at a time."""

    slots: int

    def submit(self, unit: Unit) -> None:
        """Start a unit; a slot must be free."""

    def wait(self, seconds: float) -> list[tuple[Unit, Result]]:
        """The units that have finished, after at most so many seconds; may be empty."""

    def close(self) -> None:
        """Abort running units and release all resources."""


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
            raise BadInput("a memory limit needs /proc, as on Linux, and this system has none")
        self.timeout, self.memory, self.work = timeout, memory, work
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []
        self._failed_starts = 0
        self._checked = 0.0
        """When the memory was last checked."""

    def submit(self, unit: Unit) -> None:
        """Start a unit; a slot must be free."""
        worker = self._idle.pop() if self._idle else None
        if worker is not None and not worker.process.is_alive():
            worker.end()
            worker = None
        worker = worker or _Worker(self.work)
        self._busy.append(worker)
        worker.take(unit)

    def wait(self, seconds: float) -> list[tuple[Unit, Result]]:
        """The units that have finished, after at most so many seconds; may be empty."""
        end = time.monotonic() + seconds
        while True:
            pause = max(0.0, end - time.monotonic())
            if self.memory is not None:
                pause = min(pause, TICK)
            if self.timeout is not None:
                first = min((w.began for w in self._busy if w.ready), default=math.inf)
                pause = max(0.0, min(pause, first + self.timeout - time.monotonic()))
            connection.wait([pipe for w in self._busy for pipe in w.pipes], pause)
            used = self._used()
            over = [(w, result) for w in list(self._busy) if (result := self._poll(w, used)) is not None]
            for worker, _ in over:
                self._busy.remove(worker)
                self._keep(worker)
            if over or time.monotonic() >= end:
                return [(w.unit, w.with_output(result)) for w, result in over if w.unit is not None]

    def close(self) -> None:
        """Stop the processes."""
        for worker in self._idle + self._busy:
            worker.end()
        self._idle, self._busy = [], []

    def _used(self) -> dict[int, float]:
        """MB of memory by worker; empty without a limit, or before the next check is due."""
        if self.memory is None or time.monotonic() < self._checked + TICK:
            return {}
        used = resident([w.pid for w in self._busy])
        self._checked = time.monotonic()
        return used

    def _poll(self, worker: _Worker, used: Mapping[int, float]) -> Result | None:
        """The result of the worker's unit, None while it runs; ``used`` is MB of memory by worker."""
        assert worker.unit is not None
        result = worker.poll()
        if not worker.ready:
            if result is not None:
                self._replace(worker, worker.unit)
            return None
        self._failed_starts = 0
        if result is not None:
            return result
        if self.timeout is not None and time.monotonic() - worker.began >= self.timeout:
            worker.end()
            return failure(worker.row, "timeout", f"it took longer than {self.timeout:g} seconds")
        if self.memory is not None and used.get(worker.pid, 0.0) > self.memory:
            worker.end()
            return failure(worker.row, "memory", f"it used more than {self.memory:g} MB of memory")
        return None

    def _replace(self, worker: _Worker, unit: Unit) -> None:
        """Start another process for a unit whose worker ended during start-up."""
        self._failed_starts += 1
        if self._failed_starts > FAILED_STARTS:
            raise TensorplanError(
                f"the workers end during start-up ({worker.last_words}); "
                "a script that sweeps must do so below: if __name__ == '__main__'"
            )
        self._busy.remove(worker)
        self.submit(unit)

    def _keep(self, worker: _Worker) -> None:
        """Reuse the worker, unless it is dead or holds too much memory for the next unit."""
        if not worker.ended and (self.memory is None or worker.resident() <= self.memory / 2):
            self._idle.append(worker)
        else:
            worker.end()


class _Worker(Child):
    """A process and its current unit."""

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
        """When the unit began, after the interpreter has started."""
        self.tail = b""
        """The end of the unit's output."""

    @property
    def pipes(self) -> list[Any]:
        """The pipes to wait on."""
        return [self.pipe] if self.printed.closed else [self.pipe, self.printed]

    def take(self, unit: Unit) -> None:
        self.read()  # processes left by the unit before may still print
        self.unit, self.row, self.tail = unit, unit.row, b""
        self.began = time.monotonic()
        with suppress(OSError):  # it has just died, which the next poll finds
            self.pipe.send(unit)

    def poll(self) -> Result | None:
        """The result, if there is one; a failure if the process has ended."""
        assert self.unit is not None
        dead = not self.process.is_alive()  # checked first: a result sent before its end is received below
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
        """Read the output in the pipe, as much as it can hold."""
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
        """Stop the process and those it started; their output is kept."""
        super().end()
        self.read()
        self.printed.close()

    def with_output(self, result: Result) -> Result:
        """The result with the unit's output."""
        self.read()
        text = self.tail.decode("utf-8", "backslashreplace")
        if len(text) > KEPT:
            text = "..." + text[3 - KEPT :]
        return result._replace(row=replace(result.row, output=text or None))


# ------------------------------------------------------------------------------------------- inside a worker


def _serve(pipe: Any, printed: Any, work: Work) -> None:
    """Receive units and send results until the parent ends the process."""
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
    """Redirect stdout and stderr of this process and its children to the pipe, in UTF-8."""
    for stream in (1, 2):
        os.dup2(printed.fileno(), stream)
    sys.stdout, sys.stderr = (
        open(stream, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        for stream in (1, 2)
    )


def _flusher() -> Callable[[], None]:
    """A function that flushes all text buffers, those of C included, so that output precedes the result."""
    try:
        c: Callable[[None], Any] = ctypes.CDLL(None).fflush
    except (AttributeError, OSError, TypeError):  # not on this system
        c = id

    def flush() -> None:
        for text in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):  # the unit closed or replaced it
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
    """The message of an error, with the class of a foreign one; the class alone if there is no message."""
    try:
        text = str(error)
    except Exception:
        text = ""
    if isinstance(error, TensorplanError):
        return text
    return f"{type(error).__name__}: {text}" if text.strip() else type(error).__name__
