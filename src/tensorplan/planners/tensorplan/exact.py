"""TensorPlan for deterministic problems: one query per action and state suffices.

An optimistic θ is rolled out from s0.  A step takes the first consistent action found, l_a(θ; s) = 0 up to rounding; if
no action is consistent all of them have been queried, and T1-T3 of :mod:`tensorplan.planners.tensorplan.sol` exclude θ.
A rollout that reaches END earns <φ(s0), θ>, which is at least v*(s0): its path is optimal, and it is replayed.

Every optimistic step gives an upper bound on v*(s0), every rollout a lower one.  Before a closed bracket is called
certified, a share of the queries explores (:mod:`tensorplan.planners.evidence.challenge`), and their answers must agree
with some θ as well; and some steps of the path are queried again, since determinism is only declared.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tensorplan.core import Access, Certificate, Node, Outcome
from tensorplan.core.errors import BudgetSpent, NotRealizable, Refused
from tensorplan.optimism import BoundTree, Solution
from tensorplan.planners.anytime import Planning
from tensorplan.planners.evidence.challenge import ATTACK, Explorer, doubts, inconclusive, path_allowance, to_recheck
from tensorplan.planners.evidence.claims import assumption, table_refutation, unfit_by_table
from tensorplan.planners.tensorplan.config import Config
from tensorplan.planners.tensorplan.equations import FORGIVEN, Equations
from tensorplan.planners.tensorplan.facts import ExactMemory, Fact, FactFinder, Rollout
from tensorplan.planners.tensorplan.refute import refutation
from tensorplan.planners.tensorplan.trace import Trace, Watch
from tensorplan.planners.tensorplan.transcript import exact_proof
from tensorplan.problems.simulate import believable

CLOSED = 1e-6
"""The gap at which the upper and the lower bound have met, relative to 1 + B or to the range of returns, whichever is
smaller: a large B must not make a large gap look small."""

SECONDS = 30.0
"""About the longest search before a rollout of the best θ found so far."""

EASY = 1.0
"""About the longest search, in seconds, where an equation can be had instead: some ten thousand nodes."""

LARGE = 48
"""Features above which equations alone are used: a search would take longer than the queries that it saves."""

LOOSE = 1_000.0
"""The ratio of B to the range of returns above which equations alone are used: they hardly depend on B, and the bound
of a search may not come closer than about 1e-8 B."""

DEPTH = 1_000
"""Steps of an exploring episode without a horizon."""


class ExactPolicy:
    """Repeats the best path; after its end, the most promising action, or a random one after a refutation."""

    def __init__(self, planning: ExactPlanning, path: Rollout, certificate: Certificate, trace: Trace | None) -> None:
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
        """Raise unless the step agrees with the simulator's outcome."""
        if self.time <= len(self.path):
            self.planning.facts.compare(*self.path[self.time - 1], reward, node)


