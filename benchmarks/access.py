"""The price of metering: queries through local access against bare calls of the simulator, in the same run.

Single queries on a Python ``step`` of about a microsecond, and batches on a vectorised table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorplan as tp
from benchmarks.timing import race

SINGLE, BATCHES, BATCH = 100_000, 40, 50_000


class Mixer:
    """A stochastic-looking MDP in plain Python whose step takes about a microsecond."""

    horizon = 10
    actions = 2

    def start(self, rng: np.random.Generator) -> int:
        """Zero."""
        return 0

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[float, Any]:
        """A hash of (state, action), several rounds of it."""
        x = state * 0x9E3779B97F4A7C15 + action + 1
        for _ in range(6):
            x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        return (x >> 40) * 2.0**-24, x & 1023


def main() -> None:
    mixer = Mixer()
    task = tp.Problem(mixer, phi_v=lambda state, stage: np.ones(1), bound=1.0)
    rng = np.random.default_rng(0)

    def raw() -> float:
        state, step = 0, mixer.step
        for i in range(SINGLE):
            _, state = step(state, i & 1, rng)
        return SINGLE

    def metered() -> float:
        access = tp.LocalAccess(task, 0, rng)
        query, root = access.query, access.root
        node: Any = root
        for i in range(SINGLE):
            ((_, node),) = query(node, i & 1)
            if node is tp.END:
                node = root
        assert access.spent == SINGLE
        return SINGLE

    single = race({"bare": raw, "metered": metered})
    print("single queries")
    print(f"  bare step       {1 / single['bare']:>12,.0f} per second ({single['bare'] * 1e6:.2f} us)")
    print(
        f"  LocalAccess     {1 / single['metered']:>12,.0f} per second"
        f"   {single['bare'] / single['metered']:.2f} of the bare rate"
    )

    vector = tp.make("layered-stochastic/2x3:branching=8")
    table: Any = vector.mdp
    access = tp.LocalAccess(vector, 0, rng)

    def raw_batches() -> float:
        for _ in range(BATCHES):
            table.step_batch(0, 1, BATCH, rng)
        return BATCHES * BATCH

    def metered_batches() -> float:
        for _ in range(BATCHES):
            access.query(access.root, 1, BATCH)
        return BATCHES * BATCH

    batch = race({"bare": raw_batches, "metered": metered_batches})
    print(f"batches of {BATCH:,}")
    print(f"  bare step_batch {1 / batch['bare']:>12,.0f} per second")
    print(
        f"  LocalAccess     {1 / batch['metered']:>12,.0f} per second"
        f"   {batch['bare'] / batch['metered']:.2f} of the bare rate"
    )


if __name__ == "__main__":
    main()
