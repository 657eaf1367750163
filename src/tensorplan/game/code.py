"""A nested linear code whose close neighbourhoods overlap as little as possible, as a source of guesses.

A weight w represents the pair w, -w.  The code doubles: C_{k+1} = C_k ∪ (v + C_k), with the shift v, among random
candidates, for which the close neighbourhoods of ±(v + C_k) overlap least with those of ±C_k, summed over pairs.  As
the code is linear, that is the sum over c in C_k of the overlap of v with ±c.  Up to p = 17 the code grows to all of W.
Pairs of guesses then cost less than uniform ones by a factor of 1.8 at p = 8, 1.4 at p = 16 and 1.2 at p = 32; 2 is the
optimum.  The gain vanishes as p grows, because almost all pairs of weights are then about p/2 apart.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array
from tensorplan.game.balls import overlaps
from tensorplan.game.kernels import total_overlap
from tensorplan.game.packed import Words, draw, pack

LARGEST = 1 << 16
"""The size from which on the code is shifted at random instead of doubled, to bound time and memory."""

CANDIDATES = 64
"""Random shifts compared for each doubling; more gain little."""


def blocks(p: int, rng: np.random.Generator) -> Iterator[Words]:
    """The weights of a random coset of the growing code, in blocks (W, n); each represents itself and its negative.

    The blocks end when they have covered all of W.
    """
    overlap, origin = _overlap(p), draw(p, 1, rng)
    code = np.zeros_like(origin)
    yield origin
    while code.shape[1] < min(LARGEST, 1 << (p - 1)):
        shift = _least_overlap(code, overlap, draw(p, CANDIDATES, rng))
        if shift is None:  # all candidates are in ±C; some unit vector is not
            shift = _least_overlap(code, overlap, pack([1 << j for j in range(p)], p))
        assert shift is not None
        yield code ^ (origin ^ shift)
        code = np.concatenate([code, code ^ shift], axis=1)
    while code.shape[1] < 1 << (p - 1):
        yield code ^ draw(p, 1, rng)


def _overlap(p: int) -> Array:
    """The fraction of the neighbourhood of v shared with that of ±c, by diff(v, c), (p + 1,); infinite for v = ±c."""
    shared = overlaps(p)
    overlap = np.array([(shared[d] + shared[p - d]) / shared[0] for d in range(p + 1)])
    overlap[[0, p]] = np.inf
    return overlap


def _least_overlap(code: Words, overlap: Array, candidates: Words) -> NDArray[np.uint64] | None:
    """The candidate with the least total overlap, (W, 1); None if all of them are in ±C."""
    best, least = None, np.inf
    for i in range(candidates.shape[1]):
        load = total_overlap(code, candidates[:, i], overlap, least)
        if load < least:
            best, least = candidates[:, i : i + 1], load
    return best
