"""Guessing: players that only use whether a guess is close.

A uniform guess is close to w* with probability |W_close|/2^p.  At most a factor of four can be gained: a query tests
two guesses, since U reports on its last weight but one, and guesses can avoid what earlier ones cover.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import comb

import numpy as np

from tensorplan.core.errors import BadInput
from tensorplan.game import code
from tensorplan.game.balls import close_count, least_far, overlaps
from tensorplan.game.game import Asking
from tensorplan.game.packed import Words, antipodal, draw, legal, pack, unpack
from tensorplan.game.pinpoint import Limited, output_found, output_guesses

FIRST, LARGEST = 16, 1 << 18
"""Sizes of the first and the largest batch of random guesses: small games end early, large batches are fast."""


@dataclass(frozen=True, kw_only=True)
class Blind(Limited):
    """A player that guesses until a guess is close, then finds w* from it.

    ``code`` takes the guesses from :mod:`tensorplan.game.code` instead of uniformly from the legal first weights.
    ``pairs`` queries (w, -w), two guesses with disjoint neighbourhoods, and needs K >= 2.
    """

    code: bool = False
    pairs: bool = False

    def __call__(self, game: Asking, rng: np.random.Generator) -> list[int]:
        """The output, w* first if a close weight was found."""
        if self.pairs and game.K < 2:
            raise BadInput("pairs of guesses need queries of length 2, and K is 1")
        queries = 0
        for words in self._batches(game.p, rng):
            words = words if self.limit is None else words[:, :, : self.limit - queries]
            if words.shape[2]:
                hit = game.search(words)
                if hit is not None:
                    return output_found(game, unpack(words[-1 if hit.answer.V else -2, :, hit.at]))
            queries += words.shape[2]
            if queries == self.limit:
                break
        return output_guesses(game, rng)

    def expected(self, p: int) -> Fraction | None:
        """The exact expected cost for w* uniform in W*; None with a code, for which it is not known.

        A pair is close to w* with probability 2 |W_close|/2^p.  Of the 2^p - |W_close| legal first guesses
        |W_close| - o are close to w*, where o is the overlap of the neighbourhoods of w* and of the vector of ones.
        """
        if self.code:
            return None
        close = close_count(p)
        if self.pairs:
            return Fraction(1 << p, 2 * close)
        shared = overlaps(p)
        total = sum(
            (Fraction(comb(p, m), close - shared[m]) for m in range(p + 1) if p <= 4 * m <= 3 * p), start=Fraction(0)
        )
        return total * ((1 << p) - close) / ((1 << p) - 2 * close)

    def _batches(self, p: int, rng: np.random.Generator) -> Iterator[Words]:
        """Legal queries, (1, W, n) or (2, W, n)."""
        ones = pack([(1 << p) - 1], p)
        for words in code.blocks(p, rng) if self.code else _uniform(p, rng):
            if self.pairs:
                yield antipodal(words, p)
            else:
                yield legal(np.concatenate([words, words ^ ones], axis=1) if self.code else words, least_far(p))[None]


def _uniform(p: int, rng: np.random.Generator) -> Iterator[Words]:
    size = FIRST
    while True:
        yield draw(p, size, rng)
        size = min(2 * size, LARGEST)
