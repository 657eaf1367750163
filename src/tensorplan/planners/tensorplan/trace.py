"""The iterations of TensorPlan as plain data, complete enough to draw the run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tensorplan.core import Access, Array
from tensorplan.optimism import Solution
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.tensorplan.sol import Sol, Source

Disjunction = tuple[float, tuple[tuple[float, ...], ...]]
"""(tol, (Δ_1, .., Δ_A)): some a has |<Δ_a, [1, θ]>| <= tol."""


class Step(NamedTuple):
    """One step of a rollout."""

    stage: int
    state: str
    action: int


class Failure(NamedTuple):
    """A state that excludes the optimistic parameter, and its violation."""

    stage: int
    state: str
    violation: float
    """The distance of the best temporal difference from zero."""


@dataclass(frozen=True)
class Iteration:
    """One iteration: the optimistic parameter, its rollout, and the constraints added.

    During a long search the callback also gets the unfinished iteration: without path, failures and constraints.
    """

    number: int
    theta: tuple[float, ...]
    upper: float
    """The least upper bound on v*(s0) so far."""
    lower: float
    """The greatest lower bound so far."""
    queries: int
    """Charged so far in the episode."""
    nodes: int
    """Nodes of the branch and bound in this iteration."""
    seconds: float
    """Since planning began."""
    solver_seconds: float
    """In the branch and bound in this iteration."""
    path: tuple[Step, ...] = ()
    """A rollout of the parameter's policy, up to the failure if there is one."""
    failures: tuple[Failure, ...] = ()
    rows: tuple[tuple[float, ...], ...] = ()
    """The rows added after it, or measured more accurately: (g_1, .., g_d, b) for <g, θ> <= b."""
    disjunctions: tuple[Disjunction, ...] = ()
    """The disjunctions added after it."""

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower


@dataclass(frozen=True)
class Trace:
    """The record of a planning run."""

    mode: str
    objective: tuple[float, ...]
    """φ(s0)."""
    radius: float
    rows: tuple[tuple[float, ...], ...]
    """The rows before the first iteration, in the form of :attr:`Iteration.rows`."""
    disjunctions: tuple[Disjunction, ...]
    iterations: tuple[Iteration, ...]


Callback = Callable[[Iteration], Any]
"""Called with every iteration; a true result stops planning."""

PULSE = 1.0
"""Seconds between two calls of the callback while no iteration is under way."""


class Watch:
    """Records iterations for the trace and the callback."""

    def __init__(self, mode: str, access: Access, sol: Sol, keep: bool, callback: Callback | None) -> None:
        self.mode, self.access, self.sol, self.keep, self.callback = mode, access, sol, keep, callback
        self.began = self.heard = time.perf_counter()
        self.number = 0
        self.iterations: list[Iteration] = []
        self.upper, self.lower = math.inf, -math.inf
        self.stopped = False
        """Whether the callback has stopped planning."""
        self.known: set[Hashable] = set()
        """The rows and disjunctions so far."""
        self.before = self._added() if keep else ((), ())

    @property
    def attended(self) -> bool:
        """Whether anyone wants to know of iterations."""
        return self.keep or self.callback is not None

    def searching(self, found: Solution) -> bool:
        """Report a long search within the next iteration; whether to stop it."""
        if self.callback is not None:
            record = self._record(self.number + 1, found, min(self.upper, found.bound + self.sol.eta), self.lower)
            self.stopped, self.heard = bool(self.callback(record)), time.perf_counter()
        return self.stopped

    def waiting(self) -> bool:
        """Tell the callback, once a second, that work goes on after the last iteration; whether to stop it."""
        if self.sol.deadline.passed:
            return True
        now = time.perf_counter()
        if self.callback is None or now - self.heard < PULSE:
            return False
        self.heard = now
        found = Solution("limit", None, -math.inf, self.upper, 0, 0.0)
        return bool(self.callback(self._record(self.number, found, self.upper, self.lower)))

    def tell(
        self,
        found: Solution,
        upper: float,
        lower: float,
        path: Iterable[tuple[Place, int]],
        failures: Iterable[tuple[Place, float]],
    ) -> None:
        """Record an iteration."""
        self.number += 1
        self.upper, self.lower = upper, lower
        if not self.attended:
            return
        rows, disjunctions = self._added()
        record = replace(
            self._record(self.number, found, upper, lower),
            path=tuple(Step(place.stage, repr(place.state), action) for place, action in path),
            failures=tuple(Failure(place.stage, repr(place.state), float(size)) for place, size in failures),
            rows=rows,
            disjunctions=disjunctions,
        )
        if self.keep:
            self.iterations.append(record)
        if self.callback is not None:
            self.stopped, self.heard = bool(self.callback(record)), time.perf_counter()

    def _added(self) -> tuple[tuple[tuple[float, ...], ...], tuple[Disjunction, ...]]:
        """The rows and disjunctions that were not there before, or rest on more samples now."""
        sol, parts = self.sol, []
        for sources in (sol.row_sources, sol.form_sources):
            keys = [_key(source, i) for i, source in enumerate(sources)]
            parts.append([i for i, key in enumerate(keys) if key not in self.known])
            self.known.update(keys)
        rows, forms = parts
        return (
            tuple((*sol.rows[i].tolist(), sol.bound(i)) for i in rows),
            tuple((sol.tolerance(i), tuple(tuple(delta) for delta in sol.forms[i].tolist())) for i in forms),
        )

    def _record(self, number: int, found: Solution, upper: float, lower: float) -> Iteration:
        return Iteration(
            number=number,
            theta=() if found.theta is None else tuple(found.theta.tolist()),
            upper=upper,
            lower=lower,
            queries=self.access.spent,
            nodes=found.nodes,
            seconds=time.perf_counter() - self.began,
            solver_seconds=found.seconds,
        )

    def trace(self, objective: Array) -> Trace | None:
        """The trace, if it was requested."""
        if not self.keep:
            return None
        rows, disjunctions = self.before
        return Trace(self.mode, tuple(objective.tolist()), self.sol.radius, rows, disjunctions, tuple(self.iterations))


def _key(source: Source, number: int) -> Hashable:
    """What tells a row or a disjunction from others; those that rest on samples are written anew at other places."""
    if source.samples is None:
        return source.kind == "choice", number
    return source.kind, id(source.about), source.action, source.samples
