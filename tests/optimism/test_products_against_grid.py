"""Products of any number of factors against a fine grid of the disc, none of whose feasible points may be cut off."""

import math

import numpy as np
import pytest
from random_programs import feasible

from tensorplan.optimism import Program, solve, verify


def grid(radius):
    r = radius * np.sqrt(np.linspace(0, 1, 300))
    angle = np.linspace(0, 2 * np.pi, 700)
    r, angle = (x.ravel() for x in np.meshgrid(r, angle))
    return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_products_in_the_plane(seed):
    rng = np.random.default_rng(seed)
    closed = 0
    for _ in range(20):
        a, n, radius = int(rng.integers(1, 5)), int(rng.integers(1, 4)), float(rng.choice([0.5, 1.0, 3.0]))
        star = rng.normal(size=2)
        star *= radius * rng.random() / np.linalg.norm(star)
        forms = rng.normal(size=(n, a, 3))
        for i in range(n):
            forms[i, 0, 0] = -forms[i, 0, 1:] @ star
        if rng.random() < 0.3:
            forms[0, -1, 1:] = 0.0 if a > 1 else forms[0, -1, 1:]
        tol = float(rng.choice([0.01, 0.1, 0.5]))
        rows = rng.normal(size=(2, 2))
        program = Program(rng.normal(size=2), radius, rows, rows @ star + rng.random(2), forms, tol, product=True)
        s = solve(program, node_limit=50_000, certificate=True)
        points = grid(radius)
        held = (points @ rows.T <= program.rhs).all(axis=1)
        for i in range(n):
            held &= np.abs(np.prod(forms[i, :, 0] + points @ forms[i, :, 1:].T, axis=1)) <= tol
        best = float((points[held] @ program.objective).max(initial=-math.inf))
        scale = radius * float(np.linalg.norm(program.objective))
        assert s.status != "infeasible"
        assert s.bound >= max(best, program.objective @ star) - 1e-9 * scale
        assert verify(program, s) >= s.value - 1e-9 * scale
        assert s.theta is None or feasible(program, s.theta)
        closed += s.status == "optimal"
    assert closed >= 19
