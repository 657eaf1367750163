"""All that is claimed of the MDP of :mod:`tensorplan.problems.exponential`, in fractions.

Where there are few states, all of them are looked at, those that contain the secret included, and q* comes from
backward induction on the simulator; for every secret, or for that of the seed where it would be too much.  Else random
states are, at up to ACTIONS of their actions, and q* is one step of the simulator from the closed form.
Near-orthogonality is checked for all pairs.  Vectors have a factor 1/√n, which appears twice in all that is compared:
<u_a, u_b> is a fraction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from tensorplan.core import State
from tensorplan.lab.claims import STATES, Claims, Number, Progress, Verification
from tensorplan.problems.exponential import BOUND, EXIT, ExponentialMDP, draw
from tensorplan.problems.near_orthogonal import Signs, closest, dot
from tensorplan.specs import whole

EXHAUSTIVE = 20_000
"""The most pairs of a state and an action, counted for each secret, that are looked at one by one."""
ACTIONS = 32
"""How many actions of a sampled state are looked at."""
WRITTEN = 20
"""At how many sampled states the features are written out, in floating point."""

QUARTER = Fraction(1, 4)

NEAR = "|<u_a, u_b>| <= 1/4 for a != b"
PHI_Q = "phi_q realizes q* everywhere"
FORMS = "written features are the exact ones"
NORMS = "features have norm <= 1"
THETA = "theta* has norm B = 5 sqrt(2)/9"
SCALES = "sigma is in [1/4, 1]"
POLICY = "the secret is optimal until taken"
GAP = "the gap at the root is >= 1/4"
REWARDS = "mean rewards are in [0, 1]"
BLIND = "features do not know the secret"
SILENT = "answers without the secret hide it"
BELLMAN = "the closed forms solve Bellman's equation"
FORMULAS = "the closed forms are what backward induction finds"
CLAIMS = (NEAR, PHI_Q, FORMS, NORMS, THETA, SCALES, POLICY, GAP, REWARDS, BLIND, SILENT, BELLMAN, FORMULAS)


def verify_exponential(
    make_mdp: Callable[..., ExponentialMDP],
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
    """Check the claims for MDPs built as :class:`ExponentialMDP` is."""
    states = whole("states", states, 1)
    signs, H, drawn = draw(d, horizon, actions, secret, seed)
    k = len(signs)
    pairs = k * sum(math.perm(k, h) + (h > 0) for h in range(H))
    few = pairs <= exhaustive
    secrets = [drawn, *(a for a in range(k) if a != drawn)] if k * pairs <= exhaustive else [drawn]
    rng = np.random.default_rng([seed, 3])

    claims = _Claims(CLAIMS)
    check_vectors(claims, NEAR, signs)
    done = looked_at = 0
    for w in secrets:
        make = partial(make_mdp, signs, H)
        mdp, other, floating = make(w, number=Fraction), make((w + 1) % k, number=Fraction), make(w)
        layers = [list(mdp.states(h)) for h in range(H)] if few else _sample(mdp, states, rng)
        solved = _backward_induction(mdp, layers) if few else None
        looked_at = sum(map(len, layers))
        spacing = 1 if few else -(-looked_at // WRITTEN)
        for h, layer in enumerate(layers):
            for number, s in enumerate(layer):
                claims.at(partial(_place, mdp, h, s))
                chosen = range(k) if few or k <= ACTIONS else _some_actions(mdp, s, rng)
                claims.of_state(mdp, other, s, h, chosen, None if solved is None else solved[h][number])
                if done % spacing == 0:
                    claims.written(floating, mdp, s, h, chosen)
                done += 1
                if progress is not None:
                    progress(done, len(secrets) * looked_at)
        claims.at(partial(_place, mdp))
        claims.near(THETA, float(np.linalg.norm(floating.theta)), BOUND)
    if (k, H) == (2, 1):
        claims.beyond.add(SILENT)  # each answer is about one secret or the other
    if not few:
        claims.beyond.add(FORMULAS)
        if k > ACTIONS:
            claims.more[PHI_Q] = f"{ACTIONS} of the {k:,} actions of each state"
    method = "exhaustive, exact fractions" if few else "sampled"
    return Verification(f"exponential/{1 + signs.shape[1]}", method, looked_at, len(secrets), claims.checks())


class _Claims(Claims):
    """The claims about one state."""

    gap: Number = math.inf
    """The smallest at the roots so far."""

    def of_state(
        self,
        mdp: ExponentialMDP,
        other: ExponentialMDP,
        s: State,
        h: int,
        chosen: Sequence[int],
        solved: list[Number] | None,
    ) -> None:
        """What is claimed of some actions of a state; ``solved`` is q* from backward induction, where there is one."""
        w, last = mdp.secret, h == mdp.horizon - 1
        closed = [mdp.action_value(s, a) for a in chosen]
        steps = [(mdp.mean_reward(s, a), mdp.next_state(s, a)) for a in chosen]
        ahead = [mean if last else mean + mdp.value(t) for mean, t in steps]
        self.equal(BELLMAN, closed, ahead)
        q = ahead if solved is None else solved
        if solved is not None:
            self.equal(FORMULAS, [mdp.value(s), *closed], [max(q), *q])
        if s != EXIT and w not in s:
            self.equal(POLICY, [q[list(chosen).index(w)]], [max(q)])
        if s == ():
            known = dict(zip(chosen, q, strict=True))
            rest = (known[a] if a in known else mdp.action_value(s, a) for a in range(mdp.actions) if a != w)
            gap = known[w] - max(rest)
            self.bound(GAP, max(0, QUARTER - gap), gap >= QUARTER)
            self.gap = min(self.gap, gap)
            self.more[GAP] = f"the smallest is {float(self.gap):.4g}"
        for a, right, (mean, following) in zip(chosen, q, steps, strict=True):
            x, y = mdp.feature(s, a)
            self.equal(PHI_Q, [Fraction(5, 9) * (x + y * Fraction(dot(mdp.signs, a, w), mdp.entries))], [right])
            self.bound(NORMS, math.sqrt(x * x + y * y), x * x + y * y <= 1)
            self.true(BLIND, (x, y) == other.feature(s, a))
            self.bound(REWARDS, mean, 0 <= mean <= 1)
            sequence = s != EXIT and a not in s
            if sequence:
                sigma = mdp.scale(s, a)
                self.bound(SCALES, sigma, QUARTER <= sigma <= 1)
            if s == EXIT or not {w, other.secret} & {a, *s}:
                expected = Fraction(2, 3) ** mdp.horizon / 6 if last and sequence else Fraction(0)
                leak = abs(mean - expected)
                same = leak <= 3 * expected / 4 and following == other.next_state(s, a)
                self.bound(SILENT, leak, same)

    def written(self, floating: ExponentialMDP, mdp: ExponentialMDP, s: State, h: int, chosen: Sequence[int]) -> None:
        """Features as planners see them, (x, y u_a) in floating point; θ* with them."""
        rows, theta = floating.phi_q(s, h), floating.theta
        for a in chosen:
            x, y = mdp.feature(s, a)
            exact = np.append(float(x), float(y) * mdp.signs[a] / math.sqrt(mdp.entries))
            self.near(FORMS, float(np.abs(rows[a] - exact).max()), 0.0)
            self.near(
                FORMS,
                float(rows[a] @ theta),
                float(Fraction(5, 9) * (x + y * Fraction(dot(mdp.signs, a, mdp.secret), mdp.entries))),
            )


def check_vectors(claims: Claims, claim: str, signs: Signs) -> None:
    """Near-orthogonality of all pairs, in whole numbers."""
    k, n = signs.shape
    claims.at(lambda: f"among {k:,} vectors of {n} entries")
    largest = Fraction(closest(signs), n)
    claims.bound(claim, largest, largest <= QUARTER and bool((np.abs(signs) == 1).all()))
    claims.more[claim] = f"all {k * (k - 1) // 2:,} pairs"


def _backward_induction(mdp: ExponentialMDP, layers: list[list[State]]) -> list[list[list[Number]]]:
    """q* from the mean rewards and the transitions alone, by stages."""
    q: list[list[list[Number]]] = []
    ahead: dict[State, Number] = {}
    for layer in reversed(layers):
        steps = [[(mdp.mean_reward(s, a), mdp.next_state(s, a)) for a in range(mdp.actions)] for s in layer]
        q.append([[mean + (ahead[t] if ahead else 0) for mean, t in row] for row in steps])
        ahead = {s: max(row) for s, row in zip(layer, q[-1], strict=True)}
    return q[::-1]


def _sample(mdp: ExponentialMDP, states: int, rng: np.random.Generator) -> list[list[State]]:
    """The root, the exit lane, and random sequences of all lengths by stages, about half of them with the secret."""
    k, H = mdp.actions, mdp.horizon
    found: list[dict[State, None]] = [{} for _ in range(H)]
    found[0][()] = None
    if H > 1:
        found[H - 1][EXIT] = None
    for _ in range(10 * states):  # there may be fewer
        if sum(map(len, found)) >= states:
            break
        h = int(rng.integers(min(H, k + 1)))
        sequence = rng.choice(k, size=h, replace=False).tolist()
        if h and rng.random() < 0.5 and mdp.secret not in sequence:
            sequence[int(rng.integers(h))] = mdp.secret
        found[h][tuple(sequence)] = None
    return [list(layer) for layer in found]


def _some_actions(mdp: ExponentialMDP, s: State, rng: np.random.Generator) -> list[int]:
    """The secret, those of the state, and random ones."""
    own = () if s == EXIT else s
    return list(dict.fromkeys([mdp.secret, *own, *rng.choice(mdp.actions, ACTIONS, replace=False).tolist()]))[:ACTIONS]


def _place(mdp: ExponentialMDP, h: int | None = None, s: State = None) -> str:
    secret = f"with the secret {mdp.secret}"
    return secret if h is None else f"{secret} in stage {h} at {s!r}"
