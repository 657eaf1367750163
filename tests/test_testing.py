import numpy as np
import pytest
from helpers import Walk, problem
from hypothesis import given, settings

import tensorplan as tp
from tensorplan.problems.catalog import CATALOG
from tensorplan.testing import check_planner, check_problem, problems, tabular_mdps


@pytest.mark.parametrize("name", [entry.example for entry in CATALOG.values()])
def test_the_whole_catalog_keeps_the_contract(name):
    assert check_problem(tp.make(name)) >= 20


@pytest.mark.parametrize(
    "spec",
    [
        "layered/3x5:kind=vq",
        "layered/3x5:kind=q:eta=0.2",
        "layered/2x4:states=1000000000000:horizon=20",
        "layered-stochastic/3x4:procedural=true:states=1000000000000",
        "layered-stochastic/3x4:kind=vq:eta=0.1",
    ],
)
def test_variants_of_the_catalog_keep_the_contract(spec):
    assert check_problem(tp.make(spec), episodes=5) >= 5


@given(problems())
def test_random_problems_keep_the_contract(task):
    check_problem(task, episodes=2)


@given(tabular_mdps(deterministic=True))
def test_the_strategy_respects_determinism(mdp):
    assert mdp.deterministic_transitions
    assert mdp.deterministic_rewards


def broken(**changes):
    task = tp.make("layered/2x3:states=4:horizon=3:kind=vq")
    fields = {"phi_v": task.phi_v, "phi_q": task.phi_q, "bound": task.bound, "theta": task.theta}
    return tp.Problem(task.mdp, solution=task.solution, **(fields | changes))


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (broken(phi_v=lambda s, h: np.zeros(3)), "but <phi_v, theta> ="),
        (broken(phi_q=lambda s, h: np.zeros((2, 3))), "but <phi_q, theta> ="),
        (broken(bound=0.5), "is above the bound B = 0.5"),
        (
            broken(phi_v=lambda s, h: np.random.default_rng().random(3) / 2),
            "gives different features when called again",
        ),
        (problem(Walk(step=lambda s, a, rng: (2.0, s))), "gave the reward 2.0"),
        (
            problem(Walk(step=lambda s, a, rng: (rng.random(), s), deterministic_rewards=True)),
            "is declared to have deterministic rewards",
        ),
        (
            problem(Walk(step=lambda s, a, rng: (0.5, rng.random()), deterministic_transitions=True)),
            "is declared to have deterministic transitions",
        ),
    ],
)
def test_what_is_wrong_with_a_problem_is_found(task, sentence):
    with pytest.raises(tp.ProblemError) as error:
        check_problem(task)
    assert sentence in str(error.value)


def test_wrong_optimal_values_are_found():
    task = tp.make("hanoi/3")

    class Wrong:
        def value(self, state, stage):
            return task.optimal_value(state) - (1.0 if state == (0, 1, 0) else 0.0)

        def action_value(self, state, action, stage):
            return task.optimal_action_value(state, action)

    with pytest.raises(tp.ProblemError, match=r"q\*\(state="):
        check_problem(tp.Problem(task.mdp, task.phi_v, bound=task.bound, solution=Wrong()))


class Drifting:
    """Keeps a count in the planner itself."""

    def __init__(self):
        self.count = 0

    def __repr__(self):
        return f"Drifting({self.count})"

    def begin(self, access, rng):
        self.count += 1
        return self

    def act(self, node):
        return 0


class Dice(Drifting):
    """Draws from the global generator."""

    def begin(self, access, rng):
        return self

    def act(self, node):
        return int(np.random.randint(2))


@pytest.mark.parametrize(
    ("planner", "sentence"),
    [(Drifting(), "changed its own configuration"), (Dice(), "behaves differently when run again with the same seed")],
)
def test_what_is_wrong_with_a_planner_is_found(planner, sentence):
    # Six coin flips agree by chance with probability 1/64 in each of 20 trials: all of them, never.
    def many():
        for _ in range(20):
            check_planner(planner)

    with pytest.raises(tp.BadInput, match=sentence):
        many()


@settings(max_examples=30)
@given(problems())
def test_planners_keep_the_contract_on_random_problems(task):
    check_planner(tp.UCT(simulations=10), task)
