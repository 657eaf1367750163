"""Inventory control with lost sales and a lead time; action a orders a units.

A state is (stock, q_1, .., q_L): the units at hand, and the orders under way, the next one to arrive first.  A step

* receives q_1; the store has ``room`` for so many units, and what exceeds it is lost,
* meets a Poisson demand from the stock; demand that is not met is lost, too,
* pays ``price`` per unit sold, less ``holding`` per unit left over and ``cost`` per unit ordered,
* leads to (left over, q_2, .., q_L, a): the order arrives after L steps.

With lead times the optimal order depends on all orders under way, not on their sum, and no simple policy is optimal
(Karlin and Scarf 1958; Zipkin 2008).
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array, Problem, State
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import number, whole
from tensorplan.features import Frame, build
from tensorplan.problems.random.featurize import SLACK
from tensorplan.problems.random.fitted import fitted

SOLVED = 200_000
"""Most states for which v* is computed: it takes as many numbers per stage."""

FITTED = 10_000_000
"""Most entries of the features of all states and stages to which v* is fitted; these take seconds."""

DEMAND = 500.0
"""Largest mean demand; exp(-mean) must not vanish."""

Stock = tuple[int, ...]


class LostSales:
    """The inventory as an MDP; its noise is one uniform number per step, whose quantile is the demand."""

    def __init__(
        self,
        lead: int,
        orders: int,
        demand: float,
        price: float,
        holding: float,
        cost: float,
        horizon: int,
        room: int,
        stock: int,
    ) -> None:
        self.lead, self.orders, self.room, self.stock = lead, orders, room, stock
        self.price, self.holding, self.cost = price, holding, cost
        self.horizon, self.actions = horizon, orders + 1
        self.shape = (room + 1, *[orders + 1] * lead)
        chances = [math.exp(-demand)]
        for units in range(1, room):
            chances.append(chances[-1] * demand / units)
        self.chances = np.array(chances)
        """The probabilities of a demand of 0 .. room - 1; a larger one sells all that there is."""
        self._below: list[float] = np.cumsum(self.chances).tolist()
        self.reward_range = (-holding * room - cost * orders, price * room)
        self.return_range = self._returns()

    def _returns(self) -> tuple[float, float]:
        """From a store that stays full while orders are made in vain, to everything sold.

        At best a full store and the deliveries under way are sold at the price, and then every later order that arrives
        before the end; a delivery that is more than the room cannot be sold.
        """
        units, arrivals = min(self.orders, self.room), min(self.lead, self.horizon) - 1
        later = max(self.horizon - self.lead, 0) * units * max(self.price - self.cost, 0.0)
        return self.horizon * self.reward_range[0], self.price * (self.room + arrivals * units) + later

    def start(self, rng: np.random.Generator) -> Stock:
        """The start stock, with no orders under way."""
        return (self.stock, *[0] * self.lead)

    def step(self, state: Stock, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state)."""
        held = min(state[0] + state[1], self.room)
        left = max(held - bisect_right(self._below, rng.random()), 0)
        reward = self.price * (held - left) - self.holding * left - self.cost * action
        return reward, (left, *state[2:], action)

    uniforms = 1
    """Uniform numbers in the noise of a step."""

    def draw_noise(self, n: int, rng: np.random.Generator) -> Array:
        """Uniform numbers, (n, 1)."""
        return rng.random((n, 1))

    def step_many(
        self, states: NDArray[Any], actions: NDArray[Any], noise: NDArray[Any]
    ) -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
        """Step pair i with noise[i]: rewards, next states, and where these are END."""
        held = np.minimum(states[:, 0] + states[:, 1], self.room)
        left = np.maximum(held - np.searchsorted(self._below, noise[:, 0], side="right"), 0)
        following = np.empty_like(states)
        following[:, 0], following[:, 1:-1], following[:, -1] = left, states[:, 2:], actions
        rewards = self.price * (held - left) - self.holding * left - self.cost * actions
        return rewards, following, np.zeros(len(states), dtype=np.bool_)

    # ----------------------------------------------------------------- as a grid of states

    def states(self, stage: int) -> itertools.product[Stock]:
        """All states, the same at every stage."""
        return itertools.product(*map(range, self.shape))

    def index(self, state: Stock, stage: int) -> int:
        """The position of a state among ``states(stage)``."""
        at = 0
        for units, size in zip(state, self.shape, strict=True):
            if not 0 <= units < size:
                raise BadInput(f"there is no state {state!r}: its numbers are below {self.shape}")
            at = at * size + int(units)
        return at

    @cached_property
    def left_law(self) -> Array:
        """The probability that y units at hand become x, (room+1, room+1) for y and x."""
        law = np.zeros((self.room + 1, self.room + 1))
        for held in range(self.room + 1):
            law[held, 1 : held + 1] = self.chances[:held][::-1]
            law[held, 0] = max(1.0 - float(self.chances[:held].sum()), 0.0)
        return law

    def backup(self, following: Array) -> Array:
        """q by units at hand after the delivery, later orders and action, from v of the next stage; all ``shape``."""
        units = np.arange(self.room + 1)
        left = self.left_law @ units
        rewards = self.price * (units - left) - self.holding * left
        q = rewards.reshape(-1, *[1] * self.lead) - self.cost * np.arange(self.actions)
        return np.asarray(q + np.tensordot(self.left_law, following, 1))

    def deliver(self, values: Array) -> Array:
        """Values by units at hand after the delivery, as values by stock and the order that arrives."""
        held = np.add.outer(np.arange(self.room + 1), np.arange(self.orders + 1))
        return np.asarray(values[np.minimum(held, self.room)])


