"""The failure probability ζ of a session, and who has a share of it.

Half of ζ is for the rows of Sol: the i-th measurement of a state may be wrong with probability ζ/(2i(i+1)), shared
equally by its actions.  The other half is for lower bounds on returns: the σ-th policy that is evaluated may have a
wrong one with probability ζ/(2σ(σ+1)), at any of the looks at its returns.  Both sums are at most ζ/2, however long a
session goes on, so that all of its brackets hold together with probability 1 - ζ.
"""

from __future__ import annotations


class Ledger:
    """Hands out the shares of ζ, each once."""

    def __init__(self, zeta: float) -> None:
        self.zeta = zeta
        self.measurements = 0
        self.policies = 0

    def next_measurement(self, actions: int) -> float:
        """The share of each action of a measurement, if it were the next one."""
        return measurement_share(self.zeta, self.measurements + 1, actions)

    def measurement(self, actions: int) -> tuple[int, float]:
        """The number of a new measurement, and the share of each of its actions."""
        self.measurements += 1
        return self.measurements, measurement_share(self.zeta, self.measurements, actions)

    def policy(self) -> tuple[int, float]:
        """The number of a policy that will be evaluated from now on, and its share."""
        self.policies += 1
        return self.policies, policy_share(self.zeta, self.policies)


def measurement_share(zeta: float, number: int, actions: int) -> float:
    """Of each action of the number-th measurement."""
    return zeta / (2 * number * (number + 1) * actions)


def policy_share(zeta: float, number: int) -> float:
    """Of the number-th policy."""
    return zeta / (2 * number * (number + 1))
