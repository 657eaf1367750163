"""The features of the hard MDPs: dense, reduced and structured are one function, small, and blind to the secret."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hard_exact import inner, secrets
from test_hard import random_state

from tensorplan.core import END
from tensorplan.core.errors import BadInput
from tensorplan.problems.hard.features import (
    HardFeature,
    paper_dimension,
    paper_theta,
    reduced_dimension,
    reduced_theta,
)
from tensorplan.problems.hard.mdp import HardMDP, hard
from tensorplan.problems.hard.tree import HardTree


def nodes(mdp, n=12):
    rng = np.random.default_rng(mdp.p)
    return [mdp.features(random_state(mdp, rng)) for _ in range(n)]


@pytest.mark.parametrize("p", [2, 3, 4, 5])
def test_the_three_forms_are_one_polynomial_exactly(p):
    mdp = HardMDP(p, 2, number=Fraction)
    for feature in nodes(mdp):
        tensors, reduced = feature.tensors(1), feature.reduced()
        assert len(reduced) == reduced_dimension(p)
        assert sum(map(len, tensors)) == feature.shape[0] == paper_dimension(p)
        for secret in secrets(p)[:4]:
            value = feature.value(secret)
            assert type(value) is Fraction
            assert inner(feature, secret) == value
            assert reduced @ reduced_theta(secret, p).astype(int) == value


@pytest.mark.parametrize("p", [2, 3, 5, 8, 16])
def test_floats_agree_with_the_dense_arrays(p):
    mdp = HardMDP(p, 3)
    features = nodes(mdp)
    for feature, other in itertools.pairwise(features):
        value = feature.value(mdp.secret)
        assert feature.dense() @ paper_theta(mdp.secret, p) == pytest.approx(value, abs=1e-14)
        assert feature.dense(63, 90_000) @ paper_theta(mdp.secret, p, 63, 90_000) == pytest.approx(value, abs=1e-14)
        assert feature.reduced() @ reduced_theta(mdp.secret, p) == pytest.approx(value, abs=1e-14)
        assert feature.dot(other) == pytest.approx(feature.dense() @ other.dense(), abs=1e-14)
        assert feature.norm() == pytest.approx(np.linalg.norm(feature.dense()), abs=1e-14)
        assert np.array_equal(np.asarray(feature), feature.dense())


def test_inner_products_are_exact_with_fractions():
    mdp = HardMDP(3, 2, number=Fraction)
    features = [mdp.features(s) for layer in mdp.layers() for s in layer][::5]
    for one in features:
        for two in features:
            pairs = zip(one.tensors(1), two.tensors(1), strict=True)
            assert one.dot(two) == sum(3**m * (x @ y) for m, (x, y) in enumerate(pairs))


@pytest.mark.parametrize("p", [2, 3, 4, 5, 8, 64])
def test_norms_are_below_069(p):
    # so dividing by 63 is not needed (the printed bounds on Z_0 .. Z_4 are far from tight)
    tree = HardTree(p, 1)
    norms = []
    for fixed in range(p + 1):
        for flips in {fixed} if fixed < p else set(range(p + 1)):
            norms.append(HardFeature(p, 1.0, flips, 0, (1 << fixed) - 1).norm())
    assert tree.features(tree.root).norm() in norms
    assert 0.6 < max(norms) < 0.69
    assert all(np.linalg.norm(f.reduced()) <= 1 for f in nodes(HardMDP(p, 2), 3))


def test_the_square_of_the_reduced_norm_is_the_mean_square_of_the_value():
    feature = nodes(HardMDP(5, 2, number=Fraction), 1)[0]
    mean = sum(feature.value(w) ** 2 for w in range(32)) / 32
    assert feature.reduced() @ feature.reduced() == mean


@pytest.mark.parametrize("features", ["paper", "reduced", "structured"])
def test_features_do_not_know_the_secret(features):
    tasks = [hard(5, 2, kind="vq", features=features, secret=w) for w in secrets(5)[:5]]
    first = tasks[0]
    for stage in range(10):
        for s in first.mdp.states(stage)[::17]:
            for task in tasks[1:]:
                assert np.array_equal(task.state_features(s, stage), first.state_features(s, stage))
                assert np.array_equal(task.action_features(s, stage), first.action_features(s, stage))


def test_features_are_zero_at_the_end_and_for_illegal_actions():
    mdp = HardMDP(5, 1)
    end = mdp.features(END)
    assert end.value(mdp.secret) == end.norm() == 0
    assert not end.dense().any()
    assert not end.reduced().any()
    once = mdp.successor(mdp.root, 2)
    assert mdp.illegal(once, 2)
    assert mdp.action_features(once)[2] == end


@pytest.mark.parametrize("p", [64, 100, 128])
def test_large_ones_have_inner_products(p):
    mdp = HardMDP(p, 8)
    rng = np.random.default_rng(p)
    for _ in range(20):
        s = random_state(mdp, rng)
        feature = mdp.features(s)
        assert feature.value(mdp.secret) == pytest.approx(mdp.v_prime(s), rel=1e-9)
        assert feature.norm() < 0.69 * s.prefix
        for a, row in enumerate(mdp.action_features(s)):
            assert row.value(mdp.secret) == pytest.approx(mdp.q_prime(s, a), rel=1e-9)
            assert abs(feature.dot(row)) <= feature.norm() * row.norm() * (1 + 1e-9)


def test_what_is_too_large_is_not_written_out():
    mdp = HardMDP(128, 1)
    sentence = "the features of p = 128 have d = 270,549,121 entries, too many to store; "
    for big in (mdp.features(mdp.root), mdp.action_features(mdp.root)):
        assert big.shape[-1] == 270_549_121
        with pytest.raises(BadInput) as info:
            np.asarray(big)
        assert str(info.value) == sentence + "mdp.features(state) gives their inner products"
    assert np.asarray(HardMDP(20, 1).action_features(mdp.root)).shape == (20, paper_dimension(20))
    with pytest.raises(BadInput, match="p = 128 and p = 64 have no inner product"):
        mdp.features(mdp.root).dot(HardMDP(64, 1).features(mdp.root))


def test_dimensions():
    assert [paper_dimension(p) for p in (2, 3, 4, 5, 16)] == [31, 121, 341, 781, 69905]
    assert [reduced_dimension(p) for p in (2, 3, 4, 5, 16)] == [4, 8, 16, 31, 2517]
    assert np.linalg.norm(paper_theta(5, 4)) == pytest.approx(math.sqrt(5))
