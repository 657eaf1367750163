"""Processes that work for this one: fresh interpreters, watched from here, that end when this one is gone.

Each is the leader of a process group of its own, in a session of its own.  The processes that its code starts belong to
that group unless they leave it: they end with it, and their memory is counted with its own.

Libraries that would use several threads are told to use one: so much work at a time as there are processes, and the
same sums in the same order whatever the machine.
"""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
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
        self.process = context.Process(target=_begin, args=(_folder(), serve, theirs, *args), daemon=True)
        with single_threaded(), _deaf():
            self.process.start()
        theirs.close()
        self.ended = False
        self._forsaken = weakref.finalize(self, _end_group, self.process, os.getpid())
        """Ends the group when nobody did so before this object, or this process, is gone."""

    def end(self) -> None:
        """End the process and all that it started; one that is ending by itself keeps its exit code."""
        self.ended = True
        self.process.join(0.2)
        self._forsaken()
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
        """MB of resident memory of the process and of those that it started."""
        assert self.process.pid is not None
        return resident([self.process.pid])[self.process.pid]


def resident(groups: Collection[int]) -> dict[int, float]:
    """MB of resident memory of each process group, as Linux tells it; what processes share counts in each of them."""
    pages = dict.fromkeys(groups, 0)
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                group = os.getpgid(int(name))
                if group in pages:
                    pages[group] += int(Path("/proc", name, "statm").read_text().split()[1])
            except (OSError, IndexError):  # it is gone by now
                continue
    return {group: count * os.sysconf("SC_PAGE_SIZE") / MB for group, count in pages.items()}


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


def _end_group(process: Any, parent: int) -> None:
    """SIGKILL to a child and to all processes of its group."""
    if os.getpid() != parent:
        return  # a copy of the parent, which has no children
    ended = process.exitcode is not None
    with suppress(AttributeError, OSError):  # no groups on this system, or the child has not come to make its own
        # A number is not given out again while it names a group: where a process has that of a child which has ended,
        # it is another one's, and the group is empty.
        if not (ended and _exists(process.pid)):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def _folder() -> str:
    """Where relative paths start, in the children too; multiprocessing goes by where the parent was started."""
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return os.sep


def _begin(folder: str, serve: Callable[..., None], pipe: Any, *args: Any) -> None:
    """The life of a child: Ctrl-C is for the parent to hear, and its end is the child's."""
    os.chdir(folder)
    if hasattr(os, "setsid"):
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):  # nobody asks any more
        serve(pipe, *args)


def _follow_parent() -> None:
    """Wait for the end of the parent, which may be sudden, and end too, with all that was started here."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
