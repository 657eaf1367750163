"""The tree of actions of the hard MDPs (Weisz et al. 2022, section 4.4): all of them that does not know the secret.

An episode has K rounds of p steps.  Round k starts with the weights w_k, w_0 = 1, and in it action a flips component a,
once; what the round ends with is w_{k+1}.  With r = ⌈p/4⌉, an action repeated in the first r steps of its round is
illegal, and one repeated later freezes the round: nothing is flipped any more, nor by the repeat itself (the printed
w(s, a) flips it back).  So every w_{k+1} is at a distance of at least p/4 from w_k.

The paper's states are sequences of actions.  Ours hold what their future depends on, and sequences that agree in it
(the same flips in another order, say) are one state; the prefix is a product, which in floating point may keep some
of them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from tensorplan.core import END, End
from tensorplan.core.specs import whole
from tensorplan.problems.hard.features import HardFeature, HardRows, Number
from tensorplan.problems.hard.hypercube import decay, distance


class HardState(NamedTuple):
    """s_ki, a state other than ⊥; weights and masks are bit masks, see :mod:`tensorplan.problems.hard.hypercube`."""

    round: int
    """k."""
    step: int
    """i."""
    last: int
    """w_k, the weights at the start of the round."""
    weights: int
    """w_ki."""
    fixed: int
    """fix: the components used in this round, all of them once it is frozen."""
    prefix: Number
    """Π_{k'=1..k} g(diff(w_{k'-1}, w_k'))."""

    @property
    def flips(self) -> int:
        """ctflip, the components flipped in this round."""
        return distance(self.last, self.weights)

    @property
    def frozen(self) -> bool:
        """Whether an action was repeated in this round: more components are fixed than steps were made."""
        return self.fixed.bit_count() != self.step


class HardTree:
    """The states, moves and features that the hard MDPs of all secrets share.

    ``number`` is the type of the prefix: float to run, Fraction to verify.
    """

    def __init__(self, p: int, K: int, number: Any = float) -> None:
        self.p = whole("p", p, 2)
        self.K = whole("K", K, 1)
        self.number = number
        self.critical = -(-self.p // 4)
        """r, the steps of a round in which a repeat is illegal."""
        self.g = [number(decay(x, self.p)) for x in range(self.p + 1)]

    @property
    def actions(self) -> int:
        """A = p."""
        return self.p

    @property
    def horizon(self) -> int:
        """H' = K p."""
        return self.K * self.p

    @property
    def root(self) -> HardState:
        """The empty sequence."""
        return HardState(0, 0, 0, 0, 0, self.number(1))

    def illegal(self, state: HardState, action: int) -> bool:
        """Whether the action repeats one in the first r steps of its round; possible for p >= 5 only."""
        return state.step < self.critical and bool(state.fixed >> action & 1)

    def successor(self, state: HardState, action: int) -> HardState | End:
        """The sequence with the action appended, END if it is illegal.

        After the last step of a round this is the start of round k+1 whatever the MDP does there, and round K after
        the last round, a state that is only good for its features.
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
        """All states, the unreachable ones included, stage by stage."""
        layer = [self.root]
        for _ in range(self.horizon):
            yield layer
            children = dict.fromkeys(self.successor(s, a) for s in layer for a in range(self.p))
            layer = [s for s in children if isinstance(s, HardState)]

    def states(self, stage: int) -> list[HardState]:
        """All states of stage kp + i."""
        return next(islice(self.layers(), whole("stage", stage, 0, self.horizon - 1), None))

    def features(self, state: HardState | End) -> HardFeature:
        """φ_v(state), structured."""
        if isinstance(state, End):
            return HardFeature(self.p, self.number(0), 0, 0, 0)
        return HardFeature(self.p, state.prefix, state.flips, state.weights, state.fixed)

    def action_features(self, state: HardState) -> HardRows:
        """φ_q(state, .), structured: φ_v of the tree successors, which is Eq. (phiq-def) read as it must be.

        Printed: "i < p" for i < p-1, w_{k+1,1} for w_{k+1,0}, -w/2 for -(√p/2) w, and successors in the MDP, which
        know the secret.
        """
        return HardRows(self.features(self.successor(state, a)) for a in range(self.p))
