import numpy as np
import pytest
from helpers import Walk, problem
from hypothesis import given, settings

import tensorplan as tp
from tensorplan.planners.registry import PLANNERS, make_planner
from tensorplan.testing import check_planner, problems


@settings(max_examples=60)
@given(problems(deterministic=True))
def test_the_oracle_earns_v_star(task):
    (episode,) = tp.run(task, tp.Oracle()).episodes
    assert abs(episode.total_reward - task.optimal_value(episode.start)) <= 1e-9
    assert sum(episode.queries) == 0


@pytest.mark.parametrize(("name", "steps"), [("hanoi/6", 63), ("chinese-rings/7", 85), ("grid/4x5x2", 8)])
def test_the_oracle_solves_the_puzzles(name, steps):
    (episode,) = tp.run(tp.make(name), tp.Oracle()).episodes
    assert episode.steps == steps
    assert episode.complete


def test_the_oracle_explores_a_deterministic_problem_without_known_values():
    class Ladder(Walk):
        deterministic_transitions = deterministic_rewards = True

        def step(self, state, action, rng):
            return (1.0 if state == 4 else 0.0), state + action

    (episode,) = tp.run(problem(Ladder()), tp.Oracle()).episodes
    assert episode.total_reward == 2.0  # four steps up, two at the top


def test_the_oracle_lists_more_than_a_regret_would():
    class Long(Walk):
        horizon, reward_range = None, (-1.0, 0.0)
        deterministic_transitions = deterministic_rewards = True

        def step(self, state, action, rng):
            return -1.0, tp.END if state >= 12_000 else state + 1 + action

    task = problem(Long())
    (episode,) = tp.run(task, tp.Oracle()).episodes
    assert episode.total_reward == -6001
    assert (sum(episode.queries), task.unmetered) == (0, 2 * 12_002)


def test_the_oracle_says_when_it_cannot_know():
    with pytest.raises(tp.Refused, match="problem 'walk' has no known optimal values"):
        tp.run(problem(), tp.Oracle())


def test_random_actions_are_uniform():
    """Chi-square with 2 degrees of freedom: fails by chance with probability 1e-6; the seed is fixed."""
    task = problem(Walk(actions=3, horizon=3000))
    counts = np.bincount(tp.run(task, tp.RandomPlanner(), seed=3).episodes[0].actions, minlength=3)
    assert ((counts - 1000) ** 2 / 1000).sum() < 27.6


@pytest.mark.parametrize("features", ["random steps", "deterministic transitions", "deterministic"])
@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_keeps_the_contract(name, features):
    steps = {"branching": 3 if features == "random steps" else 1, "noise": features != "deterministic"}
    task = tp.make("layered", actions=2, d=3, states=4, horizon=3, kind="vq", **steps)
    refusals = {
        "tensorplan-paper": ("TensorPlan as printed may need", features != "deterministic"),
        "tensorplan-q": ("an open question", features == "random steps"),
        "ocp": ("OCP is for deterministic problems", features != "deterministic"),
        "span": ("SpanPlanner is for deterministic problems", features != "deterministic"),
    }
    sentence, refused = refusals.get(name, ("", False))
    if refused:
        with pytest.raises(tp.Refused, match=sentence):
            check_planner(make_planner(name), task)
    else:
        check_planner(make_planner(name), task)


def test_planners_by_name():
    assert make_planner("uct:simulations=7:exploration=0.5") == tp.UCT(simulations=7, exploration=0.5)
    with pytest.raises(tp.BadInput, match="unknown planner 'utc'; did you mean 'uct'"):
        make_planner("utc")
    with pytest.raises(tp.BadInput, match="'uct' has no parameter 'simulation'; did you mean 'simulations'"):
        make_planner("uct:simulation=3")
    with pytest.raises(tp.BadInput, match="expected key=value after ':', got '500'"):
        make_planner("uct:500")
    with pytest.raises(tp.BadInput, match="a planner takes key=value parameters"):
        make_planner("uct/500")
