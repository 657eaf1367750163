"""The right-hand side of (*) in floating point, with a bound on its rounding error."""

from __future__ import annotations

import numpy as np

from tensorplan.optimism.program import Array, Ints
from tensorplan.optimism.verify.terms import SMALLEST_NORMAL, Leaves, Terms, norms

EPSILON = float(np.finfo(np.float64).eps)
"""Twice the unit roundoff u."""


def evaluate(terms: Terms, leaves: Leaves) -> tuple[Array, Array]:
    """The right-hand side of (*) of each leaf in floating point, and a radius that surely holds its rounding error.

    Let u = eps/2 and γ_k = k u / (1 - k u).  A leaf has N entries; products and sums in any order, with or without
    fused operations, give, with M = B (‖c‖ + Σ |y| ‖vector‖) + Σ |y| (|offset| + |end|),

        ‖r^ - r‖ <= γ_{N+1} (‖c‖ + Σ |y| ‖vector‖)   for r = c - Σ y vector, by the triangle inequality,
        fl(‖r^‖) within γ_{d+3} ‖r^‖,   the scalar sum within γ_{2N+1} Σ |y| (|offset| + |end|),

    and two more roundings for the product with B and the last sum: in all at most γ_K M, K = 2N + d + 8.  M itself is
    computed, as M^ >= (1 - γ_K) M, and γ_K / (1 - γ_K) <= 2 K u = K eps while K u <= 1/4; the radius is twice that,
    which also pays for the roundings made in computing it and in value ± radius.  Products that underflow err by less
    than the smallest normal number each, at most K² of them.  Overflow makes the radius infinite or not a number.
    """
    value, doubt = np.empty(len(leaves.node)), np.empty(len(leaves.node))
    radius, d = terms.radius, len(terms.objective)
    length = float(norms(terms.objective[None])[0])
    for low, high in leaves.blocks(d):
        start = leaves.start[low : high + 1] - leaves.start[low]
        part = slice(leaves.start[low], leaves.start[high])
        y, term, end = leaves.value[part], leaves.term[part], leaves.end[part]
        aimed = ~leaves.empty[low:high]  # an empty leaf is closed with c = 0
        rest = np.where(aimed[:, None], terms.objective, 0.0) - _sums(y[:, None] * terms.vector[term], start)
        value[low:high] = _sums(y * terms.offset[term] + y * end, start) + radius * norms(rest)
        pull = np.where(aimed, length, 0.0) + _sums(np.abs(y) * terms.length[term], start)
        mass = radius * pull + _sums(np.abs(y) * (np.abs(terms.offset[term]) + np.abs(end)), start)
        steps = 2.0 * np.diff(start) + (d + 8)
        doubt[low:high] = 2 * EPSILON * steps * mass + (1 + radius) * steps**2 * SMALLEST_NORMAL
    return value, doubt


def _sums(parts: Array, start: Ints) -> Array:
    """Σ parts[start[t] : start[t+1]] for each t."""
    sums = np.zeros((len(start) - 1, *parts.shape[1:]))
    filled = np.diff(start) > 0  # reduceat gives a wrong answer for empty ranges
    if filled.any():
        sums[filled] = np.add.reduceat(parts, start[:-1][filled], axis=0)
    return sums
