"""How often brackets are wrong, beside how often they may be: ``python -m benchmarks.soundness [--quick]``.

Where the features realize v*, problems are made to be awkward: rewards that are almost always zero, episodes that end
at any step, B exactly ‖θ*‖, collinear features, and sessions of 30 episodes with random budgets and callbacks that stop
at random.  Every bracket of every iteration counts.  Where the features do not realize v* (:mod:`benchmarks.families`),
what is called certified counts.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats

import tensorplan as tp
from benchmarks import families
from tensorplan.problems.random.featurize import draw_theta, embed

MOST = 2**21
"""Queries that no run should need."""

EPISODES = 30
"""Of a session."""


@dataclass(frozen=True)
class Kind:
    """A family of random problems."""

    name: str
    mean: tuple[float, float] = (0.0, 1.0)
    """Rewards are 0 or 1 with a mean in this range."""
    end: float = 0.0
    """The probability that a step ends the episode."""
    tight: bool = False
    """Whether B is ‖θ*‖ exactly, and the largest value as well."""
    collinear: float = 1.0
    """How far features are from being multiples of θ*."""
    starts: int = 1


KINDS = (
    Kind("plain"),
    Kind("skewed rewards", mean=(0.0, 0.05)),
    Kind("mostly paid", mean=(0.95, 1.0)),
    Kind("early END", end=0.3),
    Kind("B = ‖θ*‖", tight=True),
    Kind("collinear", collinear=1e-6),
    Kind("all at once", mean=(0.0, 0.2), end=0.2, tight=True, collinear=1e-3),
)


@dataclass
class Tally:
    """What came of some runs."""

    runs: int = 0
    brackets: int = 0
    wrong: int = 0
    """Runs, or sessions, with a wrong bracket."""
    stated: float = 0.0
    """How many of those are to be expected at most."""
    exceeded: int = 0
    """Episodes that asked more than their budget."""
    endless: int = 0
    """Runs that used up the queries that none should need."""
    queries: int = 0
    statuses: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Tally) -> Tally:
        for name in ("runs", "brackets", "wrong", "stated", "exceeded", "endless", "queries"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.statuses.update(other.statuses)
        return self


def random_problem(kind: Kind, seed: int) -> tp.Problem:
    """A table of 2..4 actions, 2..5 stages and 8 states each, whose values features of dimension 2..4 realize."""
    rng = np.random.default_rng([seed, *kind.name.encode()])
    actions, horizon, d = int(rng.integers(2, 5)), int(rng.integers(2, 6)), int(rng.integers(2, 5))
    steps = [rng.dirichlet(np.full(8, 0.3), (8, actions)) * (1 - kind.end) for _ in range(horizon - 1)]
    ended = [np.concatenate([m, np.full((8, actions, 1), kind.end)], axis=2) for m in steps]
    rewards = [rng.uniform(*kind.mean, (8, actions)) for _ in range(horizon)]
    start = np.where(np.arange(8) < kind.starts, 1 / kind.starts, 0.0)
    mdp = tp.TabularMDP([*ended, None], rewards, horizon=horizon, start=start, noise=True)
    solution = tp.solve_tabular(mdp)
    values = np.concatenate([np.asarray(v) for v in solution.v[:horizon]])
    largest = float(values.max())
    theta, bound = draw_theta(d, largest, largest if kind.tight else None, rng)
    raw = rng.standard_normal((len(values), d))
    phi = embed(values, theta, raw)
    if kind.collinear < 1:
        along = np.multiply.outer(values / (theta @ theta), theta)
        phi = along + kind.collinear * (phi - along)
    return tp.Problem(mdp, lambda state, stage: phi[state], bound=bound, name=kind.name, solution=solution, theta=theta)


def one_run(task: tuple[Kind, int]) -> Tally:
    """One problem, planned for once: every bracket that its callback hears, and the last one."""
    kind, seed = task
    problem = random_problem(kind, seed)
    rng = np.random.default_rng([seed, 1])
    tally = Tally(runs=1)
    tally += _session(problem, rng, 1, lambda: MOST)
    return tally


def one_session(task: tuple[Kind, int]) -> Tally:
    """Thirty episodes from several start states, with random budgets; some are stopped by their callback."""
    kind, seed = task
    rng = np.random.default_rng([seed, 2])
    tally = Tally(runs=EPISODES)
    tally += _session(random_problem(kind, seed), rng, EPISODES, lambda: int(10 ** rng.uniform(1, 5)))
    return tally


def _session(problem: tp.Problem, rng: np.random.Generator, episodes: int, budget: Callable[[], int]) -> Tally:
    """A session's brackets hold together with the stated probability: one of them that is wrong makes it wrong."""
    heard: list[tp.Iteration] = []
    stops = 0.1 if episodes > 1 else 0.0

    def hear(iteration: tp.Iteration) -> bool:
        heard.append(iteration)
        return bool(rng.random() < stops)

    low, high = problem.return_range(0)
    delta = float(rng.uniform(0.4, 0.9)) * min(high - low, problem.bound)
    planner = tp.TensorPlan(delta=delta, callback=hear).session()
    tally, failure = Tally(), 0.0
    for _ in range(episodes):
        heard.clear()
        allowed = budget()
        try:
            run: tp.Run | None = tp.run(problem, planner, seed=int(rng.integers(2**31)), budget=allowed)
        except tp.NotRealizable as error:
            run = error.run
        assert run is not None
        (episode,) = run.episodes
        certificate, best = episode.certificate, problem.optimal_value(episode.start)
        assert certificate is not None
        brackets = [*((i.lower, i.upper) for i in heard), (certificate.lower, certificate.upper)]
        tally.brackets += len(brackets)
        slack = 1e-9 * (1 + problem.bound)
        missed = any(not lower - slack <= best <= upper + slack for lower, upper in brackets)
        tally.wrong = max(tally.wrong, int(missed or certificate.status == "refuted"))
        tally.statuses[certificate.status] += 1
        tally.queries += episode.total_queries
        tally.exceeded += episode.total_queries > allowed
        tally.endless += allowed == MOST and certificate.status == "budget"
        failure = certificate.failure
    tally.stated = failure
    return tally


