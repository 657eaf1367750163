"""Tile coding against tilings drawn here as lists of edges."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from feature_frames import frames, grid, points
from hypothesis import given
from hypothesis import strategies as st

from tensorplan.features import Frame, build
from tensorplan.features.families.tiles import displacement


def edges(side, tilings, tiling, odd):
    """Where the tiles of a coordinate end in [0, 1], (side + 1,), the first and last end on or outside of it."""
    width = 1 / (side - (tilings - 1) / tilings)
    shift = tiling * odd % tilings / tilings * width
    return np.arange(side + 1) * width - shift


@pytest.mark.parametrize(("side", "tilings"), [(1, 1), (4, 1), (1, 4), (8, 4), (3, 8), (5, 3), (2, 6)])
def test_k_tiles_a_side_cover_the_frame_and_none_lies_outside(side, tilings):
    for tiling in range(tilings):
        ends = edges(side, tilings, tiling, 1)
        assert ends[0] <= 0
        assert ends[-1] >= 1 - 1e-12
        assert ends[1] > 0
        assert ends[-2] < 1


@pytest.mark.parametrize(("side", "tilings"), [(4, 1), (1, 4), (8, 4), (3, 8), (5, 3), (2, 6)])
def test_the_active_tiles_are_those_between_the_edges(side, tilings):
    phi = build(f"tiles{side}x{tilings}", Frame((0.0, 0.0), (1.0, 1.0)))
    odds = [1, next(odd for odd in range(3, 99, 2) if math.gcd(odd, tilings) == 1)]
    for x in np.random.default_rng(0).random((100, 2)):
        active = []
        for tiling in range(tilings):
            at = [
                [low <= v < high for low, high in pairwise(edges(side, tilings, tiling, odd))].index(True)
                for v, odd in zip(x, odds, strict=True)
            ]
            active.append(tiling * side**2 + at[0] * side + at[1])
        expected = np.zeros(phi.dimension)
        expected[active] = 1 / math.sqrt(tilings)
        np.testing.assert_array_equal(phi(x, 0), expected)


@given(st.data())
def test_every_point_is_in_exactly_one_tile_of_each_tiling(data):
    frame = data.draw(frames())
    side, tilings = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9))
    value = build(f"tiles{side}x{tilings}", frame)(data.draw(points(frame)), 0).reshape(tilings, -1)
    assert ((value > 0).sum(axis=1) == 1).all()
    np.testing.assert_array_equal(value[value > 0], 1 / math.sqrt(tilings))


@pytest.mark.parametrize("spec", ["tiles4x1", "tiles1x4", "tiles3x4", "tiles2x6", "tiles4x8"])
def test_every_tile_is_reached(spec):
    frame = Frame((0.0, 0.0), (1.0, 1.0))
    assert (build(spec, frame).many(grid(frame, 201), 0) > 0).any(axis=0).all()


@given(st.integers(-1000, 1000), st.integers(-3, 3), st.data())
def test_moving_and_stretching_frame_and_points_together_changes_nothing(shift, power, data):
    stretch = 2.0**power
    x = np.array(data.draw(st.lists(st.integers(0, 64), min_size=2, max_size=2))) / 64
    here = Frame((0.0, 0.0), (1.0, 1.0))
    there = Frame((shift * stretch,) * 2, ((shift + 1) * stretch,) * 2)
    moved = (x + shift) * stretch  # without rounding
    for spec in ("tiles3x4", "tiles4x4@time", "rbf3", "poly2", "aggregate5"):
        frames_of = [Frame(f.low, f.high, horizon=3) for f in (here, there)]
        np.testing.assert_array_equal(*(build(spec, f)(y, 1) for f, y in zip(frames_of, (x, moved), strict=True)))


def test_near_points_share_tiles_and_far_ones_do_not():
    phi = build("tiles4x16", Frame((0.0, 0.0), (1.0, 1.0)))
    x = np.array([0.5, 0.5])
    shared = [phi(x, 0) @ phi(x + step, 0) for step in (0.0, 0.02, 0.1, 0.2, 0.4)]
    assert shared[0] == pytest.approx(1)
    assert all(a > b for a, b in pairwise(shared))
    assert shared[-1] == 0


@pytest.mark.parametrize(
    ("k", "tilings", "odds"),
    [(4, 8, (1, 3, 5, 7)), (3, 1, (1, 3, 5)), (3, 3, (1, 5, 7)), (3, 15, (1, 7, 11)), (0, 4, ())],
)
def test_displacements_are_odd_and_shift_every_coordinate(k, tilings, odds):
    assert displacement(k, tilings) == odds
    for odd in odds:
        assert len({t * odd % tilings for t in range(tilings)}) == tilings


def test_one_tiling_is_aggregation():
    frame = Frame((-3.0, 0.0), (5.0, 0.1))
    x = np.random.default_rng(0).uniform(frame.low, frame.high, (200, 2))
    np.testing.assert_array_equal(build("tiles5x1", frame).many(x, 0), build("aggregate5", frame).many(x, 0))


def test_names():
    names = build("tiles2x3", Frame((0.0, 0.0), (1.0, 1.0))).names
    assert (names[0], names[5], names[11]) == (
        "tile 1 of 4, tiling 1 of 3",
        "tile 2 of 4, tiling 2 of 3",
        "tile 4 of 4, tiling 3 of 3",
    )
