"""Functions and transformers that users bring, and lists of everything."""

from __future__ import annotations

import functools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler

from tensorplan.core.errors import BadInput, ProblemError
from tensorplan.features import FeatureMap, Frame, build, compose, from_callable, from_transformer, resolve

PLANE = Frame((-1.0, 0.0), (1.0, 1.0), horizon=4)
X = np.array([0.5, 0.25])
DATA = np.random.default_rng(0).uniform(PLANE.low, PLANE.high, (50, 2))


def half(x):
    return x / 2


def half_and_stage(x, stage):
    return np.array([x[0] / 2, stage / 8])


# ---------------------------------------------------------------------------------------- functions


class Method:
    def phi(self, x, stage):
        return half_and_stage(x, stage)

    def __call__(self, x):
        return half(x)


def with_own_default(x, factor=0.5):
    return factor * x


def with_stage_default(x, stage=0):
    return half_and_stage(x, stage)


def anything(*args):
    return half_and_stage(*args)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (half, [0.25, 0.125]),
        (lambda x: [[x[0] / 2], [x[1] / 2]], [0.25, 0.125]),
        (half_and_stage, [0.25, 0.375]),
        (lambda point, h: [h / 8], [0.375]),
        (Method(), [0.25, 0.125]),
        (Method().phi, [0.25, 0.375]),
        (with_own_default, [0.25, 0.125]),
        (with_stage_default, [0.25, 0.375]),
        (anything, [0.25, 0.375]),
        (functools.partial(lambda f, x: f * x, 0.5), [0.25, 0.125]),
        (np.sin, np.sin(X)),
        (lambda x: sparse.csr_array(x[None] / 2), [0.25, 0.125]),
        (lambda x: 0.3, [0.3]),
    ],
)
def test_functions_of_a_point_or_of_a_point_and_a_stage(function, expected):
    phi = resolve(function, PLANE)
    assert isinstance(phi, FeatureMap)
    np.testing.assert_allclose(phi(X, 3), expected, rtol=1e-15)
    assert phi.dimension == len(phi.names) == len(expected)
    np.testing.assert_allclose(phi.many(np.array([X, X]), [3, 3]), [expected, expected], rtol=1e-15)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda: 0, ""),
        (lambda a, b, c: 0, "a, b, c"),
        (lambda x, *, stage: 0, "x, stage"),
        (lambda **more: 0, "more"),
    ],
)
def test_other_functions_are_refused(function, arguments):
    with pytest.raises(BadInput) as info:
        resolve(function, PLANE)
    assert str(info.value) == f"the feature function 'lambda' must take (x) or (x, stage), not ({arguments})"


def test_the_dimension_is_that_of_the_first_call():
    calls = []

    def phi(x):
        calls.append(x)
        return x / 2

    found = from_callable(phi)
    with pytest.raises(BadInput) as info:
        _ = found.dimension
    assert str(info.value) == (
        "the feature function 'phi' has an unknown dimension before its first call: give dimension= or frame="
    )
    assert repr(found) == "<features phi: dimension not known yet>"
    assert calls == []
    found(X, 0)
    assert found.dimension == 2
    assert repr(found) == str(found) == "<features phi: dimension 2>"
    assert found.names == ("phi[0]", "phi[1]")
    assert from_callable(phi, dimension=2).dimension == 2
    assert len(calls) == 1


def test_the_dimension_is_found_in_the_middle_of_the_frame_if_it_is_asked_for():
    asked = []
    phi = resolve(lambda x: asked.append(x.tolist()) or [3.0, 0.0, 0.0], Frame((0, 0), (3, 3), whole=True))
    assert asked == []
    assert phi.dimension == 3  # though a norm of 3 is too large
    assert asked == [[1.0, 1.0]]


def test_points_are_handed_over_as_copies_and_not_clipped():
    seen = []

    def writes(x):
        seen.append(x.copy())
        x[:] = 0
        return x

    x = np.array([7.0, -7.0])
    resolve(writes, PLANE)(x, 0)
    np.testing.assert_array_equal(x, [7.0, -7.0])
    np.testing.assert_array_equal(seen, [[7.0, -7.0]])


def test_values_are_divided_by_the_scale():
    np.testing.assert_array_equal(resolve(half, PLANE, scale=4)(X, 0), X / 8)
    np.testing.assert_array_equal(from_callable(half, scale=4.0)(X, 0), X / 8)


