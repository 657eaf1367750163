"""Options: their simulator against closed forms, and their brackets against published prices."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import tensorplan as tp
from tensorplan.problems.cases.bermudan import EXERCISE, HOLD, Bermudan
from tensorplan.testing import check_problem


def european_put(spot, strike, rate, volatility, years):
    """The formula of Black and Scholes."""
    d1 = (math.log(spot / strike) + (rate + volatility**2 / 2) * years) / (volatility * math.sqrt(years))
    d2 = d1 - volatility * math.sqrt(years)
    return strike * math.exp(-rate * years) * norm.cdf(-d2) - spot * norm.cdf(-d1)


def european_call(spot, strike, rate, dividend, volatility, years):
    """The same for a call, with dividends."""
    d1 = (math.log(spot / strike) + (rate - dividend + volatility**2 / 2) * years) / (volatility * math.sqrt(years))
    d2 = d1 - volatility * math.sqrt(years)
    return spot * math.exp(-dividend * years) * norm.cdf(d1) - strike * math.exp(-rate * years) * norm.cdf(d2)


def hold_to_the_end(option, count, seed=0):
    """Discounted payoffs on the last day."""
    rng = np.random.default_rng(seed)
    states, dates = np.full((count, option.shares), option.spot), option.horizon - 1
    for _ in range(dates):
        rewards, states, ended = option.step_many(states, np.full(count, HOLD), option.draw_noise(count, rng))
        assert not rewards.any()
        assert not ended.any()
    rewards, _, ended = option.step_many(states, np.full(count, EXERCISE), option.draw_noise(count, rng))
    assert ended.all()
    return option.discount**dates * rewards


@pytest.mark.parametrize("case", ["36-20-1", "44-40-2"])
def test_holding_a_put_to_the_end_is_worth_the_european_price(case):
    """Four standard errors."""
    option = tp.make(f"put/{case}").mdp
    spot, volatility, years = (float(x) for x in case.split("-"))
    found = hold_to_the_end(option, 100_000)
    exact = european_put(spot, 40.0, 0.06, volatility / 100, years)
    assert abs(found.mean() - exact) < 4 * found.std() / math.sqrt(len(found))


def test_holding_a_call_to_the_end_is_worth_the_european_price():
    option = tp.make("max-call/1").mdp
    found = hold_to_the_end(option, 200_000)
    assert abs(found.mean() - european_call(100.0, 100.0, 0.05, 0.1, 0.2, 3.0)) < 4 * found.std() / math.sqrt(
        len(found)
    )


@pytest.mark.parametrize("shares", [2, 5])
def test_the_ceiling_of_prices_hardly_changes_the_price(shares):
    """No policy gains more without it than the mean over paths of the largest difference of payoffs."""
    option, free = (tp.make(f"max-call/{shares}").mdp for _ in range(2))
    free.ceiling = math.inf
    count, rng = 100_000, np.random.default_rng(0)
    low = high = np.full((count, shares), option.spot)
    largest = np.zeros(count)
    for date in range(1, option.horizon):
        noise, hold = option.draw_noise(count, rng), np.full(count, HOLD)
        low, high = option.step_many(low, hold, noise)[1], free.step_many(high, hold, noise)[1]
        largest = np.maximum(largest, option.discount**date * (free.payoff(high) - option.payoff(low)))
    assert largest.mean() < 0.005
    assert low.max() <= option.ceiling


def test_the_payoff_is_that_of_the_dearest_share():
    option = tp.make("max-call/2").mdp
    assert option.payoff(np.array([[90.0, 120.0], [99.0, 70.0]])).tolist() == [20.0, 0.0]
    reward, state = option.step((90.0, 120.0), EXERCISE, np.random.default_rng(0))
    assert (reward, state) == (20.0, tp.END)


@pytest.mark.parametrize("name", ["put/36-20-1", "put/38-40-0.5:dates=3", "max-call/3:s0=90"])
def test_they_are_good_problems(name):
    check_problem(tp.make(name))


def test_points_are_symmetric_in_the_shares_and_within_the_frame():
    problem = tp.make("max-call/3")
    option, rng = problem.mdp, np.random.default_rng(0)
    states = 100 * np.exp(2 * rng.standard_normal((500, 3)))
    points = option.points(states)
    np.testing.assert_array_equal(points, option.points(states[:, [2, 0, 1]]))
    np.testing.assert_allclose(
        problem.many_state_features(states, 2),
        [problem.state_features(tuple(state), 2) for state in states.tolist()],
        atol=1e-12,
    )
    assert (points >= np.array(option.frame.low)).all()
    assert (points <= np.array(option.frame.high)).all()
    np.testing.assert_array_equal(option.point((90.0, 80.0, 100.0)), option.points(np.array([[90.0, 80.0, 100.0]]))[0])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("put/36-20", "expected the price, the volatility in per cent and the years, as in 'put/36-20-1'"),
        ("put/36-x-1", "expected the price, the volatility in per cent and the years"),
        ("put/36-0-1", "the volatility must be"),
        ("put/36-20-1:dates=0", "dates must be a whole number >= 1"),
        ("max-call/0", "shares must be a whole number >= 1"),
        ("max-call/2:strike=1000", "the option never pays"),
    ],
)
def test_bad_input(name, message):
    with pytest.raises(tp.BadInput, match=message):
        tp.make(name)


def bermudan_put(option, steps=60):
    """The price of a put with few dates, on a fine grid of log prices, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(steps)
    weights = weights / weights.sum()
    grid = np.linspace(-1.5, 1.5, 4001)
    values = np.maximum(option.strike - option.spot * np.exp(grid), 0.0)
    for _ in range(option.horizon - 1):
        moved = grid[:, None] + option.drift + option.scale * nodes
        held = option.discount * (np.interp(moved, grid, values) @ weights)
        values = np.maximum(option.strike - option.spot * np.exp(grid), held)
    return float(np.interp(0.0, grid, values))


