"""The hard MDPs: structured features against dense ones.

Features of p = 128: making one and its inner product with θ*, against the dot product of d = 270,549,121 entries that
it replaces.  That one is done in blocks from the same two arrays of 128 MiB, far larger than the caches, so that 4 GiB
are read but need not be held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.timing import race
from tensorplan.problems.hard.features import paper_dimension
from tensorplan.problems.hard.mdp import HardMDP

BLOCK = 2**24


def features() -> dict[str, float]:
    """Seconds per value."""
    mdp, rng = HardMDP(128, 128), np.random.default_rng(0)
    state: Any = mdp.root
    for a in rng.permutation(128)[:100].tolist():
        state = mdp.successor(state, a)
    feature, root = mdp.features(state), mdp.features(mdp.root)
    d = paper_dimension(128)
    theta, phi = rng.random(BLOCK), rng.random(BLOCK)

    def repeat(work: Callable[[], Any], times: int = 5_000) -> Callable[[], float]:
        def timed() -> float:
            for _ in range(times):
                work()
            return times

        return timed

    def dense() -> float:
        for _ in range(0, d, BLOCK):
            phi.dot(theta)
        return -(-d // BLOCK) * BLOCK / d

    return race(
        {
            "made and its value": repeat(lambda: mdp.features(state).value(mdp.secret)),
            "inner product of two": repeat(lambda: feature.dot(root)),
            "dense dot product": dense,
        },
        rounds=5,
    )


def main() -> None:
    seconds = features()
    dense = seconds.pop("dense dot product")
    print(f"features of p = 128, d = {paper_dimension(128):,}: a dense dot product takes {dense * 1e3:.0f} ms")
    for name, time in seconds.items():
        print(f"  {name:<22} {time * 1e6:>6.1f} us = 1/{dense / time:,.0f} of it")


if __name__ == "__main__":
    main()
