"""The failure probability ζ of a session, and its division among measurements and policies.

Half of ζ is for the rows of Sol: the i-th measurement of a state may be wrong with probability ζ/(2i(i+1)), shared
equally by its actions.  The other half is for lower bounds on values: that of the σ-th evaluated policy may be wrong
with probability ζ/(2σ(σ+1)), over all looks at its returns.  Both sums are at most ζ/2, however long the session, so
all of its brackets hold together with probability 1 - ζ.
"""

from __future__ import annotations


class Ledger:
    """Hands out each share of ζ once."""

    def __init__(self, zeta: float) -> None:
        self.zeta = zeta
        self.measurements = 0
        self.policies = 0

    def next_measurement(self, actions: int) -> float:
        """The share of each action of the next measurement, without taking it."""
        number = self.measurements + 1
        return self.zeta / (2 * number * (number + 1) * actions)

    def measurement(self, actions: int) -> tuple[int, float]:
        """The number of a new measurement, and the share of each of its actions."""
        share = self.next_measurement(actions)
        self.measurements += 1
        return self.measurements, share

    def policy(self) -> tuple[int, float]:
        """The number of a new policy to be evaluated, and its share."""
        self.policies += 1
        return self.policies, self.zeta / (2 * self.policies * (self.policies + 1))
