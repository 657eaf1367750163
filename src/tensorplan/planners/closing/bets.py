"""Bets: linear inequalities for θ* from samples, valid at all sample sizes at once.

A term is a state s, an action a, a weight u and samples x_1, x_2, .. of x = [R, γ φ(S')] drawn there.  Write l_i for the
temporal difference <x_i - [0, φ(s)], [1, θ*]>.  Bellman's equation says that the mean of u l_i is at most zero if u > 0,
or if u < 0 and a is an optimal action; all l_i of a term lie in an interval of known length W.  With
ψ(x) = -ln(1 - x) - x, a *bet* λ >= 0 with λ |u| W <= 1/2 for every term makes

    exp( Σ_terms Σ_i  λ u l_i - ψ(λ |u| W) (l_i / W)² )                                                          (1)

a supermartingale in the order in which samples are drawn.  Proof for one sample, ξ = u l_i / (|u| W) with mean m <= 0:
exp(x y - ψ(x) y²) <= 1 + x y for y >= -1 and 0 <= x < 1 (Fan, Grama and Liu 2015), and ξ - m >= -1, so that
E exp(x (ξ - m) - ψ(x) (ξ - m)²) <= 1; and x ξ - ψ(x) ξ² <= x (ξ - m) - ψ(x) (ξ - m)² because the difference is
m (x - ψ(x) (2 ξ - m)), where 2 ξ - m <= m + 2 <= 2 and 2 ψ(x) <= x for x <= 1/2.  ∎

A mixture over bets λ_k = λ 2^-k with weights p_k, Σ p_k <= 1, is one as well, and by Ville's inequality it ever reaches
1/α with probability at most α.  Otherwise, for all k and all sample sizes,

    Σ u l_i  <=  ( ln(1/(p_k α)) + Σ ψ(λ_k |u| W) Σ_i (l_i / W)² ) / λ_k.                                        (2)

The left-hand side is affine in θ*.  The right-hand side is bounded over a set that is known to contain θ*, and (2) is
then a row; as the set shrinks, so does the right-hand side, and no further sample or share of α is needed.  A single
term gives a row of Sol; several terms with weights fixed beforehand give one event for the whole sum, in which standard
errors add up in squares.

With a misspecification of η the mean of u l_i is at most |u| (1 + γ) η, and l_i - (1 + γ) η sign(u) takes its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorplan.core import Array
from tensorplan.planners.closing.box import MARGIN, Box
from tensorplan.planners.evidence.approx_td import Moments

STEPS = range(-2, 8)
"""The bets of the mixture, as powers of 1/2 in units of the planned one: smaller ones suit larger samples."""

PRIOR = {k: 0.4 if k == 0 else 0.2 if abs(k) == 1 else 0.1 * 0.5 ** (abs(k) - 1) for k in STEPS}
"""p_k: most of the weight is on the planned bet and its neighbours; they add up to less than 1."""

LARGEST = 0.5
"""The largest λ |u| W, which the proof requires."""


@dataclass(frozen=True, eq=False)
class Term:
    """One state and action of a bet."""

    tally: Moments
    """The samples drawn since the bet began."""
    action: int
    origin: Array
    """[± (1 + γ) η, φ(s)], (d+1,)."""
    width: float
    """W"""
    weight: float
    """u"""
    about: Any = None
    """The planner's record of the state."""

    @property
    def total(self) -> Array:
        """u Σ (x - origin), (d+1,)."""
        return np.asarray(
            self.weight * (self.tally.sums[self.action] - self.tally.counts[self.action] * self.origin)
        )

    def price(self, bet: float) -> float:
        """ψ(λ |u| W) / W²."""
        x = bet * abs(self.weight) * self.width
        return (-math.log1p(-x) - x) / self.width**2

    def second(self) -> Array:
        """Σ (x - origin)(x - origin)ᵀ, (d+1, d+1)."""
        return self.tally.second(self.action, self.origin)


class Bet:
    """A mixture of bets on one weighted sum, with its share α of the failure probability."""

    def __init__(self, terms: Sequence[Term], share: float, planned: float) -> None:
        self.terms, self.share = list(terms), share
        self.largest = LARGEST / max(abs(term.weight) * term.width for term in self.terms)
        self.planned = min(planned, self.largest)
        """λ"""

    def frozen(self, copy: Callable[[Moments], Moments]) -> Bet:
        """The bet with copies of its samples."""
        return Bet([replace(term, tally=copy(term.tally)) for term in self.terms], self.share, self.planned)

    def row(self, box: Box, rounding: float) -> tuple[Array, float]:
        """(g, b) with <g, θ*> <= b, if the box contains θ*."""
        total = np.sum([term.total for term in self.terms], axis=0)
        seconds = [term.second() for term in self.terms]
        counts = math.fsum(abs(t.weight) * float(t.tally.counts[t.action]) for t in self.terms)
        radius = min(self._radius(k, seconds, box) for k in STEPS if self._bet(k) <= self.largest)
        return total[1:], (1 + MARGIN) * radius - float(total[0]) + rounding * counts

    def _bet(self, k: int) -> float:
        return self.planned * 0.5**k

    def _radius(self, k: int, seconds: Sequence[Array], box: Box) -> float:
        """The right-hand side of (2), for every θ in the box."""
        bet = self._bet(k)
        prices = [term.price(bet) for term in self.terms]
        matrix = np.sum([price * second for price, second in zip(prices, seconds, strict=True)], axis=0)
        return (math.log(1 / (PRIOR[k] * self.share)) + box.largest(matrix)) / bet


def planned_bet(share: float, variance: float) -> float:
    """The best λ for a sum whose variance will be about ``variance``."""
    return math.sqrt(2 * math.log(1 / (PRIOR[0] * share)) / max(variance, 1e-300))
