"""The optimistic step, side by side with SCIP on the same programs: ``python -m benchmarks.optimism [--quick]``.

The programs are all calls of exact TensorPlan on layered problems, and random ones whose disjunctions conflict.
Both solvers use one thread and stop at a gap of 1e-6 (ours absolute; SCIP's absolute or relative, whichever comes
first).  We solve every call of a run, and again with a certificate, which is verified; SCIP gets calls spread over
the run.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks import scip
from benchmarks.instances import CONFLICTS, LAYERED, conflict, layered_run
from tensorplan.optimism import Program, Search, Solution, solve, verify
from tensorplan.optimism.search import CANDIDATES, compile_now

GAP = 1e-6
AGREE = 1e-5
"""How far apart, relative to 1 or the optimum, the two optima may be before the table warns."""

QUICK = ((2, 10), (2, 20), (4, 10), (4, 15))
QUICK_CONFLICTS = 6


@dataclass(frozen=True)
class Duel:
    """One program, solved by both."""

    kind: str
    actions: int
    d: int
    ours: Solution
    seconds: float
    theirs: scip.Answer

    @property
    def both(self) -> bool:
        """Whether both solved it."""
        return solved(self.ours) and self.theirs.status != "limit"

    @property
    def ratio(self) -> float:
        """SCIP's time over ours; a lower bound when SCIP ran out of time."""
        return self.theirs.seconds / self.seconds


@dataclass
class Whole:
    """All calls of one run, solved by us."""

    actions: int
    d: int
    programs: list[Program] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    certified: float = 0.0
    """Seconds to solve all calls with certificates."""
    checked: float = 0.0
    """Seconds to verify these."""
    grown: float = 0.0
    """Seconds for all calls when each one takes up the tree of the one before."""
    grown_nodes: int = 0
    troubles: list[str] = field(default_factory=list)
    """Which calls are not solved, or not proven optimal."""

    @property
    def total(self) -> float:
        """Seconds for all calls."""
        return sum(self.seconds)

    @property
    def per_node(self) -> float:
        """Seconds per node over the run."""
        return self.total / max(sum(self.nodes), 1)


def solved(solution: Solution) -> bool:
    """Whether the solution is what it should be: infeasible, or with value and bound within the gap."""
    return solution.status == "infeasible" or (
        solution.status == "optimal" and solution.bound - solution.value <= GAP * (1 + 1e-6)
    )


def clock(work: Callable[[], Solution], budget: float = 0.3) -> tuple[Solution, float]:
    """The result and the median seconds of as many repetitions, at most 9, as fit in the budget."""
    times: list[float] = []
    while not times or (len(times) < 9 and sum(times) + times[-1] < budget):
        began = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - began)
    return result, statistics.median(times)


def whole_run(actions: int, d: int, limit: float) -> Whole:
    """Solve each program of a run of TensorPlan, and again with a certificate, which is verified."""
    run = Whole(actions, d, list(layered_run(actions, d)))
    for call, program in enumerate(run.programs, 1):
        began = time.perf_counter()
        plain = solve(program, gap=GAP, time_limit=limit)
        run.seconds.append(time.perf_counter() - began)
        run.nodes.append(plain.nodes)
        if plain.status != "optimal":
            run.troubles.append(f"call {call} ended with status {plain.status}")
        began = time.perf_counter()
        solution = solve(program, gap=GAP, time_limit=limit, certificate=True)
        between = time.perf_counter()
        try:
            bound = verify(program, solution)
            # outward rounding may cost a little
            if not (solved(solution) and bound <= solution.value + 2 * GAP):
                excess = bound - solution.value
                run.troubles.append(f"call {call} says {solution.status} and is proven to {excess:.1e} only")
        except ValueError as error:
            run.troubles.append(f"certificate of call {call}: {error}")
        run.certified += between - began
        run.checked += time.perf_counter() - between
    run.grown, run.grown_nodes = grow(run.programs)
    return run


def grow(programs: Sequence[Program], candidates: int = CANDIDATES) -> tuple[float, int]:
    """Seconds and nodes for a sequence of programs, each of which adds to the one before, solved as one."""
    search = Search(programs[0], candidates=candidates)
    seconds, nodes = 0.0, 0
    for before, program in zip([None, *programs[:-1]], programs, strict=True):
        began = time.perf_counter()
        if before is not None:
            rows, forms = len(before.rows), len(before.forms)
            search.extend(program.rows[rows:], program.rhs[rows:], program.forms[forms:], program.tol[forms:])
        nodes += search.solve(gap=GAP).nodes
        seconds += time.perf_counter() - began
    return seconds, nodes


def rules(runs: Sequence[Whole]) -> None:
    """What trying more than the most violated disjunction gains."""
    print("\nbranching: the most violated disjunction, or the best of some that are tried (nodes include the trials)")
    for candidates in (1, 2, 4, 8):
        total, nodes = (sum(x) for x in zip(*(grow(run.programs, candidates) for run in runs), strict=True))
        print(f"  {candidates} tried: {total:>8.3f} s {nodes:>8} nodes")


