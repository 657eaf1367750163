"""The abstract game of the lower bound (Weisz et al. 2022, section 4.1), in which a player must find w*."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorplan.core.errors import BadInput
from tensorplan.core.specs import whole
from tensorplan.game.balls import least_far
from tensorplan.game.kernels import least_distance, reply
from tensorplan.game.packed import Words, decays, pack, word_count
from tensorplan.problems.hard.hypercube import decay, distance, from_secret, from_signs, is_close

OUTPUT = 8
"""The length of the output sequence (Weisz et al. 2022, section 4.1)."""

LANES = 8
"""Queries of up to this many words are searched in one vectorised pass; longer ones are not faster that way."""


class Answer(NamedTuple):
    """The reply to a query."""

    U: int
    """Whether the last weight but one is close to w*."""
    V: int
    """Whether the last weight is close to w*."""
    Z: int
    """A sample of Bernoulli(f(query)) if V = 1 or the query has length K, else 0."""


class Answers(NamedTuple):
    """The replies to a batch, (n,) each."""

    U: NDArray[np.bool_]
    V: NDArray[np.bool_]
    Z: NDArray[np.bool_]


class Hit(NamedTuple):
    """The first query of a search with U or V = 1."""

    at: int
    """The index of the query in the batch."""
    answer: Answer


class Asking(Protocol):
    """The game as its players see it."""

    p: int
    """The number of components of a weight vector."""
    K: int
    """The length of the longest query."""

    def query(self, sequence: Iterable[Any]) -> Answer:
        """The reply to one query."""

    def query_batch(self, words: Words, stop: bool = False) -> Answers:
        """The replies to many queries of one length."""

    def search(self, words: Words) -> Hit | None:
        """The first of many queries of one length with a close weight among its last two."""


class Player(Protocol):
    """An abstract planner: a function or frozen configuration that makes queries and outputs 8 weights."""

    def __call__(self, game: Asking, rng: np.random.Generator) -> Iterable[Any]:
        """The output, a sequence of 8 weights."""


@dataclass(frozen=True)
class Play:
    """The result of one play."""

    output: tuple[int, ...]
    found: bool
    """Whether a query or the output contained a weight close to w*."""
    cost: int
    """Queries up to the first reply with U or V = 1, or all if there is none."""
    queries: int
    """N - 1, all queries."""
    payoff: Fraction
    best: Fraction
    """f(()), the best possible payoff."""


class AbstractGame:
    """The game on W = {-1, 1}^p with queries of length 1 to K and a secret w*, drawn from W* unless given.

    A weight vector is a sequence of p components 1 or -1, or a number (:mod:`tensorplan.problems.hard.hypercube`).
    """

    def __init__(self, p: int, K: int, secret: Any = None, seed: int = 0) -> None:
        self.p, self.K = whole("p", p, 2), whole("K", K, 1)
        self._rng = _stream(seed, 0)
        self.secret = from_secret(secret, self.p, self._rng)
        self.best = self.f(())
        """f(()), the best possible payoff."""
        self.queries = 0
        """Queries so far."""
        self.found_at: int | None = None
        """Queries up to the first reply with U or V = 1."""
        self._far = least_far(self.p)
        self._decay = decays(self.p)
        self._packed = pack([self.secret], self.p)[:, 0]
        self._rows = tuple(self._packed)

    def g(self, x: int) -> Fraction:
        """g(x) = 1 - x/p + x(x-1)/(2p²)."""
        return decay(x, self.p)

    def f(self, sequence: Iterable[Any]) -> Fraction:
        """f = Π_i g(diff(w_{i-1}, w_i)) · g(diff(w_k, w*)), exactly, for a legal sequence, which may be empty."""
        path = [0, *self.legal(sequence), self.secret]
        value = Fraction(1)
        for u, v in pairwise(path):
            value *= self.g(distance(u, v))
        return value

    def legal(self, sequence: Iterable[Any]) -> list[int]:
        """The weights as numbers; BadInput unless diff(w_{i-1}, w_i) >= p/4 for all i, with w_0 = 1."""
        if not isinstance(sequence, Iterable):
            raise BadInput(f"expected a sequence of weight vectors, got {sequence!r}")
        path = [0]
        for i, weights in enumerate(sequence, 1):
            path.append(from_signs(weights, self.p, f"weight vector {i}"))
            if is_close(distance(path[i - 1], path[i]), self.p):
                raise BadInput(self._illegal(i, distance(path[i - 1], path[i])))
        return path[1:]

    def query(self, sequence: Iterable[Any]) -> Answer:
        """The reply (U, V, Z) to a legal sequence of 1 to K weights."""
        path = [0, *self.legal(sequence)]
        self._check_length(len(path) - 1)
        U, V = (int(is_close(distance(w, self.secret), self.p)) for w in path[-2:])
        Z = int((V or len(path) > self.K) and self._rng.random() < float(self.f(path[1:])))
        self._charge(1, bool(U or V))
        return Answer(U, V, Z)

    def query_batch(self, words: Words, stop: bool = False) -> Answers:
        """The replies to n queries of length L, in order; words (L, W, n) as in :mod:`tensorplan.game.packed`.

        With ``stop``, the first reply with U or V = 1 is the last, and later queries are not made.
        """
        words = self._batch(words)
        self._check_bits(np.bitwise_or.reduce(words[:, -1], axis=None))
        n = words.shape[2]
        U, V, f = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_), np.zeros(n)
        done, step, short = reply(words, self._packed, self._decay, self._far, stop, U, V, f)
        if step >= 0:
            raise BadInput(f"query {done} of the batch: {self._illegal(step + 1, short)}")
        U, V, f = U[:done], V[:done], f[:done]
        drawn = V | (len(words) == self.K)
        Z = np.zeros(done, dtype=np.bool_)
        Z[drawn] = self._rng.random(np.count_nonzero(drawn)) < f[drawn]
        close = np.flatnonzero(U | V)
        self._charge(done, len(close) > 0, int(close[0]) + 1 if len(close) else 0)
        return Answers(U, V, Z)

    def search(self, words: Words) -> Hit | None:
        """The first of n queries with U or V = 1; later ones are not made; None if all miss.

        Like :meth:`query_batch` with ``stop``, but faster: Z is not drawn for queries that miss.
        """
        words = self._batch(words)
        L, W, n = words.shape
        if L * W <= LANES:
            low, bits = least_distance(tuple(words.reshape(L * W, n)), self._rows)
            if low >= self._far:
                self._check_bits(bits)
                self._charge(n, False)
                return None
        answers = self.query_batch(words, stop=True)
        if not (answers.U[-1] or answers.V[-1]):
            return None
        return Hit(len(answers.U) - 1, Answer(*(int(x[-1]) for x in answers)))

    def payoff(self, sequence: Iterable[Any]) -> Fraction:
        """f(w_1, .., w_k*) for a legal sequence of 8 weights; k* is the first weight close to w*, or 8."""
        output = self.legal(sequence)
        if len(output) != OUTPUT:
            raise BadInput(f"the output must have {OUTPUT} weight vectors, got {len(output)}")
        close = [k for k, w in enumerate(output, 1) if is_close(distance(w, self.secret), self.p)]
        return self.f(output[: min(close, default=OUTPUT)])

    def play(self, player: Player, seed: int = 0) -> Play:
        """One play, with counters reset; the player's random stream differs from that of a game with this seed."""
        self.queries, self.found_at = 0, None
        output = self.legal(player(self, _stream(seed, 1)))
        payoff = self.payoff(output)
        output_close = any(is_close(distance(w, self.secret), self.p) for w in output)
        return Play(
            output=tuple(output),
            found=output_close or self.found_at is not None,
            cost=self.queries if self.found_at is None else self.found_at,
            queries=self.queries,
            payoff=payoff,
            best=self.best,
        )

    def _batch(self, words: Words) -> Words:
        words = np.ascontiguousarray(words)
        W = word_count(self.p)
        if words.dtype != np.uint64 or words.ndim != 3 or words.shape[1] != W:
            raise BadInput(f"a batch must be uint64 words of shape (L, {W}, n), got {words.dtype} {words.shape}")
        self._check_length(words.shape[0])
        return words

    def _check_bits(self, bits: np.uint64) -> None:
        if int(bits) >> (self.p - 1) % 64 + 1:
            raise BadInput(f"a batch must have no bits set beyond the {self.p} components of a weight vector")

    def _check_length(self, length: int) -> None:
        if not 1 <= length <= self.K:
            raise BadInput(f"a query has from 1 to K = {self.K} weight vectors, got {length}")

    def _illegal(self, i: int, short: int) -> str:
        before = f"weight vector {i - 1}" if i > 1 else "the vector of ones"
        return f"weight vector {i} must differ from {before} in at least p/4 = {self.p / 4:g} components, got {short}"

    def _charge(self, queries: int, close: bool, after: int = 1) -> None:
        if close and self.found_at is None:
            self.found_at = self.queries + after
        self.queries += queries


def _stream(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(whole("seed", seed, 0), spawn_key=(number,)))
