"""Exact counts of close weights (Weisz et al. 2022, Lemma close-to-corner-ct, without Hoeffding's bound)."""

from __future__ import annotations

from math import comb


def least_far(p: int) -> int:
    """⌈p/4⌉, the least distance of two weights that are not close."""
    return -(-p // 4)


def close_count(p: int) -> int:
    """|W_close|, the number of weights at a distance below p/4 from a given weight."""
    total, term = 0, 1
    for j in range(least_far(p)):
        total += term
        term = term * (p - j) // (j + 1)
    return total


def overlaps(p: int) -> list[int]:
    """The number of weights close to both of two weights, by the distance of the two, (p + 1,).

    A weight that differs from the first in a of the m components where the two differ, and in b of the others, is at
    distances a + b and m - a + b.
    """
    far = least_far(p)
    found = []
    for m in range(p + 1):
        below = [0]
        for b in range(far):
            below.append(below[-1] + comb(p - m, b))
        found.append(sum(comb(m, a) * below[max(0, far - max(a, m - a))] for a in range(m + 1)))
    return found
