"""FrozenLake 4x4, slippery, for twenty steps: what a proof costs where every step is a gamble.

Run it with ``python examples/frozen_lake_slippery.py``; docs/cases/frozen_lake_slippery.md says what it shows.
"""

from math import ceil, floor, log10
from typing import Any

import tensorplan as tp


def outwards(low: float, high: float) -> str:
    """An interval in tenths: more digits of a long random run differ from machine to machine."""
    return f"[{max(0, floor(10 * low)) / 10}, {ceil(10 * high) / 10}]"


def rows(episodes: int, **planners: tp.Planner) -> Any:
    """What they earn (95% intervals), and what they ask for it."""
    table = tp.side_by_side(problem, planners, episodes=episodes, sessions=2)
    for line in table.lines:
        earned = outwards(line.total_reward.low, line.total_reward.high)
        asked = f"some 10^{log10(line.queries.mean):.0f}" if line.queries.mean else "none"
        print(f"{line.planner:<15} {earned:<12} {asked}")
    return table.lines[0].certificate


problem = tp.from_gym("FrozenLake-v1", features="realizing3", horizon=20, return_range=(0, 1))
print(f"v*(s0) = {problem.optimal_value(0):.3f}: one episode in five is at the goal in time, at best\n")
print(f"{'':<15} {'return':<12} queries an episode")
proof = rows(100, TensorPlan=tp.TensorPlan(delta=0.1))
rows(60, UCT=tp.UCT(simulations=200), sparse_sampling=tp.SparseSampling(width=3, depth=8), random=tp.RandomPlanner())
print(f"\nTensorPlan: {proof.status}, v*(s0) in {outwards(proof.lower, proof.upper)}")

cheap: Any = tp.run(problem, tp.TensorPlan(delta=0.1, budget=100_000)).episodes[0].certificate
print(f"TensorPlan with 10^5 queries: {cheap.status}, v*(s0) in {outwards(cheap.lower, cheap.upper)}")
