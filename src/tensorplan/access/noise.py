"""Random numbers by name: the same purpose, scenario and column give the same numbers, as often as they are wanted.

So one noise can move all states and actions, and a scenario is the same wherever and whenever it is simulated.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What random numbers are for; different purposes are independent."""

    TEST = 0
    """Scenarios behind a bound."""
    PILOT = 1
    """Scenarios that choose how bounds are computed."""
    FIT = 2
    """Scenarios that value functions are fitted on."""
    EPISODE = 3
    """Episodes of a policy, for its returns."""
    POLICY = 4
    """Decisions of a policy inside scenarios."""
    START = 5
    """Start states."""
    CHECK = 6
    """Whether the simulator uses the generator that it is given."""


class Noise:
    """Independent streams of random numbers, addressed by (purpose, scenario, column)."""

    def __init__(self, seed: int) -> None:
        key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        self._bits = np.random.Philox(key=key)
        self._state = self._bits.state
        self._rng = np.random.Generator(self._bits)

    def at(self, purpose: Purpose, scenario: int, column: int = 0) -> np.random.Generator:
        """The generator at the beginning of a stream; the next call sets the same object to another beginning."""
        self._state["state"]["counter"][:] = 0, column, scenario, purpose
        self._bits.state = self._state
        return self._rng


def episode(purpose: Purpose, index: int) -> int:
    """A number for an episode that no other purpose uses, which names the random numbers of its policy."""
    return (purpose << 48) + index
