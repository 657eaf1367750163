"""Planners side by side: the same chance for all, memories that pay for themselves, and what the table says."""

from __future__ import annotations

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.evaluation.estimates import student
from tensorplan.evaluation.sessions import side_by_side


@pytest.fixture(scope="module")
def problem():
    return tp.make("layered-stochastic/2x3:horizon=3")


@pytest.fixture(scope="module")
def planners():
    return {"plan": tp.TensorPlan(delta=1.0), "uct": tp.UCT(simulations=20), "best": tp.Oracle()}


@pytest.fixture(scope="module")
def table(problem, planners):
    return side_by_side(problem, planners, episodes=20)


def test_lines_are_what_runs_give(problem, planners, table):
    plan, uct, best = table.lines
    assert [line.planner for line in table.lines] == ["plan", "uct", "best"]
    sessions = [tp.run(problem, planners["plan"], 20, seed).episodes for seed in range(3)]
    assert plan.total_reward == student([e.total_reward for session in sessions for e in session])
    assert plan.queries == student([sum(e.total_queries for e in session) / 20 for session in sessions])
    assert plan.certificate == sessions[0][0].certificate
    alone = tp.run(problem, planners["uct"], 20, 0).episodes
    assert uct.total_reward == student([e.total_reward for e in alone])
    assert uct.queries == student([e.total_queries for e in alone])
    oracle = tp.run(problem, tp.Oracle(), 20, 0).episodes
    assert uct.loss == student([o.total_reward - e.total_reward for o, e in zip(oracle, alone, strict=True)])
    assert uct.certificate is None
    assert (best.loss, best.queries.mean) == ((0.0, 0.0, 0.0), 0.0)


def test_seeds_reproduce(problem, planners, table):
    np.random.seed(3)
    assert side_by_side(problem, planners, episodes=20) == table
    other = side_by_side(problem, {"best": tp.Oracle()}, episodes=20, seed=1)
    assert other.lines[0].total_reward != table.lines[2].total_reward


def test_a_common_world_estimates_losses_better(problem):
    """The loss of a random policy is v*(s0) - v^π(s0); the interval of its returns alone is wider."""
    random = side_by_side(problem, {"random": tp.RandomPlanner()}, episodes=400).lines[0]
    uniform = [np.full((50, 2), 0.5)] * 3
    exact = problem.optimal_value(0) - tp.evaluate_tabular(problem, uniform).v[0][0]
    assert random.loss.low - random.loss.radius < exact < random.loss.high + random.loss.radius
    assert exact > 0.1


def test_the_table_in_print(table):
    lines = str(table).splitlines()
    assert lines[0].split() == ["planner", "return", "loss", "queries", "an", "episode"]
    assert [line.split()[0] for line in lines[1:]] == ["plan", "uct", "best"]
    assert len({len(line) for line in lines}) == 1
    assert lines[3].endswith("0.000 ± 0.000               0 ± 0")


def test_without_the_optimal_policy_there_is_no_loss():
    class Coin:
        horizon, actions = 2, 2

        def start(self, rng):
            return 0

        def step(self, state, action, rng):
            return float(rng.random() < 0.5), state

    task = tp.Problem(Coin(), lambda state, stage: np.array([1.0 - stage / 2]), bound=1.0)
    table = side_by_side(task, {"random": tp.RandomPlanner()}, episodes=5)
    assert table.lines[0].loss is None
    assert "random" in str(table)


def test_bad_input():
    with pytest.raises(tp.BadInput, match="sessions must be a whole number >= 1, got 0"):
        side_by_side(tp.make("hanoi/2"), {}, episodes=3, sessions=0)
