"""What holds for every built-in map: norms, names, batches, seeds, pickles."""

from __future__ import annotations

import doctest
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from feature_frames import SPECS, frames, grid, points
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorplan.features
from tensorplan.core.errors import BadInput, ProblemError
from tensorplan.features import FeatureMap, Frame, build

PLANE = Frame((-1.0, 0.0), (3.0, 0.5), horizon=4)


@settings(max_examples=400)
@given(st.data())
def test_norms_are_at_most_one(data):
    frame = data.draw(frames())
    phi = build(data.draw(st.sampled_from(SPECS)), frame, seed=data.draw(st.integers(0, 99)))
    value = phi(data.draw(points(frame)), data.draw(st.integers(0, 4)))
    assert value.shape == (phi.dimension,)
    assert value.dtype == np.float64
    assert np.linalg.norm(value) <= 1 + 1e-12


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "+" not in spec])
def test_norms_come_close_to_one(spec):
    frame = Frame((0.0, 0.0), (1.0, 1.0), horizon=4)
    norms = np.linalg.norm(build(spec, frame).many(grid(frame, 41), 0), axis=1)
    assert norms.max() > 0.999


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("guessed", [(), (1,)])
def test_outside_of_a_frame_there_are_no_features(spec, guessed):
    phi = build(spec, replace(PLANE, guessed=guessed))
    for call in (lambda x: phi(x, 1), lambda x: phi.many(np.array([[0.0, 0.0], x]), 1)):
        for x in ([3.1, 0.2], [np.inf, 0.2], [-1.01, 0.2], [0.0, np.inf]):
            with pytest.raises(ProblemError, match=r"^x[01] = \S+ at the point .* is outside of \[.*\].* give "):
                call(np.array(x))


@pytest.mark.parametrize("spec", SPECS)
def test_beyond_a_guess_only_what_is_defined_everywhere_goes_on(spec):
    """One formula, and norms of at most 1; the others would need a clipped point, or a cell that there is not."""
    phi = build(spec, replace(PLANE, guessed=(0,)))
    x = np.array([3.0 + 9.0, 0.2])
    if re.fullmatch(r"(rbf|rff)[^+]*", spec):
        value, near = phi(x, 1), phi(np.array([3.0, 0.2]), 1)
        assert np.linalg.norm(value) <= 1 + 1e-12
        assert not np.array_equal(value, near)
        np.testing.assert_allclose(phi.many(np.array([x, x]), 1), [value, value], atol=1e-14)
        wide = np.random.default_rng(0).uniform(-30, 30, (500, 1))
        norms = np.linalg.norm(phi.many(np.column_stack((wide, np.full(500, 0.1))), 1), axis=1)
        assert norms.max() <= 1 + 1e-12
        return
    with pytest.raises(ProblemError, match=r"is outside of \[-1, 3\], an estimate from random play: give frame="):
        phi(x, 1)


@settings(max_examples=100)
@given(st.data())
def test_many_is_a_stack_of_calls(data):
    frame = data.draw(frames())
    phi = build(data.draw(st.sampled_from(SPECS)), frame)
    batch = np.array(data.draw(st.lists(points(frame), min_size=1, max_size=5)))
    stages = data.draw(st.lists(st.integers(0, 4), min_size=len(batch), max_size=len(batch)))
    single = np.array([phi(x, stage) for x, stage in zip(batch, stages, strict=True)])
    np.testing.assert_allclose(phi.many(batch, stages), single, rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(phi.many(batch, 2), phi.many(batch, np.full(len(batch), 2)))


@pytest.mark.parametrize("spec", SPECS)
def test_no_points_give_no_rows(spec):
    phi = build(spec, PLANE)
    assert phi.many(np.empty((0, 2)), []).shape == (0, phi.dimension)


@settings(max_examples=100)
@given(st.data())
def test_the_name_builds_the_same_map(data):
    frame, seed = data.draw(frames()), data.draw(st.integers(0, 3))
    phi = build(data.draw(st.sampled_from(SPECS)), frame, seed=seed)
    again = build(phi.name, frame, seed=seed)
    assert (again.name, again.names, type(again)) == (phi.name, phi.names, type(phi))
    x = data.draw(points(frame))
    np.testing.assert_array_equal(again(x, 3), phi(x, 3))


@pytest.mark.parametrize("spec", SPECS)
def test_names_are_one_per_feature_and_repr_is_one_line(spec):
    phi = build(spec, PLANE)
    assert isinstance(phi, FeatureMap)
    assert len(phi.names) == phi.dimension
    assert "+" in spec or len(set(phi.names)) == phi.dimension
    assert repr(phi) == f"<features {phi.name}: dimension {phi.dimension}>"


@pytest.mark.parametrize("spec", SPECS)
def test_maps_can_be_sent_to_other_processes(spec):
    phi = build(spec, PLANE, seed=3)
    x = np.array([0.3, 0.2])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(phi))(x, 2), phi(x, 2))


@pytest.mark.parametrize("spec", ["rff9", "poly1+rff9:width=0.5@time"])
def test_seeds_reproduce_to_the_bit_whatever_the_global_seed(spec):
    x = np.array([0.3, 0.2])
    np.random.seed(1)
    first = build(spec, PLANE, seed=7)(x, 1)
    np.random.seed(2)
    np.testing.assert_array_equal(build(spec, PLANE, seed=7)(x, 1), first)
    assert not np.array_equal(build(spec, PLANE, seed=8)(x, 1), first)


def test_results_are_fresh_arrays():
    phi, x = build("poly2+onehot", Frame((0,), (3,), whole=True)), np.array([2.0])
    first = phi(x, 0)
    kept = first.copy()
    first[:] = 0
    np.testing.assert_array_equal(phi(x, 0), kept)


@pytest.mark.parametrize("spec", ["poly2", "tiles3x2", "aggregate3", "poly2@time"])
@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros(()), np.zeros((1, 2)), "no", None])
def test_points_of_the_wrong_shape_are_refused(spec, wrong):
    phi = build(spec, PLANE)
    with pytest.raises(BadInput, match=rf"^'{spec}' takes points of 2 numbers, got "):
        phi(wrong, 0)
    with pytest.raises(BadInput, match=rf"^'{spec}' takes points of 2 numbers, got shape \(2,\)$"):
        phi.many(np.zeros(2), 0)


@pytest.mark.parametrize("spec", SPECS)
def test_not_a_number_is_refused(spec):
    with pytest.raises(ProblemError, match=r"has a coordinate that is not a number$"):
        build(spec, PLANE)(np.array([np.nan, 0.0]), 0)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "@" not in spec])
def test_a_frame_where_nothing_varies(spec):
    phi = build(spec, Frame((1.0, 2.0), (1.0, 2.0)))
    value = phi(np.array([1.0, 2.0]), 0)
    assert len(phi.names) == phi.dimension == len(value)
    assert np.linalg.norm(value) == pytest.approx(1)


def test_the_example_in_the_documentation():
    results = doctest.testmod(tensorplan.features)
    assert results.attempted > 3
    assert results.failed == 0
