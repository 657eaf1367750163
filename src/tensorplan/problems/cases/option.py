"""The American put on a binomial tree (Cox, Ross and Rubinstein 1979); A = 2: hold or exercise.

The put may be exercised at H dates, the first and the last day included, and pays strike - price.  Between two dates
the price moves ``steps`` times, by the factor u = exp(volatility * sqrt(dt)) or 1/u, up with the probability

    p = (exp(rate * dt) - 1/u) / (u - 1/u)

under which the discounted price is a martingale.  Action 1 exercises: it pays exp(-rate * t) max(strike - price, 0),
the present value, and leads to END; action 0 pays nothing.  So the undiscounted value of the MDP is the price of the
put.  A state is a date and the number of moves up until then, numbered consecutively over the dates.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorplan.core import Array, Problem
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import number, whole
from tensorplan.features import Frame
from tensorplan.problems.random.fitted import featured, fitted
from tensorplan.problems.tables.tabular import TabularMDP, evaluate_tabular

HOLD, EXERCISE = 0, 1
"""The actions."""


class Put(TabularMDP):
    """The put as a layered MDP; ``prices[h]`` are the share prices at date h, (h * steps + 1,)."""

    def __init__(
        self, dates: int, steps: int, spot: float, strike: float, rate: float, volatility: float, years: float
    ) -> None:
        dt = years / ((dates - 1) * steps)
        up = math.exp(volatility * math.sqrt(dt))
        chance = (math.exp(rate * dt) - 1 / up) / (up - 1 / up)
        if not chance < 1:
            raise BadInput(
                f"a price that moves every {dt:g} years cannot earn rate={rate:g} with volatility={volatility:g}: "
                "take more steps between dates"
            )
        moves = [date * steps for date in range(dates)]
        self.strike = strike
        self.prices: list[Array] = [np.asarray(spot * up ** (2.0 * np.arange(m + 1) - m)) for m in moves]
        today = [math.exp(-rate * dt * m) for m in moves]
        pays = [worth * np.maximum(strike - prices, 0.0) for worth, prices in zip(today, self.prices, strict=True)]
        rewards = [np.stack([np.zeros(len(x)), x], axis=1) for x in pays]
        transitions = [_moves(m + 1, steps, chance) for m in moves[:-1]]
        largest = max(float(x.max()) for x in pays)
        if not largest:
            raise BadInput(f"the put never pays: no price of the tree is below the strike of {strike:g}")
        super().__init__([*transitions, None], rewards, horizon=dates, reward_range=(0.0, largest))
        self.return_range = (0.0, largest)  # exercised at most once

    def european(self) -> tuple[Array, ...]:
        """The present value of exercising on the last day only, for each date."""
        assert self.horizon is not None
        dates = range(self.horizon)
        policy = [np.full(len(self.states(h)), EXERCISE if h == dates[-1] else HOLD) for h in dates]
        return evaluate_tabular(self, policy).v


def _moves(size: int, steps: int, chance: float) -> Any:
    """The transitions from ``size`` prices to the next date, (2 * size, size + steps + 1)."""
    from scipy import sparse

    weights = np.ones(1)
    for _ in range(steps):
        weights = np.convolve(weights, [1 - chance, chance])
    columns = [[*range(j, j + steps + 1), size + steps] for j in range(size)]
    ends = np.cumsum(np.tile([steps + 1, 1], size))
    data = np.tile(np.append(weights / weights.sum(), 1.0), size)
    return sparse.csr_array((data, np.ravel(columns), np.append(0, ends)), shape=(2 * size, size + steps + 1))


def american_put(
    dates: int = 6,
    *,
    steps: int = 1,
    spot: float = 36.0,
    strike: float = 40.0,
    rate: float = 0.06,
    volatility: float = 0.2,
    years: float = 1.0,
    features: str = "realizing3",
) -> Problem:
    """An American put with H = ``dates`` and ``steps`` price moves between dates.

    ``features``: ``"realizing3"``, or another d; ``"payoff"``, d = 3: the larger of the values of exercising now and on
    the last day only, the latter alone, and the time left if in the money (exercising earns interest on the strike); or
    a spec on the price such as ``"poly2@time"``.  Except for the first, ``eta`` of the problem is their error for v*.
    """
    dates, steps = whole("dates", dates, 2), whole("steps", steps, 1)
    spot, strike = number("spot", spot, 0.01, 1e9), number("strike", strike, 0.01, 1e9)
    rate, years = number("rate", rate, 0.0, 1.0), number("years", years, 0.001, 100.0)
    volatility = number("volatility", volatility, 0.001, 2.0)
    mdp = Put(dates, steps, spot, strike, rate, volatility, years)
    name = f"american-put/{dates}" + ("" if features == "realizing3" else f":features={features}")
    if features == "payoff":
        return fitted(mdp, _payoff_features(mdp), discount=1.0, name=name)
    low, high = float(mdp.prices[-1][0]), float(mdp.prices[-1][-1])
    frame = Frame((low,), (high,), names=("price",), horizon=dates)
    return featured(mdp, features, frame, lambda s, h: mdp.prices[h][[mdp.index(s, h)]], discount=1.0, name=name)


def _payoff_features(mdp: Put) -> list[Array]:
    """max(exercise now, European), European, time left if in the money, for each date; each scaled to 1, (S, 3)."""
    assert mdp.horizon is not None
    tables = []
    for date, (european, prices) in enumerate(zip(mdp.european(), mdp.prices, strict=True)):
        left = 1 - date / (mdp.horizon - 1)
        best = np.maximum(mdp.rewards(date)[:, EXERCISE], european)
        tables.append(np.stack([best, european, left * (prices < mdp.strike)], axis=1))
    largest = np.max([np.abs(table).max(axis=0) for table in tables], axis=0)
    return [table / np.where(largest > 0, largest, 1.0) for table in tables]
