"""The best fit in sup norm: against what is known, and against lower bounds that need no solver."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tensorplan.features import Frame
from tensorplan.problems.fitted import best_fit, featured, fitted
from tensorplan.problems.layered import random_layered
from tensorplan.problems.tabular import solve_tabular


def test_one_constant_fits_the_middle():
    theta, eta = best_fit(np.ones((4, 1)), np.array([1.0, 7.0, 2.0, 3.0]))
    assert theta == pytest.approx([4.0])
    assert eta == pytest.approx(3.0)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_fits_better(seed):
    """With weights λ, ‖λ‖_1 = 1 and Φᵀλ = 0, every θ misses by <λ, x>; some such λ on d + 1 rows reaches η."""
    rng = np.random.default_rng(seed)
    n, d = 7, int(rng.integers(1, 4))
    phi, x = rng.standard_normal((n, d)), rng.standard_normal(n)
    theta, eta = best_fit(phi, x)
    assert np.abs(x - phi @ theta).max() == pytest.approx(eta, abs=1e-12)
    floor = 0.0
    for rows in combinations(range(n), d + 1):
        weights = np.linalg.svd(phi[list(rows)].T)[2][-1]  # spans the kernel of Φᵀ on these rows
        floor = max(floor, abs(weights @ x[list(rows)]) / np.abs(weights).sum())
    assert eta == pytest.approx(floor, rel=1e-6)


def test_a_table_of_features():
    mdp = random_layered(np.random.default_rng(0), 2, 6, 3, 2, False)
    values = solve_tabular(mdp).v
    tables = [10 * np.stack([v, np.ones_like(v)], axis=1) for v in values]
    problem = fitted(mdp, tables, discount=1.0, name="table")
    norms = [np.linalg.norm(problem.state_features(s, h)) for h in range(3) for s in mdp.states(h)]
    assert max(norms) == pytest.approx(1.0)
    assert problem.eta < 1e-9
    for h in range(3):
        for i, state in enumerate(mdp.states(h)):
            assert problem.state_features(state, h) @ problem.theta == pytest.approx(values[h][i], abs=1e-9)
    assert np.linalg.norm(problem.theta) < problem.bound


def test_features_by_name():
    mdp = random_layered(np.random.default_rng(1), 2, 4, 3, 2, False)
    frame = Frame((0.0,), (3.0,), whole=True, horizon=3)

    def point(state, stage):
        return np.array([float(mdp.index(state, stage))])

    exact = featured(mdp, "onehot@stage", frame, point, discount=1.0, name="exact")
    assert (exact.dimension, exact.name) == (12, "exact")
    assert exact.eta < 1e-9
    assert featured(mdp, "realizing", frame, point, discount=1.0, name="r").dimension == 3
    assert featured(mdp, "realizing7", frame, point, discount=1.0, name="r").dimension == 7
    assert featured(mdp, "poly1", frame, point, discount=1.0, name="line").eta > 0.01
