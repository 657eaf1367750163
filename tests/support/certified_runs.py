"""What tests of the certified mode share: problems, plannings before they begin, exact values of policies."""

from types import SimpleNamespace

import numpy as np
from helpers import local
from scipy import stats

import tensorplan as tp
from tensorplan.planners.certified import planning as certified
from tensorplan.planners.evidence.ledger import Ledger


def too_many(trials, probability):
    return int(stats.binom.isf(1e-6, trials, probability)) + 1


def begin(problem, seed=0, budget=None, **options):
    """The policy at the start of an episode, with all that it has learned."""
    return tp.TensorPlan(**options).begin(local(problem, seed=seed, budget=budget), np.random.default_rng(0))


def planning(problem, seed=0, **options):
    """The certified mode before it has asked anything, at the start of an episode."""
    config, access = tp.TensorPlan(**options), local(problem, seed=seed)
    ledger = Ledger(certified.failure_probability(config, access))
    memory = certified.CertifiedMemory(config, access, ledger)
    plan = certified.CertifiedPlanning(config, access, memory, np.random.default_rng(0))
    plan._begin()
    return plan


def random_problem(seed, **options):
    """A random problem, and a δ for it."""
    rng = np.random.default_rng([seed, 7])
    actions, d, horizon = int(rng.integers(2, 4)), int(rng.integers(2, 9)), int(rng.integers(5, 11))
    problem = tp.make("layered-stochastic", actions=actions, d=d, horizon=horizon, seed=seed, **options)
    return problem, float(rng.uniform(0.1, 0.2)) * horizon


def policy_value(problem, policy, elsewhere):
    """v of a frozen policy, exactly, if the best (max) or the worst (min) action is taken where it has to sample."""
    mdp, following = problem.mdp, None
    for stage in reversed(range(mdp.horizon)):
        q = mdp.backup(stage, following)
        keys = [(stage, s) for s in mdp.states(stage)]
        chosen = [policy.candidate.known(SimpleNamespace(stage=stage, key=state)) for stage, state in keys]
        following = np.array([elsewhere(row) if a is None else row[a] for a, row in zip(chosen, q, strict=True)])
    return float(following[0])


def contains(certificate, value):
    return certificate.lower <= value <= certificate.upper


class Plain:
    """An MDP without its step_batch."""

    def __init__(self, mdp):
        self.horizon, self.actions, self.start, self.step = mdp.horizon, mdp.actions, mdp.start, mdp.step


class Boxed(Plain):
    """The same with states that cannot be hashed."""

    def __init__(self, mdp):
        super().__init__(mdp)
        self.start = lambda rng: [mdp.start(rng)]
        self.step = lambda state, action, rng: self._box(*mdp.step(state[0], action, rng))

    def _box(self, reward, following):
        return reward, following if following is tp.END else [following]


def many_starts(starts=10):
    rng = np.random.default_rng(2)
    weights = [rng.dirichlet(np.full(30, 0.1), (30, 2)) for _ in range(4)]
    start = np.where(np.arange(30) < starts, 1 / starts, 0.0)
    mdp = tp.TabularMDP([*weights, None], [rng.random((30, 2)) for _ in range(5)], horizon=5, start=start, noise=True)
    return tp.featurize(mdp, 4, seed=2, name="starts")