@dataclass(frozen=True, eq=False)
class LostSalesValues:
    """v* by stage: ``v[h]`` is (S,), in the order of ``mdp.states(h)``."""

    mdp: LostSales
    v: tuple[Array, ...]

    def value(self, state: Stock, stage: int) -> float:
        """v*(state)."""
        return float(self.v[stage][self.mdp.index(state, stage)])

    def action_value(self, state: Stock, action: int, stage: int) -> float:
        """q*(state, action)."""
        mdp, left = self.mdp, np.arange(self.mdp.room + 1)
        held = min(state[0] + state[1], mdp.room)
        worth = mdp.price * (held - left) - mdp.holding * left - mdp.cost * action
        if stage + 1 < mdp.horizon:
            after = mdp.index((0, *state[2:], action), stage + 1)
            worth = worth + self.v[stage + 1].reshape(mdp.room + 1, -1)[:, after]
        return float(mdp.left_law[held] @ worth)


def solve_lost_sales(mdp: LostSales) -> LostSalesValues:
    """v* by backward induction over the grid of states, a stage at a time."""
    v = [np.zeros(mdp.shape)]
    for _ in range(mdp.horizon):
        v.append(mdp.deliver(mdp.backup(v[-1]).max(axis=-1)))
    return LostSalesValues(mdp, tuple(each.ravel() for each in reversed(v[1:])))


def lost_sales(
    lead: int = 2,
    *,
    orders: int = 3,
    demand: float = 1.2,
    price: float = 1.0,
    holding: float = 0.1,
    cost: float = 0.3,
    horizon: int = 30,
    room: int = 6,
    stock: int = 3,
    features: str = "poly2@stage",
) -> Problem:
    """Inventory control with a lead time of ``lead`` steps, orders of 0 .. ``orders`` units, and a mean ``demand``.

    ``features`` is a spec over (stock, orders under way).  Up to 200,000 states, the exact solution is part of the
    problem, and ``eta`` is the error of the features for v*, except for very large feature tables.  Where v* is not
    fitted, B is √d times the largest return: enough for features scaled by 1/√d to fit a constant per stage.
    """
    lead, orders, room = whole("lead", lead, 1), whole("orders", orders, 1), whole("room", room, 1)
    stock, horizon = whole("stock", stock, 0, room), whole("horizon", horizon, 1)
    demand, price = number("demand", demand, 0.0, DEMAND), number("price", price, 0.0)
    holding, cost = number("holding", holding, 0.0), number("cost", cost, 0.0)
    mdp = LostSales(lead, orders, demand, price, holding, cost, horizon, room, stock)
    name = f"lost-sales/{lead}" + ("" if features == "poly2@stage" else f":features={features}")
    names = ("stock", *(f"order{i}" for i in range(1, lead + 1)))
    high = tuple(float(size - 1) for size in mdp.shape)
    frame = Frame((0.0,) * len(high), high, whole=True, names=names, horizon=horizon)
    return _problem(mdp, features, frame, name)


def _problem(mdp: LostSales, features: str, frame: Frame, name: str) -> Problem:
    """The problem with its solution and the fit of its features, as far as its size allows."""
    size, phi = math.prod(mdp.shape), build(features, frame)
    solution = solve_lost_sales(mdp) if size <= SOLVED else None
    if solution is not None and size * mdp.horizon * phi.dimension <= FITTED:
        tables = [phi.many(np.array(list(mdp.states(stage)), dtype=np.float64), stage) for stage in range(mdp.horizon)]
        return fitted(mdp, tables, discount=1.0, name=name, solution=solution)
    largest = max(map(abs, mdp.return_range))
    return Problem(
        mdp,
        lambda state, stage: phi(_point(state, stage), stage),
        bound=SLACK * math.sqrt(phi.dimension) * (largest or 1.0),
        name=name,
        solution=solution,
    )


def _point(state: Stock, stage: int) -> Array:
    return np.array(state, dtype=np.float64)
