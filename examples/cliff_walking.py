"""CliffWalking: four features that a person would write down, and what those say that are nearly right.

Run it with ``python examples/cliff_walking.py``; docs/cases/cliff_walking.md says what it shows.
"""

from typing import Any

import tensorplan as tp


def steps(x: Any) -> list[float]:
    """A constant, the row, the column, and whether it is the row of the cliff, where the start is."""
    row, column = x
    return [1, row / 3, column / 11, row == 3]


def row(name: str, cliffs: list[tp.Problem], planner: tp.Planner, budget: int | None = None) -> None:
    """An episode on each cliff; who has no queries left waits, at 1 a step, until 200 steps are over."""
    runs = [tp.run(each, planner, seed=i, budget=budget, max_steps=200) for i, each in enumerate(cliffs)]
    episodes = [run.episodes[0] for run in runs]
    won = tp.student([e.total_reward - (200 - e.steps) * (e.stopped == "budget") for e in episodes])
    asked, ended = tp.student([e.total_queries for e in episodes]), sum(e.stopped == "end" for e in episodes)
    print(f"{name:<30} {won.mean:>8.1f} ± {won.radius:<6.1f} {ended:>4}/10 {asked.mean:>7.0f} ± {asked.radius:.0f}")


natural = tp.from_gym("CliffWalking-v1", features=steps, scale=2)
print(f"{'':<30} {'return':>13} {'arrives':>11} {'queries':>12}")
row("TensorPlan, steps, d=4", [natural] * 10, tp.TensorPlan())
for d in (2, 5, 10):
    made = [tp.from_gym("CliffWalking-v1", features=f"realizing{d}", seed=seed) for seed in range(10)]
    row(f"TensorPlan, realizing, d={d}", made, tp.TensorPlan())
for budget in (50, 500):
    row(f"UCT, at most {budget}", [natural] * 10, tp.UCT(simulations=50), budget)
    row(f"sparse sampling, at most {budget}", [natural] * 10, tp.SparseSampling(width=1, depth=14), budget)
print()
for name, features in {"steps": steps, **{name: name for name in ("poly4", "poly2", "linear", "tiles4x2")}}.items():
    problem = tp.from_gym("CliffWalking-v1", features=features, scale=2 if features is steps else 1)
    eta: Any = tp.diagnose(problem)["v"].eta
    print(f"{name}, d={problem.dimension}, misses v* by {eta.upper:.3f}", end=": ")
    try:
        (episode,) = tp.run(problem, tp.TensorPlan(), max_steps=200).episodes
        print(f"return {episode.total_reward:.0f}, certified")
    except tp.NotRealizable as error:
        places = ", ".join(str(divmod(state, 12)) for _, state in error.places)
        print(f"refuted by {places}, which need an eta of about {error.eta:.2f}")
