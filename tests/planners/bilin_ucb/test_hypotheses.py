"""The hypotheses of BiLin-UCB, and the rollouts that exclude some of them."""

import itertools
import math

import numpy as np
import pytest
from bilin_runs import everywhere, small
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorplan as tp
from tensorplan.planners.bilin_ucb.hypotheses import Hypotheses, Rollouts
from tensorplan.testing import tabular_mdps

# ------------------------------------------------------------------------------------------------- data


@settings(max_examples=20)
@given(tabular_mdps(max_actions=2, max_horizon=3), st.integers(0, 99))
def test_discrepancies_telescope(mdp, seed):
    """With (C), Σ_h of the mean ℓ is the promise minus the mean return, sample by sample; early END included."""
    task = tp.featurize(mdp, 4, kind="vq")
    access = everywhere(task, seed)
    rollouts = Rollouts(access)
    rollouts.extend(task.theta, 50, lambda n: None)
    rollouts.extend(task.theta, 30, lambda n: None)
    total = float((rollouts.means @ np.concatenate([[1.0], task.theta])).sum())
    assert total == pytest.approx(task.optimal_value(0) - rollouts.total / 80, abs=1e-9)
    assert access.spent <= 80 * mdp.horizon


def test_rollouts_are_those_of_the_greedy_policy():
    """The mean return, its variance and the x_h against exact expectations of a Markov chain."""
    task = small(3, branching=3, noise=True, horizon=3)
    rng = np.random.default_rng(0)
    theta = task.theta + 0.5 * rng.standard_normal(task.dimension)  # some other policy
    access, n = everywhere(task), 40_000
    rollouts = Rollouts(access)
    rollouts.extend(theta, n, lambda n: None)
    weights, value_, x = np.eye(len(task.mdp.states(0)))[0], 0.0, []
    for h in range(3):
        states = list(task.mdp.states(h))
        actions = [int(np.argmax(task.phi_q(s, h) @ theta)) for s in states]
        row = np.zeros(task.dimension + 1)
        ahead = np.zeros(len(task.mdp.states(h + 1)) if h < 2 else 0)
        for place, (s, a) in enumerate(zip(states, actions, strict=True)):
            row[0] -= weights[place] * task.mdp.rewards(h)[place, a]
            row[1:] += weights[place] * task.phi_q(s, h)[a]
            if h < 2:
                ahead += weights[place] * task.mdp.matrix(h).toarray()[place * task.actions + a]
        for place, weight in enumerate(ahead):
            row[1:] -= weight * task.phi_v(task.mdp.states(h + 1)[place], h + 1)
        value_ -= row[0]
        x.append(row)
        weights = ahead
    radius = 5 * 3 / math.sqrt(n)  # five standard errors of values in a range of length 3
    assert rollouts.total / n == pytest.approx(value_, abs=radius)
    assert rollouts.means == pytest.approx(np.array(x), abs=radius)
    assert access.spent == 3 * n
    mean = rollouts.total / n
    assert 0.05 < rollouts.squares / n - mean**2 < 9 / 4


@pytest.mark.parametrize("batches", [False, True])
def test_rollouts_keep_episodes_apart(batches):
    """The reward tells where a step leads, and what the next one pays: returns are 0 or 2."""

    class Coin:
        horizon, actions = 2, 1

        def start(self, rng):
            return "start"

        def step(self, state, action, rng):
            coin = float(rng.integers(2)) if state == "start" else float(state == "heads")
            return coin, "heads" if coin else "tails"

        def states(self, stage):
            return ["heads", "tails"] if stage else ["start"]

    class Coins(Coin):
        def step_batch(self, state, action, n, rng):
            rewards = np.array([self.step(state, action, rng)[0] for _ in range(n)])
            return rewards, ["heads", "tails"], (rewards == 0).astype(int)

    features = {"start": 0.5, "heads": 0.5, "tails": 0.0}
    task = tp.Problem(
        Coins() if batches else Coin(),
        lambda s, h: np.array([features[s]]),
        lambda s, h: np.array([[features[s]]]),
        bound=2.0,
        name="coins",
    )
    rollouts = Rollouts(everywhere(task))
    rollouts.extend(np.array([2.0]), 1000, lambda n: None)
    assert 800 < rollouts.total < 1200
    assert rollouts.squares == 2 * rollouts.total
    heads = rollouts.total / 2000
    assert rollouts.means == pytest.approx(np.array([[-heads, 0.5 - 0.5 * heads], [-heads, 0.5 * heads]]))


# ------------------------------------------------------------------------------------------------- hypotheses


class Listed:
    """States 0 .. S-1, all of stage 0."""

    horizon = 1

    def __init__(self, states, actions):
        self.size, self.actions = states, actions

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return 0.5, tp.END

    def states(self, stage):
        return range(self.size)


def loose_maps(rng, states, actions, bound):
    """Feature maps in the plane that nobody made right; later states agree with the first one or are indifferent."""
    phi_v, phi_q = np.zeros((states, 2)), np.zeros((states, actions, 2))
    for s in range(states):
        phi_v[s], phi_q[s] = rng.uniform(-0.6, 0.6, 2), rng.uniform(-0.6, 0.6, (actions, 2))
        kind = rng.integers(4)
        if s and kind == 0:  # the same rays
            phi_q[s] = phi_v[s] + 0.5 * rng.random() * (phi_q[0] - phi_v[0])
        elif s and kind == 1:  # one of the actions has the value of the state under any θ
            phi_q[s, rng.integers(actions)] = phi_v[s]
    return tp.Problem(
        Listed(states, actions), lambda s, h: phi_v[s], lambda s, h: phi_q[s], bound=bound, name="plane"
    ), (phi_q - phi_v[:, None])


