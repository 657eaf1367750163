"""TensorPlan where nothing is random: one question measures an action for ever.

An optimistic θ is rolled out from s0.  A step is verified by its first consistent action, l_a(θ; s) = 0 up to rounding;
where no action is consistent all of them have been asked, and T1-T3 of :mod:`tensorplan.planners.sol` exclude θ.  A
rollout that reaches END collects <φ(s0), θ>, which is at least v*(s0): its path is optimal, and it is replayed.

Every optimistic step gives an upper bound on v*(s0), every rollout a lower one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorplan.core import END, Access, Array, Certificate, Node
from tensorplan.errors import BudgetSpent, Refused
from tensorplan.planners.refute import refutation
from tensorplan.planners.sol import Place, Sol
from tensorplan.planners.trace import Trace, Watch
from tensorplan.problems.simulate import believable

if TYPE_CHECKING:
    from tensorplan.planners.tensorplan import TensorPlan

ROUNDING = 1e-12
"""What T1-T3 are widened by, relative to 1 + B, since features and rewards are floats."""

FORGIVEN = 1e-9
"""An η, relative to 1 + B, that is taken for rounding as well where Sol would be empty without it."""

CONSISTENT = 1e-8
"""How far below zero, relative to 1 + B, a temporal difference may be for its action to be consistent."""

CLOSED = 1e-6
"""The gap, relative to 1 + B, at which the upper and the lower bound have met."""


class Fact:
    """What is known of one state: its features, and per action the answer and Δ_a, once asked."""

    __slots__ = ("answers", "choice", "deltas", "node", "phi", "place", "unasked")

    def __init__(self, place: Place, phi: Array, actions: int) -> None:
        self.place = place
        self.phi = phi
        self.node: Node | None = None
        """Where to ask, in this episode; None when only an earlier episode was here."""
        self.answers: list[tuple[float, Fact | None] | None] = [None] * actions
        """Reward and next fact, which is None at END."""
        self.deltas = np.full((actions, len(phi) + 1), np.nan)
        self.unasked = actions
        self.choice: int | None = None
        """What a path that was proved optimal does here; preferred, since other actions may only seem as good."""


class Memory:
    """All facts, and the Sol that they make."""

    def __init__(self, config: TensorPlan, access: Access) -> None:
        self.actions = access.actions
        self.facts: dict[tuple[int, Any], Fact] = {}
        self.sol = Sol(access.dimension, access.bound, eta=config.eta, discount=config.discount)
        self.liked = np.zeros((access.actions + 1, access.actions), dtype=np.int64)
        """How often an action was consistent, by the action before it; the last row is for first steps."""

    def fact(self, node: Node) -> Fact | None:
        """What is known of a node's state; states that cannot be hashed are told apart by their nodes."""
        fact: Fact | None = node.note if node.key is None else self.facts.get((node.stage, node.key))
        if fact is not None:
            fact.node = node
        return fact

    def add(self, node: Node) -> Fact:
        """The fact of a new node."""
        key = node.key
        fact = Fact(Place.of(node), node.phi_v, self.actions)
        fact.node = node
        if key is None:
            node.note = fact
        else:
            self.facts[node.stage, key] = fact
        return fact

    def begin(self) -> None:
        """A new episode: nodes of the last one cannot be asked any more."""
        for fact in self.facts.values():
            fact.node = None


class Rollout:
    """A path of consistent actions, and how it ended."""

    def __init__(self) -> None:
        self.steps: list[tuple[Fact, int]] = []
        self.total = 0.0
        self.weight = 1.0  # γ^t
        self.last: Fact | None = None
        """Where it stopped; None at END."""
        self.failed = False
        """Whether ``last`` has no consistent action."""
        self.loop: int | None = None
        """The step that the path comes back to, for ever (discounted problems)."""


