"""BiLin-UCB (Du et al. 2021, Algorithm 1) for linear q* and v* with one θ*, under global access.

    for t = 1, 2, .., T
        f_t  <- the optimistic hypothesis: the largest <φ_v(s0), θ> that (C) and (Q) of hypotheses.py allow
        run m episodes of π_t = argmax_a <φ_q(s, a), θ_t>; D_th are their transitions at stage h
    return the best π_t

The features of all states are read, which takes no queries, for (C): max_a <φ_q(s, a), θ> = <φ_v(s), θ>.  Given (C),

    <φ_v(s0), θ_t> - v^{π_t}(s0) = Σ_h E ℓ(o_h, θ_t),     ℓ(o_h, θ) = <φ_q(S_h, A_h), θ> - R_h - <φ_v(S_{h+1}), θ>,

so the data of a policy that earns less than θ_t promises exclude θ_t.

Mode ``paper`` runs this with T, m and R of Corollary 5.3, or with others.  Mode ``certified`` chooses them as it goes:

* m doubles until π_t is good enough or the data exclude θ_t.
* (Q) is sharpened to slabs |mean of ℓ(., θ) over D_th| <= e_th.  Given S_h and A_h, R + v*(S_{h+1}) has the mean
  q*(S_h, A_h) and a range of known length, so Hoeffding's bound for martingale differences gives e_th at θ*.
* It stops when <φ_v(s0), θ_t> - lower <= δ/2, with an empirical Bernstein bound ``lower`` on v^{π_t}(s0), provided that
  the matching upper bound is at most δ/2 above the promise; otherwise the maps do not realize the values.

Why that is δ-sound if both maps are right at every state.  Let ζ = δ/(2 · range of returns).  The j-th look at the data
of the t-th policy has confidence 1 - ζ/(2t(t+1)j(j+1)) for its H slabs together, and as much for its lower bound: they
all hold with probability 1 - ζ.  Then θ* is never cut off, and <φ_v(s0), θ_t> >= v*(s0).  Altogether
E[return] >= v*(s0) - δ/2 - ζ · range = v*(s0) - δ.

If the problem is deterministic, one episode suffices and e_th is rounding: a policy that is not optimal adds an
equation for θ that is independent of the earlier ones, so at most d + 1 policies are tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tensorplan.access.everywhere import GlobalAccess
from tensorplan.core import Policy
from tensorplan.core.errors import BadInput, Refused
from tensorplan.core.specs import number, undiscounted, whole
from tensorplan.planners.config import PlannerConfig
from tensorplan.planners.sessions import OneProblem

if TYPE_CHECKING:  # it loads the optimiser
    from tensorplan.planners.bilin_ucb.planning import BilinMemory


@dataclass(frozen=True, kw_only=True)
class BiLinUCB(PlannerConfig):
    """BiLin-UCB for the class M^{v*/q*}: both maps are right at every state, reachable or not.

    ``delta``: the allowed loss, E[return] >= v*(s0) - δ; None takes a tenth of the range of returns.  Deterministic
    problems are solved exactly, whatever δ.  ``budget``: queries per episode; once they are spent, the best policy so
    far acts, without queries.  ``time_limit``: the same in seconds of planning per episode, but for reading the
    features of all states; it makes runs irreproducible.  ``T``, ``m`` and ``R`` replace the constants of mode
    ``paper``.
    """

    mode: str = "certified"
    T: int | None = None
    m: int | None = None
    R: float | None = None
    modes: ClassVar[tuple[str, ...]] = ("certified", "paper")
    about: ClassVar[str] = "BiLin-UCB for linear q* and v*: looks at all states, needs both right everywhere"
    access: ClassVar[str] = "global"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("T", "m", "R"):
            value = getattr(self, name)
            if value is not None and self.mode != "paper":
                raise BadInput(f"{name} is a constant of mode 'paper', and the mode is {self.mode!r}")
            if value is not None:
                number(name, value, 0.0) if name == "R" else whole(name, value, 1)

    def begin(self, access: GlobalAccess, rng: np.random.Generator) -> Policy:
        """Start an episode without a memory."""
        return self.session().begin(access, rng)

    def session(self) -> BilinSession:
        """A planner that keeps its data for later episodes of the same problem, from any start state."""
        return BilinSession(self)

    def fit(self, access: GlobalAccess) -> None:
        """Refuse a problem that does not fit, before any query."""
        name = f"problem {access.problem_name!r}"
        for has, feature in ((access.has_phi_v, "phi_v"), (access.has_phi_q, "phi_q")):
            if not has:
                raise Refused(f"{name} has no {feature}: BiLin-UCB needs phi_v and phi_q")
        if access.horizon is None:
            raise Refused(f"{name} has no horizon, which BiLin-UCB needs")
        undiscounted("BiLin-UCB", access.problem_name, access.discount)
        try:
            access.states(0)
        except Refused as error:
            raise Refused(f"{error}, which BiLin-UCB needs: its hypotheses are about all of them") from None


class BilinSession:
    """BiLin-UCB with a memory, for episodes of one problem."""

    access: ClassVar[str] = "global"

    def __init__(self, config: BiLinUCB) -> None:
        self.config = config
        self._problem = OneProblem()
        self._memory: BilinMemory | None = None

    def __repr__(self) -> str:
        return repr(self.config)

    def begin(self, access: GlobalAccess, rng: np.random.Generator) -> Policy:
        """Start an episode with the data of earlier ones; mode ``paper`` keeps no data, as printed."""
        from tensorplan.planners.bilin_ucb.planning import BilinMemory, CertifiedBilinPlanning
        from tensorplan.planners.bilin_ucb.printed import PaperBilinPlanning

        self._problem.check(access)
        self.config.fit(access)
        if self.config.mode == "paper":
            given = {"T": self.config.T, "m": self.config.m, "R": self.config.R}
            return PaperBilinPlanning(self.config, given, access).plan()
        access.limit_time(self.config.time_limit)
        if self._memory is None:
            self._memory = BilinMemory(access)
        return CertifiedBilinPlanning(self.config, access, self._memory, rng).plan()
