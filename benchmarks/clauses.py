"""Where a search cannot be avoided: ``python -m benchmarks.clauses [--quick] [--scip]``.

Random formulas with 4.3 clauses of three literals per variable, about half of which are satisfiable: the hardest ones
on average.  A satisfiable one has an optimum, the others are proved infeasible; both proofs are verified.  TensorPlan
meets nothing like it where equations or rows decide its disjunctions, so this keeps the branch and bound from rotting.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.instances import clauses
from tensorplan.optimism import Program, solve, verify

RATIO = 4.3
"""Clauses per variable, where random formulas change from satisfiable to not."""

SIZES = (8, 12, 16, 20, 24, 28)
QUICK = 3
"""Sizes of ``--quick``."""

FORMULAS = 8
"""Of each size."""


class Solved(NamedTuple):
    """One formula."""

    status: str
    nodes: int
    seconds: float
    verified: float
    """Seconds to verify the proof."""


def solve_one(program: Program, limit: float) -> Solved:
    """Solve with a proof, and verify it."""
    began = time.perf_counter()
    solution = solve(program, time_limit=limit, certificate=True)
    between = time.perf_counter()
    if verify(program, solution) > solution.bound + 1e-6:
        raise AssertionError("the proof proves less than the search says")
    return Solved(solution.status, solution.nodes, between - began, time.perf_counter() - between)


def race(programs: Sequence[Program], ours: Sequence[Solved], limit: float) -> str:
    """SCIP's time over ours: the geometric mean, and the worst ratio."""
    from benchmarks import scip

    answers = [scip.solve(program, time_limit=limit) for program in programs]
    for mine, theirs in zip(ours, answers, strict=True):
        if "limit" not in (mine.status, theirs.status) and mine.status != theirs.status:
            raise AssertionError(f"ours says {mine.status}, SCIP {theirs.status}")
    ratios = [theirs.seconds / mine.seconds for mine, theirs in zip(ours, answers, strict=True)]
    return f" {math.exp(statistics.fmean(map(math.log, ratios))):>10,.1f} {min(ratios):>8,.1f}"


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clauses", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small sizes only")
    parser.add_argument("--scip", action="store_true", help="race against SCIP")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds per formula (default 20)")
    options = parser.parse_args(arguments)
    print(f"random 3-CNF with {RATIO:g} clauses per variable, {FORMULAS} formulas of each size; medians")
    head = (
        f"  {'d':>3} {'n':>4} {'satisfiable':>11} {'nodes':>9} {'us/node':>8} {'seconds':>9} {'worst':>8} {'verify':>7}"
    )
    print(head + (f" {'SCIP/ours':>10} {'worst':>8}" if options.scip else ""))
    solve_one(clauses(4, 8, 0), options.time_limit)  # compiles, or loads what is compiled
    for d in SIZES[:QUICK] if options.quick else SIZES:
        programs = [clauses(d, round(RATIO * d), seed) for seed in range(FORMULAS)]
        solved = [solve_one(program, options.time_limit) for program in programs]
        seconds = [s.seconds for s in solved]
        nodes = [s.nodes for s in solved]
        verified = statistics.median(s.verified for s in solved)
        late = sum(s.status == "limit" for s in solved)
        print(
            f"  {d:>3} {len(programs[0].forms):>4} {sum(s.status == 'optimal' for s in solved):>11} "
            f"{statistics.median(nodes):>9,.0f} {1e6 * sum(seconds) / sum(nodes):>8.1f} "
            f"{statistics.median(seconds):>9.4f} {max(seconds):>8.3f} {verified:>7.3f}"
            + (race(programs, solved, options.time_limit) if options.scip else "")
            + (f"  {late} out of time" if late else ""),
            flush=True,
        )


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
