"""The check of MDPs with one secret among k actions, each with its own vector.

If there are few pairs of a state and an action, all of them are checked, and q* comes from backward induction on the
simulator.  Otherwise random states are, at up to ACTIONS of their actions, and q* is one step of the simulator from the
closed form.  Near-orthogonality is checked for all pairs of vectors.  Vectors have a factor 1/√n, which enters all
comparisons twice: their inner products are fractions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tensorplan.core import State
from tensorplan.core.specs import whole
from tensorplan.paper.verify.claims import FORMULAS, STATES, Claims, Number, Progress, Verification
from tensorplan.problems.hard.near_orthogonal import Signs, closest

ACTIONS = 32
"""Actions checked at a sampled state."""
WRITTEN = 20
"""Sampled states at which the features are written out, in floating point."""

QUARTER = Fraction(1, 4)

PHI_Q = "phi_q realizes q* everywhere"
FORMS = "written features are the exact ones"
NORMS = "features have norm <= 1"

Layers = list[list[State]]


class FamilyClaims(Claims, ABC):
    """The claims about one family, and how to draw, list and solve its MDPs."""

    family: ClassVar[str]
    """Its name in the catalog."""
    claims: ClassVar[tuple[str, ...]]
    near_claim: ClassVar[str]
    theta_claim: ClassVar[str]
    length: ClassVar[float]
    """‖θ*‖."""
    exhaustive: ClassVar[int]
    """The most pairs of a state and an action, over all secrets, for an exhaustive check."""

    gap: Number = math.inf
    """The smallest so far."""

    @abstractmethod
    def draw(self, *size: Any) -> tuple[Signs, int, int]:
        """The vectors, the horizon and the secret, from d, horizon, actions, secret and seed."""

    @abstractmethod
    def pairs(self, k: int, H: int) -> int:
        """The number of pairs of a state and an action."""

    @abstractmethod
    def secrets(self, drawn: int, k: int, every: bool) -> list[tuple[int, int]]:
        """The secrets to check, the drawn one first, each with another that features must not distinguish from it."""

    @abstractmethod
    def sample(self, mdp: Any, states: int, rng: np.random.Generator) -> Layers:
        """Random states of all kinds, by stage."""

    @abstractmethod
    def solve(self, mdp: Any, layers: Layers) -> list[list[list[Number]]]:
        """q* from the simulator alone, by stage."""

    @abstractmethod
    def own_actions(self, mdp: Any, s: State) -> Sequence[int]:
        """The actions that are always checked."""

    @abstractmethod
    def of_state(
        self, mdp: Any, other: Any, s: State, h: int, chosen: Sequence[int], solved: list[Number] | None
    ) -> None:
        """Check the claims about some actions of a state; ``solved`` is q* from backward induction, if there is one."""

    @abstractmethod
    def exact_row(self, mdp: Any, s: State, a: int) -> tuple[list[float], Number]:
        """The feature of an action as planners see it, written out, and <φ, θ*>."""

    # ------------------------------------------------------------------------------------------ common to all

    def vectors(self, signs: Signs) -> None:
        """Check near-orthogonality of all pairs, in whole numbers."""
        k, n = signs.shape
        self.at(lambda: f"among {k:,} vectors of {n} entries")
        largest = Fraction(closest(signs), n)
        self.bound(self.near_claim, largest, largest <= QUARTER and bool((np.abs(signs) == 1).all()))
        self.more[self.near_claim] = f"all {k * (k - 1) // 2:,} pairs"

    def smallest_gap(self, claim: str, gap: Number, least: Fraction) -> None:
        """Check that the gap at a state is at least ``least``; the smallest one is reported."""
        self.gap = min(self.gap, gap)
        self.bound(claim, max(0, least - gap), gap >= least)
        self.more[claim] = f"the smallest is {float(self.gap):.4g}"

    def states(self, mdp: Any, other: Any, floating: Any, layers: Layers, few: bool, rng: np.random.Generator) -> None:
        """Check all claims about the MDP of one secret; ``floating`` is the same MDP as planners see it."""
        solved = self.solve(mdp, layers) if few else None
        spacing = 1 if few else -(-sum(map(len, layers)) // WRITTEN)
        places = [(h, number, s) for h, layer in enumerate(layers) for number, s in enumerate(layer)]
        for h, number, s in self.tour(places, lambda place: _place(mdp, place[0], place[2])):
            chosen = range(mdp.actions) if few or mdp.actions <= ACTIONS else self._some_actions(mdp, s, rng)
            self.of_state(mdp, other, s, h, chosen, None if solved is None else solved[h][number])
            if self.done % spacing == 0:
                self._written(floating, mdp, s, h, chosen)
        self.at(partial(_place, mdp))
        self.near(self.theta_claim, float(np.linalg.norm(floating.theta)), self.length)

    def _some_actions(self, mdp: Any, s: State, rng: np.random.Generator) -> list[int]:
        """Those that are always checked, and random ones."""
        drawn = rng.choice(mdp.actions, ACTIONS, replace=False).tolist()
        return list(dict.fromkeys([*self.own_actions(mdp, s), *drawn]))[:ACTIONS]

    def _written(self, floating: Any, mdp: Any, s: State, h: int, chosen: Sequence[int]) -> None:
        """Check features as planners see them, in floating point, and their products with θ*."""
        rows = floating.phi_q(s, h)
        for a in chosen:
            exact, value = self.exact_row(mdp, s, a)
            self.near(FORMS, float(np.abs(rows[a] - exact).max()), 0.0)
            self.near(FORMS, float(rows[a] @ floating.theta), float(value))


def verify_family(
    kind: type[FamilyClaims],
    make_mdp: Callable[..., Any],
    d: int,
    *,
    horizon: int | None = None,
    actions: int | None = None,
    secret: int | None = None,
    seed: int = 0,
    states: int = STATES,
    progress: Progress | None = None,
    exhaustive: int | None = None,
) -> Verification:
    """Check the claims of a family for MDPs that ``make_mdp`` builds."""
    states = whole("states", states, 1)
    claims = kind(kind.claims, progress)
    signs, H, drawn = claims.draw(d, horizon, actions, secret, seed)
    k = len(signs)
    pairs, limit = claims.pairs(k, H), kind.exhaustive if exhaustive is None else exhaustive
    few = pairs <= limit
    secrets = claims.secrets(drawn, k, k * pairs <= limit)
    rng = np.random.default_rng([seed, 3])
    make = partial(make_mdp, signs, H)

    claims.vectors(signs)
    checked = 0
    for w, another in secrets:
        mdp, other, floating = make(w, number=Fraction), make(another, number=Fraction), make(w)
        layers = [list(mdp.states(h)) for h in range(H)] if few else claims.sample(mdp, states, rng)
        checked = sum(map(len, layers))
        claims.total = len(secrets) * checked
        claims.states(mdp, other, floating, layers, few, rng)
    if not few:
        claims.beyond.add(FORMULAS)
        if k > ACTIONS:
            claims.more[PHI_Q] = f"{ACTIONS} of the {k:,} actions of each state"
    method = "exhaustive, exact fractions" if few else "sampled"
    return Verification(f"{kind.family}/{1 + signs.shape[1]}", method, checked, len(secrets), claims.checks())


def _place(mdp: Any, h: int | None = None, s: State = None) -> str:
    secret = f"with the secret {mdp.secret}"
    return secret if h is None else f"{secret} in stage {h} at {s!r}"
