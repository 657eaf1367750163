import itertools
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tensorplan as tp
from tensorplan.core.intervals import Interval
from tensorplan.sweeps import statistics
from tensorplan.sweeps.statistics import (
    bootstrap,
    holm,
    interquartile_mean,
    paired,
    probability_of_improvement,
    profile,
    ratio,
    signed_rank,
)

X = [[(7 * (4 * run + task) % 11) / 10 for run in range(6)] for task in range(4)]
Y = [[((5 * (4 * run + task) + 3) % 13) / 10 for run in range(6)] for task in range(4)]
NAMES = ["a", "b", "c", "d"]


# ------------------------------------------------------------------------------------ one number


def test_the_interquartile_mean_cuts_a_quarter_off_at_either_end():
    values = [100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -50.0, 7.0, 8.0, 9.0]  # 11 values: two off at either end
    assert interquartile_mean(values) == pytest.approx(sum([2, 3, 4, 5, 6, 7, 8]) / 7)
    assert interquartile_mean([1.0, 2.0, 9.0]) == pytest.approx(4.0)
    rng = np.random.default_rng(0)
    for n in range(1, 40):
        x = rng.normal(size=n)
        assert interquartile_mean(x) == pytest.approx(stats.trim_mean(x, 0.25))


def test_numbers_of_rliable():
    """With rliable 1.2.0, whose scores are matrices of runs and tasks of which more is better:

    get_interval_estimates({"x": X.T}, lambda s: np.array([metrics.aggregate_iqm(s)]), reps=200_000)
    get_interval_estimates({"xy": (-X.T, -Y.T)}, lambda a, b: np.array([metrics.probability_of_improvement(a, b)]))
    create_performance_profile({"x": -X.T}, -np.array([0, .25, .5, .75, 1]) - 1e-12, reps=50_000)
    """
    x, y = bootstrap(X), bootstrap(Y)
    assert (x.mean, y.mean) == pytest.approx((0.49166667, 0.575))
    assert x[1:] == pytest.approx((0.30833333, 0.66666667), abs=0.02)
    assert y[1:] == pytest.approx((0.375, 0.775), abs=0.02)
    better = probability_of_improvement(dict(zip(NAMES, X, strict=True)), dict(zip(NAMES, Y, strict=True)))
    assert better.mean == pytest.approx(0.5625)
    assert better[1:] == pytest.approx((0.39930556, 0.72222222), abs=0.02)
    curve = profile(X, [0.0, 0.25, 0.5, 0.75, 1.0])
    assert curve.fraction == pytest.approx([0.125, 0.29166667, 0.54166667, 0.75, 1.0])
    assert curve.low == pytest.approx([0.0, 0.125, 0.33333333, 0.58333333, 1.0], abs=1 / 24)
    assert curve.high == pytest.approx([0.25, 0.45833333, 0.75, 0.91666667, 1.0], abs=1 / 24)


def test_the_bootstrap_resamples_within_strata():
    """Against all 2^2 * 3^3 resamples.  A draw's share below a point is off by 0.02 with probability < 0.4%."""
    strata = [[0.0, 1.0], [10.0, 20.0, 40.0]]
    every = [
        Fraction(int(sum(a) + sum(b)), 5)
        for a in itertools.product(strata[0], repeat=2)
        for b in itertools.product(strata[1], repeat=3)
    ]
    exact = np.array(sorted(every), dtype=float)
    interval = bootstrap(strata, lambda x: x.mean(axis=1))
    assert interval.mean == pytest.approx(71 / 5)
    for got, level in [(interval.low, 0.025), (interval.high, 0.975)]:
        allowed = np.quantile(exact, [max(0, level - 0.02), min(1, level + 0.02)])
        assert allowed[0] - 1e-9 <= got <= allowed[1] + 1e-9


