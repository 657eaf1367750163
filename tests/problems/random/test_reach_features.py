"""Features that are right at reachable states only: which those are by a search of its own, and what they are like."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import tensorplan as tp
from tensorplan.problems.random.featurize import reachable
from tensorplan.testing import check_problem

KINDS = ("v", "q", "vq")


def table(seed: int, form: str, dense: bool = False, starts: int = 1) -> tp.TabularMDP:
    """A random MDP with few successors per pair, some of them END."""
    rng = np.random.default_rng(seed)
    actions, horizon = int(rng.integers(1, 4)), int(rng.integers(2, 6))
    sizes = rng.integers(starts, 9, horizon).tolist() if form == "layered" else [int(rng.integers(max(4, starts), 12))]
    steps = []
    for n, ahead in zip(sizes, [*sizes[1:], sizes[0]], strict=True):
        step = np.zeros((n * actions, ahead + 1))
        for row in step:
            few = rng.integers(ahead + 1, size=1 if form == "forever" else 2)
            row[few] += rng.random(len(few)) + 0.1
        step /= step.sum(axis=1, keepdims=True)
        if form == "forever":
            step = 0.8 * step + 0.2 * np.eye(ahead + 1)[ahead]
        steps.append(step.reshape(n, actions, ahead + 1) if dense else sparse.csr_array(step))
    rewards = [rng.random((n, actions)) for n in sizes]
    start = np.repeat([1.0 / starts, 0.0], [starts, sizes[0] - starts])
    if form == "layered":
        return tp.TabularMDP([*steps[:-1], None], rewards, horizon=horizon, start=start)
    return tp.TabularMDP(steps[0], rewards[0], horizon=None if form == "forever" else horizon, start=start)


def search(mdp: tp.TabularMDP, stages: int) -> set[tuple[int, int]]:
    """(stage, state) of all that episodes can come to, by asking the simulator's own rows."""
    found = [(0, s) for s, _ in mdp.start_weights()]
    for stage, state in found:
        for action in range(mdp.actions):
            _, successors, _ = mdp._row(state, action)
            following = 0 if mdp.horizon is None else stage + 1
            for s in successors:
                if s is not tp.END and following < stages and (following, s) not in found:
                    found.append((following, s))
    return set(found)


