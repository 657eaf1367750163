"""The hypercube W = {-1, 1}^p of the lower bound (Weisz et al. 2022, section 4.1): weights, distances and g.

A weight vector is stored as a whole number whose bit j is set if component j is -1.  The vector of ones is 0, flipping
component j is ``w ^ 1 << j``, and diff(u, v), the number of components that differ, is ``(u ^ v).bit_count()``.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from tensorplan.core import Array
from tensorplan.core.errors import BadInput


def decay(x: int, p: int) -> Fraction:
    """g(x) = 1 - x/p + x(x-1)/(2p²), exactly: 1 at 0, decreasing, (p-1)/(2p) at p."""
    return 1 - Fraction(x, p) + Fraction(x * (x - 1), 2 * p * p)


def distance(u: int, v: int) -> int:
    """diff(u, v), the number of components that differ."""
    return (u ^ v).bit_count()


def is_close(distance: int, p: int) -> bool:
    """Whether weights at this distance are close: distance < p/4."""
    return 4 * distance < p


def is_secret(w: int, p: int) -> bool:
    """Whether w is in W*: p/4 <= diff(1, w) <= 3p/4."""
    return p <= 4 * w.bit_count() <= 3 * p


def to_signs(w: int, p: int) -> Array:
    """The components, each 1.0 or -1.0, (p,)."""
    return np.array([-1.0 if w >> j & 1 else 1.0 for j in range(p)])


def from_signs(signs: Any, p: int, name: str = "weights") -> int:
    """The weight vector with p components, each 1 or -1, as a number; a number in range is returned unchanged."""
    if isinstance(signs, int | np.integer) and not isinstance(signs, bool):
        if 0 <= signs < 1 << p:
            return int(signs)
        raise BadInput(f"{name} as a bit mask must be from 0 to 2^{p} - 1, got {signs!r}")
    if not isinstance(signs, Iterable):
        raise BadInput(f"{name} must be {p} components, each 1 or -1, got {signs!r}")
    components = list(signs)
    if len(components) != p:
        raise BadInput(f"{name} must have p = {p} components, got {len(components)}")
    for j, x in enumerate(components):
        if x not in (1, -1):
            raise BadInput(f"{name} must have components 1 or -1, got {x!r} at component {j}")
    return sum(1 << j for j, x in enumerate(components) if x == -1)


def from_secret(secret: Any, p: int, rng: np.random.Generator) -> int:
    """w* as a number, checked to be in W*; drawn uniformly from W* if None."""
    if secret is None:
        while True:
            w = int.from_bytes(rng.bytes((p + 7) // 8), "little") & ((1 << p) - 1)
            if is_secret(w, p):
                return w
    w = from_signs(secret, p, "the secret")
    if not is_secret(w, p):
        raise BadInput(
            f"the secret must have between p/4 = {p / 4:g} and 3p/4 = {3 * p / 4:g} components -1, got {w.bit_count()}"
        )
    return w
