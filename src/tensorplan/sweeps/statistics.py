"""What a sweep's runs say about its planners: estimates with intervals, profiles and comparisons.

Interquartile mean, stratified bootstrap, performance profiles and probability of improvement as Agarwal et al. (2021),
"Deep Reinforcement Learning at the Edge of the Statistical Precipice", define them (their library is rliable), for
scores of which less is better.  Strata are problems, runs within a stratum are seeds: the intervals say how the numbers
would move with other seeds on the same problems.  Every draw comes from a generator with a fixed seed.

What is compared is the normalised regret, (v*(s0) - total reward) / |v*(s0)|.  A run has none if it failed or if
v*(s0) is not known; each summary says how many of them it left out.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from tensorplan.core import Array
from tensorplan.core.errors import BadInput
from tensorplan.core.intervals import Interval

if TYPE_CHECKING:
    from tensorplan.judge.row import Row

RESAMPLES = 2000
CONFIDENCE = 0.95
DECIMALS = 9
"""Normalised regrets are rounded to these: what differs by less is rounding, not performance."""
ALL_CURVES = 24
"""The most curves of one plot of :func:`scaling`."""
ALL_PAIRS = 15
"""The most comparisons of all planners with each other; where there would be more, each is compared with the first."""
EXACT = 200
"""The most differences of an exact signed-rank test."""
BLOCK = 1 << 18
"""How many resampled values are worked on at a time: what fits a cache is faster."""
KEPT = 1 << 23
"""How many drawn places are kept for the next statistic of the same runs."""

Strata = Sequence[ArrayLike]


# ------------------------------------------------------------------------------------ one number


def normalised_regret(row: Row) -> float | None:
    """regret / |v*(s0)|, rounded; None if the run failed or v*(s0) is not known, or is 0 while the regret is not."""
    if row.status != "done" or row.regret is None or row.optimal is None:
        return None
    if round(row.regret, DECIMALS) == 0:
        return 0.0
    return round(row.regret / abs(row.optimal), DECIMALS) if row.optimal else None


def interquartile_mean(values: ArrayLike) -> float:
    """The mean of the middle half: a quarter of the values, rounded down, is cut off at either end."""
    return float(_trimmed_means(np.asarray(values, dtype=np.float64)[None, :])[0])


def _trimmed_means(x: Array) -> Array:
    """The interquartile mean of every row, as ``scipy.stats.trim_mean`` has it, less what that spends on small ones."""
    n = x.shape[1]
    cut = n // 4
    return _means(np.partition(x, (cut, n - cut - 1), axis=1)[:, cut : n - cut] if cut else x)


def _means(x: Array) -> Array:
    return np.asarray(x.mean(axis=1))


def bootstrap(strata: Strata, statistic: Callable[[Array], Array] = _trimmed_means) -> Interval:
    """The statistic of all values, and its percentile interval under resampling within each stratum.

    ``statistic`` maps (k, n) to (k,).  Without a stratum of two or more values nothing can be resampled and the
    interval is (-inf, inf).
    """
    values, sizes = _flat(strata)
    if not values.size:
        return Interval(math.nan, -math.inf, math.inf)
    estimate = float(statistic(values[None, :])[0])
    if max(sizes) < 2:
        return Interval(estimate, -math.inf, math.inf)
    if values.min() == values.max():
        return Interval(estimate, estimate, estimate)
    return _percentiles(estimate, np.concatenate([statistic(values[chosen]) for chosen in _resampled(sizes)]))


# --------------------------------------------------------------------------------------- profiles


@dataclass(frozen=True)
class Profile:
    """The fraction of runs with a score of at most τ, for each τ, with its pointwise interval."""

    thresholds: Array
    fraction: Array
    low: Array
    high: Array


def profile(strata: Strata, thresholds: ArrayLike) -> Profile:
    """The performance profile; a run that failed is a score of inf, which no τ reaches.

    The band is that of the stratified bootstrap at each τ; it has no width where all runs of every problem agree.
    """
    taus = np.asarray(thresholds, dtype=np.float64)
    values, sizes = _flat(strata)
    if not values.size or not (np.diff(taus) > 0).all():
        raise BadInput("a profile needs scores, and thresholds in increasing order")
    places = np.searchsorted(taus, values)  # the first τ that reaches each run

    def fractions(chosen: NDArray[np.intp]) -> Array:
        cells = len(taus) + 1
        shifted = places[chosen] + cells * np.arange(len(chosen))[:, None]
        counts = np.bincount(shifted.ravel(), minlength=cells * len(chosen)).reshape(len(chosen), cells)
        return np.asarray(np.cumsum(counts, axis=1)[:, :-1] / values.size)

    drawn = np.concatenate([fractions(chosen) for chosen in _resampled(sizes)])
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return Profile(taus, fractions(np.arange(values.size)[None, :])[0], low, high)


# ------------------------------------------------------------------------------------ comparisons


def probability_of_improvement(x: Mapping[str, ArrayLike], y: Mapping[str, ArrayLike]) -> Interval:
    """P(X < Y) + P(X = Y) / 2 for runs X, Y drawn on the same problem, averaged over the problems of both.

    Per problem it is the Mann-Whitney U over the number of pairs.  The interval resamples X and Y independently.
    """
    common = [problem for problem in x if problem in y]
    if not common:
        return Interval(math.nan, -math.inf, math.inf)
    (xs, x_sizes), (ys, y_sizes) = _flat([x[p] for p in common]), _flat([y[p] for p in common])
    weights = np.repeat(1 / (len(common) * np.asarray(x_sizes) * np.asarray(y_sizes)), x_sizes)
    order = np.lexsort((ys, np.repeat(np.arange(len(common)), y_sizes)))  # by problem, then by value
    ends = np.cumsum(y_sizes)
    places = [
        end - size + np.searchsorted(np.sort(y[p]), x[p], side)
        for side in ("left", "right")
        for p, size, end in zip(common, y_sizes, ends, strict=True)
    ]
    below, upto = np.concatenate(places).reshape(2, xs.size)  # how many Y are before, and before or level with, each X
    last = np.repeat(ends, x_sizes)

    def measure(x_counts: Array, y_counts: Array) -> Array:
        before = np.zeros((len(y_counts), ys.size + 1))
        np.cumsum(y_counts[:, order], axis=1, out=before[:, 1:])
        beaten = last - (before[:, below] + before[:, upto]) / 2
        return np.asarray(np.einsum("ki,ki,i->k", x_counts, beaten, weights))

    estimate = float(measure(np.ones((1, xs.size)), np.ones((1, ys.size)))[0])
    if max(x_sizes) < 2 and max(y_sizes) < 2:
        return Interval(estimate, -math.inf, math.inf)
    mine, theirs, block = _generator(0), _generator(1), max(1, BLOCK // (xs.size + ys.size))
    drawn = []
    for done in range(0, RESAMPLES, block):
        k = min(block, RESAMPLES - done)
        drawn.append(measure(_counts(_draw(x_sizes, k, mine)), _counts(_draw(y_sizes, k, theirs))))
    return _percentiles(estimate, np.concatenate(drawn))


@dataclass(frozen=True)
class Paired:
    """Two planners on the same problems and seeds."""

    pairs: int
    better: int
    """Pairs in which X has less than Y."""
    equal: int
    worse: int
    difference: Interval
    """The mean of X - Y."""
    p_value: float
    """Wilcoxon's signed-rank test of a difference that is symmetric around 0; equal pairs are left out of it."""


