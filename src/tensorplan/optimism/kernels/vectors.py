"""The vector operations of the search, in NumPy; compiled code has those of :mod:`tensorplan.optimism.kernels.loops`.

Both round in the same way: sums are taken in the order that :func:`partial_dot` says, and nothing is fused.  So a
search gives the same answer to the last bit whether it runs compiled or not, and on every processor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

LANES = 8
"""Partial sums of a dot product: two registers of four numbers, so that the processor need not wait for a sum."""


def dot(a: Vector, b: Vector) -> float:
    """<a, b> of two vectors of a's length or longer; in the order of :func:`partial_dot`."""
    return partial_dot(a, b, 0, len(a))


def partial_dot(a: Vector, b: Vector, start: int, stop: int) -> float:
    """Σ a_i b_i, i = start, .., stop - 1.

    Product i of the first ⌊n/8⌋ blocks goes to the partial sum i mod 8; the eight are added in pairs four apart, then
    one more block of four is added if there is one, and these four in pairs two apart.  The at most three products
    that are left have a sum of their own.
    """
    products = (a[start:stop] * b[start:stop]).tolist()
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    at, n = 0, len(products)
    while at + LANES <= n:
        p0, p1, p2, p3, p4, p5, p6, p7 = products[at : at + LANES]
        s0, s1, s2, s3, s4, s5, s6, s7 = s0 + p0, s1 + p1, s2 + p2, s3 + p3, s4 + p4, s5 + p5, s6 + p6, s7 + p7
        at += LANES
    s0, s1, s2, s3 = s0 + s4, s1 + s5, s2 + s6, s3 + s7
    if at + 4 <= n:
        p0, p1, p2, p3 = products[at : at + 4]
        s0, s1, s2, s3 = s0 + p0, s1 + p1, s2 + p2, s3 + p3
        at += 4
    rest = 0.0
    for p in products[at:]:
        rest += p
    return float(((s0 + s2) + (s1 + s3)) + rest)


def fill(target: Vector, s: float, n: int) -> None:
    """The first n entries: target <- s."""
    target[:n] = s


def copy(source: Vector, target: Vector, n: int) -> None:
    """The first n entries: target <- source."""
    target[:n] = source[:n]


def multiply(source: Vector, s: float, target: Vector, n: int) -> None:
    """The first n entries: target <- s source."""
    np.multiply(source[:n], s, out=target[:n])


def divide(source: Vector, s: float, target: Vector, n: int) -> None:
    """The first n entries: target <- source / s."""
    np.divide(source[:n], s, out=target[:n])


def add(target: Vector, s: float, source: Vector, n: int) -> None:
    """The first n entries: target <- target + s source."""
    target[:n] += s * source[:n]


def rotate(top: Vector, low: Vector, cos: float, sin: float, start: int, stop: int) -> None:
    """Entries start, .., stop - 1: top <- cos top + sin low, low <- cos low - sin top."""
    before, below = top[start:stop].copy(), low[start:stop]
    top[start:stop] = cos * before + sin * below
    low[start:stop] = cos * below - sin * before
