"""Random layered MDPs whose optimal values are linear in d features, with any number of states per stage.

Small ones are drawn as tables.  Large ones are *procedural*: successors, values and features are computed on demand
from a hash of the state, so that 10^12 states per stage take no memory.  There the values are chosen first,

    v*(s) = (H - h)/2 + n(s),      |n(s)| <= 0.15,

every pair (s, a) has a gap g(s, a) >= 0 that is zero for one action, and the mean reward follows from Bellman's
equation, r(s, a) = v*(s) - g(s, a) - E v*(S'), which lies in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import END, Array, Problem, State
from tensorplan.core.specs import number, one_of, truth, whole
from tensorplan.problems.random.featurize import draw_theta, embed, featurize
from tensorplan.problems.tables.tabular import TabularMDP

TABLE_LIMIT = 100_000
"""States per stage above which a problem is procedural by default."""

_NOISE, _GAP = 0.15, (0.02, 0.18)
"""The range of n(s) and of nonzero gaps, for which procedural rewards are in [0, 1]."""

_MASK, _GOLDEN = (1 << 64) - 1, 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""The constants of splitmix64 (Steele, Lea and Flood 2014)."""


def layered(
    actions: int = 4,
    d: int = 10,
    *,
    states: int = 200,
    horizon: int = 10,
    branching: int = 1,
    noise: bool = False,
    kind: str = "v",
    eta: float = 0.0,
    scale: float = 1.0,
    bound: float | None = None,
    starts: int = 1,
    reach: bool = False,
    procedural: bool | None = None,
    seed: int = 0,
) -> Problem:
    """A random layered problem with ``branching`` successors per pair, and Bernoulli rewards with ``noise``.

    Only for tables: mean rewards up to ``scale`` <= 1, a given ``bound`` B, ``starts`` start states, and with ``reach``
    features that realize the values at reachable states only.
    """
    actions, d = whole("actions", actions, 1), whole("d", d, 2)
    states, horizon = whole("states", states, 1), whole("horizon", horizon, 1)
    branching, seed, starts = (
        whole("branching", branching, 1),
        whole("seed", seed, 0),
        whole("starts", starts, 1, states),
    )
    noise, eta, scale = truth("noise", noise), number("eta", eta, 0.0), number("scale", scale, 0.0, 1.0)
    reach = truth("reach", reach)
    family = "layered-stochastic" if noise or branching > 1 else "layered"
    name = f"{family}/{actions}x{d}"
    if truth("procedural", states > TABLE_LIMIT if procedural is None else procedural):
        fixed = {"eta": (eta, 0.0), "scale": (scale, 1.0), "bound": (bound, None), "starts": (starts, 1)}
        for option, (given, only) in {"the kind": (kind, "v"), **fixed, "reach": (reach, False)}.items():
            one_of(f"{option} of a procedural problem", str(given), (str(only),))
        return procedural_problem(actions, d, states, horizon, branching, noise, seed, name)
    rng = np.random.default_rng([seed, 1])
    mdp = random_layered(rng, actions, states, horizon, branching, noise, scale, starts)
    return featurize(mdp, d, kind=kind, eta=eta, bound=bound, reach=reach, seed=seed, name=name)


def random_layered(
    rng: np.random.Generator,
    actions: int,
    states: int,
    horizon: int,
    branching: int,
    noise: bool,
    scale: float = 1.0,
    starts: int = 1,
) -> TabularMDP:
    """A layered table with random successors, weights and mean rewards up to ``scale``; it starts in a first state."""
    from scipy import sparse

    pairs = states * actions
    transitions: list[Any] = []
    for _ in range(horizon - 1):
        weights = rng.dirichlet(np.ones(branching), pairs)
        columns = rng.integers(states, size=(pairs, branching))
        rows = np.repeat(np.arange(pairs), branching)
        shape = (pairs, states)
        transitions.append(sparse.csr_array((weights.ravel(), (rows, columns.ravel())), shape=shape))
    rewards = [scale * rng.random((states, actions)) for _ in range(horizon)]
    start = 0 if starts == 1 else np.repeat([1.0 / starts, 0.0], [starts, states - starts])
    return TabularMDP([*transitions, None], rewards, horizon=horizon, start=start, noise=noise)


# ---------------------------------------------------------------------------------------- procedural


