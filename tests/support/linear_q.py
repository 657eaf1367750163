"""Problems with linear q* for planners that need them deterministic, OCP and the span planner; what must hold there."""

import itertools

import numpy as np
from random_graphs import KINDS, TINY, Values, random_features, random_graph

import tensorplan as tp
from tensorplan.planners.linear_q.ocp import Constraints
from tensorplan.planners.linear_q.replay import CLOSED
from tensorplan.problems.random.featurize import embed
from tensorplan.problems.random.layered import layered


def random_layered(count):
    """Layered problems with linear q*: 2 to 1,000 actions, d and H from 2 to 8."""
    rng = np.random.default_rng(5)
    for seed in range(count):
        actions = 1000 if seed % 10 == 0 else int(rng.choice([2, 3, 5, 10, 50]))
        d, horizon = (int(x) for x in rng.integers(2, 9, 2))
        yield layered(actions, d, states=5 if actions == 1000 else 30, horizon=horizon, kind="q", seed=seed)


def action_values(mdp):
    """v* and q* per stage of a graph."""
    v = np.array([*mdp.values(1.0), np.zeros(len(mdp.rewards))])
    return v[:-1], np.array([mdp.rewards + np.append(ahead, 0.0)[mdp.following] for ahead in v[1:]])


def realize_q(rng, mdp, kinds=KINDS):
    """The problem of a graph with features that realize its q*, in as many awkward ways as there are."""
    v, q = action_values(mdp)
    phi, theta, bound = random_features(rng, q, kinds)
    return tp.Problem(mdp, phi_q=lambda s, h: phi[h][s], bound=bound, name="graph", solution=Values(v), theta=theta)


def nearly_parallel(rng, tiny):
    """A graph whose features lie in a plane, but for ``tiny``."""
    mdp = random_graph(rng, int(rng.integers(1, 9)), starts=3)
    v, q = action_values(mdp)
    theta = rng.standard_normal(int(rng.integers(2, 8)))
    theta *= max(float(np.abs(q).max()), 0.1) * 1.25 / np.linalg.norm(theta)
    phi = embed(q, theta, rng.standard_normal(len(theta)) + tiny * rng.standard_normal((*q.shape, len(theta))))
    bound = 1.2 * float(np.linalg.norm(theta))
    return tp.Problem(mdp, phi_q=lambda s, h: phi[h][s], bound=bound, name="near", solution=Values(v), theta=theta)


def solved(task, episode):
    """The episode is optimal, its certificate is right, and it took few queries."""
    value, certificate, scale = task.optimal_value(episode.start), episode.certificate, 1 + task.bound
    assert certificate.status == "certified" or (certificate.status == "doubtful" and value == 0)
    assert certificate.lower - 1e-12 * scale <= value <= certificate.upper + 1e-12 * scale
    assert certificate.gap <= CLOSED * scale
    assert certificate.failure == 0
    assert episode.complete
    assert abs(value - episode.total_reward) <= 1e-9
    assert episode.total_queries <= most_queries(task) or not any(episode.rewards)  # then more is tried


def most_queries(task):
    """(d + 1) H for planning, and a little for the challenge and for answers that are asked again."""
    return 1.15 * (task.dimension + 1) * task.horizon + task.horizon + 2


def bracketed(task, episode):
    """Whatever the status, the bracket holds, and the policy collects its lower end."""
    value, certificate, slack = task.optimal_value(episode.start), episode.certificate, TINY * (1 + task.bound)
    assert certificate.lower - slack <= value <= certificate.upper + slack
    assert certificate.lower <= episode.total_reward + slack
    assert episode.complete


def star_solves(task, equations):
    """θ* satisfies every equation, up to the slack that it has."""
    basis, weights, y, slack = equations.rows
    assert len(y) <= task.dimension
    if len(y):
        assert np.allclose(basis @ basis.T, np.eye(len(y)), atol=1e-13)
        x = np.linalg.solve(weights, basis)
        assert (np.abs(x @ task.theta - y) <= slack + 1e-14 * np.abs(np.linalg.inv(weights)).sum(axis=1)).all()


def star_satisfies(task, constraints):
    """θ* satisfies every constraint that was ever made, those not selected included."""
    for phi, low, high in constraints.sequence:
        assert low <= phi @ task.theta <= high


def star_survives(task, memory):
    """Whatever a session has learned holds for θ*."""
    (star_satisfies if isinstance(memory, Constraints) else star_solves)(task, memory)


REFUSALS = [
    (tp.make("layered/2x3"), "problem 'layered/2x3' has no phi_q, which {} needs"),
    (
        tp.make("layered-stochastic/2x3:kind=q"),
        "{} is for deterministic problems, and problem 'layered-stochastic/2x3' does not declare deterministic "
        "transitions",
    ),
    (
        tp.make("layered/2x3:kind=q:noise=true"),
        "{} is for deterministic problems, and problem 'layered-stochastic/2x3' does not declare deterministic rewards",
    ),
    (
        tp.Problem(random_graph(np.random.default_rng(0), None), phi_q=lambda s, h: np.zeros((2, 2)), bound=1.0),
        "{} rolls out whole episodes: problem 'problem' has no horizon",
    ),
]


class Chain:
    """0 -> 1 -> END; action 0 pays 0.5, action 1 a quarter."""

    horizon, actions = 2, 2
    deterministic_transitions = deterministic_rewards = True

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return 0.5 / (1 + action), state + 1


def chain(first, bound=2.0):
    """Features of one dimension: right at state 1 (θ* = 1), and ``first`` for both actions of state 0."""
    values = Values([[1.0, 0.5], [0.5, 0.5]])
    phi = [np.array(first).reshape(2, 1), np.array([[0.5], [0.25]])]
    return tp.Problem(Chain(), phi_q=lambda s, h: phi[s], bound=bound, name="chain", solution=values)


def statuses_of_contradictory_starts(planner):
    """State 0 pays 0.5 and state 1 pays 0.9, with the same feature; a session at 0, 0, 1 and 0 again."""

    class Two(Chain):
        horizon = 1

        def step(self, state, action, rng):
            return (0.5, 0.9)[state], tp.END

    task = tp.Problem(Two(), phi_q=lambda s, h: np.full((2, 1), 0.5), bound=2.0, name="two")
    session, rng = planner.session(), np.random.default_rng(0)
    for start in (0, 0, 1, 0):
        access = tp.LocalAccess(task, start, rng)
        policy = session.begin(access, rng)
        assert policy.certificate.lower == (0.5, 0.9)[start]
        yield policy.certificate.status, policy.certificate.upper, access.spent


class Fragile:
    """An MDP where Ctrl-C is pressed during one of the steps."""

    def __init__(self, mdp, at):
        self.mdp, self.at, self.calls = mdp, at, itertools.count()

    def __getattr__(self, name):
        return getattr(self.mdp, name)

    def step(self, state, action, rng):
        if next(self.calls) == self.at:
            raise KeyboardInterrupt
        return self.mdp.step(state, action, rng)


def fragile(task, at):
    return tp.Problem(Fragile(task.mdp, at), phi_q=task.phi_q, bound=task.bound, solution=task.solution)
