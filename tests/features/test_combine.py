"""Maps side by side, one block for each stage, and time as a coordinate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from feature_frames import frames, points, unit
from hypothesis import given
from hypothesis import strategies as st

from tensorplan.core.errors import BadInput
from tensorplan.features import Frame, build, compose

LINE = Frame((0.0,), (4.0,), names=("x",), horizon=5)
WHOLE = Frame((0,), (2,), whole=True, horizon=3)


@given(st.data())
def test_parts_are_side_by_side_over_the_root_of_their_number(data):
    frame = data.draw(frames())
    specs = data.draw(st.lists(st.sampled_from(["poly2", "tiles2x3@stage", "rbf2@time"]), min_size=2, max_size=4))
    x, stage = data.draw(points(frame)), data.draw(st.integers(0, 4))
    expected = np.concatenate([build(spec, frame)(x, stage) for spec in specs]) / math.sqrt(len(specs))
    np.testing.assert_allclose(build("+".join(specs), frame)(x, stage), expected, rtol=1e-15)


def test_parts_of_parts_are_parts():
    flat = build("poly1+aggregate2+rbf2", LINE)
    nested = compose(build("poly1+aggregate2", LINE), build("rbf2", LINE))
    assert nested.name == flat.name
    assert nested.names == flat.names == (*build("poly1", LINE).names, *build("aggregate2+rbf2", LINE).names)
    np.testing.assert_array_equal(nested(np.array([1.7]), 0), flat(np.array([1.7]), 0))
    assert compose(build("poly1", LINE)).name == "poly1"


@given(st.data())
def test_each_stage_has_its_own_block(data):
    frame = data.draw(frames(horizon=4))
    inner, phi = build("poly2", frame), build("poly2@stage", frame)
    x, stage = data.draw(points(frame)), data.draw(st.integers(0, 3))
    blocks = phi(x, stage).reshape(4, -1)
    np.testing.assert_array_equal(blocks[stage], inner(x, 0))
    assert not np.delete(blocks, stage, axis=0).any()
    assert phi.names[inner.dimension] == "stage 1: 1"


@pytest.mark.parametrize("stage", [-1, 5, 77])
def test_stages_out_of_the_horizon_have_no_block(stage):
    phi = build("poly1@stage", LINE)
    sentence = f"'poly1@stage' has features for the stages 0 to 4, got stage {stage}"
    with pytest.raises(BadInput, match=f"^{sentence}$"):
        phi(np.zeros(1), stage)
    with pytest.raises(BadInput, match=f"^{sentence}$"):
        phi.many(np.zeros((2, 1)), [0, stage])


@pytest.mark.parametrize("frame", [LINE, WHOLE], ids=["continuous", "whole"])
def test_time_is_the_stage_over_the_horizon(frame):
    for stage in range(frame.horizon):
        x = np.array([1.0])
        u, t = unit(frame, x)[0], stage / frame.horizon
        expected = np.array([1, 2 * u - 1, 2 * t - 1]) / math.sqrt(3)
        np.testing.assert_allclose(build("poly1@time", frame)(x, stage), expected, rtol=1e-15, atol=1e-16)
        expected = [math.cos(math.pi * (a * u + b * t)) / 2 for a in (0, 1) for b in (0, 1)]
        np.testing.assert_allclose(build("fourier1@time", frame)(x, stage), expected, atol=1e-15)


def test_names_with_time():
    assert build("poly2@time", LINE).names == ("1", "x", "time", "x^2", "x*time", "time^2")


def test_onehot_with_time_is_onehot_for_each_stage():
    a, b = build("onehot@time", WHOLE), build("onehot@stage", WHOLE)
    assert a.dimension == b.dimension == 9
    rows = [[phi(np.array([x]), h) for x in range(3) for h in range(3)] for phi in (a, b)]
    np.testing.assert_array_equal(rows[0], np.eye(9))
    np.testing.assert_array_equal(np.array(rows[1])[:, [h * 3 + x for x in range(3) for h in range(3)]], np.eye(9))


def test_stages_are_aggregated_in_equal_numbers():
    frame = Frame((0.0,), (1.0,), horizon=6)
    cells = [int(build("aggregate3@time", frame)(np.array([0.0]), h).argmax()) for h in range(6)]
    assert cells == [0, 0, 1, 1, 2, 2]


def test_a_map_at_every_stage_realizes_what_one_for_all_cannot():
    x = np.array([[0.0], [1.0], [2.0]])
    stages, targets = np.repeat([0, 1], 3), np.array([0.0, 1, 2, 2, 1, 0])
    frame = Frame((0.0,), (2.0,), horizon=2)
    for spec, realizes in [("poly1", False), ("poly1@stage", True), ("poly1@time", False), ("poly2@time", True)]:
        rows = build(spec, frame).many(np.concatenate([x, x]), stages)
        theta = np.linalg.lstsq(rows, targets, rcond=None)[0]
        missed = np.abs(rows @ theta - targets).max()
        assert missed < 1e-12 if realizes else missed > 0.9
