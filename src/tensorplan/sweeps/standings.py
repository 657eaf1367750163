"""Summaries of the planners of a sweep: standings, comparisons, profiles, scaling.

They compare the normalised regret, (v*(s0) - total reward) / |v*(s0)|.  A run has none if it failed or if v*(s0) is
unknown; each summary counts those it leaves out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from tensorplan.core.intervals import Interval
from tensorplan.evaluation.row import Row
from tensorplan.sweeps.statistics import (
    DECIMALS,
    Paired,
    Profile,
    bootstrap,
    grouped,
    holm,
    paired,
    probability_of_improvement,
    profile,
    ratio,
)

ALL_CURVES = 24
"""The most curves in one plot of :func:`scaling`."""
ALL_PAIRS = 15
"""The most pairs for comparing all planners with each other; beyond that each is compared with the first."""


def normalised_regret(row: Row) -> float | None:
    """regret / |v*(s0)|, rounded; None if the run failed, or v*(s0) is unknown, or is 0 while the regret is not."""
    if not row.done or row.regret is None or row.optimal is None:
        return None
    if round(row.regret, DECIMALS) == 0:
        return 0.0
    return round(row.regret / abs(row.optimal), DECIMALS) if row.optimal else None


@dataclass(frozen=True)
class Standing:
    """One planner over all of its runs."""

    planner: str
    runs: int
    done: int
    failed: int
    """Runs that ended with an error, or exceeded a limit on time or memory."""
    unjudged: int
    """Runs that are done but have no normalised regret: v*(s0) is unknown or 0."""
    regret: Interval | None
    """The interquartile mean of the normalised regret of the others."""
    queries: Interval | None
    """The interquartile mean of the queries of the runs that are done."""
    worst_call: int | None
    seconds: float | None
    """The median of the runs that are done."""
    brackets: int
    """Runs with a certificate."""
    certified: int
    """Runs with status ``"certified"``."""
    statuses: dict[str, int]
    """Runs with a certificate by its status."""
    wrong: int
    """Brackets that do not contain v*(s0), if that is known."""


@dataclass(frozen=True)
class Versus:
    """Two planners compared by their normalised regrets and their queries, on the problems of both."""

    planner: str
    rival: str
    improvement: Interval | None
    """The probability that the planner does better than the rival."""
    paired: Paired | None
    p_adjusted: float | None
    """The p-value of ``paired``, adjusted for all comparisons in the sweep."""
    queries: Interval | None
    """The geometric mean of the ratio of the planner's queries to the rival's."""
    queries_pairs: int


def standings(rows: Sequence[Row]) -> list[Standing]:
    """One standing per planner, in order of appearance."""
    return [_standing(planner, mine) for planner, mine in grouped((row.planner, row) for row in rows).items()]


def comparisons(rows: Sequence[Row]) -> list[Versus]:
    """All pairs of planners, or each one with the first if there are more than ``ALL_PAIRS``."""
    planners = grouped((row.planner, row) for row in rows)
    names = list(planners)
    pairs = list(combinations(names, 2))
    if len(pairs) > ALL_PAIRS:
        pairs = [(names[0], other) for other in names[1:]]
    regrets = {
        name: {(row.problem, row.seed): value for row in mine if (value := normalised_regret(row)) is not None}
        for name, mine in planners.items()
    }
    queries = {
        name: {(row.problem, row.seed): float(row.queries) for row in mine if row.done and row.queries is not None}
        for name, mine in planners.items()
    }
    tables = {name: grouped((key[0], value) for key, value in regrets[name].items()) for name in names}
    matched = {(a, b): paired(regrets[a], regrets[b]) for a, b in pairs}
    tested = [pair for pair in pairs if matched[pair].pairs]
    adjusted = dict(zip(tested, holm([matched[pair].p_value for pair in tested]), strict=True))
    result = []
    for a, b in pairs:
        improvement = probability_of_improvement(tables[a], tables[b])
        count, times = ratio(queries[a], queries[b])
        result.append(
            Versus(
                planner=a,
                rival=b,
                improvement=None if math.isnan(improvement.mean) else improvement,
                paired=matched[a, b] if matched[a, b].pairs else None,
                p_adjusted=adjusted.get((a, b)),
                queries=times,
                queries_pairs=count,
            )
        )
    return result


def profiles(rows: Sequence[Row], thresholds: ArrayLike) -> dict[str, Profile]:
    """The performance profile of each planner over its runs on problems whose v*(s0) is known from any run.

    A run that failed, or whose regret cannot be normalised, reaches no threshold.
    """
    known = {row.problem for row in rows if row.optimal is not None}
    result = {}
    for planner, mine in grouped((row.planner, row) for row in rows).items():
        judged = [row for row in mine if row.problem in known and not (row.done and row.optimal is None)]
        scores = grouped((row.problem, _score(row)) for row in judged)
        if scores:
            result[planner] = profile(list(scores.values()), thresholds)
    return result


@dataclass(frozen=True)
class Curve:
    """The queries of one planner as one of the sizes A, d, H grows."""

    planner: str
    fixed: str
    """The parameters that the problems of the curve share."""
    points: tuple[tuple[int, Interval], ...]
    """(size, interquartile mean of the queries)."""


def scaling(rows: Sequence[Row], size: str) -> tuple[list[Curve], bool]:
    """Curves in ``size`` ("actions", "dimension" or "horizon") with the other sizes and parameters fixed.

    If no size varies alone, or there are more than ``ALL_CURVES`` curves, the second value is True and there is one
    curve per planner and family of problems, over all runs of it.
    """
    done = [row for row in rows if row.done and row.queries is not None and getattr(row, size) is not None]
    alone = _varying(done, size, lambda row: _fixed(row, size))
    pooled = not 1 <= len(alone) <= ALL_CURVES
    groups = _varying(done, size, lambda row: _family(row.problem)) if pooled else alone
    return [Curve(*key, tuple(_points(by_size))) for key, by_size in groups.items()], pooled


def _varying(
    rows: Sequence[Row], size: str, fixed: Callable[[Row], str]
) -> dict[tuple[str, str], dict[int, list[Row]]]:
    """By planner and what is fixed, the runs of each size, if there are two sizes or more."""
    groups = grouped(((row.planner, fixed(row)), row) for row in rows)
    by_size = {key: grouped((int(getattr(row, size)), row) for row in mine) for key, mine in groups.items()}
    return {key: sizes for key, sizes in by_size.items() if len(sizes) > 1}


def _points(by_size: Mapping[int, Sequence[Row]]) -> Iterator[tuple[int, Interval]]:
    for size in sorted(by_size):
        strata = grouped((row.problem, float(row.queries or 0)) for row in by_size[size])
        yield size, bootstrap(list(strata.values()))


def _fixed(row: Row, size: str) -> str:
    """The family, the other sizes, and the remaining parameters."""
    others = {"actions": "A", "dimension": "d", "horizon": "H"}
    del others[size]
    sizes = [f"{letter} = {getattr(row, name)}" for name, letter in others.items() if getattr(row, name) is not None]
    options = [part for part in row.problem.split(":")[1:] if part.partition("=")[0] not in ("actions", "d", "horizon")]
    return ", ".join([_family(row.problem), *sizes, *options])


def _family(problem: str) -> str:
    return re.split("[/:]", problem, maxsplit=1)[0]


def _score(row: Row) -> float:
    value = normalised_regret(row)
    return math.inf if value is None else value


def _standing(planner: str, rows: Sequence[Row]) -> Standing:
    done = [row for row in rows if row.done]
    regrets = grouped((row.problem, value) for row in done if (value := normalised_regret(row)) is not None)
    queries = grouped((row.problem, float(row.queries)) for row in done if row.queries is not None)
    seconds = [row.seconds for row in done if row.seconds is not None]
    brackets = [row for row in done if row.certificate is not None]
    return Standing(
        planner=planner,
        runs=len(rows),
        done=len(done),
        failed=len(rows) - len(done),
        unjudged=len(done) - sum(map(len, regrets.values())),
        regret=bootstrap(list(regrets.values())) if regrets else None,
        queries=bootstrap(list(queries.values())) if queries else None,
        worst_call=max((row.worst_call for row in done if row.worst_call is not None), default=None),
        seconds=float(np.median(seconds)) if seconds else None,
        brackets=len(brackets),
        certified=sum(row.certificate == "certified" for row in brackets),
        statuses=dict(Counter(row.certificate for row in brackets if row.certificate is not None)),
        wrong=sum(_wrong(row) for row in brackets),
    )


def _wrong(row: Row) -> bool:
    if row.optimal is None:
        return False
    slack = 1e-9 * max(1.0, abs(row.optimal))
    below = row.lower is not None and row.optimal < row.lower - slack
    return below or (row.upper is not None and row.optimal > row.upper + slack)
