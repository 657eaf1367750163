"""Pathwise optimisation against enumeration of all paths, and on problems whose answer is known."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

import tensorplan as tp
from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter
from tensorplan.hindsight.pathwise import Cut, Tree, minimise, pathwise_theta
from tensorplan.hindsight.scenario import Rules


def trees(problem, count, samples=4, seed=0):
    access = BatchAccess(problem, Meter(), seed)
    start = problem.mdp.start(np.random.default_rng(0))
    return [Tree(access, start, Rules.of(problem), i, samples) for i in range(count)]


def all_paths(tree):
    """Every path of a tree as (constant, slope), by brute force."""
    for actions in itertools.product(range(tree.problem.actions), repeat=len(tree.stretches)):
        constant, slope, at = 0.0, tree.first.copy(), 0
        for stretch, action in zip(tree.stretches, actions, strict=True):
            constant += stretch.constants[at, action]
            slope = slope + stretch.slopes[at, action]
            at = stretch.following[at, action]
            if at < 0:
                break
        else:
            constant, slope = constant + tree.last[at, 0], slope + tree.last[at, 1:]
        yield Cut(constant, slope)


@pytest.fixture(scope="module")
def small():
    return tp.make("layered-stochastic", states=12, horizon=3, actions=2, d=2, seed=3)


def test_the_best_path_is_the_best_of_all(small):
    rng = np.random.default_rng(1)
    for tree in trees(small, 5):
        for _ in range(5):
            theta = rng.normal(size=2) * small.bound
            best = max(cut.constant + cut.slope @ theta for cut in all_paths(tree))
            found = tree.best(theta)
            assert found.constant + found.slope @ theta == pytest.approx(best, abs=1e-12)


def test_the_minimum_is_that_of_the_program_with_all_paths(small):
    forest = trees(small, 6)
    theta = minimise(forest, 2, small.bound, 1e-9)
    rows, right = [], []
    for i, tree in enumerate(forest):
        for cut in all_paths(tree):
            rows.append([*cut.slope, *(-(j == i) for j in range(6))])
            right.append(-cut.constant)
        for part in tree.ranged:
            for phi in part.features:
                rows += [[*phi, *[0.0] * 6], [*-phi, *[0.0] * 6]]
                right += [part.high, -part.low]
    best = linprog(
        [0.0, 0.0, *[1 / 6] * 6],
        A_ub=np.array(rows),
        b_ub=right,
        bounds=[(-small.bound, small.bound)] * 2 + [(None, None)] * 6,
    )
    value = np.mean([cut.constant + cut.slope @ theta for cut in (tree.best(theta) for tree in forest)])
    assert value == pytest.approx(best.fun, abs=1e-6)


def test_features_that_realize_v_give_about_v():
    problem = tp.make("layered-stochastic/2x3")
    access = BatchAccess(problem, Meter(), 1)
    theta = pathwise_theta(access, lambda index: 0, Rules.of(problem), 100_000)
    fresh = [tree.best(theta) for tree in trees(problem, 60, samples=16, seed=2)]
    values = [cut.constant + cut.slope @ theta for cut in fresh]
    error = 4 * np.std(values) / np.sqrt(60)
    assert problem.optimal_value(0) - error < np.mean(values) < problem.optimal_value(0) + 0.15 + error


def test_audit_takes_it_by_name():
    problem = tp.make("queue-admission/10:features=poly2")
    audit = tp.audit(problem, lambda state, stage: int(state < 3), "pathwise", budget=200_000)
    assert audit.lower <= problem.optimal_value(0) <= audit.upper
    with pytest.raises(tp.BadInput, match="value must be 'pathwise'"):
        tp.audit(problem, lambda state, stage: 0, "best")


def test_it_needs_features_of_states():
    problem = tp.make("hard/4x9:kind=q")
    access = BatchAccess(problem, Meter(), 0)
    with pytest.raises(tp.BadInput, match="has no phi_v"):
        pathwise_theta(access, lambda index: None, Rules(2, 10), 100)
