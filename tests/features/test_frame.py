"""Frames: scaling to the unit box, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from feature_frames import frames, points, unit
from hypothesis import given
from hypothesis import strategies as st

from tensorplan.core.errors import BadInput, ProblemError
from tensorplan.features import Frame


@given(st.data())
def test_points_are_scaled(data):
    frame = data.draw(frames())
    x = data.draw(points(frame))
    scaled = frame.unit(x)
    assert ((scaled >= 0) & (scaled <= 1)).all()
    np.testing.assert_array_equal(scaled, unit(frame, x))


def test_ends_are_exactly_zero_and_one():
    frame = Frame((0.1, -0.7, 3.0), (0.3, 1e9, 3.1))
    np.testing.assert_array_equal(frame.unit(np.array([frame.low, frame.high])), [[0, 0, 0], [1, 1, 1]])


def test_constant_coordinates_are_left_out():
    frame = Frame((0.0, 5.0, 2.0), (1.0, 5.0, 4.0), names=("a", "b", "c"))
    assert frame.varying == (0, 2)
    assert frame.varying_names == ("a", "c")
    np.testing.assert_array_equal(frame.unit(np.array([0.5, 5.0, 3.0])), [0.5, 0.5])
    np.testing.assert_array_equal(frame.unit(np.array([0.5, np.nextafter(np.float32(5), 9), 3.0])), [0.5, 0.5])


@pytest.mark.parametrize(
    ("low", "high", "whole", "x", "rounded"),
    [
        (0.0, 1.0, False, 1 + 9e-7, True),
        (0.0, 1.0, False, 1 + 2e-6, False),
        (0.0, 1.0, False, -2e-6, False),
        (1000.0, 1000.001, False, float(np.nextafter(np.float32(1000.001), np.float32(2000))), True),
        (0, 10**8, True, 10**8 + 1, False),  # the next whole number is no rounding, however large the frame
        (0, 10**8, True, 10**8 + 1e-7, True),
        (5.0, 5.0, False, 5.1, False),
        (0.0, 0.0, False, 1e-5, False),
        (7, 7, True, 8, False),
        (0.0, 1.0, False, -np.inf, False),
    ],
)
def test_only_rounding_is_forgiven(low, high, whole, x, rounded):
    frame = Frame((low,), (high,), whole=whole, names=("speed",))
    if rounded:
        assert frame.unit(np.array([x])) == 1
        return
    with pytest.raises(ProblemError) as info:
        frame.unit(np.array([[low], [x]]))
    ends = f"[{float(low):.9g}, {float(high):.9g}]"
    assert f"speed = {x:.9g} at the point [" in str(info.value)
    assert str(info.value).endswith(
        f" is outside of {ends}: declare a larger space, or give a larger frame=(low, high)"
    )


def test_time_is_a_coordinate_and_guesses_stay_guesses():
    frame = Frame((0.0, 0.0), (1.0, 2.0), horizon=5, guessed=(1,)).timed(5)
    assert (frame.size, frame.guessed) == (3, (1,))


def test_whole_frames_count_their_points():
    frame = Frame((0, -2, 7), (4, 2, 7), whole=True)
    assert frame.counts == (5, 5, 1)
    assert frame.cells == 25
    assert Frame((0,) * 40, (9,) * 40, whole=True).cells == 10**40
    with pytest.raises(BadInput, match=r"^the values of a continuous frame cannot be counted$"):
        _ = Frame((0.0,), (1.0,)).counts


def test_the_middle_is_a_point_of_the_frame():
    np.testing.assert_array_equal(Frame((0.0, -1.0), (1.0, -1.0)).middle, [0.5, -1.0])
    np.testing.assert_array_equal(Frame((0, -3), (3, 0), whole=True).middle, [1, -2])


def test_numbers_become_floats_and_names_are_given():
    frame = Frame(np.array([0, 1]), [np.float32(2), 3])
    assert frame == Frame((0.0, 1.0), (2.0, 3.0), names=("x0", "x1"))
    assert hash(frame) == hash(Frame((0.0, 1.0), (2.0, 3.0)))
    assert all(type(v) is float for v in (*frame.low, *frame.high))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"low": (), "high": ()}, "a frame needs as many low as high ends, got 0 and 0"),
        ({"low": (0,), "high": (1, 2)}, "a frame needs as many low as high ends, got 1 and 2"),
        ({"low": 0, "high": 1}, "low of a frame must be a sequence of numbers, got 0"),
        ({"low": (0,), "high": ("b",)}, "high of a frame must be a sequence of numbers, got ('b',)"),
        ({"low": (1,), "high": (0,)}, "the frame of x0 must have finite ends low <= high, got 1 and 0"),
        ({"low": (0, 0), "high": (1, np.inf)}, "the frame of x1 must have finite ends low <= high, got 0 and inf"),
        ({"low": (np.nan,), "high": (0,)}, "the frame of x0 must have finite ends low <= high, got nan and 0"),
        (
            {"low": (-1.7e308,), "high": (1.7e308,)},
            "the frame of x0 must have finite ends low <= high, got -1.7e+308 and 1.7e+308",
        ),
        (
            {"low": (0,), "high": (1.5,), "whole": True, "names": ("speed",)},
            "the frame of speed must end at whole numbers up to 2^53, got 0 and 1.5",
        ),
        (
            {"low": (0,), "high": (2.0**60,), "whole": True},
            "the frame of x0 must end at whole numbers up to 2^53, got 0 and 1.15292e+18",
        ),
        ({"low": (0,), "high": (1,), "whole": "yes"}, "whole must be true or false, got 'yes'"),
        ({"low": (0,), "high": (1,), "names": "x"}, "a frame of 1 coordinates needs as many names, got 'x'"),
        (
            {"low": (0,), "high": (1,), "names": ("a", "b")},
            "a frame of 1 coordinates needs as many names, got ('a', 'b')",
        ),
        ({"low": (0,), "high": (1,), "horizon": 0}, "horizon must be a whole number >= 1, got 0"),
    ],
)
def test_bad_frames_are_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(BadInput) as info:
        Frame(**arguments)
    assert str(info.value) == sentence


def test_a_point_that_is_not_a_number_is_named():
    frame = Frame((0.0, 0.0), (1.0, 1.0))
    with pytest.raises(ProblemError) as info:
        frame.unit(np.array([[0.0, 1.0], [0.5, np.nan]]))
    assert str(info.value) == "the point [0.5 nan] has a coordinate that is not a number"
