"""One-hot and aggregated features: a bijection, and cells of equal size."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from feature_frames import frames
from hypothesis import given
from hypothesis import strategies as st

from tensorplan.core.errors import BadInput
from tensorplan.features import Frame, build


def every(frame):
    """All points of a whole frame, in lexical order, (cells, n)."""
    return np.array(list(product(*(range(int(a), int(b) + 1) for a, b in zip(frame.low, frame.high, strict=True)))))


@given(frames(whole=True))
def test_onehot_is_a_bijection_in_lexical_order(frame):
    phi = build("onehot", frame)
    assert phi.dimension == frame.cells
    np.testing.assert_array_equal(phi.many(every(frame), 0), np.eye(frame.cells))


@given(frames(whole=True), st.integers(1, 9))
def test_parts_of_whole_frames_have_equal_numbers_of_values(frame, side):
    phi = build(f"aggregate{side}", frame)
    rows = phi.many(every(frame), 0)
    assert (np.sort(rows, axis=1)[:, -1] == 1).all()
    assert (rows.sum(axis=1) == 1).all()
    assert phi.dimension == np.prod([min(side, count) for count in frame.counts])
    assert rows.any(axis=0).all()
    if frame.size == 1:
        sizes = Counter(rows.argmax(axis=1).tolist()).values()
        assert max(sizes) - min(sizes) <= 1
        assert (np.diff(rows.argmax(axis=1)) >= 0).all()


@pytest.mark.parametrize("count", [10**6 - 1, 2**31, 2**53 - 1])
@pytest.mark.parametrize("side", [2, 7, 1000])
def test_parts_of_huge_frames_change_where_they_should(count, side):
    phi = build(f"aggregate{side}", Frame((0,), (count - 1,), whole=True))
    for part in (1, side // 2, side - 1):
        first = -(-part * count // side)
        if first < 2**50:  # neighbours that scaling to [0, 1] and back keeps apart
            values = phi.many(np.array([[first - 1.0], [float(first)]]), 0)
            assert values.argmax(axis=1).tolist() == [part - 1, part]


def test_large_whole_frames_keep_their_points_apart():
    phi = build("onehot", Frame((-500_000,), (499_999,), whole=True))
    for x in (-500_000, -1, 0, 123_456, 499_999):
        assert phi(np.array([x]), 0).argmax() == x + 500_000


def test_points_of_whole_frames_are_rounded():
    phi = build("onehot", Frame((3,), (9,), whole=True))
    assert [int(phi(np.array([x]), 0).argmax()) for x in (3.0, 4.4, 4.6, 8.999999)] == [0, 1, 2, 6]


def test_cells_of_continuous_frames():
    phi = build("aggregate4", Frame((0.0, 10.0), (8.0, 20.0)))
    for x, cell in [
        ((0, 10), 0),
        ((1.99, 19.99), 3),
        ((2.0, 10), 4),
        ((7.9, 12.5), 13),
        ((8, 20), 15),
    ]:
        assert phi(np.array(x), 0).argmax() == cell


def test_names():
    assert build("onehot", Frame((2, 0, 5), (3, 1, 5), whole=True, names=("a", "b", "c"))).names == (
        *("a=2, b=0", "a=2, b=1", "a=3, b=0", "a=3, b=1"),
    )
    assert build("aggregate3", Frame((2,), (9,), whole=True)).names == ("x0 in 2..4", "x0 in 5..7", "x0 in 8..9")
    assert build("aggregate2", Frame((0.0,), (3.0,))).names == ("x0 in [0, 1.5)", "x0 in [1.5, 3]")


@given(frames(whole=True, most=1), st.integers(1, 9))
def test_names_say_which_values_are_in_a_part(frame, side):
    phi = build(f"aggregate{side}", frame)
    for x in every(frame)[:, 0] if frame.varying else ():
        name = phi.names[int(phi(np.array([x]), 0).argmax())]
        ends = name.removeprefix("x0=").removeprefix("x0 in ").split("..")
        assert int(ends[0]) <= x <= int(ends[-1])


def test_onehot_of_a_continuous_frame_is_refused():
    with pytest.raises(BadInput) as info:
        build("onehot", Frame((0.0,), (1.0,)))
    assert str(info.value) == (
        "'onehot' needs a frame of whole numbers, and this one is continuous: try aggregate8 or tiles8x4"
    )
