"""The checker on certificates made by hand: balls, rows, slabs, products, splits."""

import dataclasses
import math

import numpy as np
import pytest
from certificates import INF, NAN, PLANE, both, certificate, infeasible, plane, put, refusal, solution, spoil

from tensorplan.optimism.program import Program

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
        proof = plane().certificate
        assert both(PLANE, spoil(plane(), {"low": put(proof.low, 0, low), "high": put(proof.high, 0, high)})) > 1.25


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
