"""The hard MDPs: many states stepped at once against one by one, and structured features against dense ones.

Steps: legal walks, half of them with frozen rounds, the same actions for both.  Features of p = 128: making one and its
inner product with θ*, against the dot product of d = 270,549,121 entries that it replaces.  That one is done in blocks
from the same two arrays of 128 MiB, far larger than the caches, so that 4 GiB are read but need not be held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.timing import race
from tensorplan.core import END
from tensorplan.problems.hard.batch import HardBatch
from tensorplan.problems.hard.features import paper_dimension
from tensorplan.problems.hard.mdp import HardMDP

SIZES = (16, 32, 64, 128)
MANY, FEW, ROUNDS = 20_000, 100, 4
BLOCK = 2**24


def walks(p: int, n: int, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Actions for n states, (p, n): a lane goes round its first p/4 <= m <= p components, so some repeat late."""
    length = np.where(rng.random(n) < 0.5, p, rng.integers(-(-p // 4), p, n))
    return (np.arange(p)[:, None] % length + rng.integers(p, size=n)) % p


def steps(p: int) -> dict[str, float]:
    """Seconds per step."""
    mdp, rng = HardMDP(p, 1000), np.random.default_rng(0)
    schedule = walks(p, MANY, rng)
    lists = schedule[:, :FEW].tolist()
    batch, alive = HardBatch(mdp, [mdp.root] * MANY), np.zeros(MANY, dtype=np.int64)
    for actions in [*schedule] * ROUNDS:  # compiles, and counts the steps before a walk comes upon the secret
        alive += ~batch.ended
        batch.step(actions, rng)

    def at_once() -> float:
        batch = HardBatch(mdp, [mdp.root] * MANY)
        for actions in [*schedule] * ROUNDS:
            batch.step(actions, rng)
        return float(alive.sum())

    def one_by_one() -> float:
        states: list[Any] = [mdp.root] * FEW
        for actions in lists * ROUNDS:
            states = [s if s is END else mdp.step(s, a, rng)[1] for s, a in zip(states, actions, strict=True)]
        return float(alive[:FEW].sum())

    return race({"at once": at_once, "one by one": one_by_one}, rounds=5)


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
    print("steps of the hard MDPs, per core")
    for p in SIZES:
        seconds = steps(p)
        rate, ratio = 1 / seconds["at once"], seconds["one by one"] / seconds["at once"]
        print(f"  p = {p:>3}: {rate:>12,.0f} per second = {ratio:.0f} x one by one")
    seconds = features()
    dense = seconds.pop("dense dot product")
    print(f"features of p = 128, d = {paper_dimension(128):,}: a dense dot product takes {dense * 1e3:.0f} ms")
    for name, time in seconds.items():
        print(f"  {name:<22} {time * 1e6:>6.1f} us = 1/{dense / time:,.0f} of it")


if __name__ == "__main__":
    main()
