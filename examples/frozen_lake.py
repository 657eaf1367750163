"""FrozenLake 8x8, not slippery: a plan with a proof after a few queries, and what becomes of features that are wrong.

Run it with ``python examples/frozen_lake.py``; docs/cases/frozen_lake.md says what it shows.
"""

from typing import Any

import numpy as np

import tensorplan as tp


def lake(features: Any, seed: int = 0) -> tp.Problem:
    """The lake with a discount, so that short ways are better than long ones."""
    options: dict[str, Any] = {"map_name": "8x8", "is_slippery": False, "horizon": None, "discount": 0.99}
    return tp.from_gym("FrozenLake-v1", features=features, seed=seed, **options)


def row(name: str, lakes: list[tp.Problem], planner: tp.Planner, budget: int | None = None) -> None:
    """An episode on each lake, with so many queries at most."""
    runs = [tp.run(each, planner, seed=i, budget=budget, max_steps=100) for i, each in enumerate(lakes)]
    won = tp.student([run.episodes[0].total_reward for run in runs])
    asked = tp.student([run.episodes[0].total_queries for run in runs])
    print(f"{name:<34} {won.mean:.3f} ± {won.radius:.3f}   {asked.mean:>5.0f} ± {asked.radius:.0f}")


def pocket(x: Any) -> Any:
    """0.99 to the distance of the goal, as if there were no holes; the pocket behind them cell by cell."""
    line, column = int(x[0]), int(x[1])
    phi = np.zeros(17)
    if line >= 4 and column <= 3:
        phi[4 * (line - 4) + column] = 1
    else:
        phi[16] = 0.99 ** (14 - line - column)
    return phi


print(f"{'':<34} {'return':<13}   queries")
for d in (2, 5, 10):
    row(f"TensorPlan, realizing, d={d}", [lake(f"realizing{d}", seed) for seed in range(10)], tp.TensorPlan())
for budget in (50, 500):
    row(f"UCT, at most {budget}", [lake("linear")] * 10, tp.UCT(simulations=100), budget)
    row(f"sparse sampling, at most {budget}", [lake("linear")] * 10, tp.SparseSampling(width=1, depth=14), budget)
print()
for name, features in {"onehot": "onehot", "pocket": pocket, "linear": "linear", "aggregate4": "aggregate4"}.items():
    problem = lake(features)
    try:
        run: Any = tp.run(problem, tp.TensorPlan(), max_steps=100)
    except tp.NotRealizable as refutation:
        run = refutation.run  # played with the best policy found
    (episode,) = run.episodes
    eta: Any = tp.diagnose(problem)["v"].eta
    print(f"{name}, d={problem.dimension}, misses v* by {eta.upper:.4f}: {episode.certificate.status}", end=", ")
    print(f"return {episode.total_reward:.3f}, {episode.total_queries} queries")
