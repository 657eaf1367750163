"""Exponentially many nearly orthogonal unit vectors: |<u_a, u_b>| <= 1/4 for all a != b.

They are random sign vectors u = s/√n, s in {-1, 1}^n: by Hoeffding's inequality two of them violate this with
probability at most 2 e^{-n/32}, so rejection sampling finds e^{n/32} of them with few rejections.  Their inner products
are multiples of 1/n, so that checks are exact.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tensorplan.core.errors import BadInput

MOST = 50_000
"""Most vectors that can be requested; the time is quadratic in their number."""
TRIES = (50, 10_000)
"""Most candidates drawn: per vector requested, and in addition."""
BLOCK = 512
"""Candidates drawn at a time."""

Signs = NDArray[np.int8]


def usual_count(n: int) -> int:
    """⌊e^{n/32}⌋, at least 2: the default number of vectors with n entries."""
    count = max(2, math.floor(math.exp(min(n / 32, 700.0))))
    if count > MOST:
        raise BadInput(f"vectors of {n} entries imply e^{n / 32:.4g} actions, more than {MOST:,}: give actions")
    return count


def near_orthogonal(count: int, n: int, rng: np.random.Generator) -> Signs:
    """Sign vectors with |<s_a, s_b>| <= n/4 for all a != b, (count, n), by rejection; BadInput if too few are found."""
    kept = np.empty((count, n), dtype=np.float32)  # exact for products of signs
    found, drawn = 0, 0
    while found < count:
        if drawn >= TRIES[0] * count + TRIES[1]:
            raise BadInput(
                f"{count:,} actions need as many sign vectors of {n} entries with |<u, v>| <= 1/4, and only {found:,} "
                f"were found among {drawn:,} random ones: use fewer actions or a larger d"
            )
        block = (2 * rng.integers(2, size=(BLOCK, n), dtype=np.int8) - 1).astype(np.float32)
        drawn += BLOCK
        block = block[(4 * np.abs(block @ kept[:found].T) <= n).all(axis=1)]
        apart = 4 * np.abs(block @ block.T) <= n
        free = np.ones(len(block), dtype=bool)
        for i in range(len(block)):
            if free[i] and found < count:
                kept[found] = block[i]
                found += 1
                free &= apart[i]
    return kept.astype(np.int8)


def dot(signs: Signs, a: int, b: int) -> int:
    """<s_a, s_b>."""
    return int(signs[a].astype(np.int64) @ signs[b])


def closest(signs: Signs) -> int:
    """The largest |<s_a, s_b>| over a != b."""
    rows, largest = signs.astype(np.float32), 0
    for start in range(0, len(rows), BLOCK):
        gram = np.abs(rows[start : start + BLOCK] @ rows.T)
        i = np.arange(len(gram))
        gram[i, start + i] = 0
        largest = max(largest, int(gram.max()))
    return largest
