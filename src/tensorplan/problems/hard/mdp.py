"""The hard MDPs M^v and M^q of the lower bound (Weisz et al. 2022, sections 4.4 to 4.7), with their optimal values.

The planner searches the tree of actions (:mod:`tensorplan.problems.hard.tree`) for a secret w* in W*.  S_¬r is the set
of states with k > 0 and diff(w_k, w*) < p/4, S_r its complement.  From s_ki, action a gives (Eq. rs-def)

    (1) in S_¬r:                                        reward <φ, θ*> and ⊥; φ = φ_v(s) in M^v, φ_q(s, a) in M^q
        illegal (not in the printed equation):          reward 0 and ⊥
    (2) i = p-1 and w_{k+1} close to w*:                reward Bernoulli(f(w_1, .., w_{k+1})) and ⊥
    (3) i = p-1 and k = K-1:                            the same
    (4) else:                                           reward 0 and the tree successor.

S_¬r is not reachable from S_r.  With e^fix, e^¬fix the numbers of fixed and of free components that differ from w*,

    v'(s) = Π_{k'<=k} g(diff(w_{k'-1}, w_k')) · g(ctflip + e^¬fix) g(e^fix),       q'(s, a) = v'(tree successor),

these are v* and q* on S_r.  φ_v realizes v* of M^v everywhere, φ_q realizes q* of M^q everywhere, and on S_r both do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorplan.core import END, End, Problem, State
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import number as real
from tensorplan.core.specs import one_of, truth, whole
from tensorplan.problems.hard.bernoulli import BernoulliRewards, Number
from tensorplan.problems.hard.features import (
    DENSE_LIMIT,
    HardFeature,
    paper_dimension,
    paper_theta,
    reduced_dimension,
    reduced_theta,
)
from tensorplan.problems.hard.hypercube import distance, from_secret, is_close
from tensorplan.problems.hard.tree import HardState, HardTree


def shape_for(d: int, H: int) -> tuple[int, int]:
    """(p, K) of the paper's construction for dimension d and horizon H (Eq. a-choice); the MDP has horizon K p <= H."""
    d, H = whole("d", d, 31), whole("H", H, 81)
    p = math.isqrt(math.isqrt(d))
    if paper_dimension(p) > d:
        p -= 1
    p = min(p, math.isqrt(H))
    return p, H // p


