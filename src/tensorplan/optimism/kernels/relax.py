"""One node: maximise a linear function over the unit ball and a polyhedron, to rounding accuracy, with multipliers.

In the scaled problem the objective c is a unit vector, the ball has radius one, and every row is a range
lo <= <a, x> <= hi with a unit vector a (lo = -inf for a plain inequality, lo = hi for an equality).

For t > 0 let x(t) be the projection of t c onto the polyhedron.  Its norm does not decrease with t, and while the set W
of active rows stays the same,

    x(t) = x0 + t P c,     y(t) = t α - β >= 0,          A_W x0 = b_W,  x0 in the span of W,  P the projector off it,

so that ‖x(t)‖ = 1 at t = sqrt(1 - ‖x0‖²)/‖P c‖.  The projection for a given t comes from the dual active-set method of
Goldfarb and Idnani: start from a set W with y >= 0 (the parent's will do), take a violated row, move along the path on
which its multiplier grows, drop rows whose multiplier reaches zero, until the row is satisfied or proves to contradict
the others.  Then t is corrected, which takes two or three rounds.

Nothing that comes back rests on that reasoning being carried out without error.  The bound is computed from the
multipliers, <c, x> <= b·y + ‖c - Aᵀy‖, and a node is called empty only when b·y + ‖Aᵀy‖ < 0 was found.
"""

from __future__ import annotations

import numpy as np

from tensorplan.optimism.kernels.basis import (
    DEPENDENT,
    back_substitute,
    drop,
    drop_negative,
    fetch,
    place,
    push,
    split,
)
from tensorplan.optimism.kernels.compiled import inlined, kernel
from tensorplan.optimism.kernels.state import (
    COUNT,
    CQ,
    EQUAL,
    GIVEN_UP,
    HI,
    LO,
    PIVOTS,
    ROW,
    SIDE,
    STOP,
    B,
    Desk,
    Integers,
    N,
    Relaxed,
    Rows,
    U,
    W,
    X,
    Y,
    Z,
)
from tensorplan.optimism.kernels.vectors import add, copy, dot, fill, partial_dot

VIOLATED = 1e-11
"""A row is violated when it is missed by more than this (distance, in the unit ball)."""

BLOCKING = 1e-14
"""A multiplier that falls more slowly than this along a step does not block it: that is rounding."""

FALLING = 1e-12
"""A multiplier that falls with t more slowly than this is taken for constant: its zero would be rounding."""

ON_SPHERE = 1e-12
"""‖x0‖² may be above 1 by this much and count as 1."""

BEYOND = 1e-9
"""By how much of t to go past the point where a multiplier vanishes, so that its row is dropped there."""

SETTLED = 1e-13
"""t is settled when it changes by less than this much of itself: a few units of the last place."""

LEAST_T = 1e-3
"""Where a search for a larger t starts; also the largest t where the polyhedron does no more than touch the ball."""

ROUNDS = 100
"""Corrections of t; two or three are usual, and bisection needs 50."""

MOST_PIVOTS = 40
"""Rows that may enter a projection, per dimension and five more: many times what is usual, so only cycling ends it."""

UNIT = 2.3e-16
"""Twice the unit roundoff.  A sum of n products has a relative error, against the sum of their sizes, below n UNIT."""

BOUNDED, EMPTY, STUCK = 0, 1, 2
"""A node problem has a maximum, or no point; a row can neither enter nor be proved to contradict the others."""


@inlined
def find_violated(rows: Rows, desk: Desk, everything: bool, gave: int) -> tuple[int, float, float]:
    """The most violated row that was not given up: its name, its side, and by how much (0 when there is none).

    Ranges and hot rows come first; the others are looked at only when those hold and ``everything`` is wanted.
    """
    basis = desk.basis
    worst, name, side = VIOLATED, 0, 0.0
    for p in range(desk.path[COUNT]):
        f = desk.path[p]
        value = dot(rows.f[f], basis.v[X])
        miss = max(value - desk.ranges[HI, f], desk.ranges[LO, f] - value)
        if miss > worst and not _listed(desk.given_up, gave, -1 - f):
            worst, name, side = miss, -1 - f, 1.0 if value - desk.ranges[HI, f] == miss else -1.0
    for p in range(desk.hot[COUNT]):
        j = desk.hot[p]
        miss = dot(rows.a[j], basis.v[X]) - rows.hi[j]
        if miss > worst and not _listed(desk.given_up, gave, j):
            worst, name, side = miss, j, 1.0
    if side == 0.0 and everything:
        for j in range(len(rows.hi)):
            if not desk.is_hot[j]:
                miss = dot(rows.a[j], basis.v[X]) - rows.hi[j]
                if miss > VIOLATED:
                    desk.is_hot[j] = True
                    desk.hot[desk.hot[COUNT]] = j
                    desk.hot[COUNT] += 1
                    if miss > worst:
                        worst, name, side = miss, j, 1.0
    return name, side, worst if side != 0.0 else 0.0


