"""Whether the steps of a search run as Python or as machine code.

Both give the same answer to the last bit (see :mod:`tensorplan.optimism.kernels.vectors`), so this is a matter of time
alone.  Python needs a millisecond or so per node, machine code some microseconds; but to load it takes half a
second, and to compile it, once per user and version, a quarter of a minute.  So the work that was done in Python is
counted, over all searches of a process, and machine code is loaded or compiled when that much has been done.
"""

from __future__ import annotations

import gc
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np

from tensorplan.core.compiled import CodeFolder
from tensorplan.optimism import kernels
from tensorplan.optimism.kernels.compiled import Compilation
from tensorplan.optimism.kernels.state import PIVOTS, SOLVED, SearchState
from tensorplan.optimism.kernels.step import work

LOADING_PAYS = 40_000
"""Units of work from which on machine code is loaded if it is on disk.  A unit takes Python about 10 microseconds."""

COMPILING_PAYS = 1_000_000
"""Units of work from which on machine code is compiled: about what Python does while it is.  So it never takes much
more than twice as long as it would have with the better choice from the beginning."""

PER_PIVOT, PER_NODE, ROWS_PER_UNIT, ROWS_PER_SCAN = 10, 20, 16, 4
"""Units of a pivot in dimension 0 and of a node problem without pivots; rows that add one unit to a node, which looks
at few of them, and rows that are looked at in one: measured."""

LOADING = 1.0
"""Seconds in which machine code is loaded, even if the machine is busy."""

SECONDS = 20
"""What compiling takes, about, for who must wait for it."""


class Execution:
    """The steps of all searches of a process."""

    def __init__(self) -> None:
        self.code: Callable[..., int] | None = None
        self.done = 0.0
        """Units of work done in Python."""
        self._compilation: Compilation | None = None

    def is_compiled(self, state: SearchState, left: float = math.inf) -> bool:
        """Whether the next steps run as machine code, made ready if that pays and if the seconds left allow it."""
        if self.code is None:
            expected = self.done + _first_node(state)
            if expected >= LOADING_PAYS and left >= LOADING and self.folder.is_filled():
                self.code = self._load(state)
            if self.code is None and expected >= COMPILING_PAYS and left >= 2 * SECONDS:
                self.compile(state)
        return self.code is not None

    def work(self, state: SearchState, gap: float, steps: int) -> int:
        """Some steps of a search; see :func:`tensorplan.optimism.kernels.step.work`."""
        if self.code is not None:
            return self.code(state, gap, steps)
        before = _units(state)
        with np.errstate(all="ignore"):
            outcome = work(state, gap, steps)
        self.done += _units(state) - before
        return outcome

    def compile(self, state: SearchState) -> None:
        """Make machine code ready, unless another process is compiling it: its code can soon be loaded."""
        with self.folder.claimed() as ours:
            self.code = self._load(state)
            if self.code is None and ours and not _turned_off():
                print(_announcement(self.folder), file=sys.stderr, flush=True)
                made = Compilation(work, state, 0.0, 1)  # a fresh one: Ctrl-C may have left another half compiled
                self.folder.keep(made.entry)
                with _without_collector():
                    made.compile_all()
                self.folder.prune()
                self.code = made.entry

    @cached_property
    def folder(self) -> CodeFolder:
        """Where the machine code is kept."""
        return CodeFolder(sorted(Path(kernels.__file__).parent.glob("*.py")))

    def _load(self, state: SearchState) -> Callable[..., int] | None:
        """The machine code if it is on disk."""
        if _turned_off():
            return None
        if self._compilation is None:
            self._compilation = Compilation(work, state, 0.0, 1)
            self.folder.keep(self._compilation.entry)
        entry, signature = self._compilation.entry, self._compilation.signature
        if not self.folder.has(entry, signature):
            return None
        entry.compile(signature)
        return cast(Callable[..., int], entry)


@contextmanager
def _without_collector() -> Iterator[None]:
    """The compiler makes millions of objects and hardly any garbage; to look for it takes a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _turned_off() -> bool:
    return os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"


def _announcement(folder: CodeFolder) -> str:
    where = f"; {folder.instead_of} cannot be written, so it is kept in {folder.root}" if folder.instead_of else ""
    if folder.root is None:
        where = "; it cannot be kept, since no folder can be written"
    return f"compiling the optimiser, once, about {SECONDS} s{where}"


def _units(state: SearchState) -> float:
    """Units of the work that was done on a search so far."""
    nodes, pivots = int(state.tree.counters[SOLVED]), int(state.desk.given_up[PIVOTS])
    rows = len(state.rows.hi) + len(state.rows.scale)
    return pivots * (PER_PIVOT + 2 * len(state.best.x)) + nodes * (PER_NODE + rows / ROWS_PER_UNIT)


def _first_node(state: SearchState) -> float:
    """Units of a node problem whose active rows are not known from another one: d of them enter one after another."""
    d, rows = len(state.best.x), len(state.rows.hi) + len(state.rows.scale)
    return d * (PER_PIVOT + 2 * d + rows / ROWS_PER_SCAN)


EXECUTION = Execution()
"""The one of this process."""
