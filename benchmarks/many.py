"""Steps per second, one at a time and many at once, in the same run.

``step`` is called from a Python loop with states and actions at hand; ``step_many`` draws its noise, too, and is also
measured through its checks (``draw_many``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensorplan as tp
from benchmarks.timing import race
from tensorplan.problems.simulate import draw_many, draw_noise
from tensorplan.problems.states import pack, unpack

SINGLE, MANY, CALLS = 20_000, 10_000, 50
PROBLEMS = ("american-put/6", "lost-sales/2")


def pairs(problem: tp.Problem, stage: int, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """n states of a stage, as an array, and n actions, all drawn at random."""
    mdp: Any = problem.mdp
    states = pack(list(mdp.states(stage)))
    return states[rng.integers(len(states), size=n)], rng.integers(problem.actions, size=n)


def contestants(problem: tp.Problem, stage: int, rng: np.random.Generator) -> dict[str, Callable[[], float]]:
    """Work to be timed: each returns how many steps it took."""
    mdp: Any = problem.mdp
    states, actions = pairs(problem, stage, MANY, rng)
    listed = list(zip(unpack(states[:SINGLE]), actions[:SINGLE].tolist(), strict=True))

    def single() -> float:
        step = mdp.step
        for state, action in listed:
            step(state, action, rng)
        return SINGLE

    def many() -> float:
        for _ in range(CALLS):
            mdp.step_many(states, actions, mdp.draw_noise(MANY, rng))
        return CALLS * MANY

    def checked() -> float:
        for _ in range(CALLS):
            draw_many(problem, states, stage, actions, draw_noise(problem, MANY, rng))
        return CALLS * MANY

    return {"step": single, "step_many": many, "checked": checked}


def main() -> None:
    print(f"steps per second; {MANY:,} pairs at once")
    for name in PROBLEMS:
        problem = tp.make(name)
        times = race(contestants(problem, 3, np.random.default_rng(0)))
        rates = "".join(f"   {work} {1 / seconds:>12,.0f}" for work, seconds in times.items())
        print(f"  {name:<15}{rates}   ratio {times['step'] / times['step_many']:.0f}")


if __name__ == "__main__":
    main()