def spread(programs: Sequence[Program], most: int) -> list[int]:
    """Indices of at most ``most`` programs from the first to the last that have disjunctions."""
    real = [k for k, program in enumerate(programs) if len(program.forms)]
    return sorted({real[int(k)] for k in np.linspace(0, len(real) - 1, most).round()}) if real else []


HEAD = (
    f"  {'instance':<22} {'A':>2} {'d':>3} {'m':>4} {'n':>3} {'ours, s':>10} {'nodes':>7} {'SCIP, s':>9} {'nodes':>7} "
    f"{'SCIP/ours':>10}"
)


def duel(kind: str, name: str, program: Program, limit: float) -> Duel:
    """Solve by both, and print the line."""
    ours, seconds = clock(lambda: solve(program, gap=GAP, time_limit=limit))
    result = Duel(kind, program.alternatives, program.dimension, ours, seconds, scip.solve(program, GAP, limit))
    theirs = result.theirs
    out = theirs.status == "limit"
    ratio = f"{'>' if out else ''}{result.ratio:,.{0 if result.ratio >= 10 else 2}f}"
    marks = ("  SCIP out of time" if out else "") + ("" if solved(ours) else "  not solved by us")
    print(
        f"  {name:<22} {result.actions:>2} {result.d:>3} {len(program.rows):>4} {len(program.forms):>3} "
        f"{seconds:>10.5f} {ours.nodes:>7} {theirs.seconds:>9.3f} {theirs.nodes:>7} {ratio:>10}{marks}",
        flush=True,
    )
    claimed = "limit" not in (ours.status, theirs.status)
    if claimed and ours.status != theirs.status:
        print(f"  WARNING: ours says {ours.status}, SCIP {theirs.status}")
    elif claimed and ours.status == "optimal" and abs(ours.value - theirs.value) > AGREE * max(1.0, abs(ours.value)):
        print(f"  WARNING: the optima differ, ours {ours.value:.9g}, SCIP {theirs.value:.9g}")
    return result


def summary(duels: Sequence[Duel]) -> None:
    """Geometric mean and worst ratio over what both solve; totals."""

    def line(name: str, some: Sequence[Duel]) -> None:
        ratios = [x.ratio for x in some if x.both]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            ours = sum(x.seconds for x in some if x.both)
            theirs = sum(x.theirs.seconds for x in some if x.both)
            print(
                f"  {name:<12} geometric mean {mean:8,.0f}   worst {min(ratios):8,.1f}   "
                f"sum {ours:.3f} s against {theirs:.1f} s   ({len(ratios)} of {len(some)} solved by both)"
            )

    print("\nSCIP's time over ours, where both solve")
    for kind in dict.fromkeys(x.kind for x in duels):
        line(kind, [x for x in duels if x.kind == kind])
    line("all", duels)
    late = [x.ratio for x in duels if solved(x.ours) and x.theirs.status == "limit"]
    if late:
        print(f"  SCIP ran out of time on {len(late)} more that we solve: ratio above {min(late):,.0f} on each")
    unsolved = sum(not solved(x.ours) for x in duels)
    if unsolved:
        print(f"  we do not solve {unsolved}")


def totals(runs: Iterable[Whole]) -> None:
    print("\nwhole runs, ours, every call")
    print(
        f"  {'A':>2} {'d':>3} {'calls':>5} {'m':>4} {'n':>3} {'seconds':>9} {'worst call':>10} {'nodes':>8} "
        f"{'worst':>7} {'us/node':>8} {'certified':>9} {'verify':>7} {'tree kept':>9} {'nodes':>8}"
    )
    for run in runs:
        last = run.programs[-1]
        print(
            f"  {run.actions:>2} {run.d:>3} {len(run.programs):>5} {len(last.rows):>4} {len(last.forms):>3} "
            f"{run.total:>9.3f} {max(run.seconds):>10.3f} {sum(run.nodes):>8} {max(run.nodes):>7} "
            f"{1e6 * run.per_node:>8.1f} {run.certified:>9.3f} {run.checked:>7.3f} "
            f"{run.grown:>9.3f} {run.grown_nodes:>8}"
        )
        for trouble in run.troubles:
            print(f"  WARNING: A={run.actions} d={run.d}: {trouble}")


def growth(runs: Sequence[Whole]) -> None:
    """How the time of a run grows with d at fixed A, and with A at fixed d."""
    print("\ngrowth of the time of a whole run, of its nodes, and of the time of a node")
    for fixed, varied in (("A", "d"), ("d", "A")):
        key: Callable[[Whole], int] = (lambda r: r.actions) if fixed == "A" else (lambda r: r.d)
        other: Callable[[Whole], int] = (lambda r: r.d) if fixed == "A" else (lambda r: r.actions)
        for value in sorted({key(r) for r in runs}):
            group = sorted((r for r in runs if key(r) == value), key=other)
            if len(group) < 2:
                continue
            print(f"  {fixed} = {value}")
            for before, run in zip([None, *group[:-1]], group, strict=True):
                factor = f"   x {run.total / before.total:.2f}" if before is not None else ""
                print(
                    f"    {varied} = {other(run):>2}  {run.total:>9.3f} s  {sum(run.nodes):>8} nodes  "
                    f"{1e6 * run.per_node:>7.1f} us/node{factor}"
                )


