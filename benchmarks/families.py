"""Problems as users have them: known simulators, and features that do not realize v*.

A maze with one prize, a room with a heading as in MiniGrid, slippery FrozenLake, and an inventory with lost sales and a
lead time.  Each has a horizon, an exact v*(s0), and the feature sets that one would try first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import tensorplan as tp
from tensorplan.features import Frame, PointFeatures, build

GENERIC = ("poly1", "poly2", "tiles2x2", "fourier1", "poly2@time")


class Case(NamedTuple):
    """A problem whose features may or may not realize v*, and v*(s0)."""

    name: str
    problem: tp.Problem
    optimal: float
    delta: float | None
    """The accuracy to ask for; None where nothing is random."""


class Maze:
    """A grid with walls at random, and one prize, at least four steps away; episodes have 20 steps."""

    actions = 4
    horizon = 20
    reward_range = (0.0, 1.0)
    deterministic_transitions = deterministic_rewards = True

    def __init__(self, seed: int, size: int = 6, walls: float = 0.25) -> None:
        self.size = size
        rng = np.random.default_rng(seed)
        distance = -1
        while not 4 <= distance <= self.horizon:
            self.wall = rng.random((size, size)) < walls
            self.wall[0, 0] = False
            self.prize = tuple(rng.integers(size, size=2).tolist())
            distance = self._distances().get(self.prize, -1)

    def _distances(self) -> dict[tuple[int, int], int]:
        known, queue = {(0, 0): 0}, [(0, 0)]
        for place in queue:
            for action in range(4):
                following = self._move(place, action)
                if following not in known:
                    known[following] = known[place] + 1
                    queue.append(following)
        return known

    def _move(self, place: tuple[int, int], action: int) -> tuple[int, int]:
        i, j = place[0] + (1, -1, 0, 0)[action], place[1] + (0, 0, 1, -1)[action]
        return (i, j) if 0 <= i < self.size and 0 <= j < self.size and not self.wall[i, j] else place

    def start(self, rng: np.random.Generator) -> tuple[int, int]:
        """A corner."""
        return (0, 0)

    def step(self, state: tuple[int, int], action: int, rng: np.random.Generator) -> tuple[float, Any]:
        """One step; the prize ends the episode."""
        following = self._move(state, action)
        return (1.0, tp.END) if following == self.prize else (0.0, following)

    def point(self, state: tuple[int, int]) -> Sequence[float]:
        """The coordinates."""
        return state

    @property
    def frame(self) -> Frame:
        """The grid."""
        return Frame((0.0, 0.0), (self.size - 1.0,) * 2, whole=True, horizon=self.horizon)


class Room:
    """An empty room: turn left, turn right, or go ahead; the prize is in the far corner, as in MiniGrid-Empty."""

    actions = 3
    horizon = 60
    reward_range = (0.0, 1.0)
    deterministic_transitions = deterministic_rewards = True

    def __init__(self, seed: int, size: int = 6) -> None:
        self.size = size
        rng = np.random.default_rng(seed)
        self.begin = (*rng.integers(size - 1, size=2).tolist(), int(rng.integers(4)))

    def start(self, rng: np.random.Generator) -> tuple[int, ...]:
        """Anywhere but at the walls of the prize."""
        return self.begin

    def step(self, state: tuple[int, int, int], action: int, rng: np.random.Generator) -> tuple[float, Any]:
        """Turn, or go ahead."""
        x, y, heading = state
        if action < 2:
            return 0.0, (x, y, (heading + (-1, 1)[action]) % 4)
        most = self.size - 1
        x = min(max(x + (1, 0, -1, 0)[heading], 0), most)
        y = min(max(y + (0, 1, 0, -1)[heading], 0), most)
        return (1.0, tp.END) if x == y == most else (0.0, (x, y, heading))

    def point(self, state: tuple[int, int, int]) -> Sequence[float]:
        """The coordinates and the heading."""
        return state

    @property
    def frame(self) -> Frame:
        """The room and the four headings."""
        return Frame((0.0,) * 3, (self.size - 1.0, self.size - 1.0, 3.0), whole=True, horizon=self.horizon)


class Inventory:
    """Lost sales with a lead time of two: order 0 to 3, demand is Poisson, unmet demand is lost."""

    actions = 4
    horizon = 30
    price, holding, cost = 1.0, 0.1, 0.3
    capacity = 15

    def __init__(self, rate: float = 1.2, most: int = 12) -> None:
        head = [math.exp(-rate) * rate**k / math.factorial(k) for k in range(most)]
        self.chances = np.array([*head, 1 - math.fsum(head)])
        self.reward_range = (-3 * self.cost - self.holding * self.capacity, self.price * most)

    def outcome(self, state: tuple[int, int], order: int, demand: int) -> tuple[float, tuple[int, int]]:
        """The reward and the next state for a demand."""
        stock, coming = state
        sold = min(stock, demand)
        reward = self.price * sold - self.holding * (stock - sold) - self.cost * order
        return reward, (min(stock - sold + coming, self.capacity), order)

    def start(self, rng: np.random.Generator) -> tuple[int, int]:
        """Two in stock, nothing on its way."""
        return (2, 0)

    def step(self, state: tuple[int, int], action: int, rng: np.random.Generator) -> tuple[float, Any]:
        """One period."""
        return self.outcome(state, action, int(rng.choice(len(self.chances), p=self.chances)))

    def step_batch(self, state: tuple[int, int], action: int, n: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        """Many draws of one period."""
        demands = rng.choice(len(self.chances), size=n, p=self.chances)
        rewards, states = zip(*(self.outcome(state, action, k) for k in range(len(self.chances))), strict=True)
        return np.array(rewards)[demands], states, demands

    def point(self, state: tuple[int, int]) -> Sequence[float]:
        """What is in stock, and what is on its way."""
        return state

    @property
    def frame(self) -> Frame:
        """All states."""
        return Frame((0.0, 0.0), (float(self.capacity), 3.0), whole=True, horizon=self.horizon)

    def optimal(self) -> float:
        """v*(s0), by backward induction."""
        states = list(itertools.product(range(self.capacity + 1), range(4)))
        place = {state: i for i, state in enumerate(states)}
        shape = (len(states), self.actions, len(self.chances))
        rewards, following = np.zeros(shape), np.zeros(shape, dtype=int)
        for i, state in enumerate(states):
            for action, demand in itertools.product(range(self.actions), range(len(self.chances))):
                rewards[i, action, demand], reached = self.outcome(state, action, demand)
                following[i, action, demand] = place[reached]
        v = np.zeros(len(states))
        for _ in range(self.horizon):
            v = ((rewards + v[following]) @ self.chances).max(axis=1)
        return float(v[place[2, 0]])


class Hidden:
    """A simulator that keeps to itself what its states are: planners cannot look v* up."""

    def __init__(self, mdp: Any) -> None:
        for name in ("horizon", "actions", "reward_range", "return_range", "start", "step", "step_batch"):
            setattr(self, name, getattr(mdp, name))


def mazes(seeds: Sequence[int]) -> Iterator[Case]:
    """6x6 mazes with one prize."""
    for seed, features in itertools.product(seeds, GENERIC):
        yield _case(f"maze {seed} {features}", Maze(seed), features, 1.0, 1.0, None)


def rooms(seeds: Sequence[int]) -> Iterator[Case]:
    """Rooms as in MiniGrid-Empty."""
    for seed, features in itertools.product(seeds, GENERIC):
        yield _case(f"room {seed} {features}", Room(seed), features, 1.0, 1.0, None)


def inventories(deltas: Sequence[float]) -> Iterator[Case]:
    """The inventory with lost sales."""
    mdp = Inventory()
    best = mdp.optimal()
    for delta, features in itertools.product(deltas, ("poly1", "poly2", "tiles3x2", "fourier2", "poly2@time")):
        yield _case(f"inventory {features}", mdp, features, 20.0, best, delta)


def lakes() -> Iterator[Case]:
    """Slippery FrozenLake with 20 steps, its returns declared or not, its table seen or not."""
    for features, returns in itertools.product((*GENERIC, "rbf3"), (None, (0.0, 1.0))):
        problem = tp.from_gym("FrozenLake-v1", features=features, horizon=20, return_range=returns)
        best = problem.optimal_value(0)
        yield Case(f"lake {features}", problem, best, 0.1)
        simulator: Any = Hidden(problem.mdp)
        hidden = tp.Problem(simulator, problem.phi_v, bound=problem.bound, name="hidden lake")
        yield Case(f"hidden lake {features}", hidden, best, 0.1)


def _case(name: str, mdp: Any, features: str, scale: float, best: float, delta: float | None) -> Case:
    """Values of about ``scale`` need θ of about that norm for each feature of norm 1/√d."""
    phi = build(features, mdp.frame)
    problem = tp.Problem(mdp, PointFeatures(mdp, phi, None), bound=scale * math.sqrt(phi.dimension), name=name)
    return Case(name, problem, best, delta)


class Verdict(NamedTuple):
    """What came of a case."""

    status: str
    certificate: tp.Certificate
    earned: float
    queries: int
    wrong: bool
    """Whether the bracket misses v*(s0)."""


def judge(case: Case, seed: int, budget: int | None = None) -> Verdict:
    """One episode with TensorPlan, held against what is true."""
    try:
        played: tp.Run | None = tp.run(case.problem, tp.TensorPlan(delta=case.delta), seed=seed, budget=budget)
    except tp.NotRealizable as error:
        played = error.run
    assert played is not None
    (episode,) = played.episodes
    certificate = episode.certificate
    assert certificate is not None
    slack = 1e-9 * max(1.0, abs(case.optimal))
    wrong = not certificate.lower - slack <= case.optimal <= certificate.upper + slack
    return Verdict(certificate.status, certificate, episode.total_reward, episode.total_queries, wrong)
