"""Rounding never makes the checker confirm too much: cancelling, tiny and huge numbers, large trees."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from certificates import INF, NAN, both, certificate, decimal, infeasible, refusal, right_side, solution, spoil

from tensorplan.optimism.program import BoundTree, Program
from tensorplan.optimism.verify import verify


@pytest.mark.parametrize("y", [1e3, 1e6, 1e9, 1e12, 1e15, 2.0**60, 1e18, 1e100, 1e300])
def test_huge_cancelling_multipliers_do_not_fool_floating_point(y):
    # both the vectors and the right-hand sides cancel to noise, which a claim must not profit from
    program = Program([1.0, 1.0], 1.0, rows=[[0.1, 0.3], [-0.1, -0.3]], rhs=[0.1 + 0.2, -0.3 + 1e-16])
    proof = certificate([], {0: (0.0, {0: y, 1: y})})
    s, q = right_side(program, proof, 0)
    truth = decimal(s, q)
    assert both(program, solution(dataclasses.replace(proof, bound=np.array([truth])))) >= truth * (1 - 1e-15)
    for off in (0.5, 1e-3, 1e-5):
        for wrong in (truth - off * (abs(truth) + 2), truth + off * (abs(truth) + 2)):
            refusal(program, solution(dataclasses.replace(proof, bound=np.array([wrong]))))


@pytest.mark.parametrize("y", [1e8, 1e12, 1e16, 1e30, 1e300])
def test_noise_does_not_prove_emptiness(y):
    # 0.7 x <= 0.3 and 0.7 x >= 0.3 less an ulp: feasible by a hair, and with one ulp more not feasible by a hair
    rhs = [0.3, math.nextafter(-0.3, 0.0)]
    program = Program([1.0], 5.0, rows=[[0.7], [-0.7]], rhs=rhs)
    assert "claims to be empty" in refusal(program, infeasible(certificate([], {0: (-INF, {0: y, 1: y})})))
    rhs[1] = math.nextafter(-0.3, -1.0)
    program = dataclasses.replace(program, rhs=np.array(rhs))
    assert both(program, infeasible(certificate([], {0: (-INF, {0: y, 1: y})}))) == -INF


@pytest.mark.parametrize("y", [1e-300, 1e-3, 1.0, 1e8, 1e16, 1e300])
@pytest.mark.parametrize("s", [0.1, -0.3, 1e-310, 1e6])
def test_halves_a_hair_apart(y, s):
    # l >= s and l <= t are empty exactly if t < s, be it by one ulp; the constant of l is large, and cancels
    program = Program([1.0], 5.0, forms=[[[-1e9 / 3, 0.7]]], tol=2e6)
    for t, empty in ((math.nextafter(s, -INF), True), (s, False), (math.nextafter(s, INF), False)):
        nodes = [(0, 0, 0, -INF, s), (0, 0, 0, s, INF), (2, 0, 0, -INF, t), (2, 0, 0, t, INF)]
        answer = solution(certificate(nodes, {1: (5.0, {}), 3: (-INF, {-2: -y, -3: y}), 4: (5.0, {})}))
        if empty:
            assert both(program, answer) == 5.0
        else:
            assert "leaf 3 claims to be empty" in refusal(program, answer)


def test_ends_are_rounded_outward():
    rng = np.random.default_rng(6)
    largest = 0
    for _ in range(200):
        d, depth = rng.integers(1, 6), rng.integers(1, 9)
        spread = 10.0 ** rng.integers(-6, 7, size=(depth, 1, 1))
        program = Program(rng.normal(size=d), 2.0, forms=rng.normal(size=(depth, 1, d + 1)) * spread, tol=0.0)
        nodes, leaves, path, y = [], {}, 0, {}
        for k in range(depth):
            s = float(rng.normal() * spread[k, 0, 0])
            nodes += [(path, k, 0, -INF, s), (path, k, 0, s, INF)]
            path, other = rng.permutation([2 * k + 1, 2 * k + 2]).tolist()
            sign = 1 if path == 2 * k + 1 else -1
            y[-path] = float(sign * rng.exponential() * 10.0 ** rng.integers(-5, 6))
            leaves[other] = (0.0, {})
        leaves[path] = (0.0, y)
        proof = certificate(nodes, leaves)
        for leaf in leaves:
            proof.bound[leaf] = decimal(*right_side(program, proof, leaf))
        largest += np.nanargmax(proof.bound) == path
        for exact in (False, True):
            confirmed = Fraction(verify(program, solution(proof), exact=exact))
            for leaf in leaves:
                s, q = right_side(program, proof, leaf)
                assert confirmed >= s
                assert (confirmed - s) ** 2 >= q
    assert largest > 50


def test_sums_that_only_rounding_makes_negative_do_not_prove_emptiness():
    rng = np.random.default_rng(9)
    fooled = 0
    for _ in range(400):
        rhs = rng.normal(size=6)
        rhs[-1] = -rhs[:-1].sum()
        truth = sum(map(Fraction, rhs.tolist()))
        program = Program([1.0], 1.0, rows=np.zeros((6, 1)), rhs=rhs)
        answer = infeasible(certificate([], {0: (-INF, dict.fromkeys(range(6), 1.0))}))
        if truth < 0:
            assert both(program, answer) == -INF
        else:
            assert "claims to be empty" in refusal(program, answer)
            fooled += np.add.reduceat(rhs, [0])[0] < 0
    assert fooled > 0


def test_ends_whose_sum_only_rounding_makes_negative_do_not_prove_emptiness():
    # a form that is 0, split six times: the multipliers close the last lower half if the ends sum to less than 0
    rng = np.random.default_rng(10)
    program = Program([1.0], 1.0, forms=[[[0.0, 0.0]]])
    fooled = 0
    for _ in range(400):
        ends = rng.normal(size=6)
        ends[-1] = -ends[:-1].sum()
        nodes = [(max(0, 2 * k - 1), 0, 0, *end) for k, s in enumerate(ends.tolist()) for end in ((-INF, s), (s, INF))]
        leaves = {2 * k: (1.0, {}) for k in range(1, 7)} | {11: (-INF, {-k: 1.0 for k in range(1, 12, 2)})}
        answer = solution(certificate(nodes, leaves))
        if sum(map(Fraction, ends.tolist())) < 0:
            assert both(program, answer) == 1.0
        else:
            assert "leaf 11 claims to be empty" in refusal(program, answer)
            fooled += np.add.reduceat(ends, [0])[0] < 0
    assert fooled > 0


def test_products_that_underflow_do_not_prove_emptiness():
    # 20 · 2e-324 - 3e-323 > 0, but 2e-324 is rounded to 0 and 3e-323 is not
    program = Program([1.0], 1.0, rows=np.zeros((21, 1)), rhs=[*[2e-162] * 20, -3e-161])
    answer = infeasible(certificate([], {0: (-INF, dict.fromkeys(range(21), 1e-162))}))
    assert "claims to be empty" in refusal(program, answer)


def test_floating_point_is_never_below_the_exact_number():
    rng = np.random.default_rng(5)
    for _ in range(200):
        d, m = rng.integers(1, 8), rng.integers(1, 12)
        spread = 10.0 ** rng.integers(-6, 7, size=(m, 1))
        program = Program(rng.normal(size=d), 2.0, rng.normal(size=(m, d)) * spread, rng.normal(size=m) * spread[:, 0])
        y = {j: float(rng.exponential() * 10.0 ** rng.integers(-5, 6)) for j in range(m)}
        proof = certificate([], {0: (0.0, y)})
        s, q = right_side(program, proof, 0)
        proof.bound[0] = decimal(s, q)
        for exact in (False, True):
            confirmed = Fraction(verify(program, solution(proof), exact=exact))
            assert confirmed >= s
            assert (confirmed - s) ** 2 >= q


def test_extreme_scales():
    for scale in (1e-300, 1e-160, 1e160, 1e300):
        program = Program([3 * scale, 4 * scale], 1.0, rows=[[3 * scale, 0.0]], rhs=[0.5 * scale])
        answer = solution(certificate([], {0: (4.5 * scale, {0: 1.0})}))
        assert both(program, answer) == pytest.approx(4.5 * scale, rel=1e-14)
        assert "claims" in refusal(program, spoil(answer, {"bound": np.array([4.4 * scale])}, bound=4.4 * scale))


def test_multipliers_that_overflow_are_decided_exactly():
    program = Program([1.0], 1e200, rows=[[1e200], [-1e200]], rhs=[1.0, 1.0])
    assert "claims 1 but" in refusal(program, solution(certificate([], {0: (1.0, {0: 1e300})})))
    # the vectors cancel exactly, though each product is beyond the largest float
    answer = solution(certificate([], {0: (1e200 + 2.0, {0: 1e150, 1: 1e150})}))
    assert both(program, answer) == pytest.approx(1e200)


def test_a_large_tree_takes_seconds():
    rng = np.random.default_rng(3)
    d, depth, m = 20, 13, 60
    program = Program(
        rng.normal(size=d),
        2.0,
        rng.normal(size=(m, d)),
        rng.normal(size=m) + 5,
        rng.normal(size=(depth, 2, d + 1)),
        1e-3,
    )
    k = np.arange(2**depth - 1)
    leaf, entries = k >= 2 ** (depth - 1) - 1, 30
    count = np.where(leaf, entries, 0)
    index = np.empty((leaf.sum(), entries), dtype=np.int64)
    node = k[leaf]
    for t in range(entries):
        index[:, t] = -node if t < depth - 1 else t
        node = (node - 1) // 2
    value = rng.exponential(size=index.shape)
    proof = BoundTree(
        parent=np.where(k, (k - 1) // 2, -1),
        form=np.log2(k + 1).astype(np.int64) - 1,
        choice=(k + 1) % 2,
        low=np.full(len(k), -1e-3),
        high=np.full(len(k), 1e-3),
        bound=np.full(len(k), NAN),
        start=np.append(0, np.cumsum(count)),
        index=index.ravel(),
        value=value.ravel(),
    )
    for row, number in zip(index, k[leaf], strict=True):  # the claims, with another way of summing
        y = value[number - k[leaf][0]]
        form, choice = proof.form[-row[: depth - 1]], proof.choice[-row[: depth - 1]]
        lines = program.forms[form, choice]
        vectors = np.concatenate([lines[:, 1:], program.rows[row[depth - 1 :]]])
        scalar = np.abs(y[: depth - 1]).sum() * 1e-3 - y[: depth - 1] @ lines[:, 0]
        scalar += y[depth - 1 :] @ program.rhs[row[depth - 1 :]]
        proof.bound[number] = scalar + 2.0 * np.linalg.norm(program.objective - y @ vectors)
    assert both(program, solution(proof)) == pytest.approx(np.nanmax(proof.bound), rel=1e-12)
    spoiled = value.ravel().copy()
    spoiled[-1] += 1e-6
    assert f"leaf {k[-1]} claims" in refusal(program, solution(dataclasses.replace(proof, value=spoiled)))
