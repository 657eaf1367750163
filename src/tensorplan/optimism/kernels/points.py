"""Feasible points: what satisfies the disjunctions, what may become the best point, and the search for one nearby."""

from __future__ import annotations

import numpy as np

from tensorplan.optimism.kernels.basis import drop_negative
from tensorplan.optimism.kernels.compiled import inlined, kernel
from tensorplan.optimism.kernels.relax import EMPTY, project, relax
from tensorplan.optimism.kernels.state import (
    COUNT,
    HI,
    LO,
    PC,
    REPAIRS,
    SOLVED,
    Desk,
    Disjunctions,
    Relaxed,
    Rows,
    SearchState,
    X,
)
from tensorplan.optimism.kernels.tree import carry, narrow, widen
from tensorplan.optimism.kernels.vectors import dot, partial_dot

SATISFIED = 1e-9
"""A disjunction is satisfied when an alternative is missed by no more than this (distance, in the unit ball).

For a product: when moving one factor by so much would do.
"""

TOLERATED = 10 * SATISFIED
"""By how much a point may miss the rows, the ball and the ranges of its node, which may have been hard to solve."""

AHEAD = 9e-8
"""How far <c, x> may be ahead of what is proven of it: a little less than ``verify`` forgives.

Where rows touch the ball, or nearly depend on one another, a point that misses them by 1e-11 may be that far from any
that does not.
"""

BACK = 0.9 * AHEAD
"""How far a point that was too far ahead may be ahead once it has been moved back: safely less than ``AHEAD``."""

PATIENT, IMPATIENT = 8, 16
"""Rounds after which a repair asks for 1% less than what is allowed, and then for 10% less: factors that move keep on
missing by a little."""


@kernel
def violation(rows: Rows, desk: Desk, disjunctions: Disjunctions, i: int) -> float:
    """By how much x misses disjunction i (0 when satisfied, or decided at the node)."""
    basis = desk.basis
    tol, alternatives = disjunctions.tol[i], disjunctions.alternatives
    first = i * alternatives
    if disjunctions.product:
        total, least = 1.0, np.inf
        for f in range(first, first + alternatives):
            off = abs(dot(rows.f[f], basis.v[X]) - rows.centre[f])
            total *= off * rows.scale[f]
            if rows.moves[f]:
                least = min(least, off)
        if total <= tol:
            return 0.0
        least *= 1.0 - tol / total  # how far that factor would have to move
        return least if least > SATISFIED else 0.0
    least = np.inf
    for f in range(first, first + alternatives):
        if desk.ranges[HI, f] < np.inf:
            return 0.0
        least = min(least, abs(dot(rows.f[f], basis.v[X]) - rows.centre[f]) - tol / rows.scale[f])
    return least if least > SATISFIED else 0.0


@inlined
def is_feasible(rows: Rows, desk: Desk) -> bool:
    """Whether x satisfies the ball, all rows and the ranges of the node."""
    basis = desk.basis
    worst = np.sqrt(partial_dot(basis.v[X], basis.v[X], 0, len(basis.q))) - 1.0
    for p in range(desk.path[COUNT]):
        f = desk.path[p]
        value = dot(rows.f[f], basis.v[X])
        worst = max(worst, value - desk.ranges[HI, f], desk.ranges[LO, f] - value)
    for j in range(len(rows.hi)):
        worst = max(worst, dot(rows.a[j], basis.v[X]) - rows.hi[j])
    return bool(worst <= TOLERATED)


@inlined
def value_in_ball(rows: Rows, desk: Desk) -> tuple[float, float]:
    """<c, x> of x moved into the ball, and the norm by which it is divided for that."""
    basis = desk.basis
    norm = max(1.0, np.sqrt(partial_dot(basis.v[X], basis.v[X], 0, len(basis.q))))
    return dot(rows.c, basis.v[X]) / norm, norm


@inlined
def move_back(state: SearchState, relaxed: Relaxed, excess: float) -> bool:
    """Replace x by x of a smaller t, at which <c, x> is less by the excess; says whether it satisfies everything."""
    rows, desk = state.rows, state.desk
    basis = desk.basis
    slope = partial_dot(basis.v[PC], basis.v[PC], 0, len(basis.q))
    t = relaxed.t - (excess / slope if slope > 0.0 else np.inf)
    if t <= 0.0 or project(rows, desk, drop_negative(basis, relaxed.active, t), True)[0] == EMPTY:
        return False
    missed = 0
    for i in range(len(state.disjunctions.tol)):
        missed += violation(rows, desk, state.disjunctions, i) > 0.0
    return missed == 0


@kernel
def admit(state: SearchState, relaxed: Relaxed, proven: float) -> None:
    """Let x be the best point if it is; one that is ahead of what is proven is moved back.

    The desk holds the point of ``relaxed``, and afterwards maybe another.
    """
    rows, desk, best = state.rows, state.desk, state.best
    basis = desk.basis
    value, norm = value_in_ball(rows, desk)
    if value > proven + AHEAD:
        if not move_back(state, relaxed, value - min(relaxed.bound, proven + BACK)):
            return
        value, norm = value_in_ball(rows, desk)
    if best.value[0] < value <= proven + AHEAD and is_feasible(rows, desk):
        best.value[0] = value
        for h in range(len(basis.q)):
            best.x[h] = basis.v[X, h] / norm


@inlined
def nearest_factor(rows: Rows, desk: Desk, disjunctions: Disjunctions, i: int) -> tuple[int, float]:
    """The form of product i that has the least way to go to 0 (-1: none moves), and the |l_a| that would do for it."""
    alternatives = disjunctions.alternatives
    total, way, pick = 1.0, np.inf, -1
    for f in range(i * alternatives, (i + 1) * alternatives):
        off = abs(dot(rows.f[f], desk.basis.v[X]) - rows.centre[f])
        total *= off * rows.scale[f]
        if rows.moves[f] and off < way:
            way, pick = off, f
    return pick, way * rows.scale[pick] * disjunctions.tol[i] / total


@inlined
def repair(state: SearchState, relaxed: Relaxed, proven: float) -> None:
    """Look for a feasible point of a program of products near x; the desk holds the node before and after.

    Each product that is missed gets a slab for the factor that has the least way to go, as wide as the other factors
    allow where they are now.  They move, so this is repeated, after a while with less than what is allowed.
    """
    rows, desk, disjunctions, undo = state.rows, state.desk, state.disjunctions, state.repair
    n, active = len(disjunctions.tol), relaxed.active
    used, found = 0, False
    for attempt in range(REPAIRS):
        share = 1.0 if attempt < PATIENT else 0.99 if attempt < IMPATIENT else 0.9
        missed = 0
        for i in range(n):
            if violation(rows, desk, disjunctions, i) == 0.0:
                continue
            missed += 1
            pick, width = nearest_factor(rows, desk, disjunctions, i)
            if pick < 0:
                break
            undo.form[used] = pick
            undo.low[used], undo.high[used] = narrow(rows, desk, pick, -width * share, width * share)
            used += 1
        if missed == 0:
            found = True
            break
        relaxed = relax(rows, desk, relaxed.active, relaxed.t, True)
        proven = relaxed.bound - relaxed.rounding
        state.tree.counters[SOLVED] += 1
        if relaxed.kind == EMPTY:
            break
    if found:
        admit(state, relaxed, proven)
    while used > 0:
        used -= 1
        widen(desk, undo.form[used], (undo.low[used], undo.high[used]))
    carry(state.kept, desk.basis, active)
