"""Certified mode on random problems: ``python -m benchmarks.certified [--quick] [--plot FILE]``.

First its promises, on problems whose optimal values are known: brackets at every iteration, and the loss of the policy
that acts.  Then how its queries grow with 1/δ and with H, beside those of the paper's constants.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any
from unittest import mock

import numpy as np
from scipy import stats

import tensorplan as tp
from tensorplan.planners.certified.measuring import Measurements
from tensorplan.planners.certified.planning import CertifiedPolicy
from tensorplan.planners.certified.sums import Sum
from tensorplan.planners.evidence.place import Place

DELTAS = (2.0, 1.0, 0.5, 0.25, 0.125)
HORIZONS = (3, 5, 8, 12, 16)
SHARE = 0.1
"""δ/H where H varies."""
DRAWS = 4
"""How often the policy is asked for its action at a state."""


@dataclass(frozen=True)
class Trial:
    """One problem, planned for once."""

    actions: int
    delta: float
    zeta: float
    """The failure probability that is stated."""
    status: str
    wrong: bool
    """Whether a bracket, at any iteration, missed v*(s0)."""
    cut_off: bool
    """Whether a row or a sum excluded θ*."""
    loss: float
    """v*(s0) - v^π(s0)"""
    overrated: bool
    """Whether the lower bound is above v^π(s0)."""
    queries: int
    iterations: int
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether anything that was promised is not so."""
        return self.wrong or self.cut_off or self.overrated or self.loss > self.delta


def random_problem(seed: int) -> tuple[tp.Problem, float]:
    """A in 2..3, d in 2..8, H in 5..10, 50 states per stage, 3 successors, Bernoulli rewards; and δ."""
    rng = np.random.default_rng([seed, 7])
    actions, d, horizon = int(rng.integers(2, 4)), int(rng.integers(2, 9)), int(rng.integers(5, 11))
    problem = tp.make("layered-stochastic", actions=actions, d=d, horizon=horizon, seed=seed)
    return problem, float(rng.uniform(0.1, 0.2)) * horizon


def trial(problem: tp.Problem, delta: float, seed: int) -> Trial:
    """Plan, and compare with what is true."""
    brackets: list[tuple[float, float]] = []

    def hear(iteration: tp.Iteration) -> None:
        brackets.append((iteration.lower, iteration.upper))

    rng = np.random.default_rng(seed)
    access = tp.LocalAccess(problem, problem.mdp.start(rng), rng)
    began = time.perf_counter()
    with recorded() as sums:
        policy = tp.TensorPlan(delta=delta, callback=hear).begin(access, rng)
    seconds = time.perf_counter() - began
    assert isinstance(policy, CertifiedPolicy)
    certificate, best = policy.certificate, problem.optimal_value(0)
    brackets.append((certificate.lower, certificate.upper))
    queries, earned = access.spent, value(problem, policy, access)
    return Trial(
        problem.actions,
        delta,
        certificate.failure,
        certificate.status,
        not all(low <= best <= high for low, high in brackets),
        excludes(policy, problem) or any(denies(*each, problem) for each in sums),
        best - earned,
        certificate.lower > earned,
        queries,
        len(brackets) - 1,
        seconds,
    )


def value(problem: tp.Problem, policy: tp.Policy, access: tp.LocalAccess) -> float:
    """v^π(s0): exact where the policy looks actions up, unbiased where it samples, since no state is met twice."""
    mdp: Any = problem.mdp
    frequencies = []
    for stage in range(mdp.horizon):
        nodes = [access._admit(state, stage) for state in mdp.states(stage)]
        actions = [[policy.act(node) for _ in range(DRAWS)] for node in nodes]
        frequencies.append(np.array([np.bincount(a, minlength=mdp.actions) / DRAWS for a in actions]))
    return float(tp.evaluate_tabular(problem, frequencies).v[0][0])


def excludes(policy: CertifiedPolicy, problem: tp.Problem) -> bool:
    """Whether a row or a disjunction of the policy does not hold for θ*."""
    program, theta = policy.sol.program(np.zeros(policy.sol.dimension)), problem.theta
    assert theta is not None
    rows = (program.rows @ theta <= program.rhs + 1e-9).all()
    forms = np.abs(program.forms @ np.concatenate([[1.0], theta])).min(axis=1) <= program.tol + 1e-9
    return not (rows and forms.all())


