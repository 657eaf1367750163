"""How many queries certified mode takes to close the gap: ``python -m benchmarks.closing [--before DIR] [--quick]``.

Twenty problems of each family, beside what they would take at least, and beside another version of the package in the
same run (``--before`` is the directory that holds its ``tensorplan`` folder, such as ``../before/src``).  Then the
bracket at budgets from 10^4 to 10^7, with a δ that is too small to be reached.

What it would take at least: returns of an optimal policy, and the rows of the optimal actions of all states that it can
reach, are measured as accurately as needed by someone who knows where to measure what, and only cannot know the answers
(a c-optimal design, Elfving 1952); no failure probability is spent on anything else.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import tensorplan as tp

PROBLEMS = 20
BUDGETS = {10_000: 6, 30_000: 6, 100_000: 6, 300_000: 3, 1_000_000: 3, 10_000_000: 1}
"""Budgets, and the problems of each family for each of them."""
TINY = 0.02
"""The δ of these, as a share of the family's."""


@dataclass(frozen=True)
class Family:
    """Problems by their number, and the δ to prove."""

    name: str
    delta: float
    make: Callable[[int], tp.Problem]


def layered(horizon: int) -> Callable[[int], tp.Problem]:
    """Random layered problems, A = 2, d = 3."""
    return lambda k: tp.make("layered-stochastic/2x3", horizon=horizon, seed=1000 + k)


def lake(**options: Any) -> Callable[[int], tp.Problem]:
    """FrozenLake 4x4, slippery, with three features that realize v*; numbers are seeds of the run."""
    return lambda k: tp.from_gym("FrozenLake-v1", features="realizing3", return_range=(0, 1), **options)


FAMILIES = (
    Family("H=5, delta=0.5", 0.5, layered(5)),
    Family("H=24, delta=2.4", 2.4, layered(24)),
    Family("H=24, delta=0.5", 0.5, layered(24)),
    Family("lake, gamma=0.99, delta=0.4", 0.4, lake(discount=0.99)),
    Family("lake, H=20, delta=0.4", 0.4, lake(horizon=20)),
)


@dataclass(frozen=True)
class Closed:
    """One problem, planned for once."""

    queries: int
    gap: float
    status: str
    holds: bool


def close(family: Family, number: int, budget: int | None) -> Closed:
    """Plan until the gap is closed, or with a budget and a δ that is out of its reach."""
    problem, rng = family.make(number), np.random.default_rng(number)
    access = tp.LocalAccess(problem, problem.mdp.start(rng), rng)
    delta = family.delta if budget is None else TINY * family.delta
    policy: Any = tp.TensorPlan(delta=delta, budget=budget, anyway=0.0).begin(access, rng)
    bracket, best = policy.certificate, problem.optimal_value(access.root.key)
    return Closed(access.spent, bracket.gap, bracket.status, bool(bracket.lower <= best <= bracket.upper))


# ------------------------------------------------------------------------------------------ another version


def elsewhere(directory: str, numbers: Sequence[int], count: int, budget: int | None) -> list[list[Closed]]:
    """The same by the package in another directory: for each family, the results of its problems."""
    code = "import json, sys; from benchmarks.closing import answer; answer(*json.loads(sys.argv[1]))"
    asked = json.dumps([list(numbers), count, budget])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([directory, os.getcwd()])}
    done = subprocess.run(
        [sys.executable, "-c", code, asked], env=environment, capture_output=True, text=True, check=True
    )
    return [[Closed(**each) for each in results] for results in json.loads(done.stdout)]


def answer(numbers: Sequence[int], count: int, budget: int | None) -> None:
    """Print the results of some families as JSON."""
    found = [[asdict(close(FAMILIES[i], k, budget)) for k in range(count)] for i in numbers]
    print(json.dumps(found))


# ------------------------------------------------------------------------------------------ the least


