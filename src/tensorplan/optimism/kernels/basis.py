"""The active rows of one node: an orthonormal basis of their span, kept up to date as rows enter and leave.

The k active rows are A_W = Rᵀ Q with the lines of Q orthonormal and R upper triangular.  In that basis the point of
least norm x0 with A_W x0 = b_W, and what P removes from c, have the coordinates ``xq`` and ``cq``, and the multipliers
at t are R⁻¹ (t cq - xq); see :mod:`tensorplan.optimism.kernels.relax`.
"""

from __future__ import annotations

import numpy as np

from tensorplan.optimism.kernels.compiled import inlined, kernel
from tensorplan.optimism.kernels.state import Desk, Rows
from tensorplan.optimism.kernels.vectors import Vector, add, copy, divide, fill, multiply, partial_dot, rotate

DEPENDENT = 1e-9
"""A row whose part outside of the span of the active rows is shorter than this counts as dependent on them."""

CANCELLED = 0.1
"""When a unit vector's part outside of the span is shorter, much has cancelled: a second pass removes what is left."""

NEGATIVE = 1e-13
"""A multiplier is negative when it is below minus this: what is nearer to 0 is rounding."""


@kernel
def dot(a: Vector, b: Vector) -> float:
    """<a, b> of two vectors of b's length or longer."""
    return partial_dot(a, b, 0, len(b))


@inlined
def clear(rows: Rows, desk: Desk) -> None:
    """No active rows: x0 = 0 and P c = c."""
    d = len(desk.x)
    copy(rows.c, desk.pc, d)
    fill(desk.x0, 0.0, d)


@kernel
def push(desk: Desk, k: int, row: int, side: float, b: float, equal: bool, y: float, norm: float) -> None:
    """Make the row in n the k-th active one; u holds its coordinates in the basis, z / norm the new direction."""
    d = len(desk.x)
    for i in range(k):
        desk.r[i, k] = desk.u[i]
    desk.r[k, k] = norm
    divide(desk.z, norm, desk.q[k], d)
    desk.cq[k] = dot(desk.q[k], desk.pc)
    desk.xq[k] = (b - partial_dot(desk.u, desk.xq, 0, k)) / norm
    add(desk.pc, -desk.cq[k], desk.q[k], d)
    add(desk.x0, desk.xq[k], desk.q[k], d)
    desk.row[k], desk.side[k], desk.b[k], desk.equal[k], desk.y[k] = row, side, b, equal, y


@kernel
def drop(desk: Desk, k: int, j: int) -> None:
    """Take the j-th of k active rows out, and rotate the triangle back into shape."""
    q, r = desk.q, desk.r
    d = len(desk.x)
    for i in range(j, k - 1):
        desk.row[i], desk.side[i], desk.b[i] = desk.row[i + 1], desk.side[i + 1], desk.b[i + 1]
        desk.equal[i], desk.y[i] = desk.equal[i + 1], desk.y[i + 1]
        for h in range(i + 2):
            r[h, i] = r[h, i + 1]
        rho = np.sqrt(r[i, i] * r[i, i] + r[i + 1, i] * r[i + 1, i])  # unit vectors: nothing over- or underflows
        cos, sin = r[i, i] / rho, r[i + 1, i] / rho
        r[i, i] = rho
        r[i + 1, i] = 0.0
        rotate(r[i], r[i + 1], cos, sin, i + 2, k)
        rotate(q[i], q[i + 1], cos, sin, 0, d)
        top, low = desk.cq[i], desk.cq[i + 1]
        desk.cq[i], desk.cq[i + 1] = cos * top + sin * low, cos * low - sin * top
        top, low = desk.xq[i], desk.xq[i + 1]
        desk.xq[i], desk.xq[i + 1] = cos * top + sin * low, cos * low - sin * top
    add(desk.pc, desk.cq[k - 1], q[k - 1], d)
    add(desk.x0, -desk.xq[k - 1], q[k - 1], d)


@kernel
def split(desk: Desk, k: int) -> float:
    """Split n into its part in the span (coordinates u) and the rest (z); returns the length of the rest."""
    d = len(desk.x)
    copy(desk.n, desk.z, d)
    for i in range(k):
        desk.u[i] = 0.0
    rest = 1.0
    for _ in range(2):
        for i in range(k):
            s = partial_dot(desk.q[i], desk.z, 0, d)
            desk.u[i] += s
            add(desk.z, -s, desk.q[i], d)
        rest = np.sqrt(partial_dot(desk.z, desk.z, 0, d))
        if rest > CANCELLED:
            break
    return rest


@kernel
def back_substitute(desk: Desk, k: int, v: Vector) -> None:
    """v <- R^{-1} v."""
    for i in range(k - 1, -1, -1):
        v[i] = (v[i] - partial_dot(desk.r[i], v, i + 1, k)) / desk.r[i, i]


@kernel
def place(desk: Desk, k: int, t: float) -> tuple[float, float]:
    """x(t) and y(t) for the active rows as they are; returns ‖x0‖² and ‖P c‖."""
    d = len(desk.x)
    copy(desk.x0, desk.x, d)
    add(desk.x, t, desk.pc, d)
    for i in range(k):
        desk.y[i] = t * desk.cq[i] - desk.xq[i]
    back_substitute(desk, k, desk.y)
    return dot(desk.x0, desk.x0), np.sqrt(dot(desk.pc, desk.pc))


@kernel
def fetch(rows: Rows, desk: Desk, name: int, side: float) -> tuple[float, bool]:
    """Put side * row into n; returns side * rhs and whether the row is an equality."""
    d = len(desk.x)
    if name >= 0:
        copy(rows.a[name], desk.n, d)
        return rows.hi[name], False
    f = -1 - name
    multiply(rows.f[f], side, desk.n, d)
    return desk.hi[f] if side > 0 else -desk.lo[f], desk.lo[f] == desk.hi[f]


@kernel
def drop_negative(desk: Desk, k: int, t: float) -> int:
    """Take rows out until every multiplier at t is >= 0; returns how many are left, x and y placed."""
    while True:
        place(desk, k, t)
        low, j = -NEGATIVE, -1
        for i in range(k):
            if desk.y[i] < low and not desk.equal[i]:
                low, j = desk.y[i], i
        if j < 0:
            return k
        drop(desk, k, j)
        k -= 1
