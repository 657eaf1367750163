"""Processes that work for this one: fresh interpreters, watched from here, that end when this one is gone.

Libraries that would use several threads are told to use one: so much work at a time as there are processes, and the
same sums in the same order whatever the machine.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from pathlib import Path
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
MB = 1_000_000


class Child:
    """A process that hears what is sent to ``pipe`` and answers there: ``serve(its end of the pipe, *args)``."""

    def __init__(self, serve: Callable[..., None], *args: Any) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_begin, args=(serve, theirs, *args), daemon=True)
        with single_threaded(), _deaf():
            self.process.start()
        theirs.close()
        self.ended = False

    def end(self) -> None:
        """End the process, whatever it does; one that is ending by itself keeps its exit code."""
        self.ended = True
        self.process.join(0.2)
        self.process.kill()
        self.process.join()
        self.pipe.close()

    @property
    def last_words(self) -> str:
        """How the process ended."""
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"its process ended with exit code {code}"
        try:
            return f"its process was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"its process was ended by signal {-code}"

    def resident(self) -> float:
        """MB of resident memory, as Linux tells it; zero when the process is gone."""
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0.0
        return pages * os.sysconf("SC_PAGE_SIZE") / MB


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def single_threaded() -> Iterator[None]:
    """The environment of a new process, where nothing else was asked for."""
    added = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl-C waits until the end of this, and processes started here never hear it, not even while they start."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would let Ctrl-C through, if it were started below
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(serve: Callable[..., None], pipe: Any, *args: Any) -> None:
    """The life of a child: Ctrl-C is for the parent to hear, and its end is the child's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):  # nobody asks any more
        serve(pipe, *args)


def _follow_parent() -> None:
    """Wait for the end of the parent, which may be sudden, and end too."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