@pytest.mark.parametrize(
    ("function", "scale", "sentence"),
    [
        (
            lambda x: 8 * x,
            1.0,
            "the feature function 'lambda' gave features of norm 4.47214 at x=[0.5  0.25], stage 3, which is above 1: "
            "give scale=4.47214 or more",
        ),
        (
            lambda x: [3.0, math.pi],
            2,
            "the feature function 'lambda' gave features of norm 4.34392 at x=[0.5  0.25], stage 3, which is above "
            "scale=2: give scale=4.34392 or more",
        ),
        (lambda x: [0.0, np.nan], 1.0, "the feature function 'lambda' gave nan at x=[0.5  0.25], stage 3"),
        (lambda x: [0.0, -np.inf], 1.0, "the feature function 'lambda' gave -inf at x=[0.5  0.25], stage 3"),
        (lambda x: [], 1.0, "the feature function 'lambda' gave 0 features at x=[0.5  0.25], stage 3"),
        (
            lambda x: None,
            1.0,
            "the feature function 'lambda' returned NoneType at x=[0.5  0.25], stage 3, expected an array of numbers",
        ),
        (
            lambda x: "text",
            1.0,
            "the feature function 'lambda' returned str at x=[0.5  0.25], stage 3, expected an array of numbers",
        ),
        (
            lambda x: [[1], [2, 3]],
            1.0,
            "the feature function 'lambda' returned list at x=[0.5  0.25], stage 3, expected an array of numbers",
        ),
        (
            lambda x: x[7],
            1.0,
            "the feature function 'lambda' raised IndexError at x=[0.5  0.25], stage 3: "
            "index 7 is out of bounds for axis 0 with size 2",
        ),
    ],
)
def test_broken_promises_are_named_with_their_place(function, scale, sentence):
    with pytest.raises(ProblemError) as info:
        resolve(function, PLANE, scale=scale)(X, 3)
    assert str(info.value) == sentence


@given(st.floats(1.001, 1e12), st.floats(0, 1))
def test_the_scale_that_is_advised_is_enough(size, angle):
    vector = [size * math.cos(angle), size * math.sin(angle)]
    with pytest.raises(ProblemError) as info:
        from_callable(lambda x: vector)(X, 0)
    advised = float(str(info.value).split("give scale=")[1].split(" ")[0])
    norm = np.linalg.norm(from_callable(lambda x: vector, scale=advised)(X, 0))
    assert 1 - 1e-5 < norm <= 1


def test_a_dimension_that_changes_is_named():
    phi = from_callable(lambda x: np.zeros(int(x[0])))
    phi(np.array([2.0]), 0)
    with pytest.raises(ProblemError) as info:
        phi(np.array([3.0]), 1)
    assert str(info.value) == "the feature function 'lambda' gave 3 features, not 2, at x=[3.], stage 1"
    with pytest.raises(ProblemError, match="gave 2 features, not 5, at"):
        from_callable(half, dimension=5)(X, 0)


def test_long_points_are_shortened_in_messages():
    with pytest.raises(ProblemError) as info:
        from_callable(lambda x: x)(np.ones(100), 0)
    assert "at x=[1. 1. 1. ... 1. 1. 1.], stage 0," in str(info.value)


@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf, "big"])
def test_scales_are_positive(scale):
    with pytest.raises(BadInput, match=r"^scale must be a number >= 1e-09, got "):
        from_callable(half, scale=scale)


def test_functions_of_a_module_can_be_sent_to_other_processes():
    phi = pickle.loads(pickle.dumps(resolve(["poly1", half], PLANE)))
    assert phi.dimension == 5


# ------------------------------------------------------------------------------------- transformers


