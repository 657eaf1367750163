"""Paths of UCT are paths of the problem, with the returns that they are said to have."""

import numpy as np
import pytest
from random_graphs import Graph

import tensorplan as tp
from tensorplan.access import LocalAccess
from tensorplan.planners.hindsight.simulated import PathFinder


@pytest.mark.parametrize(("horizon", "discount"), [(6, 1.0), (6, 0.9), (None, 0.8)])
def test_a_path_earns_what_it_is_said_to(horizon, discount):
    rng = np.random.default_rng(5)
    mdp = Graph(rng.integers(-1, 6, size=(6, 3)), rng.random((6, 3)), (0.0, 1.0), horizon)
    problem = tp.Problem(mdp, lambda state, stage: np.array([0.5]), bound=9.0, discount=discount)
    access = LocalAccess(problem, 0, np.random.default_rng(0))
    finder = PathFinder(access, horizon or 10, np.random.default_rng(1))
    found = [finder.find() for _ in range(200)]
    for actions, value, ended in found:
        rewards, last = access.follow(access.root, actions)
        assert len(rewards) == len(actions)
        assert value == pytest.approx(sum(discount**t * reward for t, reward in enumerate(rewards)))
        assert ended == (last is tp.END)
    if horizon is not None:
        assert all(ended for _, _, ended in found)


def test_the_end_of_a_long_path_becomes_good_with_few_queries():
    """One of two actions goes on, for 300 steps: simulations from the start alone would not come far."""

    class Narrow:
        actions, horizon = 2, 300
        deterministic_transitions = deterministic_rewards = True

        def start(self, rng):
            return 0

        def step(self, state, action, rng):
            return (1.0, state + 1) if action == state * 7 % 3 % 2 else (0.0, tp.END)

    problem = tp.Problem(Narrow(), lambda state, stage: np.array([0.5]), bound=300.0)

    def best(move):
        access = LocalAccess(problem, 0, np.random.default_rng(0))
        finder = PathFinder(access, 300, np.random.default_rng(1))
        path = finder.find if move else lambda: finder.tree.simulate(access.root)
        return max(path().value for _ in range(700))

    assert best(move=True) == 300
    assert best(move=False) < 100
