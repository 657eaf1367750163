"""The exact mode where there is no horizon, and with a discount."""

import math

import numpy as np
import pytest
from random_graphs import RANGES, TINY, Graph, random_graph, realize, star_survives

import tensorplan as tp
from tensorplan.core import return_range


def test_a_circle_that_costs_nothing_is_refused():
    mdp = Graph(np.array([[1, -1], [2, -1], [0, -1]]), np.array([[0.0, -1.0]] * 3), (-1.0, 0.0))
    task = tp.Problem(mdp, lambda s, h: np.eye(2)[0] / 2, bound=1.0, name="carousel")
    with pytest.raises(tp.Refused) as error:
        tp.run(task, tp.TensorPlan())
    assert str(error.value) == (
        "problem 'carousel' has no horizon, and actions that promise the optimal value go in a circle through 0 "
        "(stage 0): exact mode needs a horizon, a discount, or steps that all cost something"
    )
    (episode,) = tp.run(task, tp.TensorPlan(discount=0.9), max_steps=10).episodes
    assert episode.actions == (0,) * 10
    assert episode.certificate.lower == 0


def discounted_return(episode, discount):
    return math.fsum(reward * discount**i for i, reward in enumerate(episode.rewards))


@pytest.mark.parametrize("seed", range(8))
def test_discounted_problems(seed):
    """With and without a horizon or END; circles are worth exactly what going round for ever is."""
    for part in range(30):
        rng = np.random.default_rng([seed, part, 1200])
        discount = float(rng.choice([0.5, 0.9, 0.97]))
        horizon = int(rng.integers(1, 9)) if part % 3 == 0 else None
        mdp = random_graph(rng, horizon, ranges=RANGES[:5])
        task = realize(rng, mdp, discount)
        steps = math.ceil(math.log(1e-12) / math.log(discount))
        planner = tp.TensorPlan(discount=discount, trace=True)
        first, second = tp.run(task, planner, episodes=2, max_steps=steps).episodes
        assert second.total_queries <= math.ceil(0.1 * len(second.actions))
        value, slack = task.optimal_value(0), 1e-6 * (1 + task.bound)
        for episode in (first, second):
            low, high = return_range(mdp.reward_range, horizon, 0, discount)
            delta = 0.1 * (min(high, task.bound) - low)
            certificate = episode.certificate
            assert certificate.status == "certified" or (certificate.status == "doubtful" and value == 0)
            assert certificate.gap <= delta / 8 + slack
            assert discounted_return(episode, discount) >= max(value - delta, certificate.lower) - slack
            star_survives(task, episode.trace, value)


def test_circles_make_the_lower_bound_exact():
    """Two states, rewards 1 and 0 in turn, or 0.3 for ever."""
    mdp = Graph(np.array([[1, 0], [0, 1]]), np.array([[1.0, 0.3], [0.0, 0.3]]), (0.0, 1.0))
    discount = 0.95
    task = realize(np.random.default_rng(0), mdp, discount)
    (episode,) = tp.run(task, tp.TensorPlan(discount=discount), max_steps=7).episodes
    assert episode.actions == (0,) * 7
    assert episode.certificate.lower == pytest.approx(1 / (1 - discount**2), abs=1e-12)
    assert episode.certificate.gap <= 1e-6


@pytest.mark.slow
def test_a_budget_leaves_a_bracket_in_discounted_problems_too():
    for seed in range(15):
        rng = np.random.default_rng([seed, 1250])
        task = realize(rng, random_graph(rng, None, ranges=RANGES[:5]), 0.9)
        needed = tp.run(task, tp.TensorPlan(discount=0.9), max_steps=1).episodes[0].total_queries
        for budget in range(0, needed, 4):
            (episode,) = tp.run(task, tp.TensorPlan(discount=0.9, budget=budget), max_steps=300).episodes
            certificate, slack = episode.certificate, TINY * (1 + task.bound)
            assert certificate.status == "budget"
            assert episode.total_queries <= budget
            assert certificate.lower - slack <= task.optimal_value(0) <= certificate.upper + slack
            assert discounted_return(episode, 0.9) >= certificate.lower - slack


@pytest.mark.parametrize("share", [0.5, 1e-3])
def test_where_no_state_comes_back_the_tail_is_cut_off(share):
    class Unfolded(Graph):
        """The state counts the steps, though nothing depends on it."""

        def start(self, rng):
            return 0, 0

        def step(self, state, action, rng):
            reward, following = super().step(state[1], action, rng)
            return reward, following if following is tp.END else (state[0] + 1, following)

    discount = 0.9
    for seed in range(10):
        rng = np.random.default_rng([seed, 1300])
        folded = realize(rng, random_graph(rng, None, ranges=RANGES[:5]), discount)
        mdp = Unfolded(folded.mdp.following, folded.mdp.rewards, folded.mdp.reward_range)
        task = tp.Problem(mdp, lambda s, h, phi=folded.phi_v: phi(s[1], h), bound=folded.bound)
        low, high = return_range(mdp.reward_range, None, 0, discount)
        delta = share * (min(high, task.bound) - low)
        (episode,) = tp.run(task, tp.TensorPlan(discount=discount, delta=delta), max_steps=300).episodes
        value, certificate = folded.optimal_value(0), episode.certificate
        assert certificate.status == "certified"
        assert certificate.lower - 1e-6 <= value <= certificate.upper + 1e-6
        assert certificate.gap <= delta / 8 + 1e-6 * (1 + task.bound)
        assert discounted_return(episode, discount) >= max(value - delta, certificate.lower) - 1e-6