@kernel
def _listed(names: Integers, count: int, name: int) -> bool:
    found = False
    for i in range(count):
        found = found or names[i] == name
    return found


@inlined
def rounding_error(k: int, d: int, size: float) -> float:
    """What rounding adds at most to b·y + ‖c - Aᵀy‖ with k multipliers, whose terms have that size in all."""
    return (2 * k + d + 8) * UNIT * size


@kernel
def prove_empty(rows: Rows, desk: Desk, k: int) -> bool:
    """Whether b·y + ‖Aᵀy‖ < 0 for the multipliers of the first k entries: then no x in the ball satisfies the rows."""
    basis = desk.basis
    d = len(basis.q)
    fill(basis.v[Z], 0.0, d)
    total, size = 0.0, 0.0
    for i in range(k):
        if basis.v[Y, i] < 0.0 and not basis.names[EQUAL, i]:
            basis.v[Y, i] = 0.0
        total += basis.v[Y, i] * basis.v[B, i]
        size += abs(basis.v[Y, i]) * (abs(basis.v[B, i]) + 1.0)
        fetch(rows, desk, basis.names[ROW, i], basis.v[SIDE, i])
        add(basis.v[Z], basis.v[Y, i], basis.v[N], d)
    return bool(total + np.sqrt(partial_dot(basis.v[Z], basis.v[Z], 0, d)) < -rounding_error(k, d, size))


@inlined
def contradicts(rows: Rows, desk: Desk, k: int) -> bool:
    """Whether row k, a combination of the active rows with the coefficients in w, provably contradicts them.

    Then the multipliers on the desk are the proof; else they are as before.
    """
    basis = desk.basis
    for i in range(k):
        basis.v[U, i] = basis.v[Y, i]
        basis.v[Y, i] = -basis.v[W, i]
    basis.v[Y, k] = 1.0
    proved = prove_empty(rows, desk, k + 1)
    if not proved:
        for i in range(k):
            basis.v[Y, i] = basis.v[U, i]
    return proved


@inlined
def longest_step(desk: Desk, k: int) -> tuple[float, int]:
    """How far y may move along -w until a multiplier vanishes, and which one (inf and -1: none does)."""
    basis = desk.basis
    step, blocking = np.inf, -1
    for i in range(k):
        if basis.v[W, i] > BLOCKING and not basis.names[EQUAL, i]:
            ratio = max(basis.v[Y, i], 0.0) / basis.v[W, i]
            if ratio < step:
                step, blocking = ratio, i
    return step, blocking


@inlined
def enter(rows: Rows, desk: Desk, k: int, name: int, side: float, miss: float) -> tuple[int, int]:
    """Move along the path on which the multiplier of a violated row grows until the row holds: (kind, active rows)."""
    basis = desk.basis
    d = len(basis.q)
    b, equal = fetch(rows, desk, name, side)
    own = 0.0
    while True:
        rest = split(basis, k)
        copy(basis.v[U], basis.v[W], k)
        back_substitute(basis, k, basis.v[W])
        step, blocking = longest_step(desk, k)
        free = rest > DEPENDENT and k < d
        full = miss / (rest * rest) if free else np.inf
        if not free and blocking < 0:
            basis.names[ROW, k], basis.v[SIDE, k], basis.v[B, k], basis.names[EQUAL, k] = (
                name,
                side,
                b,
                equal,
            )
            if contradicts(rows, desk, k):
                return EMPTY, k + 1
            return STUCK, k
        if full < step:
            step, blocking = full, -1
        add(basis.v[Y], -step, basis.v[W], k)
        own += step
        if free:
            add(basis.v[X], -step, basis.v[Z], d)
            miss -= step * rest * rest
        if blocking < 0:
            push(basis, k, name, side, b, equal, own, rest)
            return BOUNDED, k + 1
        drop(basis, k, blocking)
        k -= 1


@kernel
def project(rows: Rows, desk: Desk, k: int, everything: bool) -> tuple[int, int]:
    """Goldfarb and Idnani from the current x, W, y >= 0: (BOUNDED or EMPTY, the number of active rows).

    When EMPTY, the rows and multipliers on the desk, one more than active, prove it.
    """
    gave = 0
    for _ in range(MOST_PIVOTS * (len(desk.basis.q) + 5)):
        if desk.is_hot[STOP]:
            break
        name, side, miss = find_violated(rows, desk, everything, gave)
        if side == 0.0:
            break
        desk.given_up[PIVOTS] += 1
        kind, k = enter(rows, desk, k, name, side, miss)
        if kind == EMPTY:
            return EMPTY, k
        if kind == STUCK:
            if gave == GIVEN_UP:
                break
            desk.given_up[gave] = name
            gave += 1
    return BOUNDED, k


