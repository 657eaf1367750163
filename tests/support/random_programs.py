"""Random programs, and their optimum by exhaustive enumeration with another solver."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import clarabel
import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from tensorplan.optimism import Program


def random_program(rng, *, dims=(1, 6), alternatives=(2, 4), most=256, product=False):
    """A program and a planted θ* that satisfies it (None where nothing was planted)."""
    d = int(rng.integers(dims[0], dims[1] + 1))
    a = int(rng.integers(alternatives[0], alternatives[1] + 1))
    n = int(rng.integers(0, int(math.log(most) / math.log(a)) + 1))
    shape = Shape(d, a, n, int(rng.integers(0, 9)), float(rng.choice([0.5, 1.0, 3.0])))
    planted, constant = bool(rng.random() < 0.7), bool(rng.random() < 0.2)
    return program_of(rng, shape, (rng.choice([0.0, 1.0]), rng.choice([0.0, 0.1])), planted, constant, product)


class Shape(NamedTuple):
    """d parameters, n disjunctions of a alternatives each, m rows, in a ball of that radius."""

    d: int
    a: int
    n: int
    m: int
    radius: float


def program_of(rng, shape, slacks, planted, constant, product=False):
    """The program of random numbers of that shape, and its θ*.

    Rows and forms have slacks of up to so much; without a θ* planted the first form may be a constant.
    """
    d, a, n, m, radius = shape
    star = rng.normal(size=d)
    star *= radius * rng.random() ** 0.5 / np.linalg.norm(star)
    rows, forms = rng.normal(size=(m, d)), rng.normal(size=(n, a, d + 1))
    rhs, tol = rows @ star + slacks[0] * rng.random(m), slacks[1] * rng.random(n)
    if planted:
        choice = rng.integers(a, size=n)
        forms[range(n), choice, 0] = -forms[range(n), choice, 1:] @ star
    elif constant:
        forms[:1, 0, 1:] = 0.0
    return Program(rng.normal(size=d), radius, rows, rhs, forms, tol, product), star if planted else None


@st.composite
def programs(pick):
    """The same for Hypothesis: whatever fails shrinks to few parameters, rows and disjunctions; numbers do not."""
    a = pick(st.integers(2, 4))
    n = pick(st.integers(0, int(math.log(256) / math.log(a))))
    shape = Shape(pick(st.integers(1, 6)), a, n, pick(st.integers(0, 8)), pick(st.sampled_from([0.5, 1.0, 3.0])))
    slacks = pick(st.sampled_from([0.0, 1.0])), pick(st.sampled_from([0.0, 0.1]))
    rng = np.random.default_rng(pick(st.integers(0, 2**32 - 1)))
    return program_of(rng, shape, slacks, planted=pick(st.booleans()), constant=pick(st.booleans()))


def convex_optimum(program, slabs):
    """max <c, θ> over ball, rows and the given slabs (i, a, width) by Clarabel; -inf when empty, NaN when it fails."""
    d = program.dimension
    equal, upper = [], [(row, bound) for row, bound in zip(program.rows, program.rhs, strict=True)]
    for i, a, width in slabs:
        constant, slope = program.forms[i, a, 0], program.forms[i, a, 1:]
        if width == 0:
            equal.append((slope, -constant))
        else:
            upper += [(slope, width - constant), (-slope, width + constant)]
    blocks = [(row, b) for row, b in [*equal, *upper]]
    matrix = np.vstack([*(np.array([row]) for row, _ in blocks), np.zeros((1, d)), -np.eye(d)])
    rhs = np.array([b for _, b in blocks] + [program.radius] + [0.0] * d)
    cones = [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(len(upper)), clarabel.SecondOrderConeT(d + 1)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((d, d)), -program.objective, sparse.csc_matrix(matrix), rhs, cones, settings
    )
    result = solver.solve()
    if "PrimalInfeasible" in str(result.status):
        return -math.inf
    return -result.obj_val if "Solved" in str(result.status) else math.nan


def enumerate_optimum(program):
    """The optimum of a slab program, every assignment of an alternative to each disjunction solved by Clarabel.

    Also whether it succeeded at all of them: more equalities than unknowns, all of them true, are too much for it.
    """
    n, a = len(program.forms), program.alternatives
    optima = [
        convex_optimum(program, [(i, c, program.tol[i]) for i, c in enumerate(choice)])
        for choice in itertools.product(range(a), repeat=n)
    ]
    return max((x for x in optima if not math.isnan(x)), default=-math.inf), not any(map(math.isnan, optima))


def feasible(program, theta, slack=1e-7):
    """Whether θ satisfies the program up to slack, written down anew."""
    values = program.forms[:, :, 0] + program.forms[:, :, 1:] @ theta
    if program.product:
        held = np.abs(values.prod(axis=1)) <= program.tol * (1 + 1e-6) + slack
    else:
        held = np.abs(values).min(axis=1, initial=np.inf) <= program.tol + slack
    return (
        np.linalg.norm(theta) <= program.radius * (1 + 1e-9)
        and (program.rows @ theta <= program.rhs + slack).all()
        and held.all()
    )


def touching_program(rng):
    """A program whose feasible set touches the ball, or whose rows and forms nearly depend on one another."""
    d, a, n, m = (int(rng.integers(*ends)) for ends in ((1, 7), (1, 4), (1, 6), (2, 9)))
    radius = float(rng.choice([1e-6, 1.0, 3.0, 1e6]))
    star = rng.normal(size=d)
    star *= radius / np.linalg.norm(star)
    rows, forms = rng.normal(size=(m, d)), rng.normal(size=(n, a, d + 1))
    rhs = rows @ star + radius * rng.random(m) * rng.choice([0.0, 1.0])
    choice = rng.integers(a, size=n)
    forms[:, :, 0] *= radius
    forms[range(n), choice, 0] = -forms[range(n), choice, 1:] @ star
    hair = rng.choice([0.0, 1.0, -1.0]) * 10.0 ** rng.integers(-16, -5)
    kind = rng.integers(3)
    if kind == 0:  # a row that leaves a point of the ball, or a hair more or less
        rows[0], rhs[0] = -star / radius, -radius * (1 + hair)
    elif kind == 1:
        forms[0, :, 0], forms[0, :, 1:] = -radius * (1 + hair), star / radius
    else:
        rows[1], rhs[1] = -rows[0] + hair * rng.normal(size=d), -rhs[0]
    product = bool(rng.random() < 0.3)
    tol = rng.choice([0.0, 0.1, 1e-6]) * rng.random(n) * radius ** (a if product else 1)
    return Program(rng.normal(size=d) * rng.choice([1e-5, 1.0, 1e5]), radius, rows, rhs, forms, tol, product)