def test_the_bootstrap_agrees_with_scipy():
    rng = np.random.default_rng(0)
    strata = [rng.exponential(size=n) for n in (7, 12, 3)]

    def trimmed(*samples: Any, axis: int) -> Any:
        return stats.trim_mean(np.concatenate(samples, axis=axis), 0.25, axis=axis)

    theirs = stats.bootstrap(
        strata, trimmed, n_resamples=20_000, method="percentile", vectorized=True, random_state=rng
    ).confidence_interval
    ours = bootstrap(strata)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.03)


def test_blocks_change_nothing(monkeypatch):
    x, y = dict(zip(NAMES, X, strict=True)), dict(zip(NAMES, Y, strict=True))

    def all_three() -> tuple[Interval, list[float], Interval]:
        return bootstrap(X), profile(X, [0.1, 0.2]).high.tolist(), probability_of_improvement(x, y)

    whole = all_three()
    monkeypatch.setattr(statistics, "BLOCK", 48 * 7)
    monkeypatch.setattr(statistics, "KEPT", 0)
    assert all_three() == whole


def test_nothing_depends_on_the_global_generator():
    x, y = dict(zip(NAMES, X, strict=True)), dict(zip(NAMES, Y, strict=True))
    results = []
    for seed in (1, 2):
        np.random.seed(seed)
        results.append((bootstrap(X), probability_of_improvement(x, y), profile(X, [0.3]).low.tolist()))
    assert results[0] == results[1]


def test_one_run_per_problem_gives_no_interval():
    assert bootstrap([[1.0], [2.0], [6.0]]) == (3.0, -math.inf, math.inf)
    assert bootstrap([[1.0, 1.0], [1.0]]) == (1.0, 1.0, 1.0)
    assert math.isnan(bootstrap([]).mean)
    alone = probability_of_improvement({"a": [1.0]}, {"a": [1.0]})
    assert alone == (0.5, -math.inf, math.inf)


def test_the_interval_covers():
    """Claim: misses about 5 to 8 times in 100 with 10 seeds; 1 or 31 misses of 200 have probability < 1e-4 then.

    A bootstrap without strata would see their distances and never miss.
    """
    rng = np.random.default_rng(3)
    misses = 0
    for _ in range(200):
        interval = bootstrap(list(rng.normal([[0.0], [1.0], [5.0], [9.0]], 1.0, (4, 10))), lambda x: x.mean(axis=1))
        misses += not interval.low <= 15 / 4 <= interval.high
    assert 2 <= misses <= 30


# ------------------------------------------------------------------------- profiles, comparisons


def test_a_profile_is_the_distribution_function():
    rng = np.random.default_rng(4)
    strata = [rng.exponential(size=5).tolist() for _ in range(3)] + [[0.0, math.inf]]
    taus = np.linspace(0, 3, 20)
    curve = profile(strata, taus)
    flat = [value for stratum in strata for value in stratum]
    assert curve.fraction == pytest.approx([sum(value <= tau for value in flat) / len(flat) for tau in taus])
    assert (curve.low <= curve.fraction).all()
    assert (curve.fraction <= curve.high).all()
    with pytest.raises(tp.BadInput, match="thresholds in increasing order"):
        profile(strata, [1.0, 1.0])
    with pytest.raises(tp.BadInput, match="a profile needs scores"):
        profile([], [1.0])


def brute_improvement(x: Mapping[str, Any], y: Mapping[str, Any]) -> Fraction:
    common = [name for name in x if name in y]
    each = [
        Fraction(sum(2 * (a < b) + (a == b) for a in x[name] for b in y[name]), 2 * len(x[name]) * len(y[name]))
        for name in common
    ]
    return sum(each, Fraction(0)) / len(each)


