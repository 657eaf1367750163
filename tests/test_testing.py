import numpy as np
import pytest
from helpers import Walk, problem
from hypothesis import given, settings

import tensorplan as tp
from tensorplan import testing
from tensorplan.problems.catalog import CATALOG
from tensorplan.testing import check_planner, check_problem, check_step_many, problems, tabular_mdps


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


# ----------------------------------------------------------------------------------------- step_many


class Coins(Walk):
    """A coin decides the reward and the next state, together; step_many may be told what to do instead."""

    def __init__(self, many=None, **attributes):
        super().__init__(horizon=4, **attributes)
        self.many = many

    def start(self, rng):
        return (0, 0)

    def step(self, state, action, rng):
        heads = rng.random() < 0.5
        following = (state[0] + 1, int(heads))
        return float(heads), tp.END if heads and state[0] == 2 else following

    def draw_noise(self, n, rng):
        return rng.random((n, 2))

    def step_many(self, states, actions, noise):
        heads = noise[:, 0] < 0.5
        following = np.stack([states[:, 0] + 1, heads], axis=1)
        result = heads.astype(float), following, heads & (states[:, 0] == 2)
        return result if self.many is None else self.many(*result, noise)


def test_a_step_many_like_step_is_accepted():
    assert check_step_many(problem(Coins())) >= 4
    single = Coins(lambda r, s, e, noise: (r.astype(np.float32), s.astype(np.float32), e))
    assert check_step_many(problem(single)) >= 4
    assert check_problem(problem(Coins()), episodes=2) > 2


def test_a_step_many_in_jax_is_accepted():
    jnp = pytest.importorskip("jax.numpy")
    assert check_step_many(problem(Coins(lambda *result: tuple(map(jnp.asarray, result[:3]))))) >= 4


def drifting():
    calls = iter(range(10**6))
    return lambda r, s, e, noise: (np.full(len(r), next(calls) % 2 / 2), s, e)


@pytest.mark.parametrize(
    ("many", "sentence"),
    [
        (lambda r, s, e, noise: (r * 0.5, s, e), "draws from another law than step: rewards differs"),
        (lambda r, s, e, noise: ((noise[:, 1] < 0.5).astype(float), s, e), "the reward with the next state differs"),
        (lambda r, s, e, noise: (r, s + np.array([0, 1]), e), "number 1 of the next state differs"),
        (lambda r, s, e, noise: (r, s, e & (noise[:, 1] < 0.25)), "the share of END differs"),
        (drifting(), "gives other results for the same noise when called again"),
        (lambda r, s, e, noise: (r, np.cumsum(s, axis=0), e), "must depend on its arguments alone, row by row"),
        (lambda r, s, e, noise: (r, s[:, 0], e), "of the shapes (2000,), (2000,), (2000,), for states of shape"),
        (lambda r, s, e, noise: (r + 1, s, e), "gave the reward 2.0"),
    ],
)
def test_what_is_wrong_with_step_many_is_found(many, sentence):
    with pytest.raises(tp.ProblemError) as error:
        check_problem(problem(Coins(many)), episodes=1)
    assert sentence in str(error.value)


def test_noise_of_the_wrong_length_is_found():
    with pytest.raises(tp.ProblemError, match=r"draw_noise\(2000\) gave noise of shape \(1,\), expected 2000 rows"):
        check_step_many(problem(Coins(draw_noise=lambda n, rng: rng.random(1))))


def test_step_many_is_checked_with_the_stated_power():
    """Of two laws that differ by 0.25, 200 checks miss none (stated: 1e-8 each), and 200 raise no alarm (1e-9 each)."""
    rng = np.random.default_rng(0)
    critical = testing._critical(2000, 2000)
    draws = rng.random((200, 2, 2000))
    assert all(testing._distance(one, two) <= critical for one, two in draws)
    assert all(testing._distance(one < 0.5, two < 0.25) > critical for one, two in draws)
