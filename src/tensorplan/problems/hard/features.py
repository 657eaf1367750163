"""The features of the hard MDPs: one polynomial in the secret, stored in O(p) bits (Weisz et al. 2022, appendix A).

With x = ctflip + e^¬fix and y = e^fix, both affine in w*, the optimal value at a state is Π g · g(x) g(y).  Write
w̄* = w*/√p, u = -(√p/2)(¬fix · w_ki), v = -(√p/2)(fix · w_ki), with w_ki not normalised (it is printed as w̄_ki, which
breaks realizability).  Then x = x0 + <u, w̄*> and y = y0 + <v, w̄*> with x0 = ctflip + |¬fix|/2, y0 = |fix|/2, and

    g(x) = Σ_a ξ_a <u, w̄*>^a,      ξ = (1 + α x0 + β x0², α + 2 β x0, β),      α = -(2p+1)/(2p²),  β = 1/(2p²).

So φ_v = Π g · [Z_0, .., Z_4], Z_m = Σ_{a+b=m} ξ_a η_b u^⊗a ⊗ v^⊗b, realizes it with θ* = [1, w̄*, .., w̄*^⊗4].  The paper
divides φ by 63 and multiplies θ* by 63; this is not needed, since ‖φ_v‖ <= 0.69, and then ‖θ*‖ = √5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array
from tensorplan.core.errors import BadInput
from tensorplan.problems.hard.bernoulli import Number
from tensorplan.problems.hard.hypercube import to_signs

DENSE_LIMIT = 2**22
"""Most entries of dense features of one state, which bounds memory."""


def paper_dimension(p: int) -> int:
    """The dimension of the paper's features, 1 + p + p² + p³ + p⁴."""
    return sum(p**m for m in range(5))


def reduced_dimension(p: int) -> int:
    """The number of square-free monomials of degree <= 4 in p variables."""
    return sum(math.comb(p, m) for m in range(5))