class ExactPolicy:
    """The exact mode at work in one episode."""

    def __init__(self, config: TensorPlan, access: Access, memory: Memory) -> None:
        self.config, self.access, self.memory, self.sol = config, access, memory, memory.sol
        self.rounding = ROUNDING * (1 + access.bound)
        self.lower, self.upper = self._range(0)
        self.path: list[int] = []
        self.loop: int | None = None
        self.time = 0
        self.theta = np.zeros(access.dimension + 1)  # [1, θ]
        memory.begin()
        self.root = self._see(access.root)
        self.sol.aim(self.root.phi)
        self.watch = Watch("exact", access, self.sol, config.trace, config.callback)
        try:
            status = self._init()
        except BudgetSpent:
            status = "budget"
        except KeyboardInterrupt:
            status = "interrupted"
        self.certificate = Certificate(self.upper, self.lower, status, discount=config.discount)
        self.trace: Trace | None = self.watch.trace(self.root.phi)
        if status == "refuted":
            self.certificate = Certificate(self._range(0)[1], self.lower, status, discount=config.discount)
            raise refutation(self.sol, access.problem_name, config.eta, "for certain", self)

    # ------------------------------------------------------------------ Init

    def _init(self) -> str:
        """Optimism, rollout, failure, and again, until a rollout collects what optimism promised."""
        while True:
            found = self.sol.optimum(report=self.watch.searching)
            empty = found.status == "infeasible"
            if not empty:
                self.upper = min(self.upper, float(found.bound + self.sol.eta))
            if found.theta is None and not empty and not self.watch.stopped:  # digits ran out: any point will do
                found = replace(found, theta=self.sol.point())
            if found.theta is None and not self.watch.stopped:  # empty, or too thin for a point to be found
                if self.sol.eta > self.config.eta:
                    return "refuted" if empty else "limit"
                self.upper = self._range(0)[1]  # bounds without the larger η are not to be relied on
                self.sol.eta += FORGIVEN * (1 + self.access.bound)
                self.sol.aim(self.root.phi)
                continue
            if self.watch.stopped:
                return "stopped"
            if self._refuted_by_return():
                self.sol.values(self.root.place, self.root.phi, self.lower - self.rounding, math.inf)
                continue
            assert found.theta is not None
            self.theta = np.concatenate([[1.0], found.theta])
            rollout = Rollout()
            try:
                self._roll_out(rollout)
            finally:
                self._keep(rollout)
            path = [(fact.place, action) for fact, action in rollout.steps]
            failures = [(rollout.last.place, self._violation(rollout.last))] if rollout.failed and rollout.last else []
            self.watch.tell(found, self.upper, self.lower, path, failures)
            if not rollout.failed:
                if self._refuted_by_return():
                    continue
                if abs(self.upper - self.lower) <= self._tolerance(len(rollout.steps)):
                    for fact, action in rollout.steps:
                        fact.choice = action
                    return "certified"
                if self.lower <= self.upper and not self._scrutinise(rollout):
                    return "limit"
            if self.watch.stopped:
                return "stopped"

    def _roll_out(self, rollout: Rollout) -> None:
        """Consistent actions from s0 on: to END, to a failure, around a circle, or until what is left is negligible."""
        seen: dict[Fact, int] = {}
        rollout.last, before = self.root, -1
        while (fact := rollout.last) is not None and not self._negligible(rollout.weight):
            if self.access.horizon is None:
                if fact in seen:
                    rollout.loop = seen[fact]
                    return
                seen[fact] = len(rollout.steps)
            action = self._first_consistent(fact, before, rollout)
            if action is None:
                rollout.failed = True
                return
            answer = fact.answers[action]
            assert answer is not None
            rollout.steps.append((fact, action))
            rollout.total += rollout.weight * answer[0]
            rollout.weight *= self.config.discount
            self.memory.liked[before, action] += 1
            rollout.last, before = answer[1], action

    @property
    def consistent(self) -> float:
        """How far below zero l_a(θ) may be: rounding, and what η explains."""
        return CONSISTENT * (1 + self.access.bound) + self.sol.step * self.sol.eta

    def _first_consistent(self, fact: Fact, before: int, rollout: Rollout) -> int | None:
        """An action with l_a(θ) >= 0 up to rounding, asking as few as it takes; None if there is none."""
        if self.config.ask == "all":
            for each in range(self.access.actions):
                self._ask(fact, each, rollout)
        for action in (fact.choice, self._best_known(fact)):
            if action is not None and fact.deltas[action] @ self.theta >= -self.consistent:
                return action
        for guess in self._guesses(before):
            if fact.answers[guess] is None:
                self._ask(fact, guess, rollout)
                if fact.deltas[guess] @ self.theta >= -self.consistent:
                    return guess
        return None

    def _best_known(self, fact: Fact) -> int | None:
        """The asked action with the largest l_a(θ)."""
        if fact.unasked == len(fact.answers):
            return None
        return int(np.nanargmax(fact.deltas @ self.theta))

    def _guesses(self, before: int) -> list[int]:
        """All actions, those first that were consistent most often after the action before."""
        return [int(action) for action in np.argsort(-self.memory.liked[before], kind="stable")]

    def _ask(self, fact: Fact, action: int, rollout: Rollout) -> None:
        """One question, unless it was asked before, and what its answer adds to Sol."""
        if fact.answers[action] is not None:
            return
        outcome = self._query(self._node(fact, rollout), action)
        following = None if outcome.next is END else self._see(outcome.next)
        fact.answers[action] = (outcome.reward, following)
        ahead = 0.0 if following is None else self.config.discount * following.phi
        fact.deltas[action] = np.concatenate([[outcome.reward], ahead - fact.phi])
        fact.unasked -= 1
        self.sol.inequality(fact.place, fact.deltas[action], self.rounding)
        if not fact.unasked:
            self.sol.disjunction(fact.place, fact.deltas, self.rounding)

    def _query(self, node: Node, action: int) -> Any:
        if self.config.budget is not None and self.access.spent >= self.config.budget:
            raise BudgetSpent(f"the planner's budget of {self.config.budget:,} queries is spent")
        return self.access.query(node, action)[0]

    def _node(self, fact: Fact, rollout: Rollout) -> Node:
        """Where to ask about the fact that a rollout has come to: a state known from earlier is reached by queries."""
        if fact.node is None:
            start = max(i for i, (passed, _) in enumerate(rollout.steps) if passed.node is not None)
            for passed, action in rollout.steps[start:]:
                assert passed.node is not None
                self.memory.fact(self._query(passed.node, action).next)
        assert fact.node is not None
        return fact.node

    def _see(self, node: Node) -> Fact:
        """The fact of a node; T2 when it is new."""
        fact = self.memory.fact(node)
        if fact is None:
            fact = self.memory.add(node)
            low, high = self._range(node.stage)
            self.sol.values(fact.place, fact.phi, low - self.rounding, high + self.rounding)
        return fact

    # ------------------------------------------------------------------ bounds

    def _keep(self, rollout: Rollout) -> None:
        """The lower bound that a rollout gives, and its path if that is the best one."""
        low = rollout.total
        if rollout.loop is not None:
            low = self._around(rollout)
        if rollout.loop is None and rollout.last is not None:
            low += rollout.weight * self._range(rollout.last.place.stage)[0]
        else:
            believable(self.access.problem_name, low, self._range(0))
        if low > self.lower or not self.path:
            self.lower = max(self.lower, low)
            self.path, self.loop = [action for _, action in rollout.steps], rollout.loop

    def _around(self, rollout: Rollout) -> float:
        """The return of going round the circle for ever; without a discount that must not be."""
        discount, start = self.config.discount, rollout.loop
        assert start is not None
        if discount == 1:
            raise Refused(
                f"problem {self.access.problem_name!r} has no horizon, and actions that promise the optimal value "
                f"go in a circle through {rollout.steps[start][0].place}: exact mode needs a horizon, a discount, or "
                "steps that all cost something"
            )
        once = math.fsum(
            discount**i * fact.answers[action][0]  # type: ignore[index]
            for i, (fact, action) in enumerate(rollout.steps[start:])
        )
        before = rollout.total - discount**start * once
        return before + discount**start * once / (1 - discount ** (len(rollout.steps) - start))

    def _range(self, stage: int) -> tuple[float, float]:
        return self.access.return_range(stage, self.config.discount)

    def _negligible(self, weight: float) -> bool:
        """Whether all that is left, discounted, is within an eighth of δ."""
        if self.config.discount == 1 or self.access.horizon is not None:
            return False
        low, high = self._range(0)
        return weight * (high - low) <= self.config.accuracy(self.access) / 8

    def _tolerance(self, steps: int) -> float:
        """The gap that a rollout of consistent actions may leave: rounding, η, and what was negligible."""
        rounding = CLOSED * (1 + self.access.bound)
        discounted = steps if self.config.discount == 1 else 1 / (1 - self.config.discount)  # circles have no end
        rest = 0.0
        if self.config.discount < 1 and self.access.horizon is None:
            rest = self.config.accuracy(self.access) / 8
        return rounding + self.sol.eta * (2 + self.sol.step * discounted) + rest

    def _refuted_by_return(self) -> bool:
        """Whether more was collected than can be had, which rests on no feature: then B or η is too small."""
        return self.lower > self.upper + CLOSED * (1 + self.access.bound)

    def _violation(self, fact: Fact) -> float:
        return float(-np.nanmax(fact.deltas @ self.theta))

    def _scrutinise(self, rollout: Rollout) -> bool:
        """Ask all actions at the step that keeps least of its promise; False if all of them are known everywhere.

        A rollout may end below the bound by more than the tolerance where many small errors add up.
        """
        doubtful = [fact for fact, _ in rollout.steps if fact.unasked]
        if not doubtful:
            return False
        fact = max(doubtful, key=self._violation)
        until = Rollout()
        until.steps = rollout.steps[: [f for f, _ in rollout.steps].index(fact)]
        for action in range(self.access.actions):
            self._ask(fact, action, until)
        return True

    # ------------------------------------------------------------------ GetAction

    def act(self, node: Node) -> int:
        """The next action of the best path; behind its end, the most promising one."""
        if self.time == len(self.path) and self.loop is not None:
            self.time = self.loop
        if self.time < len(self.path):
            self.time += 1
            return self.path[self.time - 1]
        fact, here = self._see(node), Rollout()
        try:
            action = self._first_consistent(fact, -1, here)
        except BudgetSpent:
            action = None
        if action is None:
            action = self._best_known(fact)
        return self._guesses(-1)[0] if action is None else action
