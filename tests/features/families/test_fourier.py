"""The cosine basis against its formula, random Fourier features against the kernel they approximate."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from feature_frames import frames, points, unit
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF

from tensorplan.core.errors import BadInput
from tensorplan.features import Frame, build

SQUARE = Frame((0.0, -1.0), (2.0, 1.0))


@given(st.data())
def test_coupled_cosines(data):
    frame, order = data.draw(frames()), data.draw(st.integers(1, 4))
    x = data.draw(points(frame))
    u = unit(frame, x)
    expected = [math.cos(math.pi * sum(a * b for a, b in zip(c, u, strict=True)))
                for c in product(range(order + 1), repeat=len(u))]  # fmt: skip
    phi = build(f"fourier{order}", frame)
    assert phi.dimension == (order + 1) ** len(u)
    np.testing.assert_allclose(phi(x, 0) * math.sqrt(phi.dimension), expected, atol=1e-13)


@given(st.data())
def test_uncoupled_cosines(data):
    frame, order = data.draw(frames()), data.draw(st.integers(1, 6))
    x = data.draw(points(frame))
    expected = [1.0, *(math.cos(math.pi * c * v) for v in unit(frame, x) for c in range(1, order + 1))]
    phi = build(f"fourier{order}:coupled=false", frame)
    np.testing.assert_allclose(phi(x, 0) * math.sqrt(len(expected)), expected, atol=1e-13)


def test_names_of_cosines():
    assert build("fourier2", Frame((0.0, 0.0), (1.0, 1.0), names=("a", "b"))).names == (
        *("1", "cos(pi*b)", "cos(pi*2*b)", "cos(pi*a)", "cos(pi*(a+b))", "cos(pi*(a+2*b))"),
        *("cos(pi*2*a)", "cos(pi*(2*a+b))", "cos(pi*(2*a+2*b))"),
    )
    assert build("fourier2:coupled=false", SQUARE).names == (
        "1",
        "cos(pi*x0)",
        "cos(pi*2*x0)",
        "cos(pi*x1)",
        "cos(pi*2*x1)",
    )


def test_too_many_cosines_are_refused_with_their_number():
    wide = Frame((0.0,) * 10, (1.0,) * 10)
    with pytest.raises(BadInput) as info:
        build("fourier3", wide)
    assert str(info.value) == "'fourier3' would have 1,048,576 features here, more than 100,000: coupled=false has 31"
    assert build("fourier3:coupled=false", wide).dimension == 31
    with pytest.raises(BadInput, match=r"^'fourier1' would have about 10\^6372 features here, more than 100,000: "):
        build("fourier1", Frame((0.0,) * 21168, (1.0,) * 21168))
    assert build("fourier3:coupled=false", Frame((0.0,) * 21168, (1.0,) * 21168)).dimension == 63505


@pytest.mark.parametrize("count", [20_000, 19_999])
@pytest.mark.parametrize("width", [0.2, 1.0])
def test_inner_products_are_near_the_gaussian_kernel(count, width):
    # the mean of 10,000 cosines is off by more than 0.045 with probability 2 exp(-10000 * 0.045^2 / 2) = 8e-5 a pair at
    # most, and the seed is fixed; with a kernel of twice the width some pair is off by more than 0.1
    u = np.random.default_rng(0).random((12, 2))
    phi = build(f"rff{count}:width={width}", SQUARE, seed=1)
    rows = phi.many(u * 2 - [0, 1], 0)
    np.testing.assert_allclose(rows @ rows.T, RBF(width)(u), atol=0.045)
    assert np.abs(rows @ rows.T - RBF(2 * width)(u)).max() > 0.1


def test_frequencies_are_gaussian_with_the_inverse_width():
    phi = build("rff20000:width=0.5", SQUARE)
    # cos and sin at two points tell the angles apart where they are small: at distance 1e-3 they are below 1 for all
    step = phi.many(np.array([[1e-3 * 2, -1.0], [0.0, -1.0]]), 0)
    angles = np.arctan2(step[0, 10_000:], step[0, :10_000]) / 1e-3
    assert angles.mean() == pytest.approx(0, abs=0.1)  # five standard errors of 2/100
    assert angles.std() == pytest.approx(2, abs=0.08)  # likewise, 2/sqrt(20000)
    assert (np.abs(angles) > 4).mean() == pytest.approx(0.0455, abs=0.011)


@pytest.mark.parametrize("count", [2, 8, 100])
def test_the_norm_of_an_even_number_is_one_everywhere(count):
    rows = build(f"rff{count}", replace(SQUARE, guessed=(0, 1))).many(
        np.random.default_rng(0).uniform(-3, 3, (50, 2)), 0
    )
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-14)


def test_the_usual_width_is_left_out_of_the_name():
    assert build("rff4:width=0.25", Frame((0.0,), (1.0,))).name == "rff4"
    assert build("rff4:width=0.25", SQUARE).name == "rff4:width=0.25"
    assert build("rff4:width=0.5", Frame((0.0,) * 4, (1.0,) * 4)).name == "rff4"
    assert build("rff3", SQUARE).names == ("cos 1 of 2", "cos 2 of 2", "sin 1 of 2")


def test_random_maps_at_different_places_differ_and_the_first_is_as_if_alone():
    x = np.array([0.7, 0.1])
    both = build("rff6+rff6", SQUARE, seed=5)(x, 0) * math.sqrt(2)
    np.testing.assert_allclose(both[:6], build("rff6", SQUARE, seed=5)(x, 0), rtol=1e-15)
    assert np.abs(both[6:] - both[:6]).max() > 0.01


def test_too_many_frequencies_are_refused():
    with pytest.raises(BadInput) as info:
        build("rff20000", Frame((0.0,) * 21168, (1.0,) * 21168))
    assert str(info.value) == "'rff20000' would need 21,168 x 10,000 frequencies here, more than 100,000,000"