@dataclass(frozen=True, slots=True)
class HardFeature:
    """φ_v of one state of the hard MDPs, in structured form.

    It has the shape of the dense array, (1 + p + .. + p⁴,), and NumPy can convert it to one of at most DENSE_LIMIT
    entries.
    """

    p: int
    prefix: Number
    """Π g over the complete rounds; 0 at ⊥."""
    flips: int
    """ctflip, the number of components flipped in this round."""
    weights: int
    """w_ki as a bit mask."""
    fixed: int
    """fix as a bit mask."""

    @property
    def shape(self) -> tuple[int]:
        """The shape of the dense features, (d,)."""
        return (paper_dimension(self.p),)

    def value(self, secret: int) -> Number:
        """<φ_v, θ*> for the secret with this bit mask, in O(p) bit operations."""
        free, wrong = self._free, self.weights ^ secret
        xi, eta = self._factors()
        s = self._half(2 * (wrong & free).bit_count() - free.bit_count())
        t = self._half(2 * (wrong & self.fixed).bit_count() - self.fixed.bit_count())
        return self.prefix * (xi[0] + s * (xi[1] + s * xi[2])) * (eta[0] + t * (eta[1] + t * eta[2]))

    def dot(self, other: HardFeature) -> Number:
        """<φ_v, φ_v'> of two states, in O(p) bit operations.

        The inner product of u^⊗a ⊗ v^⊗b and u'^⊗a' ⊗ v'^⊗b' with a + b = a' + b' and δ = a - a' is
        <u, u'>^min(a, a') <v, v'>^min(b, b') times <u, v'>^δ or <v, u'>^-δ.
        """
        if other.p != self.p:
            raise BadInput(f"features of p = {self.p} and p = {other.p} have no inner product")
        apart = self.weights ^ other.weights

        def inner(mine: int, yours: int) -> Number:
            both = mine & yours
            return self._half(self.p * (both.bit_count() - 2 * (apart & both).bit_count())) / 2

        uu, uv = inner(self._free, other._free), inner(self._free, other.fixed)
        vu, vv = inner(self.fixed, other._free), inner(self.fixed, other.fixed)
        xi, eta = self._factors()
        xi_, eta_ = other._factors()
        x, y = _by_difference(xi, xi_, uu), _by_difference(eta_, eta, vv)
        across = vu * (vu * x[0] * y[0] + x[1] * y[1]) + x[2] * y[2] + uv * (x[3] * y[3] + uv * x[4] * y[4])
        return self.prefix * other.prefix * across

    def norm(self) -> float:
        """‖φ_v‖ <= 0.69."""
        return math.sqrt(self.dot(self))

    def tensors(self, unit: Any) -> list[NDArray[Any]]:
        """Π g · Z_0, .., Π g · Z_4, flattened, as coefficients of the powers of w*/unit; the paper has unit = √p.

        With fractions and unit = 1 every entry is rational, and inner products with θ* are the same.
        """
        xi, eta = self._factors()
        signs, fixed = self._signs()
        u, v = _powers(signs * (1 - fixed)), _powers(signs * fixed)
        half, parts = self._half(-1) * unit, []
        for m in range(5):
            terms = [(a, m - a) for a in range(max(0, m - 2), min(2, m) + 1)]
            scales = [self.prefix * xi[a] * eta[b] * half**m for a, b in terms]
            tensors = [np.multiply.outer(u[a], v[b]).ravel().astype(self._dtype) for a, b in terms]
            parts.append(sum(c * t for c, t in zip(scales, tensors, strict=True)))
        return parts

    def dense(self, scale: float = 1.0, d: int | None = None) -> Array:
        """The paper's φ_v, (d,), divided by ``scale`` and padded with zeros."""
        phi = np.concatenate(self.tensors(math.sqrt(self.p))).astype(np.float64) / scale
        return phi if d is None else np.pad(phi, (0, d - len(phi)))

    def reduced(self) -> NDArray[Any]:
        """The coefficients of the same polynomial reduced by w*_j² = 1, (Σ_{m<=4} C(p, m),).

        The coefficient of Π_{j∈S} w*_j is Π_{j∈S} w_j times a number that depends only on how many of S are fixed.
        By Parseval the squared norm is the mean of the squared value over all of W, at most 1.
        """
        xi, eta = self._factors()
        signs, fixed = self._signs()
        # <u, w̄*>² = (n + 2 Σ_{i<j} w_i w_j w*_i w*_j)/4 over the n components of u
        x = [xi[0] + xi[2] * self._free.bit_count() / 4, -xi[1] / 2, xi[2] / 2, 0, 0]
        y = [eta[0] + eta[2] * self.fixed.bit_count() / 4, -eta[1] / 2, eta[2] / 2, 0, 0]
        table = np.multiply.outer(np.array(x, dtype=self._dtype), np.array(y, dtype=self._dtype))
        parts = []
        for m, chosen in enumerate(_monomials(self.p)):
            count = fixed[chosen].sum(axis=1)
            parts.append(self.prefix * table[m - count, count] * signs[chosen].prod(axis=1))
        return np.concatenate(parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        _check_size(self.p, 1)
        return self.dense()

    @property
    def _free(self) -> int:
        return ~self.fixed & ((1 << self.p) - 1)

    @property
    def _dtype(self) -> Any:
        return np.float64 if isinstance(self.prefix, float) else np.object_

    def _signs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """w_ki with entries ±1, and fix with entries 0 and 1, (p,) each."""
        bits = np.array([(self.weights >> j & 1, self.fixed >> j & 1) for j in range(self.p)])
        return 1 - 2 * bits[:, 0], bits[:, 1]

    def _half(self, whole: int) -> Number:
        """Half of a whole number, in the number type of this feature."""
        return whole / 2 if isinstance(self.prefix, float) else Fraction(whole, 2)

    def _factors(self) -> tuple[Sequence[Number], Sequence[Number]]:
        """The coefficients ξ and η of g(x) and g(y)."""
        alpha, beta = _coefficients(self.p, isinstance(self.prefix, float))
        fixed = self.fixed.bit_count()
        x = self._half(2 * self.flips + self.p - fixed)
        y = self._half(fixed)
        return (
            (1 + x * (alpha + x * beta), alpha + 2 * x * beta, beta),
            (1 + y * (alpha + y * beta), alpha + 2 * y * beta, beta),
        )


class HardRows(tuple[HardFeature, ...]):
    """φ_q of one state in structured form: one feature per action, with the shape (A, d) of the dense array."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the dense features, (A, d)."""
        return len(self), *self[0].shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        _check_size(self[0].p, len(self))
        return np.array([feature.dense() for feature in self])


def paper_theta(secret: int, p: int, scale: float = 1.0, d: int | None = None) -> Array:
    """θ* = scale [1, w̄*, w̄*^⊗2, w̄*^⊗3, w̄*^⊗4, 0], (d,) (Eq. ltheta-def): norm √5 scale."""
    powers = [np.ones(1)]
    for _ in range(4):
        powers.append(np.multiply.outer(powers[-1], to_signs(secret, p) / math.sqrt(p)).ravel())
    theta = scale * np.concatenate(powers)
    return theta if d is None else np.pad(theta, (0, d - len(theta)))


def reduced_theta(secret: int, p: int) -> Array:
    """The square-free monomials of degree <= 4 at w*, (Σ_{m<=4} C(p, m),): entries ±1."""
    signs = to_signs(secret, p)
    return np.concatenate([signs[chosen].prod(axis=1) for chosen in _monomials(p)])


def _by_difference(c: Sequence[Number], e: Sequence[Number], inner: Number) -> tuple[Number, ...]:
    """Σ_{a-a'=δ} c_a e_a' inner^min(a, a') for δ = -2 .. 2."""
    return (
        c[0] * e[2],
        c[0] * e[1] + inner * c[1] * e[2],
        c[0] * e[0] + inner * (c[1] * e[1] + inner * c[2] * e[2]),
        c[1] * e[0] + inner * c[2] * e[1],
        c[2] * e[0],
    )


def _powers(u: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """1, u and u⊗u, flattened."""
    return [np.ones(1, dtype=np.int64), u, np.multiply.outer(u, u).ravel()]


@lru_cache
def _coefficients(p: int, rounded: bool) -> tuple[Number, Number]:
    """The coefficients α and β of g."""
    alpha, beta = Fraction(-2 * p - 1, 2 * p * p), Fraction(1, 2 * p * p)
    return (float(alpha), float(beta)) if rounded else (alpha, beta)


@lru_cache(maxsize=8)
def _monomials(p: int) -> list[NDArray[np.intp]]:
    """The subsets of m components, (C(p, m), m), for m = 0 .. 4."""
    subsets = (chain.from_iterable(combinations(range(p), m)) for m in range(5))
    return [np.fromiter(s, dtype=np.intp).reshape(math.comb(p, m), m) for m, s in enumerate(subsets)]


def _check_size(p: int, rows: int) -> None:
    d = paper_dimension(p)
    if rows * d > DENSE_LIMIT:
        raise BadInput(
            f"the features of p = {p} have d = {d:,} entries, too many to store; "
            f"mdp.features(state) gives their inner products"
        )
