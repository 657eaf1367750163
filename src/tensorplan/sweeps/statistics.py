"""Statistics of many runs: estimates with intervals, profiles and paired tests.

Interquartile mean, stratified bootstrap, performance profiles and probability of improvement as Agarwal et al. (2021),
"Deep Reinforcement Learning at the Edge of the Statistical Precipice", define them (their library is rliable), for
scores of which less is better.  Strata are problems, runs within a stratum are seeds: the intervals show the variation
with other seeds on the same problems.  Random generators have fixed seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from tensorplan.core import Array
from tensorplan.core.errors import BadInput
from tensorplan.core.intervals import Interval

RESAMPLES = 2000
CONFIDENCE = 0.95
DECIMALS = 9
"""Scores are rounded to so many decimals: smaller differences are rounding errors."""
EXACT = 200
"""The most differences for an exact signed-rank test."""
BLOCK = 1 << 18
"""Resampled values processed at a time, which fit a cache."""
KEPT = 1 << 23
"""The most drawn indices that are kept for the next statistic of the same runs."""

Strata = Sequence[ArrayLike]


# ------------------------------------------------------------------------------------ one number


def interquartile_mean(values: ArrayLike) -> float:
    """The mean of the middle half: a quarter of the values, rounded down, is trimmed at either end."""
    return float(_trimmed_means(np.asarray(values, dtype=np.float64)[None, :])[0])


def _trimmed_means(x: Array) -> Array:
    """The interquartile mean of every row; like ``scipy.stats.trim_mean``, with less overhead on small arrays."""
    n = x.shape[1]
    cut = n // 4
    return _means(np.partition(x, (cut, n - cut - 1), axis=1)[:, cut : n - cut] if cut else x)


def _means(x: Array) -> Array:
    return np.asarray(x.mean(axis=1))


def bootstrap(strata: Strata, statistic: Callable[[Array], Array] = _trimmed_means) -> Interval:
    """The statistic of all values, and its percentile interval under resampling within each stratum.

    ``statistic`` maps (k, n) to (k,).  If no stratum has two or more values the interval is (-inf, inf).
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
    """The performance profile; a failed run has the score inf, which no τ reaches.

    The band is that of the stratified bootstrap at each τ; its width is 0 if all runs of every problem agree.
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
    below, upto = np.concatenate(places).reshape(2, xs.size)  # how many Y are below, and at most, each X
    last = np.repeat(ends, x_sizes)

    def measure(x_counts: Array, y_counts: Array) -> Array:
        before = np.zeros((len(y_counts), ys.size + 1))
        np.cumsum(y_counts[:, order], axis=1, out=before[:, 1:])
        beaten = last - (before[:, below] + before[:, upto]) / 2
        return np.asarray(np.einsum("ki,ki,i->k", x_counts, beaten, weights))

    estimate = float(measure(np.ones((1, xs.size)), np.ones((1, ys.size)))[0])
    if max(x_sizes) < 2 and max(y_sizes) < 2:
        return Interval(estimate, -math.inf, math.inf)
    mine, theirs, block = np.random.default_rng(0), np.random.default_rng(1), max(1, BLOCK // (xs.size + ys.size))
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
    """Wilcoxon's signed-rank test of a difference symmetric around 0; equal pairs are left out."""


def paired(x: Mapping[tuple[str, int], float], y: Mapping[tuple[str, int], float]) -> Paired:
    """X against Y, unit by unit: keys are (problem, seed).  The interval resamples pairs within each problem."""
    keys = [key for key in x if key in y]
    differences = np.array([round(x[key] - y[key], DECIMALS) for key in keys])
    better, worse = int((differences < 0).sum()), int((differences > 0).sum())
    strata = grouped((key[0], float(value)) for key, value in zip(keys, differences, strict=True))
    mean = bootstrap(list(strata.values()), _means)
    return Paired(len(keys), better, len(keys) - better - worse, worse, mean, signed_rank(differences))


def signed_rank(differences: ArrayLike) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test, zeros left out; 1 if all are zero.

    Exact up to ``EXACT`` differences, ties included: the law of the sum of the positive differences' ranks under fair
    random signs, by convolution.  Beyond that scipy's normal approximation.
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
    """The number of units in which X and Y are positive, and the geometric mean of X/Y over them."""
    keys = [key for key in x if key in y and x[key] > 0 and y[key] > 0]
    if not keys:
        return 0, None
    logs = grouped((key[0], math.log(x[key] / y[key])) for key in keys)
    mean, low, high = bootstrap(list(logs.values()), _means)
    return len(keys), Interval(math.exp(mean), math.exp(low), math.exp(high))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of a family of tests, adjusted to control the family-wise error rate (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    steps = np.asarray(p_values, dtype=np.float64)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return [float(p) for p in adjusted]


# ---------------------------------------------------------------------------------------- drawing


def _flat(strata: Strata) -> tuple[Array, list[int]]:
    arrays = [np.asarray(values, dtype=np.float64) for values in strata]
    return (np.concatenate(arrays) if arrays else np.empty(0)), [len(values) for values in arrays]


def _draw(sizes: Sequence[int], k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """k rows of n indices, each drawn uniformly from its own stratum, (k, n)."""
    lengths = np.repeat(sizes, sizes)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(starts + (rng.random((k, lengths.size)) * lengths).astype(np.intp))


def _resampled(sizes: Sequence[int]) -> Iterable[NDArray[np.intp]]:
    """``RESAMPLES`` rows of indices, in blocks; the same ones for strata of the same sizes."""
    return _kept(tuple(sizes)) if RESAMPLES * sum(sizes) <= KEPT else _drawn(sizes)


@lru_cache(maxsize=1)
def _kept(sizes: tuple[int, ...]) -> list[NDArray[np.intp]]:
    """Cached, since regrets and queries of the same runs have the same strata."""
    return list(_drawn(sizes))


def _drawn(sizes: Sequence[int]) -> Iterator[NDArray[np.intp]]:
    rng, block = np.random.default_rng(0), max(1, BLOCK // sum(sizes))
    for done in range(0, RESAMPLES, block):
        yield _draw(sizes, min(block, RESAMPLES - done), rng)


def _counts(chosen: NDArray[np.intp]) -> Array:
    """How often each index is chosen, row by row, (k, n)."""
    k, n = chosen.shape
    flat = (chosen + n * np.arange(k)[:, None]).ravel()
    return np.bincount(flat, minlength=k * n).reshape(k, n).astype(np.float64)


def _percentiles(estimate: float, drawn: Array) -> Interval:
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(estimate, float(low), float(high))


def grouped(items: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """The values of each key, keys in order of appearance."""
    groups: dict[Any, list[Any]] = {}
    for key, value in items:
        groups.setdefault(key, []).append(value)
    return groups
