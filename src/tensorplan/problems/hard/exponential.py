"""The MDP of Weisz, Amortila and Szepesvári (2020, Theorem 9): linear q*, one good of exponentially many actions.

k unit vectors u_a with |<u_a, u_b>| <= 1/4 (:mod:`tensorplan.problems.hard.near_orthogonal`) and a secret action a*.  A
state of stage h is a sequence of h different actions, or the exit lane.  With s a for the sequence s extended by a,

    q*(s, a) = (c_h + (2/3)^h σ_{s,a} <u_a, u_{a*}>)/3,           c_h = (5/4)(2/3)^h - (11/8)(2/3)^H,
    σ_{(),a} = 1,    σ_{sa,b} = 5/8 + (3/2) σ_{s,a} <u_a, u_b>,   which is in [1/4, 1],

for an action a that is not in s, and zero for a repeat and in the exit lane.  This is linear in u_{a*}:

    φ_q(s, a) = (3/5) (c_h, (2/3)^h σ_{s,a} u_a),    θ* = (5/9) (1, u_{a*}),    ‖φ_q‖ <= (3/5)√(25/16 + 1) < 1.

Here h = 0 .. H-1.  The stage index matters: with (2/3)^{h-1} for (2/3)^h, as in lecture notes, rewards can be negative.
From s, action a gives

    a repeat, or in the exit lane:     reward 0, and the exit lane
    s contains a*:                     reward q*(s, a), and the exit lane; such states are unreachable
    a = a*:                            the same
    h = H-1:                           reward Bernoulli(q*(s, a))
    else:                              reward 0, and s a.

a* is optimal unless it was taken before, and its gap at the root is at least (1 - <u_a, u_{a*}>)/3 >= 1/4.

**Why it is hard.**  A planner can try the actions at the root one by one, which takes about k/2 queries.  Or it can use
the rewards of the last stage, whose means contain (2/3)^H σ <u_a, u_{a*}>/2.  They are Bernoulli with means of about
(2/3)^H/6: almost all are zero, and it takes of the order of (3/2)^H of them to see any signal.  Hence the default
horizon, the smallest with (3/2)^H >= k.  :func:`forced_queries` makes this precise.  With ``noise=False`` the means are
observed, and d of them determine θ*: that problem is easy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, pairwise, permutations
from typing import Any

import numpy as np

from tensorplan.core import Array, Problem, State
from tensorplan.core.errors import Refused
from tensorplan.core.specs import number as real
from tensorplan.core.specs import one_of, truth, whole
from tensorplan.problems.hard.bernoulli import BernoulliRewards, Number
from tensorplan.problems.hard.near_orthogonal import MOST, Signs, dot, near_orthogonal, usual_count

EXIT = "exit"
"""The state of the exit lane, at any stage."""
LISTED = 2_000_000
"""Most states of a stage that are enumerated, which bounds memory."""
SCALES = 100_000
"""Most scales σ of states that are cached, likewise."""
BOUND = math.sqrt(2) * 5 / 9
"""B = ‖θ*‖."""


class ExponentialMDP(BernoulliRewards):
    """The MDP for one secret; without ``noise`` rewards are their means.

    ``signs`` (k, n) are the vectors, u_a = signs[a]/√n.  A state is a tuple of different actions, or EXIT.  Values,
    mean rewards and scales are of the type ``number``; with Fraction they are exact.
    """

    def __init__(self, signs: Signs, horizon: int, secret: int, *, number: Any = float, noise: bool = True) -> None:
        self.signs = signs
        self.actions, self.entries = signs.shape
        self.dimension = 1 + self.entries
        self.horizon = horizon
        self.secret = secret
        self.number = number
        self.noise = noise
        self.units: Array = signs / math.sqrt(self.entries)
        self._one, self._level, self._slope = number(1), number(5) / 8, number(3) / 2
        self._scales: dict[State, Number] = {}

    # -------------------------------------------------------------------------------- the simulator

    def start(self, rng: np.random.Generator) -> tuple[int, ...]:
        """The empty sequence."""
        return ()

    def states(self, stage: int) -> Iterator[State]:
        """All states of one stage, including those that contain a*."""
        size = math.perm(self.actions, stage)
        if size > LISTED:
            raise Refused(f"stage {stage} of this problem has {size:,} states, too many to enumerate")
        sequences: Iterator[State] = permutations(range(self.actions), stage)
        return chain(sequences, [EXIT]) if stage else sequences

    def _outcome(self, state: State, action: int) -> tuple[Number, State, bool]:
        """The mean reward, the next state, and whether the reward is Bernoulli."""
        if state == EXIT or action in state:
            return self.number(0), EXIT, False
        if action == self.secret or self.secret in state:
            return self.action_value(state, action), EXIT, False
        if len(state) == self.horizon - 1:
            return self.action_value(state, action), EXIT, True
        return self.number(0), (*state, action), False

    # -------------------------------------------------------------------------------- closed forms

    def inner(self, a: int, b: int) -> Number:
        """<u_a, u_b>."""
        return self.number(dot(self.signs, a, b)) / self.entries

    def shrink(self, stage: int) -> Number:
        """(2/3)^h."""
        return (self.number(2) / 3) ** stage

    def offset(self, stage: int) -> Number:
        """c_h."""
        return 5 * self.shrink(stage) / 4 - 11 * (self.number(2) / 3) ** self.horizon / 8

    def scale(self, state: State, action: int) -> Number:
        """σ_{s,a}."""
        return self._next(self.last_scale(state), state[-1], action) if state else self._one

    def last_scale(self, state: State) -> Number:
        """σ of the last step of a state, computed from that of its predecessor if it is cached."""
        known = self._scales.get(state)
        if known is None:
            before = self._scales.get(state[:-1])
            steps = pairwise(state if before is None else state[-2:])
            known = self._one if before is None else before
            for a, b in steps:
                known = self._next(known, a, b)
            if len(self._scales) >= SCALES:
                self._scales.clear()
            self._scales[state] = known
        return known

    def _next(self, sigma: Number, a: int, b: int) -> Number:
        """5/8 + (3/2) σ <u_a, u_b>."""
        return self._level + self._slope * sigma * self.inner(a, b)

    def feature(self, state: State, action: int) -> tuple[Number, Number]:
        """(x, y) of φ_q(s, a) = (x, y u_a)."""
        if state == EXIT or action in state:
            return self.number(0), self.number(0)
        stage = len(state)
        return 3 * self.offset(stage) / 5, 3 * self.shrink(stage) * self.scale(state, action) / 5

    def action_value(self, state: State, action: int, stage: int = 0) -> Number:
        """q*(state, action), also at unreachable states; the state determines the stage."""
        if state == EXIT or action in state:
            return self.number(0)
        stage = len(state)
        along = self.scale(state, action) * self.inner(action, self.secret)
        return (self.offset(stage) + self.shrink(stage) * along) / 3

    def value(self, state: State, stage: int = 0) -> Number:
        """v*(state), which is q*(state, a*) unless a* was taken before."""
        if state == EXIT:
            return self.number(0)
        if self.secret not in state:
            return self.action_value(state, self.secret)
        return max(self.action_value(state, a) for a in range(self.actions))

    def phi_q(self, state: State, stage: int) -> Array:
        """φ_q(state, .), (k, d), which does not depend on the secret."""
        rows = np.zeros((self.actions, self.dimension))
        if state == EXIT:
            return rows
        sigma: Any = 1.0
        if state:
            sigma = 0.625 + 1.5 * float(self.last_scale(state)) * (self.units @ self.units[state[-1]])
        shrink, offset = float(self.shrink(len(state))), float(self.offset(len(state)))
        rows[:, 0] = 0.6 * offset
        rows[:, 1:] = (0.6 * shrink * np.broadcast_to(sigma, self.actions))[:, None] * self.units
        rows[list(state)] = 0.0
        return rows

    @property
    def theta(self) -> Array:
        """θ*, (d,)."""
        return np.concatenate([[1.0], self.units[self.secret]]) * (5 / 9)


def exponential(
    d: int = 64,
    *,
    horizon: int | None = None,
    actions: int | None = None,
    secret: int | None = None,
    seed: int = 0,
    noise: bool = True,
) -> Problem:
    """The MDP with exponentially many actions, in M^{q*} ∩ M^{Pdet}; features have dimension d, vectors d - 1 entries.

    By default there are k = ⌊e^{(d-1)/32}⌋ ``actions`` (at least 2), the ``horizon`` is the smallest with
    (3/2)^H >= k, and the secret is drawn with the seed, like the vectors.
    """
    signs, horizon, secret = draw(d, horizon, actions, secret, seed)
    mdp = ExponentialMDP(signs, horizon, secret, noise=truth("noise", noise))
    return Problem(
        mdp, None, mdp.phi_q, bound=BOUND, name=f"exponential/{mdp.dimension}", solution=mdp, theta=mdp.theta
    )


def draw(d: int, horizon: int | None, actions: int | None, secret: int | None, seed: int) -> tuple[Signs, int, int]:
    """The vectors, the horizon and the secret of :func:`exponential`."""
    d, seed = whole("d", d, 3), whole("seed", seed, 0)
    k = usual_count(d - 1) if actions is None else whole("actions", actions, 2, MOST)
    horizon = usual_horizon(k) if horizon is None else whole("horizon", horizon, 1)
    if secret is None:
        secret = int(np.random.default_rng([seed, 2]).integers(k))
    secret = whole("secret", secret, 0, k - 1)
    return near_orthogonal(k, d - 1, np.random.default_rng([seed, 1])), horizon, secret


def usual_horizon(k: int) -> int:
    """The smallest H with (3/2)^H >= k."""
    horizon = 1
    while 3**horizon < k * 2**horizon:
        horizon += 1
    return horizon


def forced_queries(k: int, horizon: int, *, delta: float = 9 / 128, access: str = "local") -> float:
    """A lower bound on the queries of every planner that is δ-sound on this family in its first call, for some secret.

    It bounds expected queries under ``access`` "local" or "global", with noise, for soundness over all k secrets.
    Proof.  Let the secret be uniformly random.

    1. The root gap is at least 1/4, so E[return] <= v* - P(A_0 != a*)/4, and a δ-sound planner has P(A_0 = a*) >=
       1 - 4δ for each secret.
    2. Let M_0 be the MDP without a secret: no action pays before the last stage, where every action that is not a
       repeat pays Bernoulli((2/3)^H/6).  The planner's behaviour in M_0 is independent of a*.  A query *involves* a* if
       a* is the action or in the state.  All other queries have the same results in M_0 and in the MDP of a*, except
       for the rewards of the last stage: their means are (2/3)^H (1/2 + (3/2) σ <u_a, u_{a*}>)/3, so the results are
       within τ = (2/3)^H/8 in total variation.
    3. A query involves at most m actions that no earlier one did: m = 1 under local access, where a state is reached
       by queries that involve its actions; m = H under global access.  So, if N is the number of queries, for every n

           P(A_0 = a*, N <= n) <= (1 + m n)/k + n τ:

       stop the planner after n queries.  In M_0 its queries and its action involve at most 1 + m n actions, and a* is
       one of them with probability at most (1 + m n)/k.  Otherwise the two MDPs can be coupled such that any result
       differs with probability at most n τ.
    4. P(N > n) >= P(A_0 = a*) - P(A_0 = a*, N <= n), hence

           E[N] = Σ_{n>=0} P(N > n) >= Σ_{n>=0} max(0, 1 - 4δ - (1 + m n)/k - n τ).

    This bounds the mean over the secrets, and hence the expectation for one of them.  For τ = 0, m = 1 and δ = 0 the
    sum is (k - 1)/2; trying the actions one by one takes (k - 1)(k + 2)/(2k), less than one query more.
    """
    k, horizon = whole("k", k, 2), whole("horizon", horizon, 1)
    fresh = {"local": 1, "global": horizon}[one_of("access", access, ("local", "global"))]
    wanted = 1 - 4 * real("delta", delta, 0.0) - 1 / k
    if wanted <= 0:
        return 0.0
    slope = fresh / k + (2 / 3) ** horizon / 8
    last = math.floor(wanted / slope)
    return (last + 1) * (wanted - slope * last / 2)
