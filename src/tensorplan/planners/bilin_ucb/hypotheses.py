"""The hypotheses of BiLin-UCB for linear q*/v*, and the optimistic one among them (Du et al. 2021, Definition 4.5 and
Algorithm 1, line 3).

With one parameter for both maps, θ is a hypothesis if ‖θ‖ <= B and

    max_a <φ_q(s, a), θ> = <φ_v(s), θ>      at every state s, whether it can be reached or not:                     (C)

rows <φ_q(s, a) - φ_v(s), θ> <= 0, and a disjunction, some a attains zero.  It must also agree with the rollouts of the
policies i = 1, 2, .. so far: with x_ih the mean over D_ih of [-R, φ_q(S_h, A_h) - φ_v(S_{h+1})], the mean of the
discrepancy ℓ(., θ) is <x_ih, [1, θ]>, whose expectation is zero at θ*, and

    Σ_i <x_ih, [1, θ]>² <= R²        for all h, as printed,                                                         (Q)
    |<x_ih, [1, θ]>| <= e_ih         for all i and h, slabs that imply (Q) with R² = Σ_i e_ih².                     (S)

(C) and (Q) are added where an optimistic θ violates them: (C) state by state, (Q) by tangents, <uᵀX_h, [1, .]> <= R
with X_h the stack of the x_ih and u = X_h [1, θ] / ‖X_h [1, θ]‖.  The set that is searched always contains the one
defined above, so a θ* that satisfies (C) and (Q) is never cut off, and every upper bound is valid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorplan.access.everywhere import GlobalAccess
from tensorplan.core import END, Array, Node, Policy
from tensorplan.core.errors import NotRealizable
from tensorplan.optimism import Solution
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.tensorplan.refute import at_least, listed, look_into
from tensorplan.planners.tensorplan.sol import Sol

TIGHT = 1e-9
"""How much (C) and (S) are widened, relative to 1 + B, since features and rewards are floats."""

LOOSE = 1e-7
"""How far, relative to 1 + B, the optimistic θ may be from (C) at a state, or from (Q)."""

CURVED = 1e-3
"""How far, relative to R, it may be from (Q) in addition."""

CHUNK = 1_000_000
"""Episodes run at a time, which bounds the memory."""

NODES = 50_000
"""Nodes of the branch and bound per program; its bound is valid wherever it stops."""


@dataclass(frozen=True)
class Data:
    """Stands in for a state: the rollouts of the i-th policy at one stage."""

    policy: int


class Hypotheses:
    """The set, with the constraints added so far: it only shrinks, and it is valid for every start state."""

    def __init__(self, access: GlobalAccess, radius: float | None = None) -> None:
        """All states and their features, free of charge; ``radius`` is R of (Q), None for slabs."""
        assert access.horizon is not None
        self.horizon = access.horizon
        nodes = [node for stage in range(self.horizon) for node in access.states(stage)]
        self.places = [Place.of(node) for node in nodes]
        self.advantages = np.array([node.phi_q - node.phi_v for node in nodes])
        """φ_q(s, a) - φ_v(s), (states, A, d)."""
        self.tight, self.loose = TIGHT * (1 + access.bound), LOOSE * (1 + access.bound)
        self.radius = radius
        self.policies = 0
        """How many policies were tried."""
        self.sol = Sol(access.dimension, access.bound)
        self._used = np.zeros(len(nodes), dtype=bool)
        self._stacks: list[Array] = [np.zeros((0, access.dimension + 1)) for _ in range(self.horizon)]

    def violations(self, theta: Array) -> Array:
        """By how much θ violates (C) at each state, (states,)."""
        return np.asarray(np.abs((self.advantages @ theta).max(axis=1)))

    def discrepancies(self, theta: Array) -> Array:
        """The square roots of the left-hand sides of (Q), (H,)."""
        one = np.concatenate([[1.0], theta])
        return np.array([np.linalg.norm(stack @ one) for stack in self._stacks])

    def agrees(self, theta: Array) -> bool:
        """Whether θ satisfies (Q), up to the tolerance."""
        return self.radius is None or bool((self.discrepancies(theta) <= self._allowed).all())

    def learn(self, means: Array, radii: Array | None = None) -> None:
        """Add the x_ih of the last policy, (H, d+1), and for slabs their e_ih, (H,)."""
        for stage, mean in enumerate(means):
            if radii is None:
                self._stacks[stage] = np.vstack([self._stacks[stage], mean])
            else:
                for side in (mean, -mean):
                    self.sol.inequality(Place(stage, Data(self.policies)), side, float(radii[stage]) + self.tight)

    def optimum(self, bounded: Callable[[float], None]) -> Solution:
        """The optimistic hypothesis; ``bounded`` is called with each upper bound on the way."""
        while True:
            found = self.sol.optimum(NODES)
            bounded(found.bound)
            if found.theta is None or self.sol.deadline.passed or not self._cut(found.theta):
                return found

    def _cut(self, theta: Array) -> bool:
        """Add the constraints that θ violates most; whether there were any."""
        missed = np.where(self._used, 0.0, self.violations(theta))
        worst = [i for i in np.argsort(-missed)[: 2 * self.sol.dimension].tolist() if missed[i] > self.loose]
        for i in worst:
            self._used[i] = True
            forms = np.concatenate([np.zeros((len(self.advantages[i]), 1)), self.advantages[i]], axis=1)
            for form in forms:
                self.sol.inequality(self.places[i], form, self.tight)
            self.sol.disjunction(self.places[i], forms, self.tight)
        if self.agrees(theta):
            return bool(worst)
        assert self.radius is not None
        sizes = self.discrepancies(theta)
        for stage in np.flatnonzero(sizes > self._allowed).tolist():
            stack = self._stacks[stage]
            direction = stack @ np.concatenate([[1.0], theta]) / sizes[stage]
            self.sol.inequality(Place(stage, Data(len(stack))), direction @ stack, self.radius + self.tight)
        return True

    @property
    def _allowed(self) -> float:
        """R plus the tolerance."""
        return (1 + CURVED) * (self.radius or 0.0) + self.loose

    def demand(self, root: Node, lower: float) -> None:
        """Add <φ_v(s0), θ> >= lower, a return that a policy was shown to earn."""
        self.sol.values(Place(root.stage, Data(self.policies)), root.phi_v, lower, np.inf)

    def refutation(self, problem: str, certainty: str, policy: Policy) -> NotRealizable:
        """The error for an empty set, with the states at which no parameter that fits the rollouts satisfies (C)."""
        needed, smallest, larger = look_into(self.sol)
        states = [place for place in needed if not isinstance(place.state, Data)]
        where = f"has max_a <phi_q, theta> = <phi_v, theta> at {listed(states, 2)} and " if states else ""
        return NotRealizable(
            f"problem {problem!r} is not v*/q*-realizable with B={self.sol.radius:g} ({certainty}): no parameter "
            f"{where}agrees with the rollouts; {at_least(smallest, larger)}; both maps must be right at every state, "
            "reachable or not",
            [(place.stage, place.state) for place in states],
            smallest,
            larger,
            policy,
        )


class Rollouts:
    """n episodes of one greedy policy: the sums of returns, of their squares, and of the x_h, which are 0 after END."""

    def __init__(self, access: GlobalAccess) -> None:
        assert access.horizon is not None
        self.access = access
        self.n, self.total, self.squares = 0, 0.0, 0.0
        self.sums = np.zeros((access.horizon, access.dimension + 1))

    @property
    def means(self) -> Array:
        """x_h for every stage, (H, d+1)."""
        return self.sums / self.n

    def extend(self, theta: Array, n: int, charge: Callable[[int], None], experience: Experience | None = None) -> None:
        """n more episodes, recorded in ``experience``."""
        for start in range(0, n, CHUNK):
            self._extend(theta, min(CHUNK, n - start), charge, experience)

    def _extend(self, theta: Array, n: int, charge: Callable[[int], None], experience: Experience | None) -> None:
        """n episodes in parallel: those at the same state share one batch of samples."""
        totals, sums = np.zeros(n), np.zeros_like(self.sums)
        at: dict[Any, Any] = {self.access.root: np.arange(n)}
        for stage in range(len(sums)):
            following: dict[Any, list[Any]] = {}
            for node, who in at.items():
                action = greedy(node, theta)
                charge(len(who))
                sample = self.access.sample(node, action, len(who))
                if experience is not None:
                    experience.add(node, action, sample)
                totals[who] += sample.rewards
                sums[stage, 0] -= sample.rewards.sum()
                sums[stage, 1:] += len(who) * node.phi_q[action]
                order = np.argsort(sample.which, kind="stable")
                targets, first = np.unique(sample.which[order], return_index=True)
                for i, part in zip(targets.tolist(), np.split(who[order], first[1:]), strict=True):
                    if sample.successors[i] is not END:
                        sums[stage, 1:] -= len(part) * sample.successors[i].phi_v
                        following.setdefault(sample.successors[i], []).append(part)
            at = {node: np.concatenate(parts) for node, parts in following.items()}
        self.n += n
        self.total += float(totals.sum())
        self.squares += float(totals @ totals)
        self.sums += sums


def greedy(node: Node, theta: Array) -> int:
    """argmax_a <φ_q(s, a), θ>."""
    return int(np.argmax(node.phi_q @ theta))