def _mix(x: int) -> int:
    """A 64-bit hash of an integer (the finaliser of splitmix64)."""
    x = x * _GOLDEN & _MASK
    x = (x ^ x >> 30) * _MULTIPLIERS[0] & _MASK
    x = (x ^ x >> 27) * _MULTIPLIERS[1] & _MASK
    return x ^ x >> 31


class Procedural:
    """A layered MDP computed by hashing; a state is the integer stage * states + index."""

    reward_range = (0.0, 1.0)

    def __init__(self, actions: int, states: int, horizon: int, branching: int, noise: bool, seed: int) -> None:
        self.actions = actions
        self.horizon = horizon
        self.width = states
        self.branching = branching
        self.noise = noise
        self.deterministic_transitions = branching == 1
        self.deterministic_rewards = not noise
        keys = [_mix((seed << 3) + tag + 1) for tag in range(5)]
        self._key_next, self._key_noise, self._key_gap, self._key_best, self.key_features = keys

    def start(self, rng: np.random.Generator) -> int:
        """The start state, which is fixed."""
        return 0

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state)."""
        successors = self._successors(state, action)
        following = successors[int(rng.random() * self.branching)] if self.branching > 1 else successors[0]
        reward = self._mean_reward(state, action, successors)
        if self.noise:
            reward = 1.0 if rng.random() < reward else 0.0
        return reward, following

    def step_batch(
        self, state: int, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """Draw a batch of n samples of one pair."""
        successors = self._successors(state, action)
        which = rng.integers(self.branching, size=n)
        mean = self._mean_reward(state, action, successors)
        return (rng.random(n) < mean).astype(np.float64) if self.noise else np.full(n, mean), successors, which

    def value(self, state: State, stage: int = 0) -> float:
        """v*(state); the state determines the stage."""
        if state is END:
            return 0.0
        unit = float(_mix(self._key_noise + state) >> 11) * 2.0**-53
        return float(self.horizon - state // self.width) / 2.0 + _NOISE * (2 * unit - 1)

    def action_value(self, state: State, action: int, stage: int = 0) -> float:
        """q*(state, action)."""
        return self.value(state) - self._gap(state, action)

    def _gap(self, state: int, action: int) -> float:
        if _mix(self._key_best + state) % self.actions == action:
            return 0.0
        unit = (_mix(self._key_gap + state * self.actions + action) >> 11) * 2.0**-53
        return _GAP[0] + (_GAP[1] - _GAP[0]) * unit

    def _successors(self, state: int, action: int) -> list[State]:
        stage = state // self.width + 1
        if stage == self.horizon:
            return [END] * self.branching
        first = self._key_next + (state * self.actions + action) * self.branching
        return [stage * self.width + _mix(first + j) % self.width for j in range(self.branching)]

    def _mean_reward(self, state: int, action: int, successors: list[State]) -> float:
        ahead = sum(self.value(s) for s in successors) / self.branching
        return self.action_value(state, action) - ahead


def procedural_problem(
    actions: int, d: int, states: int, horizon: int, branching: int, noise: bool, seed: int, name: str
) -> Problem:
    """A procedural layered problem with features that realize v*."""
    mdp = Procedural(actions, states, horizon, branching, noise, seed)
    rng = np.random.default_rng([seed, 2])
    theta, bound = draw_theta(d, horizon / 2 + _NOISE, None, rng)
    centre = rng.standard_normal(d)
    multipliers = np.array(_MULTIPLIERS, dtype=np.uint64)
    entries = np.arange(d, dtype=np.uint64) * np.uint64(_GOLDEN)

    def phi_v(state: int, stage: int) -> Array:
        x = entries + np.uint64(_mix(mdp.key_features + state))
        x = (x ^ (x >> np.uint64(30))) * multipliers[0]
        x = (x ^ (x >> np.uint64(27))) * multipliers[1]
        x ^= x >> np.uint64(31)
        # uniform on [-sqrt 3, sqrt 3), which has variance 1 like the Gaussian centre
        raw = centre + (x.astype(np.float64) * 2.0**-63 - 1.0) * np.sqrt(3.0)
        return embed(np.float64(mdp.value(state)), theta, raw)  # type: ignore[arg-type]

    return Problem(mdp, phi_v, bound=bound, name=name, solution=mdp, theta=theta)
