"""Search at the root: right on the family it is made for, at the price that is known, and harmless elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import Walk, problem

import tensorplan as tp
from tensorplan.planners.baselines.root_search import RootSearch
from tensorplan.problems.hard.exponential import exponential, forced_queries
from tensorplan.testing import check_planner


@pytest.mark.parametrize(("d", "params"), [(64, {}), (64, {"noise": False}), (9, {"actions": 5, "horizon": 4})])
def test_it_finds_the_secret(d, params):
    for seed in range(5):
        task = exponential(d, seed=seed, **params)
        for episode in tp.run(task, RootSearch(), 5, seed).episodes:
            assert episode.actions[0] == task.mdp.secret
            assert episode.total_reward == pytest.approx(task.optimal_value(()))
            assert episode.queries[0] <= task.actions - 1
            assert set(episode.queries[1:]) <= {0}
            assert episode.complete


@pytest.mark.parametrize("k", [2, 7, 40])
def test_it_costs_what_is_claimed_and_more_than_is_forced(k):
    """Costs are in [1, k - 1]: five standard deviations of the mean of 1000 episodes, at most k/2 each."""
    task = exponential(64, actions=k)
    spent = [e.total_queries for e in tp.run(task, RootSearch(), 1000, seed=1).episodes]
    claimed = (k - 1) * (k + 2) / (2 * k)
    assert abs(np.mean(spent) - claimed) <= 5 * (k / 2) / np.sqrt(1000) * (k > 2)
    assert max(spent) == k - 1
    assert claimed >= forced_queries(k, task.horizon, delta=0)


def test_the_cost_is_exactly_that_of_the_order():
    """The place of the secret among the k decides: i queries at place i < k, and k - 1 at the last."""
    task = exponential(9, actions=5, horizon=4, secret=3)
    for seed in range(30):
        (episode,) = tp.run(task, RootSearch(), seed=seed).episodes
        mind = np.random.default_rng(np.random.SeedSequence([seed, 0]).spawn(3)[2])
        place = mind.permutation(5).tolist().index(3) + 1
        assert episode.total_queries == min(place, 4)


def test_samples_are_charged():
    task = exponential(9, actions=5, horizon=4, secret=3)
    one = tp.run(task, RootSearch(), seed=2).episodes[0].total_queries
    assert tp.run(task, RootSearch(samples=7), seed=2).episodes[0].total_queries == 7 * one


def test_a_spent_budget_leaves_a_guess():
    task = exponential(64, actions=40)
    episodes = tp.run(task, RootSearch(), 20, budget=3).episodes
    assert all(e.total_queries <= 3 and e.complete for e in episodes)
    (blind,) = tp.run(task, RootSearch(), budget=0).episodes
    assert (blind.total_queries, blind.steps) == (0, task.horizon)


def test_elsewhere_it_plays_what_pays_at_once():
    task = problem(Walk(actions=4, step=lambda state, action, rng: (0.5 * (action == 2), state)))
    assert {tp.run(task, RootSearch(), seed=s).episodes[0].actions[0] for s in range(10)} == {2}
    losses = problem(Walk(actions=2, reward_range=(-1.0, 0.0), step=lambda state, action, rng: (-0.5, state)))
    assert tp.run(losses, RootSearch()).episodes[0].queries[0] == 1
    alone = problem(Walk(actions=1))
    assert tp.run(alone, RootSearch()).episodes[0].total_queries == 0
    check_planner(RootSearch())


@pytest.mark.parametrize("samples", [0, 1.5, "many"])
def test_bad_parameters(samples):
    with pytest.raises(tp.BadInput, match="samples must be a whole number >= 1, got"):
        RootSearch(samples=samples)
