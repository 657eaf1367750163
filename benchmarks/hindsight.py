"""How narrow brackets in hindsight are, and how fast: ``python -m benchmarks.hindsight [--quick]``.

95% brackets that assume nothing about features or values: by the planner ``Hindsight``, whose values are fitted on
generic features, and by an ``audit`` of a simple policy.  v* is known here, and used by neither.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorplan as tp
from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter
from tensorplan.access.noise import Purpose
from tensorplan.hindsight.columns import Fresh
from tensorplan.hindsight.scenario import Rules, play
from tensorplan.hindsight.values import Values
from tensorplan.problems.tables.solution import exact_solution

Policy = Callable[[Any, int], int]

LAKE: dict[str, Any] = {"features": "poly2", "return_range": (0.0, 1.0), "is_slippery": True}


def base_stock(state: Any, stage: int) -> int:
    """Order up to 5 units, at hand or under way; nothing that would arrive after the end."""
    return min(max(5 - sum(state), 0), 3) if stage < 28 else 0


def threshold(state: Any, stage: int) -> int:
    """Admit up to two customers."""
    return int(state < 2)


def optimal(problem: tp.Problem) -> Policy:
    """The optimal policy."""
    solution, actions = exact_solution(problem), range(problem.actions)
    return lambda state, stage: max(actions, key=lambda action: solution.action_value(state, action, stage))


@dataclass(frozen=True)
class Case:
    """A problem, the queries for its bracket, and what is asked for."""

    name: str
    make: Callable[[], tp.Problem]
    budget: int
    wanted: str
    policy: Callable[[tp.Problem], Policy] = optimal
    policy_name: str = "optimal"


def named(spec: str) -> Callable[[], tp.Problem]:
    """A problem of the catalog."""
    return lambda: tp.make(spec)


def lake(size: str, **options: Any) -> Callable[[], tp.Problem]:
    """Slippery FrozenLake."""
    return lambda: tp.from_gym("FrozenLake-v1", map_name=size, **LAKE, **options)


def stock(features: str, millions: int, wanted: str) -> Case:
    """The inventory, with the queries in millions."""
    name = f"lost-sales/2 {features}"
    make = named(f"lost-sales/2:features={features}")
    return Case(name, make, millions * 1_000_000, wanted, lambda problem: base_stock, "base stock")


TABLE = (1, 5, 20, 50)
"""Millions of queries for the inventory, to see how width depends on them."""

CASES = (
    *(stock("poly2@stage", millions, {5: "12%", 50: "5%"}.get(millions, "")) for millions in TABLE),
    stock("tiles4x2", 5, "12%"),
    stock("tiles4x2", 50, "5%"),
    Case(
        "queue-admission/20 poly2",
        named("queue-admission/20:features=poly2"),
        3_000_000,
        "upper 2.25",
        lambda problem: threshold,
        "threshold",
    ),
    Case("american-put/6 payoff", named("american-put/6:features=payoff"), 1_000_000, "8%"),
    Case("layered-stochastic/2x3", named("layered-stochastic/2x3"), 2_000_000, "upper 3.60"),
    Case("FrozenLake 4x4, H = 20", lake("4x4", horizon=20), 20_000_000, "width 0.1"),
    Case("FrozenLake 4x4, 0.95", lake("4x4", horizon=None, discount=0.95), 20_000_000, "width 0.1"),
    Case("FrozenLake 8x8, H = 20", lake("8x8", horizon=20), 20_000_000, "width 0.1"),
    Case("FrozenLake 8x8, 0.95", lake("8x8", horizon=None, discount=0.95), 20_000_000, "width 0.1"),
)


def planned(problem: tp.Problem, budget: int) -> tuple[float, float, int, float]:
    """The bracket of the planner, its queries and seconds."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (episode,) = tp.run(problem, tp.Hindsight(delta=1e-9), budget=budget, max_steps=1).episodes
    certificate = episode.certificate
    assert certificate is not None
    return certificate.lower, certificate.upper, episode.total_queries, time.perf_counter() - began


def measure(case: Case) -> None:
    """Two lines: the planner's bracket and the audit's."""
    problem = case.make()
    best = exact_solution(problem).value(problem.mdp.start(np.random.default_rng(0)), 0)
    lower, upper, queries, seconds = planned(problem, case.budget)
    wanted = f"  wanted: {case.wanted}" if case.wanted else ""
    print(f"{case.name:<26}{line('Hindsight', best, lower, upper, queries, seconds)}{wanted}", flush=True)
    audit = tp.audit(problem, case.policy(problem), budget=case.budget)
    text = line(f"audit ({case.policy_name})", best, audit.lower, audit.upper, audit.queries, audit.seconds)
    print(f"{'':<26}{text}  loses at most {audit.gap:.4f}; {audit.design}, {audit.scenarios:,} scenarios", flush=True)


def line(what: str, best: float, lower: float, upper: float, queries: int, seconds: float) -> str:
    """A bracket in words."""
    assert lower <= best <= upper
    width = upper - lower
    return (
        f"{what:<20} v* {best:8.4f} in [{lower:8.4f}, {upper:8.4f}], width {width:7.4f} = {100 * width / best:5.1f}%  "
        f"{queries:>11,} queries {seconds:6.1f} s"
    )


def nested_samples(samples: int = 4096, scenarios: int = 100) -> None:
    """Nested samples per second on the put, inside of scenarios."""
    problem = tp.make("american-put/6:features=payoff")
    access = BatchAccess(problem, Meter(), 0)
    values, rules = Values(access, problem.optimal_value), Rules.of(problem)
    start = problem.mdp.start(np.random.default_rng(0))
    began = time.perf_counter()
    for scenario in range(scenarios):
        play(values, Fresh(values, Purpose.TEST, scenario, samples), start, rules, None)
    rate = access.meter.spent / (time.perf_counter() - began)
    print(f"american-put/6: {rate:,.0f} nested samples per second, {samples} per temporal difference", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the cases with at most 5 million queries")
    parser.add_argument("--only", default="", help="the cases whose name contains this")
    options = parser.parse_args(arguments)
    for samples in (64, 512, 4096):
        nested_samples(samples)
    for case in CASES:
        if options.only in case.name and not (options.quick and case.budget > 5_000_000):
            measure(case)


if __name__ == "__main__":
    main()
