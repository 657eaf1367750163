"""Backward induction against a numpy copy of the arrays that it must read, and against the bare sparse products.

10^6 state-action pairs per stage, 50 stages, one or four successors per pair.  The copy is what memory bandwidth
allows; the products add the unavoidable look-ups of v at random places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

import tensorplan as tp
from benchmarks.timing import race

STATES, ACTIONS, STAGES, DISTINCT = 250_000, 4, 50, 5


def mdp(branching: int) -> tp.TabularMDP:
    """A layered MDP; the stages cycle through a few distinct tables, each far larger than the caches."""
    rng = np.random.default_rng(0)
    pairs = STATES * ACTIONS
    starts = np.arange(0, pairs * branching + 1, branching)
    matrices: list[Any] = []
    for _ in range(DISTINCT):
        columns = rng.integers(STATES, size=pairs * branching)
        weights = np.full(pairs * branching, 1 / branching)
        matrices.append(sparse.csr_array((weights, columns, starts), shape=(pairs, STATES)))
    rewards = [rng.random((STATES, ACTIONS)) for _ in range(DISTINCT)]
    steps = [matrices[h % DISTINCT] for h in range(STAGES - 1)]
    return tp.TabularMDP([*steps, None], [rewards[h % DISTINCT] for h in range(STAGES)], horizon=STAGES)


def main() -> None:
    print("backward induction, 10^6 pairs per stage, 50 stages")
    for branching in (1, 4):
        table = mdp(branching)
        arrays: list[Any] = []
        for stage in range(STAGES - 1):
            matrix = table.matrix(stage)
            arrays += [matrix.data, matrix.indices, matrix.indptr, table.rewards(stage)]
        size = sum(a.nbytes for a in arrays)

        following = np.random.default_rng(1).random(STATES)

        def product(table: tp.TabularMDP = table, following: Any = following) -> float:
            for stage in range(STAGES - 1):
                table.matrix(stage) @ following
            return 1

        def copy(arrays: list[Any] = arrays) -> float:
            for a in arrays:
                a.copy()
            return 1

        def solve(table: tp.TabularMDP = table) -> float:
            tp.solve_tabular(table)
            return 1

        seconds = race({"copy": copy, "product": product, "solve": solve}, rounds=5)
        ratios = ", ".join(f"{seconds['solve'] / seconds[k]:.2f} x {k}" for k in ("copy", "product"))
        print(f"  {branching} successors: {seconds['solve']:.2f} s to solve {size / 2**30:.1f} GiB = {ratios}")


if __name__ == "__main__":
    main()
