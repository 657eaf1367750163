"""Options that may be exercised at certain dates, on shares that follow geometric Brownian motions.

Between two dates, ``years`` / ``dates`` apart, each share moves on its own by

    S' = S exp((rate - dividend - volatility^2 / 2) dt + volatility sqrt(dt) Z),    Z standard normal,

under the measure that prices options.  Action 1 exercises, which pays the payoff and leads to END; action 0 holds.  The
discount factor is exp(-rate dt), so v* at the start is the price of the option.  A state is the tuple of prices; it may
be exercised today, too, so H is one more than the number of dates to come.

* :func:`put`: a put on one share, those of Longstaff and Schwartz (2001, Table 1): 50 dates a year.
* :func:`max_call`: a call on the dearest of several shares (Broadie and Glasserman 1997; Andersen and Broadie 2004).
  Prices stop growing at four standard deviations, so that returns are bounded; this hardly changes the price.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import END, Array, Problem, State
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import number, whole
from tensorplan.features import Frame, PointFeatures, build
from tensorplan.problems.random.featurize import SLACK

HOLD, EXERCISE = 0, 1
"""The actions."""

DATES_PER_YEAR = 50
"""Of the puts."""

LARGEST = 4.0
"""Standard deviations of the logarithm of the last price at which prices stop growing: max-calls lose less than 0.005,
and most likely a tenth of that."""

SEEN = 3.0
"""Standard deviations within which features tell prices apart."""

TINY = 2.0**-54
"""Less than any positive uniform number."""

Prices = tuple[float, ...]


class Bermudan:
    """The option as an MDP; its noise is one uniform number per share and step, whose quantile is Z."""

    actions = 2

    def __init__(
        self,
        spot: float,
        strike: float,
        rate: float,
        volatility: float,
        years: float,
        dates: int,
        *,
        shares: int = 1,
        dividend: float = 0.0,
        call: bool = False,
    ) -> None:
        self.spot, self.strike, self.shares, self.call = spot, strike, shares, call
        self.horizon, self.uniforms = dates + 1, shares
        dt = years / dates
        self.discount = math.exp(-rate * dt)
        self.drift, self.scale = (rate - dividend - volatility**2 / 2) * dt, volatility * math.sqrt(dt)
        self.spread = volatility * math.sqrt(years)
        self.ceiling = spot * math.exp(LARGEST * self.spread) if call else math.inf
        most = max(self.ceiling - strike, 0.0) if call else strike
        self.reward_range = self.return_range = (0.0, most)

    def payoff(self, prices: NDArray[Any]) -> Array:
        """What exercising pays, (n,), for prices (n, shares)."""
        gain = prices.max(axis=-1) - self.strike if self.call else self.strike - prices.max(axis=-1)
        return np.asarray(np.maximum(gain, 0.0))

    def start(self, rng: np.random.Generator) -> Prices:
        """All shares at the start price."""
        return (self.spot,) * self.shares

    def step(self, state: Prices, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state)."""
        rewards, following, ended = self.step_many(np.array([state]), np.array([action]), self.draw_noise(1, rng))
        return float(rewards[0]), END if ended[0] else tuple(following[0].tolist())

    def draw_noise(self, n: int, rng: np.random.Generator) -> Array:
        """Uniform numbers, (n, shares)."""
        return rng.random((n, self.shares))

    def step_many(
        self, states: NDArray[Any], actions: NDArray[Any], noise: NDArray[Any]
    ) -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
        """Step pair i with noise[i]: rewards, next states, and where these are END."""
        from scipy.special import ndtri

        ended = actions == EXERCISE
        rewards, following = np.zeros(len(states)), np.array(states, dtype=np.float64)
        if ended.any():
            rewards[ended] = self.payoff(following[ended])
        held = ~ended
        moves = np.exp(self.drift + self.scale * ndtri(np.maximum(noise[held], TINY)))
        following[held] = np.minimum(following[held] * moves, self.ceiling)
        return rewards, following, ended

    # ----------------------------------------------------------------- as points

    @property
    def frame(self) -> Frame:
        """Where points are: prices, the dearest share first, as logarithms in standard deviations, and the payoff."""
        names = tuple(f"price{i}" for i in range(1, self.shares + 1)) if self.shares > 1 else ("price",)
        low, high = (-SEEN,) * self.shares, (SEEN,) * self.shares
        return Frame((*low, 0.0), (*high, self._largest), names=(*names, "payoff"), horizon=self.horizon)

    @property
    def _largest(self) -> float:
        """The largest payoff that features tell apart, in units of the strike."""
        return min(self.reward_range[1], self.spot * math.exp(SEEN * self.spread)) / self.strike

    def point(self, state: Prices) -> Array:
        """The point of a state, (shares + 1,)."""
        row: Array = self.points(np.array([state]))[0]
        return row

    def points(self, states: NDArray[Any]) -> Array:
        """The points of n states, (n, shares + 1)."""
        logs = np.log(np.maximum(-np.sort(-states, axis=1), np.finfo(float).tiny) / self.spot) / self.spread
        pays = np.minimum(self.payoff(states) / self.strike, self._largest)
        return np.concatenate([logs.clip(-SEEN, SEEN), pays[:, None]], axis=1)


