"""The failure probability ζ of a session, and its division among everything that samples may get wrong.

    what may fail                              each                                   together
    the i-th measurement of a state            ζ/(8 i(i+1)), shared by its actions    ζ/8
    the rows of the i-th state under watch     ζ/(8 i(i+1)), shared by A + 1 bets     ζ/8
    the i-th sum over several states           ζ/(4 i(i+1))                           ζ/4
    the lower bound of the i-th policy         ζ/(2 i(i+1))                           ζ/2

Σ 1/(i(i+1)) = 1, so that all brackets of a session hold together with probability 1 - ζ, however long it goes on.  Half
of ζ is for upper bounds, half for lower bounds.  A bet and a lower bound hold at all sample sizes at once, so that
looking at them costs nothing.
"""

from __future__ import annotations

from collections import Counter

SHARES = {"measurement": 1 / 8, "watch": 1 / 8, "sum": 1 / 4, "policy": 1 / 2}
"""The part of ζ for each kind of event."""


class Ledger:
    """Hands out each share of ζ once."""

    def __init__(self, zeta: float) -> None:
        self.zeta = zeta
        self.taken: Counter[str] = Counter()
        """How many events of each kind have a share."""

    def share(self, kind: str, number: int) -> float:
        """The probability with which the event of that kind and number may fail."""
        return self.zeta * SHARES[kind] / (number * (number + 1))

    def take(self, kind: str) -> tuple[int, float]:
        """The number of a new event, and its share."""
        self.taken[kind] += 1
        return self.taken[kind], self.share(kind, self.taken[kind])

    def next(self, kind: str) -> float:
        """The share of the next event of that kind, without taking it."""
        return self.share(kind, self.taken[kind] + 1)
