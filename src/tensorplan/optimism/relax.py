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

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

VIOLATED = 1e-11
"""A row is violated when it is missed by more than this (distance, in the unit ball)."""

DEPENDENT = 1e-9
"""A row whose part outside of the span of the active rows is shorter than this counts as dependent on them."""

UNIT = 2.3e-16
"""Twice the unit roundoff.  A sum of n products has a relative error, against the sum of their sizes, below n UNIT."""

BOUNDED, EMPTY = 0, 1


_COMPILED = (Path(__file__).parent / name for name in ("relax.py", "tree.py", "branch.py", "search.py"))
_STAMP = "".join(hashlib.sha256(path.read_bytes()).hexdigest() for path in _COMPILED)


def compiled(function: F) -> F:
    """The function, compiled when first called; the machine code is kept on disk.

    Numba would keep code that calls into another file when only that file changes, so the stamp by which it recognises
    what it has kept is a hash of all files with compiled functions.

    Sums may be taken in any order, else they could not be vectorised.  So that the order is always the same, no
    innermost loop both sums and stores: such a loop decides when it is entered whether it runs vectorised, by how near
    in memory the arrays are that it reads and writes.
    """
    options: Any = {"error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}, "nogil": True}
    try:
        dispatcher: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write to: compile in every process
        return cast(F, numba.njit(**options)(function))
    kept = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if kept is not None:  # None when the user turned the compiler off
        kept._source_stamp = _STAMP
    return cast(F, dispatcher)


class Rows(NamedTuple):
    """The scaled program.  Row j >= 0 is a plain row; row -1 - f is form f, whose range the node says."""

    c: NDArray[np.float64]
    """The objective, a unit vector (or zero), (d,)."""
    a: NDArray[np.float64]
    """Plain rows, (m, d), unit vectors (or zero)."""
    hi: NDArray[np.float64]
    """(m,)."""
    f: NDArray[np.float64]
    """Directions of the forms, (n A, d), unit vectors (or zero)."""
    centre: NDArray[np.float64]
    """Form k is scale_k (<f_k, x> - centre_k) in the program's units, (n A,)."""
    scale: NDArray[np.float64]
    """(n A,); for a constant form its absolute value (1 when that is 0)."""
    moves: NDArray[np.bool_]
    """Whether a form depends on x, (n A,)."""


class Desk(NamedTuple):
    """Working memory of one node problem; k active rows."""

    q: NDArray[np.float64]
    """Orthonormal basis of the span of the active rows, one per line, (d, d)."""
    r: NDArray[np.float64]
    """Upper triangular: active row j is Σ_i r[i, j] q[i], (d, d)."""
    row: NDArray[np.int64]
    """The active rows, (d + 1,)."""
    side: NDArray[np.float64]
    """+1 when the row is active at hi, -1 at lo, (d + 1,)."""
    equal: NDArray[np.bool_]
    """Whether it is an equality, whose multiplier may have any sign, (d + 1,)."""
    b: NDArray[np.float64]
    """side * rhs, (d + 1,)."""
    y: NDArray[np.float64]
    """Multipliers, (d + 1,)."""
    x: NDArray[np.float64]
    """The point, (d,)."""
    cq: NDArray[np.float64]
    """Coordinates of c in the basis, (d + 1,)."""
    xq: NDArray[np.float64]
    """Coordinates of x0 in the basis, (d + 1,)."""
    pc: NDArray[np.float64]
    """P c, (d,)."""
    x0: NDArray[np.float64]
    """The point of least norm with all active rows tight, (d,)."""
    u: NDArray[np.float64]
    """Scratch, (d + 1,)."""
    w: NDArray[np.float64]
    """Scratch, (d + 1,)."""
    z: NDArray[np.float64]
    """Scratch, (d + 1,)."""
    n: NDArray[np.float64]
    """Scratch: the row that is being added, (d,)."""
    lo: NDArray[np.float64]
    """lo <= <f_k, x> is asked for at this node, (n A,)."""
    hi: NDArray[np.float64]
    """<f_k, x> <= hi is asked for at this node, (n A,)."""
    path: NDArray[np.int64]
    """The forms with a range at this node; path[-1] says how many, (n A + 1,)."""
    hot: NDArray[np.int64]
    """Plain rows that were violated somewhere, looked at first; hot[-1] says how many, (m + 1,)."""
    is_hot: NDArray[np.bool_]
    """Which those are; is_hot[-1], which another thread may set, says whether to leave off at once, (m + 1,).

    That is no array of its own because the desk is passed by value: each of its arrays slows small programs by 3%.
    """


def make_desk(d: int, forms: int, rows: int) -> Desk:
    """Working memory for a program of that size."""
    vector = [np.zeros(d + 1) for _ in range(8)]
    return Desk(
        q=np.zeros((d, d)),
        r=np.zeros((d, d)),
        row=np.zeros(d + 1, dtype=np.int64),
        side=vector[0],
        equal=np.zeros(d + 1, dtype=np.bool_),
        b=vector[1],
        y=vector[2],
        x=np.zeros(d),
        cq=vector[3],
        xq=vector[4],
        pc=np.zeros(d),
        x0=np.zeros(d),
        u=vector[5],
        w=vector[6],
        z=vector[7],
        n=np.zeros(d),
        lo=np.full(forms, -np.inf),
        hi=np.full(forms, np.inf),
        path=np.zeros(forms + 1, dtype=np.int64),
        hot=np.zeros(rows + 1, dtype=np.int64),
        is_hot=np.zeros(rows + 1, dtype=np.bool_),
    )


@compiled
def dot(a: Any, b: Any) -> float:
    """<a, b> of two vectors of b's length or longer."""
    total = 0.0
    for i in range(len(b)):
        total += a[i] * b[i]
    return total


@compiled
def clear(rows: Rows, desk: Desk) -> None:
    """No active rows: x0 = 0 and P c = c."""
    for h in range(len(desk.x)):
        desk.pc[h] = rows.c[h]
        desk.x0[h] = 0.0


@compiled
def push(desk: Desk, k: int, row: int, side: float, b: float, equal: bool, y: float, norm: float) -> None:
    """Make the row in n the k-th active one; u holds its coordinates in the basis, z / norm the new direction."""
    d = len(desk.x)
    rest, along = b, 0.0
    for i in range(k):
        desk.r[i, k] = desk.u[i]
    for i in range(k):
        rest -= desk.u[i] * desk.xq[i]
    desk.r[k, k] = norm
    for h in range(d):
        desk.q[k, h] = desk.z[h] / norm
    for h in range(d):
        along += desk.q[k, h] * desk.pc[h]
    desk.cq[k], desk.xq[k] = along, rest / norm
    for h in range(d):
        desk.pc[h] -= along * desk.q[k, h]
        desk.x0[h] += desk.xq[k] * desk.q[k, h]
    desk.row[k], desk.side[k], desk.b[k], desk.equal[k], desk.y[k] = row, side, b, equal, y


@compiled
def drop(desk: Desk, k: int, j: int) -> None:
    """Take the j-th of k active rows out, and rotate the triangle back into shape."""
    q, r = desk.q, desk.r
    d = len(desk.x)
    for i in range(j, k - 1):
        desk.row[i], desk.side[i], desk.b[i] = desk.row[i + 1], desk.side[i + 1], desk.b[i + 1]
        desk.equal[i], desk.y[i] = desk.equal[i + 1], desk.y[i + 1]
        for h in range(i + 2):
            r[h, i] = r[h, i + 1]
        rho = np.hypot(r[i, i], r[i + 1, i])
        cos, sin = r[i, i] / rho, r[i + 1, i] / rho
        r[i, i] = rho
        r[i + 1, i] = 0.0
        for h in range(i + 2, k):
            top, low = r[i, h], r[i + 1, h]
            r[i, h] = cos * top + sin * low
            r[i + 1, h] = cos * low - sin * top
        for h in range(d):
            top, low = q[i, h], q[i + 1, h]
            q[i, h] = cos * top + sin * low
            q[i + 1, h] = cos * low - sin * top
        top, low = desk.cq[i], desk.cq[i + 1]
        desk.cq[i], desk.cq[i + 1] = cos * top + sin * low, cos * low - sin * top
        top, low = desk.xq[i], desk.xq[i + 1]
        desk.xq[i], desk.xq[i + 1] = cos * top + sin * low, cos * low - sin * top
    for h in range(d):
        desk.pc[h] += desk.cq[k - 1] * q[k - 1, h]
        desk.x0[h] -= desk.xq[k - 1] * q[k - 1, h]


@compiled
def split(desk: Desk, k: int) -> float:
    """Split n into its part in the span (coordinates u) and the rest (z); returns the length of the rest."""
    d = len(desk.x)
    for i in range(d):
        desk.z[i] = desk.n[i]
    for i in range(k):
        desk.u[i] = 0.0
    rest = 1.0
    for _ in range(2):
        for i in range(k):
            s = 0.0
            for h in range(d):
                s += desk.q[i, h] * desk.z[h]
            desk.u[i] += s
            for h in range(d):
                desk.z[h] -= s * desk.q[i, h]
        rest = np.sqrt(_square(desk.z, d))
        if rest > 0.1:  # else much has cancelled, and a second pass removes what rounding left
            break
    return rest


@compiled
def _square(z: Any, d: int) -> float:
    total = 0.0
    for i in range(d):
        total += z[i] * z[i]
    return total


@compiled
def back_substitute(desk: Desk, k: int, v: Any) -> None:
    """v <- R^{-1} v."""
    for i in range(k - 1, -1, -1):
        s = v[i]
        for h in range(i + 1, k):
            s -= desk.r[i, h] * v[h]
        v[i] = s / desk.r[i, i]


@compiled
def place(desk: Desk, k: int, t: float) -> tuple[float, float]:
    """x(t) and y(t) for the active rows as they are; returns ‖x0‖² and ‖P c‖."""
    d = len(desk.x)
    for h in range(d):
        desk.x[h] = desk.x0[h] + t * desk.pc[h]
    for i in range(k):
        desk.y[i] = t * desk.cq[i] - desk.xq[i]
    back_substitute(desk, k, desk.y)
    return _square(desk.x0, d), np.sqrt(_square(desk.pc, d))


@compiled
def find_violated(rows: Rows, desk: Desk, everything: bool, given_up: Any, gave: int) -> tuple[int, float, float]:
    """The most violated row: its name, its side, and by how much (0 when there is none).

    Ranges and hot rows come first; the others are looked at only when those hold and ``everything`` is wanted.
    """
    worst, name, side = VIOLATED, 0, 0.0
    for p in range(desk.path[-1]):
        f = desk.path[p]
        value = dot(rows.f[f], desk.x)
        miss = max(value - desk.hi[f], desk.lo[f] - value)
        if miss > worst and not _listed(given_up, gave, -1 - f):
            worst, name, side = miss, -1 - f, 1.0 if value - desk.hi[f] == miss else -1.0
    for p in range(desk.hot[-1]):
        j = desk.hot[p]
        miss = dot(rows.a[j], desk.x) - rows.hi[j]
        if miss > worst and not _listed(given_up, gave, j):
            worst, name, side = miss, j, 1.0
    if side == 0.0 and everything:
        for j in range(len(rows.hi)):
            if not desk.is_hot[j]:
                miss = dot(rows.a[j], desk.x) - rows.hi[j]
                if miss > VIOLATED:
                    desk.is_hot[j] = True
                    desk.hot[desk.hot[-1]] = j
                    desk.hot[-1] += 1
                    if miss > worst:
                        worst, name, side = miss, j, 1.0
    return name, side, worst if side != 0.0 else 0.0


@compiled
def _listed(names: Any, count: int, name: int) -> bool:
    found = False
    for i in range(count):
        found = found or names[i] == name
    return found


@compiled
def fetch(rows: Rows, desk: Desk, name: int, side: float) -> tuple[float, bool]:
    """Put side * row into n; returns side * rhs and whether the row is an equality."""
    d = len(desk.x)
    if name >= 0:
        for h in range(d):
            desk.n[h] = rows.a[name, h]
        return rows.hi[name], False
    f = -1 - name
    for h in range(d):
        desk.n[h] = side * rows.f[f, h]
    return desk.hi[f] if side > 0 else -desk.lo[f], desk.lo[f] == desk.hi[f]


@compiled
def prove_empty(rows: Rows, desk: Desk, k: int) -> bool:
    """Whether b·y + ‖Aᵀy‖ < 0 for the multipliers of the first k entries: then no x in the ball satisfies the rows."""
    d = len(desk.x)
    for h in range(d):
        desk.z[h] = 0.0
    total, size = 0.0, 0.0
    for i in range(k):
        if desk.y[i] < 0.0 and not desk.equal[i]:
            desk.y[i] = 0.0
        total += desk.y[i] * desk.b[i]
        size += abs(desk.y[i]) * (abs(desk.b[i]) + 1.0)
        fetch(rows, desk, desk.row[i], desk.side[i])
        for h in range(d):
            desk.z[h] += desk.y[i] * desk.n[h]
    return bool(total + np.sqrt(_square(desk.z, d)) < -(2 * k + d + 8) * UNIT * size)


@compiled
def project(rows: Rows, desk: Desk, k: int, everything: bool) -> tuple[int, int]:
    """Goldfarb and Idnani from the current x, W, y >= 0: (BOUNDED or EMPTY, the number of active rows).

    When EMPTY, the rows and multipliers on the desk, one more than active, prove it.
    """
    d = len(desk.x)
    given_up = np.zeros(16, dtype=np.int64)
    gave = 0
    for _ in range(40 * (d + 5)):
        if desk.is_hot[-1]:
            break
        name, side, miss = find_violated(rows, desk, everything, given_up, gave)
        if side == 0.0:
            return BOUNDED, k
        b, equal = fetch(rows, desk, name, side)
        own = 0.0
        while True:
            rest = split(desk, k)
            for i in range(k):
                desk.w[i] = desk.u[i]
            back_substitute(desk, k, desk.w)
            step, blocking = np.inf, -1
            for i in range(k):
                if desk.w[i] > 1e-14 and not desk.equal[i]:
                    ratio = max(desk.y[i], 0.0) / desk.w[i]
                    if ratio < step:
                        step, blocking = ratio, i
            free = rest > DEPENDENT and k < d
            full = miss / (rest * rest) if free else np.inf
            if not free and blocking < 0:
                for i in range(k):
                    desk.u[i] = desk.y[i]  # kept in case that the proof fails
                    desk.y[i] = -desk.w[i]
                desk.row[k], desk.side[k], desk.b[k], desk.equal[k], desk.y[k] = name, side, b, equal, 1.0
                if prove_empty(rows, desk, k + 1):
                    return EMPTY, k + 1
                for i in range(k):
                    desk.y[i] = desk.u[i]
                if gave == len(given_up):
                    return BOUNDED, k
                given_up[gave] = name
                gave += 1
                break
            if full < step:
                step, blocking = full, -1
            for i in range(k):
                desk.y[i] -= step * desk.w[i]
            own += step
            if free:
                for h in range(d):
                    desk.x[h] -= step * desk.z[h]
                miss -= step * rest * rest
            if blocking < 0:
                push(desk, k, name, side, b, equal, own, rest)
                k += 1
                break
            drop(desk, k, blocking)
            k -= 1
    return BOUNDED, k


@compiled
def drop_negative(desk: Desk, k: int, t: float) -> int:
    """Take rows out until every multiplier at t is >= 0; returns how many are left, x and y placed."""
    while True:
        place(desk, k, t)
        low, j = -1e-13, -1
        for i in range(k):
            if desk.y[i] < low and not desk.equal[i]:
                low, j = desk.y[i], i
        if j < 0:
            return k
        drop(desk, k, j)
        k -= 1


@compiled
def dual_bound(rows: Rows, desk: Desk, k: int) -> tuple[float, float]:
    """b·y + ‖c - Aᵀy‖, rounded up: an upper bound whatever y is (negative ones of inequalities are set to 0).

    The second number is how much rounding up has added.
    """
    d = len(desk.x)
    for h in range(d):
        desk.z[h] = rows.c[h]
    total, size = 0.0, 1.0
    for i in range(k):
        if desk.y[i] < 0.0 and not desk.equal[i]:
            desk.y[i] = 0.0
        total += desk.y[i] * desk.b[i]
        size += abs(desk.y[i]) * (abs(desk.b[i]) + 1.0)
        fetch(rows, desk, desk.row[i], desk.side[i])
        for h in range(d):
            desk.z[h] -= desk.y[i] * desk.n[h]
    rounding = (2 * k + d + 8) * UNIT * size
    return float(total + np.sqrt(_square(desk.z, d)) + rounding), float(rounding)


@compiled
def relax(rows: Rows, desk: Desk, k: int, t: float, everything: bool) -> tuple[int, int, float, float, float]:
    """Solve the node on the desk from k active rows and a guess of t: (kind, active rows, bound, rounding, t).

    BOUNDED: x maximises <c, x>, y are multipliers for c, and the bound follows from them, so much of it rounding.
    EMPTY: the rows and multipliers on the desk prove that there is no x, and the bound is -inf.
    """
    d, low, high = len(desk.x), 0.0, np.inf
    lp = False
    for _ in range(100):
        k = drop_negative(desk, k, t)
        kind, k = project(rows, desk, k, everything)
        if kind == EMPTY:
            return EMPTY, k, -np.inf, 0.0, t
        square, rest = place(desk, k, t)
        norm = square + t * t * rest * rest
        if norm > 1.0:
            high = min(high, t)
        else:
            low = max(low, t)
        if t == 0.0 and norm > 1.0:
            if prove_empty(rows, desk, k):
                return EMPTY, k, -np.inf, 0.0, t
            # The polyhedron does no more than touch the ball.  Multipliers grow like 1/t, and so does their rounding;
            # what the bound misses by stopping at t > 0 is t ‖P c‖²/2.  Take the t at which the two are equal.
            size = 1.0
            for i in range(k):
                size += abs(desk.y[i]) * (abs(desk.b[i]) + 1.0)
            t = min(1e-3, np.sqrt(2.0 * (2 * k + d + 8) * UNIT * size) / max(rest, 1e-9))
            k = drop_negative(desk, k, t)
            kind, k = project(rows, desk, k, everything)
            if kind == EMPTY:
                return EMPTY, k, -np.inf, 0.0, t
            place(desk, k, t)
            break
        if rest <= DEPENDENT:  # c is in the span of the active rows: x does not move with t
            for i in range(k):
                desk.w[i] = desk.cq[i]
            back_substitute(desk, k, desk.w)
            event = np.inf
            for i in range(k):
                if desk.w[i] < -1e-12 and not desk.equal[i]:
                    event = min(event, t - desk.y[i] / desk.w[i])
            if event == np.inf and square <= 1.0 + 1e-12:
                lp = True
                break
            goal = event * (1.0 + 1e-9) if square <= 1.0 else 0.0
        elif square >= 1.0:
            goal = 0.0 if square > 1.0 + 1e-12 else t
        else:
            goal = np.sqrt(1.0 - square) / rest
        if abs(goal - t) <= 1e-13 * t or (high < np.inf and high - low <= 1e-13 * high):
            break
        if goal == 0.0:
            if low > 0.0:
                goal = 0.5 * (low + high)
        elif not low < goal < high:
            goal = 2.0 * max(low, 1e-3) if high == np.inf else 0.5 * (low + high)
        t = goal
    for i in range(k):
        desk.y[i] = desk.w[i] if lp else desk.y[i] / t if t > 0.0 else 0.0
    bound, rounding = dual_bound(rows, desk, k)
    return BOUNDED, k, bound, rounding, t
