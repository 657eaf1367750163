"""The MDP of Wang, Wang and Kakade (2021): linear q* with a constant gap, hard to learn online, easy with a simulator.

m unit vectors v_a with |<v_a, v_b>| <= γ = 1/4 (:mod:`tensorplan.problems.hard.near_orthogonal`) and a secret a*.  At
each stage there are the states ā of all a, and an absorbing state f.  Write p(a, b) = <v_a, v_b> + 2γ, in [1/4, 3/4].
From ā, action b gives

    b = a (not an action of ā in the paper):  reward 0, and f
    the last stage:                           reward p(a, b) <v_b, v_{a*}>
    b = a*:                                   reward p(a, a*), and f
    else:                                     reward -2γ p(a, b), and b̄ with probability p(a, b), else f;

from f, action 0 gives reward 0 and the others -1, and f.  Then for all b != a

    q*(ā, b) = p(a, b) <v_b, v_{a*}>,    φ_q(ā, b) = (p(a, b) v_b, 0),    θ* = (v_{a*}, 1),

zero for b = a, and at f φ_q(f, b) = (0, -1) for b != 0, zero for b = 0.  Realizability is exact for the rewards above,
which are in [-1, 3/4], so they are not shifted.  The gap of a* is at least γ(1 - 3γ) = 1/16 at every ā != ā*, as is
that of action 0 at f.  ā* itself is not a successor, since a* leads to f, and the start is 0̄ with a* != 0: the gap is
constant at all reachable states.

Values do not decay with the stage, but the probability of reaching it does, by a factor of at most 3/4 per step.
``benchmarks.discussion`` measures the consequences online and with a simulator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array, Problem, State
from tensorplan.core.specs import whole
from tensorplan.problems.hard.bernoulli import Number
from tensorplan.problems.hard.near_orthogonal import MOST, Signs, dot, near_orthogonal, usual_count

FALLEN = "f"
"""The absorbing state, at any stage."""

BOUND = math.sqrt(2)
"""B = ‖θ*‖."""


class ConstantGapMDP:
    """The MDP for one secret.

    ``signs`` (m, n) are the vectors, v_a = signs[a]/√n.  A state is (stage, a) for ā, or FALLEN.  Values, rewards and
    probabilities are of the type ``number``; with Fraction they are exact.
    """

    reward_range = (-1.0, 0.75)
    deterministic_transitions = False
    deterministic_rewards = True

    def __init__(self, signs: Signs, horizon: int, secret: int, *, number: Any = float) -> None:
        self.signs = signs
        self.actions, self.entries = signs.shape
        self.dimension = self.entries + 1
        self.horizon = horizon
        self.secret = secret
        self.number = number
        self.units: Array = signs / math.sqrt(self.entries)

    # -------------------------------------------------------------------------------- the simulator

    def start(self, rng: np.random.Generator) -> tuple[int, int]:
        """The start state 0̄."""
        return (0, 0)

    def step(self, state: State, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state)."""
        stays = rng.random() < self.chance(state, action)
        return float(self.reward(state, action)), (state[0] + 1, action) if stays else FALLEN

    def step_batch(
        self, state: State, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """Draw a batch of n samples of one pair."""
        stays = rng.random(n) < float(self.chance(state, action))
        following = [FALLEN, (state[0] + 1, action)] if stays.any() else [FALLEN]
        return np.full(n, float(self.reward(state, action))), following, stays.astype(np.intp)

    def chance(self, state: State, action: int) -> Number:
        """The probability of b̄ at the next stage; otherwise the next state is f."""
        if state == FALLEN or action in (state[1], self.secret) or state[0] == self.horizon - 1:
            return self.number(0)
        return self.weight(state[1], action)

    def reward(self, state: State, action: int) -> Number:
        """The reward of a pair."""
        if state == FALLEN:
            return self.number(-1 if action else 0)
        stage, a = state
        if action == a:
            return self.number(0)
        if stage == self.horizon - 1:
            return self.weight(a, action) * self.inner(action, self.secret)
        return self.weight(a, action) * (self.number(1) if action == self.secret else -self.number(1) / 2)

    def states(self, stage: int) -> Iterator[State]:
        """All states of one stage, ā* included."""
        yield from ((stage, a) for a in range(self.actions))
        if stage:
            yield FALLEN

    # -------------------------------------------------------------------------------- closed forms

    def inner(self, a: int, b: int) -> Number:
        """<v_a, v_b>."""
        return self.number(dot(self.signs, a, b)) / self.entries

    def weight(self, a: int, b: int) -> Number:
        """p(a, b)."""
        return self.inner(a, b) + self.number(1) / 2

    def feature(self, state: State, action: int) -> tuple[Number, Number]:
        """(x, y) of φ_q(s, b) = (x v_b, y)."""
        if state == FALLEN:
            return self.number(0), self.number(-1 if action else 0)
        return self.number(0) if action == state[1] else self.weight(state[1], action), self.number(0)

    def action_value(self, state: State, action: int, stage: int = 0) -> Number:
        """q*(state, action), ā* included."""
        if state == FALLEN:
            return self.number(-1 if action else 0)
        if action == state[1]:
            return self.number(0)
        return self.weight(state[1], action) * self.inner(action, self.secret)

    def value(self, state: State, stage: int = 0) -> Number:
        """v*(state): p(a, a*), except at ā*."""
        if state == FALLEN:
            return self.number(0)
        if state[1] != self.secret:
            return self.weight(state[1], self.secret)
        return max(self.action_value(state, b) for b in range(self.actions))

    def phi_q(self, state: State, stage: int) -> Array:
        """φ_q(state, .), (m, d), which does not depend on the secret."""
        rows = np.zeros((self.actions, self.dimension))
        if state == FALLEN:
            rows[1:, -1] = -1.0
            return rows
        rows[:, :-1] = (self.units @ self.units[state[1]] + 0.5)[:, None] * self.units
        rows[state[1]] = 0.0
        return rows

    @property
    def theta(self) -> Array:
        """θ*, (d,)."""
        return np.append(self.units[self.secret], 1.0)


def constant_gap(
    d: int = 128,
    *,
    horizon: int | None = None,
    actions: int | None = None,
    secret: int | None = None,
    seed: int = 0,
) -> Problem:
    """The MDP with a constant gap; features have dimension d, and the vectors d - 1 entries.

    By default there are m = ⌊e^{(d-1)/32}⌋ ``actions`` (at least 2), the ``horizon`` is the smallest with
    (4/3)^{H-1} >= m, so that reaching the last stage is less likely than guessing the secret, and the secret is drawn
    from 1 .. m-1 with the seed, like the vectors.
    """
    mdp = ConstantGapMDP(*draw(d, horizon, actions, secret, seed))
    return Problem(
        mdp, None, mdp.phi_q, bound=BOUND, name=f"constant-gap/{mdp.dimension}", solution=mdp, theta=mdp.theta
    )


def draw(d: int, horizon: int | None, actions: int | None, secret: int | None, seed: int) -> tuple[Signs, int, int]:
    """The vectors, the horizon and the secret of :func:`constant_gap`."""
    d, seed = whole("d", d, 3), whole("seed", seed, 0)
    m = usual_count(d - 1) if actions is None else whole("actions", actions, 2, MOST)
    horizon = usual_horizon(m) if horizon is None else whole("horizon", horizon, 1)
    if secret is None:
        secret = int(np.random.default_rng([seed, 2]).integers(1, m))
    secret = whole("secret", secret, 1, m - 1)
    return near_orthogonal(m, d - 1, np.random.default_rng([seed, 1])), horizon, secret


def usual_horizon(m: int) -> int:
    """The smallest H with (4/3)^{H-1} >= m."""
    horizon = 1
    while 4 ** (horizon - 1) < m * 3 ** (horizon - 1):
        horizon += 1
    return horizon
