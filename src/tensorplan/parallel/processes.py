"""Child processes: fresh interpreters that end with their parent, however it ends.

Each leads a process group and a session of its own.  Processes started by its code belong to that group unless they
leave it: they are ended with it, and their memory is counted with it.

Numerical libraries are limited to one thread per child: parallelism is then the number of processes, and sums have the
same order on every machine.
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
"""The environment variables that limit the threads of numerical libraries."""
EXIT_WAIT = 0.2
"""Seconds for a child that is ending by itself, so that it keeps its exit code."""
MB = 1_000_000


class Child:
    """A child process that runs ``serve(pipe, *args)``; ``self.pipe`` is the other end of its pipe."""

    def __init__(self, serve: Callable[..., None], *args: Any) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_begin, args=(_folder(), serve, theirs, *args), daemon=True)
        with single_threaded(), _without_sigint():
            self.process.start()
        theirs.close()
        self.ended = False
        self._kill = weakref.finalize(self, _end_group, self.process, os.getpid())  # at the latest when self is deleted

    def end(self) -> None:
        """End the process and all processes of its group."""
        self.ended = True
        self.process.join(EXIT_WAIT)
        self._kill()
        self.process.join()
        self.pipe.close()

    @property
    def last_words(self) -> str:
        """How the process ended, as part of a message."""
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"its process ended with exit code {code}"
        try:
            return f"its process was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"its process was ended by signal {-code}"

    def resident(self) -> float:
        """MB of resident memory of the process and its group."""
        assert self.process.pid is not None
        return resident([self.process.pid])[self.process.pid]


def resident(groups: Collection[int]) -> dict[int, float]:
    """MB of resident memory of each process group (Linux only); shared memory is counted in every process."""
    pages = dict.fromkeys(groups, 0)
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                group = os.getpgid(int(name))
                if group in pages:
                    pages[group] += int(Path("/proc", name, "statm").read_text().split()[1])
            except (OSError, IndexError):  # the process has ended
                continue
    return {group: count * os.sysconf("SC_PAGE_SIZE") / MB for group, count in pages.items()}


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def single_threaded() -> Iterator[None]:
    """Limit numerical libraries of processes started within to one thread, unless the user set another limit."""
    added = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@contextmanager
def _without_sigint() -> Iterator[None]:
    """Block SIGINT, so that processes started within inherit the mask and ignore Ctrl-C from their first moment."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it unblocks SIGINT when it starts, so it must run already
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_group(process: Any, parent: int) -> None:
    """Send SIGKILL to a child and all processes of its group."""
    if os.getpid() != parent:
        return  # a fork of the parent: the children are not its own
    ended = process.exitcode is not None
    with suppress(AttributeError, OSError):  # no groups on this system, or the child has not made its own yet
        # The system does not reuse a number that names a group: if a process has the number of a child that ended, it
        # is an unrelated one, and the group is empty.
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
    """The main function of a child: ignore Ctrl-C, which the parent handles, and end with the parent."""
    os.chdir(folder)
    if hasattr(os, "setsid"):
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):  # the parent closed the pipe
        serve(pipe, *args)


def _end_with_parent() -> None:
    """Wait until the parent ends, even if it is killed, then end this process and its group."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
