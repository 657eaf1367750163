"""Compiled inner loops: distances of packed weights (see :mod:`tensorplan.game.packed`) by XOR and popcount.

The loops run along the batch, which is contiguous, so that the compiler can vectorise them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorplan.core.compiled import compiled, popcount

NONE, ONE = np.uint64(0), np.uint64(1)
FARTHEST = 1 << 62
"""Above every distance: the neutral element of a minimum."""


@compiled
def weights(words: Any) -> Any:
    """diff(1, w) of each weight, (n,); words (W, n)."""
    found = np.zeros(words.shape[1], dtype=np.int64)
    for k in range(words.shape[0]):
        for i in range(len(found)):
            found[i] += popcount(words[k, i])
    return found


@compiled
def antipodes(words: Any, ones: Any, p: int) -> Any:
    """Each weight and its negative, (2, W, n), the one farther from the vector of ones first; words (W, n)."""
    W, n = words.shape
    pairs = np.empty((2, W, n), dtype=np.uint64)
    for i in range(n):
        apart = 0
        for k in range(W):
            apart += popcount(words[k, i])
        for k in range(W):
            pairs[0, k, i] = words[k, i] if 2 * apart >= p else words[k, i] ^ ones[k]
            pairs[1, k, i] = pairs[0, k, i] ^ ones[k]
    return pairs


@compiled
def least_distance(rows: Any, secret: Any) -> Any:
    """The least distance of any w_{i-1} to w_i and of the last two weights to the secret, and the OR of all top words.

    rows: L W arrays (n,), the words of w_1, then those of w_2, ...; secret: W words.  If the least distance is not
    close, all queries are legal and miss.
    """
    W = len(secret)
    L = len(rows) // W
    low, bits = FARTHEST, NONE
    for i in range(len(rows[0])):
        for j in range(L):
            step = 0
            for k in range(W):
                step += popcount(rows[j * W + k][i] ^ rows[j * W - W + k][i]) if j > 0 else popcount(rows[k][i])
            low = min(low, step)
            bits |= rows[j * W + W - 1][i]
        for j in range(max(0, L - 2), L):
            miss = 0
            for k in range(W):
                miss += popcount(rows[j * W + k][i] ^ secret[k])
            low = min(low, miss)
    return low, bits


@compiled
def reply(words: Any, secret: Any, decay: Any, far: int, stop: bool, U: Any, V: Any, f: Any) -> Any:
    """Fill in U, V and f, (n,); return (number of replies, -1, 0), or (query, i, diff(w_i, w_{i+1})) if it is illegal.

    words (L, W, n); decay: g(0), .., g(p).  With ``stop`` the first query with U or V = 1 is the last.
    """
    L, W, n = words.shape
    for i in range(n):
        value = 1.0
        for j in range(L):
            step = 0
            for k in range(W):
                step += popcount(words[j, k, i] ^ (words[j - 1, k, i] if j > 0 else NONE))
            if step < far:
                return i, j, step
            value *= decay[step]
        before, last = 0, 0
        for k in range(W):
            before += popcount((words[L - 2, k, i] if L > 1 else NONE) ^ secret[k])
            last += popcount(words[L - 1, k, i] ^ secret[k])
        U[i], V[i], f[i] = before < far, last < far, value * decay[last]
        if stop and (U[i] or V[i]):
            return i + 1, -1, 0
    return n, -1, 0


@compiled
def total_overlap(table: Any, shift: Any, overlap: Any, limit: float) -> float:
    """Σ_i overlap[diff(table_i, shift)], or a partial sum above ``limit``; table (W, n), overlap (p + 1,)."""
    total = 0.0
    for i in range(table.shape[1]):
        d = 0
        for k in range(table.shape[0]):
            d += popcount(table[k, i] ^ shift[k])
        total += overlap[d]
        if total > limit:
            break
    return total


@compiled
def shortest_paths(words: Any, starts: Any, p: int, far: int, decay: Any, chance: Any) -> None:
    """Fill in w_1, .., w_{K-1} of sequences with given w_K, by the shortest legal steps; words (K, W, n).

    ``chance`` (n,) becomes Π_i g(diff(w_{i-1}, w_i)).  All steps flip ⌈p/4⌉ components, except one or two that cover
    the remaining distance.  The last step flips consecutive components from ``starts`` (n,) on, so that w_{K-1} is as
    uniform as w_K; if K = 2, from the next position that makes it legal.
    """
    K, W, n = words.shape
    last, goal = K - 1, max(K - 2, 0)
    here, origin = np.zeros(W, dtype=np.uint64), np.zeros(W, dtype=np.uint64)
    for i in range(n):
        at = starts[i]
        while K > 1:
            words[goal, :, i] = words[last, :, i]
            for j in range(far):
                _flip(words[goal, :, i], (at + j) % p)
            if K > 2 or _apart(words[goal, :, i], origin) >= far:
                break
            at = (at + 1) % p
        here[:] = origin
        for j in range(goal):
            _approach(here, words[goal, :, i], at, p, far)
            words[j, :, i] = here
        chance[i] = decay[_apart(here, words[goal, :, i])] * decay[far] ** last


@compiled
def _apart(u: Any, v: Any) -> int:
    total = 0
    for k in range(len(u)):
        total += popcount(u[k] ^ v[k])
    return total


@compiled
def _flip(w: Any, j: int) -> None:
    w[j >> 6] ^= ONE << np.uint64(j & 63)


@compiled
def _approach(w: Any, goal: Any, at: int, p: int, far: int) -> None:
    """Flip ⌈p/4⌉ components of w, scanned from ``at`` on, so that its distance to the goal is the least legal one.

    Half of the distance is corrected and the other flips introduce errors, which leaves ⌈p/4⌉ or one more; from a
    distance above 2⌈p/4⌉ all flips are towards the goal, and more is left.
    """
    towards = min(_apart(w, goal) // 2, far)
    aside = far - towards
    here = at
    while towards + aside > 0:
        if (w[here >> 6] ^ goal[here >> 6]) >> np.uint64(here & 63) & ONE:
            if towards > 0:
                _flip(w, here)
                towards -= 1
        elif aside > 0:
            _flip(w, here)
            aside -= 1
        here = here + 1 if here + 1 < p else 0
