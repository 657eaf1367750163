from typing import Any

import numpy as np
import pytest

from tensorplan.core.intervals import Interval
from tensorplan.evaluation.row import Row
from tensorplan.sweeps.standings import comparisons, normalised_regret, profiles, scaling, standings
from tensorplan.sweeps.statistics import holm

X = [[(7 * (4 * run + task) % 11) / 10 for run in range(6)] for task in range(4)]
Y = [[((5 * (4 * run + task) + 3) % 13) / 10 for run in range(6)] for task in range(4)]
NAMES = ["a", "b", "c", "d"]


def row(problem: str = "p", planner: str = "x", seed: int = 0, regret: float | None = 0.0, **changes: Any) -> Row:
    fields: dict[str, Any] = {
        "id": f"{problem}-{planner}-{seed}",
        "problem": problem,
        "planner": planner,
        "seed": seed,
        "status": "done",
        "error": None,
        "attempts": 1,
        "actions": 2,
        "dimension": 3,
        "horizon": 4,
        "optimal": 2.0,
        "total_reward": None if regret is None else 2.0 - regret,
        "regret": regret,
        "steps": 4,
        "queries": 100,
        "worst_call": 50,
        "upper": None,
        "lower": None,
        "certificate": None,
        "seconds": 0.5,
        "trace": None,
    }
    return Row(**{**fields, **changes})


def failed(problem: str = "p", planner: str = "x", seed: int = 0, **changes: Any) -> Row:
    nothing = dict.fromkeys(["optimal", "total_reward", "regret", "steps", "queries", "worst_call", "seconds"])
    return row(problem, planner, seed, **{"status": "failed", "error": "It broke.", **nothing, **changes})


@pytest.mark.parametrize(
    ("regret", "optimal", "expected"),
    [(1.0, -4.0, 0.25), (-1.0, 4.0, -0.25), (1e-13, 0.0, 0.0), (1.0, 0.0, None), (1.0, None, None), (None, 2.0, None)],
)
def test_normalised_regret(regret, optimal, expected):
    assert normalised_regret(row(regret=regret, optimal=optimal)) == expected
    assert normalised_regret(row(regret=regret, optimal=optimal, status="timeout")) is None


def test_standings_say_what_they_left_out():
    rows = [
        row(seed=0, regret=0.2, queries=10, worst_call=7, upper=2.1, lower=1.9, certificate="certified"),
        row(seed=1, regret=0.6, queries=30, worst_call=9, upper=1.9, lower=1.5, certificate="budget"),
        row(
            "q", seed=0, regret=None, optimal=None, queries=80, seconds=9.0, upper=1.0, lower=0.0, certificate="budget"
        ),
        failed("q", seed=1),
        failed("q", seed=2, status="timeout"),
        row(planner="y", regret=None, optimal=None),
    ]
    first, second = standings(rows)
    assert (first.planner, first.runs, first.done, first.failed, first.unjudged) == ("x", 5, 3, 2, 1)
    assert first.regret == pytest.approx((0.2, 0.1, 0.3))
    assert first.queries is not None
    assert first.queries.mean == pytest.approx(40.0)
    assert (first.worst_call, first.seconds) == (50, 0.5)
    assert (first.brackets, first.certified, first.wrong) == (3, 1, 1)
    assert (second.unjudged, second.regret) == (1, None)


def test_a_sweep_in_which_all_failed():
    rows = [failed(planner=name, seed=seed) for name in "xy" for seed in range(3)]
    for standing in standings(rows):
        assert (standing.done, standing.failed, standing.regret, standing.queries, standing.seconds) == (
            0,
            3,
            *[None] * 3,
        )
    (versus,) = comparisons(rows)
    assert (versus.improvement, versus.paired, versus.p_adjusted, versus.queries) == (None, None, None, None)
    assert profiles(rows, [0.0, 1.0]) == {}
    assert standings([]) == comparisons([]) == []


