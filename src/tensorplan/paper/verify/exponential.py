"""The claims about the MDP of :mod:`tensorplan.problems.hard.exponential`, in fractions.

If there are few states, those that contain the secret are checked too, for every secret or for that of the seed; the
method is in :mod:`tensorplan.paper.verify.one_secret`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tensorplan.core import State
from tensorplan.paper.verify.claims import BELLMAN, BLIND, FORMULAS, Number, Verification
from tensorplan.paper.verify.one_secret import FORMS, NORMS, PHI_Q, QUARTER, FamilyClaims, Layers, verify_family
from tensorplan.problems.hard.exponential import BOUND, EXIT, ExponentialMDP, draw
from tensorplan.problems.hard.near_orthogonal import Signs, dot

NEAR = "|<u_a, u_b>| <= 1/4 for a != b"
THETA = "theta* has norm B = 5 sqrt(2)/9"
SCALES = "sigma is in [1/4, 1]"
POLICY = "the secret is optimal until taken"
GAP = "the gap at the root is >= 1/4"
REWARDS = "mean rewards are in [0, 1]"
SILENT = "answers without the secret hide it"
CLAIMS = (NEAR, PHI_Q, FORMS, NORMS, THETA, SCALES, POLICY, GAP, REWARDS, BLIND, SILENT, BELLMAN, FORMULAS)


def verify_exponential(make_mdp: Callable[..., ExponentialMDP], d: int, **options: Any) -> Verification:
    """Check the claims for MDPs built like :class:`ExponentialMDP`; ``options`` are those of ``verify_family``."""
    return verify_family(_Claims, make_mdp, d, **options)


def _sample(mdp: ExponentialMDP, states: int, rng: np.random.Generator) -> Layers:
    """The root, the exit lane, and random sequences of all lengths by stage, about half of them with the secret."""
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


def _realized(mdp: ExponentialMDP, a: int, x: Number, y: Number) -> Number:
    """<φ, θ*> of the feature (x, y u_a)."""
    return Fraction(5, 9) * (x + y * Fraction(dot(mdp.signs, a, mdp.secret), mdp.entries))


class _Claims(FamilyClaims):
    """The claims about one state."""

    family, claims = "exponential", CLAIMS
    near_claim, theta_claim, length = NEAR, THETA, BOUND
    exhaustive = 20_000
    sample = staticmethod(_sample)

    def draw(self, *size: Any) -> tuple[Signs, int, int]:
        """The vectors, the horizon and the secret, drawn as for the problem."""
        return draw(*size)

    def pairs(self, k: int, H: int) -> int:
        """The number of pairs: all sequences of different actions, and the exit."""
        return k * sum(math.perm(k, h) + (h > 0) for h in range(H))

    def secrets(self, drawn: int, k: int, every: bool) -> list[tuple[int, int]]:
        """All, or the drawn one."""
        chosen = [drawn, *(a for a in range(k) if a != drawn)] if every else [drawn]
        return [(w, (w + 1) % k) for w in chosen]

    def solve(self, mdp: ExponentialMDP, layers: Layers) -> list[list[list[Number]]]:
        """q* from mean rewards and transitions alone, by stage."""
        q: list[list[list[Number]]] = []
        ahead: dict[State, Number] = {}
        for layer in reversed(layers):
            steps = [[(mdp.mean_reward(s, a), mdp.next_state(s, a)) for a in range(mdp.actions)] for s in layer]
            q.append([[mean + (ahead[t] if ahead else 0) for mean, t in row] for row in steps])
            ahead = {s: max(row) for s, row in zip(layer, q[-1], strict=True)}
        return q[::-1]

    def own_actions(self, mdp: ExponentialMDP, s: State) -> Sequence[int]:
        """The secret, and the actions of the state."""
        return [mdp.secret, *(() if s == EXIT else s)]

    def of_state(
        self,
        mdp: ExponentialMDP,
        other: ExponentialMDP,
        s: State,
        h: int,
        chosen: Sequence[int],
        solved: list[Number] | None,
    ) -> None:
        """Check the claims about some actions of a state."""
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
            self.smallest_gap(GAP, known[w] - max(rest), QUARTER)
        for a, right, (mean, following) in zip(chosen, q, steps, strict=True):
            x, y = mdp.feature(s, a)
            self.equal(PHI_Q, [_realized(mdp, a, x, y)], [right])
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
        if (mdp.actions, mdp.horizon) == (2, 1):
            self.beyond.add(SILENT)  # each answer is about one secret or the other

    def exact_row(self, mdp: ExponentialMDP, s: State, a: int) -> tuple[list[float], Number]:
        """(x, y u_a)."""
        x, y = mdp.feature(s, a)
        return [float(x), *(float(y) * mdp.signs[a] / math.sqrt(mdp.entries))], _realized(mdp, a, x, y)