def node_time(runs: Sequence[Whole]) -> None:
    """Microseconds per node at d = 20 on the median call, as a multiple of a matrix-vector product."""
    per_node = [
        seconds / nodes
        for run in runs
        if run.d == 20
        for seconds, nodes, program in zip(run.seconds, run.nodes, run.programs, strict=True)
        if len(program.forms)
    ]
    if not per_node:
        return
    rng = np.random.default_rng(0)
    matrix, vector = rng.standard_normal((20, 20)), rng.standard_normal(20)
    rounds = []
    for _ in range(7):
        began = time.perf_counter()
        for _ in range(20_000):
            matrix @ vector
        rounds.append((time.perf_counter() - began) / 20_000)
    product, median = statistics.median(rounds), statistics.median(per_node)
    print(
        f"\na node at d = 20: {1e6 * median:.1f} us on the median of {len(per_node)} calls, "
        f"{median / product:.0f} x one 20x20 matrix-vector product ({1e6 * product:.2f} us)"
    )


def plot(path: str, duels: Sequence[Duel], runs: Sequence[Whole]) -> None:
    """Growth with d and with A, and all instances against SCIP."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4.5), layout="constrained")
    by_d, by_a, against = figure.subplots(1, 3)
    _curves(by_d, [(r.actions, r.d, r.total) for r in runs], "A")
    by_d.set(xlabel="d", ylabel="seconds, all calls of a run", yscale="log", title="growth with d")
    _curves(by_a, [(r.d, r.actions, r.total) for r in runs], "d")
    by_a.set(xlabel="A", ylabel="seconds, all calls of a run", yscale="log", title="growth with A")
    by_a.set_xticks(sorted({r.actions for r in runs}))

    for kind, marker in (("layered", "o"), ("conflict", "s")):
        for out in (False, True):
            points = [
                (x.seconds, x.theirs.seconds) for x in duels if x.kind == kind and (x.theirs.status == "limit") == out
            ]
            if points:
                label = kind + (", SCIP out of time" if out else "")
                against.plot(*zip(*points, strict=True), "^" if out else marker, alpha=0.7, label=label)
    ends = [min(x.seconds for x in duels), max(x.seconds for x in duels)]
    for factor in (1, 10, 100, 1000):
        against.plot(ends, [factor * x for x in ends], color="grey", linewidth=0.7)
        against.annotate(f"{factor} x", (ends[0], factor * ends[0]), fontsize="small", annotation_clip=True)
    against.set(xlabel="ours, seconds", ylabel="SCIP, seconds", xscale="log", yscale="log", title="one program")
    times = [x.theirs.seconds for x in duels]
    against.set_ylim(min(times) / 2, 2 * max(times))
    against.legend(loc="lower right")
    figure.savefig(path, dpi=120)
    print(f"\nplot written to {path}")


def _curves(axes: Any, points: Iterable[tuple[int, int, float]], name: str) -> None:
    points = list(points)
    for value in sorted({p[0] for p in points}):
        curve = sorted((x, y) for v, x, y in points if v == value)
        axes.plot(*zip(*curve, strict=True), "o-", label=f"{name} = {value}")
    axes.legend()


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.optimism", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, three programs per run")
    parser.add_argument("--plot", metavar="FILE", help="write a plot, PNG")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per program (default 60)")
    options = parser.parse_args(arguments)
    limit = options.time_limit

    sizes, most = (QUICK, 3) if options.quick else (LAYERED, 5)
    shapes = CONFLICTS[:QUICK_CONFLICTS] if options.quick else CONFLICTS
    began = time.perf_counter()
    compile_now()
    small = conflict(CONFLICTS[0])
    verify(small, solve(small, gap=GAP, certificate=True))
    first = time.perf_counter() - began
    print(f"the optimistic step against SCIP (our first call, which compiles or loads: {first:.1f} s)")
    print(HEAD)
    duels, runs = [], []
    for actions, d in sizes:
        run = whole_run(actions, d, limit)
        runs.append(run)
        for k in spread(run.programs, most):
            name = f"layered call {k + 1}/{len(run.programs)}"
            duels.append(duel("layered", name, run.programs[k], limit))
    for shape in shapes:
        duels.append(duel("conflict", f"conflict {shape.name}", conflict(shape), limit))
    summary(duels)
    totals(runs)
    growth(runs)
    rules(runs)
    node_time(runs)
    if options.plot:
        plot(options.plot, duels, runs)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
