"""Where a small table says what v* and q* are, features are held against them."""

from dataclasses import replace

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.problems import realizability
from tensorplan.problems.realizability import misfit_of


def table(eta=0.0, seed=0, **options):
    sizes = {"actions": 2, "d": 3, "horizon": 4, "states": 8, "kind": "vq"} | options
    return tp.make("layered", eta=eta, seed=seed, **sizes)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["v", "q"])
def test_the_misfit_is_the_eta_of_the_problem_at_most(seed, kind):
    """η is attained among all states; those that can be reached may fit better."""
    for eta in (0.0, 0.2):
        problem = table(eta, seed)
        misfit = misfit_of(problem, kind)
        assert misfit.least <= eta + 1e-9
        assert misfit.kind == kind
        if eta == 0:
            assert misfit.bound <= problem.bound * (1 + 1e-6)


def test_features_that_miss_are_named():
    problem = replace(table(), phi_v=lambda state, stage: np.array([1.0, 0.0, 0.0]), phi_q=None)
    misfit = misfit_of(problem, "v")
    values = [problem.optimal_value(s, h) for h in range(4) for s in problem.mdp.states(h)]
    assert 0 < misfit.least <= (max(values) - min(values)) / 2 + 1e-9
    assert misfit.bound is None
    assert len(misfit.places) >= 2
    with pytest.raises(tp.NotRealizable):
        tp.run(problem, tp.TensorPlan())


def test_a_bound_that_is_too_small_is_a_misfit():
    problem = table()
    norm = float(np.linalg.norm(problem.theta))
    assert misfit_of(replace(problem, bound=0.5 * norm), "v").least > 0.01
    assert misfit_of(replace(problem, bound=1.001 * norm), "v").least < 1e-6


def test_only_small_tables_are_looked_at(monkeypatch):
    assert misfit_of(tp.make("hanoi/3"), "v") is None  # a simulator, no table
    monkeypatch.setattr(realizability, "ROWS", 3)
    assert misfit_of(table(seed=9), "v") is None


def test_unreachable_states_do_not_count():
    """Features that are wrong where nobody can go are right."""
    rewards, steps = np.array([[0.5], [0.5], [1.0]]), np.zeros((3, 1, 3))
    steps[:, 0, 1] = 1.0
    mdp = tp.TabularMDP(steps, rewards, horizon=2, start=0)
    problem = tp.Problem(mdp, lambda state, stage: [1 - stage / 2, 0.0] if state < 2 else [0.0, 0.0], bound=1.0)
    assert misfit_of(problem, "v").least < 1e-9