def ray_optimum(advantages, objective, bound, slabs):
    """max <objective, θ> over (C), the ball and the slabs, by enumeration in the plane; None if there is no θ.

    (C) at a state holds on rays orthogonal to a difference φ_q - φ_v, or on all of a cone where one of these is zero:
    the set is made of 0, rays, and cones between them.  The optimum is on the arc, or where two lines of these meet.
    """
    candidates = [np.zeros(2)]
    normals = [g for g in advantages.reshape(-1, 2) if np.linalg.norm(g) > 0]
    lines = [(g, 0.0) for g in normals] + [(x[1:], b) for x, e in slabs for b in (e - x[0], -e - x[0])]
    for g, b in lines:  # where a line meets the circle
        foot, along = b * g / (g @ g), np.array([-g[1], g[0]]) / np.linalg.norm(g)
        if foot @ foot <= bound**2:
            reach = math.sqrt(bound**2 - foot @ foot)
            candidates += [foot + reach * along, foot - reach * along]
    for (g, b), (k, c) in itertools.combinations(lines, 2):
        if abs(g[0] * k[1] - g[1] * k[0]) > 1e-12:
            candidates.append(np.linalg.solve(np.array([g, k]), np.array([b, c])))
    candidates.append(bound * objective / np.linalg.norm(objective))
    feasible = [
        theta
        for theta in candidates
        if np.linalg.norm(theta) <= bound + 1e-9
        and (np.abs((advantages @ theta).max(axis=1)) <= 1e-9).all()
        and all(abs(x @ [1.0, *theta]) <= e + 1e-9 for x, e in slabs)
    ]
    return max((float(objective @ theta) for theta in feasible), default=None)


def test_the_hypotheses_equal_an_enumeration_in_the_plane():
    outcomes = {"empty": 0, "zero": 0, "more": 0}
    for seed in range(300):
        rng = np.random.default_rng(seed)
        bound = float(rng.uniform(0.5, 3.0))
        task, advantages = loose_maps(rng, int(rng.integers(1, 5)), int(rng.integers(1, 4)), bound)
        hypotheses = Hypotheses(everywhere(task))
        slabs = []
        for _ in range(int(rng.integers(3))):
            x, e = rng.uniform(-0.4, 0.4, 3), float(rng.uniform(0.05, 0.4))
            slabs.append((x, e))
            hypotheses.policies += 1
            hypotheses.learn(x[None], np.array([e]))
        objective, bounds = rng.standard_normal(2), []
        hypotheses.sol.aim(objective)
        found = hypotheses.optimum(bounds.append)
        expected = ray_optimum(advantages, objective, bound, slabs)
        if expected is None:
            assert found.status == "infeasible"
            outcomes["empty"] += 1
            continue
        assert found.status == "optimal"
        assert found.value == pytest.approx(expected, abs=1e-5)
        assert min(bounds) >= expected - 1e-9  # never below, on the way either
        assert hypotheses.violations(found.theta).max() <= 1e-6
        outcomes["more" if abs(expected) > 1e-6 else "zero"] += 1
    assert min(outcomes.values()) >= 30


def test_tangents_make_the_printed_constraint():
    """Σ_i <x_i, [1, θ]>² <= R² by cuts: no θ that satisfies it is cut off, and the optimum is that of a fine grid."""
    indifferent = tp.Problem(
        Listed(1, 1), lambda s, h: np.zeros(2), lambda s, h: np.zeros((1, 2)), bound=2.0, name="indifferent"
    )
    angles = np.linspace(0, 2 * np.pi, 721)
    grid = np.multiply.outer(np.linspace(0, 2, 201), np.array([np.cos(angles), np.sin(angles)]).T).reshape(-1, 2)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        radius = float(rng.uniform(0.2, 0.6))
        hypotheses, objective = Hypotheses(everywhere(indifferent), radius), rng.standard_normal(2)
        hypotheses.sol.aim(objective)
        stack = []
        for _ in range(3):
            stack.append(np.concatenate([[0.03 * rng.standard_normal()], rng.uniform(-0.5, 0.5, 2)]))
            hypotheses.policies += 1
            hypotheses.learn(stack[-1][None])
            found = hypotheses.optimum(lambda bound: None)
            sizes = np.linalg.norm(np.array(stack) @ np.concatenate([np.ones((1, len(grid))), grid.T]), axis=0)
            inside = grid[sizes <= radius]
            assert len(inside)
            rows, rhs = np.array(hypotheses.sol.rows).reshape(-1, 2), np.array(hypotheses.sol.rhs)
            assert (inside @ rows.T <= rhs).all()
            assert hypotheses.discrepancies(found.theta)[0] <= 1.001 * radius + 1e-6
            assert hypotheses.agrees(found.theta)
            assert found.value == pytest.approx((inside @ objective).max(), abs=0.03)
            assert found.value >= (inside @ objective).max() - 1e-9
        assert not hypotheses.agrees(100 * objective)
