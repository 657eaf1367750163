"""Declared ranges of returns: what follows from them, and what happens where they are wrong."""

import math

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.core.errors import ProblemError
from tensorplan.planners.certified.table import td_width
from tensorplan.problems.random.featurize import featurize
from tensorplan.problems.tables.tabular import TabularMDP
from tensorplan.problems.transforms.tail import tail
from tensorplan.testing import check_problem


def prize(seed, *, states=6, actions=2, horizon=None, discount=1.0, declared=True, d=3):
    """Random places that may lead to END; at the last one every way leads there, and one of them pays 1."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.full(states + 1, 0.5), (states, actions))
    transitions[-1] = 0.0
    transitions[-1, :, -1] = 1.0
    rewards = np.zeros((states, actions))
    rewards[-1, int(rng.integers(actions))] = 1.0
    mdp = TabularMDP(transitions, rewards, horizon=horizon)
    if declared:
        mdp.return_range = (0.0, 1.0)
    return featurize(mdp, d, seed=seed, discount=discount, name=f"prize {seed}")


class Walk:
    """Along a line, one reward a step; it says that returns are less."""

    horizon, actions = 5, 2
    deterministic_transitions = deterministic_rewards = True

    def __init__(self, return_range, deterministic=True):
        self.return_range = return_range
        self.deterministic_rewards = deterministic

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return float(action), state + 1


def walk(return_range, **options):
    return tp.Problem(Walk(return_range, **options), lambda s, h: np.array([1 - h / 5]), bound=10.0, name="walk")


def test_the_smaller_range_counts():
    problem = walk((0.0, 3.0))
    assert [problem.return_range(stage) for stage in range(5)] == [(0, 3), (0, 3), (0, 3), (0, 2), (0, 1)]
    assert tp.LocalAccess(problem, 0, np.random.default_rng(0)).return_range(1) == (0, 3)
    assert walk(None).return_range() == walk((-1.0, 9.0)).return_range() == (0, 5)
    assert tail(problem, 2, 2).return_range() == (0, 3)


def test_it_is_for_the_discount_of_the_problem():
    problem = prize(0, discount=0.9)
    assert problem.return_range() == (0, 1)
    assert problem.return_range(0, 0.5) == (0, 2)


@pytest.mark.parametrize("declared", [(1.0, 2.0), (-2.0, -1.0), (0.0, math.inf), (math.nan, 1.0), 3, (0, 1, 2), "ab"])
def test_what_is_no_range_is_refused(declared):
    with pytest.raises(ProblemError, match=r"'walk': return_range must be two finite numbers .* with 0 between them"):
        walk(declared)


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_return_outside_is_named(deterministic):
    problem = walk((0.0, 2.5), deterministic=deterministic)
    with pytest.raises(ProblemError, match=r"'walk' declares returns in \[0, 2.5\], and an episode had [3-5]"):
        tp.run(problem, tp.TensorPlan(delta=0.5))
    with pytest.raises(ProblemError, match=r"from state=\d, stage=\d an episode had 3"):
        check_problem(problem, episodes=50)


def test_brackets_hold_and_take_fewer_queries():
    """Failure probabilities are 0.05 at most: of 20, five wrong ones would be a surprise of one in 300."""
    queries, wrong = [], 0
    for seed in range(10):
        horizon, discount = ((12, 1.0), (None, 0.9))[seed % 2]
        spent = []
        for declared in (True, False):
            problem = prize(seed, horizon=horizon, discount=discount, declared=declared)
            (episode,) = tp.run(problem, tp.TensorPlan(delta=0.3), seed=seed).episodes
            certificate = episode.certificate
            assert certificate.status == "certified"
            wrong += not certificate.lower <= problem.optimal_value(0) + 1e-9 <= certificate.upper + 2e-9
            spent.append(episode.total_queries)
        queries.append(spent)
    assert wrong < 5
    ratios = [without / within for within, without in queries]
    assert np.median(ratios) > 1.3


def test_the_width_holds_what_is_measured():
    """R + γ v*(S') at every pair, over all that can come of it."""
    for seed in range(20):
        problem = prize(seed, horizon=6 if seed % 2 else None, discount=1.0 if seed % 2 else 0.9)
        mdp = problem.mdp
        access = tp.LocalAccess(problem, 0, np.random.default_rng(0))
        for stage in range(mdp.horizon or 1):
            for state in mdp.states(stage):
                for action in range(mdp.actions):
                    rewards, successors, _ = mdp.step_batch(state, action, 1, np.random.default_rng(0))
                    ahead = [
                        problem.optimal_value(problem.arrive(s, stage), problem.next_stage(stage)) for s in successors
                    ]
                    outcomes = rewards[0] + problem.discount * np.array(ahead)
                    assert np.ptp(outcomes) <= td_width(access, problem.discount, 0.0, stage) + 1e-12
        assert td_width(access, problem.discount, 0.0, 0) == 1.0


def test_a_range_of_returns_does_not_bound_the_length_of_episodes():
    """It is given, so the refusal must not ask for it."""

    class Walk:
        horizon, actions, return_range = None, 2, (0.0, 1.0)

        def start(self, rng):
            return 1

        def step(self, state, action, rng):
            return float(rng.random() < 0.5), tp.END

    task = tp.Problem(Walk(), lambda s, h: [1.0], bound=1.0, name="walk")
    with pytest.raises(tp.Refused, match=r"needs episodes of bounded length.* neither a horizon nor a discount"):
        tp.run(task, tp.TensorPlan())
    (episode,) = tp.run(task, tp.Hindsight(budget=200)).episodes
    assert 0 <= episode.certificate.lower <= episode.certificate.upper <= 1