@inlined
def dual_bound(rows: Rows, desk: Desk, k: int) -> tuple[float, float]:
    """b·y + ‖c - Aᵀy‖, rounded up: an upper bound whatever y is (negative ones of inequalities are set to 0).

    The second number is how much rounding up has added.
    """
    basis = desk.basis
    d = len(basis.q)
    copy(rows.c, basis.v[Z], d)
    total, size = 0.0, 1.0
    for i in range(k):
        if basis.v[Y, i] < 0.0 and not basis.names[EQUAL, i]:
            basis.v[Y, i] = 0.0
        total += basis.v[Y, i] * basis.v[B, i]
        size += abs(basis.v[Y, i]) * (abs(basis.v[B, i]) + 1.0)
        fetch(rows, desk, basis.names[ROW, i], basis.v[SIDE, i])
        add(basis.v[Z], -basis.v[Y, i], basis.v[N], d)
    rounding = rounding_error(k, d, size)
    return float(total + np.sqrt(partial_dot(basis.v[Z], basis.v[Z], 0, d)) + rounding), float(rounding)


@inlined
def touch(rows: Rows, desk: Desk, k: int, rest: float, everything: bool) -> tuple[int, int, float]:
    """Solve a node whose polyhedron has no point inside of the ball: (kind, active rows, t); ‖P c‖ = rest at t = 0.

    It is empty, or does no more than touch the ball.  Multipliers grow like 1/t, and so does their rounding; what the
    bound misses by stopping at t > 0 is t ‖P c‖²/2.  Take the t at which the two are equal.
    """
    basis = desk.basis
    if prove_empty(rows, desk, k):
        return EMPTY, k, 0.0
    size = 1.0
    for i in range(k):
        size += abs(basis.v[Y, i]) * (abs(basis.v[B, i]) + 1.0)
    t = min(LEAST_T, np.sqrt(2.0 * rounding_error(k, len(basis.q), size)) / max(rest, DEPENDENT))
    k = drop_negative(basis, k, t)
    kind, k = project(rows, desk, k, everything)
    if kind == BOUNDED:
        place(basis, k, t)
    return kind, k, t


@inlined
def next_event(desk: Desk, k: int, t: float) -> float:
    """The t at which the next multiplier vanishes while x stays where it is; their slopes are left in w."""
    basis = desk.basis
    copy(basis.v[CQ], basis.v[W], k)
    back_substitute(basis, k, basis.v[W])
    event = np.inf
    for i in range(k):
        if basis.v[W, i] < -FALLING and not basis.names[EQUAL, i]:
            event = min(event, t - basis.v[Y, i] / basis.v[W, i])
    return event


@inlined
def between(goal: float, low: float, high: float) -> float:
    """The goal for t if it lies in the bracket, else a point that shrinks it, or enlarges it where it has no end."""
    if goal == 0.0:
        return 0.5 * (low + high) if low > 0.0 else 0.0
    if low < goal < high:
        return goal
    return 2.0 * max(low, LEAST_T) if high == np.inf else 0.5 * (low + high)


@kernel
def relax(rows: Rows, desk: Desk, k: int, t: float, everything: bool) -> Relaxed:
    """Solve the node on the desk from k active rows and a guess of t.

    BOUNDED: x maximises <c, x>, y are multipliers for c, and the bound follows from them.
    EMPTY: the rows and multipliers on the desk prove that there is no x.
    """
    basis = desk.basis
    low, high = 0.0, np.inf
    fixed = False  # whether x is the same for all larger t, as in a linear program
    for _ in range(ROUNDS):
        k = drop_negative(basis, k, t)
        kind, k = project(rows, desk, k, everything)
        if kind == EMPTY:
            return Relaxed(EMPTY, k, -np.inf, 0.0, t)
        square, rest = place(basis, k, t)
        norm = square + t * t * rest * rest
        if norm > 1.0:
            high = min(high, t)
        else:
            low = max(low, t)
        if t == 0.0 and norm > 1.0:
            kind, k, t = touch(rows, desk, k, rest, everything)
            if kind == EMPTY:
                return Relaxed(EMPTY, k, -np.inf, 0.0, t)
            break
        if rest <= DEPENDENT:  # c is in the span of the active rows: x does not move with t
            event = next_event(desk, k, t)
            fixed = event == np.inf and square <= 1.0 + ON_SPHERE
            if fixed:
                break
            goal = event * (1.0 + BEYOND) if square <= 1.0 else 0.0
        elif square >= 1.0:
            goal = 0.0 if square > 1.0 + ON_SPHERE else t
        else:
            goal = np.sqrt(1.0 - square) / rest
        if abs(goal - t) <= SETTLED * t or (high < np.inf and high - low <= SETTLED * high):
            break
        t = between(goal, low, high)
    for i in range(k):
        basis.v[Y, i] = basis.v[W, i] if fixed else basis.v[Y, i] / t if t > 0.0 else 0.0
    bound, rounding = dual_bound(rows, desk, k)
    return Relaxed(BOUNDED, k, bound, rounding, t)