def least(problem: tp.Problem, delta: float) -> float | None:
    """Queries of someone who knows where to measure what; None if the problem is not a layered table."""
    mdp: Any = problem.mdp
    if not isinstance(mdp, tp.TabularMDP) or mdp.horizon is None or problem.phi_v is None:
        return None
    from scipy.optimize import linprog

    normals, deviations, variance, steps = [], [], 0.0, 0.0
    reached, gamma = np.zeros(len(mdp.states(0))), problem.discount
    reached[0] = 1.0
    for stage in range(mdp.horizon):
        states, following = mdp.states(stage), mdp.states(stage + 1) if stage + 1 < mdp.horizon else range(0)
        ahead = np.array([problem.optimal_value(s, stage + 1) for s in following])
        phi = np.array([problem.phi_v(s, stage) for s in states])
        phi_ahead = np.array([problem.phi_v(s, stage + 1) for s in following]).reshape(-1, phi.shape[1])
        matrix = mdp.matrix(stage)
        if matrix is None:
            matrix = np.zeros((len(states) * mdp.actions, 0))
        elif not isinstance(matrix, np.ndarray):
            matrix = matrix.toarray()
        chances = np.asarray(matrix).reshape(len(states), mdp.actions, -1)[:, :, : len(following)]
        mean = mdp.rewards(stage)
        values = mean + gamma * chances @ ahead
        best = np.arange(len(states)), values.argmax(axis=1)
        moved = chances[best]
        spread = (mean * (1 - mean))[best] + gamma**2 * (moved @ ahead**2 - (moved @ ahead) ** 2)
        normals.append((phi - gamma * moved @ phi_ahead)[reached > 0])
        deviations.append(np.sqrt(spread)[reached > 0])
        variance += gamma ** (2 * stage) * float(reached @ spread)
        steps += float(reached.sum())
        reached = reached @ moved
    rows, sizes = np.concatenate(normals), np.concatenate(deviations)
    design = linprog(np.tile(sizes, 2), A_eq=np.concatenate([rows, -rows]).T, b_eq=problem.phi_v(0, 0))
    log = math.log(4 / min(delta / (2 * mdp.horizon), 0.05))
    upper, lower = 2 * log * design.fun**2, 2 * log * variance * steps
    return float((upper ** (1 / 3) + lower ** (1 / 3)) ** 3 / (delta / 2) ** 2)


# ------------------------------------------------------------------------------------------ tables


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(float(np.mean(np.log(values))))


def compare(before: str | None, count: int) -> None:
    """The table of queries."""
    print(f"queries until the gap is closed: geometric mean (least, most) of {count} problems each")
    print(f"  {'':<28} {'at least':>9} {'now':>30} {'before':>34} {'ratio':>6} {'wrong':>6}")
    for i, family in enumerate(FAMILIES):
        now = [close(family, k, None) for k in range(count)]
        bound = [least(family.make(k), family.delta) for k in range(count)]
        known = [x for x in bound if x is not None]
        line = f"  {family.name:<28} {f'{mean(known):,.0f}' if known else '':>9} {_spread(now):>30}"
        wrong = sum(not each.holds for each in now)
        if before is not None:
            (old,) = elsewhere(before, [i], count, None)
            ratio = mean([each.queries for each in old]) / mean([each.queries for each in now])
            line += f" {_spread(old):>34} {ratio:>6.1f}"
        else:
            line += f" {'':>34} {'':>6}"
        print(f"{line} {wrong:>6}", flush=True)


def _spread(results: Sequence[Closed]) -> str:
    queries = [each.queries for each in results]
    return f"{mean(queries):,.0f} ({min(queries):,} to {max(queries):,})"


def anytime(before: str | None, budgets: Mapping[int, int]) -> None:
    """The table of brackets."""
    print("the width of the bracket at a budget: geometric mean over the problems of a family, now and before")
    print(f"  {'':<28} " + " ".join(f"{budget:>15,}" for budget in budgets))
    print(f"  {'problems':<28} " + " ".join(f"{count:>15}" for count in budgets.values()))
    for i, family in enumerate(FAMILIES):
        cells = []
        for budget, count in budgets.items():
            cell = f"{mean([close(family, k, budget).gap for k in range(count)]):.3f}"
            if before is not None:
                (old,) = elsewhere(before, [i], count, budget)
                cell += f" / {mean([each.gap for each in old]):.3f}"
            cells.append(cell)
        print(f"  {family.name:<28} " + " ".join(f"{cell:>15}" for cell in cells), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", metavar="DIR", help="where another version of the package is")
    parser.add_argument("--quick", action="store_true", help="three problems each, and budgets up to 10^5")
    parser.add_argument("--only", choices=("queries", "budgets"), help="one of the tables")
    options = parser.parse_args(arguments)
    if options.only != "budgets":
        compare(options.before, 3 if options.quick else PROBLEMS)
    if options.only != "queries":
        anytime(options.before, dict.fromkeys(list(BUDGETS)[:3], 2) if options.quick else BUDGETS)


if __name__ == "__main__":
    main()