def put(
    case: str = "36-20-1",
    *,
    strike: float = 40.0,
    rate: float = 0.06,
    dates: int | None = None,
    features: str = "poly5",
) -> Problem:
    """A put by its share price, volatility in per cent and years: ``put/36-20-1``.

    ``dates`` is the number of exercise dates, by default 50 a year.  ``features`` is a spec over (price, payoff).
    """
    name = _name(
        f"put/{case}", strike=(strike, 40.0), rate=(rate, 0.06), dates=(dates, None), features=(features, "poly5")
    )
    spot, volatility, years = _case(case)
    dates = max(round(DATES_PER_YEAR * years), 1) if dates is None else whole("dates", dates, 1)
    strike, rate = number("strike", strike, 0.01, 1e9), number("rate", rate, 0.0, 1.0)
    return _problem(Bermudan(spot, strike, rate, volatility / 100, years, dates), features, name)


def _case(case: str) -> tuple[float, float, float]:
    try:
        spot, volatility, years = (float(part) for part in str(case).split("-"))
    except ValueError:
        raise BadInput(
            f"put/{case}: expected the price, the volatility in per cent and the years, as in 'put/36-20-1'"
        ) from None
    return (
        number("the price of the share", spot, 0.01, 1e9),
        number("the volatility", volatility, 0.1, 200.0),
        number("the years", years, 0.001, 100.0),
    )


def max_call(
    shares: int = 2,
    *,
    s0: float = 100.0,
    strike: float = 100.0,
    rate: float = 0.05,
    dividend: float = 0.1,
    volatility: float = 0.2,
    years: float = 3.0,
    dates: int = 9,
    features: str = "poly3",
) -> Problem:
    """A call on the dearest of ``shares`` shares, each of which begins at ``s0``.

    ``features`` is a spec over the prices, the dearest share first, and the payoff.
    """
    shares, dates = whole("shares", shares, 1), whole("dates", dates, 1)
    s0, strike = number("s0", s0, 0.01, 1e9), number("strike", strike, 0.01, 1e9)
    rate, dividend = number("rate", rate, 0.0, 1.0), number("dividend", dividend, 0.0, 1.0)
    volatility, years = number("volatility", volatility, 0.001, 2.0), number("years", years, 0.001, 100.0)
    option = Bermudan(s0, strike, rate, volatility, years, dates, shares=shares, dividend=dividend, call=True)
    if not option.reward_range[1]:
        raise BadInput(f"the option never pays: prices stay below the strike of {strike:g}")
    name = _name(
        f"max-call/{shares}",
        s0=(s0, 100.0),
        strike=(strike, 100.0),
        rate=(rate, 0.05),
        dividend=(dividend, 0.1),
        volatility=(volatility, 0.2),
        years=(years, 3.0),
        dates=(dates, 9),
        features=(features, "poly3"),
    )
    return _problem(option, features, name)


def _name(base: str, **options: tuple[Any, Any]) -> str:
    """The name with the options that are not the defaults, (value, default)."""
    said = [
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, (value, default) in options.items()
        if value != default
    ]
    return ":".join([base, *said])


def _problem(option: Bermudan, features: str, name: str) -> Problem:
    phi = build(features, option.frame)
    return Problem(
        option,
        PointFeatures(option, phi, None),
        bound=SLACK * math.sqrt(phi.dimension) * option.reward_range[1],
        name=name,
        discount=option.discount,
    )
