"""Random programs, and trees over them with multipliers that prove something or nothing."""

import math

import numpy as np
from certificates import INF, certificate, decimal, right_side, solution

from tensorplan.optimism.program import Program


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
