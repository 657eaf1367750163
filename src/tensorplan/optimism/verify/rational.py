"""The right-hand side of (*) in exact fractions: s + √q for rational s and q, compared by squaring."""

from __future__ import annotations

import math
from fractions import Fraction

from tensorplan.core.errors import CertificateError
from tensorplan.optimism.verify.terms import Leaves, Terms, dyadic

ROOT_BITS = 110
"""Leading bits of a root that is not rational: at most 2^-100 of it too large, so that floats do not see it."""


def check_exactly(terms: Terms, leaves: Leaves, t: int, allowed: float) -> float:
    """The right-hand side of (*) of leaf t, s + √q for rational s, q, rounded up; -inf if it is empty, as claimed."""
    s, q = _right_side(terms, leaves, t)
    node, claim = leaves.node[t], float(leaves.claim[t])
    if claim == -math.inf:
        if s < 0 and q < s * s:
            return -math.inf
        raise CertificateError(f"leaf {node} claims to be empty but its multipliers prove only 0 <= {_shown(s, q)}")
    slack = Fraction(allowed) if math.isfinite(allowed) else Fraction(0)
    low, high = Fraction(claim) - slack, Fraction(claim) + slack
    if not _at_most(s, q, high) or (low > s and q < (low - s) ** 2):
        raise CertificateError(f"leaf {node} claims {claim:.12g} but its multipliers prove {_shown(s, q)}")
    return _round_up(s, q)


def _right_side(terms: Terms, leaves: Leaves, t: int) -> tuple[Fraction, Fraction]:
    """(s, q) with s + √q the right-hand side of (*): s the sum over the multipliers, q = B² ‖c - Σ y vector‖²."""
    part = slice(leaves.start[t], leaves.start[t + 1])
    objective, vector, offset, shift = terms.integers
    term = leaves.term[part]
    y, raised = dyadic(leaves.value[part])
    end, lifted = dyadic(leaves.end[part])
    rest = 0 if leaves.empty[t] else objective * (1 << raised)
    rest = rest - (y[:, None] * vector[term]).sum(axis=0)
    s = Fraction(int((y * offset[term]).sum()), 1 << (shift + raised))
    s += Fraction(int((y * end).sum()), 1 << (raised + lifted))
    q = Fraction(terms.radius) ** 2 * Fraction(int((rest * rest).sum()), 1 << 2 * (shift + raised))
    return s, q


def _root_up(q: Fraction) -> Fraction:
    """A rational number >= √q, at most 2^-100 of it too large, and √q itself when that is rational."""
    top, bottom = math.isqrt(q.numerator), math.isqrt(q.denominator)
    if top**2 == q.numerator and bottom**2 == q.denominator:
        return Fraction(top, bottom)
    shift = max(0, ROOT_BITS + (q.denominator.bit_length() - q.numerator.bit_length()) // 2)
    return Fraction(math.isqrt((q.numerator << 2 * shift) // q.denominator) + 1, 1 << shift)


def _at_most(s: Fraction, q: Fraction, limit: Fraction) -> bool:
    """Whether s + √q <= limit: squared, so that nothing is rounded."""
    return limit >= s and q <= (limit - s) ** 2


def _round_up(s: Fraction, q: Fraction) -> float:
    """A float >= s + √q, at most 2^-100 √q and the distance of two floats too large."""
    try:
        nearest = float(s + _root_up(q))
    except OverflowError:
        return math.inf
    return nearest if _at_most(s, q, Fraction(nearest)) else math.nextafter(nearest, math.inf)


def _shown(s: Fraction, q: Fraction) -> str:
    try:
        return f"{float(s + _root_up(q)):.12g}"
    except OverflowError:
        return "a number too large for a float"
