"""The active rows of one node: an orthonormal basis of their span, kept up to date as rows enter and leave.

The k active rows are A_W = Rᵀ Q with the lines of Q orthonormal and R upper triangular.  In that basis the point of
least norm x0 with A_W x0 = b_W, and what P removes from c, have the coordinates ``xq`` and ``cq``, and the multipliers
at t are R⁻¹ (t cq - xq); see :mod:`tensorplan.optimism.kernels.relax`.
"""

from __future__ import annotations

import numpy as np

from tensorplan.optimism.kernels.compiled import inlined, kernel
from tensorplan.optimism.kernels.state import (
    CQ,
    EQUAL,
    HI,
    LO,
    PC,
    ROW,
    SIDE,
    X0,
    XQ,
    B,
    Basis,
    Desk,
    N,
    Rows,
    U,
    X,
    Y,
    Z,
)
from tensorplan.optimism.kernels.vectors import Vector, add, copy, divide, dot, fill, multiply, partial_dot, rotate

DEPENDENT = 1e-9
"""A row whose part outside of the span of the active rows is shorter than this counts as dependent on them."""

CANCELLED = 0.1
"""When a unit vector's part outside of the span is shorter, much has cancelled: a second pass removes what is left."""

NEGATIVE = 1e-13
"""A multiplier is negative when it is below minus this: what is nearer to 0 is rounding."""


@inlined
def clear(rows: Rows, desk: Desk) -> None:
    """No active rows: x0 = 0 and P c = c."""
    basis = desk.basis
    d = len(basis.q)
    copy(rows.c, basis.v[PC], d)
    fill(basis.v[X0], 0.0, d)


@kernel
def push(basis: Basis, k: int, row: int, side: float, b: float, equal: bool, y: float, norm: float) -> None:
    """Make the row in n the k-th active one; u holds its coordinates in the basis, z / norm the new direction."""
    d = len(basis.q)
    for i in range(k):
        basis.r[i, k] = basis.v[U, i]
    basis.r[k, k] = norm
    divide(basis.v[Z], norm, basis.q[k], d)
    basis.v[CQ, k] = dot(basis.q[k], basis.v[PC])
    basis.v[XQ, k] = (b - partial_dot(basis.v[U], basis.v[XQ], 0, k)) / norm
    add(basis.v[PC], -basis.v[CQ, k], basis.q[k], d)
    add(basis.v[X0], basis.v[XQ, k], basis.q[k], d)
    basis.names[ROW, k], basis.v[SIDE, k], basis.v[B, k], basis.names[EQUAL, k], basis.v[Y, k] = row, side, b, equal, y


@kernel
def drop(basis: Basis, k: int, j: int) -> None:
    """Take the j-th of k active rows out, and rotate the triangle back into shape."""
    q, r, v, names = basis.q, basis.r, basis.v, basis.names
    d = len(basis.q)
    for i in range(j, k - 1):
        names[ROW, i], names[EQUAL, i] = names[ROW, i + 1], names[EQUAL, i + 1]
        v[SIDE, i], v[B, i], v[Y, i] = v[SIDE, i + 1], v[B, i + 1], v[Y, i + 1]
        for h in range(i + 2):
            r[h, i] = r[h, i + 1]
        rho = np.sqrt(r[i, i] * r[i, i] + r[i + 1, i] * r[i + 1, i])  # unit vectors: nothing over- or underflows
        cos, sin = r[i, i] / rho, r[i + 1, i] / rho
        r[i, i] = rho
        r[i + 1, i] = 0.0
        rotate(r[i], r[i + 1], cos, sin, i + 2, k)
        rotate(q[i], q[i + 1], cos, sin, 0, d)
        top, low = v[CQ, i], v[CQ, i + 1]
        v[CQ, i], v[CQ, i + 1] = cos * top + sin * low, cos * low - sin * top
        top, low = v[XQ, i], v[XQ, i + 1]
        v[XQ, i], v[XQ, i + 1] = cos * top + sin * low, cos * low - sin * top
    add(v[PC], v[CQ, k - 1], q[k - 1], d)
    add(v[X0], -v[XQ, k - 1], q[k - 1], d)


@kernel
def split(basis: Basis, k: int) -> float:
    """Split n into its part in the span (coordinates u) and the rest (z); returns the length of the rest."""
    d = len(basis.q)
    copy(basis.v[N], basis.v[Z], d)
    for i in range(k):
        basis.v[U, i] = 0.0
    rest = 1.0
    for _ in range(2):
        for i in range(k):
            s = partial_dot(basis.q[i], basis.v[Z], 0, d)
            basis.v[U, i] += s
            add(basis.v[Z], -s, basis.q[i], d)
        rest = np.sqrt(partial_dot(basis.v[Z], basis.v[Z], 0, d))
        if rest > CANCELLED:
            break
    return rest


@kernel
def back_substitute(basis: Basis, k: int, v: Vector) -> None:
    """v <- R^{-1} v."""
    for i in range(k - 1, -1, -1):
        v[i] = (v[i] - partial_dot(basis.r[i], v, i + 1, k)) / basis.r[i, i]


@kernel
def place(basis: Basis, k: int, t: float) -> tuple[float, float]:
    """x(t) and y(t) for the active rows as they are; returns ‖x0‖² and ‖P c‖."""
    d = len(basis.q)
    copy(basis.v[X0], basis.v[X], d)
    add(basis.v[X], t, basis.v[PC], d)
    for i in range(k):
        basis.v[Y, i] = t * basis.v[CQ, i] - basis.v[XQ, i]
    back_substitute(basis, k, basis.v[Y])
    square = partial_dot(basis.v[X0], basis.v[X0], 0, d)
    return square, np.sqrt(partial_dot(basis.v[PC], basis.v[PC], 0, d))


@kernel
def fetch(rows: Rows, desk: Desk, name: int, side: float) -> tuple[float, bool]:
    """Put side * row into n; returns side * rhs and whether the row is an equality."""
    basis = desk.basis
    d = len(basis.q)
    if name >= 0:
        copy(rows.a[name], basis.v[N], d)
        return rows.hi[name], False
    f = -1 - name
    multiply(rows.f[f], side, basis.v[N], d)
    return desk.ranges[HI, f] if side > 0 else -desk.ranges[LO, f], desk.ranges[LO, f] == desk.ranges[HI, f]


@kernel
def drop_negative(basis: Basis, k: int, t: float) -> int:
    """Take rows out until every multiplier at t is >= 0; returns how many are left, x and y placed."""
    while True:
        place(basis, k, t)
        low, j = -NEGATIVE, -1
        for i in range(k):
            if basis.v[Y, i] < low and not basis.names[EQUAL, i]:
                low, j = basis.v[Y, i], i
        if j < 0:
            return k
        drop(basis, k, j)
        k -= 1