def paired(x: Mapping[tuple[str, int], float], y: Mapping[tuple[str, int], float]) -> Paired:
    """X against Y, unit by unit: keys are (problem, seed).  The interval resamples pairs within each problem."""
    keys = [key for key in x if key in y]
    differences = np.array([round(x[key] - y[key], DECIMALS) for key in keys])
    better, worse = int((differences < 0).sum()), int((differences > 0).sum())
    strata = _by_problem((key[0], float(value)) for key, value in zip(keys, differences, strict=True))
    mean = bootstrap(list(strata.values()), _means)
    return Paired(len(keys), better, len(keys) - better - worse, worse, mean, signed_rank(differences))


def signed_rank(differences: ArrayLike) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test, zeros left out; 1 if nothing else is there.

    Exact up to ``EXACT`` differences, with ties too: the law of the sum of the positive ones' ranks when each sign is a
    fair coin, by convolution.  Beyond that the normal approximation of scipy.
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[values != 0]
    if not values.size:
        return 1.0
    if values.size > EXACT:
        return float(stats.wilcoxon(values).pvalue)
    twice = np.rint(2 * stats.rankdata(np.abs(values))).astype(np.intp)  # ranks of ties are halves
    law = np.ones(1)
    for rank in twice:
        law = (np.pad(law, (0, rank)) + np.pad(law, (rank, 0))) / 2
    observed = int(twice[values > 0].sum())
    return min(1.0, 2 * min(float(law[: observed + 1].sum()), float(law[observed:].sum())))


