"""Random deterministic problems in numbered states, with features that realize v* in awkward ways."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import tensorplan as tp
from tensorplan.problems.random.featurize import embed

TINY = 1e-9
"""Relative to 1 + B, what rounding may do."""


class Graph:
    """Deterministic moves between numbered states: ``following[s, a]`` is the next state, -1 is END."""

    deterministic_transitions = deterministic_rewards = True

    def __init__(self, following, rewards, reward_range, horizon=None, starts=1):
        self.following, self.rewards, self.reward_range = following, rewards, reward_range
        self.horizon, self.starts, self.actions = horizon, starts, following.shape[1]

    def __repr__(self):
        tables = f"following={self.following.tolist()}, rewards={self.rewards.tolist()}"
        return f"{type(self).__name__}({tables}, horizon={self.horizon}, starts={self.starts})"

    def start(self, rng):
        return int(rng.integers(self.starts))

    def step(self, state, action, rng):
        following = int(self.following[state, action])
        return float(self.rewards[state, action]), tp.END if following < 0 else following

    def improve(self, v, discount):
        return (self.rewards + discount * np.append(v, 0.0)[self.following]).max(axis=1)  # index -1 is the zero of END

    def values(self, discount):
        """v* per stage; without a horizon the fixed point, once."""
        v = np.zeros(len(self.rewards))
        if self.horizon is None:
            while np.abs(self.improve(v, discount) - v).max() > 1e-14 * (1 + np.abs(v).max()):
                v = self.improve(v, discount)
            return [v]
        stages = [v]
        for _ in range(self.horizon):
            stages.insert(0, self.improve(stages[0], discount))
        return stages[:-1]


class Arrays(Graph):
    """The same with states that cannot be hashed."""

    def start(self, rng):
        return np.array([0])

    def step(self, state, action, rng):
        reward, following = super().step(int(state[0]), action, rng)
        return reward, following if following is tp.END else np.array([following])


def with_array_states(task):
    """The problem of a graph that starts at 0, with states that are arrays."""

    def read(phi):
        return phi and (lambda state, stage: phi(int(state[0]), stage))

    mdp = Arrays(**{k: v for k, v in vars(task.mdp).items() if k != "actions"})
    return tp.Problem(mdp, read(task.phi_v), read(task.phi_q), bound=task.bound, theta=task.theta)


RANGES = [(0.0, 1.0), (-1.0, 0.0), (0.25, 0.75), (-3.0, -1.0), (-1.0, 1.0), (2.0, 2.0)]


def random_graph(rng, horizon, ranges=RANGES, starts=1):
    """Few levels of reward make ties; arrows to END make short episodes."""
    states, actions = int(rng.integers(starts, 12)), int(rng.integers(1, 5))
    low, high = ranges[rng.integers(len(ranges))]
    levels = int(rng.choice([2, 3, 1000]))
    following = rng.integers(0, states, (states, actions))
    following[rng.random(following.shape) < rng.choice([0.0, 0.1, 0.5])] = -1
    rewards = low + (high - low) * rng.integers(levels, size=following.shape) / (levels - 1)
    return Graph(following, np.clip(rewards, low, high), (low, high), horizon, starts)


HORIZONS = st.integers(1, 8)


@st.composite
def graphs(pick, horizons=HORIZONS, ranges=RANGES, starts=1):
    """The same for Hypothesis: whatever fails shrinks to few states, actions and levels of reward."""
    states, actions = pick(st.integers(starts, 11)), pick(st.integers(1, 4))
    low, high = pick(st.sampled_from(ranges))
    levels, first = pick(st.sampled_from([2, 3, 1000])), pick(st.sampled_from([0, -1]))

    def table(least, most):
        return pick(arrays(int, (states, actions), elements=st.integers(least, most), fill=st.nothing()))

    rewards = low + (high - low) * table(0, levels - 1) / (levels - 1)
    return Graph(table(first, states - 1), np.clip(rewards, low, high), (low, high), pick(horizons), starts)


@st.composite
def terminating_graphs(pick):
    """Those of ``terminating``, for Hypothesis."""
    mdp = pick(graphs(st.none()))
    mdp.following[:, 0] = np.arange(len(mdp.following)) - 1
    costs = pick(arrays(int, mdp.following.shape, elements=st.integers(1, 3), fill=st.nothing()))
    mdp.rewards, mdp.reward_range = -costs / 3, (-1.0, 0.0)
    return mdp


KINDS = ["random", "tight ball", "duplicates", "one-hot", "value alone", "affine"]


def random_features(rng, v, kinds=KINDS):
    """(φ, θ*, B) that realize the values v, in as many awkward ways as there are."""
    kind = rng.choice(kinds)
    largest = max(float(np.abs(v).max()), 1e-3)
    levels, level = np.unique(v, return_inverse=True)
    level = level.reshape(v.shape)
    if kind == "one-hot" and len(levels) <= 16:  # one feature per value; none where the value is zero
        theta = levels
        phi = np.eye(len(levels))[level] * (v != 0)[..., None]
    elif kind == "value alone":
        theta, phi = np.array([largest]), v[..., None] / largest
    elif kind == "affine":
        shift = rng.uniform(-2, 2)
        phi = np.stack([np.ones_like(v), v - shift], axis=-1)
        scale = np.linalg.norm(phi, axis=-1).max()
        theta, phi = scale * np.array([shift, 1.0]), phi / scale
    else:
        theta = rng.standard_normal(int(rng.integers(2, 7)))
        theta *= largest * (1.0 if kind == "tight ball" else 1.25) / np.linalg.norm(theta)
        raw = rng.standard_normal(theta.shape) + rng.standard_normal((*v.shape, len(theta)))
        phi = embed(v, theta, raw.reshape(-1, len(theta))[level] if kind == "duplicates" else raw)
    slack = 1.0 if kind == "tight ball" else rng.choice([1.0, 1.2, 5.0])
    return phi, theta, slack * max(float(np.linalg.norm(theta)), 0.1)


class Values:
    def __init__(self, stages):
        self.stages = stages

    def value(self, state, stage):
        return float(self.stages[stage][state])


def realize(rng, mdp, discount=1.0, eta=0.0, kinds=KINDS):
    """The problem of a graph, with features that realize its (discounted) values, or miss them by up to eta."""
    stages = np.array(mdp.values(discount))
    missed = eta * rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], stages.shape) if eta else 0.0
    phi, theta, bound = random_features(rng, stages + missed, kinds)
    return tp.Problem(mdp, lambda s, h: phi[h][s], bound=bound, name="graph", solution=Values(stages), theta=theta)


def terminating(rng, eta=0.0):
    """Steps that all cost something; action 0 leads from state i to i - 1, and from 0 to END."""
    mdp = random_graph(rng, None)
    mdp.following[:, 0] = np.arange(len(mdp.following)) - 1
    mdp.rewards, mdp.reward_range = -rng.integers(1, 4, mdp.following.shape) / 3, (-1.0, 0.0)
    return realize(rng, mdp, eta=eta)


@st.composite
def realized(pick, mdps, realize=realize):
    """Problems of graphs.  The way in which the features realize the values shrinks as well; their numbers do not."""
    kind = pick(st.sampled_from(KINDS[::-1]))
    return realize(np.random.default_rng(pick(st.integers(0, 2**32 - 1))), pick(mdps), kinds=[kind])


def star_survives(task, trace, value):
    """θ* satisfies every row and disjunction of a trace, and v*(s0) is in every bracket."""
    slack = TINY * (1 + task.bound)
    records = [trace, *trace.iterations]
    rows = np.array([row for record in records for row in record.rows])
    assert (rows[:, :-1] @ task.theta <= rows[:, -1] + slack).all()
    for tol, forms in (pair for record in records for pair in record.disjunctions):
        assert np.abs(np.array(forms) @ [1.0, *task.theta]).min() <= tol + slack
    for record in trace.iterations:
        assert record.lower - slack <= value <= record.upper + slack
