import numpy as np
import pytest
from helpers import local
from hypothesis import given, settings

import tensorplan as tp
from tensorplan.testing import problems


@settings(max_examples=60)
@given(problems(deterministic=True))
def test_it_is_optimal_on_deterministic_problems_at_any_width(task):
    (episode,) = tp.run(task, tp.SparseSampling(width=1)).episodes
    assert abs(episode.total_reward - task.optimal_value(episode.start)) <= 1e-9


@settings(max_examples=25)
@given(problems(max_states=3, max_actions=2, max_horizon=3))
def test_estimates_converge_to_q_star(task):
    """At width n an estimate is within H^2 sqrt(ln(2/p)/2n) of q* but for probability p; here n = 4000, p = 1e-6."""
    access = local(task, 5)
    lookahead = tp.SparseSampling(width=4000).begin(access, np.random.default_rng(0))
    estimates = lookahead._estimates(access.root, task.horizon, {})
    exact = [task.optimal_action_value(0, a) for a in range(task.actions)]
    assert np.abs(estimates - exact).max() <= task.horizon**2 * np.sqrt(np.log(2 / 1e-6) / 8000)


def test_queries_without_transpositions_match_the_count():
    """(A·C) + (A·C)^2 + .. + (A·C)^H when no two samples coincide."""

    class Fresh:
        horizon, actions = 3, 2

        def start(self, rng):
            return 0

        def step(self, state, action, rng):
            return 0.5, int(rng.integers(2**60))

    task = tp.Problem(Fresh(), lambda state, stage: np.ones(1), bound=1.0)
    (episode,) = tp.run(task, tp.SparseSampling(width=2)).episodes
    assert episode.queries == (4 + 16 + 64, 4 + 16, 4)


def test_depth_cuts_the_lookahead():
    task = tp.make("layered/2x3:states=1000000:horizon=9")
    (episode,) = tp.run(task, tp.SparseSampling(width=1, depth=2)).episodes
    assert max(episode.queries) <= 2 + 4


def test_it_refuses_problems_without_horizon_or_depth():
    with pytest.raises(tp.Refused, match=r"sparse sampling needs a horizon or a depth, .*'hanoi/3'"):
        tp.run(tp.make("hanoi/3"), tp.SparseSampling())
    (episode,) = tp.run(tp.make("hanoi/2"), tp.SparseSampling(depth=4)).episodes
    assert episode.total_reward == -3
