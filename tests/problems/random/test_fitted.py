"""Tables with features by name, or read off a table: θ*, η and B of the best fit."""

from __future__ import annotations

import numpy as np
import pytest

from tensorplan.features import Frame
from tensorplan.problems.random.fitted import featured, fitted
from tensorplan.problems.random.layered import random_layered
from tensorplan.problems.tables.tabular import solve_tabular


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
    assert featured(mdp, "realizing", frame, point, discount=1.0, name="r").dimension == 5
    assert featured(mdp, "realizing7", frame, point, discount=1.0, name="r").dimension == 7
    assert featured(mdp, "poly1", frame, point, discount=1.0, name="line").eta > 0.01
