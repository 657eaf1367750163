"""The two remarks of the discussion: the numbers against enumeration, simulation and certificates."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks.discussion import binarization, misfit, read_the_end, survival

import tensorplan as tp
from tensorplan.problems.hard.constant_gap import FALLEN, constant_gap
from tensorplan.problems.hard.exponential import exponential
from tensorplan.problems.random.layered import layered
from tensorplan.problems.transforms.binarized import MAPS, binarize

# -------------------------------------------------------------------------------------------- constant gaps


def test_survival_is_the_sum_over_all_paths():
    task = constant_gap(9, actions=4, horizon=4)
    found = survival(task)
    for h in range(4):
        chances = []
        for path in product(range(4), repeat=h):
            chance, a = 1.0, 0
            for stage, b in enumerate(path):
                chance *= float(task.mdp.chance((stage, a), b))
                a = b
            chances.append(chance)
        assert found.best[h] == pytest.approx(max(chances))
        assert found.random[h] == pytest.approx(sum(chances) / 4**h)
    assert found.episodes == 1 / found.best[3]


def test_survival_is_what_random_episodes_do():
    """5 standard deviations of 4000 episodes."""
    task = constant_gap(64, horizon=4)
    rng = np.random.default_rng(0)
    alive = 0
    for _ in range(4000):
        state = task.mdp.start(rng)
        for _ in range(2):
            _, state = task.mdp.step(state, int(rng.integers(task.actions)), rng)
        alive += state != FALLEN
    expected = survival(task).random[2]
    assert abs(alive / 4000 - expected) <= 5 * np.sqrt(expected / 4000)


def test_survival_falls_exponentially():
    found = survival(constant_gap(128))
    assert len(found.best) == 15
    assert all(x <= 0.75**h + 1e-12 for h, x in enumerate(found.best))
    assert all(x <= y for x, y in zip(found.random, found.best, strict=True))
    assert found.episodes >= 52  # longer than to guess


@pytest.mark.parametrize("params", [{"d": 64}, {"d": 128}, {"d": 128, "actions": 400}, {"d": 5, "actions": 2}])
def test_a_simulator_finds_the_secret_with_few_queries(params):
    """At most 4(H - 1) + d on average: 5 standard deviations of ten climbs, each of variance 12(H - 1) at most."""
    task = constant_gap(**params)
    found = [read_the_end(task, seed) for seed in range(10)]
    assert all(r.action == task.mdp.secret and abs(r.loss) < 1e-12 for r in found)
    assert all(r.read <= min(task.actions, task.dimension) - 1 for r in found)
    assert np.mean([r.climb for r in found]) <= 4 * (task.horizon - 1) + 5 * np.sqrt(12 * (task.horizon - 1) / 10)
    assert all(r.queries == r.climb + r.read for r in found)
    assert read_the_end(task, 3) == found[3]


def test_online_is_exponential_where_the_simulator_is_linear():
    for d in (64, 96, 128, 160):
        task = constant_gap(d)
        assert survival(task).episodes >= task.actions == int(np.exp((d - 1) / 32))
    task = constant_gap(224)
    assert read_the_end(task).queries < task.actions / 2 < survival(task).episodes


def test_other_problems_are_refused():
    for measure in (survival, read_the_end):
        with pytest.raises(
            tp.BadInput, match="this is about constant-gap problems, and problem 'exponential/64' is none"
        ):
            measure(exponential())


# -------------------------------------------------------------------------------------------- binarization


def test_realizable_features_fit():
    for params in ({}, {"branching": 3, "noise": True}, {"starts": 6}):
        task = layered(4, 5, states=12, horizon=4, kind="vq", **params)
        for kind in ("v", "q"):
            found = misfit(task, kind)
            assert found.eta <= 1e-9 * found.largest
            assert (found.features, found.dimension) == (kind, 5)


@pytest.mark.parametrize("eta", [0.02, 0.2])
@pytest.mark.parametrize("kind", ["v", "q"])
def test_a_planted_misspecification_is_found(eta, kind):
    task = layered(3, 4, states=30, horizon=1, kind=kind, eta=eta, starts=30)
    found = misfit(task, kind)
    assert found.eta == pytest.approx(eta)
    assert found.cases == (30 if kind == "v" else 90)


def test_one_feature_by_hand():
    """φ = 1 everywhere: the best constant is the middle of the values."""
    mdp = tp.TabularMDP(
        [np.eye(3)[:, None, :], None], [np.zeros((3, 1)), [[0.1], [0.9], [0.4]]], horizon=2, start=[0.5, 0, 0.5]
    )
    task = tp.Problem(mdp, lambda s, h: np.ones(1), bound=1.0)
    found = misfit(task)
    assert found.cases == 4  # the state in the middle is never met
    assert found.eta == pytest.approx((0.4 - 0.1) / 2)
    assert found.largest == pytest.approx(0.4)


@pytest.mark.parametrize("actions", [2, 4, 5])
def test_no_candidate_fits_the_binarized_problem(actions):
    for seed in range(3):
        task = layered(actions, 5, states=20, horizon=4, kind="q", seed=seed)
        own, *candidates = binarization(task)
        assert own.features == "q"
        assert own.eta <= 1e-9
        assert [c.features for c in candidates] == list(MAPS)
        assert [c.dimension for c in candidates] == [5, 5, 5 * actions]
        assert all(c.eta > 0.03 for c in candidates)
        _, mean, concat = candidates
        assert concat.eta <= mean.eta + 1e-9  # it can repeat what θ does for the mean


def test_the_misfit_is_certified_by_a_dual_point():
    """Weights λ with Σ λ_s φ(s) = 0 and Σ |λ_s| = 1 prove that no θ is better than Σ λ_s v*(s)."""
    from scipy.optimize import linprog

    task = layered(3, 3, states=6, horizon=3, kind="q")
    longer = binarize(task, "mean")
    found = misfit(longer)
    reached = {(0, 0)}
    places = []
    for h in range(3):
        places += [(2 * h + len(p), (s, p)) for _, s in sorted(reached) for p in ((), (0,), (1,))]
        reached = {(h + 1, task.mdp.step(s, a, None)[1]) for _, s in reached for a in range(3)} if h < 2 else set()
    phi = np.array([longer.state_features(s, h) for h, s in places])
    v = np.array([longer.optimal_value(s, h) for h, s in places])
    assert found.cases == len(v)
    n = len(v)
    result = linprog(
        np.concatenate([-v, v]), A_eq=np.vstack([np.hstack([phi.T, -phi.T]), np.ones(2 * n)]), b_eq=[0, 0, 0, 1]
    )
    weights = result.x[:n] - result.x[n:]
    assert np.abs(phi.T @ weights).max() <= 1e-9
    assert np.abs(weights).sum() <= 1 + 1e-9
    assert weights @ v == pytest.approx(found.eta, abs=1e-8)


def test_only_tables_can_be_measured():
    with pytest.raises(tp.Refused, match="problem 'exponential/64' is no table with a horizon"):
        misfit(exponential(), "q")
    with pytest.raises(tp.Refused, match="problem 'hanoi/3' is no table with a horizon"):
        misfit(tp.make("hanoi/3"))
