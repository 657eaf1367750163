"""The failure probability ζ of a session, and its division among all that samples may get wrong.

    what may fail                                each                 together
    the rows of the i-th measured state          ζ/(8 i(i+1))         ζ/8
    the i-th sum over several states             3ζ/(8 i(i+1))        3ζ/8
    the lower bound of the i-th policy           ζ/(2 i(i+1))         ζ/2

Σ 1/(i(i+1)) = 1, so that all brackets of a session hold together with probability 1 - ζ, however long it goes on.  Half
of ζ is for upper bounds, half for lower bounds.  Each of these events is about all sample sizes at once: looking at the
samples so far, as often as one likes, takes no further share.
"""

from __future__ import annotations

from collections import Counter

SHARES = {"rows": 1 / 8, "sum": 3 / 8, "policy": 1 / 2}
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
