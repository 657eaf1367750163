"""Units on a Ray cluster (the extra ``ray``): a running one, by its address, or one started here.

There is one Ray actor per slot, which runs its units in a watched process, as :mod:`tensorplan.sweeps.engines` does:
limits, crashes and results are the same as without Ray.  An actor that is lost, alone or with its machine, is replaced,
and its unit fails.  All machines of the cluster must have this package installed.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

from tensorplan.core.errors import TensorplanError
from tensorplan.core.specs import whole
from tensorplan.parallel.clusters import connect
from tensorplan.sweeps.engines import LocalEngine, Work
from tensorplan.sweeps.unit import Result, Unit, failure, play


class RayEngine:
    """Actors of a Ray cluster; ``timeout`` in seconds and ``memory`` in MB bound every unit."""

    def __init__(
        self,
        workers: int | None = None,
        *,
        address: str | None = None,
        timeout: float | None = None,
        memory: float | None = None,
        work: Work = play,
    ) -> None:
        if workers is not None:
            workers = whole("workers", workers, 1)
        self._ray, self._started = connect(address, workers)
        there = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self.slots = there if workers is None else min(workers, there)
        self._limits = {"timeout": timeout, "memory": memory, "work": work}
        self._folder = os.getcwd()
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Unit, Any]] = {}

    def submit(self, unit: Unit) -> None:
        """Start a unit; a slot must be free."""
        actor = (
            self._idle.pop() if self._idle else self._ray.remote(num_cpus=1)(_Keeper).remote(self._limits, self._folder)
        )
        self._busy[actor.do.remote(unit)] = unit, actor

    def wait(self, seconds: float) -> list[tuple[Unit, Result]]:
        """The units that have finished, after at most so many seconds; may be empty."""
        ready, _ = self._ray.wait(list(self._busy), num_returns=1, timeout=seconds)
        over: list[tuple[Unit, Result]] = []
        for reference in ready:
            unit, actor = self._busy.pop(reference)
            try:
                over.append((unit, self._ray.get(reference)))
                self._idle.append(actor)
            except self._ray.exceptions.RayTaskError as error:  # its process did not start
                raise TensorplanError(f"a Ray actor cannot work: {error.cause}") from None
            except self._ray.exceptions.RayError as error:
                self._drop(actor)
                if getattr(error, "actor_init_failed", False):  # is this package on that machine?
                    raise TensorplanError(f"a Ray actor cannot start: {str(error).splitlines()[-1]}") from None
                lost = f"its Ray actor was lost ({type(error).__name__})"
                over.append((unit, failure(unit.row, "failed", lost)))
        return over

    def close(self) -> None:
        """Stop the actors, and the cluster if it was started here."""
        for actor in [*self._idle, *(actor for _, actor in self._busy.values())]:
            self._drop(actor)
        self._idle, self._busy = [], {}
        if self._started:
            self._ray.shutdown()

    def _drop(self, actor: Any) -> None:
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(actor)


class _Keeper:
    """Runs one unit at a time inside an actor; user code is found in ``folder``, if that machine has it."""

    def __init__(self, limits: dict[str, Any], folder: str) -> None:
        with suppress(OSError):
            os.chdir(folder)
            sys.path.append(folder)
        self.engine = LocalEngine(1, **limits)

    def do(self, unit: Unit) -> Result:
        """The result of a unit."""
        self.engine.submit(unit)
        while not (over := self.engine.wait(60.0)):
            pass
        return over[0][1]
