"""Admission control of a queue; A = 2: the gate is closed (0) or open (1) for the next customer.

Customers arrive at a queue with some servers and a finite waiting room (M/M/c, uniformised: one event a step).  With n
customers present a step

* costs ``holding`` * n,
* has an arrival with probability ``arrival``; if the gate is open and there is room, the customer enters and pays
  ``reward``, otherwise it is lost,
* or completes a service, with probability (1 - ``arrival``) / ``servers`` for each busy server,

or nothing happens.  v* is concave and decreasing in n, and a threshold policy is optimal: the gate is open below it and
closed from there on (Naor 1969, Lippman 1975).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import END, Array, Problem, State
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import number, whole
from tensorplan.features import Frame
from tensorplan.problems.random.fitted import featured
from tensorplan.problems.tables.tabular import TabularMDP


class Queue(TabularMDP):
    """The queue as an MDP; a state is the number of customers present, 0 .. capacity."""

    def __init__(
        self, capacity: int, servers: int, arrival: float, reward: float, holding: float, horizon: int | None
    ) -> None:
        self.reward, self.holding = reward, holding
        present = np.arange(capacity + 1)
        coming = np.zeros((capacity + 1, 2))
        coming[:-1, 1] = arrival
        serving = 1 - arrival
        leaving = serving * (np.minimum(present, servers) / servers)
        steps = np.zeros((capacity + 1, 2, capacity + 1))
        for action in (0, 1):
            steps[present, action, present] = (arrival - coming[:, action]) + (serving - leaving)
            steps[present[:-1], action, present[1:]] = coming[:-1, action]
            steps[present[1:], action, present[:-1]] = leaving[1:]
        means = reward * coming - holding * present[:, None]
        super().__init__(steps, means, horizon=horizon, reward_range=(-holding * capacity, reward))
        self.deterministic_rewards = False  # a customer that enters pays

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state)."""
        _, following = super().step(state, action, rng)
        return self._paid(state, following), following

    def step_batch(
        self, state: int, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """Draw a batch of n samples of one pair."""
        _, successors, which = super().step_batch(state, action, n, rng)
        return np.array([self._paid(state, following) for following in successors])[which], successors, which

    def step_many(
        self, states: NDArray[Any], actions: NDArray[Any], noise: NDArray[Any]
    ) -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
        """Step pair i with noise[i]: rewards, next states, and where these are END."""
        _, following, ended = super().step_many(states, actions, noise)
        return self.reward * (following > states) - self.holding * states, following, ended

    def _paid(self, state: int, following: State) -> float:
        came = following is not END and following > state
        return self.reward * came - self.holding * state


def queue_admission(
    capacity: int = 10,
    *,
    servers: int = 1,
    arrival: float = 0.5,
    reward: float = 1.0,
    holding: float = 0.2,
    discount: float = 0.9,
    horizon: int | None = None,
    features: str = "realizing3",
) -> Problem:
    """Admission control of a queue that starts empty, with a discount and no horizon, or for ``horizon`` steps.

    ``features``: ``"realizing3"``, or another d, or a spec on the number of customers such as ``"poly3"``, with a
    horizon ``"poly3@time"``; for specs, ``eta`` of the problem is their error for v*.
    """
    capacity, servers = whole("capacity", capacity, 1), whole("servers", servers, 1)
    arrival, reward = number("arrival", arrival, 0.0, 1.0), number("reward", reward, 0.0)
    holding, discount = number("holding", holding, 0.0), number("discount", discount, 0.0, 1.0)
    horizon = None if horizon is None else whole("horizon", horizon, 1)
    if horizon is None and discount == 1:
        raise BadInput("a queue without a horizon needs a discount below 1")
    mdp = Queue(capacity, servers, arrival, reward, holding, horizon)
    frame = Frame((0.0,), (float(capacity),), whole=True, names=("present",), horizon=horizon)
    name = f"queue-admission/{capacity}" + ("" if features == "realizing3" else f":features={features}")
    return featured(mdp, features, frame, lambda state, stage: np.array([float(state)]), discount=discount, name=name)
