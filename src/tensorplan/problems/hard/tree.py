"""The tree of actions of the hard MDPs (Weisz et al. 2022, section 4.4): the part that is independent of the secret.

An episode has K rounds of p steps.  Round k starts with the weights w_k, w_0 = 1; action a flips component a, once per
round, and the round ends with w_{k+1}.  With r = ⌈p/4⌉, an action repeated in the first r steps of a round is illegal,
and one repeated later freezes the round: nothing is flipped any more, nor by the repeat itself (the printed w(s, a)
flips it back).  So every w_{k+1} has a distance of at least p/4 from w_k.

The paper's states are sequences of actions.  Here a state holds what its future depends on, so that sequences with the
same future (such as the same flips in another order) are one state; the prefix is a product, whose rounding may keep
some of them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from tensorplan.core import END, End
from tensorplan.core.specs import whole
from tensorplan.problems.hard.bernoulli import Number
from tensorplan.problems.hard.features import HardFeature, HardRows
from tensorplan.problems.hard.hypercube import decay, distance


class HardState(NamedTuple):
    """A state s_ki other than ⊥; weights are bit masks (:mod:`tensorplan.problems.hard.hypercube`)."""

    round: int
    """k, the round."""
    step: int
    """i, the step within the round."""
    last: int
    """w_k, the weights at the start of the round."""
    weights: int
    """w_ki, the current weights."""
    fixed: int
    """fix, the components used in this round, or all once it is frozen."""
    prefix: Number
    """Π_{k'=1..k} g(diff(w_{k'-1}, w_k'))."""

    @property
    def flips(self) -> int:
        """ctflip, the number of components flipped in this round."""
        return distance(self.last, self.weights)

    @property
    def frozen(self) -> bool:
        """Whether an action was repeated in this round, so that more components are fixed than steps were made."""
        return self.fixed.bit_count() != self.step


class HardTree:
    """The states, transitions and features shared by the hard MDPs of all secrets.

    ``number`` is the type of the prefix: float, or Fraction for exact results.
    """

    def __init__(self, p: int, K: int, number: Any = float) -> None:
        self.p = whole("p", p, 2)
        self.K = whole("K", K, 1)
        self.number = number
        self.critical = -(-self.p // 4)
        """r, the number of steps of a round in which a repeat is illegal."""
        self.g = [number(decay(x, self.p)) for x in range(self.p + 1)]

    @property
    def actions(self) -> int:
        """The number of actions, A = p."""
        return self.p

    @property
    def horizon(self) -> int:
        """The horizon H' = K p."""
        return self.K * self.p

    @property
    def root(self) -> HardState:
        """The root s_00, the empty sequence of actions."""
        return HardState(0, 0, 0, 0, 0, self.number(1))

    def illegal(self, state: HardState, action: int) -> bool:
        """Whether the action repeats one in the first r steps of its round; possible only for p >= 5."""
        return state.step < self.critical and bool(state.fixed >> action & 1)

    def successor(self, state: HardState, action: int) -> HardState | End:
        """The state after the action; END if it is illegal.

        After the last step of a round this is the start of round k+1, even if the MDP ends there, and after the last
        round the start of round K, which only serves for its features.
        """
        k, i, last, weights, fixed, prefix = state
        bit = 1 << action
        if fixed & bit:
            if i < self.critical:
                return END
            fixed = (1 << self.p) - 1
        else:
            weights, fixed = weights ^ bit, fixed | bit
        if i + 1 < self.p:
            return HardState(k, i + 1, last, weights, fixed, prefix)
        return HardState(k + 1, 0, weights, weights, 0, prefix * self.g[distance(last, weights)])

    def layers(self) -> Iterator[list[HardState]]:
        """All states, including unreachable ones, stage by stage."""
        layer = [self.root]
        for _ in range(self.horizon):
            yield layer
            children = dict.fromkeys(self.successor(s, a) for s in layer for a in range(self.p))
            layer = [s for s in children if isinstance(s, HardState)]

    def states(self, stage: int) -> list[HardState]:
        """All states of one stage kp + i."""
        return next(islice(self.layers(), whole("stage", stage, 0, self.horizon - 1), None))

    def features(self, state: HardState | End) -> HardFeature:
        """φ_v(state), in structured form."""
        if isinstance(state, End):
            return HardFeature(self.p, self.number(0), 0, 0, 0)
        return HardFeature(self.p, state.prefix, state.flips, state.weights, state.fixed)

    def action_features(self, state: HardState) -> HardRows:
        """φ_q(state, .), in structured form: φ_v of the tree successors (Eq. phiq-def, corrected).

        The paper prints "i < p" for i < p-1, w_{k+1,1} for w_{k+1,0}, -w/2 for -(√p/2) w, and successors in the MDP,
        which depend on the secret.
        """
        return HardRows(self.features(self.successor(state, a)) for a in range(self.p))
