"""The checker against hand-made certificates, generated ones, and every way to spoil them."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from tensorplan.optimism.program import Certificate, CertificateError, Program, Solution
from tensorplan.optimism.verify import verify

NAN, INF = math.nan, math.inf
INTEGERS = ("parent", "form", "choice", "start", "index")


def certificate(nodes, leaves):
    """nodes: (parent, form, choice, low, high) of nodes 1, 2, ...; leaves: {node: (bound, {index: multiplier})}.

    (parent, form, choice, width) stands for the range [-width, width].
    """
    nodes = [(-1, -1, -1, 0.0), *nodes]
    columns = list(zip(*((*node[:3], -node[3], node[3]) if len(node) == 4 else node for node in nodes), strict=True))
    entries = [leaves.get(k, (NAN, {})) for k in range(len(nodes))]
    counts = [len(multipliers) for _, multipliers in entries]
    return Certificate(
        parent=np.array(columns[0], dtype=np.int64),
        form=np.array(columns[1], dtype=np.int64),
        choice=np.array(columns[2], dtype=np.int64),
        low=np.array(columns[3], dtype=np.float64),
        high=np.array(columns[4], dtype=np.float64),
        bound=np.array([bound for bound, _ in entries], dtype=np.float64),
        start=np.cumsum([0, *counts], dtype=np.int64),
        index=np.array([j for _, multipliers in entries for j in multipliers], dtype=np.int64),
        value=np.array([y for _, multipliers in entries for y in multipliers.values()], dtype=np.float64),
    )


def solution(proof, status="limit", theta=None, value=-INF, bound=None):
    bound = float(np.nanmax(proof.bound)) if bound is None else bound
    return Solution(status, None if theta is None else np.array(theta, dtype=float), value, bound, 1, 0.0, proof)


def infeasible(proof):
    return solution(proof, "infeasible")


def both(program, answer):
    """What verify returns; floating and exact must agree, exact being the smaller."""
    floating, exact = verify(program, answer), verify(program, answer, exact=True)
    if exact == -INF:
        assert floating == -INF
    else:
        assert exact <= floating <= exact + 1e-8 * (1 + abs(exact))
    return exact


def refusal(program, answer):
    """The sentence of the refusal; floating and exact must refuse alike."""
    sentences = []
    for exact in (False, True):
        with pytest.raises(CertificateError) as error:
            verify(program, answer, exact=exact)
        sentences.append(str(error.value))
    assert sentences[0][:40] == sentences[1][:40]
    assert all(sentence and "\n" not in sentence and len(sentence) < 160 for sentence in sentences)
    return sentences[1]


def right_side(program, proof, leaf, objective=None):
    """(s, q) with s + √q what the multipliers of the leaf prove, in Fractions, one number at a time."""
    objective = program.objective if objective is None else objective
    rest, s = [Fraction(float(c)) for c in objective], Fraction(0)
    for t in range(proof.start[leaf], proof.start[leaf + 1]):
        j, y = int(proof.index[t]), Fraction(float(proof.value[t]))
        if j >= 0:
            vector, offset = program.rows[j], Fraction(float(program.rhs[j]))
            s += y * offset
        else:
            line = program.forms[proof.form[-j], proof.choice[-j]]
            vector, offset = line[1:], Fraction(float(line[0]))
            if y:
                s += y * (Fraction(float(proof.high[-j] if y > 0 else proof.low[-j])) - offset)
        rest = [r - y * Fraction(float(v)) for r, v in zip(rest, vector, strict=True)]
    return s, Fraction(program.radius) ** 2 * sum(r * r for r in rest)


def decimal(s, q):
    """s + √q as the nearest float, give or take one ulp."""
    return float(s + Fraction(math.isqrt(int(q * 2**400)), 2**200))


def leaves_of(proof):
    return [k for k in range(len(proof.parent)) if k not in set(proof.parent.tolist())]


# ------------------------------------------------------------------------------------------------ made by hand

LINE = Program([1.0], 2.0, forms=[[[-1.0, 1.0], [0.0, 1.0]]])
"""θ in [-2, 2], θ = 1 or θ = 0."""


def line():
    """Slab θ = 1 with y = 1 proves 1, slab θ = 0 with y = 1 proves 0."""
    proof = certificate([(0, 0, 0, 0.0), (0, 0, 1, 0.0)], {1: (1.0, {-1: 1.0}), 2: (0.0, {-2: 1.0})})
    return solution(proof, "optimal", [1.0], 1.0)


@pytest.mark.parametrize("objective", [[3.0], [3.0, -4.0], [2.0, 1.0, -2.0]])
def test_a_root_without_multipliers_proves_the_ball(objective):
    program = Program(objective, 2.0)
    length = float(np.linalg.norm(objective))
    answer = solution(certificate([], {0: (2 * length, {})}), "optimal", 2 * np.array(objective) / length, 2 * length)
    assert both(program, answer) == 2 * length


def test_two_slabs_of_one_disjunction():
    assert both(LINE, line()) == 1.0


def test_equality_slabs_in_the_plane():
    # x = 1/2 or y = 1/2 on the unit disc: x + y is largest at (1/2, √3/2), where y = 1 - 1/√3 is the multiplier
    program = Program([1.0, 1.0], 1.0, forms=[[[-0.5, 1.0, 0.0], [-0.5, 0.0, 1.0]]])
    best, y = 0.5 + math.sqrt(0.75), 1 - 1 / math.sqrt(3)
    proof = certificate([(0, 0, 0, 0.0), (0, 0, 1, 0.0)], {1: (best, {-1: y}), 2: (best, {-2: y})})
    answer = solution(proof, "optimal", [0.5, math.sqrt(0.75)], best)
    assert both(program, answer) == pytest.approx(best, rel=1e-15)


def test_a_multiplier_of_a_slab_may_be_negative_and_pays_for_the_width():
    program = Program([-1.0, 0.0, 0.0], 5.0, forms=[[[-1.0, 1.0, 0.0, 0.0]]], tol=0.25)
    proof = certificate([(0, 0, 0, 0.25)], {1: (-0.75, {-1: -1.0})})
    answer = solution(proof, "optimal", [0.75, 0.0, 0.0], -0.75)
    assert both(program, answer) == -0.75


def test_rows():
    # x <= 1/4, y <= 1/2 in a ball of radius 9
    program = Program([1.0, 2.0, 0.0], 9.0, rows=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], rhs=[0.25, 0.5])
    answer = solution(certificate([], {0: (1.25, {1: 2.0, 0: 1.0})}), "optimal", [0.25, 0.5, 0.0], 1.25)
    assert both(program, answer) == 1.25


def test_empty_by_rows_that_contradict_each_other():
    program = Program([1.0, 0.0], 1.0, rows=[[1.0, 1.0], [-1.0, -1.0]], rhs=[0.25, -0.5])
    assert both(program, infeasible(certificate([], {0: (-INF, {0: 1.0, 1: 1.0})}))) == -INF
    sentence = refusal(program, infeasible(certificate([], {0: (-INF, {0: 1.0, 1: 0.5})})))
    assert sentence.startswith("leaf 0 claims to be empty but its multipliers prove only 0 <= 0.7")


def test_empty_by_the_ball():
    program = Program([0.0, 1.0], 1.0, rows=[[3.0, 4.0]], rhs=[-5.000001])
    assert both(program, infeasible(certificate([], {0: (-INF, {0: 1.0})}))) == -INF


def test_touching_the_ball_is_not_empty():
    # 0.75² + 1² = 1.25²: the point (-0.6, -0.8) is in both, so the right-hand side is 0 exactly, not below it
    program = Program([0.0, 1.0], 1.0, rows=[[0.75, 1.0]], rhs=[-1.25])
    assert "0 <= 0" in refusal(program, infeasible(certificate([], {0: (-INF, {0: 1.0})})))
    assert "0 <= 0" in refusal(program, infeasible(certificate([], {0: (-INF, {})})))


def test_an_emptiness_below_the_rounding_of_floats_is_still_seen():
    program = Program([0.0, 1.0], 1.0, rows=[[0.75, 1.0]], rhs=[math.nextafter(-1.25, -2)])
    for y in (1.0, 1e-250, 1e250):
        assert both(program, infeasible(certificate([], {0: (-INF, {0: y})}))) == -INF


def test_one_empty_and_one_open_leaf():
    program = Program([1.0], 2.0, forms=[[[-3.0, 1.0], [-1.0, 1.0]]])
    proof = certificate([(0, 0, 0, 0.0), (0, 0, 1, 0.0)], {1: (-INF, {-1: -1.0}), 2: (1.0, {-2: 1.0})})
    assert both(program, solution(proof, "optimal", [1.0], 1.0)) == 1.0


def test_a_constant_form_of_either_sign_closes_a_leaf():
    for sign in (1.0, -1.0):
        program = Program([1.0], 1.0, forms=[[[sign * 2.0, 0.0], [0.25, 0.0]]], tol=0.5)
        nodes = [(0, 0, 0, 0.5), (0, 0, 1, 0.5)]
        proof = certificate(nodes, {1: (-INF, {-1: sign}), 2: (1.0, {})})
        assert both(program, solution(proof, "optimal", [1.0], 1.0)) == 1.0
        wrong = certificate(nodes, {1: (-INF, {-1: -sign}), 2: (1.0, {})})
        assert "leaf 1 claims to be empty" in refusal(program, solution(wrong, "optimal", [1.0], 1.0))


def test_a_zero_form_with_no_tolerance_is_always_met():
    program = Program([1.0], 1.0, forms=[[[0.0, 0.0]]])
    proof = certificate([(0, 0, 0, 0.0)], {1: (1.0, {})})
    assert both(program, solution(proof, "optimal", [1.0], 1.0)) == 1.0


def test_a_product_is_covered_by_widths_that_multiply_to_the_tolerance():
    # |θ (θ - 1)| <= 1/4 on [-3, 3]: θ <= (1 + √2) / 2; the slabs |θ| <= 1/2 and |θ - 1| <= 1/2 prove 3/2
    program = Program([1.0], 3.0, forms=[[[0.0, 1.0], [-1.0, 1.0]]], tol=0.25, product=True)
    best = (1 + math.sqrt(2)) / 2

    def proof(first, second):
        nodes = [(0, 0, 0, first), (0, 0, 1, second)]
        return certificate(nodes, {1: (first, {-1: 1.0}), 2: (1 + second, {-2: 1.0})})

    assert both(program, solution(proof(0.5, 0.5))) == 1.5
    assert both(program, solution(proof(1.0, 0.25), theta=[best], value=best)) == 1.25
    narrow = refusal(program, solution(proof(1.0, math.nextafter(0.25, 0))))
    assert narrow == "the widths of the children of node 0 multiply to less than tol of form 0"
    assert "multiply" in refusal(program, solution(proof(1e-200, 1e-200)))
    assert "narrower" in refusal(dataclasses.replace(program, product=False), solution(proof(1.0, 0.125)))


def test_a_ball_of_radius_zero():
    program = Program([1.0, 1.0], 0.0, rows=[[1.0, 0.0]], rhs=[0.0])
    assert both(program, solution(certificate([], {0: (0.0, {0: 1.0})}), "optimal", [0.0, 0.0], 0.0)) == 0.0
    program = Program([1.0, 1.0], 0.0, rows=[[1.0, 0.0]], rhs=[-1e-12])
    assert both(program, infeasible(certificate([], {0: (-INF, {0: 1.0})}))) == -INF


def test_a_multiplier_of_a_slab_higher_up_the_path():
    # θ = 1 or 0 (node 1 or 2), then below node 1: θ = 5 or θ = 1
    program = Program([1.0], 9.0, forms=[[[-1.0, 1.0], [0.0, 1.0]], [[-5.0, 1.0], [-1.0, 1.0]]])
    nodes = [(0, 0, 0, 0.0), (0, 0, 1, 0.0), (1, 1, 0, 0.0), (1, 1, 1, 0.0)]
    leaves = {2: (0.0, {-2: 1.0}), 3: (-INF, {-1: 1.0, -3: -1.0}), 4: (1.0, {-1: 0.5, -4: 0.5})}
    assert both(program, solution(certificate(nodes, leaves), "optimal", [1.0], 1.0)) == 1.0
    leaves[2] = (0.0, {-4: 1.0})
    wrong = refusal(program, solution(certificate(nodes, leaves), "optimal", [1.0], 1.0))
    assert wrong == "leaf 2 has a multiplier for the range of node 4, which is not on its path"


# ------------------------------------------------------------------------------------------------ splits by hand

TIMES = Program([1.0], 4.0, forms=[[[0.0, 1.0], [-1.0, 1.0], [1.0, 1.0]]], tol=6.0, product=True)
"""|θ (θ - 1) (θ + 1)| <= 6 on [-4, 4]: θ in [-2, 2]."""


def times(sign=1.0):
    """Split at θ = 9/4 (or -9/4); |θ| <= 2, |θ - 1| <= 1 and |θ + 1| <= 3 are a cover, and empty in the far half."""
    far, s = (2, 2.25) if sign > 0 else (1, -2.25)
    nodes = [(0, 0, 0, -INF, s), (0, 0, 0, s, INF)]
    nodes += [(far, 0, a, w) for a, w in enumerate([2.0, 1.0, 3.0] if sign > 0 else [2.0, 3.0, 1.0])]
    leaves = {3 - far: (2.25, {far - 3: sign})}
    leaves |= {k: (-INF, {-k: sign, -far: -sign}) for k in (3, 4, 5)}
    return solution(certificate(nodes, leaves), theta=[2.0 * sign], value=2.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_split_uses_either_end(sign):
    program = dataclasses.replace(TIMES, objective=np.array([sign]))
    assert both(program, times(sign)) == 2.25


def test_a_split_through_the_optimum():
    nodes = [(0, 0, 0, -INF, 2.0), (0, 0, 0, 2.0, INF), (2, 0, 0, 2.0), (2, 0, 1, 1.0), (2, 0, 2, 3.0)]
    proof = certificate(nodes, {1: (2.0, {-1: 1.0}), **{k: (2.0, {-k: 1.0}) for k in (3, 4, 5)}})
    assert both(TIMES, solution(proof, "optimal", [2.0], 2.0)) == 2.0
    # the half [2, inf) touches each range in one point, which is not empty
    proof = certificate(nodes, {1: (2.0, {-1: 1.0}), **{k: (-INF, {-k: 1.0, -2: -1.0}) for k in (3, 4, 5)}})
    assert "leaf 3 claims to be empty but its multipliers prove only 0 <= 0" in refusal(TIMES, solution(proof))


SQUARE = Program(
    [1.0, 1.0],
    4.0,
    rows=[[-1.0, 0.0], [0.0, -1.0]],
    rhs=[-1.0, -1.0],
    forms=[[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]],
    tol=2.0,
    product=True,
)
"""x, y >= 1 and |x y (x + y)| <= 2 is the point (1, 1)."""


@pytest.mark.parametrize("s", [2.0, 1.5, 1.1, 1.001])
def test_splits_and_covers_that_are_empty_close_a_product_in_the_plane(s):
    # y >= s and x >= s are empty: x >= 1, y >= s and x + y >= 1 + s have a product above the tolerance
    less = (2 / (s * (1 + s))) ** (1 / 3) * (1 + 1e-9)
    nodes = [(0, 0, 1, -INF, s), (0, 0, 1, s, INF), (1, 0, 0, -INF, s), (1, 0, 0, s, INF)]
    nodes += [(4, 0, a, w * less) for a, w in enumerate([s, 1.0, 1.0 + s])]
    nodes += [(2, 0, a, w * less) for a, w in enumerate([1.0, s, 1.0 + s])]
    leaves = {
        3: (2 * s, {-1: 1.0, -3: 1.0}),
        5: (-INF, {-5: 1.0, -4: -1.0}),
        6: (-INF, {-6: 1.0, 1: 1.0}),
        7: (-INF, {-7: 1.0, -4: -1.0, 1: 1.0}),
        8: (-INF, {-8: 1.0, 0: 1.0}),
        9: (-INF, {-9: 1.0, -2: -1.0}),
        10: (-INF, {-10: 1.0, -2: -1.0, 0: 1.0}),
    }
    proof = certificate(nodes, leaves)
    assert both(SQUARE, solution(proof, theta=[1.0, 1.0], value=2.0)) == 2 * s
    narrow = dataclasses.replace(proof, low=proof.low.copy(), high=proof.high.copy())
    narrow.high[9] *= 1 - 1e-8
    narrow.low[9] *= 1 - 1e-8
    assert "children of node 2 multiply to less than tol" in refusal(SQUARE, solution(narrow))
    lost = dataclasses.replace(proof, value=np.where(proof.index == -4, 0.0, proof.value))
    assert "leaf 5 claims to be empty" in refusal(SQUARE, solution(lost))


def test_a_split_in_the_plane_off_the_axes():
    # |x + y - 1| <= 1/4 on the disc of radius 2, split at x + y = 1; the range [3/4, 1] needs both edges
    program = Program([1.0, 1.0], 2.0, forms=[[[-1.0, 1.0, 1.0]]], tol=0.25)
    nodes = [(0, 0, 0, -INF, 0.0), (0, 0, 0, 0.0, INF), (1, 0, 0, 0.25), (2, 0, 0, 0.25)]
    proof = certificate(nodes, {3: (1.0, {-1: 1.0}), 4: (1.25, {-4: 1.0})})
    assert both(program, solution(proof, "optimal", [0.625, 0.625], 1.25)) == 1.25
    downward = dataclasses.replace(program, objective=np.array([-1.0, -1.0]))
    proof = certificate(nodes, {3: (-0.75, {-3: -1.0}), 4: (-1.0, {-2: -1.0})})
    assert both(downward, solution(proof, "optimal", [0.375, 0.375], -0.75)) == -0.75


@pytest.mark.parametrize("alternatives", [1, 2, 3])
def test_splits_and_covers_are_told_apart(alternatives):
    program = Program([1.0], 1.0, forms=np.tile([0.0, 1.0], (1, alternatives, 1)), tol=0.5)
    cover = [(0, 0, a, 0.5) for a in range(alternatives)]
    proof = certificate(cover, {k + 1: (0.5, {-k - 1: 1.0}) for k in range(alternatives)})
    assert both(program, solution(proof, "optimal", [0.5], 0.5)) == 0.5
    split = [(0, 0, 0, -INF, 0.0), (0, 0, 0, 0.0, INF)]
    below = [(2, 0, a, 0.5) for a in range(alternatives)]
    leaves = {1: (0.0, {-1: 1.0})} | {k + 3: (0.5, {-k - 3: 1.0}) for k in range(alternatives)}
    assert both(program, solution(certificate(split + below, leaves), "optimal", [0.5], 0.5)) == 0.5
    # two finite ranges of one alternative that cover the ball are neither
    finite = [(0, 0, 0, -1.0, 0.0), (0, 0, 0, 0.0, 1.0)]
    answer = solution(certificate(finite, {1: (0.0, {-1: 1.0}), 2: (1.0, {-2: 1.0})}))
    kind = "each alternative once" if alternatives == 2 else f"2 children, a cover has {alternatives}"
    assert kind in refusal(program, answer)
    # nor is the whole line, once or twice
    whole = [(0, 0, 0, -INF, INF), (0, 0, 0, -INF, INF)]
    assert "children of node 0 have an infinite end" in refusal(
        program, solution(certificate(whole, {1: (1.0, {}), 2: (1.0, {})}))
    )
    one = refusal(program, solution(certificate([(0, 0, 0, -INF, INF)], {1: (1.0, {})})))
    assert one == "node 0 has 1 children, a split has 2"


def test_the_children_of_a_split_need_not_follow_one_another():
    nodes = [(0, 0, 0, -INF, 1.0), (1, 0, 0, -INF, 0.0), (0, 0, 0, 1.0, INF), (1, 0, 0, 0.0, INF)]
    proof = certificate(nodes, {2: (0.0, {-2: 1.0}), 3: (4.0, {}), 4: (1.0, {-1: 1.0})})
    assert both(TIMES, solution(proof)) == 4.0
    swapped = [nodes[2], nodes[0], *((2, *node[1:]) for node in (nodes[1], nodes[3]))]
    proof = certificate(swapped, {1: (4.0, {}), 3: (0.0, {-3: 1.0}), 4: (1.0, {-2: 1.0})})
    assert "children of node 0 have an infinite end but not" in refusal(TIMES, solution(proof))


def test_a_multiplier_of_zero_uses_no_end():
    for zero in (0.0, -0.0):
        proof = certificate([(0, 0, 0, -INF, 2.0), (0, 0, 0, 2.0, INF)], {1: (4.0, {-1: zero}), 2: (4.0, {-2: zero})})
        assert both(TIMES, solution(proof)) == 4.0


def test_the_range_of_the_root_is_ignored():
    for low, high in ((NAN, NAN), (INF, -INF), (-INF, INF), (1.0, 0.0)):
        proof = times().certificate
        proof.low[0], proof.high[0] = low, high
        assert both(TIMES, solution(proof)) == 2.25
        assert both(PLANE, spoil(plane(), {"low": put(C.low, 0, low), "high": put(C.high, 0, high)})) > 1.25


def halves(first, second, below=0):
    """times() with the first two nodes replaced, and the multiplier of leaf 1 on node 1 times (-1)^below."""
    answer = times()
    proof = answer.certificate
    for k, node in enumerate((first, second), 1):
        proof.form[k], proof.choice[k], proof.low[k], proof.high[k] = node
    proof.value[0] *= (-1) ** below
    return answer


TWICE = TIMES.extend(forms=TIMES.forms, tol=6.0)
ABOVE = math.nextafter(2.25, 3)
SPLITS = {
    "a gap": (halves((0, 0, -INF, 2.0), (0, 0, 2.25, INF)), "the children of node 0 are split at 2.0 and 2.25, which"),
    "a gap of an ulp": (halves((0, 0, -INF, 2.25), (0, 0, ABOVE, INF)), "the children of node 0 are split at 2.25 and"),
    "an overlap": (halves((0, 0, -INF, 2.5), (0, 0, 2.25, INF)), "the children of node 0 are split at 2.5 and 2.25"),
    "swapped halves": (
        halves((0, 0, 2.25, INF), (0, 0, -INF, 2.25), 1),
        "leaf 3 has the multiplier -1 for the end -inf",
    ),
    "the lower half twice": (
        halves((0, 0, -INF, 2.25), (0, 0, -INF, 2.25)),
        "leaf 3 has the multiplier -1 for the end",
    ),
    "a range that ends": (halves((0, 0, -INF, 2.25), (0, 0, 2.25, 4.0)), "the children of node 0 have an infinite end"),
    "a range that begins": (halves((0, 0, -4.0, 2.25), (0, 0, 2.25, INF)), "the children of node 0 have an infinite"),
    "two ranges that end": (halves((0, 0, -4.0, 2.25), (0, 0, 2.25, 4.0)), "node 0 has 2 children, a cover has 3"),
    "different forms": (halves((0, 0, -INF, 2.25), (1, 0, 2.25, INF)), "the children of node 0 branch on different"),
    "different alternatives": (halves((0, 0, -INF, 2.25), (0, 1, 2.25, INF)), "the children of node 0 split different"),
    "no number": (halves((0, 0, NAN, 2.25), (0, 0, 2.25, INF)), "node 1 has the range [nan, 2.25], which is none"),
    "no numbers that meet": (halves((0, 0, -INF, NAN), (0, 0, NAN, INF)), "node 1 has the range [-inf, nan], which is"),
    "a low end of inf": (
        halves((0, 0, INF, 2.25), (0, 0, 2.25, INF)),
        "node 1 has the range [inf, 2.25], which is none",
    ),
    "an infinite high end used": (
        halves((0, 0, -INF, INF), (0, 0, 2.25, INF)),
        "leaf 1 has the multiplier 1 for the end inf of the range of node 1",
    ),
    "an infinite low end used": (
        halves((0, 0, -INF, 2.25), (0, 0, 2.25, INF), 1),
        "leaf 1 has the multiplier -1 for the end -inf of the range of node 1",
    ),
    "a later split": (halves((0, 0, -INF, 2.5), (0, 0, 2.5, INF)), "leaf 1 claims 2.25 but its multipliers prove 2.5"),
    "an earlier split": (halves((0, 0, -INF, 1.0), (0, 0, 1.0, INF)), "leaf 1 claims 2.25 but its multipliers prove 1"),
}


@pytest.mark.parametrize("name", SPLITS)
def test_a_spoiled_split_is_refused(name):
    answer, sentence = SPLITS[name]
    assert refusal(TWICE, answer).startswith(sentence)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1.0, INF), (-INF, 1.0)),
        ((-INF, 1.0), (-INF, 1.0)),
        ((1.0, INF), (1.0, INF)),
        ((-INF, -INF), (-INF, INF)),
        ((-INF, -INF), (INF, INF)),
        ((-INF, INF), (INF, INF)),
        ((-INF, INF), (-INF, INF)),
        ((-INF, INF), (1.0, INF)),
        ((-INF, 1.0), (1.0, 1.0)),
    ],
)
def test_halves_that_are_not_a_split_are_refused_without_multipliers_too(first, second):
    proof = certificate([(0, 0, 0, *first), (0, 0, 0, *second)], {1: (4.0, {}), 2: (4.0, {})})
    sentence = "the children of node 0 have an infinite end but not the ranges (-inf, s] and [s, inf)"
    assert refusal(TIMES, solution(proof)) == sentence


def test_a_missing_half_is_refused():
    for node in ((-INF, 2.25), (2.25, INF)):
        proof = certificate([(0, 0, 0, *node)], {1: (4.0, {})})
        assert refusal(TIMES, solution(proof)) == "node 0 has 1 children, a split has 2"
    third = [(0, 0, 0, -INF, 1.0), (0, 0, 0, 1.0, INF), (0, 0, 0, 1.0, INF)]
    proof = certificate(third, {k: (4.0, {}) for k in (1, 2, 3)})
    assert refusal(TIMES, solution(proof)) == "node 0 has 3 children, a split has 2"


# ---------------------------------------------------------------------------------------------------- spoiled


def spoil(answer, proof=None, **changes):
    """The solution with some fields of its certificate (those given in proof) and of its own replaced."""
    changed = dataclasses.replace(answer.certificate, **(proof or {}))
    return dataclasses.replace(answer, certificate=changed, **changes)


def put(array, place, value):
    array = array.copy()
    array[place] = value
    return array


PLANE = Program(
    [1.0, 0.5],
    2.0,
    rows=[[0.0, 1.0], [1.0, 1.0]],
    rhs=[0.5, 1.5],
    forms=[[[-1.0, 1.0, 0.0], [0.25, 1.0, 0.5]], [[-0.5, 0.0, 1.0], [-4.0, 0.0, 1.0]]],
    tol=[0.01, 0.02],
)


def plane():
    """A tree of five nodes: 1 and 2 branch on form 0, 3 and 4 below 1 on form 1; node 4 is empty."""
    nodes = [(0, 0, 0, 0.01), (0, 0, 1, 0.01), (1, 1, 0, 0.02), (1, 1, 1, 0.02)]
    leaves = {
        2: (-0.24, {-2: 1.0}),
        3: (1.2575, {-1: 0.75, 0: 0.25, 1: 0.25}),
        4: (-INF, {-4: -1.0, -1: 0.0}),
    }
    return solution(certificate(nodes, leaves), theta=[1.0, 0.5], value=1.25)


def test_the_plane_stands_before_it_is_spoiled():
    proof = plane().certificate
    for leaf in (2, 3):
        assert decimal(*right_side(PLANE, proof, leaf)) == pytest.approx(proof.bound[leaf], rel=1e-14)
    assert both(PLANE, plane()) == pytest.approx(1.2575, rel=1e-14)


C = plane().certificate


def symmetric(place, width):
    return {"low": put(C.low, place, -width), "high": put(C.high, place, width)}


SPOILED = {
    "a changed multiplier": ({"value": put(C.value, 1, 0.7)}, "leaf 3 claims 1.2575 but its multipliers prove"),
    "a slightly changed one": ({"value": put(C.value, 1, 0.75 + 1e-7)}, "leaf 3 claims 1.2575 but"),
    "a changed one of an empty leaf": ({"value": put(C.value, 4, 1.0)}, "leaf 4 claims to be empty but"),
    "a negative one of a row": (
        {"value": put(C.value, 2, -0.25)},
        "leaf 3 has the negative multiplier -0.25 for row 0",
    ),
    "one that is infinite": ({"value": put(C.value, 1, INF)}, "leaf 3 has the multiplier inf"),
    "one that is no number": ({"value": put(C.value, 2, NAN)}, "leaf 3 has the multiplier nan"),
    "a raised leaf": ({"bound": put(C.bound, 3, 1.2576)}, "leaf 3 claims 1.2576 but its multipliers prove 1.2575"),
    "a lowered leaf": ({"bound": put(C.bound, 3, 1.2574)}, "leaf 3 claims 1.2574 but its multipliers prove 1.2575"),
    "a lowered leaf that is not the largest": ({"bound": put(C.bound, 2, -0.3)}, "leaf 2 claims -0.3 but"),
    "a leaf called empty": ({"bound": put(C.bound, 2, -INF)}, "leaf 2 claims to be empty but"),
    "an empty leaf called closed": ({"bound": put(C.bound, 4, 1.0)}, "leaf 4 claims 1 but its multipliers prove"),
    "a leaf with no bound": ({"bound": put(C.bound, 2, NAN)}, "leaf 2 has no bound"),
    "a leaf with the bound inf": ({"bound": put(C.bound, 2, INF)}, "leaf 2 claims the bound inf"),
    "an inner node with a bound": ({"bound": put(C.bound, 1, 3.0)}, "node 1 has children and the bound 3"),
    "a width below the tolerance": (symmetric(2, 0.0099), "node 2 has a range narrower"),
    "a wider range": (symmetric(2, 0.02), "leaf 2 claims -0.24 but its multipliers prove -0.23"),
    "a negative width": (symmetric(3, -0.02), "node 3 has the range [0.02, -0.02], which is none"),
    "an infinite width": (symmetric(3, INF), "the children of node 1 have an infinite end but not"),
    "a width that is no number": (symmetric(3, NAN), "node 3 has the range [nan, nan], which is none"),
    "a low end that is no number": ({"low": put(C.low, 3, NAN)}, "node 3 has the range [nan, 0.02], which is none"),
    "a high end that is no number": ({"high": put(C.high, 3, NAN)}, "node 3 has the range [-0.02, nan], which is none"),
    "a low end above the high one": ({"low": put(C.low, 3, 0.03)}, "node 3 has the range [0.03, 0.02], which is none"),
    "a range to one side": ({"low": put(C.low, 2, 0.0)}, "node 2 has the range [0.0, 0.01], a cover has [-w, w]"),
    "a range wider on one side": ({"high": put(C.high, 2, 0.02)}, "node 2 has the range [-0.01, 0.02], a cover has"),
    "a range one ulp off": ({"high": put(C.high, 2, math.nextafter(0.01, 1))}, "node 2 has the range [-0.01, 0.010000"),
    "an infinite low end": ({"low": put(C.low, 3, -INF)}, "the children of node 1 have an infinite end but not"),
    "an infinite high end": ({"high": put(C.high, 2, INF)}, "leaf 2 has the multiplier 1 for the end inf of the range"),
    "an alternative twice": (
        {"choice": put(C.choice, 2, 0)},
        "the children of node 0 do not have each alternative once",
    ),
    "an alternative out of range": ({"choice": put(C.choice, 2, 2)}, "node 2 takes alternative 2, the program has 2"),
    "a negative alternative": ({"choice": put(C.choice, 2, -1)}, "node 2 takes alternative -1"),
    "two forms in a branching": ({"form": put(C.form, 4, 0)}, "the children of node 1 branch on different forms"),
    "a form out of range": ({"form": put(C.form, 4, 2)}, "node 4 branches on form 2, the program has 2"),
    "a negative form": ({"form": put(C.form, 4, -1)}, "node 4 branches on form -1"),
    "the root has a parent": ({"parent": put(C.parent, 0, 0)}, "node 0 must be the root"),
    "a second root": ({"parent": put(C.parent, 2, -1)}, "node 2 has parent -1"),
    "a node is its own parent": ({"parent": put(C.parent, 2, 2)}, "node 2 has parent 2: parents come before"),
    "a parent after its child": ({"parent": put(C.parent, 1, 4)}, "node 1 has parent 4"),
    "a child that moved": ({"parent": put(C.parent, 2, 1)}, "node 0 has 1 children, a cover has 2"),
    "a row out of range": ({"index": put(C.index, 2, 2)}, "leaf 3 has a multiplier for row 2, the program has 2"),
    "a slab out of range": ({"index": put(C.index, 1, -5)}, "leaf 3 has a multiplier for the range of node 5 of 5"),
    "the smallest integer": (
        {"index": put(C.index, 1, -(2**63))},
        "leaf 3 has a multiplier for the range of node 9223",
    ),
    "a slab off the path": (
        {"index": put(C.index, 1, -2)},
        "leaf 3 has a multiplier for the range of node 2, which is",
    ),
    "an index twice": ({"index": put(C.index, 2, 1)}, "leaf 3 has two multipliers of index 1"),
    "another row": ({"index": put(C.index, 0, 0)}, "leaf 2 claims -0.24 but its multipliers prove"),
    "entries of another leaf": ({"start": put(C.start, 3, 2)}, "leaf 2 has a multiplier for the range of node 1"),
    "a start that decreases": ({"start": put(C.start, 3, 5)}, "start decreases at node 3, from 5 to 4"),
    "a start not at 0": ({"start": put(C.start, 0, 1)}, "start must run from 0 to 6, and runs from 1 to 6"),
    "an end too early": ({"start": put(C.start, 5, 5)}, "start must run from 0 to 6, and runs from 0 to 5"),
    "multipliers of an inner node": ({"start": np.array([0, 0, 1, 1, 4, 6])}, "node 1 has children and multipliers"),
    "entries cut off": ({"index": C.index[:-1], "value": C.value[:-1]}, "start must run from 0 to 5"),
    "no nodes": ({"parent": C.parent[:0]}, "the certificate has no nodes"),
    "integers that are floats": ({"index": C.index.astype(float)}, "index of the certificate holds float64, not i8"),
    "floats that are integers": ({"value": C.index}, "value of the certificate holds int64, not f8"),
    "a matrix": ({"low": C.low[:, None]}, "low of the certificate has shape (5, 1), not (5,)"),
    "a scalar": ({"parent": np.array(3)}, "parent of the certificate has shape (), not (1,)"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_certificate_is_refused(name):
    proof, sentence = SPOILED[name]
    assert refusal(PLANE, spoil(plane(), proof)).startswith(sentence)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Certificate)])
def test_a_truncated_array_is_refused(name):
    refusal(PLANE, spoil(plane(), {name: getattr(C, name)[:-1]}))
    refusal(PLANE, spoil(plane(), {name: np.append(getattr(C, name), getattr(C, name)[-1:])}))


@pytest.mark.parametrize("node", [2, 3, 4])
def test_a_missing_leaf_is_refused(node):
    keep = np.arange(5) != node
    entries = np.repeat(keep, np.diff(C.start))
    number = np.cumsum(keep) - 1
    less = {
        "parent": np.where(C.parent >= 0, number[C.parent], -1)[keep],
        "start": np.concatenate([[0], np.cumsum(np.diff(C.start)[keep])]),
        "index": np.where(C.index < 0, -number[np.abs(C.index) % 5], C.index)[entries],
        "value": C.value[entries],
    }
    less |= {name: getattr(C, name)[keep] for name in ("form", "choice", "low", "high", "bound")}
    parent = C.parent[node]
    assert refusal(PLANE, spoil(plane(), less)) == f"node {parent} has 1 children, a cover has 2"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"bound": 1.2576}, "the solution claims the bound 1.2576 but its leaves claim 1.2575"),
        ({"bound": 1.2574}, "the solution claims the bound 1.2574 but its leaves claim 1.2575"),
        ({"bound": 1.2575 + 1e-7}, "the solution claims the bound 1.2575001 but its leaves claim 1.2575"),
        ({"bound": -INF}, "the solution claims the bound -inf but"),
        ({"bound": INF}, "the solution claims the bound inf but"),
        ({"bound": NAN}, "the solution claims the bound nan but"),
        ({"status": "infeasible"}, "the solution has the status 'infeasible' but its leaves are not all empty"),
        ({"status": "great"}, "the solution has the unknown status 'great'"),
        ({"status": "optimal", "theta": None, "value": -INF}, "the solution is called optimal but has no theta"),
        ({"theta": None}, "the solution has the value 1.25 but no theta"),
        ({"value": 1.2500001}, "the solution claims the value 1.2500001 but theta has 1.25"),
        ({"value": -INF}, "the solution claims the value -inf but theta has 1.25"),
        ({"value": NAN}, "the solution claims the value nan but"),
        ({"theta": np.array([1.0, 0.51])}, "theta violates row 0: 0.51 > 0.5"),
        ({"theta": np.array([0.9, 0.5])}, "theta violates disjunction 0"),
        ({"theta": np.array([1.0, 0.4])}, "theta violates disjunction 1"),
        ({"theta": np.array([1.0, -1.8])}, "theta has norm 2.05"),
        ({"theta": np.array([1.0, 0.49])}, "the solution claims the value 1.25 but theta has 1.245"),
        ({"theta": np.array([1.0, NAN])}, "theta must be a vector of 2 finite numbers"),
        ({"theta": np.array([1.0])}, "theta must be a vector of 2 finite numbers"),
    ],
)
def test_a_spoiled_solution_is_refused(changes, sentence):
    assert refusal(PLANE, spoil(plane(), **changes)).startswith(sentence)


def test_a_solution_without_a_certificate_is_refused():
    answer = dataclasses.replace(plane(), certificate=None)
    assert refusal(PLANE, answer) == "the solution has no certificate: solve with certificate=True"


def test_an_infeasible_program_has_no_theta_and_no_other_status():
    program = Program([1.0], 1.0, rows=[[1.0], [-1.0]], rhs=[0.0, -0.5])
    answer = infeasible(certificate([], {0: (-INF, {0: 1.0, 1: 1.0})}))
    assert both(program, answer) == -INF
    empty = "the solution has the status 'limit' but its leaves are empty"
    assert refusal(program, dataclasses.replace(answer, status="limit")) == empty
    assert "called infeasible" in refusal(program, dataclasses.replace(answer, theta=np.zeros(1), value=0.0))
    assert "claims the bound 0" in refusal(program, dataclasses.replace(answer, bound=0.0))


def test_the_certificate_of_another_program_is_refused():
    other = dataclasses.replace(PLANE, rhs=np.array([0.4, 1.5]))
    assert "leaf 3 claims 1.2575 but its multipliers prove" in refusal(other, plane())
    assert "narrower" in refusal(dataclasses.replace(PLANE, tol=np.array([0.01, 0.03])), plane())
    assert "the program has 0" in refusal(Program([1.0, 0.5], 2.0), plane())


def test_a_theta_that_breaks_a_product_is_refused():
    program = Program([1.0], 3.0, forms=[[[0.0, 1.0], [-1.0, 1.0]]], tol=0.25, product=True)
    proof = certificate([(0, 0, 0, 0.5), (0, 0, 1, 0.5)], {1: (0.5, {-1: 1.0}), 2: (1.5, {-2: 1.0})})
    assert refusal(program, solution(proof, theta=[1.25], value=1.25)) == "theta violates disjunction 0"


def test_a_value_above_the_bound_is_refused():
    # x <= 0 follows from two steep rows, whose tolerance lets x = 1e-5 pass
    program = Program([1.0, 0.0], 1.0, rows=[[1.0, 1e3], [0.0, -1e3]], rhs=[0.0, 0.0])
    answer = solution(certificate([], {0: (0.0, {0: 1.0, 1: 1.0})}), theta=[0.0, 0.0], value=0.0)
    assert both(program, answer) == 0.0
    above = dataclasses.replace(answer, theta=np.array([1e-5, 0.0]), value=1e-5)
    assert refusal(program, above).startswith("the solution claims the value 1e-05, above the proven bound")


# -------------------------------------------------------------------------------------------------- generated


def random_program(rng, product=False):
    """A program with feasible points: wide tolerances, rows that cut off a little; some forms are constant."""
    d, m, n, alternatives = rng.integers(1, 4), rng.integers(0, 4), rng.integers(1, 4), rng.integers(1, 4)
    forms = rng.normal(size=(n, alternatives, d + 1))
    forms[rng.random((n, alternatives)) < 0.3, 1:] = 0.0
    rows = rng.normal(size=(m, d))
    rhs = rng.uniform(0.0, 1.0, size=m)
    tol = rng.uniform(0.1, 1.5, size=n)
    return Program(rng.normal(size=d), rng.uniform(0.5, 3.0), rows, rhs, forms, tol, product)


def random_tree(rng, program):
    """Branchings only: (parent, form, choice, low, high) per node, growing at random leaves by covers and splits."""
    nodes, leaves = [], [0]
    for _ in range(rng.integers(0, 6)):
        leaf = leaves.pop(rng.integers(len(leaves)))
        form = int(rng.integers(len(program.forms)))
        if rng.random() < 0.4:
            a, s = int(rng.integers(program.alternatives)), float(rng.normal())
            children = [(leaf, form, a, -INF, s), (leaf, form, a, s, INF)]
        else:
            widths = np.full(program.alternatives, program.tol[form]) * rng.uniform(1.0, 1.2, program.alternatives)
            if program.product:
                widths = rng.uniform(0.2, 2.0, program.alternatives)
                widths *= (1.0000001 * program.tol[form] / widths.prod()) ** (1 / program.alternatives)
            children = [(leaf, form, a, -float(w), float(w)) for a, w in enumerate(widths)]
        for child in children:
            nodes.append(child)
            leaves.append(len(nodes))
    return nodes


def path(nodes, leaf):
    while leaf:
        yield leaf
        leaf = nodes[leaf - 1][0]


def best_multipliers(rng, program, edges, nodes, objective):
    """Multipliers near the best ones: subgradient steps on the dual function, of lengths 1/1, 1/2, 1/3, ..."""
    m = len(program.rhs)
    lines = [program.forms[nodes[e - 1][1], nodes[e - 1][2]] for e in edges]
    vectors = np.concatenate([program.rows, np.array([x[1:] for x in lines]).reshape(-1, program.dimension)])
    offset = np.concatenate([program.rhs, [-x[0] for x in lines]])
    low = np.concatenate([np.full(m, -INF), [nodes[e - 1][3] for e in edges]])
    high = np.concatenate([np.zeros(m), [nodes[e - 1][4] for e in edges]])
    floor, ceiling = np.where(low == -INF, 0.0, -INF), np.where(high == INF, 0.0, INF)
    y = best = np.clip(rng.normal(size=len(offset)), floor, ceiling)
    least = INF
    for step in range(1, 150):
        rest = objective - y @ vectors
        length = math.sqrt(rest @ rest) + 1e-300
        end = np.where((y > 0) | (low == -INF), high, low)  # at y = 0 the finite one
        value = y @ (offset + end) + program.radius * length
        if value < least:
            best, least = y, value
        slope = offset + end - program.radius * vectors @ rest / length
        y = np.clip(y - slope / (step * math.sqrt(slope @ slope) + 1e-300), floor, ceiling)
    return dict(zip([*range(m), *(-e for e in edges)], best.tolist(), strict=True))


def random_multiplier(rng, low, high):
    """Of either sign where both ends are finite."""
    y = float(rng.normal())
    return abs(y) if low == -INF else -abs(y) if high == INF else y


def random_solution(rng, program, tight):
    """A valid certificate whose claims are computed in Fractions, for multipliers at random or near the best."""
    nodes = random_tree(rng, program)
    inner = {parent for parent, *_ in nodes}
    leaves = {}
    for leaf in sorted(set(range(len(nodes) + 1)) - inner):
        edges = list(path(nodes, leaf))
        if tight:
            multipliers = best_multipliers(rng, program, edges, nodes, program.objective)
            closing = best_multipliers(rng, program, edges, nodes, 0 * program.objective)
        else:
            multipliers = {j: float(rng.exponential()) for j in range(len(program.rhs)) if rng.random() < 0.6}
            multipliers |= {-e: random_multiplier(rng, *nodes[e - 1][3:]) for e in edges if rng.random() < 0.8}
            closing = multipliers
        proof = certificate(nodes, {leaf: (0.0, closing)})
        s, q = right_side(program, proof, leaf, 0 * program.objective)
        if s < 0 and q < s * s:
            leaves[leaf] = (-INF, closing)
        else:
            proof = certificate(nodes, {leaf: (0.0, multipliers)})
            leaves[leaf] = (decimal(*right_side(program, proof, leaf)), multipliers)
    proof = certificate(nodes, leaves)
    empty = all(bound == -INF for bound, _ in leaves.values())
    return solution(proof, "infeasible" if empty else "limit", bound=max(b for b, _ in leaves.values()))


def points(rng, program, count=4000):
    """Those of count random points of the ball that satisfy the program."""
    directions = rng.normal(size=(count, program.dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    thetas = directions * program.radius * rng.uniform(0, 1, (count, 1)) ** (0.5 / program.dimension)
    kept = (thetas @ program.rows.T <= program.rhs).all(axis=1)
    forms = np.abs(program.forms[..., 0] + np.einsum("iak,tk->tia", program.forms[..., 1:], thetas))
    if program.product:
        kept &= (forms.prod(axis=2) <= program.tol).all(axis=1)
    else:
        kept &= (forms <= program.tol[:, None]).any(axis=2).all(axis=1)
    return thetas[kept]


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("tight", [False, True])
def test_no_feasible_point_is_above_the_confirmed_bound(product, tight):
    rng = np.random.default_rng([product, tight])
    seen, close, empty, splits = 0, 0, 0, 0
    for _ in range(40 if tight else 120):
        program = random_program(rng, product)
        answer = random_solution(rng, program, tight)
        confirmed = both(program, answer)
        assert confirmed >= answer.bound or confirmed == pytest.approx(answer.bound, rel=1e-14, abs=1e-14)
        empty += (answer.certificate.bound == -INF).sum()
        splits += (answer.certificate.low == -INF).sum()
        thetas = points(rng, program)
        seen += len(thetas)
        if len(thetas):
            reached = (thetas @ program.objective).max()
            assert reached <= confirmed
            close += confirmed - reached < 0.25 * (1 + abs(reached))
    assert seen > 10_000
    assert empty > 5
    assert splits > 20
    assert close > 10 or not tight


def test_the_best_sampled_point_passes_as_theta():
    rng = np.random.default_rng(7)
    for _ in range(30):
        program = random_program(rng, bool(rng.integers(2)))
        answer = random_solution(rng, program, False)
        thetas = points(rng, program)
        if len(thetas):
            theta = thetas[np.argmax(thetas @ program.objective)]
            value = float(program.objective @ theta)
            both(program, dataclasses.replace(answer, status="optimal", theta=theta, value=value))


def mutate(rng, proof):
    """The certificate with one number of one array replaced by a plausible or an implausible one.

    Half of the changed ends keep the form of a cover or a split: the other end, or that of the sibling, goes along.
    """
    name = rng.choice([field.name for field in dataclasses.fields(Certificate) if len(getattr(proof, field.name))])
    array = getattr(proof, name).copy()
    place = rng.integers(len(array))
    if name in INTEGERS:
        array[place] = rng.choice([array[place] - 1, array[place] + 1, rng.integers(-9, 9), -(2**63), 2**63 - 1])
    else:
        array[place] = rng.choice(
            [array[place] * 0.9, array[place] * 1.1, -array[place], rng.normal(), 0.0, -INF, INF, 1e200]
        )
    changed = {name: array}
    if name in ("low", "high") and rng.random() < 0.5:
        other = {"low": "high", "high": "low"}[name]
        before, after = getattr(proof, other), array[place]
        cover = before[place] == -getattr(proof, name)[place]
        siblings = (proof.parent == proof.parent[place]) & (np.arange(len(array)) != place)
        where = place if cover else np.argmax(siblings)
        changed[other] = put(before, where, -after if cover else after)
    return dataclasses.replace(proof, **changed)


def test_a_mutated_certificate_is_refused_or_still_right():
    rng = np.random.default_rng(11)
    refused, passed = 0, 0
    for _ in range(40):
        program = random_program(rng, bool(rng.integers(2)))
        answer = random_solution(rng, program, False)
        reached = (points(rng, program) @ program.objective).max(initial=-INF)
        for _ in range(50):
            proof = mutate(rng, answer.certificate)
            bound = float(np.fmax.reduce(proof.bound))
            changed = dataclasses.replace(answer, certificate=proof, bound=bound)
            try:
                confirmed = verify(program, changed)
            except CertificateError:
                refused += 1
                refusal(program, changed)
            else:
                passed += 1
                assert confirmed >= reached
                assert both(program, changed) >= reached
    assert refused > 500
    assert passed > 50


# --------------------------------------------------------------------------------------------------- numerics


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
    proof = Certificate(
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


# ------------------------------------------------------------------------------------------------------- files


def test_a_certificate_survives_a_file_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(2)
    for number in range(20):
        program = random_program(rng)
        answer = random_solution(rng, program, False)
        file = tmp_path / f"{number}.json"
        answer.certificate.save(file)
        loaded = Certificate.load(file)
        for field in dataclasses.fields(Certificate):
            before, after = getattr(answer.certificate, field.name), getattr(loaded, field.name)
            assert before.dtype == after.dtype
            np.testing.assert_array_equal(before, after)
        again = dataclasses.replace(answer, certificate=loaded)
        assert verify(program, again) == verify(program, answer)


def save(file, change):
    plane().certificate.save(file)
    data = json.loads(file.read_text(encoding="utf-8"))
    change(data)
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("format"),
        lambda data: data.update(format="tensorplan certificate 2"),
        lambda data: data.pop("value"),
        lambda data: data.update(value=None),
        lambda data: data["value"].append("zebra"),
        lambda data: data["index"].append(2**70),
        lambda data: data["index"].append([1, 2]),
        lambda data: data["parent"].append(None),
        lambda data: data["low"].append({}),
    ],
)
def test_a_corrupted_or_foreign_file_is_refused(tmp_path, change):
    with pytest.raises(CertificateError) as error:
        Certificate.load(save(tmp_path / "proof.json", change))
    assert "proof.json" in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\xfe\x00", b"null", b"a,b\n1,2\n"])
def test_a_file_that_is_something_else_is_refused(tmp_path, content):
    file = tmp_path / "proof.json"
    file.write_bytes(content)
    with pytest.raises(CertificateError, match=r"proof\.json"):
        Certificate.load(file)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(value=data["value"][:-1]),
        lambda data: data.update(parent=data["parent"][:-1]),
        lambda data: data.update(value=["0x1p-1", *data["value"][1:]]),
        lambda data: data.update(low=["nan"] * len(data["low"])),
        lambda data: data.update(high=["nan"] * len(data["high"])),
        lambda data: data.update(high=["inf"] * len(data["high"])),
        lambda data: data.update(low=data["high"], high=data["low"]),
    ],
)
def test_a_readable_file_with_wrong_numbers_is_refused_by_verify(tmp_path, change):
    loaded = Certificate.load(save(tmp_path / "proof.json", change))
    refusal(PLANE, dataclasses.replace(plane(), certificate=loaded))