def test_profiles_count_failures_as_never_there():
    rows = [
        *(row("p", "x", seed, regret=0.2 * seed) for seed in range(3)),  # 0, 0.1, 0.2
        failed("p", "x", 3),
        failed("unknown", "x", 0),  # nobody knows v* there
        row("unknown", "x", 1, regret=None, optimal=None),
        failed("p", "y", 0),
        row("unknown", "z", 0, regret=None, optimal=None),
    ]
    curves = profiles(rows, [0.0, 0.1, 5.0])
    assert list(curves) == ["x", "y"]
    assert curves["x"].fraction == pytest.approx([0.25, 0.5, 0.75])
    assert curves["y"].fraction == pytest.approx([0.0, 0.0, 0.0])


def test_comparisons_of_a_sweep():
    rows = [
        row(problem, planner, seed, regret=2 * value, queries=queries)
        for planner, scores, queries in [("x", X, 10), ("y", Y, 1000)]
        for problem, stratum in zip(NAMES, scores, strict=True)
        for seed, value in enumerate(stratum)
    ]
    (versus,) = comparisons(rows)
    assert versus.improvement is not None
    assert versus.improvement.mean == pytest.approx(0.5625)
    assert versus.paired is not None
    differences = np.subtract(X, Y).ravel()
    assert versus.paired.difference.mean == pytest.approx(differences.mean())
    assert versus.paired.better == (differences.round(9) < 0).sum()
    assert versus.p_adjusted == versus.paired.p_value
    assert versus.queries == pytest.approx(Interval(0.01, 0.01, 0.01))
    assert versus.queries_pairs == 24


def test_many_planners_are_compared_with_the_first():
    names = [f"planner:n={i}" for i in range(7)]
    rows = [row(planner=name, seed=seed, regret=float(seed + i)) for i, name in enumerate(names) for seed in range(6)]
    assert [(v.planner, v.rival) for v in comparisons(rows)] == [(names[0], other) for other in names[1:]]
    six = [r for r in rows if r.planner != names[6]]
    assert len(comparisons(six)) == 15
    adjusted = [v.p_adjusted for v in comparisons(six)]
    assert adjusted == pytest.approx(holm([v.paired.p_value for v in comparisons(six) if v.paired]))


def test_scaling_varies_one_size_at_a_time():
    def sized(problem: str, d: int, h: int, seed: int, queries: int) -> Row:
        return row(problem, seed=seed, dimension=d, horizon=h, queries=queries)

    rows = [
        sized(f"layered/2x{d}:horizon={h}", d, h, seed, 10 * d * h + seed)
        for d in (4, 8)
        for h in (5, 10, 20)
        for seed in range(3)
    ]
    curves, pooled = scaling(rows, "dimension")
    assert not pooled
    assert [curve.fixed for curve in curves] == [f"layered, A = 2, H = {h}" for h in (5, 10, 20)]
    assert [[(x, q.mean) for x, q in curve.points] for curve in curves] == [
        [(4, 40 * h + 1.0), (8, 80 * h + 1.0)] for h in (5, 10, 20)
    ]
    assert scaling(rows, "actions") == ([], True)
    assert [len(curve.points) for curve in scaling(rows, "horizon")[0]] == [3, 3]


def test_scaling_pools_what_varies_together():
    rows = [
        row(f"hard/{p}x{k}", dimension=p * p, actions=p, horizon=p * k, queries=q, seed=s)
        for p, k, q in [(2, 3, 10), (2, 4, 30), (3, 3, 90)]
        for s in range(2)
    ]
    (curve,), pooled = scaling(rows, "actions")
    assert pooled
    assert (curve.planner, curve.fixed) == ("x", "hard")
    assert [(x, q.mean) for x, q in curve.points] == [(2, 20.0), (3, 90.0)]
    others = [row(f"p/{i}:noise={noise}", dimension=i, seed=i) for i in (1, 2) for noise in range(25)]
    assert scaling(others, "dimension")[1]
    assert not scaling([r for r in others if ":noise=24" not in r.problem], "dimension")[1]