class ExactPlanning(Planning[ExactPolicy]):
    """The exact mode in one episode."""

    root: Fact
    watch: Watch

    def __init__(self, config: Config, access: Access, memory: ExactMemory, rng: np.random.Generator) -> None:
        self.config, self.access, self.memory, self.rng = config, access, memory, rng
        self.sol, self.experience = memory.sol, memory.experience
        self.facts = FactFinder(config, access, memory)
        self.queries = self.facts.queries
        if self.queries.total < math.inf:
            self.queries.kept_back = ATTACK * self.queries.total
        self.lower, self.upper = self.low, self.high = self.facts.range(0)
        self.equations = Equations(self.facts, self.scale)
        self.linear = config.eta == 0 and access.horizon is not None
        """Whether equations can be read off: features do not miss, and no state comes back."""
        self.by_equations = self.linear and (access.dimension > LARGE or access.bound > LOOSE * self.scale)
        """Whether equations alone give the upper bound."""
        self.tree: BoundTree | None = None
        """The proof of that bound."""
        self.best = self.closing = Rollout()
        """The path with the largest return, and the one that closed the gap."""
        self.theta = np.eye(1, access.dimension + 1)[0]  # [1, θ]
        self.challenged = self.curtailed = self.cut_short = False
        self.unfit = False
        """Whether the features do not realize v*, by the problem's table."""
        self.unproved = False
        """Whether a return refutes the features, and the search for a proof of that was cut short."""

    def _begin(self) -> None:
        self.memory.begin()
        self.root = self.facts.see(self.access.root)
        self.sol.aim(self.root.phi, self.access.deadline)
        self.watch = Watch("exact", self.access, self.sol, self.config.trace, self.config.callback)

    # ------------------------------------------------------------------ Init

    def _search(self) -> str:
        """By equations alone where there are many features, else by optimism."""
        return self._solve_equations() if self.by_equations else self._be_optimistic()

    def _be_optimistic(self) -> str:
        """Alternate optimistic steps and rollouts until a rollout earns the upper bound."""
        while True:
            before = self._progress()
            found = self._optimum()
            if self.by_equations:
                return self._solve_equations()
            if found is None:
                if self.watch.stopped:
                    return "stopped"
                return "refuted" if self.empty else "limit"
            if self._refuted_by_return():
                self._record_return()
                continue
            assert found.theta is not None
            self.theta = np.concatenate([[1.0], found.theta])
            rollout = self._roll_out()
            self._tell(found, rollout)
            if not rollout.failed and not self._refuted_by_return():
                if abs(self.upper - self.lower) <= self._tolerance(rollout, self.sol.eta):
                    self._close(rollout)
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

    def _progress(self) -> tuple[int, int, float, float]:
        """Values of which one changes in every useful iteration."""
        return len(self.sol.rows), len(self.sol.forms), self.upper, self.lower

    def _optimum(self) -> Solution | None:
        """The optimistic step, with a θ; None if it was stopped, if Sol is empty or too thin, or where equations do."""
        while True:
            limit = self.sol.nodes_in(EASY if self.linear else SECONDS)
            found = self.sol.optimum(limit, self.watch.searching)
            self.cut_short = found.status == "limit" and found.nodes >= limit
            if found.status != "infeasible":
                self.upper = min(self.upper, float(found.bound + self.sol.eta))
            if self.watch.stopped:
                return None
            if found.status == "limit":
                self.access.deadline.check()
            if self.cut_short and self.linear:
                self._add_equation()
                if self.by_equations:
                    return None
                continue
            if found.theta is not None:
                return found
            if self.cut_short:
                continue
            if found.status == "limit":  # out of precision: any point will do
                found = replace(found, theta=self.sol.point())
                if found.theta is not None:
                    return found
            self.empty = found.status == "infeasible"
            if self.sol.eta > self.config.eta:
                return None
            self.linear = False  # equations allow for no misspecification at all
            self.upper = self.high  # bounds with the smaller η are invalid
            self.sol.eta += FORGIVEN * (1 + self.access.bound)
            self.sol.aim(self.root.phi)

    def _add_equation(self) -> None:
        """Make a search easier by one dimension: an equation from the latest stage that was seen."""
        self.equations.harvest()
        seen = [fact for fact in self.memory.facts.values() if fact.node is not None]
        unknown = [fact for fact in seen if self.equations.value(fact) is None]
        start = max(unknown, key=lambda fact: (fact.place.stage, -fact.unqueried), default=self.root)
        for _ in self.equations.descend(start, Rollout()):
            break
        self.linear = not self.equations.refuted or self.equations.refutation is not None
        self.by_equations = self.linear and (self.equations.refuted or self.equations.value(self.root) is not None)

    def _solve_equations(self) -> str:
        """Follow the greedy path of the values that equations determine."""
        rollout = Rollout()
        try:
            for path in self.equations.roll_out(rollout, self.root):
                if self.watch.attended:
                    self._tell_equation(path, failed=True)
                if self.watch.stopped:
                    return "stopped"
        finally:
            self._take_bound()
            self._keep(rollout)
        if self.equations.refuted:
            return self.equations.status
        self._tell_equation(rollout, failed=rollout.failed)
        if self._refuted_by_return():
            return "refuted"
        if self.upper - self.lower > self._tolerance(rollout, 0.0):
            return "limit"
        self._close(rollout)
        self._challenge()
        if not self.equations.agree():
            return self.equations.status
        return "closed"

    def _take_bound(self) -> None:
        """The upper bound is what equations say of the start state, or the declared range."""
        self.tree = None if self.equations.refuted else self.equations.tree(self.root)
        self.upper = self.high if self.tree is None else min(self.high, float(self.tree.bound[0]))

    def _tell_equation(self, path: Rollout, failed: bool) -> None:
        """Record the current bracket after an equation for the last state of a path, or after the greedy path."""
        self._take_bound()
        path.failed = failed
        found = Solution("limit", self.memory.known.theta, -math.inf, self.upper, 0, 0.0)
        self._tell(found, path)
        self.theta = self.equations.theta

    def _roll_out(self) -> Rollout:
        """A rollout of θ; even cut short, it gives a lower bound."""
        rollout = Rollout()
        try:
            self.facts.roll_out(rollout, self.root, self.theta)
        finally:
            self._keep(rollout)
        return rollout

    def _tell(self, found: Solution, rollout: Rollout) -> None:
        """Record the iteration."""
        path, last = [(fact.place, action) for fact, action in rollout.steps], rollout.last
        failures = [(last.place, last.violation(self.theta))] if rollout.failed and last is not None else []
        self.watch.tell(found, self._upper_bound, self.lower, path, failures)

    def _close(self, rollout: Rollout) -> None:
        """Record the rollout that closed the gap."""
        self.closing = rollout
        for fact, action in rollout.steps:
            fact.choice = action

    def _scrutinise(self, rollout: Rollout) -> bool:
        """Query all actions at the step with the largest violation; False if all of them are known at all steps.

        Many small errors may add up to a rollout that ends below the bound by more than the tolerance.
        """
        doubtful = [fact for fact, _ in rollout.steps if fact.unqueried]
        if not doubtful:
            return False
        fact = max(doubtful, key=lambda fact: fact.violation(self.theta))
        until = rollout.steps[: [f for f, _ in rollout.steps].index(fact)]
        self.facts.query_all(fact, Rollout(until))
        return True

    # ------------------------------------------------------------------ bounds

    def _keep(self, rollout: Rollout) -> None:
        """Keep a rollout if its lower bound is the best so far."""
        low = rollout.total
        if rollout.loop is not None:
            low = self._around(rollout)
        if rollout.loop is None and rollout.last is not None:
            low += rollout.weight * self.facts.range(rollout.last.place.stage)[0]
        else:
            believable(self.access.problem_name, low, (self.low, self.high))
        if low > self.lower or not self.best.steps:
            self.lower = max(self.lower, low)
            self.best = rollout

    def _around(self, rollout: Rollout) -> float:
        """The return of an infinite cycle; refused without a discount."""
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

    @property
    def scale(self) -> float:
        """The scale of rounding errors: the range of returns, or 1 + B if that is smaller."""
        return min(1 + self.access.bound, self.high - self.low)

    def _tolerance(self, rollout: Rollout, eta: float) -> float:
        """The gap that a rollout of consistent actions may leave: rounding, η, and a negligible rest."""
        gamma = self.config.discount
        discounted = len(rollout.steps) if gamma == 1 else 1 / (1 - gamma)  # cycles do not end
        rest = 0.0
        if gamma < 1 and self.access.horizon is None:
            rest = self.config.accuracy(self.access) / 8
        return CLOSED * self.scale + eta * (2 + self.sol.step * discounted) + rest

    @property
    def _upper_bound(self) -> float:
        """The upper end of the bracket; the largest declared return if the features do not realize v*."""
        return self.high if self._refuted_by_return() else max(self.upper, self.lower)

    def _refuted_by_return(self) -> bool:
        """Whether a path earns more than the upper bound, which no feature can excuse: then B or η is too small."""
        return self.lower > self.upper + CLOSED * self.scale

    def _record_return(self) -> None:
        """Add the return of the best path to Sol, which makes it empty if that exceeds its bound."""
        self.sol.earned(self.root.place, self.root.phi, self.lower - self.facts.rounding)

    # ------------------------------------------------------------------ the end

    def _challenge(self, hopeless: bool = False) -> bool:
        """Explore, once per start state; whether that changed the bracket or Sol.

        ``hopeless``: the features are refuted, and this is the only way to find a good path.
        """
        if self.challenged or self.root in self.memory.challenged:
            return False
        self.challenged = True
        self.queries.kept_back = 0.0
        before, steps = self._progress(), self.access.horizon or DEPTH
        doubted = bool(doubts(self.access, self.experience)) or self.lower == self.low
        checks = math.ceil(self.config.recheck * len(self.best.steps))
        allowance = path_allowance(self.queries, steps, checks, doubted=doubted, hopeless=hopeless)
        self.curtailed = allowance > self.queries.room
        end = self.queries.spent + min(allowance, self.queries.room)
        Explorer(self.queries, steps, self.rng, self.upper).explore(end, self._observed)
        rollout = Rollout()
        try:
            self.facts.follow(self.experience.greedy(), rollout, self.root, steps)
        finally:
            self._keep(rollout)
        return self._progress() != before

    def _observed(self, node: Node, action: int, reward: float, following: Any) -> None:
        """Learn from a step of an exploring episode."""
        self.facts.learn(self.facts.see(node), action, Outcome(reward, following))

    def _finish(self, status: str) -> str:
        """Challenge the bracket, recheck the path, and return the final status."""
        status = self._judged(status)
        self.queries.kept_back = 0.0
        if status in ("certified", "doubtful", "eta"):
            self.memory.challenged.add(self.root)
        return status

    def _judged(self, status: str) -> str:
        if status == "budget":  # a path may lack a few queries only: half of the reserve is for them
            self.queries.kept_back /= 2
            status = self._ended(self._search)
        if status in ("budget", "refuted", "limit"):
            after = self._ended(lambda: self._last_try(status))
            status = "interrupted" if after == "interrupted" else status
        if self._refuted_by_return():
            if self.by_equations:
                self.equations.contradict_path(self.root, self.best)
                return self.equations.status
            self._record_return()
            found = self.sol.optimum(self.sol.nodes_in(SECONDS))  # infeasible: the proof of the refutation
            self.unproved = found.status != "infeasible"
            return "refuted"
        if status != "closed":
            return status
        if self.curtailed:
            return "budget"
        checked = self._ended(self._recheck)
        return self._verdict() if checked == "closed" else checked

    def _last_try(self, status: str) -> str:
        self._challenge(hopeless=status == "refuted")
        return status

    def _verdict(self) -> str:
        """The status of a closed gap."""
        if inconclusive(self.access, self.experience):
            return "doubtful"
        self.unfit = unfit_by_table(self.access, self.config.eta)
        if self.unfit:
            return "refuted"
        gap = self.upper - self.lower
        if gap <= self._tolerance(self.closing, 0.0):
            return "certified"
        if gap > self._tolerance(self.closing, self.config.eta):
            return "limit"  # it has closed only with a larger η than was given
        bounded = math.isfinite(self.high - self.low) or self.config.delta is not None
        return "certified" if bounded and gap <= self.config.accuracy(self.access) else "eta"

    def _recheck(self) -> str:
        """Query some steps of the path again, and raise if one has changed."""
        steps = self.best.steps
        again = to_recheck(self.access, len(steps), self.config.recheck, self.rng)
        for count, (i, times) in enumerate(again):
            if steps[i][0].node is None:  # reached by an earlier episode only: check one of the first steps instead
                self.facts.walk(steps[: count + 1])
                continue
            for _ in range(times):
                self.facts.check(*steps[i])
        return "closed"

    def _bracket(self, status: str) -> Certificate:
        """The current bracket."""
        contradicted = status == "refuted" or self._refuted_by_return()
        upper = self.high if contradicted else self._upper_bound
        explained = self._tolerance(self.closing, self.config.eta) - self._tolerance(self.closing, 0.0)
        return Certificate(
            upper,
            self.lower,
            status,
            assumes="" if upper == self.high else assumption(self.access, self.config.eta),
            explained=0.0 if contradicted else min(explained, upper - self.lower),
            warnings=tuple(doubts(self.access, self.experience)),
            discount=self.config.discount,
        )

    def _certificate(self, status: str) -> Certificate:
        """The bracket with its proof; without one if a return or a table contradicts Sol, rather than its own rows."""
        certificate = self._bracket(status)
        if self.unfit or self.unproved or (self._refuted_by_return() and status != "refuted"):
            return certificate
        best = self.best if self.lower > self.low else Rollout()
        tree = (self.equations.refutation or self.tree) if self.by_equations else None
        if self.by_equations and tree is None:  # contradictions of the size of rounding
            return certificate
        if tree is None and not self.sol.provable:
            return certificate
        proof = exact_proof(self.access, self.sol, self.config.discount, self.root, best, certificate, tree)
        return replace(certificate, proof=proof)

    # ------------------------------------------------------------------ GetAction

    def _policy(self, certificate: Certificate) -> ExactPolicy:
        idle = certificate.status in ("refuted", "doubtful") and self.lower == self.low  # then random play is no worse
        return ExactPolicy(self, Rollout() if idle else self.best, certificate, self.watch.trace(self.root.phi))

    def _refutation(self, policy: ExactPolicy) -> NotRealizable:
        if self.unfit:
            return table_refutation(self.access, policy)
        places = self.equations.places() if self.equations.refutation is not None else None
        return refutation(
            self.sol, self.access.problem_name, self.config.eta, "for certain", policy, places, self.watch.waiting
        )

    def improvise(self, node: Node, status: str) -> int:
        """An action off the path: the most promising one, or a random one after a refutation."""
        if status in ("refuted", "doubtful"):
            return int(self.rng.integers(self.access.actions))
        fact, here = self.facts.see(node), Rollout()
        try:
            action = self.facts.first_consistent(fact, self.theta, -1, here)
        except BudgetSpent:
            action = None
        if action is None:
            action = fact.best(self.theta)
        return int(self.rng.integers(self.access.actions)) if action is None else action
