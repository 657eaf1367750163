from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from helpers import Walk, problem
from hypothesis import given, settings

import tensorplan as tp
from tensorplan.core.intervals import betting_interval
from tensorplan.evaluation.verdict import exact_loss
from tensorplan.testing import problems


@dataclass(frozen=True)
class Always:
    """Always the same action: a memoryless policy whose value is easily computed by hand."""

    action: int
    memoryless: ClassVar[bool] = True

    def begin(self, access, rng):
        return self

    def act(self, node):
        return self.action


@settings(max_examples=60)
@given(problems())
def test_exact_loss_of_a_fixed_policy(task):
    """Against a forward recursion over distributions, written independently of evaluate_tabular."""
    mdp = task.mdp
    weights, earned = {0: 1.0}, 0.0
    for stage in range(mdp.horizon):
        following = {}
        for state, weight in weights.items():
            earned += weight * mdp.rewards(stage)[mdp.index(state, stage), 0]
            if stage + 1 < mdp.horizon:
                row = mdp.matrix(stage)[mdp.index(state, stage) * mdp.actions]
                for place, probability in enumerate(row):
                    if place < len(mdp.states(stage + 1)):
                        target = mdp.states(stage + 1)[place]
                        following[target] = following.get(target, 0.0) + weight * probability
        weights = following
    loss = exact_loss(task, Always(0))
    assert loss == pytest.approx(task.optimal_value(0) - earned, abs=1e-9)
    assert loss >= -1e-9


def test_verdicts_on_policies_of_known_loss():
    mdp = tp.TabularMDP(np.ones((1, 2, 1)), np.array([[0.75, 0.5]]), horizon=4)  # action 1 loses 0.25 per step
    task = tp.featurize(mdp, 2)
    for action, delta, verdict in [(0, 0.0, "sound"), (1, 1.0, "sound"), (1, 0.99, "not sound")]:
        result = tp.judge(task, Always(action), delta)
        assert (result.verdict, result.method, result.confidence) == (verdict, "exact", 1.0)
        assert result.loss == pytest.approx((action * 1.0,) * 3)


@pytest.mark.slow
def test_an_estimated_verdict_is_right_or_undecided():
    """The random planner loses 0.5 on average in this problem; the interval must know where that is."""
    mdp = tp.TabularMDP(np.ones((1, 2, 1)), np.array([[0.75, 0.5]]), horizon=4, noise=True)
    task = tp.featurize(mdp, 2)
    verdicts = {
        delta: tp.judge(task, tp.RandomPlanner(), delta, episodes=3000, confidence=0.999).verdict
        for delta in (0.1, 0.5, 0.9)
    }
    assert verdicts == {0.1: "not sound", 0.5: "undecided", 0.9: "sound"}
    few = tp.judge(task, tp.RandomPlanner(), 0.1, episodes=3)
    assert few.verdict == "undecided"
    assert "3 episodes" in few.method


def test_more_episodes_extend_the_same_sample():
    """So that the interval, which holds for all sample sizes at once, holds if one judges until there is a verdict."""
    mdp = tp.TabularMDP(np.ones((1, 2, 1)), np.array([[0.75, 0.5]]), horizon=4, noise=True)
    task = tp.featurize(mdp, 2)
    few, many = (tp.judge(task, tp.RandomPlanner(), 0.5, episodes=n, seed=7) for n in (20, 60))
    returns = [episode.total_reward for episode in many.run.episodes]
    assert [episode.total_reward for episode in few.run.episodes] == returns[:20]
    low, high = task.return_range()
    losses = [task.optimal_value(0) - total for total in returns]
    assert many.loss == betting_interval(losses, (low - high, high - low), 0.95)
    assert many.method == "betting interval, 60 episodes"


def test_the_start_distribution_counts():
    weights = np.tile(np.eye(2)[:, None, :], (1, 2, 1))
    mdp = tp.TabularMDP(weights, np.array([[1.0, 0.0], [0.0, 0.5]]), horizon=1, start=[0.25, 0.75])
    task = tp.featurize(mdp, 2)
    assert exact_loss(task, Always(0)) == pytest.approx(0.75 * 0.5)
    assert exact_loss(task, Always(1)) == pytest.approx(0.25 * 1.0)


def test_deterministic_problems_are_judged_by_one_walk():
    assert exact_loss(tp.make("hanoi/4"), tp.Oracle()) == 0.0
    assert exact_loss(tp.make("layered/3x4:states=1000000"), tp.Oracle()) == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(tp.BadInput, match="goes in circles"):
        exact_loss(tp.make("hanoi/4"), Always(0))


def test_without_a_horizon_only_the_exact_way_decides():
    result = tp.judge(tp.make("grid/2x2"), tp.UCT(simulations=50), 1.0, episodes=5)
    assert result.verdict == "undecided"


def test_unknown_values_are_refused():
    with pytest.raises(tp.Refused, match="has no known optimal values"):
        tp.judge(problem(Walk()), tp.RandomPlanner(), 0.1)
    with pytest.raises(tp.BadInput, match="delta must be a number >= 0, got -1"):
        tp.judge(tp.make("hanoi/2"), tp.Oracle(), -1)
