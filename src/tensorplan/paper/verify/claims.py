"""The book of claims: in how many cases each was looked at, and which it broke."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
Number = Any
"""A float, an int or a Fraction."""

STATES = 500
"""How many states are sampled where there are too many to look at them all."""
ROUNDING = 1e-9
"""What floating point may be off by, where it is used."""

Progress = Callable[[int, int], None]
"""Called with the states looked at and how many there are, counted as often as they are looked at."""

BLIND = "features do not know the secret"
BELLMAN = "the closed forms solve Bellman's equation"
FORMULAS = "the closed forms are what backward induction finds"
"""Claims about every family."""


@dataclass(frozen=True)
class Check:
    """One claim, held against the problem."""

    name: str
    passed: bool
    detail: str
    """In how many cases it was looked at, and the first in which it failed."""
    worst: float
    """The largest error; for norms and rewards, the largest of these."""


@dataclass(frozen=True)
class Verification:
    """What was claimed of a problem, and whether it is so."""

    name: str
    method: str
    """``"exhaustive, exact fractions"`` or ``"sampled"``."""
    states: int
    """Different states, unreachable ones included."""
    secrets: int
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every claim held."""
        return all(check.passed for check in self.checks)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the claims that did not hold."""
        return tuple(check.name for check in self.checks if not check.passed)

    def __str__(self) -> str:
        verdict = "verified" if self.passed else f"NOT verified ({'; '.join(self.failed)})"
        secrets = f"{self.secrets} secret{'s' * (self.secrets != 1)}"
        return f"{self.name}: {verdict}, {self.method}, {self.states:,} states, {secrets}"


class Claims:
    """In how many cases each claim was looked at, the worst of them, and the first that broke it."""

    total = 0
    """How many states there are to look at, counted as often as they are looked at."""

    def __init__(self, claims: Sequence[str], progress: Progress | None = None) -> None:
        self.progress = progress
        self.done = 0
        self.cases = dict.fromkeys(claims, 0)
        self.broken = dict.fromkeys(claims, 0)
        self.worst = dict.fromkeys(claims, 0.0)
        self.first: dict[str, str] = {}
        self.more: dict[str, str] = {}
        self.beyond: set[str] = set()
        """What cannot be looked at in a problem of this size."""

    def at(self, place: Callable[[], str]) -> None:
        """Where we are, in words, which are asked for when a claim breaks."""
        self.place = place

    def tour(self, states: Iterable[T], place: Callable[[T], str]) -> Iterator[T]:
        """The states in turn; one is where we are until the next is asked for, and then it has been looked at."""
        for state in states:
            self.at(partial(place, state))
            yield state
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, self.total)

    def equal(self, claim: str, found: Sequence[Number], right: Sequence[Number]) -> None:
        """All are exactly equal."""
        error = max(abs(x - y) for x, y in zip(found, right, strict=True))
        self.bound(claim, error, error == 0)

    def near(self, claim: str, found: float, right: float) -> None:
        """They are equal but for rounding."""
        self.bound(claim, abs(found - right), abs(found - right) <= ROUNDING)

    def true(self, claim: str, holds: bool) -> None:
        """It is so."""
        self.bound(claim, 0 if holds else 1, holds)

    def bound(self, claim: str, size: Number, holds: bool) -> None:
        """It is so, of something whose size is worth knowing."""
        self.cases[claim] += 1
        self.worst[claim] = max(self.worst[claim], float(size))
        if not holds:
            self.broken[claim] += 1
            self.first.setdefault(claim, self.place())

    def checks(self) -> tuple[Check, ...]:
        """The verdicts; a claim that could have been looked at and never was has not passed."""
        return tuple(
            Check(claim, self.cases[claim] > self.broken[claim] == 0, self._detail(claim), self.worst[claim])
            for claim in self.cases
            if claim not in self.beyond
        )

    def _detail(self, claim: str) -> str:
        cases, broken = self.cases[claim], self.broken[claim]
        if not cases:
            return "no state that was looked at has to do with it: sample more of them"
        counted = f"{cases:,} case{'s' * (cases != 1)}"
        if broken:
            return f"fails in {broken:,} of {counted}, first {self.first[claim]}"
        return counted + (f", {self.more[claim]}" if claim in self.more else "")
