"""Gaussian bumps against their formula, and the constant that they are divided by against a dense search."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from feature_frames import frames, points, unit
from hypothesis import example, given
from hypothesis import strategies as st

from tensorplan.features import Frame, build
from tensorplan.features.families.rbf import largest_sum


@given(st.data())
def test_bumps_are_gaussian_up_to_one_constant(data):
    frame, side = data.draw(frames()), data.draw(st.integers(2, 4))
    width = data.draw(st.sampled_from([0.1, 0.4, 1.5]))
    phi = build(f"rbf{side}:width={width}", frame)
    x = data.draw(points(frame))
    u = unit(frame, x)
    centres = product([i / (side - 1) for i in range(side)], repeat=len(u))
    bumps = np.array(
        [math.exp(-sum((a - b) ** 2 for a, b in zip(u, c, strict=True)) / (2 * width**2)) for c in centres]
    )
    constant = largest_sum(side, width) ** (-len(u) / 2)
    np.testing.assert_allclose(phi(x, 0), constant * bumps, rtol=1e-10, atol=1e-300)


@given(st.integers(2, 12), st.floats(0.02, 5))
@example(2, 0.25)
@example(2, 0.7071)
@example(2, 1.0)
@example(3, 0.125)
@example(4, 5.0)
def test_the_largest_sum_of_squares(side, width):
    dense = np.linspace(0, 1, 20_001)[:, None]
    found = np.exp(-(((dense - np.linspace(0, 1, side)) / width) ** 2)).sum(axis=1).max()
    assert found * (1 - 1e-12) <= largest_sum(side, width) <= found + 1.3e-4


def test_extreme_widths():
    assert largest_sum(5, 1e-9) == 1
    assert largest_sum(5, 1e9) == pytest.approx(5, rel=1e-12)
    assert largest_sum(100_000, 1e-5) == pytest.approx(largest_sum(100, 1 / 99 * 0.99999), rel=1e-3)


def test_the_usual_width_is_the_distance_of_the_centres():
    frame = Frame((0.0,), (1.0,))
    x = np.array([0.3])
    np.testing.assert_array_equal(build("rbf5", frame)(x, 0), build("rbf5:width=0.25", frame)(x, 0))
    assert build("rbf5:width=0.25", frame).name == "rbf5"
    assert build("rbf5:width=0.3", frame).name == "rbf5:width=0.3"


def test_names_are_centres_in_the_frames_own_coordinates():
    assert build("rbf2", Frame((-1.0, 3.0, 0.0), (1.0, 3.0, 10.0), names=("a", "b", "c"))).names == (
        *("bump at a=-1, c=0", "bump at a=-1, c=10", "bump at a=1, c=0", "bump at a=1, c=10"),
    )
    assert build("rbf1", Frame((0.0,), (1.0,))).names == ("bump at x0=0.5",)