@contextmanager
def recorded() -> Iterator[list[tuple[Sum, Measurements]]]:
    """All sums that are begun."""
    made, original = list[tuple[Sum, Measurements]](), Sum.begin

    def begin(design: Any, model: Any, measurements: Measurements, target: float) -> Sum:
        made.append((original(design, model, measurements, target), measurements))
        return made[-1][0]

    with mock.patch.object(Sum, "begin", staticmethod(begin)):
        yield made


def denies(made: Sum, measurements: Measurements, problem: tp.Problem) -> bool:
    """Whether θ* violates the sum in a case that is true."""
    mdp: Any = problem.mdp
    assert problem.theta is not None
    one, best, following = np.concatenate([[1.0], problem.theta]), dict[Place, set[int]](), None
    for stage in reversed(range(mdp.horizon)):
        q = mdp.backup(stage, following)
        following = q.max(axis=1)
        for state, row in zip(mdp.states(stage), q, strict=True):
            best[Place(stage, state)] = set(np.flatnonzero(row >= row.max() - 1e-12).tolist())
    true = [c for c in made.cases if all(a in best[m.estimate.place] for m, a in c.choices.items())]
    assert true, "the cases must cover all choices"
    bets = [case.bet for case in true if case.bet is not None]
    return any(float(bet.total @ one) > bet.radius(measurements.box) + 1e-9 for bet in bets)


# ------------------------------------------------------------------------------------------ promises


def numbered_trial(seed: int) -> Trial:
    """The trial of a random problem."""
    return trial(*random_problem(seed), seed)


def promises(count: int, workers: int) -> list[Trial]:
    """Random problems, and what the claims look like against them."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        trials = list[Trial]()
        for each in pool.map(numbered_trial, range(count), chunksize=5):
            trials.append(each)
            print(f"\r{len(trials)} of {count} problems", end="", file=sys.stderr)
        print(file=sys.stderr)
    zeta = statistics.fmean(t.zeta for t in trials)
    print(f"{count} random problems, A 2..3, d 2..8, H 5..10, δ 0.1 H .. 0.2 H; stated failure probability {zeta:.3f}")
    print(f"  status {', '.join(sorted({t.status for t in trials}))}")
    for what, bad in (
        ("a bracket, at any iteration, misses v*(s0)", [t.wrong for t in trials]),
        ("a row, a disjunction or a sum excludes θ*", [t.cut_off for t in trials]),
        ("the lower bound is above the policy's value", [t.overrated for t in trials]),
        ("the policy loses more than δ", [t.loss > t.delta for t in trials]),
        ("any of these", [t.failed for t in trials]),
    ):
        exact = stats.binomtest(sum(bad), count, zeta, alternative="greater")
        interval = stats.binomtest(sum(bad), count).proportion_ci(0.95, method="exact")
        print(
            f"  {what:<45} {sum(bad):>3} of {count}, 95% interval [{interval.low:.4f}, {interval.high:.4f}]; "
            f"p-value of the claim {exact.pvalue:.3g}"
        )
    limit = int(stats.binom.isf(0.01, count, zeta)) + 1
    noticed = next(p for p in np.arange(zeta, 1, 0.001) if stats.binom.sf(limit - 1, count, p) >= 0.99)
    print(
        f"  {limit} failures or more would speak against the claim: 1% by chance if it holds, and with 99% if the true "
        f"probability is {noticed:.3f} or more"
    )
    shares = [t.loss / t.delta for t in trials]
    print(f"  loss/δ: median {statistics.median(shares):.3f}, largest {max(shares):.3f}")
    for actions in sorted({t.actions for t in trials}):
        some = [t for t in trials if t.actions == actions]
        queries = [t.queries for t in some]
        print(
            f"  A={actions}: queries median {statistics.median(queries):,.0f}, 90% below "
            f"{np.quantile(queries, 0.9):,.0f}, largest {max(queries):,}; iterations median "
            f"{statistics.median(t.iterations for t in some):.0f}, largest {max(t.iterations for t in some)}; seconds "
            f"median {statistics.median(t.seconds for t in some):.2f}, largest {max(t.seconds for t in some):.2f}"
        )
    return trials


# ------------------------------------------------------------------------------------------ scaling


@dataclass(frozen=True)
class Point:
    """One size of problem: queries over several instances, and of the paper's constants."""

    x: float
    delta: float
    paper: float
    trials: list[Trial] = field(repr=False)

    @property
    def queries(self) -> list[int]:
        """Of every instance."""
        return [t.queries for t in self.trials]