def test_a_bracket_holds_the_price_that_quadrature_finds():
    problem = tp.make("put/36-20-1:dates=4")
    exact = bermudan_put(problem.mdp)
    audit = tp.audit(problem, "greedy", budget=1_500_000)
    assert audit.lower <= exact <= audit.upper
    assert audit.upper - audit.lower < 0.06 * exact
    assert audit.assumes == ""


def test_the_planner_has_a_bracket_too_and_acts():
    run = tp.run("put/44-20-1:dates=4", tp.Hindsight(delta=0.3, budget=400_000), seed=3)
    (episode,) = run.episodes
    exact = bermudan_put(tp.make("put/44-20-1:dates=4").mdp)
    assert episode.certificate.lower <= exact <= episode.certificate.upper
    assert episode.certificate.gap < 1.0
    assert 1 <= len(episode.actions) <= 5


def test_published_prices_lie_in_narrow_brackets():
    """Longstaff and Schwartz (2001), Table 1; Andersen and Broadie (2004), Table 2: the first of each, in seconds."""
    for name, price, budget in (("put/36-20-1", 4.478, 4_000_000), ("max-call/2", 13.902, 2_000_000)):
        audit = tp.audit(name, "greedy", budget=budget)
        assert audit.lower <= price <= audit.upper
        assert audit.upper - audit.lower < 0.15 * price


def test_several_processes_find_the_same_bracket():
    alone, together = (tp.audit("put/36-20-1:dates=3", "greedy", budget=300_000, workers=n) for n in (1, 2))
    assert (alone.lower, alone.upper) == (together.lower, together.upper)


def test_a_bermudan_of_ones_own():
    option = Bermudan(10.0, 10.0, 0.0, 0.5, 1.0, 2)
    assert option.horizon == 3
    assert option.reward_range == (0.0, 10.0)


def test_a_gap_that_is_left_comes_from_stages():
    """States are points here, which are not worth naming."""
    audit = tp.audit("put/36-20-1:dates=4", "greedy", budget=100_000)
    assert audit.states == ()
    assert set(audit.stages) == set(range(5))
    assert sum(share.total for share in audit.stages.values()) > 0
    notes = tp.run("put/36-20-1:dates=4", "hindsight:delta=0.01:budget=100000").episodes[0].certificate.notes
    assert notes[0].startswith("a gap of ")
    assert "most of it comes from stage " in notes[0]


def test_the_command_line_says_so_too(capsys):
    from tensorplan.cli.main import main

    with pytest.raises(SystemExit, match="0"):
        main(["audit", "put/36-20-1:dates=4", "--planner", "greedy", "--budget", "100000"])
    out = capsys.readouterr().out
    assert "Where the gap comes from" in out
    assert "stage 1" in out
    assert "state (" not in out


@pytest.mark.parametrize("name", ["put/36-20-1:dates=4", "put/40-40-2:strike=42.5:features=poly3", "max-call/5:s0=90"])
def test_names_lead_back_to_the_problem(name):
    assert tp.make(name).name == name