def misspecified(task: tuple[families.Case, int, int | None]) -> Tally:
    """A case of features that do not realize v*: what is called certified may not be wrong."""
    case, seed, budget = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdict = families.judge(case, seed, budget)
    wrong = int(verdict.wrong and verdict.status == "certified")
    overrated = int(verdict.certificate.lower > case.optimal + 1e-9)
    return Tally(
        1,
        1,
        wrong + overrated,
        0.05,
        exceeded=budget is not None and verdict.queries > budget,
        queries=verdict.queries,
        statuses=Counter([verdict.status]),
    )


# ------------------------------------------------------------------------------------------ the study


def study(name: str, work: Callable[[Any], Tally], tasks: Sequence[Any]) -> Tally:
    """Run them on all cores, and print a line."""
    began, total = time.perf_counter(), Tally()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=context) as pool:
        for tally in pool.map(work, tasks, chunksize=4):
            total += tally
    report(name, total, len(tasks), time.perf_counter() - began)
    return total


def report(name: str, tally: Tally, trials: int, seconds: float) -> None:
    """One line: brackets, how many trials had a wrong one, and how many may have."""
    chance = stats.binom.sf(tally.wrong - 1, trials, tally.stated / trials) if tally.wrong else 1.0
    words = ", ".join(f"{n} {status}" for status, n in tally.statuses.most_common())
    print(
        f"{name:<18} {tally.runs:>5} runs {tally.brackets:>6} brackets  wrong {tally.wrong:>3}, stated at most "
        f"{tally.stated:>6.1f} (p {chance:.2g})  over budget {tally.exceeded}, endless {tally.endless}  "
        f"{tally.queries / tally.runs:>9,.0f} queries  {seconds:>4.0f} s  {words}",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the runs")
    options = parser.parse_args(arguments)
    share = 20 if options.quick else 1
    total = Tally()
    print("features that realize v*")
    for kind in KINDS:
        total += study(kind.name, one_run, [(kind, seed) for seed in range(math.ceil(250 / share))])
    for kind in KINDS:
        sessions = [(replace(kind, starts=4), seed) for seed in range(math.ceil(20 / share))]
        total += study(f"30 x {kind.name}", one_session, sessions)
    print(f"all of these: {total.runs:,} runs, {total.brackets:,} brackets")
    print("features that do not")
    seeds = range(math.ceil(20 / share))
    studies: dict[str, list[tuple[families.Case, int, int | None]]] = {
        "mazes": [(case, 0, None) for case in families.mazes(seeds)],
        "rooms": [(case, 0, None) for case in families.rooms(seeds[:4])],
        "lakes": [(case, seed, 300_000) for seed in seeds[:2] for case in families.lakes()],
        "inventories": [(case, seed, 300_000) for seed in seeds[:4] for case in families.inventories([2.0, 5.0])],
    }
    for name, cases in studies.items():
        tally, began = Tally(), time.perf_counter()
        for case in cases:
            tally += misspecified(case)
        report(name, tally, len(cases), time.perf_counter() - began)


if __name__ == "__main__":
    main()