def point(x: float, horizon: int, delta: float, instances: int) -> Point:
    """A = 2, d = 3."""
    problems = [tp.make("layered-stochastic/2x3", horizon=horizon, seed=1000 + k) for k in range(instances)]
    paper = [tp.constants(A=2, d=3, H=horizon, delta=delta, B=p.bound).init_queries for p in problems]
    return Point(x, delta, float(statistics.median(paper)), [trial(p, delta, k) for k, p in enumerate(problems)])


def slope(points: Sequence[Point], paper: bool = False) -> float:
    """The exponent that fits best."""
    y = [p.paper if paper else statistics.median(p.queries) for p in points]
    return float(np.polyfit(np.log([p.x for p in points]), np.log(y), 1)[0])


def scaling(name: str, points: Sequence[Point]) -> None:
    """The table of one curve, and its exponents."""
    head = f"  {name:>6} {'δ':>6} {'queries, median':>16} {'least':>11} {'most':>11} {'paper':>9} {'loss/δ':>7}"
    print(f"{head} {'failed':>6}")
    for p in points:
        loss, failed = max(t.loss / t.delta for t in p.trials), sum(t.failed for t in p.trials)
        print(
            f"  {p.x:>6g} {p.delta:>6g} {statistics.median(p.queries):>16,.0f} {min(p.queries):>11,} "
            f"{max(p.queries):>11,} {p.paper:>9.1e} {loss:>7.2f} {failed:>6}"
        )
    print(f"  exponent of {name}: {slope(points):.2f}; of the paper's constants {slope(points, paper=True):.2f}")


# ------------------------------------------------------------------------------------------ plot


def plot(path: str, trials: Sequence[Trial], by_delta: Sequence[Point], by_horizon: Sequence[Point]) -> None:
    """Losses and queries of all problems; queries against 1/δ and H."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4.5), layout="constrained")
    losses, deltas, horizons = figure.subplots(1, 3)
    for actions in sorted({t.actions for t in trials}):
        some = [t for t in trials if t.actions == actions]
        losses.plot([t.queries for t in some], [t.loss / t.delta for t in some], "o", alpha=0.6, label=f"A = {actions}")
    losses.axhline(1.0, color="grey", linewidth=0.8)
    losses.set(xscale="log", xlabel="queries", ylabel="loss / δ", title=f"{len(trials)} random problems")
    losses.minorticks_off()
    losses.legend()
    for axes, points, name in ((deltas, by_delta, "1/δ"), (horizons, by_horizon, "H")):
        x = [p.x for p in points]
        y = [statistics.median(p.queries) for p in points]
        axes.fill_between(x, [min(p.queries) for p in points], [max(p.queries) for p in points], alpha=0.2)
        axes.plot(x, y, "o-", label=f"certified: exponent {slope(points):.1f}")
        axes.plot(x, [p.paper for p in points], "s--", label=f"paper's constants: {slope(points, paper=True):.1f}")
        axes.set(xscale="log", yscale="log", xlabel=name, ylabel="queries")
        axes.set_xticks(x, [f"{value:g}" for value in x])
        axes.minorticks_off()
        axes.legend(loc="center right")
    deltas.set_title("A = 2, d = 3, H = 5")
    horizons.set_title(f"A = 2, d = 3, δ = {SHARE:g} H")
    figure.savefig(path, dpi=120)
    print(f"\nplot written to {path}")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.certified", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of it, and the cheapest sizes only")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes, one per core unless given")
    parser.add_argument("--plot", metavar="FILE", help="write a plot, PNG")
    options = parser.parse_args(arguments)
    count, instances, sizes = (30, 3, 3) if options.quick else (1_000, 15, 5)
    began = time.perf_counter()
    trials = promises(count, options.workers)
    print(f"\nqueries against 1/δ: A = 2, d = 3, H = 5, {instances} instances of each")
    by_delta = [point(1 / delta, 5, delta, instances) for delta in DELTAS[:sizes]]
    scaling("1/δ", by_delta)
    print(f"\nqueries against H: A = 2, d = 3, δ = {SHARE:g} H, {instances} instances of each")
    by_horizon = [point(h, h, SHARE * h, instances) for h in HORIZONS[:sizes]]
    scaling("H", by_horizon)
    print(f"\n{time.perf_counter() - began:.0f} s in all")
    if options.plot:
        plot(options.plot, trials, by_delta, by_horizon)


if __name__ == "__main__":
    main(sys.argv[1:])