class HardMDP(BernoulliRewards, HardTree):
    """M^v (``kind="v"``) or M^q (``kind="q"``) for one secret; without ``noise`` rewards are their means.

    Values and mean rewards are of the type ``number``; with Fraction they are exact.
    """

    def __init__(
        self,
        p: int,
        K: int,
        secret: Any = None,
        kind: str = "v",
        *,
        number: Any = float,
        noise: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(p, K, number)
        self.kind = one_of("kind", kind, ("v", "q"))
        self.noise = truth("noise", noise)
        self.secret = from_secret(secret, self.p, np.random.default_rng(whole("seed", seed, 0)))

    # -------------------------------------------------------------------------------- the simulator

    def start(self, rng: np.random.Generator) -> HardState:
        """The root s_00."""
        return self.root

    def reachable(self, state: HardState) -> bool:
        """Whether the state is in S_r.

        States in S_r whose earlier weights were close to w* are not reachable from the root either, but their values
        do not depend on those weights.
        """
        return state.round == 0 or not self.close(state.last)

    def close(self, weights: int) -> bool:
        """Whether the weights are close to w*: diff(weights, w*) < p/4."""
        return is_close(distance(weights, self.secret), self.p)

    def _outcome(self, state: HardState, action: int) -> tuple[Number, State, bool]:
        """The mean reward, the next state, and whether the reward is Bernoulli."""
        if not self.reachable(state):
            return self.v_prime(state) if self.kind == "v" else self.q_prime(state, action), END, False
        following = self.successor(state, action)
        if isinstance(following, End):
            return self.number(0), END, False
        if following.step == 0 and (following.round == self.K or self.close(following.last)):
            return self.v_prime(following), END, True
        return self.number(0), following, False

    # -------------------------------------------------------------------------------- closed forms

    def v_prime(self, state: HardState | End) -> Number:
        """v'(state) (Eq. vstar-ctflip-efix); f(w_1, .., w_k) at the start of a round."""
        if isinstance(state, End):
            return self.number(0)
        wrong = state.weights ^ self.secret
        unfixed, fixed = (wrong & ~state.fixed).bit_count(), (wrong & state.fixed).bit_count()
        return state.prefix * self.g[state.flips + unfixed] * self.g[fixed]

    def q_prime(self, state: HardState, action: int) -> Number:
        """q'(state, action) (Eq. q-prime, for all steps): v' of the tree successor, 0 for an illegal action."""
        return self.v_prime(self.successor(state, action))

    def value(self, state: HardState, stage: int = 0) -> Number:
        """v*(state), also at unreachable states; the state determines the stage."""
        if self.kind == "v" or self.reachable(state):
            return self.v_prime(state)
        return max(self.q_prime(state, a) for a in range(self.p))

    def action_value(self, state: HardState, action: int, stage: int = 0) -> Number:
        """q*(state, action), also at unreachable states."""
        if self.kind == "v" and not self.reachable(state):
            return self.v_prime(state)
        return self.q_prime(state, action)

    def policy(self, state: State) -> int:
        """π_{w*}(state), an optimal action (Eq. pi-def, whose case 2 is for S_¬r: ">" is printed for "<").

        Flip the first free component that is wrong; if there is none, freeze the round by repeating an action.
        """
        if state is END:
            return 0
        if not self.reachable(state):
            return max(range(self.p), key=lambda a: self.q_prime(state, a))
        candidates = (state.weights ^ self.secret) & ~state.fixed or state.fixed
        return int((candidates & -candidates).bit_length()) - 1


def hard(
    p: int,
    K: int,
    *,
    kind: str = "v",
    secret: Any = None,
    features: str = "reduced",
    scale: float = 1.0,
    d: int | None = None,
    noise: bool = True,
    seed: int = 0,
) -> Problem:
    """A hard MDP with features that do not depend on the secret, which is drawn from W* with the seed unless given.

    ``kind``: "v" is M^v with φ_v, "q" is M^q with φ_q, "vq" is M^v with both, of which φ_q realizes q* on S_r only.

    ``features``: "paper" (d = 1 + p + .. + p⁴ entries, divided by ``scale`` and padded to ``d``), "reduced" (the same
    polynomial in Σ_{m<=4} C(p, m) entries), or "structured": objects of O(p) bits, for p too large for dense features;
    ``problem.mdp.features(state)`` has their inner products, and planners that do not use features still work.
    """
    one_of("kind", kind, ("v", "q", "vq"))
    one_of("features", features, ("paper", "reduced", "structured"))
    mdp = HardMDP(p, K, secret, kind[0], noise=noise, seed=seed)
    p, K = mdp.p, mdp.K
    scale = real("scale", scale, 1.0)
    if features != "paper" and (scale != 1 or d is not None):
        raise BadInput(f"scale and d are for features='paper', got features={features!r}")
    d = None if d is None else whole("d", d, paper_dimension(p))

    size = reduced_dimension(p) if features == "reduced" else d or paper_dimension(p)
    fits = size * (p if "q" in kind else 1) <= DENSE_LIMIT
    if not fits and features != "structured":
        raise BadInput(
            f"features={features!r} have {size:,} entries for p = {p}, too many to store; use features='structured'"
        )
    encode: Callable[[HardFeature], Any] = {
        "paper": lambda feature: feature.dense(scale, d),
        "reduced": HardFeature.reduced,
        "structured": lambda feature: feature,
    }[features]

    def phi_v(state: HardState, stage: int) -> Any:
        return encode(mdp.features(state))

    def phi_q(state: HardState, stage: int) -> Any:
        rows = mdp.action_features(state)
        return rows if features == "structured" else np.array([encode(row) for row in rows])

    theta = None
    if fits:
        theta = reduced_theta(mdp.secret, p) if features == "reduced" else paper_theta(mdp.secret, p, scale, d)
    return Problem(
        mdp,
        phi_v if "v" in kind else None,
        phi_q if "q" in kind else None,
        bound=math.sqrt(size) if features == "reduced" else math.sqrt(5) * scale,
        name=f"hard/{p}x{K}",
        solution=mdp,
        theta=theta,
    )
