"""TensorPlan where nothing is random: one query per action and state suffices.

An optimistic θ is rolled out from s0.  A step is verified by its first consistent action, l_a(θ; s) = 0 up to rounding;
where no action is consistent all of them have been asked, and T1-T3 of :mod:`tensorplan.planners.tensorplan.sol`
exclude θ.  A rollout that reaches END collects <φ(s0), θ>, which is at least v*(s0): its path is optimal, and it is
replayed.

Every optimistic step gives an upper bound on v*(s0), every rollout a lower one.  Before a bracket that has closed is
called certified, a share of the queries tries what was not asked (:mod:`tensorplan.planners.evidence.challenge`), which
must agree with some θ as well, and some answers along the path are asked again, since the determinism is only declared.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorplan.core import END, Access, Certificate, Node, Outcome
from tensorplan.core.errors import BudgetSpent, Refused
from tensorplan.optimism import Solution
from tensorplan.planners.anytime import ended
from tensorplan.planners.evidence.challenge import (
    ATTACK,
    DOUBTED,
    ROUNDS,
    SCRUTINISED,
    SCRUTINY,
    Explorer,
    doubts,
    inconclusive,
)
from tensorplan.planners.evidence.claims import assumption, table_refutation, unfit_by_table, warn
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.evidence.queries import Queries
from tensorplan.planners.tensorplan.facts import Fact, Rollout
from tensorplan.planners.tensorplan.refute import refutation
from tensorplan.planners.tensorplan.sol import ROUNDING, Sol
from tensorplan.planners.tensorplan.trace import Trace, Watch
from tensorplan.planners.tensorplan.transcript import exact_proof
from tensorplan.problems.simulate import believable, contradiction

if TYPE_CHECKING:
    from tensorplan.planners.tensorplan.config import TensorPlan

FORGIVEN = 1e-9
"""An η, relative to 1 + B, that is taken for rounding as well where Sol would be empty without it."""

CONSISTENT = 1e-8
"""How far below zero, relative to 1 + B, a temporal difference may be for its action to be consistent."""

CLOSED = 1e-6
"""The gap at which the upper and the lower bound have met, relative to 1 + B or to the range of returns, whichever is
smaller: a large B must not make a large gap look small."""

SECONDS = 30.0
"""A search that takes longer, about, makes way for a rollout of the best θ that it has found so far."""

DEPTH = 1_000
"""Steps of an exploring episode where there is no horizon."""


class Memory:
    """All facts, and the Sol that they make."""

    def __init__(self, config: TensorPlan, access: Access) -> None:
        self.actions = access.actions
        self.facts: dict[tuple[int, Any], Fact] = {}
        self.sol = Sol(access.dimension, access.bound, eta=config.eta, discount=config.discount)
        self.experience = Experience(access, config.discount)
        self.challenged: set[Fact] = set()
        """Start states whose brackets have survived a challenge."""
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
        self.experience.meet(node)
        return fact

    def begin(self) -> None:
        """A new episode: nodes of the last one cannot be asked any more."""
        for fact in self.facts.values():
            fact.node = None


class ExactPolicy:
    """Repeats the best path; behind its end, the most promising action, or a random one after a refutation."""

    def __init__(self, planning: Planning, path: Rollout, certificate: Certificate, trace: Trace | None) -> None:
        self.planning, self.certificate, self.trace = planning, certificate, trace
        self.sol = planning.sol
        self.path, self.loop = path.steps, path.loop
        self.time = 0

    def act(self, node: Node) -> int:
        """The next action of the path."""
        if self.time == len(self.path) and self.loop is not None:
            self.time = self.loop
        self.time += 1
        if self.time <= len(self.path):
            return self.path[self.time - 1][1]
        return self.planning.improvise(node, self.certificate.status)

    def observe(self, action: int, reward: float, node: Any) -> None:
        """What the world did must be what the simulator had answered."""
        if self.time <= len(self.path):
            self.planning.compare(*self.path[self.time - 1], reward, node)


class Planning:
    """The exact mode at work in one episode."""

    def __init__(self, config: TensorPlan, access: Access, memory: Memory, rng: np.random.Generator) -> None:
        self.config, self.access, self.memory, self.rng = config, access, memory, rng
        self.sol, self.experience = memory.sol, memory.experience
        self.queries = Queries(access, config.budget, config.discount, memory.experience)
        if self.queries.total < math.inf:
            self.queries.kept_back = ATTACK * self.queries.total
        self.rounding = ROUNDING * (1 + access.bound)
        self.lower, self.upper = self._range(0)
        self.best = self.closing = Rollout()
        """The path with the largest return, and the one that closed the gap."""
        self.theta = np.zeros(access.dimension + 1)  # [1, θ]
        self.challenged = self.curtailed = self.cut_short = False
        self.unfit = False
        """Whether a table shows that the features do not realize v*."""

    def plan(self) -> ExactPolicy:
        """An optimal path with its proof, or the best one found; raises NotRealizable, which has the policy too."""
        self.memory.begin()
        self.root = self._see(self.access.root)
        self.sol.aim(self.root.phi)
        self.watch = Watch("exact", self.access, self.sol, self.config.trace, self.config.callback)
        status = ended(self._close, self._certificate)
        status = self._finish(status)
        certificate = self._proved(self._certificate(status))
        idle = status in ("refuted", "doubtful") and self.lower == self._range(0)[0]  # then random play is no worse
        policy = ExactPolicy(self, Rollout() if idle else self.best, certificate, self.watch.trace(self.root.phi))
        self.queries.kept_back = 0.0
        warn(self.access.problem_name, certificate)
        if status in ("certified", "doubtful", "eta"):
            self.memory.challenged.add(self.root)
        if self.unfit:
            raise table_refutation(self.access, policy)
        if status == "refuted":
            raise refutation(self.sol, self.access.problem_name, self.config.eta, "for certain", policy)
        return policy

    # ------------------------------------------------------------------ Init

    def _close(self) -> str:
        """Optimism, rollout, failure, and again, until a rollout collects what optimism promised."""
        while True:
            before = self._progress()
            found = self._optimum()
            if found is None:
                return "stopped" if self.watch.stopped else self._exhausted()
            if self._refuted_by_return():
                self._record_return()
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
            self.watch.tell(found, self._upper_bound, self.lower, path, failures)
            if not rollout.failed and not self._refuted_by_return():
                if abs(self.upper - self.lower) <= self._tolerance(rollout, self.sol.eta):
                    self.closing = rollout
                    for fact, action in rollout.steps:
                        fact.choice = action
                    if self.watch.stopped and not self.challenged:
                        return "stopped"
                    if self._challenge():
                        continue
                    return "closed"
                if self.lower <= self.upper and not self._scrutinise(rollout) and not self.cut_short:
                    return "limit"
            if self.watch.stopped:
                return "stopped"
            if self._progress() == before and not self.cut_short:
                return "limit"

    @property
    def _upper_bound(self) -> float:
        """What the bracket says: if the features do not realize v*, the range of returns alone."""
        return self._range(0)[1] if self._refuted_by_return() else max(self.upper, self.lower)

    def _progress(self) -> tuple[int, int, float, float]:
        """What changes while there is something left to do."""
        return len(self.sol.rows), len(self.sol.forms), self.upper, self.lower

    def _optimum(self) -> Solution | None:
        """The optimistic step, with a θ; None where it was stopped, or where Sol is empty or too thin for a point."""
        while True:
            limit = self.sol.nodes_in(SECONDS)
            found = self.sol.optimum(limit, self.watch.searching)
            self.cut_short = found.status == "limit" and found.nodes >= limit
            if found.status != "infeasible":
                self.upper = min(self.upper, float(found.bound + self.sol.eta))
            if self.watch.stopped:
                return None
            if found.theta is not None:
                return found
            if self.cut_short:
                continue
            if found.status == "limit":  # digits ran out: any point will do
                found = replace(found, theta=self.sol.point())
                if found.theta is not None:
                    return found
            self.empty = found.status == "infeasible"
            if self.sol.eta > self.config.eta:
                return None
            self.upper = self._range(0)[1]  # bounds without the larger η are not to be relied on
            self.sol.eta += FORGIVEN * (1 + self.access.bound)
            self.sol.aim(self.root.phi)

    def _exhausted(self) -> str:
        """No θ is left, or none can be found."""
        return "refuted" if self.empty else "limit"

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
            rollout.take(fact, action, self.config.discount)
            self.memory.liked[before, action] += 1
            before = action

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
        """One query, unless it was asked before, and what its answer adds to Sol."""
        if fact.answers[action] is None:
            self._learn(fact, action, self.queries.step(self._node(fact, rollout), action))

    def _learn(self, fact: Fact, action: int, outcome: Outcome) -> None:
        """What an answer adds to Sol; one that is known must be the same."""
        if fact.answers[action] is not None:
            return self.compare(fact, action, outcome.reward, outcome.next)
        following = None if outcome.next is END else self._see(outcome.next)
        fact.answers[action] = (outcome.reward, following)
        ahead = 0.0 if following is None else self.config.discount * following.phi
        fact.deltas[action] = np.concatenate([[outcome.reward], ahead - fact.phi])
        fact.unasked -= 1
        self.sol.inequality(fact.place, fact.deltas[action], self.rounding, fact, action)
        if not fact.unasked:
            self.sol.disjunction(fact.place, fact.deltas, self.rounding, fact)

    def compare(self, fact: Fact, action: int, reward: float, node: Any) -> None:
        """Raise where an answer is not the one that was given before."""
        answer = fact.answers[action]
        assert answer is not None
        before, following = answer
        state, stage = fact.place.state, fact.place.stage
        if reward != before:
            raise contradiction(state, stage, action, "reward", before, reward)
        known = "END" if following is None else str(following.place)
        if (node is END) != (following is None):
            raise contradiction(state, stage, action, "transition", known, node)
        if following is not None and not self._same(following, node):
            raise contradiction(state, stage, action, "transition", known, node)

    def _same(self, fact: Fact, node: Node) -> bool:
        """Whether a node is of a fact's state; by its features, where states cannot be hashed."""
        if node.key is not None:
            return self.memory.fact(node) is fact
        if node.note is None:
            node.note = fact
            fact.node = node
        return bool(np.array_equal(fact.phi, node.phi_v))

    def _node(self, fact: Fact, rollout: Rollout) -> Node:
        """Where to ask about the fact that a rollout has come to: a state known from earlier is reached by queries."""
        if fact.node is None:
            start = max(i for i, (passed, _) in enumerate(rollout.steps) if passed.node is not None)
            for passed, action in rollout.steps[start:]:
                assert passed.node is not None
                self._learn(passed, action, self.queries.step(passed.node, action))
        assert fact.node is not None
        return fact.node

    def _see(self, node: Node) -> Fact:
        """The fact of a node; T2 when it is new."""
        fact = self.memory.fact(node)
        if fact is None:
            fact = self.memory.add(node)
            low, high = self._range(node.stage)
            self.sol.values(fact.place, fact.phi, low - self.rounding, high + self.rounding, fact)
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
        if low > self.lower or not self.best.steps:
            self.lower = max(self.lower, low)
            self.best = rollout

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

    @property
    def scale(self) -> float:
        """What rounding is relative to: the range of returns, or 1 + B where that is smaller."""
        low, high = self._range(0)
        return min(1 + self.access.bound, high - low)

    def _negligible(self, weight: float) -> bool:
        """Whether all that is left, discounted, is within an eighth of δ."""
        if self.config.discount == 1 or self.access.horizon is not None:
            return False
        low, high = self._range(0)
        return weight * (high - low) <= self.config.accuracy(self.access) / 8

    def _tolerance(self, rollout: Rollout, eta: float) -> float:
        """The gap that a rollout of consistent actions may leave: rounding, η, and what was negligible."""
        gamma = self.config.discount
        discounted = len(rollout.steps) if gamma == 1 else 1 / (1 - gamma)  # circles have no end
        rest = 0.0
        if gamma < 1 and self.access.horizon is None:
            rest = self.config.accuracy(self.access) / 8
        return CLOSED * self.scale + eta * (2 + self.sol.step * discounted) + rest

    def _refuted_by_return(self) -> bool:
        """Whether a path earns more than the upper bound, which rests on no feature: then B or η is too small."""
        return self.lower > self.upper + CLOSED * self.scale

    def _record_return(self) -> None:
        """Let Sol know what the best path earns; if that is above its bound, it is empty from then on."""
        self.sol.earned(self.root.place, self.root.phi, self.lower - self.rounding)

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

    # ------------------------------------------------------------------ the end

    def _challenge(self, hopeless: bool = False) -> bool:
        """Try what was not asked, once: what it shows must agree with some θ too; whether there was anything new.

        ``hopeless``: features are of no use, and this is the only way to find a good path.
        """
        if self.challenged or self.root in self.memory.challenged:
            return False
        self.challenged = True
        self.queries.kept_back = 0.0
        before, spent = self._progress(), self.queries.spent
        doubted = bool(doubts(self.access, self.experience)) or self.lower == self._range(0)[0]
        steps = self.access.horizon or DEPTH
        usual = min(ATTACK * spent, SCRUTINISED * spent - math.ceil(self.config.recheck * len(self.best.steps)))
        allowance = max(1.0, DOUBTED * spent if doubted else usual)
        if hopeless or not self.experience.paid:
            allowance = max(allowance, ROUNDS * steps)
        self.curtailed = int(allowance) > self.queries.room
        end = spent + min(int(allowance), self.queries.room)
        Explorer(self.queries, steps, self.rng, self.upper).explore(end, self._observed)
        rollout = Rollout()
        try:
            self._follow_experience(rollout, steps)
        finally:
            self._keep(rollout)
        return self._progress() != before

    def _observed(self, node: Node, action: int, reward: float, following: Any) -> None:
        """A step of an exploring episode."""
        self._learn(self._see(node), action, Outcome(reward, following))

    def _follow_experience(self, rollout: Rollout, steps: int) -> None:
        """The best path by all that was seen; what was seen at another stage costs nothing to ask again."""
        choices = self.experience.greedy()
        rollout.last = self.root
        while (fact := rollout.last) is not None and len(rollout.steps) < steps:
            action = choices(self._node(fact, rollout))
            if action is None:
                break
            self._ask(fact, action, rollout)
            rollout.take(fact, action, self.config.discount)

    def _finish(self, status: str) -> str:
        """Use what was kept back, ask some answers again, and say what may be said."""
        if status == "budget":  # a path may lack a few answers only: half of what was kept back is for that
            self.queries.kept_back /= 2
            status = ended(self._close, self._certificate)
        if status in ("budget", "refuted", "limit"):
            after = ended(lambda: self._last_try(status), self._certificate)
            status = "interrupted" if after == "interrupted" else status
        if self._refuted_by_return():
            self._record_return()
            self.sol.optimum(self.sol.nodes_in(SECONDS))  # which finds it empty: the proof
            return "refuted"
        if status != "closed":
            return status
        if self.curtailed:
            return "budget"
        checked = ended(self._recheck, self._certificate)
        return self._verdict() if checked == "closed" else checked

    def _last_try(self, status: str) -> str:
        self._challenge(hopeless=status == "refuted")
        return status

    def _verdict(self) -> str:
        """What a closed gap may be called."""
        if inconclusive(self.access, self.experience):
            return "doubtful"
        self.unfit = unfit_by_table(self.access, self.config.eta)
        if self.unfit:
            return "refuted"
        gap = self.upper - self.lower
        if gap <= self._tolerance(self.closing, 0.0):
            return "certified"
        if gap > self._tolerance(self.closing, self.config.eta):
            return "limit"  # only a larger η than was asked for has closed it
        low, high = self._range(0)
        bounded = math.isfinite(high - low) or self.config.delta is not None
        return "certified" if bounded and gap <= self.config.accuracy(self.access) else "eta"

    def _recheck(self) -> str:
        """Ask a share of the answers along the path again, past any cache; one that has changed is an error.

        Where the simulator has drawn random numbers, all of them are asked again, several times.
        """
        steps, share = self.best.steps, self.config.recheck
        count = len(steps) if self.access.drew else math.ceil(share * len(steps))
        again = sorted(self.rng.choice(len(steps), size=count, replace=False).tolist()) if count else []
        for place, i in enumerate(again):
            fact, action = steps[i]
            if fact.node is None:  # only an earlier episode was here: walk as many steps as are left to check
                fact, action = steps[place]
                self._learn(fact, action, self.queries.step(self._node_on_path(place), action))
                continue
            for _ in range(SCRUTINY if self.access.drew else 1):
                self._check(fact, action)
        return "closed"

    def _check(self, fact: Fact, action: int) -> None:
        assert fact.node is not None
        self.queries.charge(1)
        outcome = self.access.recheck(fact.node, action)
        self.compare(fact, action, outcome.reward, outcome.next)

    def _node_on_path(self, place: int) -> Node:
        until = Rollout()
        until.steps = self.best.steps[:place]
        return self._node(self.best.steps[place][0], until)

    def _certificate(self, status: str) -> Certificate:
        """The bracket as it stands."""
        high, contradicted = self._range(0)[1], status == "refuted" or self._refuted_by_return()
        upper = high if contradicted else self._upper_bound
        explained = self._tolerance(self.closing, self.config.eta) - self._tolerance(self.closing, 0.0)
        return Certificate(
            upper,
            self.lower,
            status,
            assumes="" if upper == high else assumption(self.access, self.config.eta),
            explained=0.0 if contradicted else min(explained, upper - self.lower),
            warnings=tuple(doubts(self.access, self.experience)),
            discount=self.config.discount,
        )

    def _proved(self, certificate: Certificate) -> Certificate:
        """The certificate with its proof, unless a return or a table contradicts Sol, and not its own rows."""
        if self.unfit or (self._refuted_by_return() and certificate.status != "refuted"):
            return certificate
        best = self.best if self.lower > self._range(0)[0] else Rollout()
        proof = exact_proof(self.access, self.sol, self.config.discount, self.root, best, certificate)
        return replace(certificate, proof=proof)

    # ------------------------------------------------------------------ GetAction

    def improvise(self, node: Node, status: str) -> int:
        """An action where no path leads: the most promising one, or a random one where nothing is promising."""
        if status in ("refuted", "doubtful"):
            return int(self.rng.integers(self.access.actions))
        fact, here = self._see(node), Rollout()
        try:
            action = self._first_consistent(fact, -1, here)
        except BudgetSpent:
            action = None
        if action is None:
            action = self._best_known(fact)
        return int(self.rng.integers(self.access.actions)) if action is None else action
