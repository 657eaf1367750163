"""Claims about a problem, and the record of the cases in which each was checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
Number = Any
"""A float, an int or a Fraction."""

STATES = 500
"""States sampled if there are too many to check all."""
ROUNDING = 1e-9
"""The tolerance of comparisons in floating point."""

Progress = Callable[[int, int], None]
"""Called with the number of states checked and their total, counted once per check."""

BLIND = "features do not know the secret"
BELLMAN = "the closed forms solve Bellman's equation"
FORMULAS = "the closed forms are what backward induction finds"
"""Claims about every family."""


@dataclass(frozen=True)
class Check:
    """The result of checking one claim."""

    name: str
    passed: bool
    detail: str
    """The number of cases checked, and the first that failed."""
    worst: float
    """The largest error; for norms and rewards, the largest of these."""


@dataclass(frozen=True)
class Verification:
    """The results of all checks of a problem."""

    name: str
    method: str
    """``"exhaustive, exact fractions"`` or ``"sampled"``."""
    states: int
    """Different states, unreachable ones included."""
    secrets: int
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every claim holds."""
        return all(check.passed for check in self.checks)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the claims that do not hold."""
        return tuple(check.name for check in self.checks if not check.passed)

    def __str__(self) -> str:
        verdict = "verified" if self.passed else f"NOT verified ({'; '.join(self.failed)})"
        secrets = f"{self.secrets} secret{'s' * (self.secrets != 1)}"
        return f"{self.name}: {verdict}, {self.method}, {self.states:,} states, {secrets}"


class Claims:
    """The record of each claim: the cases checked, the worst error, and the first failure."""

    total = 0
    """The number of states to check, counted once per check."""

    def __init__(self, claims: Sequence[str], progress: Progress | None = None) -> None:
        self.progress = progress
        self.done = 0
        self.cases = dict.fromkeys(claims, 0)
        self.broken = dict.fromkeys(claims, 0)
        self.worst = dict.fromkeys(claims, 0.0)
        self.first: dict[str, str] = {}
        self.more: dict[str, str] = {}
        self.beyond: set[str] = set()
        """Claims that cannot be checked in a problem of this size."""

    def at(self, place: Callable[[], str]) -> None:
        """Set the description of the current case, which is called if a claim fails."""
        self.place = place

    def tour(self, states: Iterable[T], place: Callable[[T], str]) -> Iterator[T]:
        """Iterate over states, with the current case and the progress set for each."""
        for state in states:
            self.at(partial(place, state))
            yield state
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.total)

    def equal(self, claim: str, found: Sequence[Number], right: Sequence[Number]) -> None:
        """Check exact equality of all pairs."""
        error = max(abs(x - y) for x, y in zip(found, right, strict=True))
        self.bound(claim, error, error == 0)

    def near(self, claim: str, found: float, right: float) -> None:
        """Check equality up to rounding."""
        self.bound(claim, abs(found - right), abs(found - right) <= ROUNDING)

    def true(self, claim: str, holds: bool) -> None:
        """Check a condition."""
        self.bound(claim, 0 if holds else 1, holds)

    def bound(self, claim: str, size: Number, holds: bool) -> None:
        """Check a condition on a quantity, whose largest size is recorded."""
        self.cases[claim] += 1
        self.worst[claim] = max(self.worst[claim], float(size))
        if not holds:
            self.broken[claim] += 1
            self.first.setdefault(claim, self.place())

    def checks(self) -> tuple[Check, ...]:
        """The results; a claim that could have been checked and never was has not passed."""
        return tuple(
            Check(claim, self.cases[claim] > self.broken[claim] == 0, self._detail(claim), self.worst[claim])
            for claim in self.cases
            if claim not in self.beyond
        )

    def _detail(self, claim: str) -> str:
        cases, broken = self.cases[claim], self.broken[claim]
        if not cases:
            return "no checked state is relevant: sample more of them"
        counted = f"{cases:,} case{'s' * (cases != 1)}"
        if broken:
            return f"fails in {broken:,} of {counted}, first {self.first[claim]}"
        return counted + (f", {self.more[claim]}" if claim in self.more else "")
