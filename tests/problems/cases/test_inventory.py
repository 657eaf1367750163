"""The inventory against its own story, told again demand by demand; laws, ranges, features, sizes."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.core import END, Batched, Enumerable
from tensorplan.core.errors import BadInput
from tensorplan.problems.cases import inventory
from tensorplan.problems.cases.inventory import lost_sales
from tensorplan.problems.simulate import draw_many
from tensorplan.problems.states import pack, unpack
from tensorplan.testing import check_problem

DEFAULTS = {"orders": 3, "demand": 1.2, "price": 1.0, "holding": 0.1, "cost": 0.3, "room": 6}
SETTINGS = [
    {"lead": 1, "horizon": 1},
    {"lead": 1, "horizon": 6, "orders": 2, "demand": 0.7, "room": 4, "stock": 0},
    {"lead": 2, "horizon": 5, "price": 2.0, "holding": 0.0, "cost": 0.9},
    {"lead": 3, "horizon": 5, "orders": 1, "room": 2, "stock": 2, "holding": 0.4},
    {"lead": 2, "horizon": 2, "room": 1, "stock": 1, "demand": 3.0},
    {"lead": 1, "horizon": 4, "demand": 0.0},
    {"lead": 2, "horizon": 4, "price": 0.1, "cost": 0.5},
]


def demands(mean, room):
    """[(probability, demand)], everything from ``room`` on as one: it sells all that there is."""
    listed = [(math.exp(-mean) * mean**d / math.factorial(d), d) for d in range(room)]
    return [*listed, (1 - math.fsum(p for p, _ in listed), room)]


def outcomes(state, order, *, demand, price, holding, cost, room, **_):
    """[(probability, reward, next state)], a demand each."""
    shelf = min(state[0] + state[1], room)
    for p, wanted in demands(demand, room):
        sold = min(wanted, shelf)
        yield p, price * sold - holding * (shelf - sold) - cost * order, (shelf - sold, *state[2:], order)


def optimal_value(state, steps, setting):
    """v* by recursion over the states that can be reached."""

    @cache
    def value(state, steps):
        if not steps:
            return 0.0
        return max(
            math.fsum(p * (r + value(n, steps - 1)) for p, r, n in outcomes(state, order, **setting))
            for order in range(setting["orders"] + 1)
        )

    return value(state, steps)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_values_are_those_of_the_demands(setting):
    told = DEFAULTS | setting
    problem = lost_sales(**setting)
    start = problem.mdp.start(np.random.default_rng(0))
    assert problem.optimal_value(start) == pytest.approx(optimal_value(start, told["horizon"], told), abs=1e-10)
    rng = np.random.default_rng(1)
    for _ in range(20):
        state = tuple(int(rng.integers(size)) for size in problem.mdp.shape)
        stage, action = int(rng.integers(told["horizon"])), int(rng.integers(problem.actions))
        left = told["horizon"] - stage - 1
        q = math.fsum(p * (r + optimal_value(n, left, told)) for p, r, n in outcomes(state, action, **told))
        assert problem.optimal_action_value(state, action, stage) == pytest.approx(q, abs=1e-10)
        best = max(problem.optimal_action_value(state, a, stage) for a in range(problem.actions))
        assert problem.optimal_value(state, stage) == pytest.approx(best, abs=1e-10)


def test_the_value_that_is_quoted():
    """17.465 for lead time 2 and H = 30, by enumeration as well; more room does not matter to three digits."""
    problem = tp.make("lost-sales/2")
    assert problem.mdp.start(np.random.default_rng(0)) == (3, 0, 0)
    assert problem.optimal_value((3, 0, 0)) == pytest.approx(17.465, abs=5e-4)
    assert optimal_value((3, 0, 0), 30, DEFAULTS) == pytest.approx(problem.optimal_value((3, 0, 0)), abs=1e-10)
    for room in (7, 12):
        assert lost_sales(2, room=room).optimal_value((3, 0, 0)) == pytest.approx(17.465, abs=5e-4)
    assert lost_sales(2, room=3).optimal_value((3, 0, 0)) < 17.2
    assert tp.make("lost-sales/2:stock=0").optimal_value((0, 0, 0)) < 17


@pytest.mark.parametrize("lead", [1, 2, 3])
def test_steps_draw_demands(lead):
    """Of 20,000 draws a share is off by 0.02 with probability below 1e-6 (Hoeffding), by step and by step_many."""
    problem = lost_sales(lead, room=4)
    mdp, rng, told = problem.mdp, np.random.default_rng(lead), DEFAULTS | {"room": 4}
    for state in [(0, *[0] * lead), (2, *[1] * lead), (4, 3, *[2] * (lead - 1))]:
        expected: dict = {}
        for p, r, n in outcomes(state, 2, **told):
            expected[round(r, 9), n] = expected.get((round(r, 9), n), 0.0) + p
        single = [mdp.step(state, 2, rng) for _ in range(20_000)]
        states, noise = pack([state] * 20_000), mdp.draw_noise(20_000, rng)
        rewards, following, ended = draw_many(problem, states, 0, np.full(20_000, 2), noise)
        assert not ended.any()
        many = list(zip(rewards.tolist(), unpack(following), strict=True))
        for drawn in (single, many):
            drawn = [(round(r, 9), n) for r, n in drawn]
            assert set(drawn) <= set(expected)
            assert all(abs(drawn.count(outcome) / 20_000 - p) < 0.02 for outcome, p in expected.items())


def test_the_same_noise_is_the_same_step():
    mdp, rng = lost_sales(3).mdp, np.random.default_rng(0)
    states = np.stack([rng.integers(size, size=500) for size in mdp.shape], axis=1)
    actions, noise = rng.integers(mdp.actions, size=500), mdp.draw_noise(500, rng)
    rewards, following, _ = mdp.step_many(states, actions, noise)

    class Scripted:
        def __init__(self, u):
            self.random = lambda: u

    singles = [
        mdp.step(state, action, Scripted(u))
        for state, action, u in zip(unpack(states), actions.tolist(), noise[:, 0].tolist(), strict=True)
    ]
    assert unpack(following) == [n for _, n in singles]
    assert rewards.tolist() == [r for r, _ in singles]
    assert isinstance(mdp, Batched)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_ranges_are_those_of_the_best_and_the_worst_luck(setting):
    told, problem = DEFAULTS | setting, lost_sales(**setting)
    low, high = problem.reward_range
    drawn = [
        r
        for state, order in itertools.product(problem.mdp.states(0), range(problem.actions))
        for _, r, _ in outcomes(state, order, **told)
    ]
    assert (min(drawn), max(drawn)) == pytest.approx((low, high))
    least, most = problem.declared_returns
    assert least == pytest.approx(told["horizon"] * low)

    @cache
    def luckiest(state, steps):
        if not steps:
            return 0.0
        pairs = itertools.product(range(problem.actions), range(told["room"] + 1))
        reached = [(order, wanted, min(state[0] + state[1], told["room"])) for order, wanted in pairs]
        return max(
            told["price"] * min(wanted, shelf)
            - told["holding"] * max(shelf - wanted, 0)
            - told["cost"] * order
            + luckiest((max(shelf - wanted, 0), *state[2:], order), steps - 1)
            for order, wanted, shelf in reached
        )

    best = max(luckiest(state, told["horizon"]) for state in problem.mdp.states(0))
    assert best == pytest.approx(most)


def test_states_are_listed_in_the_order_of_their_index():
    mdp = lost_sales(2, orders=2, room=3).mdp
    assert isinstance(mdp, Enumerable)
    assert [mdp.index(state, 0) for state in mdp.states(0)] == list(range(4 * 3 * 3))
    with pytest.raises(BadInput, match=r"there is no state \(4, 0, 0\)"):
        mdp.index((4, 0, 0), 0)


@pytest.mark.parametrize(
    "setting", [{}, {"features": "poly2@time"}, {"features": "tiles2x2"}, {"features": "onehot"}, {"lead": 1}], ids=str
)
def test_the_contract_holds(setting):
    problem = lost_sales(**{"horizon": 5, **setting})
    assert check_problem(problem, episodes=5) == 25
    spec = f":features={setting['features']}" if setting.get("features") else ""
    assert problem.name == f"lost-sales/{setting.get('lead', 2)}{spec}"


def test_features_miss_by_eta():
    problem = tp.make("lost-sales/2:horizon=6")
    residuals = [
        problem.optimal_value(state, h) - problem.state_features(state, h) @ problem.theta
        for h in range(6)
        for state in problem.mdp.states(h)
    ]
    assert np.abs(residuals).max() == pytest.approx(problem.eta)
    assert problem.eta > 0.01
    assert np.linalg.norm(problem.theta) <= problem.bound
    assert tp.make("lost-sales/1:horizon=3:room=3:stock=1:features=onehot@stage").eta < 1e-9


def test_large_ones_work_without_a_fit_and_without_a_solution(monkeypatch):
    small = lost_sales(2, horizon=4)
    monkeypatch.setattr(inventory, "FITTED", 100)
    unfitted = lost_sales(2, horizon=4)
    assert unfitted.theta is None
    assert unfitted.optimal_value((3, 0, 0)) == small.optimal_value((3, 0, 0))
    monkeypatch.setattr(inventory, "SOLVED", 100)
    unsolved = lost_sales(2, horizon=4)
    assert unsolved.solution is None
    for problem in (unfitted, unsolved):
        assert check_problem(problem, episodes=3) == 12
        assert problem.bound >= math.sqrt(problem.dimension) * small.optimal_value((3, 0, 0))
    assert lost_sales(12).solution is None


def test_it_is_planned_in():
    problem = tp.make("lost-sales/2:horizon=6")
    played = tp.run(problem, tp.UCT(simulations=50), episodes=3, seed=0)
    assert all(len(episode.actions) == 6 for episode in played.episodes)
    best = tp.run(problem, tp.Oracle(), episodes=300, seed=1)
    returns = [episode.total_reward for episode in best.episodes]
    error = np.std(returns) / math.sqrt(len(returns))
    assert abs(np.mean(returns) - problem.optimal_value((3, 0, 0))) < 5 * error
    state, rng = (3, 0, 0), np.random.default_rng(0)
    for stage in range(6):
        state = problem.arrive(problem.mdp.step(state, 1, rng)[1], stage)
    assert state is END


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lead": 0}, "lead must be a whole number >= 1, got 0"),
        ({"orders": 0}, "orders must be a whole number >= 1, got 0"),
        ({"demand": -1}, "demand must be a number from 0 to 500, got -1"),
        ({"price": "high"}, "price must be a number >= 0, got 'high'"),
        ({"holding": -1}, "holding must be a number >= 0, got -1"),
        ({"cost": math.nan}, "cost must be a number >= 0, got nan"),
        ({"horizon": None}, "horizon must be a whole number >= 1, got None"),
        ({"stock": 7}, "stock must be a whole number from 0 to 6, got 7"),
        ({"room": 0}, "room must be a whole number >= 1, got 0"),
        ({"features": "polly3"}, "unknown feature map 'polly'; did you mean 'poly'?"),
        ({"features": 3}, "a feature spec is a string such as 'poly2', got 3"),
    ],
    ids=str,
)
def test_bad_input_is_one_clear_sentence(options, sentence):
    with pytest.raises(BadInput) as info:
        lost_sales(**options)
    assert str(info.value) == sentence
