"""The states of a deterministic problem: what is known of them, queries for the rest, and paths through them.

One query per action and state suffices.  Each answer is a row of Sol (T1), each new state another (T2), and a state
all of whose actions were queried is a disjunction (T3): see :mod:`tensorplan.planners.tensorplan.sol`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tensorplan.core import END, Access, Array, Node, Outcome
from tensorplan.optimism import BoundTree
from tensorplan.planners.affine import AffineSet
from tensorplan.planners.evidence.challenge import refuse_unless_same
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.evidence.queries import Queries
from tensorplan.planners.tensorplan.config import Config
from tensorplan.planners.tensorplan.sol import ROUNDING, Sol

CONSISTENT = 1e-8
"""How far below zero, relative to 1 + B, a temporal difference may be for its action to be consistent."""


class Value(NamedTuple):
    """v*(s), up to an error."""

    middle: float
    error: float


class Equation(NamedTuple):
    """Bellman's equation of a state whose best action is known, |<φ(s) - γ φ(s'), θ*> - r| <= slack, as rows of Sol."""

    action: int
    above: int
    """The row <φ(s) - γ φ(s'), θ> <= r + slack."""
    below: int
    """T1 of the action."""


class Fact:
    """What is known of one state: its features, and the answer and Δ_a of each queried action."""

    __slots__ = ("answers", "choice", "deltas", "equation", "node", "phi", "place", "rows", "unqueried", "value")

    def __init__(self, place: Place, phi: Array, actions: int) -> None:
        self.place = place
        self.phi = phi
        self.node: Node | None = None
        """The node to query in this episode; None if only an earlier episode was here."""
        self.answers: list[tuple[float, Fact | None] | None] = [None] * actions
        """Reward and next fact, which is None at END."""
        self.deltas = np.zeros((0, 0))
        """(A, d+1), NaN where an action was not queried; empty while none was."""
        self.rows = [-1] * actions
        """Where T1 of each action is in Sol."""
        self.unqueried = actions
        self.choice: int | None = None
        """The action of a path proved optimal; preferred, since others may only appear as good."""
        self.value: Value | None = None
        """Where equations determine it (:mod:`tensorplan.planners.tensorplan.equations`)."""
        self.equation: Equation | None = None

    def best(self, theta: Array) -> int | None:
        """The queried action with the largest l_a(θ)."""
        return None if self.unqueried == len(self.answers) else int(np.nanargmax(self.deltas @ theta))

    def violation(self, theta: Array) -> float:
        """-max_a l_a(θ), over the queried actions."""
        return float(-np.nanmax(self.deltas @ theta))


class Rollout:
    """A path of consistent actions, and how it ended."""

    def __init__(self, steps: list[tuple[Fact, int]] | None = None) -> None:
        self.steps = steps or []
        self.total = 0.0
        self.weight = 1.0  # γ^t
        self.last: Fact | None = None
        """Where it stopped; None at END."""
        self.failed = False
        """Whether ``last`` has no consistent action."""
        self.loop: int | None = None
        """The step at which the path enters a cycle (discounted problems)."""

    def take(self, fact: Fact, action: int, discount: float) -> None:
        """Append a step whose answer is known."""
        answer = fact.answers[action]
        assert answer is not None
        self.steps.append((fact, action))
        self.total += self.weight * answer[0]
        self.weight *= discount
        self.last = answer[1]


class ExactMemory:
    """All facts, and the Sol that they define."""

    def __init__(self, config: Config, access: Access) -> None:
        self.actions = access.actions
        self.facts: dict[tuple[int, Any], Fact] = {}
        self.sol = Sol(access.dimension, access.bound, eta=config.eta, discount=config.discount)
        self.known = AffineSet(access.dimension, access.bound)
        """Equations for θ*."""
        self.independent: list[Equation] = []
        """Those of them that ``known`` keeps."""
        self.refuted = False
        """Whether they contradict answers, each other, or the range of values."""
        self.refutation: BoundTree | None = None
        """The proof of that."""
        self.experience = Experience(access, config.discount)
        self.challenged: set[Fact] = set()
        """Start states whose brackets have passed a challenge."""
        self.liked = np.zeros((access.actions + 1, access.actions), dtype=np.int64)
        """How often an action was consistent, by the action before it, (A + 1, A); the last row is for first steps."""

    def fact(self, node: Node) -> Fact | None:
        """The fact of a node's state, if any; states that cannot be hashed are distinguished by their nodes."""
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
        self.experience.meet(node)
        return fact

    def begin(self) -> None:
        """Start an episode: nodes of the last one cannot be queried any more."""
        for fact in self.facts.values():
            fact.node = None


class FactFinder:
    """Queries in one episode, and rollouts of the actions consistent with a parameter."""

    def __init__(self, config: Config, access: Access, memory: ExactMemory) -> None:
        self.config, self.access, self.memory, self.sol = config, access, memory, memory.sol
        self.queries = Queries(access, config.budget, config.discount, memory.experience)
        self.rounding = ROUNDING * (1 + access.bound)

    def range(self, stage: int) -> tuple[float, float]:
        """The range of returns from a stage on."""
        return self.access.return_range(stage, self.config.discount)

    # ------------------------------------------------------------------ queries

    def see(self, node: Node) -> Fact:
        """The fact of a node, with T2 if it is new."""
        fact = self.memory.fact(node)
        if fact is None:
            fact = self.memory.add(node)
            low, high = self.range(node.stage)
            self.sol.values(fact.place, fact.phi, low - self.rounding, high + self.rounding, fact)
        return fact

    def query(self, fact: Fact, action: int, rollout: Rollout) -> None:
        """Query an action, unless its answer is known, and add the answer to Sol."""
        if fact.answers[action] is None:
            self.learn(fact, action, self.queries.step(self._node(fact, rollout), action))

    def query_all(self, fact: Fact, rollout: Rollout) -> None:
        """Query every action of a state."""
        for action in range(self.access.actions):
            self.query(fact, action, rollout)

    def learn(self, fact: Fact, action: int, outcome: Outcome) -> None:
        """Add an answer to Sol; raise if it differs from a known one."""
        if fact.answers[action] is not None:
            return self.compare(fact, action, outcome.reward, outcome.next)
        following = None if outcome.next is END else self.see(outcome.next)
        fact.answers[action] = (outcome.reward, following)
        ahead = 0.0 if following is None else self.config.discount * following.phi
        if fact.unqueried == len(fact.answers):
            fact.deltas = np.full((len(fact.answers), len(fact.phi) + 1), np.nan)
        fact.deltas[action] = np.concatenate([[outcome.reward], ahead - fact.phi])
        fact.unqueried -= 1
        fact.rows[action] = len(self.sol.rows)
        self.sol.inequality(fact.place, fact.deltas[action], self.rounding, fact, action)
        if not fact.unqueried:
            self.sol.disjunction(fact.place, fact.deltas, self.rounding, fact)

    def compare(self, fact: Fact, action: int, reward: float, node: Any) -> None:
        """Raise if an answer differs from the known one."""
        answer = fact.answers[action]
        assert answer is not None
        before, following = answer
        known = "END" if following is None else str(following.place)
        same = node is END if following is None else node is not END and self._same(following, node)
        refuse_unless_same(fact.place, action, (before, known), (reward, node), same)

    def walk(self, steps: list[tuple[Fact, int]]) -> None:
        """Query the last of some steps again, and the steps that lead there from a node of this episode."""
        fact, action = steps[-1]
        self.learn(fact, action, self.queries.step(self._node(fact, Rollout(steps[:-1])), action))

    def check(self, fact: Fact, action: int) -> None:
        """Query a known answer again, bypassing any cache."""
        assert fact.node is not None
        self.queries.charge(1)
        outcome = self.access.recheck(fact.node, action)
        self.compare(fact, action, outcome.reward, outcome.next)

    def _same(self, fact: Fact, node: Node) -> bool:
        """Whether a node is of a fact's state; by its features if states cannot be hashed."""
        if node.key is not None:
            return self.memory.fact(node) is fact
        if node.note is None:
            node.note = fact
            fact.node = node
        return bool(np.array_equal(fact.phi, node.phi_v))

    def _node(self, fact: Fact, rollout: Rollout) -> Node:
        """The node of the fact at the end of a rollout; a state known from an earlier episode is reached by queries."""
        if fact.node is None:
            start = max(i for i, (passed, _) in enumerate(rollout.steps) if passed.node is not None)
            for passed, action in rollout.steps[start:]:
                assert passed.node is not None
                self.learn(passed, action, self.queries.step(passed.node, action))
        assert fact.node is not None
        return fact.node

    # ------------------------------------------------------------------ paths

    def roll_out(self, rollout: Rollout, root: Fact, theta: Array) -> None:
        """Consistent actions from s0: to END, a failure, a cycle, or until the discounted rest is negligible."""
        seen: dict[Fact, int] = {}
        rollout.last, before = root, -1
        while (fact := rollout.last) is not None and not self._negligible(rollout.weight):
            if self.access.horizon is None:
                if fact in seen:
                    rollout.loop = seen[fact]
                    return
                seen[fact] = len(rollout.steps)
            action = self.first_consistent(fact, theta, before, rollout)
            if action is None:
                rollout.failed = True
                return
            rollout.take(fact, action, self.config.discount)
            self.memory.liked[before, action] += 1
            before = action

    def first_consistent(self, fact: Fact, theta: Array, before: int, rollout: Rollout) -> int | None:
        """An action with l_a(θ) >= 0 up to rounding, with as few queries as possible; None if there is none."""
        if self.config.ask == "all":
            self.query_all(fact, rollout)
        least = -(CONSISTENT * (1 + self.access.bound) + self.sol.step * self.sol.eta)  # rounding and η
        for action in (fact.choice, fact.best(theta)):
            if action is not None and fact.deltas[action] @ theta >= least:
                return action
        for guess in self.guesses(before):
            if fact.answers[guess] is None:
                self.query(fact, guess, rollout)
                if fact.deltas[guess] @ theta >= least:
                    return guess
        return None

    def follow(self, choices: Callable[[Node], int | None], rollout: Rollout, root: Fact, steps: int) -> None:
        """A path of given choices."""
        rollout.last = root
        while (fact := rollout.last) is not None and len(rollout.steps) < steps:
            action = choices(self._node(fact, rollout))
            if action is None:
                break
            self.query(fact, action, rollout)
            rollout.take(fact, action, self.config.discount)

    def guesses(self, before: int) -> list[int]:
        """All actions, ordered by how often they were consistent after the action before."""
        return [int(action) for action in np.argsort(-self.memory.liked[before], kind="stable")]

    def _negligible(self, weight: float) -> bool:
        """Whether the discounted rest of the return is within an eighth of δ."""
        if self.config.discount == 1 or self.access.horizon is not None:
            return False
        low, high = self.range(0)
        return weight * (high - low) <= self.config.accuracy(self.access) / 8