def ratio(x: Mapping[tuple[str, int], float], y: Mapping[tuple[str, int], float]) -> tuple[int, Interval | None]:
    """The geometric mean of X/Y over the units in which both are positive, and how many those are."""
    keys = [key for key in x if key in y and x[key] > 0 and y[key] > 0]
    if not keys:
        return 0, None
    logs = _by_problem((key[0], math.log(x[key] / y[key])) for key in keys)
    mean, low, high = bootstrap(list(logs.values()), _means)
    return len(keys), Interval(math.exp(mean), math.exp(low), math.exp(high))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of a family of tests, adjusted such that the chance of any false alarm stays bounded (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    steps = np.asarray(p_values, dtype=np.float64)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return [float(p) for p in adjusted]


# ------------------------------------------------------------------------------- of a whole sweep


@dataclass(frozen=True)
class Standing:
    """One planner over all of its runs."""

    planner: str
    runs: int
    done: int
    failed: int
    """Runs that ended in an error, or at the limit of time or memory."""
    unjudged: int
    """Runs that are done and have no normalised regret: v*(s0) is not known, or it is 0."""
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
    """Those among them that closed the gap as far as was asked for."""
    statuses: dict[str, int]
    """All of them by their status."""
    wrong: int
    """Brackets that v*(s0), where it is known, is outside of."""


@dataclass(frozen=True)
class Versus:
    """Two planners compared by their normalised regrets and their queries, on the problems of both."""

    planner: str
    rival: str
    improvement: Interval | None
    """The probability that the planner does better than the rival."""
    paired: Paired | None
    p_adjusted: float | None
    """The p-value of ``paired``, adjusted for all comparisons of the sweep."""
    queries: Interval | None
    """The geometric mean of the planner's queries over the rival's."""
    queries_pairs: int


def standings(rows: Sequence[Row]) -> list[Standing]:
    """One line per planner, in order of appearance."""
    return [_standing(planner, mine) for planner, mine in _by_planner(rows).items()]


def comparisons(rows: Sequence[Row]) -> list[Versus]:
    """All pairs of planners, or each one with the first where that would be more than ``ALL_PAIRS``."""
    planners = _by_planner(rows)
    names = list(planners)
    pairs = list(combinations(names, 2))
    if len(pairs) > ALL_PAIRS:
        pairs = [(names[0], other) for other in names[1:]]
    regrets = {
        name: {(row.problem, row.seed): value for row in mine if (value := normalised_regret(row)) is not None}
        for name, mine in planners.items()
    }
    queries = {
        name: {
            (row.problem, row.seed): float(row.queries)
            for row in mine
            if row.status == "done" and row.queries is not None
        }
        for name, mine in planners.items()
    }
    tables = {name: _by_problem((key[0], value) for key, value in regrets[name].items()) for name in names}
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
    """The performance profile of each planner over all of its runs on problems of which v*(s0) is known.

    A run that failed, or whose regret cannot be normalised, reaches no threshold.  v*(s0) is known of a problem if any
    run of it says so.
    """
    known = {row.problem for row in rows if row.optimal is not None}
    result = {}
    for planner, mine in _by_planner(rows).items():
        scores = _by_problem((row.problem, _score(row)) for row in mine if row.problem in known and _judged(row))
        if scores:
            result[planner] = profile(list(scores.values()), thresholds)
    return result


@dataclass(frozen=True)
class Curve:
    """The queries of one planner as one of the sizes A, d, H grows."""

    planner: str
    fixed: str
    """What the problems of the curve have in common."""
    points: tuple[tuple[int, Interval], ...]
    """(size, interquartile mean of the queries)."""


def scaling(rows: Sequence[Row], size: str) -> tuple[list[Curve], bool]:
    """Curves in ``size`` ("actions", "dimension" or "horizon") with the other sizes and parameters fixed.

    Where nothing varies alone, or where there would be more than ``ALL_CURVES``, the second value is True and there is
    one curve per planner and family of problems, over all that the sweep has of it.
    """
    done = [row for row in rows if row.status == "done" and row.queries is not None and getattr(row, size) is not None]
    alone = _varying(done, size, lambda row: _fixed(row, size))
    pooled = not 1 <= len(alone) <= ALL_CURVES
    groups = _varying(done, size, lambda row: _family(row.problem)) if pooled else alone
    return [Curve(*key, tuple(_points(by_size))) for key, by_size in groups.items()], pooled


def _varying(
    rows: Sequence[Row], size: str, fixed: Callable[[Row], str]
) -> dict[tuple[str, str], dict[int, list[Row]]]:
    """By planner and what is fixed, the runs of each size, where there are two sizes or more."""
    groups = _grouped(((row.planner, fixed(row)), row) for row in rows)
    by_size = {key: _grouped((int(getattr(row, size)), row) for row in mine) for key, mine in groups.items()}
    return {key: sizes for key, sizes in by_size.items() if len(sizes) > 1}


def _points(by_size: Mapping[int, Sequence[Row]]) -> Iterator[tuple[int, Interval]]:
    for size in sorted(by_size):
        strata = _by_problem((row.problem, float(row.queries or 0)) for row in by_size[size])
        yield size, bootstrap(list(strata.values()))


def _fixed(row: Row, size: str) -> str:
    """The family, the other sizes, and the parameters that are none of them."""
    others = {"actions": "A", "dimension": "d", "horizon": "H"}
    del others[size]
    sizes = [f"{letter} = {getattr(row, name)}" for name, letter in others.items() if getattr(row, name) is not None]
    options = [part for part in row.problem.split(":")[1:] if part.partition("=")[0] not in ("actions", "d", "horizon")]
    return ", ".join([_family(row.problem), *sizes, *options])


def _family(problem: str) -> str:
    return re.split("[/:]", problem, maxsplit=1)[0]


def _judged(row: Row) -> bool:
    return row.status != "done" or row.optimal is not None


def _score(row: Row) -> float:
    value = normalised_regret(row)
    return math.inf if value is None else value


def _standing(planner: str, rows: Sequence[Row]) -> Standing:
    done = [row for row in rows if row.status == "done"]
    regrets = _by_problem((row.problem, value) for row in done if (value := normalised_regret(row)) is not None)
    queries = _by_problem((row.problem, float(row.queries)) for row in done if row.queries is not None)
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


# ---------------------------------------------------------------------------------------- drawing


def _generator(stream: int = 0) -> np.random.Generator:
    return np.random.default_rng(stream)


def _flat(strata: Strata) -> tuple[Array, list[int]]:
    arrays = [np.asarray(values, dtype=np.float64) for values in strata]
    return (np.concatenate(arrays) if arrays else np.empty(0)), [len(values) for values in arrays]


def _draw(sizes: Sequence[int], k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """k rows of n places, each drawn uniformly from the places of its own stratum."""
    lengths = np.repeat(sizes, sizes)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(starts + (rng.random((k, lengths.size)) * lengths).astype(np.intp))


def _resampled(sizes: Sequence[int]) -> Iterable[NDArray[np.intp]]:
    """``RESAMPLES`` rows of places, in blocks; the same ones for strata of the same sizes."""
    return _kept(tuple(sizes)) if RESAMPLES * sum(sizes) <= KEPT else _drawn(sizes)


@lru_cache(maxsize=1)
def _kept(sizes: tuple[int, ...]) -> list[NDArray[np.intp]]:
    """Regrets and queries of the same runs have the same strata, one after the other."""
    return list(_drawn(sizes))


def _drawn(sizes: Sequence[int]) -> Iterator[NDArray[np.intp]]:
    rng, block = _generator(), max(1, BLOCK // sum(sizes))
    for done in range(0, RESAMPLES, block):
        yield _draw(sizes, min(block, RESAMPLES - done), rng)


def _counts(chosen: NDArray[np.intp]) -> Array:
    """How often each place is among the chosen ones, row by row."""
    k, n = chosen.shape
    flat = (chosen + n * np.arange(k)[:, None]).ravel()
    return np.bincount(flat, minlength=k * n).reshape(k, n).astype(np.float64)


def _percentiles(estimate: float, drawn: Array) -> Interval:
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(estimate, float(low), float(high))


def _by_planner(rows: Iterable[Row]) -> dict[str, list[Row]]:
    return _grouped((row.planner, row) for row in rows)


def _by_problem(values: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    return _grouped(values)


def _grouped(items: Iterable[tuple[Hashable, Any]]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for key, value in items:
        groups[key].append(value)
    return dict(groups)
