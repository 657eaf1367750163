"""Discounted problems: the values, the return, the planners that know a discount and those that refuse one."""

import itertools

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.problems.tables.reachable import explore

GAMMA = 0.9


def table(seed=0, states=4, actions=2, *, horizon=None, certain=False, ends=0.0):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(states + 1), (states, actions))
    weights[..., -1] *= ends
    if certain:
        weights = np.eye(states + 1)[np.argmax(weights, axis=-1)]
    return tp.TabularMDP(weights / weights.sum(-1, keepdims=True), rng.random((states, actions)), horizon=horizon)


def enumerated(mdp):
    """v* as the best of all memoryless policies, each evaluated by solving its linear system."""
    size = len(mdp.states(0))
    matrix = np.asarray(mdp.matrix(0)).reshape(size, mdp.actions, size + 1)[..., :size]
    values = []
    for policy in itertools.product(range(mdp.actions), repeat=size):
        rows = np.arange(size), list(policy)
        values.append(np.linalg.solve(np.eye(size) - GAMMA * matrix[rows], mdp.rewards(0)[rows]))
    return np.max(values, axis=0)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("ends", [0.0, 1.0])
def test_values_for_ever(seed, ends):
    mdp = table(seed, ends=ends)
    solution = tp.solve_tabular(mdp, GAMMA)
    np.testing.assert_allclose(solution.v[0], enumerated(mdp), atol=1e-11)
    np.testing.assert_allclose(solution.q[0].max(axis=1), solution.v[0], atol=1e-11)
    again = tp.evaluate_tabular(mdp, [solution.greedy[0]], GAMMA)
    np.testing.assert_allclose(again.v[0], solution.v[0], atol=1e-11)


def test_values_with_a_horizon():
    mdp = table(1, horizon=3)
    matrix = np.asarray(mdp.matrix(0)).reshape(4, 2, 5)[..., :4]
    v = np.zeros(4)
    for stage in (2, 1, 0):
        q = mdp.rewards(0) + GAMMA * matrix @ v
        np.testing.assert_allclose(tp.solve_tabular(mdp, GAMMA).q[stage], q, atol=1e-14)
        v = q.max(axis=1)


def test_the_problem_says_so():
    problem = tp.featurize(table(2, certain=True), 3, discount=GAMMA)
    assert problem.discount == GAMMA
    assert problem.return_range() == pytest.approx((0.0, 10.0))
    np.testing.assert_allclose(tp.solve_tabular(problem).v[0], problem.solution.v[0])
    assert explore(problem).value(0, 0) == pytest.approx(problem.optimal_value(0), abs=1e-11)


@pytest.mark.parametrize("seed", range(5))
def test_exact_mode_takes_the_discount_of_the_problem(seed):
    problem = tp.featurize(table(seed, 12, certain=True), 4, discount=GAMMA, seed=seed)
    episode = tp.run(problem, tp.TensorPlan(delta=0.01), max_steps=300).episodes[0]
    assert episode.discount == GAMMA
    assert problem.optimal_value(episode.start) - episode.total_reward <= 0.01 + 1e-6
    assert episode.certificate.lower - 1e-6 <= problem.optimal_value(episode.start) <= episode.certificate.upper + 1e-6


def test_certified_mode_takes_the_discount_of_the_problem():
    problem = tp.featurize(table(3, 6, ends=2.0), 2, discount=0.5)
    episode = tp.run(problem, tp.TensorPlan(delta=0.5), max_steps=50).episodes[0]
    certificate = episode.certificate
    assert certificate.status == "certified"
    assert certificate.lower <= problem.optimal_value(episode.start) <= certificate.upper


def test_a_second_discount_is_refused():
    problem = tp.featurize(table(2, certain=True), 3, discount=GAMMA)
    assert tp.run(problem, tp.TensorPlan(discount=GAMMA, delta=0.1), max_steps=200).episodes
    with pytest.raises(tp.BadInput, match=r"discount=0.8 was given, and problem 'tabular' has 0.9: leave it out"):
        tp.run(problem, tp.TensorPlan(discount=0.8))


def test_tree_searches_discount():
    """Waiting for 1 is worth 0.81 after two steps; 0.85 can be had at once."""
    steps = np.zeros((3, 2, 4))
    steps[0, 0, 1] = steps[1, :, 2] = steps[2, :, 3] = steps[0, 1, 3] = 1.0
    rewards = np.array([[0.0, 0.85], [0.0, 0.0], [1.0, 1.0]])
    mdp = tp.TabularMDP(steps, rewards, horizon=3)
    for discount, first in ((1.0, 0), (GAMMA, 1)):
        problem = tp.featurize(mdp, 2, discount=discount)
        for planner in (tp.UCT(simulations=200), tp.SparseSampling(width=1), tp.Oracle(), tp.TensorPlan()):
            episode = tp.run(problem, planner).episodes[0]
            assert episode.actions[0] == first, planner
            assert episode.total_reward == pytest.approx(problem.optimal_value(0))


def test_a_circle_has_a_value():
    problem = tp.featurize(table(4, certain=True), 3, discount=GAMMA)
    verdict = tp.judge(problem, tp.Oracle(), 1e-9)
    assert verdict.verdict == "sound"
    walk = tp.Problem(Circle(), lambda s, h: np.array([1.0]), bound=10.0, discount=GAMMA, solution=Circle())
    assert abs(tp.judge(walk, tp.Oracle(), 0.0).loss.mean) < 1e-12


class Circle:
    """0 -> 1 -> 2 -> 1 -> ..., which pays 1 at state 2."""

    horizon, actions = None, 1
    deterministic_transitions = deterministic_rewards = True

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return float(state == 2), {0: 1, 1: 2, 2: 1}[state]

    def value(self, state, stage=0):
        return {0: GAMMA**2, 1: GAMMA, 2: 1.0}[state] / (1 - GAMMA**2)

    def action_value(self, state, action, stage=0):
        return self.value(state)


@pytest.mark.parametrize("planner", [tp.OCP(), tp.SpanPlanner(), tp.ConfidentLSPI(), tp.TensorPlanQ(), tp.BiLinUCB()])
def test_who_knows_no_discount_says_so(planner):
    problem = tp.featurize(table(5, horizon=3, certain=True), 3, kind="vq", discount=GAMMA)
    with pytest.raises(tp.Refused, match=r"is for undiscounted problems, and problem 'tabular' has the discount 0\.9"):
        tp.run(problem, planner)


@pytest.mark.parametrize("discount", [0.0, 1.5, float("nan"), "0.9"])
def test_bad_discounts(discount):
    with pytest.raises(tp.ProblemError, match="the discount must be above 0 and at most 1"):
        tp.Problem(Circle(), lambda s, h: np.array([1.0]), bound=1.0, discount=discount)
