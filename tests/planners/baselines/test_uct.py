import math

import numpy as np
import pytest
from helpers import local, problem
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorplan as tp
from tensorplan.planners.baselines.uct import Stats
from tensorplan.testing import problems


@given(st.integers(1, 5), st.floats(0.0, 3.0), st.lists(st.floats(-5, 5), min_size=20, max_size=80))
def test_choices_follow_the_documented_formula(actions, exploration, returns):
    """After each update, choice = argmax of mean + c(s) sqrt(ln N' / n) recomputed from the raw history."""
    stats = Stats(None, list(range(actions)))
    history = [[] for _ in range(actions)]
    for value in returns:
        history[stats.choice].append(value)
        stats.update(value, exploration)
        if not all(history):
            assert not history[stats.choice]  # untried actions first
            continue
        seen = [v for h in history for v in h]
        power = 2 ** len(seen).bit_length()
        assert len(seen) < power <= 2 * len(seen)
        spread = (max(seen) - min(seen)) or 1.0
        width = exploration * spread * math.sqrt(math.log(power))
        scores = [sum(h) / len(h) + width / math.sqrt(len(h)) for h in history]
        assert scores[stats.choice] >= max(scores) - 1e-9
        assert stats.counts == [len(h) for h in history]


@settings(max_examples=40)
@given(problems(max_states=3, max_actions=3, max_horizon=3))
def test_with_many_simulations_it_is_nearly_optimal(task):
    """UCT is consistent: its first action's gap vanishes.  Deterministic seeds, so it cannot flake."""
    access = local(task, 1)
    action = tp.UCT(simulations=3000).begin(access, np.random.default_rng(2)).act(access.root)
    gap = task.optimal_value(0) - task.optimal_action_value(0, action)
    assert gap <= 0.1


def test_transpositions_share_statistics_per_stage():
    """A walk where both actions lead to the same state: one entry per stage, not 2^h."""

    class Braid:
        horizon, actions = 8, 2

        def start(self, rng):
            return "x"

        def step(self, state, action, rng):
            return float(action), "x"

    access = local(problem(Braid()))
    tree = tp.UCT(simulations=200).begin(access, np.random.default_rng(0))
    assert tree.act(access.root) == 1
    assert len(tree.table) == 8


def test_it_returns_what_it_has_when_the_budget_is_spent():
    task = tp.make("layered-stochastic/2x3")
    run = tp.run(task, tp.UCT(simulations=1000), budget=300)
    (episode,) = run.episodes
    assert episode.queries[0] == 300
    assert episode.steps >= 1


def test_sparse_rewards_do_not_stop_the_exploration():
    """Only the path 1,1,1,1,1,1 pays; while all returns are zero every action must still be tried."""

    class Needle:
        horizon, actions = 6, 2

        def start(self, rng):
            return 0

        def step(self, state, action, rng):
            return float(state == 5 and action == 1), state + 1 if action == 1 else -100

    run = tp.run(problem(Needle()), tp.UCT(simulations=500))
    assert run.episodes[0].total_reward == 1.0


def test_simulations_without_a_horizon_end():
    run = tp.run(tp.make("grid/4x4"), tp.UCT(simulations=100), max_steps=200)
    assert run.episodes[0].total_reward >= -10


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"simulations": 0}, "simulations must be a whole number >= 1, got 0"),
        ({"exploration": -1.0}, "exploration must be a number >= 0, got -1.0"),
        ({"depth": 1.5}, "depth must be a whole number >= 1, got 1.5"),
    ],
)
def test_bad_parameters(options, sentence):
    with pytest.raises(tp.BadInput) as error:
        tp.UCT(**options)
    assert str(error.value) == sentence
