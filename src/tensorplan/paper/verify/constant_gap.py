"""The claims about the MDP with a constant gap (:mod:`tensorplan.problems.hard.constant_gap`), in fractions.

If there are few states, those of ā* are checked too; the method is in :mod:`tensorplan.paper.verify.one_secret`.
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
from tensorplan.problems.hard.constant_gap import BOUND, FALLEN, ConstantGapMDP, draw
from tensorplan.problems.hard.near_orthogonal import Signs, dot

NEAR = "|<v_a, v_b>| <= 1/4 for a != b"
THETA = "theta* has norm B = sqrt 2"
CHANCES = "chances to go on are in [1/4, 3/4], or 0"
POLICY = "the secret is optimal, action 0 at f"
GAP = "gaps are >= 1/16 at reachable states"
REWARDS = "rewards are in [-1, 3/4]"
LOST = "the state of the secret cannot be reached"
CLAIMS = (NEAR, PHI_Q, FORMS, NORMS, THETA, CHANCES, POLICY, GAP, REWARDS, BLIND, LOST, BELLMAN, FORMULAS)


def verify_constant_gap(make_mdp: Callable[..., ConstantGapMDP], d: int, **options: Any) -> Verification:
    """Check the claims for MDPs built like :class:`ConstantGapMDP`; ``options`` are those of ``verify_family``."""
    return verify_family(_Claims, make_mdp, d, **options)


def _realized(mdp: ConstantGapMDP, b: int, x: Number, y: Number) -> Number:
    """<φ, θ*> of the feature (x v_b, y)."""
    return x * Fraction(dot(mdp.signs, b, mdp.secret), mdp.entries) + y


class _Claims(FamilyClaims):
    """The claims about one state."""

    family, claims = "constant-gap", CLAIMS
    near_claim, theta_claim, length = NEAR, THETA, BOUND
    exhaustive = 50_000

    def draw(self, *size: Any) -> tuple[Signs, int, int]:
        """The vectors, the horizon and the secret, drawn as for the problem."""
        return draw(*size)

    def pairs(self, k: int, H: int) -> int:
        """The number of pairs: one state for each action and stage, and f."""
        return k * (k * H + H - 1)

    def secrets(self, drawn: int, k: int, every: bool) -> list[tuple[int, int]]:
        """The drawn one."""
        return [(drawn, 0)]

    def sample(self, mdp: ConstantGapMDP, states: int, rng: np.random.Generator) -> Layers:
        """The start, the states of the secret and f, and random states, by stage."""
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

    def solve(self, mdp: ConstantGapMDP, layers: Layers) -> list[list[list[Number]]]:
        """q* from rewards and transitions alone, by stage."""
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

    def own_actions(self, mdp: ConstantGapMDP, s: State) -> Sequence[int]:
        """The secret, the action of the state, and the first one."""
        return [mdp.secret, 0 if s == FALLEN else s[1], 0]

    def of_state(
        self,
        mdp: ConstantGapMDP,
        other: ConstantGapMDP,
        s: State,
        h: int,
        chosen: Sequence[int],
        solved: list[Number] | None,
    ) -> None:
        """Check the claims about some actions of a state."""
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
            self.smallest_gap(GAP, gap, Fraction(1, 16))
        for b, right, reward, chance in zip(chosen, q, rewards, chances, strict=True):
            x, y = mdp.feature(s, b)
            self.equal(PHI_Q, [_realized(mdp, b, x, y)], [right])
            self.bound(NORMS, math.sqrt(x * x + y * y), x * x + y * y <= 1)
            self.true(BLIND, (x, y) == other.feature(s, b))
            self.bound(REWARDS, abs(reward), -1 <= reward <= Fraction(3, 4))
            self.bound(CHANCES, chance, chance == 0 or QUARTER <= chance <= Fraction(3, 4))
            if b == w:
                self.bound(LOST, chance, chance == 0)

    def exact_row(self, mdp: ConstantGapMDP, s: State, b: int) -> tuple[list[float], Number]:
        """(x v_b, y)."""
        x, y = mdp.feature(s, b)
        return [*(float(x) * mdp.signs[b] / math.sqrt(mdp.entries)), float(y)], _realized(mdp, b, x, y)
