"""Local search: a player that climbs towards w* by the signal Z.

The reply to a query of length K has Z ~ Bernoulli(f) with f = c g(diff(w_K, w*)), c = Π_i g(diff(w_{i-1}, w_i)).  A
correct component of w_K adds about c/(2p) to f, so each Z is weak evidence on all p components at once.  But c is at
most (25/32)^K: finding w* from Z alone takes about 2 p² (32/25)^K queries, polynomial in p for fixed K, and exponential
in K.  U and V test each guess, and even a weak belief makes a guess much more likely to be close, which ends the search
much earlier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array
from tensorplan.game.balls import least_far, overlaps
from tensorplan.game.game import Asking
from tensorplan.game.kernels import shortest_paths
from tensorplan.game.packed import Words, decays, legal, pack_bits, unpack
from tensorplan.game.pinpoint import Limited, check, output_found, output_guesses
from tensorplan.problems.hard.hypercube import is_close

FIRST, LARGEST, SHARE = 16, 1 << 20, 50
"""The size of the first batch, the most components in a batch (memory), and the past queries per new one in a batch."""


@dataclass(frozen=True, kw_only=True)
class Local(Limited):
    """A player that draws the last weight of a query from its belief about w*, and updates the belief by Z.

    The belief treats components as independent: half the log odds of each changes, to first order, by the slope of
    log f for Z = 1 and of log(1 - f) for Z = 0.  After each batch the most likely weight is tested.
    """

    def __call__(self, game: Asking, rng: np.random.Generator) -> list[int]:
        """The output, w* first if a close weight was found."""
        p = game.p
        far, belief, queries = least_far(p), np.zeros(p), 0
        while self.limit is None or queries < self.limit:
            size = min(max(FIRST, queries // SHARE), max(FIRST, LARGEST // p))
            size = size if self.limit is None else min(size, self.limit - queries)
            mean = np.tanh(belief)
            last = pack_bits(rng.random((size, p)) < (1 - mean) / 2)
            words, chance = _queries_to(legal(last, far) if game.K == 1 else last, game.K, p, rng)
            answers = game.query_batch(words, stop=True)
            done = len(answers.Z)
            queries += done
            for close, at in ((answers.V, -1), (answers.U, -2)):
                if close.any():
                    return output_found(game, unpack(words[at, :, done - 1]))
            belief += _evidence(_signs(words[-1], p), answers.Z, chance, mean)
            guess = sum(1 << int(j) for j in np.flatnonzero(belief < 0))
            if (game.K > 1 or not is_close(guess.bit_count(), p)) and queries != self.limit:
                queries += 1
                if check(game, guess):
                    return output_found(game, guess)
        return output_guesses(game, rng)

    def expected(self, p: int, K: int) -> float:
        """The expected cost to leading order in p; measured costs are 1 to 1.5 times that.

        After samples of Z with a total information of z² on a component, half its log odds are N(z², z²) for the
        correct sign, and a draw has mean agreement m = E tanh of that with w*.  This determines the information per
        query, the rates at which draws and their predecessors are close, and hence a survival probability.  Tests of
        the most likely weight are neglected.
        """
        from scipy.special import bdtr

        far, shared, g = least_far(p), overlaps(p), decays(p)
        c = g[far] ** K if K > 2 else g[far] ** (K - 1) * float(np.interp(p / 2, np.arange(p + 1), g))
        nodes, share = np.polynomial.hermite_e.hermegauss(40)
        z2, queries, alive, total = 0.0, 0.0, 1.0, 0.0
        while alive > 1e-9:
            m = float(np.tanh(z2 + math.sqrt(z2) * nodes) @ share / share.sum())
            rate = float(bdtr(far - 1, p, (1 - m) / 2))
            if K > 1:
                rate += float(bdtr(far - 1, p, (1 - m * (1 - 2 * far / p)) / 2)) * (1 - shared[far] / shared[0])
            size = max(1.0, queries / 100)
            hit = -math.expm1(-rate * size)
            total += alive * (hit / rate if rate else size)
            alive *= 1 - hit
            queries += size
            q, slope = _success(c, np.array(p * (1 - m) / 2), p)
            z2 += size * float(slope**2 / (4 * q * (1 - q))) * (1 - m * m)
        return total


def _queries_to(last: Words, K: int, p: int, rng: np.random.Generator) -> tuple[Words, Array]:
    """Queries of length K that end in these weights, (K, W, n), and the c of each, (n,)."""
    words, chance = np.empty((K, *last.shape), dtype=np.uint64), np.empty(last.shape[1])
    words[-1] = last
    shortest_paths(words, rng.integers(0, p, size=len(chance)), p, least_far(p), decays(p), chance)
    return words, chance


def _success(c: Array | float, x: Array, p: int) -> tuple[Array, Array]:
    """The probability c g(x) of Z = 1, and its negative derivative in x."""
    return c * (1 - x / p + x * (x - 1) / (2 * p * p)), c * (1 / p - (x - 0.5) / (p * p))


def _evidence(signs: Array, Z: NDArray[np.bool_], chance: Array, mean: Array) -> Array:
    """The change of half the log odds of each component by n samples of Z, (p,); signs (n, p)."""
    q, slope = _success(chance, (len(mean) - signs @ mean) / 2, len(mean))
    evidence: Array = ((Z - q) / (q * (1 - q)) * slope / 2) @ signs
    return evidence


def _signs(words: Words, p: int) -> Array:
    """The components ±1 of packed weights, (n, p)."""
    octets = np.ascontiguousarray(words.T).astype("<u8").view(np.uint8)
    return 1.0 - 2.0 * np.unpackbits(octets, axis=1, bitorder="little", count=p).astype(np.float64)
