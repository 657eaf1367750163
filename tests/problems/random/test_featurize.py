"""Features against values computed here, and misspecification against a linear program over all states."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tensorplan.core import Problem
from tensorplan.core.errors import BadInput
from tensorplan.problems.random.featurize import featurize
from tensorplan.problems.tables.tabular import TabularMDP, solve_tabular

KINDS = ("v", "q", "vq")
DIMENSIONS = (2, 3, 7)
RANGES = ((0.0, 1.0), (-1.0, 0.0), (-1.0, 1.0))


@dataclass
class Instance:
    """An MDP with its optimal values: ``v[h]`` (S,) and ``q[h]`` (S, A), and the states of each stage."""

    mdp: TabularMDP
    v: list[np.ndarray]
    q: list[np.ndarray]
    states: list[list[int]]

    def targets(self, kind: str) -> np.ndarray:
        return np.concatenate([x.ravel() for x in getattr(self, kind)])

    def rows(self, problem: Problem, kind: str) -> np.ndarray:
        """The features of all states (and actions), in the order of the targets, (n, d)."""
        features = problem.state_features if kind == "v" else problem.action_features
        rows = [features(s, h) for h, states in enumerate(self.states) for s in states]
        return np.concatenate(rows).reshape(-1, problem.dimension)


def instance(seed: int, form: str = "stationary", reward_range: tuple[float, float] = (0.0, 1.0)) -> Instance:
    """A random MDP; every row may end early, without a horizon with probability 1/5 or more."""
    rng = np.random.default_rng(seed)
    low, high = reward_range
    actions = int(rng.integers(1, 4))
    if form == "layered":
        sizes = rng.integers(1, 6, size=rng.integers(2, 5)).tolist()
        steps = [rng.dirichlet(np.ones(m + 1), (n, actions)) for n, m in zip(sizes, [*sizes[1:], 1], strict=True)]
        rewards = [rng.uniform(low, high, (n, actions)) for n in sizes]
        v, q = [], []
        for step, reward in zip(reversed(steps), reversed(rewards), strict=True):
            q.insert(0, reward + (step[..., :-1] @ v[0] if v else 0.0))
            v.insert(0, q[0].max(axis=1))
        edges = np.cumsum([0, *sizes]).tolist()
        states = [list(range(a, b)) for a, b in pairwise(edges)]
        mdp = TabularMDP([*steps[:-1], None], rewards, horizon=len(sizes), reward_range=reward_range)
        return Instance(mdp, v, q, states)
    size, horizon = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    step, reward = rng.dirichlet(np.ones(size + 1), (size, actions)), rng.uniform(low, high, (size, actions))
    if form == "forever":
        step = 0.8 * step + 0.2 * np.eye(size + 1)[size]
        value = np.zeros(size)
        for _ in range(300):  # 0.8^300 is below rounding
            value = (reward + step[..., :-1] @ value).max(axis=1)
        q = [reward + step[..., :-1] @ value]
        mdp = TabularMDP(step, reward, horizon=None, reward_range=reward_range)
        return Instance(mdp, [value], q, [list(range(size))])
    v, q = [np.zeros(size)], []
    for _ in range(horizon):
        q.insert(0, reward + step[..., :-1] @ v[0])
        v.insert(0, q[0].max(axis=1))
    mdp = TabularMDP(step, reward, horizon=horizon, reward_range=reward_range)
    return Instance(mdp, v[:-1], q, [list(range(size))] * horizon)


def misspecification(x: np.ndarray, rows: np.ndarray) -> float:
    """min over θ of max_i |x_i - <rows_i, θ>|, as a linear program in (θ, t)."""
    d, ones = rows.shape[1], np.ones((len(x), 1))
    answer = linprog(
        np.append(np.zeros(d), 1.0),
        A_ub=np.block([[rows, -ones], [-rows, -ones]]),
        b_ub=np.concatenate([x, -x]),
        bounds=[(None, None)] * (d + 1),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert answer.status == 0
    return float(answer.fun)


def largest_value(mdp: TabularMDP, kind: str) -> float:
    """max |v*| or max |q*| to the last bit as the package has it, for the cases at the very limit."""
    return max(float(np.abs(x).max()) for x in getattr(solve_tabular(mdp), kind))


seeds = st.integers(0, 2**32 - 1)
forms = st.sampled_from(["stationary", "layered", "forever"])


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("features", KINDS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=seeds, form=forms, reward_range=st.sampled_from(RANGES))
def test_features_realize_the_optimal_values(features, d, seed, form, reward_range):
    case = instance(seed, form, reward_range)
    problem = featurize(case.mdp, d, kind=features, seed=seed)
    assert problem.dimension == d
    assert problem.theta.shape == (d,)
    assert np.linalg.norm(problem.theta) <= problem.bound
    assert (problem.phi_v is None, problem.phi_q is None) == ("v" not in features, "q" not in features)
    for kind in features:
        rows = case.rows(problem, kind)
        assert rows @ problem.theta == pytest.approx(case.targets(kind), abs=1e-9)
        assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-9)
    for h, states in enumerate(case.states):
        for place, s in enumerate(states):
            assert problem.optimal_value(s, h) == pytest.approx(case.v[h][place], abs=1e-9)


def test_both_maps_share_one_theta_but_not_their_features():
    problem = featurize(instance(1).mdp, 3, kind="vq", seed=1)
    assert problem.phi_v(0, 0).shape == (3,)
    assert np.abs(problem.phi_q(0, 0) - problem.phi_v(0, 0)).max(axis=1).min() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("features", KINDS)
@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    seed=seeds,
    form=forms,
    reward_range=st.sampled_from(RANGES),
    share=st.sampled_from([1e-3, 0.1, 0.5, 0.9, 0.999, 1.0]),
)
def test_misspecification_is_eta_by_linear_programming(features, d, seed, form, reward_range, share):
    case = instance(seed, form, reward_range)
    eta = share * min(largest_value(case.mdp, kind) for kind in features)
    problem = featurize(case.mdp, d, kind=features, eta=eta, seed=seed)
    assert problem.eta == eta
    assert np.linalg.norm(problem.theta) <= problem.bound
    for kind in features:
        x, rows = case.targets(kind), case.rows(problem, kind)  # rows are checked to have norm <= 1
        assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-9
        assert misspecification(x, rows) == pytest.approx(eta, abs=1e-7)
        assert np.abs(x - rows @ problem.theta).max() <= eta + 1e-9


def test_the_linear_program_can_tell():
    # the yardstick itself: exact features miss by 0, and by the known 1/2 on a two-point example
    case = instance(3)
    assert misspecification(case.targets("v"), case.rows(featurize(case.mdp, 3), "v")) == pytest.approx(0, abs=1e-9)
    assert misspecification(np.array([1.0, 0.0]), np.array([[1.0], [1.0]])) == pytest.approx(0.5)


@pytest.mark.parametrize("reward_range", RANGES)
@pytest.mark.parametrize("kind", ["v", "q"])
def test_eta_up_to_the_largest_value_and_no_further(kind, reward_range):
    for seed in range(10):
        case = instance(seed, "layered", reward_range)
        x = case.targets(kind)
        largest = largest_value(case.mdp, kind)
        assert largest == pytest.approx(np.abs(x).max(), abs=1e-9)
        # theta = 0 misses by the largest value, so nothing misses by more
        rows = case.rows(featurize(case.mdp, 3, kind=kind, eta=largest, seed=seed), kind)
        assert misspecification(x, rows) == pytest.approx(largest, abs=1e-7)
        with pytest.raises(BadInput, match=rf"^eta=.* cannot be attained for {kind}\*: θ = 0 is within .*$"):
            featurize(case.mdp, 3, kind=kind, eta=largest * (1 + 1e-9), seed=seed)


def test_one_value_alone_cannot_be_missed():
    lonely = TabularMDP(np.ones((1, 1, 1)), [[0.5]], horizon=1)
    with pytest.raises(BadInput, match="cannot be attained"):
        featurize(lonely, 2, eta=0.1)
    assert featurize(lonely, 2).state_features(0, 0) @ featurize(lonely, 2).theta == pytest.approx(0.5)


def test_the_given_bound():
    for seed in range(10):
        case = instance(seed, reward_range=(-1.0, 1.0))
        largest = largest_value(case.mdp, "v")
        for bound in (largest, 1.1 * largest, 100.0 * largest):
            problem = featurize(case.mdp, 3, bound=bound, seed=seed)
            assert problem.bound == bound
            assert np.linalg.norm(problem.theta) <= bound * (1 + 1e-12)
            assert case.rows(problem, "v") @ problem.theta == pytest.approx(case.targets("v"), abs=1e-9)
        with pytest.raises(BadInput, match=r"^features of norm 1 cannot realize values up to \S+ with bound \S+$"):
            featurize(case.mdp, 3, bound=largest * (1 - 1e-9), seed=seed)


def test_values_that_are_all_zero():
    mdp = TabularMDP(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), horizon=2)
    for bound in (None, 0.01, 5.0):
        problem = featurize(mdp, 3, bound=bound)
        assert 0 < np.linalg.norm(problem.theta) <= problem.bound * (1 + 1e-12)
        assert problem.bound == bound or bound is None
        assert problem.state_features(1, 1) @ problem.theta == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"d": 1}, "d must be a whole number >= 2, got 1"),
        ({"d": 2.5}, "d must be a whole number >= 2, got 2.5"),
        ({"kind": "w"}, "kind must be one of v, q, vq, got 'w'"),
        ({"eta": -0.1}, "eta must be a number >= 0, got -0.1"),
        ({"eta": float("nan")}, "eta must be a number >= 0, got nan"),
        ({"bound": 0}, "bound must be positive, got 0"),
        ({"bound": -1.0}, "bound must be a number >= 0, got -1.0"),
        ({"bound": "large"}, "bound must be a number >= 0, got 'large'"),
    ],
)
def test_bad_input_is_one_clear_sentence(options, sentence):
    mdp = TabularMDP(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), horizon=2)
    with pytest.raises(BadInput) as info:
        featurize(mdp, **{"d": 3, **options})
    assert str(info.value) == sentence


def test_the_seed_decides_and_nothing_else():
    case = instance(5)

    def features(seed: int, eta: float) -> np.ndarray:
        problem = featurize(case.mdp, 3, kind="vq", eta=eta, seed=seed)
        return np.concatenate([problem.theta[None], case.rows(problem, "v"), case.rows(problem, "q")])

    for eta in (0.0, 0.1):
        np.random.seed(1)
        before = np.random.get_state()[1].copy()
        first = features(7, eta)
        assert (np.random.get_state()[1] == before).all()
        np.random.seed(2)
        assert (features(7, eta) == first).all()
        assert np.abs(features(8, eta) - first).max() > 0.1
