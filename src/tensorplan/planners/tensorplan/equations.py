"""Exact mode without a search: equations for θ*, measured from the end backwards.

At a state s all of whose actions were asked, and whose successors' values are determined, Bellman's equation is linear:
with a* the best action,

    <φ(s) - γ φ(s'_{a*}), θ*> = r_{a*},

up to the error with which the successors' values are known.  A state is entered only while its value is not
determined, and its undetermined successors are entered first, so that every descent ends with a new equation, at the
last stage at the latest.  There are at most d of them and at most H states on the way to one: A d H queries in the
worst case, and about A (H + d) usually, since a state that was entered mostly pays with an equation of its own.

Neither optimism nor a search is needed, and all of it takes polynomial time.  This does not contradict what is known
about hardness: with random rewards an equation cannot be read off a few samples.
"""

from __future__ import annotations

import math

import numpy as np

from tensorplan.core import Array
from tensorplan.optimism import BoundTree
from tensorplan.planners.affine import ROUNDING
from tensorplan.planners.tensorplan.facts import Fact, FactFinder, Rollout

MARGIN = 1e-3
"""What the slack of an equation is rounded up by, relative to itself: another order of the sums must prove it too."""

KNOWN = 1e-7
"""The error, relative to 1 + B, below which a value counts as determined: a tenth of what closes a bracket."""


class Equations:
    """What equations say of states, and the descents that find more of them, in one episode."""

    def __init__(self, facts: FactFinder) -> None:
        self.facts, self.known, self.discount = facts, facts.memory.known, facts.config.discount
        self.least = KNOWN * (1 + facts.access.bound)

    @property
    def theta(self) -> Array:
        """[1, θ] for the shortest θ that satisfies them all."""
        return np.concatenate([[1.0], self.known.theta])

    def value(self, fact: Fact | None) -> tuple[float, float] | None:
        """v*(s) and its error, or None where it is not determined; zero at END."""
        if fact is None:
            return 0.0, 0.0
        look = self.known.look(fact.phi[None])
        value, error = float(look.values[0]), float(look.errors[0])
        return (value, error) if look.determined and error <= self.least else None

    def determine(self, fact: Fact, before: Rollout) -> bool:
        """Descend until v*(fact) is determined; False where equations contradict each other, or digits run out."""
        steps = list(before.steps)
        stack = [fact]
        while stack:
            here = stack[-1]
            if self.value(here) is None:
                deeper = self._undetermined_successor(here, Rollout(list(steps)))
                if deeper is not None:
                    steps.append((here, deeper))
                    following = here.answers[deeper]
                    assert following is not None
                    assert following[1] is not None
                    stack.append(following[1])
                    continue
                if not self.equation(here):
                    return False
            stack.pop()
            if stack:
                steps.pop()
        return True

    def _undetermined_successor(self, fact: Fact, rollout: Rollout) -> int | None:
        """The first action to a state whose value is not determined; None if all actions are asked and none is."""
        for action in range(self.facts.access.actions):
            self.facts.query(fact, action, rollout)
            answer = fact.answers[action]
            assert answer is not None
            if self.value(answer[1]) is None:
                return action
        return None

    def equation(self, fact: Fact) -> bool:
        """The equation of a state whose successors are determined; False if it contradicts others or is inaccurate."""
        low = high = -math.inf
        best = 0
        for action, answer in enumerate(fact.answers):
            assert answer is not None
            known = self.value(answer[1])
            assert known is not None
            value, error = answer[0] + self.discount * known[0], self.discount * known[1]
            if value - error > low:
                low, best = value - error, action
            high = max(high, value + error)
        reward, ahead = fact.deltas[best, 0], fact.deltas[best, 1:] + fact.phi
        slack = (1 + MARGIN) * max(high - low, 0.0) + self.facts.rounding
        rows = len(self.facts.sol.rows), fact.rows[best]
        self.facts.sol.equation(fact.place, fact.deltas[best], self.facts.rounding, slack, fact, best)
        if self.known.add(fact.phi, ahead, reward, reward + slack):
            self.facts.memory.equation_rows.append(rows)
        return not self.known.refuted and self.value(fact) is not None

    def agree(self) -> bool:
        """Whether no answer promises more than a determined value."""
        for fact in self.facts.memory.facts.values():
            here = self.value(fact)
            for answer in fact.answers:
                ahead = None if answer is None or here is None else self.value(answer[1])
                if answer is not None and here is not None and ahead is not None:
                    excess = answer[0] + self.discount * ahead[0] - here[0]
                    if excess > here[1] + self.discount * ahead[1] + self.facts.rounding:
                        return False
        return True

    def tree(self, phi: Array) -> BoundTree:
        """The proof of the upper bound on <φ, θ*>: one leaf, whose multipliers are the coefficients of φ."""
        along, _ = self.known.coefficients(phi[None])
        coefficients = along[0] @ self.known.rows.weights
        sides = [
            above if c > 0 else below
            for (above, below), c in zip(self.facts.memory.equation_rows, coefficients, strict=True)
        ]
        used = np.flatnonzero(coefficients)
        index, value = np.array(sides, dtype=np.int64)[used], np.abs(coefficients[used])
        sol = self.facts.sol
        rows, rhs = (
            np.array([sol.rows[i] for i in index]).reshape(-1, len(phi)),
            np.array([sol.bound(i) for i in index]),
        )
        bound = float(value @ rhs) + sol.radius * float(np.linalg.norm(phi - value @ rows))
        return BoundTree.leaf(bound * (1 + ROUNDING * np.sign(bound)), index, value)

    def roll_out(self, rollout: Rollout, root: Fact) -> bool:
        """The greedy path for the values, each state on it determined; False where some cannot be."""
        rollout.last = root
        while (fact := rollout.last) is not None:
            if self.value(fact) is None and not self.determine(fact, rollout):
                return False
            action = self._greedy(fact, rollout)
            if action is None:
                return False
            rollout.take(fact, action, self.discount)
        return True

    def _greedy(self, fact: Fact, rollout: Rollout) -> int | None:
        """The first action that attains v*(s), asking as few as it takes; None if there is none."""
        here = self.value(fact)
        assert here is not None
        for action in self.facts.guesses(rollout.steps[-1][1] if rollout.steps else -1):
            self.facts.query(fact, action, rollout)
            answer = fact.answers[action]
            assert answer is not None
            following = answer[1]
            if following is not None and self.value(following) is None:
                ahead = Rollout([*rollout.steps, (fact, action)])
                if not self.determine(following, ahead):
                    return None
            known = self.value(following)
            assert known is not None
            error = here[1] + self.discount * known[1]
            if answer[0] + self.discount * known[0] >= here[0] - error - self.facts.rounding:
                return action
        return None
