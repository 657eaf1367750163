"""Specs as people type them, and one sentence for each that cannot be used."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorplan.core.errors import BadInput
from tensorplan.features import FAMILIES, Frame, build

PLANE = Frame((-1.0, 0.0), (3.0, 0.5))
WIDE = Frame((0.0,) * 10, (1.0,) * 10, horizon=100)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_examples_work(family):
    frame = Frame((0, 0), (9, 9), whole=True)
    example = FAMILIES[family].example
    assert example.startswith(family)
    assert build(example, frame).name == ("poly1" if family == "linear" else example)


@pytest.mark.parametrize(
    ("spec", "dimension"),
    [
        ("onehot", 100),
        ("poly3", 10),
        ("fourier3", 16),
        ("fourier3:coupled=false", 7),
        ("tiles8x4", 256),
        ("rbf5", 25),
        ("rff100", 100),
        ("aggregate4", 16),
        ("linear", 3),
        ("poly2+rff10", 16),
        ("poly2@stage", 42),
        ("poly2@time", 10),
        ("poly2@stage+poly2@time", 52),
    ],
)
def test_dimensions(spec, dimension):
    phi = build(spec, Frame((0, 0), (9, 9), whole=True, horizon=7))
    assert phi.dimension == dimension == len(phi(np.zeros(2), 0)) == len(phi.names)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("  poly2 ", "poly2"),
        ("poly2 + rbf3 : width = 0.2", "poly2+rbf3:width=0.2"),
        ("rbf3:width=2e+1+poly0", "rbf3:width=20.0+poly0"),
        ("rff4:width=1e+20", "rff4:width=1e+20"),
        ("rff4:width=1e-05", "rff4:width=1e-05"),
        ("fourier2:coupled=true", "fourier2"),
        ("fourier2:coupled=False", "fourier2:coupled=false"),
        ("poly02", "poly2"),
    ],
)
def test_what_is_typed_is_understood(typed, name):
    assert build(typed, PLANE).name == name
    assert build(name, PLANE).name == name


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("polly2", "unknown feature map 'polly'; did you mean 'poly'?"),
        ("tile8x4", "unknown feature map 'tile'; did you mean 'tiles'?"),
        (
            "xyz",
            "unknown feature map 'xyz'; there are: aggregate, fourier, linear, onehot, poly, rbf, rff, tiles",
        ),
        ("2", "unknown feature map ''; there are: aggregate, fourier, linear, onehot, poly, rbf, rff, tiles"),
        ("poly", "'poly' has the wrong size: write it as in 'poly2'"),
        ("poly/2", "'poly/2' has the wrong size: write it as in 'poly2'"),
        ("poly-1", "'poly-1' has the wrong size: write it as in 'poly2'"),
        ("poly2.5", "'poly2.5' has the wrong size: write it as in 'poly2'"),
        ("poly9999999999", "'poly9999999999' has the wrong size: write it as in 'poly2'"),
        ("tiles8", "'tiles8' has the wrong size: write it as in 'tiles8x4'"),
        ("tiles8x4x2", "'tiles8x4x2' has the wrong size: write it as in 'tiles8x4'"),
        ("tiles8x", "'tiles8x' has the wrong size: write it as in 'tiles8x4'"),
        ("onehot3", "'onehot3' has the wrong size: write it as in 'onehot'"),
        ("linear2", "'linear2' has the wrong size: write it as in 'linear'"),
        ("rbf0", "the size of 'rbf0' must be a whole number >= 1, got 0"),
        ("tiles4x0", "the size of 'tiles4x0' must be a whole number >= 1, got 0"),
        ("fourier0", "the size of 'fourier0' must be a whole number >= 1, got 0"),
        ("", "'' has an empty part: join maps with '+' as in 'poly2+tiles8x4'"),
        ("poly2+", "'poly2+' has an empty part: join maps with '+' as in 'poly2+tiles8x4'"),
        ("poly2:", "'poly2:': expected key=value after ':', got ''"),
        ("rbf5:width", "'rbf5:width': expected key=value after ':', got 'width'"),
        ("rbf5:wide=1", "'rbf5' has no parameter 'wide'; did you mean 'width'?"),
        ("rff5:seed=1", "'rff5' has no parameter 'seed'; there are: width"),
        ("rff5:frame=1", "'rff5' has no parameter 'frame'; there are: width"),
        ("poly2:degree=3", "'poly2' takes no options, got 'degree'"),
        ("linear:degree=3", "'linear' takes no options, got 'degree'"),
        ("rbf5:width=0", "width must be a number >= 1e-09, got 0"),
        ("rff5:width=broad", "width must be a number >= 1e-09, got 'broad'"),
        ("fourier2:coupled=maybe", "coupled must be true or false, got 'maybe'"),
        ("poly2@stage", "'poly2@stage' needs a problem with a horizon"),
        ("poly2@time", "'poly2@time' needs a problem with a horizon"),
        ("poly2@space", "'poly2@space': '@stage' or '@time' comes last in a map, got '@space'"),
        ("poly2@", "'poly2@': '@stage' or '@time' comes last in a map, got '@'"),
        (
            "fourier2@time:coupled=false",
            "'fourier2@time:coupled=false': '@stage' or '@time' comes last in a map, got '@time:coupled=false'",
        ),
        ("poly2+time", "'time' is not a feature map: append it to one, as in 'poly2@time'"),
        ("stage", "'stage' is not a feature map: append it to one, as in 'poly2@stage'"),
    ],
)
def test_bad_specs_are_refused_in_one_sentence(spec, sentence):
    with pytest.raises(BadInput) as info:
        build(spec, PLANE)
    assert str(info.value) == sentence


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("rbf5", "'rbf5' would have 9,765,625 features here, more than 1,000,000"),
        ("tiles4x8", "'tiles4x8' would have 8,388,608 features here, more than 1,000,000"),
        ("aggregate50", "'aggregate50' would have about 10^17 features here, more than 1,000,000"),
        ("poly30", f"'poly30' would have {math.comb(40, 10):,} features here, more than 1,000,000"),
        ("rff1000001", "'rff1000001' would have 1,000,001 features here, more than 1,000,000"),
        ("aggregate3@stage", "'aggregate3@stage' would have 5,904,900 features here, more than 1,000,000"),
        (
            "fourier999999:coupled=false",
            "'fourier999999:coupled=false' would have 9,999,991 features here, more than 1,000,000",
        ),
    ],
)
def test_too_many_features_are_refused_with_their_number(spec, sentence):
    with pytest.raises(BadInput) as info:
        build(spec, WIDE)
    assert str(info.value) == sentence


def test_the_limit_holds_for_what_is_joined():
    with pytest.raises(
        BadInput, match=r"^'rff600000\+rff600000' would have 1,200,000 features here, more than 1,000,000$"
    ):
        build("rff600000+rff600000", PLANE)


def test_a_spec_is_a_text_and_a_seed_a_number():
    with pytest.raises(BadInput, match=r"^a feature spec is a string such as 'poly2', got 3$"):
        build(3, PLANE)
    with pytest.raises(BadInput, match=r"^seed must be a whole number >= 0, got -1$"):
        build("poly2", PLANE, seed=-1)


def test_the_largest_map_is_built():
    phi = build("poly1", Frame((0.0,) * 999_999, (1.0,) * 999_999))
    assert np.linalg.norm(phi(np.ones(999_999), 0)) == pytest.approx(1, abs=1e-12)
