"""The constants of TensorPlan: the paper's, eqs. (eddef)-(algn3def), any of them replaced.

E_d and ε are defined through each other there.  With ε(E) = (δ/(12H²))^A / (1 + 1/(2√E)) and

    G(E) = ⌊3 (d+1)^A e/(e-1) ln{3 + 3 (2·3^A (B+1)^A / (H^A ε(E)))²} + 1⌋

the proof needs E >= G(E) only, so E_d is the smallest whole number with that property.  In n3 the division by ζ belongs
inside the logarithm, where the printed parenthesis closes too early.  The numbers grow like (dH/δ)^A and are exact:
decimals carry them with as many digits as they have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from typing import Any, ClassVar

from tensorplan.core.errors import BadInput
from tensorplan.core.specs import number, whole

CONSTANTS = ("n1", "n2", "n3", "c", "zeta")
"""The constants that can be overridden."""

_SPARE = 50
"""Guard digits."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PaperOptions:
    """The parameters that mode ``paper`` adds: constants that override the printed ones."""

    mode: str = "paper"
    n1: int | None = None
    n2: int | None = None
    n3: int | None = None
    c: float | None = None
    zeta: float | None = None
    modes: ClassVar[tuple[str, ...]] = ("paper",)

    @property
    def overrides(self) -> dict[str, Any]:
        """The constants by name, None for the printed one."""
        return {name: getattr(self, name) for name in CONSTANTS}


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The constants of one run of TensorPlan; :func:`constants` computes them.

    ``log10_epsilon`` and ``log10_c`` are valid even if ``epsilon`` and ``c`` underflow to 0.0.  ``failures`` bounds the
    number of failed consistency tests in Init, None if no bound is known; it assumes estimates as accurate as with the
    paper's n2 and n3.
    """

    A: int
    d: int
    H: int
    delta: float
    B: float
    E_d: int
    epsilon: float
    log10_epsilon: float
    zeta: float
    c: float
    log10_c: float
    n1: int
    n2: int
    n3: int
    failures: int | None
    overridden: tuple[str, ...]

    @property
    def iterations(self) -> int | None:
        """The most iterations of Init, one more than its failures: E_d + 2 unless c was overridden."""
        return None if self.failures is None else self.failures + 1

    @property
    def threshold(self) -> float:
        """δ/(4H), above which a temporal difference fails the consistency test."""
        return self.delta / (4 * self.H)

    @property
    def init_queries(self) -> int | float:
        """The worst-case number of queries of Init, exactly; ``inf`` if its iterations are unbounded."""
        if self.iterations is None:
            return math.inf
        return self.iterations * (self.n1 * self.H * (self.A * self.n2 + 1) + self.A * self.n3)

    @property
    def call_queries(self) -> int:
        """The queries of every later call."""
        return self.A * self.n2


def constants(
    A: int,
    d: int,
    H: int,
    delta: float,
    B: float,
    *,
    n1: int | None = None,
    n2: int | None = None,
    n3: int | None = None,
    c: float | None = None,
    zeta: float | None = None,
) -> Constants:
    """The paper's constants for A actions, d features, horizon H, loss δ and ‖θ*‖ <= B, except those given.

    Given n1, n2 and ζ enter the formulas of the others; E_d and ε are always the paper's.  If c is given, ``failures``
    comes from :func:`product_failures`.
    """
    A, d, H = whole("A", A, 1), whole("d", d, 1), whole("H", H, 1)
    delta, B = _positive("delta", delta), _positive("B", B)
    given = {"n1": n1, "n2": n2, "n3": n3, "c": c, "zeta": zeta}
    if zeta is not None and not 0 < number("zeta", zeta, 0.0, 1.0) < 1:
        raise BadInput(f"zeta must lie strictly between 0 and 1, got {zeta!r}")
    E = eluder_dimension(A, d, H, delta, B)
    failures = E + 1 if c is None else product_failures(A, d, H, delta, B, number("c", c, 0.0))
    size = math.log10(d + 1) + 2 * (math.log10(H) + math.log10(B + 1) + abs(math.log10(delta)))
    loss, bound = Decimal(delta), Decimal(B)
    risk, parts = (loss, 4 * H) if zeta is None else (Decimal(float(zeta)), 1)  # ζ = risk / parts
    with localcontext(_context(size)):
        epsilon = _epsilon(E, A, H, loss)
        slack = Decimal(H) ** A * epsilon / (2 * Decimal(E).sqrt()) if c is None else Decimal(float(c))
        log10_epsilon, log10_c = _log10(epsilon), _log10(slack)
        if n1 is None:
            n1 = _ceil(32 * (1 + 2 * bound) ** 2 / loss**2 * ((E + 1) * parts / risk).ln())
        n1 = whole("n1", n1, 1)
        if n2 is None:
            log = (4 * (E + 1) * n1 * H * A * (d + 1) * parts / risk).ln()
            n2 = _ceil(1867 * H**2 * (bound + 1) ** 2 * (d + 1) / (2 * loss**2) * log)
        n2 = whole("n2", n2, 1)
    if n3 is None:
        size += _digits(E) + 2 * A * abs(math.log10(12) + 2 * math.log10(H) - math.log10(delta))
        with localcontext(_context(size)):
            log = (2 * (E + 1) * n1 * H * A * parts / risk).ln()
            n3 = max(n2, _ceil(32 * (H + 1) ** 2 * E / _epsilon(E, A, H, loss) ** 2 * log))
    n3 = whole("n3", n3, 1)
    return Constants(
        A=A,
        d=d,
        H=H,
        delta=delta,
        B=B,
        E_d=E,
        epsilon=float(epsilon),
        log10_epsilon=log10_epsilon,
        zeta=float(risk / parts),
        c=float(slack),
        log10_c=log10_c,
        n1=n1,
        n2=n2,
        n3=n3,
        failures=failures,
        overridden=tuple(name for name, value in given.items() if value is not None),
    )


def eluder_dimension(A: int, d: int, H: int, delta: float, B: float) -> int:
    """E_d, the smallest whole E with E >= G(E), eqs. (eddef) and (algepsdef).

    G does not increase, so G(G(E)) is admissible whenever E is.  If that is not below E, E is the smallest: beyond
    G(∞) >= 11 the formula inside the floor has slope above -1/7, so E - G(E) <= 1, and G(E - 1) >= E if it is 1.
    """

    def g(E: int) -> int:
        ratio = 2 * (3 * (Decimal(B) + 1) / H) ** A / _epsilon(E, A, H, Decimal(delta))
        return math.floor(factor * (3 + 3 * ratio**2).ln() + 1)

    tensors: int = (d + 1) ** A
    with localcontext(_context(_digits(tensors))):
        e = Decimal(1).exp()
        factor = 3 * tensors * e / (e - 1)
        E = g(1)
        while (tighter := g(g(E))) < E:
            E = tighter
    return E


def product_failures(A: int, d: int, H: int, delta: float, B: float, c: float) -> int | None:
    """The most failures that Init can record if Sol(X) allows products up to c; None if no bound is known.

    Failures are symmetric tensors, of dimension C(d+A, A) and norm at most 5^{A/2}; [1,θ]^{⊗A} has norm at most
    (1+B²)^{A/2}; their product is above (δ/(12H))^A when it fails and at most c later.  For c = 0 the
    failures are independent, and one direction, that of θ*, is orthogonal to all.
    """
    D = math.comb(d + A, A)
    if c == 0:
        return D - 1
    with localcontext(_context(0)):
        L, S = Decimal(5).sqrt() ** A, (1 + Decimal(B) ** 2).sqrt() ** A
        return failure_bound(D, L=L, S=S, alpha=(Decimal(delta) / (12 * H)) ** A, c=c)


def failure_bound(D: int, *, L: Decimal | float, S: Decimal | float, alpha: Decimal | float, c: float) -> int | None:
    """The length of the longest sequence (x_t, f_t) in R^D that the elliptic potential allows, or None.

    If |<x_t,f_t>| > α, |<x_i,f_t>| <= c for i < t, ‖x‖ <= L and ‖f‖ <= S, then n elements imply for all λ > 0

        n ln(1 + α²/(λS² + nc²)) <= D ln(1 + nL²/(λD)).

    With λ = nνL², w = (LS/α)² and q = (c/α)² this reads n ln(1 + 1/(n(wν + q))) <= D ln(1 + 1/(νD)): the left side
    grows with n and the right side does not, so if n is excluded all larger ones are.  The ν that excludes most is the
    smaller root of Dw(w-1)ν² + w(D(2q + 1/n) - 1)ν + Dq(q + 1/n), which takes n > D.  Numbers are right to 40 digits,
    and n beyond 10^9 D counts as no bound.
    """

    def excluded(n: int) -> bool:
        linear, constant = w * (1 - D * (2 * q + 1 / Decimal(n))), D * q * (q + 1 / Decimal(n))
        square = linear**2 - 4 * D * w * (w - 1) * constant
        if linear <= 0 or square < 0:
            return False
        nu = 2 * constant / (linear + square.sqrt())
        return n * (1 + 1 / (n * (w * nu + q))).ln() > D * (1 + 1 / (nu * D)).ln()

    with localcontext(_context(0)):
        w, q = (Decimal(L) * Decimal(S) / Decimal(alpha)) ** 2, (Decimal(c) / Decimal(alpha)) ** 2
        if w <= 1:
            return 0
        if q == 0:
            return D
        low, high = D, D * 10**9
        if not excluded(high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if excluded(middle) else (middle, high)
        return low


def _epsilon(E: int, A: int, H: int, delta: Decimal) -> Decimal:
    """ε(E), eq. (algepsdef)."""
    return (delta / (12 * H**2)) ** A / (1 + 1 / (2 * Decimal(E).sqrt()))


def _context(size: float) -> Context:
    """Decimal arithmetic with all digits of numbers up to 10^size, and guard digits; it does not overflow."""
    return Context(prec=math.ceil(size) + _SPARE, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _digits(n: int) -> float:
    return n.bit_length() * math.log10(2)


def _ceil(x: Decimal) -> int:
    """⌈x⌉, and at least 1: logarithms turn negative when δ is far above H."""
    return max(1, math.ceil(x))


def _log10(x: Decimal) -> float:
    return x.adjusted() + math.log10(x.scaleb(-x.adjusted())) if x else -math.inf


def _positive(name: str, value: Any) -> float:
    x = number(name, value, 0.0)
    if x == 0:
        raise BadInput(f"{name} must be positive, got {value!r}")
    return x
