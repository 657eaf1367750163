"""Certificates written down by hand, and verified twice: in floating point and in fractions."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from tensorplan.optimism.program import BoundTree, CertificateError, Program, Solution
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
    return BoundTree(
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
