"""The constants of BiLin-UCB for linear q*/v* (Du et al. 2021, Theorem 5.2 and Corollary 5.3), specialised to one θ*.

Both maps share θ, so that E ℓ(o_h, θ) = <θ - θ*, X_h>, X_h = E[φ_q(S_h, A_h) - φ_v(S_{h+1})]: everything lives in R^d,
with ‖X_h‖ <= B_X = 2 and ‖θ‖ <= B_W = max(B, 1).  With γ̃ the critical information gain,

    d_Φ   = γ̃(1/(8 B_W² m)) ln(1 + 3 B_X B_W sqrt(m γ̃(1/(8 B_W² m)))),         ε_gen = 12 H sqrt(d_Φ / m)
    T     = d_X = γ̃(ε_gen²/B_W²), over all H stages together
    R     = (12 H / sqrt m) sqrt(d_X d_Φ) sqrt(ln(d_X H / δ)) = sqrt T · ε_gen · sqrt(ln(T H / δ))
    loss <= 3 H ε_gen (1 + sqrt(T ln(T H / δ)))                                 with probability 1 - δ.

The paper gives m up to its order, d² H⁵ ln(1/δ)/ε² and logarithms; here m is where the bound on the loss meets ε.
γ̃, the smallest k with k >= γ_k(λ), is bounded as in Lemma F.3: γ_k(λ) <= d ln(1 + k B_X²/(dλ)) at each stage, and the
smallest k for the sum over stages is taken (for one stage, the printed 3 d ln(1 + 3 B_X²/λ) rounded up is not smaller).

The analysis is for rewards in [0, 1], and for hypotheses whose values lie in [0, H].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tensorplan.core.errors import BadInput
from tensorplan.core.specs import number, whole

B_X = 2.0
"""The largest norm of φ_q(s, a) - φ_v(s')."""


@dataclass(frozen=True, kw_only=True)
class BilinConstants:
    """The constants of one run of BiLin-UCB as printed; :func:`bilin_constants` computes them."""

    d: int
    H: int
    B: float
    epsilon: float
    failure: float
    T: int
    m: int
    R: float
    overridden: tuple[str, ...]

    @property
    def trajectories(self) -> int:
        """m T: the rollouts of one policy serve all stages."""
        return self.m * self.T

    @property
    def queries(self) -> int:
        """The queries of the trajectories, at most."""
        return self.trajectories * self.H


def bilin_constants(
    d: int,
    H: int,
    B: float,
    epsilon: float,
    failure: float,
    *,
    T: int | None = None,
    m: int | None = None,
    R: float | None = None,
) -> BilinConstants:
    """The constants for d features, horizon H, ‖θ*‖ <= B, and a loss ε with probability 1 - ``failure``.

    Given ones replace the printed ones, and enter the formulas of the others.  m is the least with which the bound on
    the loss is at most ε.
    """
    d, H = whole("d", d, 1), whole("H", H, 1)
    if not number("B", B, 0.0) > 0:
        raise BadInput(f"B must be positive, got {B!r}")
    if not 0 < number("epsilon", epsilon, 0.0, H) < H:
        raise BadInput(f"epsilon must lie strictly between 0 and H = {H}, got {epsilon!r}")
    if not 0 < number("failure", failure, 0.0, 1.0) < 1 / 3:
        raise BadInput(f"failure must lie strictly between 0 and 1/3, got {failure!r}")
    given = {"T": T, "m": m, "R": R}
    if m is None:
        m = _smallest(lambda size: _loss(d, H, B, failure, T, size) <= epsilon)
    m = whole("m", m, 1)
    iterations, spread = _sizes(d, H, B, T, m)
    if R is None:
        R = math.sqrt(iterations * math.log(iterations * H / failure)) * spread
    return BilinConstants(
        d=d,
        H=H,
        B=float(B),
        epsilon=float(epsilon),
        failure=float(failure),
        T=iterations,
        m=m,
        R=number("R", R, 0.0),
        overridden=tuple(name for name, value in given.items() if value is not None),
    )


def critical_gain(d: int, stages: int, scale: float) -> int:
    """The smallest whole k > 0 with k >= stages · d ln(1 + k · scale / d), where scale = B_X²/λ.

    The difference of the two sides is convex in k and zero at zero, so all larger k satisfy it too.
    """
    return _smallest(lambda k: k >= stages * d * math.log1p(k * scale / d))


def _smallest(enough: Callable[[int], bool]) -> int:
    """The smallest whole n > 0 that is enough, if all larger ones are."""
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _sizes(d: int, H: int, B: float, T: int | None, m: int) -> tuple[int, float]:
    """(T, ε_gen) at a batch size m."""
    width = max(float(B), 1.0)
    gain = critical_gain(d, 1, 8 * (B_X * width) ** 2 * m)
    spread = 12 * H * math.sqrt(gain * math.log1p(3 * B_X * width * math.sqrt(m * gain)) / m)
    if T is None:
        T = critical_gain(d, H, (B_X * width / spread) ** 2)
    return whole("T", T, 1), spread


def _loss(d: int, H: int, B: float, failure: float, T: int | None, m: int) -> float:
    """The bound on the loss at a batch size m."""
    iterations, spread = _sizes(d, H, B, T, m)
    return 3 * H * spread * (1 + math.sqrt(iterations * math.log(iterations * H / failure)))
