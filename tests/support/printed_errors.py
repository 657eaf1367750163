"""The MDPs of the limits with a formula as printed; the numbers are those of the errata in ``docs/paper_map.md``."""

from __future__ import annotations

from fractions import Fraction

from tensorplan.core import END
from tensorplan.paper.verify.hard import _powers
from tensorplan.problems.hard.exponential import ExponentialMDP
from tensorplan.problems.hard.features import HardFeature, HardRows
from tensorplan.problems.hard.hypercube import distance
from tensorplan.problems.hard.mdp import HardMDP


class Normalised(HardFeature):
    """-(√p/2) w̄ for -(√p/2) w, for a square p."""

    def tensors(self, unit):
        return super().tensors(unit / Fraction(round(self.p**0.5)))

    def value(self, secret):
        return sum(t @ w for t, w in zip(self.tensors(1), _powers(secret, self.p), strict=True))


def normalised(feature):
    return Normalised(feature.p, feature.prefix, feature.flips, feature.weights, feature.fixed)


class Five(HardMDP):
    """Normalised weights in φ_v."""

    def features(self, state):
        return normalised(super().features(state))


class Six(HardMDP):
    """The same in φ_q at the last step of a round."""

    def action_features(self, state):
        rows = super().action_features(state)
        return HardRows(map(normalised, rows)) if state.step == self.p - 1 else rows


class Seven(HardMDP):
    """φ_q at the last step is φ_v of the next state ("i < p" holds always), and s_{K,0} = ⊥."""

    def action_features(self, state):
        rows = super().action_features(state)
        last = (state.round, state.step) == (self.K - 1, self.p - 1)
        return HardRows(self.features(END) for _ in rows) if last else rows


class Eight(HardMDP):
    """φ_q takes weights that are one step late: w_{k+1,1} is w_{k+1,0} with one component flipped, say the first."""

    def action_features(self, state):
        rows = super().action_features(state)
        late = (HardFeature(self.p, f.prefix, 0, f.weights ^ 1, 0) for f in rows)
        return HardRows(late) if state.step == self.p - 1 else rows


class Nine(HardMDP):
    """φ_q takes successors in the MDP."""

    def action_features(self, state):
        return HardRows(self.features(self.next_state(state, a)) for a in range(self.p))


class Ten(HardMDP):
    """A repeat flips back."""

    def successor(self, state, action):
        following = super().successor(state, action)
        if following is END or state.frozen or not state.fixed >> action & 1:
            return following
        weights = following.weights ^ 1 << action
        if following.step:
            return following._replace(weights=weights)
        prefix = state.prefix * self.g[distance(state.last, weights)]
        return following._replace(last=weights, weights=weights, prefix=prefix)


class Eleven(HardMDP):
    """Illegal actions are appended as others are, which leads to states that no feature is defined for."""

    def successor(self, state, action):
        if not self.illegal(state, action):
            return super().successor(state, action)
        return state._replace(step=state.step + 1, fixed=(1 << self.p) - 1)

    def action_features(self, state):
        return HardRows(self.features(HardMDP.successor(self, state, a)) for a in range(self.p))


class Twelve(HardMDP):
    """The policy looks at φ_q far from the secret, ">" for "<"."""

    def policy(self, state):
        if 4 * distance(state.last, self.secret) > self.p:
            return max(range(self.p), key=lambda a: self.q_prime(state, a))
        wrong = (state.weights ^ self.secret) & ~state.fixed
        chosen = [a for mask in (wrong, state.fixed) for a in range(self.p) if mask >> a & 1]
        return chosen[0] if chosen else None


class Thirteen(HardMDP):
    """The policy freezes only where as many components are fixed as were flipped."""

    def policy(self, state):
        done = not (state.weights ^ self.secret) & ~state.fixed
        undefined = self.reachable(state) and done and state.fixed.bit_count() != state.flips
        return None if undefined else super().policy(state)


class PrintedStages(ExponentialMDP):
    """The lecture notes' (2/3)^{h-1}, h from 0, with the same c_{H-1}.

    The last means are (2/3)^H (1/2 + (9/4) σ <u_a, u_{a*}>)/3.
    """

    def shrink(self, stage):
        return (self.number(2) / 3) ** (stage - 1)

    def offset(self, stage):
        last = (self.number(2) / 3) ** self.horizon / 2
        return last + sum(self.number(5) / 8 * self.shrink(h) for h in range(stage + 1, self.horizon))
