"""The put against prices computed in other ways; the exercise boundary, features and certificates."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.core import END
from tensorplan.core.errors import BadInput
from tensorplan.problems.cases.option import EXERCISE, HOLD, american_put
from tensorplan.testing import check_problem

KNOWN = [  # spot, volatility, years, price of 50 exercise dates a year: Longstaff and Schwartz (2001), Table 1
    (36, 0.2, 1, 4.478),
    (36, 0.4, 1, 7.101),
    (38, 0.2, 1, 3.250),
    (40, 0.2, 1, 2.314),
    (40, 0.4, 1, 5.312),
    (44, 0.2, 1, 1.110),
]


def binomial_price(dates, steps=1, spot=36.0, strike=40.0, rate=0.06, volatility=0.2, years=1.0):
    """Backwards through all nodes of the tree, one move at a time, undiscounted money discounted at each move."""
    moves = (dates - 1) * steps
    dt = years / moves
    up = math.exp(volatility * math.sqrt(dt))
    p = (math.exp(rate * dt) - 1 / up) / (up - 1 / up)
    value = [max(strike - spot * up ** (2 * j - moves), 0.0) for j in range(moves + 1)]
    for move in range(moves - 1, -1, -1):
        value = [math.exp(-rate * dt) * ((1 - p) * value[j] + p * value[j + 1]) for j in range(move + 1)]
        if move % steps == 0:
            value = [max(x, strike - spot * up ** (2 * j - move)) for j, x in enumerate(value)]
    return value[0]


def black_scholes_put(spot, strike, rate, volatility, years):
    spread = volatility * math.sqrt(years)
    d1 = (math.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    below = [0.5 * math.erfc(x / math.sqrt(2)) for x in (d1, d1 - spread)]
    return strike * math.exp(-rate * years) * below[1] - spot * below[0]


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("dates", [2, 6, 11])
@pytest.mark.parametrize(
    "market",
    [{}, {"spot": 41.0}, {"rate": 0.0, "volatility": 0.5}, {"strike": 30.0, "years": 2.0, "rate": 0.1}],
    ids=str,
)
def test_the_price_is_that_of_the_tree(market, dates, steps):
    problem = american_put(dates, steps=steps, **market)
    assert problem.optimal_value(0) == pytest.approx(binomial_price(dates, steps, **market), abs=1e-11)
    assert problem.horizon == dates
    assert problem.actions == 2


@pytest.mark.parametrize(("spot", "volatility", "years", "price"), KNOWN)
def test_known_prices(spot, volatility, years, price):
    """With 20 moves between dates the tree is within a cent and a half of what was published."""
    problem = american_put(51, steps=20, spot=spot, volatility=volatility, years=years)
    assert problem.optimal_value(0) == pytest.approx(price, abs=0.015)


def test_more_steps_and_more_dates_converge():
    prices = [american_put(51, steps=steps).optimal_value(0) for steps in (10, 20, 40)]
    assert abs(prices[2] - 4.478) < 5e-4
    assert abs(prices[2] - prices[1]) < 1e-3
    dates = [american_put(n, steps=200 // (n - 1)).optimal_value(0) for n in (2, 3, 5, 11, 21)]
    assert dates == sorted(dates)  # each set of dates contains the one before


def test_the_european_put_is_that_of_black_and_scholes():
    mdp = american_put(2, steps=2000).mdp
    assert mdp.european()[0][0] == pytest.approx(black_scholes_put(36.0, 40.0, 0.06, 0.2, 1.0), abs=2e-3)
    assert american_put(2, steps=50).optimal_value(0) == pytest.approx(
        max(4.0, american_put(2, steps=50).mdp.european()[0][0])
    )


@pytest.mark.parametrize("rate", [0.0, 0.06])
def test_without_interest_nobody_exercises_early(rate):
    problem = american_put(6, steps=4, rate=rate)
    early = any((q[:, EXERCISE] > q[:, HOLD] + 1e-9).any() for q in problem.solution.q[:-1])
    assert early == (rate > 0)
    assert (problem.optimal_value(0) > problem.mdp.european()[0][0] + 1e-9) == (rate > 0)


@pytest.mark.parametrize("steps", [2, 4])
@pytest.mark.parametrize("dates", [6, 13])
def test_the_exercise_boundary_rises(dates, steps):
    """Exercised is a low price, at a later date also a higher one; with even steps all dates have common prices."""
    problem = american_put(dates, steps=steps)
    boundary = []
    for prices, greedy in zip(problem.mdp.prices, problem.solution.greedy, strict=True):
        assert (np.diff(prices) > 0).all()
        assert greedy.tolist() == sorted(greedy.tolist(), reverse=True)
        boundary.append(prices[greedy == EXERCISE].max(initial=0.0))
    assert boundary == sorted(boundary)
    assert 0 < boundary[1] < boundary[-1] < 40


def test_the_tree_is_a_fair_game():
    problem = american_put(5, steps=3, spot=36.0, rate=0.06)
    mdp = problem.mdp
    for date in range(4):
        rows = mdp.matrix(date)
        held = np.asarray(rows[[2 * j for j in range(len(mdp.prices[date]))]].todense())
        ahead = held[:, :-1] @ mdp.prices[date + 1] * math.exp(-0.06 / 4)
        np.testing.assert_allclose(ahead, mdp.prices[date], rtol=1e-12)
        np.testing.assert_array_equal(held[:, -1], 0.0)
    rng = np.random.default_rng(0)
    assert mdp.step(0, EXERCISE, rng) == (4.0, END)
    reward, following = mdp.step(0, HOLD, rng)
    assert reward == 0.0
    assert following in mdp.states(1)
    assert problem.reward_range == (0.0, max(float(mdp.rewards(h).max()) for h in range(5)))


@pytest.mark.parametrize(
    ("features", "d", "eta"),
    [("realizing3", 3, 0.0), ("realizing5", 5, 0.0), ("payoff", 3, 0.0895), ("poly2@time", 6, 0.8535)],
)
def test_features(features, d, eta):
    problem = american_put(6, features=features)
    assert problem.dimension == d
    assert problem.eta == pytest.approx(eta, abs=1e-4)
    assert problem.name == "american-put/6" + (f":features={features}" if features != "realizing3" else "")
    assert check_problem(problem) > 20


def test_payoff_features_of_a_put_that_is_out_of_the_money_until_the_end():
    problem = american_put(2, spot=41.0, features="payoff")
    assert check_problem(problem) > 20


@pytest.mark.parametrize(("features", "delta", "status"), [("realizing3", 1.0, "certified"), ("payoff", 0.5, "eta")])
def test_tensorplan_brackets(features, delta, status):
    problem = tp.make(f"american-put/6:features={features}")
    certificate = tp.run(problem, tp.TensorPlan(delta=delta, eta=problem.eta)).episodes[0].certificate
    assert certificate.status == status
    assert certificate.lower <= problem.optimal_value(0) <= certificate.upper
    assert certificate.gap <= delta / 2 + certificate.explained + 1e-9
    assert certificate.explained <= problem.eta * (1 + 2 * 6) + 1e-9


@pytest.mark.parametrize(("features", "delta"), [("poly2@time", 0.5), ("poly2@time", 0.125)])
def test_tensorplan_refutes(features, delta):
    problem = tp.make(f"american-put/6:features={features}")
    with pytest.raises(tp.NotRealizable) as info:
        tp.run(problem, tp.TensorPlan(delta=delta))
    assert 0 < info.value.eta <= problem.eta


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"dates": 1}, "dates must be a whole number >= 2, got 1"),
        ({"steps": 0}, "steps must be a whole number >= 1, got 0"),
        ({"spot": 0}, "spot must be a number from 0.01 to 1e+09, got 0"),
        ({"volatility": 0.0}, "volatility must be a number from 0.001 to 2, got 0.0"),
        ({"rate": -0.1}, "rate must be a number from 0 to 1, got -0.1"),
        ({"years": "one"}, "years must be a number from 0.001 to 100, got 'one'"),
        ({"spot": 1000.0}, "the put never pays: no price of the tree is below the strike of 40"),
        (
            {"rate": 0.5, "volatility": 0.1},
            "a price that moves every 0.2 years cannot earn rate=0.5 with volatility=0.1: "
            "take more steps between dates",
        ),
        ({"features": "polly2"}, "unknown feature map 'polly'; did you mean 'poly'?"),
    ],
    ids=str,
)
def test_bad_input_is_one_clear_sentence(options, sentence):
    with pytest.raises(BadInput) as info:
        american_put(**options)
    assert str(info.value) == sentence
