"""CartPole: v* is in the span of no features at hand, and TensorPlan says so, with the states that prove it.

Run it with ``python examples/cartpole.py``; docs/cases/cartpole.md says what it shows.
"""

from math import floor
from typing import Any

import tensorplan as tp


def cartpole(features: str) -> tp.Problem:
    """The pole for fifty steps, each of which pays 1."""
    return tp.from_gym("CartPole-v1", features=features, horizon=50, bound=200.0)


def row(name: str, problem: tp.Problem, planner: tp.Planner, said: str = "") -> None:
    """Ten starts: what was earned, and what was asked; and how often the features were refuted."""
    runs: list[Any] = []
    refuted = 0
    for seed in range(10):
        try:
            runs.append(tp.run(problem, planner, seed=seed))
        except tp.NotRealizable as refutation:
            runs.append(refutation.run)  # played with the best policy found
            refuted += 1
    won = tp.student([run.episodes[0].total_reward for run in runs])
    asked = tp.student([run.episodes[0].total_queries for run in runs])
    said = f"refuted {refuted}/10, {said}" if said else ""
    print(f"{name:<33} {won.mean:>5.1f} ± {won.radius:<4.1f} {asked.mean:>7,.0f} ± {asked.radius:<5.0f}{said}".rstrip())


print(f"{'':<33} {'return':>9} {'queries':>13}")
for features in ("aggregate4", "tiles2x4@time", "poly3@time"):
    problem = cartpole(features)
    eta: Any = tp.diagnose(problem)["v"].eta
    least = f"eta > {floor(10 * eta) / 10} with B = 200"
    row(f"TensorPlan, {features}, d={problem.dimension}", problem, tp.TensorPlan(), least)
row("random", problem, tp.RandomPlanner())
for simulations in (1, 3):
    row(f"UCT, simulations={simulations}", problem, tp.UCT(simulations=simulations))
for depth in (2, 4):
    row(f"sparse sampling, depth={depth}", problem, tp.SparseSampling(width=1, depth=depth))
