"""Monomials against itertools and scikit-learn."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from feature_frames import frames, points, unit
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import PolynomialFeatures

from tensorplan.features import Frame, build


@given(st.data())
def test_all_monomials_of_the_degree(data):
    frame, degree = data.draw(frames()), data.draw(st.integers(0, 4))
    x = data.draw(points(frame))
    v = 2 * unit(frame, x) - 1
    sets = [c for g in range(degree + 1) for c in combinations_with_replacement(range(len(v)), g)]
    expected = np.array([math.prod(v[i] for i in c) for c in sets]) / math.sqrt(len(sets))
    np.testing.assert_allclose(build(f"poly{degree}", frame)(x, 0), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(("n", "degree"), [(1, 7), (2, 5), (3, 3), (6, 2), (13, 1)])
def test_scikit_learn_agrees(n, degree):
    phi = build(f"poly{degree}", Frame((-1.0,) * n, (1.0,) * n))
    x = np.random.default_rng(0).uniform(-1, 1, (20, n))
    theirs = PolynomialFeatures(degree).fit(x)
    np.testing.assert_allclose(phi.many(x, 0) * math.sqrt(phi.dimension), theirs.transform(x), rtol=1e-12)
    assert phi.names == tuple(name.replace(" ", "*") for name in theirs.get_feature_names_out())


def test_the_norm_is_one_in_the_corners():
    phi = build("poly3", Frame((0, 10), (4, 12), whole=True))
    for corner in product((0, 4), (10, 12)):
        assert np.linalg.norm(phi(np.array(corner), 0)) == pytest.approx(1, abs=1e-15)


def test_any_polynomial_is_a_linear_function_of_the_features():
    frame = Frame((-2.0, 1.0), (5.0, 9.0))
    phi = build("poly3", frame)
    x = np.random.default_rng(0).uniform(frame.low, frame.high, (50, 2))
    target = 1 - x[:, 0] ** 2 * x[:, 1] + 3 * x[:, 1] ** 3
    theta = np.linalg.lstsq(phi.many(x[:20], 0), target[:20], rcond=None)[0]
    np.testing.assert_allclose(phi.many(x[20:], 0) @ theta, target[20:], rtol=1e-9)


def test_linear_is_poly1():
    phi = build("linear", Frame((0.0, 0.0), (1.0, 2.0), names=("a", "b")))
    assert phi.name == "poly1"
    assert phi.names == ("1", "a", "b")
    np.testing.assert_allclose(phi(np.array([1.0, 0.5]), 0), np.array([1, 1, -0.5]) / math.sqrt(3))
