"""Taxi: three features of somebody who knows the streets, and the same of somebody who does not.

Run it with ``python examples/taxi.py``; docs/cases/taxi.md says what it shows.
"""

from typing import Any

import tensorplan as tp

STANDS = ((0, 0), (0, 4), (4, 0), (4, 3))


def distance(a: Any, b: Any, walls: bool) -> float:
    """Steps from a to b; where a wall is between their columns, the way goes by the open row 2."""
    steps = abs(a[0] - b[0]) + abs(a[1] - b[1])
    block = (0, 0, 1, 1, 1) if a[0] < 2 else (0, 1, 1, 2, 2)
    if walls and (a[0] - 2) * (b[0] - 2) > 0 and block[int(a[1])] != block[int(b[1])]:
        steps += 2 * min(abs(a[0] - 2), abs(b[0] - 2))
    return float(steps)


def streets(x: Any, walls: bool = True) -> list[float]:
    """A constant, whether somebody waits, and how far there is to go."""
    here, waits, goal = x[:2], x[2] < 4, STANDS[int(x[3])]
    stand = STANDS[int(x[2])] if waits else here
    return [1, waits, (distance(here, stand, walls) + distance(stand, goal, walls)) / 20]


def taxi(features: Any, seed: int = 0) -> tp.Problem:
    """Taxi without its time limit."""
    return tp.from_gym("Taxi-v4", features=features, scale=2, horizon=None, seed=seed)


def row(name: str, taxis: list[tp.Problem], planner: tp.Planner, budget: int | None = None) -> None:
    """An episode with each taxi; who has no queries left waits, at 1 a step, until 200 steps are over."""
    runs = [tp.run(each, planner, seed=i, budget=budget, max_steps=200) for i, each in enumerate(taxis)]
    episodes = [run.episodes[0] for run in runs]
    won = tp.student([e.total_reward - (200 - e.steps) * (e.stopped == "budget") for e in episodes])
    asked, ended = tp.student([e.total_queries for e in episodes]), sum(e.stopped == "end" for e in episodes)
    share = f"{ended}/{len(taxis)}"
    print(f"{name:<30} {won.mean:>8.1f} ± {won.radius:<6.1f} {share:>6} {asked.mean:>8.0f} ± {asked.radius:.0f}")


driver, stranger = taxi(streets), taxi(lambda x: streets(x, walls=False))
print(f"{'':<30} {'return':>13} {'arrives':>10} {'queries':>12}")
row("optimal", [driver] * 5, tp.Oracle())
row("TensorPlan, streets, d=3", [driver] * 5, tp.TensorPlan())
for d in (2, 5, 10):
    row(f"TensorPlan, realizing, d={d}", [taxi(f"realizing{d}", seed) for seed in range(5)], tp.TensorPlan())
for budget in (60, 600):
    row(f"UCT, at most {budget}", [driver] * 5, tp.UCT(simulations=50), budget)
    row(f"sparse sampling, at most {budget}", [driver] * 5, tp.SparseSampling(width=1, depth=18), budget)
asked = sum(fare.total_queries for fare in tp.run(driver, tp.TensorPlan(), 50).episodes)
print(f"\na day of 50 fares, remembering: {asked / 50:.1f} queries a fare")
try:
    tp.run(stranger, tp.TensorPlan(), max_steps=200)
except tp.NotRealizable as error:
    eta: Any = tp.diagnose(stranger)["v"].eta
    print(f"as the crow flies: refuted, needs an eta of about {error.eta:.2f} so far; it is {eta.upper:.2f}")