def split(problem: tp.Problem) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(stage, state) of the reachable states, and of the others."""
    stages = problem.horizon or 1
    inside = search(problem.mdp, stages)
    all_ = [(h, s) for h in range(stages) for s in problem.mdp.states(h)]
    return [p for p in all_ if p in inside], [p for p in all_ if p not in inside]


def error(problem: tp.Problem, stage: int, state: int) -> float:
    """How far <φ, θ*> is from v* and q*, at most."""
    errors = [0.0]
    if problem.phi_v is not None:
        value = problem.state_features(state, stage) @ problem.theta
        errors.append(abs(value - problem.optimal_value(state, stage)))
    if problem.phi_q is not None:
        for action, value in enumerate(problem.action_features(state, stage) @ problem.theta):
            errors.append(abs(value - problem.optimal_action_value(state, action, stage)))
    return float(max(errors))


@pytest.mark.parametrize("form", ["layered", "stationary", "forever"])
@pytest.mark.parametrize("features", KINDS)
def test_reachable_states_are_right_and_the_others_are_not(features, form):
    wrong, unreachable = 0, 0
    for seed in range(20):
        mdp = table(seed, form, dense=seed % 2 == 0, starts=1 + seed % 2)
        problem = tp.featurize(mdp, 3, kind=features, reach=True, seed=seed)
        inside, outside = split(problem)
        stages = range(problem.horizon or 1)
        masks = [{(h, s) for s, hit in zip(mdp.states(h), reachable(mdp)[h], strict=True) if hit} for h in stages]
        assert set().union(*masks) == set(inside)
        assert max(error(problem, *place) for place in inside) < 1e-9
        wrong += sum(error(problem, *place) > 1e-3 for place in outside)
        unreachable += len(outside)
        for stage, state in inside + outside:
            if problem.phi_v is not None:
                assert np.linalg.norm(problem.state_features(state, stage)) == pytest.approx(1.0)
            if problem.phi_q is not None:
                assert np.linalg.norm(problem.action_features(state, stage), axis=1) == pytest.approx(1.0)
    assert unreachable > 30
    assert wrong >= 0.99 * unreachable


def test_only_the_features_of_unreachable_states_change():
    for seed in range(5):
        options = {"states": 12, "horizon": 4, "branching": 2, "kind": "vq", "seed": seed}
        task, plain = tp.make("layered/2x3", reach=True, **options), tp.make("layered/2x3", **options)
        assert (task.theta == plain.theta).all()
        assert (task.bound, task.name, task.eta) == (plain.bound, plain.name, plain.eta)
        inside, outside = split(task)
        assert len(outside) > 10
        for stage, state in inside:
            assert (task.phi_v(state, stage) == plain.phi_v(state, stage)).all()
            assert (task.phi_q(state, stage) == plain.phi_q(state, stage)).all()
        for stage, state in outside:
            assert np.abs(task.phi_v(state, stage) - plain.phi_v(state, stage)).max() > 1e-6
            assert np.abs(task.phi_q(state, stage) - plain.phi_q(state, stage)).max(axis=1).min() > 1e-6
        check_problem(task)


def test_they_are_blind_to_the_values():
    """Unit vectors of uniform direction: coordinates of mean 0 and variance 1/d, no correlation with the values."""
    d = 4
    task = tp.make(f"layered/2x{d}", states=1000, horizon=3, kind="v", reach=True, seed=1)
    _, outside = split(task)
    phi = np.array([task.phi_v(s, h) for h, s in outside])
    values = np.array([task.optimal_value(s, h) for h, s in outside])
    n = len(outside)
    assert n > 2000
    assert np.abs(phi.mean(axis=0)).max() < 5 / np.sqrt(d * n)
    assert (phi**2).mean(axis=0) == pytest.approx(np.full(d, 1 / d), abs=5 / np.sqrt(n))
    assert abs(np.corrcoef(phi @ task.theta, values)[0, 1]) < 5 / np.sqrt(n)


def numbers(task: tp.Problem) -> np.ndarray:
    """θ* and all features, in order."""
    parts = [task.theta]
    for stage in range(task.horizon):
        for state in task.mdp.states(stage):
            parts += [f(state, stage).ravel() for f in (task.phi_v, task.phi_q) if f is not None]
    return np.concatenate(parts)


def test_seeds_reproduce():
    options = {"states": 6, "horizon": 3, "kind": "vq", "reach": True}
    np.random.seed(1)
    first = numbers(tp.make("layered/2x3", seed=4, **options))
    np.random.seed(2)
    assert (numbers(tp.make("layered/2x3", seed=4, **options)) == first).all()
    assert np.abs(numbers(tp.make("layered/2x3", seed=5, **options)) - first).max() > 0.1


@pytest.mark.parametrize(
    ("spec", "total", "weighted"),
    [
        ("layered/2x3:states=4:horizon=3:kind=vq:seed=5", -38.07743038817932, -6.625667213875461),
        ("layered-stochastic/3x4:states=5:horizon=3:eta=0.1:seed=2", 6.649469729831138, 5.117323535022679),
        ("layered/2x2:states=3:horizon=2:kind=q:seed=1", 14.249816113877907, 1.8483886826967524),
    ],
)
def test_problems_without_it_are_what_they_were(spec, total, weighted):
    """Sums that were recorded before there was ``reach``."""
    x = numbers(tp.make(spec))
    assert x.sum() == pytest.approx(total, abs=1e-9)
    assert x @ np.cos(np.arange(len(x))) == pytest.approx(weighted, abs=1e-9)
    assert (numbers(tp.make(spec, reach=False)) == x).all()


def test_where_everything_can_be_reached_nothing_changes():
    mdp = tp.TabularMDP(np.full((3, 1, 3), 1 / 3), [[0.1], [0.5], [0.9]], horizon=3, start=[1 / 3] * 3)
    assert all(mask.all() for mask in reachable(mdp))
    assert (numbers(tp.featurize(mdp, 2, reach=True)) == numbers(tp.featurize(mdp, 2))).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"reach": 2}, "reach must be true or false, got 2"),
        (
            {"reach": True, "eta": 0.1},
            "reach and eta=0.1 exclude each other: eta is the misspecification over all states",
        ),
        ({"reach": True, "procedural": True}, "reach of a procedural problem must be one of False, got 'True'"),
    ],
)
def test_bad_input_is_one_clear_sentence(options, sentence):
    with pytest.raises(tp.BadInput) as info:
        tp.make("layered/2x3", states=5, horizon=2, **options)
    assert str(info.value) == sentence
