"""Certified mode where searches are long: new trees instead of kept ones, and more accurate measurements."""

import math

import numpy as np
import pytest
from helpers import local
from tensorplan.planners.tensorplan.measuring import SHARP, SHARPNESS

import tensorplan as tp
from tensorplan.optimism import solve
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.tensorplan import measuring, sol
from tensorplan.planners.tensorplan.sol import Sol

D = 10


def grown(steps, seed=0):
    """A Sol to which noisy measurements of the same few states are added, one at a time; what holds at θ* stays."""
    rng = np.random.default_rng(seed)
    star = rng.standard_normal(D) * 0.3
    states = rng.standard_normal((40, 2, D))
    states /= np.linalg.norm(states, axis=2, keepdims=True)
    set_ = Sol(D, 2.0)
    set_.aim(rng.standard_normal(D))
    yield set_
    for step in range(steps):
        i, noise = int(rng.integers(len(states))), 0.2 / math.sqrt(1 + step)
        best = int(rng.integers(2))
        gaps = np.where(np.arange(2) == best, 0.0, 0.2)
        constants = -gaps - states[i] @ star + rng.uniform(-noise, noise, 2)
        deltas = np.concatenate([constants[:, None], states[i]], axis=1)
        for action, delta in enumerate(deltas):
            set_.inequality(Place(0, i), delta, noise, None, action)
        set_.disjunction(Place(0, i), deltas, noise)
        yield set_


@pytest.mark.parametrize("limit", [1, 40, 400, 20_000])
def test_the_bound_is_that_of_the_tree_that_proves_it(monkeypatch, limit):
    monkeypatch.setattr(sol, "KEPT", 10)
    replaced, last = 0, math.inf
    for set_ in grown(40):
        before = set_._current()
        found = set_.optimum_anew(limit)
        replaced += set_._search is not before
        assert found.status in ("optimal", "limit")
        assert set_.proof().bound <= found.bound + 1e-8
        last = min(last, found.bound)
        assert set_.proof().bound <= last + 1e-8  # what was claimed once can be proved at the end
        best = solve(set_._search.program)
        assert found.bound >= best.value - 1e-9
        if limit == 20_000:
            assert found.status == "optimal"
            assert found.value == pytest.approx(best.value, abs=1e-7)
        if found.theta is not None:
            assert found.value == pytest.approx(set_._search.program.objective @ found.theta)
    assert replaced >= 3 or limit < 40


def test_a_long_search_is_not_continued_after_it_was_stopped(monkeypatch):
    monkeypatch.setattr(sol, "KEPT", 4_000)
    monkeypatch.setattr(sol, "CHUNK", 16)
    heard = []
    (*_, set_) = grown(40)
    kept, found = set_._current(), set_.optimum_anew(20_000, lambda so_far: heard.append(so_far) or True)
    assert set_._search is kept
    assert len(heard) <= 1
    assert found.nodes < 4_000


def test_a_new_tree_needs_few_nodes_where_a_kept_one_needs_many(monkeypatch):
    """TP' with d = 16 and Bernoulli rewards: with kept trees alone it takes 1.4 million nodes and 42 s."""
    problem = tp.make("layered", actions=2, d=16, horizon=5, states=50, kind="q", noise=True)
    nodes = []
    search = Sol.optimum

    def counted(self, *args):
        found = search(self, *args)
        nodes.append(found.nodes)
        return found

    monkeypatch.setattr(Sol, "optimum", counted)
    certificate = tp.TensorPlanQ(delta=0.5).begin(local(problem), np.random.default_rng(0)).certificate
    assert certificate.status == "certified"
    assert certificate.lower <= problem.optimal_value(0) <= certificate.upper
    assert sum(nodes) < 150_000
    checked = tp.check(certificate.proof)
    assert checked.upper == pytest.approx(certificate.upper, abs=1e-6)


def test_measurements_after_a_long_search_are_more_accurate(monkeypatch):
    problem = tp.make("layered-stochastic/2x3")
    heard = []
    excludes = measuring.Surveyor.excludes

    def hear(self, estimate, theta):
        heard.append(self.sharpness)
        return excludes(self, estimate, theta)

    monkeypatch.setattr(measuring.Surveyor, "excludes", hear)
    tp.TensorPlan(delta=0.5).begin(local(problem), np.random.default_rng(0))
    assert heard
    assert set(heard) == {SHARPNESS}
    heard.clear()
    monkeypatch.setattr(measuring, "LONG", 0)
    tp.TensorPlan(delta=0.5).begin(local(problem), np.random.default_rng(0))
    assert set(heard) == {SHARP}


def test_a_variance_that_does_not_depend_on_theta_needs_no_search(monkeypatch):
    monkeypatch.setattr(Sol, "largest", lambda *args: pytest.fail("searched"))
    rewards = np.zeros((D + 1, D + 1))
    (set_,) = grown(0)
    assert set_.variance(rewards, 100).bound == 0.0
    rewards[0, 0] = 0.25
    assert set_.variance(rewards, 100).bound == pytest.approx(0.25, rel=1e-5)
    noise = np.random.default_rng(0).standard_normal((D + 1, D + 1)) * 1e-9
    assert set_.variance(rewards + noise @ noise.T, 100).bound == pytest.approx(0.25, rel=1e-5)