def test_probability_of_improvement_is_the_share_of_pairs():
    rng = np.random.default_rng(5)
    for _ in range(20):
        sizes = rng.integers(1, 7, size=(4, 2))
        x = {name: rng.integers(0, 4, size=n).astype(float) for name, n in zip("abcz", sizes[:, 0], strict=True)}
        y = {name: rng.integers(0, 4, size=n).astype(float) for name, n in zip("abcy", sizes[:, 1], strict=True)}
        got, back = probability_of_improvement(x, y), probability_of_improvement(y, x)
        assert got.mean == pytest.approx(float(brute_improvement(x, y)))
        assert back.mean == pytest.approx(1 - got.mean)
        u = [stats.mannwhitneyu(y[n], x[n]).statistic / (len(x[n]) * len(y[n])) for n in "abc"]
        assert got.mean == pytest.approx(np.mean(u))
        assert got.low <= got.mean <= got.high or max(map(len, [*x.values(), *y.values()])) < 4
    assert math.isnan(probability_of_improvement({"a": [1.0]}, {"b": [1.0]}).mean)


def test_probability_of_improvement_resamples_both():
    """Against all resamples of x and y, of which there are 2^2 * 3^3."""
    x, y = [0.0, 2.0], [1.0, 1.0, 3.0]
    every = sorted(
        float(brute_improvement({"a": a}, {"a": b}))
        for a in itertools.product(x, repeat=2)
        for b in itertools.product(y, repeat=3)
    )
    got = probability_of_improvement({"a": x}, {"a": y})
    for value, level in [(got.low, 0.025), (got.high, 0.975)]:
        low, high = np.quantile(every, [max(0, level - 0.02), min(1, level + 0.02)])
        assert low - 1e-9 <= value <= high + 1e-9


def test_paired_runs():
    x = {("a", 0): 1.0, ("a", 1): 2.0, ("b", 0): 3.0, ("b", 1): 3.0, ("c", 0): 9.0}
    y = {("a", 0): 2.0, ("a", 1): 4.0, ("b", 0): 3.0 + 1e-13, ("b", 1): 0.0, ("d", 0): 1.0}
    result = paired(x, y)
    assert (result.pairs, result.better, result.equal, result.worse) == (4, 2, 1, 1)
    assert result.difference.mean == 0.0
    # signed ranks of -1, -2, 3: W = min(3, 3), and every one of the 8 signs is at least as extreme
    assert result.p_value == 1.0
    assert result.difference.low < 0 < result.difference.high


@pytest.mark.parametrize(
    "differences", [[1.0, -2.0, 3.0, 4.0, 5.0, 6.0, 7.0], [1.0, 1.0, -1.0, 2.0, 2.0, 3.0, -3.0, 4.0]]
)
def test_the_signed_rank_test_by_enumeration(differences):
    ranks = stats.rankdata(np.abs(differences))
    sums = [float(ranks @ signs) for signs in itertools.product([0, 1], repeat=len(ranks))]
    seen = float(ranks[np.array(differences) > 0].sum())
    tail = min(sum(total >= seen for total in sums), sum(total <= seen for total in sums))
    assert signed_rank([*differences, 0.0]) == pytest.approx(min(1.0, 2 * tail / len(sums)))


def test_the_signed_rank_test_agrees_with_scipy():
    rng = np.random.default_rng(6)
    for n in (5, 20, 50, 201):
        x = rng.normal(0.3, 1.0, n)
        assert signed_rank(x) == pytest.approx(stats.wilcoxon(x).pvalue)
    x = rng.normal(0.1, 1.0, 200)
    assert signed_rank(x) == pytest.approx(stats.wilcoxon(x).pvalue, abs=0.003)
    assert signed_rank([0.0, 0.0]) == 1.0


def test_pairs_that_are_all_equal():
    result = paired({("a", 0): 1.0, ("a", 1): 1.0}, {("a", 0): 1.0, ("a", 1): 1.0})
    assert (result.equal, result.p_value, result.difference) == (2, 1.0, (0.0, 0.0, 0.0))


def test_the_ratio_of_queries_is_a_geometric_mean():
    x = {("a", 0): 10.0, ("a", 1): 40.0, ("b", 0): 0.0}
    count, times = ratio(x, {("a", 0): 20.0, ("a", 1): 5.0, ("b", 0): 7.0})
    assert count == 2
    assert times is not None
    assert times.mean == pytest.approx(2.0)
    assert (times.low, times.high) == pytest.approx((0.5, 8.0))
    assert ratio(x, {}) == (0, None)


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
