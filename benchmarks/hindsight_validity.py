"""How often brackets in hindsight are wrong, beside how often they may be: ``python -m benchmarks.hindsight_validity``.

Random problems: tables of 2 to 12 states, 2 to 4 actions, 1 to 12 stages, or discounted without a horizon; early END,
optimal stopping, rewards that are rare and large, random start states; half of the simulators without ``step_many``.
The features are wrong in most of them.  V is fitted, zero, v*, random, adversarial or optimised pathwise; policies are
random, optimal, greedy for a random V, or the worst.  Every look at a bracket counts, and one that is wrong makes the
run wrong:

* ``audit``: upper < v*, lower > v^π, or gap < v* - v^π;
* ``Hindsight``: upper < v*, or lower > v*.

At a confidence of 0.6 misses can be seen at all: most brackets are wider than they would have to be.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

import tensorplan as tp
from tensorplan.hindsight.bracket import PolicyBounds

PROBLEMS = 500
CONFIDENCES = (0.95, 0.6)
KINDS = ("plain", "early END", "stopping", "skewed", "discounted", "discounted, skewed")
VALUES = ("fitted", "zero", "optimal", "random", "adversarial", "pathwise")
POLICIES = ("random", "optimal", "greedy", "worst")

FALSE_ALARM = 1e-3
"""The probability that brackets that are wrong exactly as often as stated are found to be wrong too often."""


class Plain:
    """A table behind a plain ``step``."""

    def __init__(self, mdp: tp.TabularMDP) -> None:
        for name in ("horizon", "actions", "reward_range", "return_range", "start", "step"):
            setattr(self, name, getattr(mdp, name))


@dataclass(frozen=True)
class Case:
    """A random problem, with what is known about it."""

    problem: tp.Problem
    table: tp.TabularMDP
    policy: Any
    value: Any
    optimum: float
    """v*, the mean over start states."""
    earned: float
    """v^π, likewise."""
    budget: int
    words: str


def random_table(kind: str, rng: np.random.Generator) -> tuple[tp.TabularMDP, float]:
    """A table and its discount."""
    states, actions = int(rng.integers(2, 13)), int(rng.integers(2, 5))
    endless = kind.startswith("discounted")
    horizon, discount = (None, float(rng.uniform(0.6, 0.95))) if endless else (int(rng.integers(1, 13)), 1.0)
    ends = float(rng.uniform(0.1, 0.5)) if kind == "early END" else 0.0
    steps = rng.dirichlet(np.full(states, 0.3), (states, actions)) * (1 - ends)
    steps = np.concatenate([steps, np.full((states, actions, 1), ends)], axis=2)
    means = rng.uniform(0.0, 0.02 if "skewed" in kind else 1.0, (states, actions))
    if kind == "stopping":
        steps[:, -1], means[:, :-1] = np.eye(states + 1)[-1], 0.0
    start: Any = rng.dirichlet(np.ones(states)) if rng.random() < 0.3 else int(rng.integers(states))
    low, high = (0.0, 1.0) if rng.random() < 0.5 else (-2.0, 3.0)
    means = low + (high - low) * means
    mdp = tp.TabularMDP(steps, means, horizon=horizon, start=start, noise=True, reward_range=(low, high))
    return mdp, discount


def random_case(seed: int, largest: int = 100_000) -> Case:
    """Problem, policy and value function number ``seed``, with at most ``largest`` queries."""
    rng = np.random.default_rng([seed, 17])
    kind, value, policy = KINDS[seed % 6], VALUES[seed // 6 % 6], POLICIES[seed // 36 % 4]
    table, discount = random_table(kind, rng)
    states, stages = len(table.states(0)), table.horizon or 1
    dimension = int(rng.integers(1, 4))
    phi = rng.standard_normal((stages, states, dimension))
    phi /= np.linalg.norm(phi, axis=2, keepdims=True)
    if rng.random() < 0.2:  # one feature per state: these realize v* where values do not change with the stage
        phi = np.tile(np.eye(states), (stages, 1, 1))
    plain = bool(rng.random() < 0.5)
    mdp: Any = Plain(table) if plain else table
    problem = tp.Problem(
        mdp,
        lambda state, stage: phi[stage, state],
        bound=10.0,
        discount=discount,
        name=f"{kind} {seed}",
    )
    solution = tp.solve_tabular(table, discount)
    actions = random_actions(table, solution, policy, rng)
    weights = table.start_weights()
    evaluated = tp.evaluate_tabular(table, actions, discount)
    return Case(
        problem,
        table,
        lambda state, stage: int(actions[stage][state]),
        value_of(value, problem, solution, rng),
        sum(weight * solution.value(state, 0) for state, weight in weights),
        sum(weight * evaluated.value(state, 0) for state, weight in weights),
        min(int(10 ** rng.uniform(3.5, 4.7 if plain else 5.0)), largest),
        f"{kind}, V {value}, policy {policy}, {'step' if plain else 'step_many'}",
    )


def random_actions(table: tp.TabularMDP, solution: Any, name: str, rng: np.random.Generator) -> list[Any]:
    """The actions of a policy by stage and state."""
    stages, states, actions = table.horizon or 1, len(table.states(0)), table.actions
    if name == "random":
        return [rng.integers(actions, size=states) for _ in range(stages)]
    if name == "greedy":
        guess = rng.uniform(0, 1, states)
        return [table.backup(stage, guess).argmax(axis=1) for stage in range(stages)]
    q = [[[solution.action_value(s, a, h) for a in range(actions)] for s in range(states)] for h in range(stages)]
    return [np.argmax(each, axis=1) if name == "optimal" else np.argmin(each, axis=1) for each in q]


def value_of(name: str, problem: tp.Problem, solution: Any, rng: np.random.Generator) -> Any:
    """A value function to audit with."""
    low, high = problem.return_range()
    noise = rng.uniform(low, high, (13, 13))
    return {
        "fitted": None,
        "zero": lambda state, stage: 0.0,
        "optimal": solution.value,
        "random": lambda state, stage: noise[stage, state],
        "adversarial": lambda state, stage: (-1e9, 1e9)[(state + stage) % 2],
        "pathwise": "pathwise",
    }[name]


# ------------------------------------------------------------------------------------------ one run


@dataclass
class Tally:
    """What came of some runs, by what was run and at which confidence."""

    runs: Counter[tuple[str, float]] = field(default_factory=Counter)
    looks: Counter[tuple[str, float]] = field(default_factory=Counter)
    wrong: Counter[tuple[str, float]] = field(default_factory=Counter)
    useful: Counter[tuple[str, float]] = field(default_factory=Counter)
    """Runs whose last bracket is narrower than half of the range of returns."""
    exceeded: int = 0
    """Runs with more queries than their budget."""
    missed: list[str] = field(default_factory=list)

    def __iadd__(self, other: Tally) -> Tally:
        for name in ("runs", "looks", "wrong", "useful"):
            getattr(self, name).update(getattr(other, name))
        self.exceeded += other.exceeded
        self.missed += other.missed
        return self


def one_problem(seed: int) -> Tally:
    """Audits and plans of one problem, at all confidences."""
    case, tally = random_case(seed), Tally()
    for i, confidence in enumerate(CONFIDENCES):
        audited(case, confidence, 10 * seed + i, tally)
        planned(case, confidence, 10 * seed + i, tally)
    return tally


def audited(case: Case, confidence: float, seed: int, tally: Tally) -> None:
    """One audit, and all looks at its bracket."""
    looks: list[PolicyBounds] = []
    audit = tp.audit(
        case.problem,
        case.policy,
        case.value,
        confidence,
        case.budget,
        seed,
        progress=lambda bounds, queries: looks.append(bounds),
    )
    looks.append(PolicyBounds(audit.lower, audit.upper, audit.gap))
    slack = 1e-9 * (1 + abs(case.optimum))
    wrong = any(
        upper < case.optimum - slack or lower > case.earned + slack or gap < case.optimum - case.earned - slack
        for lower, upper, gap in looks
    )
    count(tally, ("audit", confidence), case, looks, wrong)
    tally.exceeded += audit.queries > case.budget


def planned(case: Case, confidence: float, seed: int, tally: Tally) -> None:
    """One plan of Hindsight, and all looks at its bracket."""
    looks: list[PolicyBounds] = []
    planner = tp.Hindsight(delta=1e-6, confidence=confidence, callback=lambda bounds, queries: looks.append(bounds))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (episode,) = tp.run(case.problem, planner, seed=seed, budget=case.budget, max_steps=10).episodes
    certificate = episode.certificate
    assert certificate is not None
    looks.append(PolicyBounds(certificate.lower, certificate.upper, 0.0))
    best = tp.solve_tabular(case.table, case.problem.discount).value(episode.start, 0)
    slack = 1e-9 * (1 + abs(best))
    wrong = any(upper < best - slack or lower > best + slack for lower, upper, _ in looks)
    count(tally, ("Hindsight", confidence), case, looks, wrong)
    tally.exceeded += episode.total_queries > case.budget


def count(tally: Tally, what: tuple[str, float], case: Case, looks: list[PolicyBounds], wrong: bool) -> None:
    """Count a run."""
    low, high = case.problem.return_range()
    tally.runs[what] += 1
    tally.looks[what] += len(looks)
    tally.wrong[what] += wrong
    tally.useful[what] += looks[-1].width < (high - low) / 2
    if wrong:
        tally.missed.append(f"{what[0]} at {what[1]:g}: {case.problem.name}, {case.words}, {case.budget:,} queries")


# ------------------------------------------------------------------------------------------ the study


def allowed(runs: int, stated: float) -> int:
    """The most wrong runs that do not refute a failure probability, with the chance of a false alarm."""
    return int(stats.binom.isf(FALSE_ALARM, runs, stated))


def report(tally: Tally) -> bool:
    """A line for each of what was run, and whether all are wrong no more often than stated."""
    sound = True
    for what, runs in tally.runs.items():
        name, confidence = what
        stated, wrong = 1 - confidence, tally.wrong[what]
        most = allowed(runs, stated)
        interval = stats.binomtest(wrong, runs).proportion_ci()
        slips = stats.binom.cdf(most, runs, 2 * stated)
        sound = sound and wrong <= most
        print(
            f"{name:<10} confidence {confidence:<5g} {runs:>4} runs {tally.looks[what]:>5} looks  wrong {wrong:>3} "
            f"({wrong / runs:.3f}, 95% interval [{interval.low:.3f}, {interval.high:.3f}]); stated {stated:g}: at most "
            f"{most} pass, a false alarm has {stats.binom.sf(most, runs, stated):.1e}, and twice the stated rate "
            f"passes with {slips:.1e}; {tally.useful[what]} narrower than half the range",
            flush=True,
        )
    print(f"over budget: {tally.exceeded}")
    for line in tally.missed:
        print(f"  {line}")
    return sound


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the problems")
    parser.add_argument("--workers", type=int, default=None, help="processes; by default all cores")
    options = parser.parse_args(arguments)
    seeds = range(PROBLEMS // 10 if options.quick else PROBLEMS)
    began, total = time.perf_counter(), Tally()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context) as pool:
        for tally in pool.map(one_problem, seeds, chunksize=4):
            total += tally
    sound = report(total)
    print(
        f"{len(seeds)} problems in {time.perf_counter() - began:.0f} s: {'as stated' if sound else 'TOO OFTEN WRONG'}"
    )


if __name__ == "__main__":
    main()
