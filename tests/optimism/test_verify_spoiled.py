"""A certificate, or a solution, in which anything was changed is refused."""

import dataclasses
import math

import numpy as np
import pytest
from certificates import (
    INF,
    NAN,
    PLANE,
    both,
    certificate,
    decimal,
    infeasible,
    plane,
    put,
    refusal,
    right_side,
    solution,
    spoil,
)

from tensorplan.optimism.program import BoundTree, Program


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


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(BoundTree)])
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
