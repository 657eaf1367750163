"""Scenarios and episodes on several processes, or on a Ray cluster, with the same results.

What a scenario is depends on its number alone, and replies are taken in the order of numbers, so a bracket does not
depend on how many processes there are.  Queries are charged as replies are taken; when the budget is spent, a few
scenarios that others have under way are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tensorplan.access.meter import Meter
from tensorplan.core.errors import BudgetSpent, TensorplanError
from tensorplan.hindsight.bundle import BLOCK as BUNDLE
from tensorplan.hindsight.scenario import Scenario
from tensorplan.hindsight.subject import BLOCK, Design, Subject
from tensorplan.parallel.pool import Pool, ServerDied, Shipped, make_pool

SCENARIOS, EPISODES = 4, 64
"""How many are requested at a time, so that messages take little of the time."""


def at_once(subject: Subject) -> tuple[int, int]:
    """How many scenarios and episodes of a subject are requested at a time: whole blocks, where there are blocks."""
    return BUNDLE if subject.in_bundles else SCENARIOS, BLOCK if subject.in_blocks else EPISODES


class Request(NamedTuple):
    """Scenarios of a design, or episodes of so many steps if there is none."""

    design: Design | None
    times: int
    first: int
    last: int


@dataclass(frozen=True)
class _Simulator:
    """A subject as a server: ``_Simulator(make)()`` answers requests."""

    make: Callable[[], Subject]

    def __call__(self) -> Callable[[Request], Any]:
        subject = self.make()

        def reply(request: Request) -> list[tuple[Any, int]] | Exception:
            try:
                return _measured(subject, request)
            except Exception as error:
                return error if isinstance(error, TensorplanError) else RuntimeError(f"{type(error).__name__}: {error}")

        return reply


def _measured(subject: Subject, request: Request) -> list[tuple[Any, int]]:
    """Scenarios, or the returns of episodes, each with its queries; those of a block are told with its first one."""
    indices, meter = range(request.first, request.last), subject.access.meter
    found, before = list[tuple[Any, int]](), meter.spent
    results: Iterator[Any] = (
        subject.episodes(request.times, indices)
        if request.design is None
        else subject.scenarios(request.design, indices)
    )
    for result in results:
        if isinstance(result, Scenario):
            result.reached = []  # numbers of states mean nothing elsewhere
        found.append((result, meter.spent - before))
        before = meter.spent
    return found


class Crew:
    """A source of scenarios and episodes: ``make()`` gives the subject in each process."""

    def __init__(
        self,
        make: Callable[[], Subject],
        meter: Meter,
        engine: str,
        workers: int | None,
        at_once: tuple[int, int] = (SCENARIOS, EPISODES),
    ) -> None:
        shipped = Shipped.of(_Simulator(make), "the policy or the problem")
        self.pool: Pool = make_pool(shipped, engine, workers, None)
        self.meter = meter
        self._scenarios, self._episodes = at_once

    def scenarios(self, design: Design, indices: range) -> Iterator[Scenario]:
        """Scenarios behind a bound."""
        return self._replies(Request(design, 0, indices.start, indices.stop), self._scenarios)

    def episodes(self, times: int, indices: range) -> Iterator[float]:
        """Returns of the policy."""
        return self._replies(Request(None, times, indices.start, indices.stop), self._episodes)

    def close(self) -> None:
        """End the processes."""
        self.pool.close()

    def _replies(self, request: Request, size: int) -> Iterator[Any]:
        firsts = range(request.first, request.last, size)
        pieces = (request._replace(first=first, last=min(first + size, request.last)) for first in firsts)
        try:
            for reply in self.pool.replies(pieces, waiting=self.meter.check):
                for result, queries in reply:
                    self._charge(queries)
                    yield result
        except ServerDied:
            raise TensorplanError("several processes died over the same scenario") from None

    def _charge(self, queries: int) -> None:
        try:
            self.meter.charge(queries)
        except BudgetSpent:
            self.meter.charge(self.meter.left)
            raise
