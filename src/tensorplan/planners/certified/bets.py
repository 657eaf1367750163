"""Bets: linear inequalities for θ* from samples, valid at all sample sizes at once.

A *term* is a state s, an action a, a weight u, and samples x_1, x_2, .. of x = [R, γ φ(S')] drawn there.  Write l_i for
the temporal difference <x_i - [0, φ(s)], [1, θ*]>, and μ for its mean.  Bellman's equation says that u μ <= 0 if u > 0,
or if u < 0 and a is an optimal action.  All l_i lie in an interval of known length W, and so do their predictions l̂_i:
the mean of all samples of the pair that were drawn before the batch of x_i.  With ψ(x) = -ln(1 - x) - x, a *bet* λ > 0
with λ |u| W < 1 for every term makes

    exp( Σ_terms Σ_i  λ u l_i - ψ(λ |u| W) ((l_i - l̂_i) / W)² )                                                  (1)

a supermartingale, in the order in which samples are drawn, whatever decides which pair is sampled next.  Proof for one
sample: exp(x y - ψ(x) y²) <= 1 + x y for y >= -1 and 0 <= x < 1 (Fan, Grama and Liu 2015).  Take x = λ |u| W and
y = ±(l_i - l̂_i)/W with the sign of u; its mean is m = ±(μ - l̂_i)/W.  Then E exp(x y - ψ(x) y²) <= 1 + x m <= exp(x m),
so that E exp(λ u (l_i - μ) - ψ(x) y²) <= 1, and λ u μ <= 0.  ∎

A mixture over bets λ_k = λ 2^-k with weights p_k, Σ p_k <= 1, is a supermartingale as well, and by Ville's inequality
it ever reaches 1/α with probability at most α.  Otherwise, for all k and at all sample sizes,

    Σ u l_i  <=  ( ln(1/(p_k α)) + Σ ψ(λ_k |u| W) Σ_i ((l_i - l̂_i) / W)² ) / λ_k.                                (2)

The left-hand side is affine in θ*, and the squares on the right-hand side are a quadratic form in [1, θ*], which is
bounded over a box that contains θ*: (2) becomes a row.  As the box shrinks, so does its right-hand side, and neither
samples nor shares of α are needed for that.  The form involves next features alone: where the next state is END, or is
certain, it does not depend on θ* at all.

One term with u = 1 or u = -1 gives T1 or T3 for a state.  Several terms, with weights fixed before the samples are
drawn, give one event for a whole sum, in which standard errors add up in squares.  With a misspecification of η, u μ is
at most |u| (1 + γ) η, which is added for each sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorplan.core import Array
from tensorplan.planners.certified.box import MARGIN, Box

STEPS = range(-2, 8)
"""The bets of the mixture, as powers of 1/2 in units of the planned one: smaller ones suit larger samples."""

PRIOR = {k: 0.4 if k == 0 else 0.2 if abs(k) == 1 else 0.1 * 0.5 ** (abs(k) - 1) for k in STEPS}
"""p_k: most of the weight is on the planned bet and its neighbours; they add up to less than 1."""

LOGS: Array = -np.log([PRIOR[k] for k in STEPS])
"""ln(1/p_k)"""

PLANNED, LARGEST = 0.5, 0.95
"""The largest λ |u| W of a planned bet, and of any."""


WIDE = 256
"""From this dimension on no squares are summed up, which would take too much memory: each is at most 1."""


class Tally:
    """Samples of one pair, from some moment on."""

    __slots__ = ("n", "scatter", "sums")

    def __init__(self, dimension: int) -> None:
        self.n = 0
        self.sums = np.zeros(dimension + 1)
        """Σ x"""
        self.scatter = np.zeros((dimension + 1, dimension + 1)) if dimension < WIDE else None
        """Σ (x - c)(x - c)ᵀ, with c the mean of all samples of the pair before each batch."""

    def add(self, n: int, sums: Array, scatter: Array | None) -> None:
        """Add a batch."""
        self.n += n
        self.sums += sums
        if self.scatter is not None and scatter is not None:
            self.scatter += scatter

    def copy(self) -> Tally:
        """The samples so far."""
        made = Tally(len(self.sums) - 1)
        made.add(self.n, self.sums, self.scatter)
        return made


@dataclass(frozen=True, eq=False)
class Term:
    """One state and action of a bet."""

    tally: Tally
    action: int
    phi: Array
    """φ(s), (d,)."""
    width: float
    """W"""
    weight: float = 1.0
    """u"""
    about: Any = None
    """The planner's record of the state."""

    @property
    def total(self) -> Array:
        """u Σ (x - [0, φ(s)]), (d+1,)."""
        total = self.weight * self.tally.sums
        total[1:] -= self.weight * self.tally.n * self.phi
        return total


class Bet:
    """A mixture of bets on one weighted sum, with its share α of the failure probability."""

    def __init__(self, terms: Sequence[Term], share: float, planned: float) -> None:
        self.terms, self.share = [term for term in terms if term.width], share
        """Terms without noise need no bet."""
        self.all = list(terms)
        widest = max((abs(term.weight) * term.width for term in self.terms), default=0.0)
        self.largest = LARGEST / widest if widest else math.inf
        self.planned = min(planned, PLANNED / widest) if widest else planned
        """λ"""
        self._known: tuple[Box, int, float] | None = None

    @property
    def total(self) -> Array:
        """Σ u Σ (x - [0, φ(s)]), (d+1,): <total, [1, θ*]> is the left-hand side of (2)."""
        return np.asarray(np.sum([term.total for term in self.all], axis=0))

    @property
    def size(self) -> float:
        """Σ |u| n."""
        return math.fsum(abs(term.weight) * term.tally.n for term in self.all)

    def radius(self, box: Box) -> float:
        """The right-hand side of (2), if the box contains θ*."""
        if not self.terms:
            return 0.0
        drawn = sum(term.tally.n for term in self.terms)
        if self._known is None or self._known[0] is not box or self._known[1] != drawn:
            self._known = box, drawn, self._radius(box)
        return self._known[2]

    def _radius(self, box: Box) -> float:
        bets = self.planned * 0.5 ** np.array(STEPS)
        bets, logs = bets[bets <= self.largest], LOGS[bets <= self.largest]
        stakes = np.array([abs(term.weight) * term.width for term in self.terms])
        counts, widths = np.array([t.tally.n for t in self.terms]), np.array([t.width for t in self.terms])
        prices = -np.log1p(-np.outer(bets, stakes)) - np.outer(bets, stakes)  # ψ(λ_k |u| W)
        scatters = [term.tally.scatter for term in self.terms if term.tally.scatter is not None]
        squares = prices @ counts  # no square exceeds 1
        if len(scatters) == 1:
            squares = np.minimum(squares, prices[:, 0] / widths[0] ** 2 * box.largest(scatters[0]))
        elif scatters:
            forms = np.tensordot(prices / widths**2, np.array(scatters), axes=1)
            squares = np.minimum(squares, [box.largest(form) for form in forms])
        return (1 + MARGIN) * float(((logs - math.log(self.share) + squares) / bets).min())


def planned_bet(share: float, variance: float) -> float:
    """The best λ for a sum whose variance will be about ``variance``."""
    return math.sqrt(2 * math.log(1 / (PRIOR[0] * share)) / max(variance, 1e-300))
