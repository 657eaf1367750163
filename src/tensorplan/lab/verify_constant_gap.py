"""All that is claimed of the MDP with a constant gap (:mod:`tensorplan.problems.constant_gap`), in fractions.

Where there are few pairs of a state and an action, all of them are looked at, those of ā* included, and q* comes from
backward induction on the simulator.  Else random states are, at up to ACTIONS of their actions, and q* is one step of
the simulator from the closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from tensorplan.core import State
from tensorplan.lab.claims import STATES, Claims, Number, Progress, Verification
from tensorplan.lab.verify_exponential import check_vectors
from tensorplan.problems.constant_gap import BOUND, FALLEN, ConstantGapMDP, draw
from tensorplan.problems.near_orthogonal import dot
from tensorplan.specs import whole

EXHAUSTIVE = 50_000
"""The most pairs of a state and an action that are looked at one by one."""
ACTIONS = 32
"""How many actions of a sampled state are looked at."""
WRITTEN = 20
"""At how many sampled states the features are written out, in floating point."""

NEAR = "|<v_a, v_b>| <= 1/4 for a != b"
PHI_Q = "phi_q realizes q* everywhere"
FORMS = "written features are the exact ones"
NORMS = "features have norm <= 1"
THETA = "theta* has norm B = sqrt 2"
CHANCES = "chances to go on are in [1/4, 3/4], or 0"
POLICY = "the secret is optimal, action 0 at f"
GAP = "gaps are >= 1/16 at reachable states"
REWARDS = "rewards are in [-1, 3/4]"
BLIND = "features do not know the secret"
LOST = "the state of the secret cannot be reached"
BELLMAN = "the closed forms solve Bellman's equation"
FORMULAS = "the closed forms are what backward induction finds"
CLAIMS = (NEAR, PHI_Q, FORMS, NORMS, THETA, CHANCES, POLICY, GAP, REWARDS, BLIND, LOST, BELLMAN, FORMULAS)


def verify_constant_gap(
    make_mdp: Callable[..., ConstantGapMDP],
    d: int,
    *,
    horizon: int | None = None,
    actions: int | None = None,
    secret: int | None = None,
    seed: int = 0,
    states: int = STATES,
    progress: Progress | None = None,
    exhaustive: int = EXHAUSTIVE,
) -> Verification:
    """Check the claims for MDPs built as :class:`ConstantGapMDP` is."""
    states = whole("states", states, 1)
    signs, H, w = draw(d, horizon, actions, secret, seed)
    m = len(signs)
    few = m * (m * H + H - 1) <= exhaustive
    rng = np.random.default_rng([seed, 3])
    make = partial(make_mdp, signs, H)
    mdp, other, floating = make(w, number=Fraction), make(0, number=Fraction), make(w)

    claims = _Claims(CLAIMS)
    check_vectors(claims, NEAR, signs)
    layers = [list(mdp.states(h)) for h in range(H)] if few else _sample(mdp, states, rng)
    solved = _backward_induction(mdp, layers) if few else None
    looked_at, done = sum(map(len, layers)), 0
    spacing = 1 if few else -(-looked_at // WRITTEN)
    for h, layer in enumerate(layers):
        for number, s in enumerate(layer):
            claims.at(partial(_place, mdp, h, s))
            chosen = range(m) if few or m <= ACTIONS else _some_actions(mdp, s, rng)
            claims.of_state(mdp, other, s, h, chosen, None if solved is None else solved[h][number])
            if done % spacing == 0:
                claims.written(floating, mdp, s, h, chosen)
            done += 1
            if progress is not None:
                progress(done, looked_at)
    claims.at(partial(_place, mdp))
    claims.near(THETA, float(np.linalg.norm(floating.theta)), BOUND)
    if not few:
        claims.beyond.add(FORMULAS)
        if m > ACTIONS:
            claims.more[PHI_Q] = f"{ACTIONS} of the {m:,} actions of each state"
    method = "exhaustive, exact fractions" if few else "sampled"
    return Verification(f"constant-gap/{signs.shape[1] + 1}", method, looked_at, 1, claims.checks())


class _Claims(Claims):
    """The claims about one state."""

    gap: Number = math.inf
    """The smallest so far."""

    def of_state(
        self,
        mdp: ConstantGapMDP,
        other: ConstantGapMDP,
        s: State,
        h: int,
        chosen: Sequence[int],
        solved: list[Number] | None,
    ) -> None:
        """What is claimed of some actions of a state; ``solved`` is q* from backward induction, where there is one."""
        w = mdp.secret
        closed = [mdp.action_value(s, b) for b in chosen]
        rewards, chances = [mdp.reward(s, b) for b in chosen], [mdp.chance(s, b) for b in chosen]
        ahead = [r + p * mdp.value((h + 1, b)) if p else r for b, r, p in zip(chosen, rewards, chances, strict=True)]
        self.equal(BELLMAN, closed, ahead)
        q = ahead if solved is None else solved
        if solved is not None:
            self.equal(FORMULAS, [mdp.value(s), *closed], [max(q), *q])
        if s == FALLEN or s[1] != w:
            best = list(chosen).index(0 if s == FALLEN else w)
            self.equal(POLICY, [q[best]], [max(q)])
            gap = q[best] - max(right for i, right in enumerate(q) if i != best)
            self.gap = min(self.gap, gap)
            self.bound(GAP, max(0, Fraction(1, 16) - gap), gap >= Fraction(1, 16))
            self.more[GAP] = f"the smallest is {float(self.gap):.4g}"
        for b, right, reward, chance in zip(chosen, q, rewards, chances, strict=True):
            x, y = mdp.feature(s, b)
            self.equal(PHI_Q, [x * Fraction(dot(mdp.signs, b, w), mdp.entries) + y], [right])
            self.bound(NORMS, math.sqrt(x * x + y * y), x * x + y * y <= 1)
            self.true(BLIND, (x, y) == other.feature(s, b))
            self.bound(REWARDS, abs(reward), -1 <= reward <= Fraction(3, 4))
            self.bound(CHANCES, chance, chance == 0 or Fraction(1, 4) <= chance <= Fraction(3, 4))
            if b == w:
                self.bound(LOST, chance, chance == 0)

    def written(self, floating: ConstantGapMDP, mdp: ConstantGapMDP, s: State, h: int, chosen: Sequence[int]) -> None:
        """Features as planners see them, (x v_b, y) in floating point; θ* with them."""
        rows, theta = floating.phi_q(s, h), floating.theta
        for b in chosen:
            x, y = mdp.feature(s, b)
            exact = np.append(float(x) * mdp.signs[b] / math.sqrt(mdp.entries), float(y))
            self.near(FORMS, float(np.abs(rows[b] - exact).max()), 0.0)
            self.near(
                FORMS, float(rows[b] @ theta), float(x * Fraction(dot(mdp.signs, b, mdp.secret), mdp.entries) + y)
            )


def _backward_induction(mdp: ConstantGapMDP, layers: list[list[State]]) -> list[list[list[Number]]]:
    """q* from the rewards and the transitions alone, by stages."""
    q: list[list[list[Number]]] = []
    ahead: dict[State, Number] = {}
    for h, layer in reversed(list(enumerate(layers))):
        rows = []
        for s in layer:
            steps = [(mdp.reward(s, b), mdp.chance(s, b), b) for b in range(mdp.actions)]
            after = [(p, ahead.get((h + 1, b), 0), ahead.get(FALLEN, 0)) for _, p, b in steps]
            rows.append([r + p * v + (1 - p) * f for (r, _, _), (p, v, f) in zip(steps, after, strict=True)])
        q.append(rows)
        ahead = {s: max(row) for s, row in zip(layer, rows, strict=True)}
    return q[::-1]


def _sample(mdp: ConstantGapMDP, states: int, rng: np.random.Generator) -> list[list[State]]:
    """The start, the states of the secret and f, and random states, by stages."""
    H = mdp.horizon
    found: list[dict[State, None]] = [{(h, mdp.secret): None} for h in range(H)]
    found[0][0, 0] = None
    if H > 1:
        found[H - 1][FALLEN] = None
    for _ in range(10 * states):  # there may be fewer
        if sum(map(len, found)) >= states:
            break
        h = H - 1 if rng.random() < 0.25 else int(rng.integers(H))
        found[h][h, int(rng.integers(mdp.actions))] = None
    return [list(layer) for layer in found]


def _some_actions(mdp: ConstantGapMDP, s: State, rng: np.random.Generator) -> list[int]:
    """The secret, that of the state, the first, and random ones."""
    own = 0 if s == FALLEN else s[1]
    return list(dict.fromkeys([mdp.secret, own, 0, *rng.choice(mdp.actions, ACTIONS, replace=False).tolist()]))[
        :ACTIONS
    ]


def _place(mdp: ConstantGapMDP, h: int | None = None, s: State = None) -> str:
    secret = f"with the secret {mdp.secret}"
    return secret if h is None else f"{secret} in stage {h} at {s!r}"
