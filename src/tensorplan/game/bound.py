"""Lower bounds on the query cost of the abstract game: Theorem abstract-lb of Weisz et al. (2022), and sharper ones.

The theorem.  With ε = (25/32)^{K+1} and n = ⌊min(e^{p/8}/16 - 5, (1/ε - 1)/7.5)⌋, a planner that is sound (expected
payoff at least f(()) - 0.01 for every w*) with worst-case query cost N̄ has N̄ > 0.05 n.  This exceeds one query only
from p = 48 and K = 20 on.

The exact count.  e^{p/8} comes from Hoeffding's bound on the fraction of weights close to a given one.  With the exact
number c = |W_close|, the proof holds for the largest n with (2n + 8) q <= 1/8, where q = c/|W*| and |W*| = 2^p - 2c;
the second condition on n, from ε, is unchanged.

The sharp count.  Draw w* uniformly from W* and let the planner be sound.  Its payoff is at most f(()), and at most
b = (25/32)^9 if its output misses w*, so it misses with probability at most η = 0.01/(11/32 - b) = 0.0425.  After t
queries with replies (0, 0, 0) only, a fraction of at most 2t q of the secrets is excluded, and an output covers
another 8 q.  A query that misses w* has another reply with probability at most ε.  So

    P(N - 1 > t) >= (1 - ε)^t (1 - (2t + 8) q) - η >= α - β t,     α = 1 - 8q - η,  β = 2q + ε (1 - 8q),

and N̄ >= E[N - 1] >= Σ_t max(0, α - β t), about α²/(2β): 0.229/q where ε is small.  Guessing pairs pays 0.5/q
(:mod:`tensorplan.game.blind`), which is therefore optimal up to a factor of 2.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

from tensorplan.core.specs import whole
from tensorplan.game.balls import close_count

STEP = Fraction(25, 32)
"""An upper bound on g(x) for p/4 <= x: each step of a sequence, and a last weight that is far, multiplies f by it."""

MISS = Fraction(1, 100) / (Fraction(11, 32) - STEP**9)
"""η, an upper bound on the probability that a sound planner misses w*."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Lower bounds for one abstract game, by :func:`lower_bound`; all numbers but the logarithms are exact."""

    p: int
    K: int
    close: int
    """|W_close|."""
    secrets: int
    """|W*| = 2^p - 2 |W_close|."""
    log2_epsilon: float
    n: int
    """The theorem's n; it may be negative."""
    exact_n: int
    """The n of the exact count; it may be negative."""
    sharp: Fraction
    """The lower bound on N̄ of the sharp count."""

    @property
    def epsilon(self) -> float:
        """ε = (25/32)^{K+1}, an upper bound on the probability of Z = 1 for a query that misses w*."""
        return math.exp2(self.log2_epsilon)

    @property
    def forced(self) -> Fraction:
        """0.05 n, the theorem's lower bound on N̄."""
        return Fraction(max(self.n, 0), 20)

    @property
    def exact_forced(self) -> Fraction:
        """0.05 n with the n of the exact count."""
        return Fraction(max(self.exact_n, 0), 20)

    @property
    def guesses(self) -> Fraction:
        """2^p/|W_close|, the expected number of uniform guesses until a close weight."""
        return Fraction(1 << self.p, self.close)

    @property
    def vacuous(self) -> bool:
        """Whether the theorem forces less than one query."""
        return self.forced < 1

    @property
    def log2_forced(self) -> float:
        """log2 of ``forced``; -inf if that is zero."""
        return _log2(self.forced)

    @property
    def log2_sharp(self) -> float:
        """log2 of ``sharp``; -inf if that is zero."""
        return _log2(self.sharp)

    @property
    def log2_guesses(self) -> float:
        """log2 of ``guesses``."""
        return _log2(self.guesses)


def lower_bound(p: int, K: int) -> Bound:
    """Lower bounds on the cost of every sound planner in the abstract game; p may be in the thousands."""
    p, K = whole("p", p, 2), whole("K", K, 1)
    close = close_count(p)
    secrets = (1 << p) - 2 * close
    by_length = 2 * (32 ** (K + 1) - 25 ** (K + 1)) // (15 * 25 ** (K + 1))
    return Bound(
        p=p,
        K=K,
        close=close,
        secrets=secrets,
        log2_epsilon=(K + 1) * math.log2(STEP),
        n=min(_by_hoeffding(p), by_length),
        exact_n=min((secrets - 64 * close) // (16 * close), by_length),
        sharp=_sharp(Fraction(close, secrets), STEP ** (K + 1)),
    )


def _by_hoeffding(p: int) -> int:
    """⌊e^{p/8}/16 - 5⌋."""
    with localcontext(Context(prec=p // 18 + 50, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        return math.floor((Decimal(p) / 8).exp() / 16 - 5)


def _sharp(q: Fraction, epsilon: Fraction) -> Fraction:
    """Σ_{t >= 0} max(0, α - β t)."""
    alpha, beta = 1 - 8 * q - MISS, 2 * q + epsilon * (1 - 8 * q)
    if alpha <= 0:
        return Fraction(0)
    terms = math.ceil(alpha / beta)
    return terms * alpha - beta * (terms * (terms - 1) // 2)


def _log2(x: Fraction) -> float:
    return math.log2(x.numerator) - math.log2(x.denominator) if x else -math.inf
