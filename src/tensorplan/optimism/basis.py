"""The active rows of one node: an orthonormal basis of their span, kept up to date as rows enter and leave.

The k active rows are A_W = Rᵀ Q with the lines of Q orthonormal and R upper triangular.  In that basis the point of
least norm x0 with A_W x0 = b_W, and what P removes from c, have the coordinates ``xq`` and ``cq``, and the multipliers
at t are R⁻¹ (t cq - xq); see :mod:`tensorplan.optimism.relax`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorplan.optimism.compiled import compiled, inlined
from tensorplan.optimism.state import Desk, Rows

DEPENDENT = 1e-9
"""A row whose part outside of the span of the active rows is shorter than this counts as dependent on them."""

CANCELLED = 0.1
"""When a unit vector's part outside of the span is shorter, much has cancelled: a second pass removes what is left."""

NEGATIVE = 1e-13
"""A multiplier is negative when it is below minus this: what is nearer to 0 is rounding."""


@compiled
def dot(a: Any, b: Any) -> float:
    """<a, b> of two vectors of b's length or longer."""
    total = 0.0
    for i in range(len(b)):
        total += a[i] * b[i]
    return total


@inlined
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
        rest = np.sqrt(sum_of_squares(desk.z, d))
        if rest > CANCELLED:
            break
    return rest


@compiled
def sum_of_squares(z: Any, d: int) -> float:
    """Σ z_i² of the first d entries."""
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
    return sum_of_squares(desk.x0, d), np.sqrt(sum_of_squares(desk.pc, d))


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