@pytest.mark.parametrize(
    "transformer",
    [
        PolynomialFeatures(3),
        StandardScaler(),
        RBFSampler(n_components=9, random_state=0),
        make_pipeline(StandardScaler(), PolynomialFeatures(2)),
        OneHotEncoder(handle_unknown="ignore"),
        FunctionTransformer(np.cos),
        KMeans(3, n_init=1, random_state=0),
    ],
    ids=lambda t: type(t).__name__,
)
def test_fitted_transformers(transformer):
    expected = transformer.fit_transform(DATA)
    expected = expected.toarray() if hasattr(expected, "toarray") else np.asarray(expected)
    scale = np.linalg.norm(expected, axis=1).max()
    phi = resolve(transformer, PLANE, scale=scale)
    assert phi.name == type(transformer).__name__
    assert phi.dimension == expected.shape[1] == len(phi.names)
    for i, x in enumerate(DATA[:10]):
        np.testing.assert_allclose(phi(x, 0) * scale, expected[i], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(phi.many(DATA, 0) * scale, expected, rtol=1e-9, atol=1e-9)
    assert phi.many(DATA[:0], []).shape == (0, phi.dimension)


def test_transformers_tell_their_names():
    phi = resolve(PolynomialFeatures(2).fit(DATA), PLANE)
    assert phi.names == ("1", "x0", "x1", "x0^2", "x0 x1", "x1^2")
    assert resolve(FunctionTransformer(np.cos).fit(DATA), PLANE).names == (
        "FunctionTransformer[0]",
        "FunctionTransformer[1]",
    )


@pytest.mark.parametrize("transformer", [PolynomialFeatures(2), StandardScaler(), make_pipeline(StandardScaler())])
def test_a_transformer_that_is_not_fitted_is_refused_at_once(transformer):
    with pytest.raises(BadInput) as info:
        resolve(transformer, PLANE)
    name = type(transformer).__name__
    assert str(info.value) == f"the transformer {name!r} is not fitted yet: call its fit() first"
    with pytest.raises(BadInput, match="is not fitted yet"):
        from_transformer(transformer)(X, 0)


def test_a_transformer_of_other_points_is_refused_at_once():
    with pytest.raises(ProblemError) as info:
        resolve(StandardScaler().fit(np.zeros((3, 4))), PLANE)
    assert str(info.value) == (
        "the transformer 'StandardScaler' raised ValueError at x=[0.  0.5], stage 0: "
        "X has 2 features, but StandardScaler is expecting 4 features as input."
    )


def test_a_norm_above_one_is_named_in_batches_too():
    phi = resolve(PolynomialFeatures(1).fit(DATA), PLANE)
    with pytest.raises(ProblemError) as info:
        phi.many(np.array([[0.0, 0.0], [1.0, 1.5]]), [0, 2])
    assert str(info.value) == (
        "the transformer 'PolynomialFeatures' gave features of norm 2.06155 at x=[1.  1.5], stage 2, which is above 1: "
        "give scale=2.06156 or more"
    )


def test_a_transformer_that_mixes_rows_up_is_named():
    class Odd:
        def transform(self, rows):
            return np.zeros((1, 2))

    with pytest.raises(ProblemError) as info:
        resolve(Odd(), PLANE).many(DATA[:3], 0)
    assert str(info.value) == "the transformer 'Odd' gave an array (1, 2) for 3 points, expected (3, 2)"


# ------------------------------------------------------------------------------------ lists of these


def test_a_list_is_put_side_by_side():
    scaler = StandardScaler().fit(DATA)
    phi = resolve(["poly2", half, scaler, build("rbf2@stage", PLANE), from_callable(half, scale=2)], PLANE, scale=3)
    assert phi.name == "poly2+half+StandardScaler+rbf2@stage+half"
    parts = [
        build("poly2", PLANE)(X, 1),
        X / 6,
        scaler.transform(X[None])[0] / 3,
        build("rbf2@stage", PLANE)(X, 1),
        X / 4,
    ]
    np.testing.assert_allclose(phi(X, 1), np.concatenate(parts) / math.sqrt(5), rtol=1e-13)
    assert phi.dimension == 6 + 2 + 2 + 16 + 2
    assert resolve(("poly2", "rbf2"), PLANE).name == "poly2+rbf2"


def test_specs_in_a_list_are_as_if_joined():
    for listed, joined in [(["rff4", "rff4+rff4"], "rff4+rff4+rff4"), (["poly1+rff4", "rff2"], "poly1+rff4+rff2")]:
        a, b = resolve(listed, PLANE, seed=3), build(joined, PLANE, seed=3)
        assert a.name == b.name
        np.testing.assert_array_equal(a(X, 0), b(X, 0))


def test_maps_stay_as_they_are():
    phi = build("poly2", PLANE)
    assert resolve(phi, PLANE) is phi
    assert compose(phi) is phi

    class Own:
        name, dimension, names = "own", 1, ("one",)

        def __call__(self, x, stage):
            return np.ones(1)

        def many(self, points, stages):
            return np.ones((len(points), 1))

    own = Own()
    assert resolve(own, PLANE) is own
    assert compose(own, "poly1", frame=PLANE).names == ("one", "1", "x0", "x1")


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        (3, "features are a spec such as 'poly2', a function, a transformer, a network, or a list of these, got 3"),
        (
            None,
            "features are a spec such as 'poly2', a function, a transformer, a network, or a list of these, got None",
        ),
        (
            LinearRegression(),
            "features are a spec such as 'poly2', a function, a transformer, a network, or a list of these, "
            "got LinearRegression()",
        ),
        (
            [["poly2"]],
            "features are a spec such as 'poly2', a function, a transformer, a network, or a list of these, "
            "got ['poly2']",
        ),
        ([], "the list of features is empty"),
        (
            PolynomialFeatures,
            "features cannot be the class PolynomialFeatures: pass an instance, fitted if necessary",
        ),
        (["poly2", "polly3"], "unknown feature map 'polly'; did you mean 'poly'?"),
    ],
)
def test_other_things_are_refused(features, sentence):
    with pytest.raises(BadInput) as info:
        resolve(features, PLANE)
    assert str(info.value) == sentence


def test_a_scale_without_use_and_a_spec_without_a_frame_are_refused():
    with pytest.raises(BadInput) as info:
        resolve(["poly2", from_callable(half)], PLANE, scale=2.0)
    assert (
        str(info.value)
        == "scale=2.0 is for functions, transformers and networks, and there are none among the features"
    )
    with pytest.raises(BadInput, match=r"^the feature map 'poly2' needs frame=$"):
        compose(half, "poly2")
