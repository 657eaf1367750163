"""Exact mode without a search: equations for θ*, measured from the end backwards.

At a state s all of whose actions were queried, and whose successors' values are known, the best action a* is known, and
with it Bellman's equation is linear instead of a disjunction:

    <φ(s) - γ φ(s'_{a*}), θ*> = r_{a*}.

Where two actions are so close that the errors of the values leave open which is better, it holds up to a slack.  The
value of a state is known if its features are in the span of the equations so far, or if it was measured itself.  Else
its actions are queried, and successors whose values are unknown come first, so that every descent ends with an
equation, at the last stage at the latest.  It is a new one, so there are at most d of them, and at most H states on the
way to one: A d H queries in the worst case, and about A (H + d) usually, since a state on the way mostly pays with an
equation of its own.

Neither optimism nor a search is needed, and all of it takes polynomial time.  This does not contradict what is known
about hardness: where rewards are random an equation cannot be read off a few samples.

Errors.  The equations are written with the features of the successor rather than with its value, so that errors do not
grow from stage to stage (:mod:`tensorplan.planners.affine`).  A value whose error is too large, since features are
nearly dependent, counts as unknown: its state is measured, and the value of a measured state, max_a r_a + γ v*(s'_a),
is as accurate as those of its successors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator

import numpy as np

from tensorplan.core import Array
from tensorplan.optimism import BoundTree
from tensorplan.optimism.program import Ints
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.tensorplan.facts import Equation, Fact, FactFinder, Rollout, Value
from tensorplan.planners.tensorplan.sol import Source

Multipliers = defaultdict[int, float]
"""Of rows of Sol, by their index."""

KNOWN = 1e-7
"""The largest error of a value that is called known, relative to the scale of rounding: a tenth of a closed gap."""

ATTAINABLE = 1_000.0
"""The same in units of the rounding of a row, if that is more: a B that is far too large must not make every value
count as unknown, and every state be measured."""

WIDENED = 1.5
"""What errors are multiplied by before a slack is claimed: a checker that sums in another order, or keeps other
equations, must be able to derive it too."""

FORGIVEN = 1e-9
"""A misspecification, relative to 1 + B, that counts as rounding."""

NEGLIGIBLE = 1e-9
"""A coefficient, relative to the largest one, that counts as zero."""

NOTHING = Value(0.0, 0.0)
"""The value of END."""


class Equations:
    """Equations for θ*, the values that follow, and the descents that find more of them, in one episode."""

    def __init__(self, facts: FactFinder, scale: float) -> None:
        self.facts, self.known, self.sol = facts, facts.memory.known, facts.sol
        self.discount = facts.config.discount
        self.least = max(KNOWN * scale, ATTAINABLE * facts.rounding)

    @property
    def refuted(self) -> bool:
        """Whether equations, answers and ranges of values contradict each other, be it by rounding."""
        return self.facts.memory.refuted

    @property
    def refutation(self) -> BoundTree | None:
        """The proof that no parameter agrees with all of them."""
        return self.facts.memory.refutation

    @property
    def status(self) -> str:
        """Of a planning run that a contradiction ends: the features are refuted, or digits have run out."""
        return "limit" if self.refutation is None else "refuted"

    @property
    def theta(self) -> Array:
        """[1, θ] for the shortest θ that satisfies them all."""
        return np.concatenate([[1.0], self.known.theta])

    # ------------------------------------------------------------------ values

    def value(self, fact: Fact | None) -> Value | None:
        """v*(s), if it is known; zero at END."""
        if fact is None:
            return NOTHING
        if fact.value is None and self.known.spans(fact.phi):
            self._look([fact])
        return fact.value

    def _look(self, facts: list[Fact]) -> None:
        """Note the values of the facts that are in the span of the equations, and accurate enough."""
        found = self.known.look(np.array([fact.phi for fact in facts]))
        sure = (found.outside == 0) & (found.errors <= self.least)
        for i in np.flatnonzero(sure):
            facts[i].value = Value(float(found.values[i]), float(found.errors[i]))

    # ------------------------------------------------------------------ descents

    def descend(self, fact: Fact, before: Rollout) -> Iterator[Rollout]:
        """Measure until v*(fact) is known: yields the way to each measured state, and ends with a contradiction."""
        path, stack = Rollout(list(before.steps)), [fact]
        while stack and not self.refuted:
            here = stack[-1]
            if self.value(here) is None:
                action = self._unknown_successor(here, path)
                if action is not None:
                    path.steps.append((here, action))
                    following = _successor(here, action)
                    assert following is not None
                    stack.append(following)
                    continue
                self.measure(here)
                path.last = here
                yield path
            elif here.equation is None:  # its value follows from its features, and may contradict what it can earn
                self._test_answers(here)
            stack.pop()
            if stack:
                path.steps.pop()

    def _unknown_successor(self, fact: Fact, path: Rollout) -> int | None:
        """The first action to a state whose value is not known, querying up to there; None if there is none."""
        for action in range(self.facts.access.actions):
            self.facts.query(fact, action, path)
            if self._value_after(fact, action) is None:
                return action
        return None

    def _value_after(self, fact: Fact, action: int) -> Value | None:
        """r + γ v*(s') of an action that was queried, if v*(s') is known."""
        answer = fact.answers[action]
        assert answer is not None
        ahead = self.value(answer[1])
        return None if ahead is None else Value(answer[0] + self.discount * ahead.middle, self.discount * ahead.error)

    def measure(self, fact: Fact) -> None:
        """The value and the equation of a state whose successors' values are known."""
        values = np.array([self._value_after(fact, action) for action in range(len(fact.answers))])
        lows, highs = values[:, 0] - values[:, 1], values[:, 0] + values[:, 1]
        best = int(lows.argmax())
        ahead = np.delete(values @ (1.0, WIDENED), best) - values[best] @ (1.0, -WIDENED)
        slack = float(ahead.max(initial=0.0)) + self.facts.rounding
        equation = Equation(best, len(self.sol.rows), fact.rows[best])
        self.sol.equation(fact.place, fact.deltas[best], self.facts.rounding, slack, fact, best)
        low, high = float(lows[best]), float(highs.max())
        fact.value, fact.equation = Value((low + high) / 2, (high - low) / 2), equation
        reward, normal = float(fact.deltas[best, 0]), -fact.deltas[best, 1:]
        if self.known.add(normal, 0.0, reward, reward + slack):
            self.facts.memory.independent.append(equation)
            if self.known.refuted:  # no solution is in the ball
                self._refute(-self.known.theta, defaultdict(float))
        elif self.known.refuted:
            larger = float(self.known.look(normal[None]).values[0]) > reward
            row = equation.above if larger else equation.below
            self._refute(-normal if larger else normal, defaultdict(float, {row: 1.0}))

    def _refute(self, vector: Array, multipliers: Multipliers) -> None:
        """Note that what equations say of a vector contradicts other rows."""
        self._combine(vector, multipliers)
        self._contradict(multipliers)

    def harvest(self) -> None:
        """The equations of all states that have all actions queried, and known values ahead."""
        ripe = True
        while ripe and not self.refuted:
            ripe = False
            for fact in [source.about for source in self.sol.form_sources]:
                actions = range(len(fact.answers))
                if fact.equation is None and all(self._value_after(fact, a) is not None for a in actions):
                    self.measure(fact)
                    ripe = True

    # ------------------------------------------------------------------ the optimal path

    def roll_out(self, rollout: Rollout, root: Fact) -> Iterator[Rollout]:
        """A greedy path for the values; yields the way to each measured state, and stops at a contradiction."""
        rollout.last = root
        while (fact := rollout.last) is not None and not self.refuted:
            yield from self.descend(fact, rollout)
            action = yield from self._greedy(fact, rollout)
            if action is None:
                rollout.failed = True
                return
            rollout.take(fact, action, self.discount)

    def _greedy(self, fact: Fact, rollout: Rollout) -> Generator[Rollout, None, int | None]:
        """Returns the first action that attains v*(s), querying as few as it takes; None if there is none."""
        here = fact.value
        if here is None:
            return None
        if self.facts.config.ask == "all":
            self.facts.query_all(fact, rollout)
        likely = [] if fact.equation is None else [fact.equation.action]
        for action in likely + self.facts.guesses(rollout.steps[-1][1] if rollout.steps else -1):
            self.facts.query(fact, action, rollout)
            following = _successor(fact, action)
            if following is not None:
                yield from self.descend(following, Rollout([*rollout.steps, (fact, action)]))
            after = self._value_after(fact, action)
            if after is None:
                return None
            if after.middle >= here.middle - here.error - after.error - self.facts.rounding:
                return action
        self.measure(fact)  # and find the contradiction
        return None

    # ------------------------------------------------------------------ proofs

    def tree(self, fact: Fact) -> BoundTree:
        """The proof of an upper bound on v*(fact): one leaf."""
        multipliers: Multipliers = defaultdict(float)
        self._bound(fact, 1.0, multipliers)
        bound, index, value = self._combined(multipliers, fact.phi)
        return BoundTree.leaf(bound, index, value)

    def agree(self) -> bool:
        """Whether all answers and ranges of values agree with the values that are known."""
        unknown = [fact for fact in _facts(self.sol.row_sources) if fact.value is None]
        if unknown:
            self._look(unknown)
        self.harvest()
        for row, source in enumerate(self.sol.row_sources):
            if source.kind in ("bellman", "low", "high") and not self.refuted:
                self._test(row, self._terms(source))
        return not self.refuted

    def _test_answers(self, fact: Fact) -> None:
        """Note a contradiction if an answer promises more than the value of its state."""
        for row in fact.rows:
            if row >= 0 and not self.refuted:
                self._test(row, self._terms(self.sol.row_sources[row]))

    def contradict_path(self, root: Fact, path: Rollout) -> None:
        """Note that a path, whose T1 add up to v*(s0) >= its return, contradicts the value of the start state."""
        multipliers: Multipliers = defaultdict(float)
        weight: float = 1.0
        last: Fact | None = root
        for fact, action in path.steps:
            multipliers[fact.rows[action]] += weight
            weight, last = weight * self.discount, _successor(fact, action)
        if last is not None:  # the rest earns no less than the least return
            multipliers[self._row("low", last)] += weight
        self._bound(root, 1.0, multipliers)
        self._contradict(multipliers)

    def _row(self, kind: str, fact: Fact) -> int:
        """Where a row of a kind is in Sol."""
        return next(i for i, s in enumerate(self.sol.row_sources) if s.kind == kind and s.about is fact)

    def _terms(self, source: Source) -> list[tuple[float, Fact]]:
        """The left side of a row, T1 or T2, as a sum of values."""
        if source.kind == "bellman":
            following = _successor(source.about, source.action)
            return [(-1.0, source.about), *([] if following is None else [(self.discount, following)])]
        return [(1.0 if source.kind == "high" else -1.0, source.about)]

    def _test(self, row: int, terms: list[tuple[float, Fact]]) -> None:
        """Note a contradiction if the left side of a row must be larger than its right side."""
        least = 0.0
        for weight, fact in terms:
            if fact.value is None:
                return
            least += weight * fact.value.middle - abs(weight) * fact.value.error
        if least > self.sol.rhs[row] + self.facts.rounding:
            multipliers: Multipliers = defaultdict(float, {row: 1.0})
            for weight, fact in terms:
                self._bound(fact, -weight, multipliers)
            self._contradict(multipliers)

    def _bound(self, fact: Fact | None, weight: float, multipliers: Multipliers) -> None:
        """Add the multipliers that bound weight · v*(fact) from above: along its best actions, then by equations."""
        while fact is not None and fact.equation is not None:
            multipliers[fact.equation.above if weight > 0 else fact.equation.below] += abs(weight)
            weight, fact = weight * self.discount, _successor(fact, fact.equation.action)
        if fact is not None:
            self._combine(weight * fact.phi, multipliers)

    def _combine(self, vector: Array, multipliers: Multipliers) -> None:
        """Add the multipliers that bound <vector, θ*> from above, by equations alone."""
        coefficients = self.known.combination(vector[None])[0]
        for equation, k in zip(self.facts.memory.independent, coefficients.tolist(), strict=True):
            if k:
                multipliers[equation.above if k > 0 else equation.below] += abs(k)

    def _combined(self, multipliers: Multipliers, vector: Array) -> tuple[float, Ints, Array]:
        """What the multipliers prove: an upper bound on <vector, θ*>; with the rows and their multipliers."""
        index, value = np.array(list(multipliers), dtype=np.int64), np.array(list(multipliers.values()))
        rows = np.array([self.sol.rows[i] for i in index]).reshape(-1, len(vector))
        rhs = np.array([self.sol.bound(i) for i in index])
        left = self.sol.radius * float(np.linalg.norm(vector - value @ rows))
        return float(value @ rhs) + left, index, value

    def _contradict(self, multipliers: Multipliers) -> None:
        """Note that rows contradict each other, and the proof of it if that is more than rounding."""
        self.facts.memory.refuted = True
        bound, index, value = self._combined(multipliers, np.zeros(self.sol.dimension))
        if bound < -FORGIVEN * (1 + self.sol.radius) * self.sol.step * float(value.sum()):
            self.facts.memory.refutation = BoundTree.leaf(-np.inf, index, value)

    def places(self) -> list[Place]:
        """The states that the refutation rests on: those of its rows, and of all that their best actions rest on."""
        assert self.refutation is not None
        found = _facts([self.sol.row_sources[row] for row in self.refutation.index])
        todo = list(found)
        while todo:
            for fact in self._grounds(todo.pop()):
                if fact not in found:
                    found[fact] = None
                    todo.append(fact)
        return [fact.place for fact in found]

    def _grounds(self, fact: Fact) -> list[Fact]:
        """The measured states that the best action of a state rests on."""
        if fact.equation is None:
            return []
        ahead = [following for a in range(len(fact.answers)) if (following := _successor(fact, a)) is not None]
        sure = [f for f in ahead if f.equation is not None and f.equation.above < fact.equation.above]
        rest = np.array([f.phi for f in ahead if f not in sure]).reshape(-1, self.sol.dimension)
        count = sum(equation.above < fact.equation.above for equation in self.facts.memory.independent)
        used = np.abs(self.known.combination(rest, count)).max(axis=0, initial=0.0)
        needed = np.flatnonzero(used > NEGLIGIBLE * used.max(initial=0.0))
        return sure + [self.sol.row_sources[self.facts.memory.independent[i].above].about for i in needed]


def _successor(fact: Fact, action: int) -> Fact | None:
    """The state after an action that was queried; None at END."""
    answer = fact.answers[action]
    assert answer is not None
    return answer[1]


def _facts(sources: Iterable[Source]) -> dict[Fact, None]:
    """The states of rows, each once; the return of a path is about none."""
    return dict.fromkeys(source.about for source in sources if isinstance(source.about, Fact))
