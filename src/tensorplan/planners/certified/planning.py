"""The certified mode: an upper bound by optimism and a lower bound from returns, until they meet.

    repeat
        upper     <- the optimistic step over Sol, or the sum of an experiment, whichever is smaller
        lower     <- a betting bound on the return of a policy, from fresh episodes
        if upper - lower <= δ/2: try to refute the bracket; if that fails, act with the policy
        otherwise explore, measure or evaluate

What is explored, measured or evaluated is decided in :mod:`tensorplan.planners.certified.closing`.

Why it is δ-sound.  Let ζ = δ/(2 · range of returns), and at most 0.05.

(i) With probability at least 1 - ζ/2 the rows of all measured states and all sums hold for θ*, at all sample sizes
(:mod:`tensorplan.planners.certified.bets`, :mod:`tensorplan.planners.evidence.ledger`).  E_d does not enter.  Hence
upper >= v*(s0).

(ii) A policy is fixed before its episodes (:mod:`tensorplan.planners.certified.evaluate`).  All lower bounds hold
together with probability 1 - ζ/2.

(iii) The policy that acts is the one whose returns were bounded.  Altogether E[return] >= v*(s0) - δ/2 - ζ · range >=
v*(s0) - δ.

Why it makes progress.  <φ(s0), θ> - v^π(s0) = -E Σ_t γ^t l_{A_t}(θ; S_t): a gap that remains comes from visited states
where l is negative, and measuring them, or others, accurately enough excludes θ.

With a misspecification of η, T1-T3 allow violations of (1 + γ) η everywhere, so the bounds need not meet within δ/2:
planning ends when they are within δ/2 + η + (1 + γ) η Σ_t γ^t, and the certificate says how much of that η explains.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorplan.core import Access, Certificate, Node
from tensorplan.core.errors import BudgetSpent, NotRealizable, ProblemError
from tensorplan.core.intervals import betting_upper_bound
from tensorplan.optimism import Solution
from tensorplan.planners.anytime import Planning
from tensorplan.planners.certified.closing import Closing
from tensorplan.planners.certified.evaluate import EVALUATION, Bounds, Evaluator
from tensorplan.planners.certified.measuring import Measurements
from tensorplan.planners.certified.proving import Derivation, Evidence, certified_proof, derive
from tensorplan.planners.certified.table import Estimate, StateTable
from tensorplan.planners.evidence.challenge import ATTACK, DOUBTED, PILOT, ROUNDS, doubts, find_rival, inconclusive
from tensorplan.planners.evidence.claims import assumption, explained_gap, rounding_of, table_refutation, unfit_by_table
from tensorplan.planners.evidence.evaluation import RANDOM, Candidate, EpisodePlayer, Evaluation, Visits, key_of
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.ledger import Ledger
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.evidence.queries import Queries
from tensorplan.planners.hindsight.anyway import upper_in_any_case
from tensorplan.planners.tensorplan.config import Config
from tensorplan.planners.tensorplan.refute import refutation
from tensorplan.planners.tensorplan.sol import Sol
from tensorplan.planners.tensorplan.trace import Trace, Watch

SAMPLES = 8
"""Samples per action with which a state enters the table."""

LARGEST_FAILURE = 0.05
"""The largest failure probability ζ, so that brackets can be relied on however large δ is."""

NODES = 20_000
"""The initial node limit of an optimistic step; the bound is valid wherever the branch and bound stops, and more
samples help more than more nodes."""

SECONDS = 2.0
"""About the same in seconds: in high dimension nodes take longer."""

LOOKED = 0.2
"""About the seconds of each search for the η or B that would resolve a contradiction."""

CLAIMED = ("certified", "eta", "doubtful", "budget")
"""The statuses of a bracket that has been attacked in vain; it is worth a second one that assumes nothing."""

RECALLED = 8
"""Episodes that check the policy of an earlier episode; if they earn too little, more of them decide."""

ALARM = 1e-6
"""The probability of a false alarm in a session that the simulator has changed."""


@dataclass(frozen=True, eq=False)
class Settled:
    """The result for a start state."""

    candidate: Candidate
    certificate: Certificate
    spread: float
    """The standard deviation of the candidate's returns."""


@dataclass(frozen=True, eq=False)
class Unsettled:
    """The bracket for a start state where planning ended before the bounds met, and what it rests on."""

    lower: float
    upper: float
    best: Candidate
    earning: Evaluation | None
    evidence: Evidence


class CertifiedMemory:
    """The table, Sol, and the results for earlier start states."""

    def __init__(self, config: Config, access: Access, ledger: Ledger) -> None:
        sol = Sol(access.dimension, access.bound, eta=config.eta, discount=config.discount)
        self.experience = Experience(access, config.discount)
        self.table = StateTable(self.experience, config.eta)
        self.measurements = Measurements(sol, self.table, ledger)
        self.ledger = ledger
        self.settled: dict[Any, Settled] = {}
        self.unsettled: dict[Any, Unsettled] = {}
        self.recalls = 0


def failure_probability(config: Config, access: Access) -> float:
    """ζ = δ/(2 · range of returns), at most :data:`LARGEST_FAILURE`."""
    low, high = access.return_range(0, config.discount)
    return min(config.accuracy(access) / (2 * (high - low)), LARGEST_FAILURE)


class CertifiedPolicy:
    """The policy of the certified mode, with its certificate and trace."""

    def __init__(self, planning: CertifiedPlanning, certificate: Certificate, trace: Trace | None) -> None:
        self.player, self.candidate, self.sol = planning.player, planning.evaluator.best, planning.sol
        self.certificate, self.trace = certificate, trace

    def act(self, node: Node) -> int:
        """The candidate's action; a random one if that takes samples and the budget is spent."""
        try:
            return self.player.choose(self.candidate, node)
        except BudgetSpent:
            return self.player.choose(RANDOM, node)


class CertifiedPlanning(Planning[CertifiedPolicy]):
    """The loop of the certified mode, in one episode."""

    root: Estimate
    watch: Watch
    closing: Closing

    def __init__(self, config: Config, access: Access, memory: CertifiedMemory, rng: np.random.Generator) -> None:
        self.config, self.access, self.memory = config, access, memory
        self.measurements, self.table, self.ledger = memory.measurements, memory.table, memory.ledger
        self.sol = memory.measurements.sol
        self.known: Settled | None = None
        """The result of an earlier episode for this start state."""
        delta, (low, high) = config.accuracy(access), access.return_range(0, config.discount)
        self.steps = _length(config, access, delta / (8 * (high - low)))
        self.explained = explained_gap(config.eta, config.discount, self.steps)
        upper, rounding = min(high, access.bound + config.eta), rounding_of(access, config.discount)
        self.bounds = Bounds(low, high, low, upper, delta, delta / 2 + self.explained, rounding)
        self.queries = Queries(access, config.budget, config.discount, memory.experience)
        self.player = EpisodePlayer(self.queries, self.steps, rng)
        self.evaluator = Evaluator(self.player, self.table, self.ledger, self.bounds, self._affordable())
        self.queries.kept_back = self._kept_back(2 * EVALUATION)
        self.nodes = NODES
        self.evidence = Evidence()
        """What the upper bound rests on."""
        self.found: tuple[tuple[int, int, int], Solution] | None = None
        """The last optimistic step, and which rows it was for."""
        self.curtailed = False
        """Whether the budget cut the challenge short."""
        self.rng, self.anyway = rng, math.inf
        """The upper bound that holds whatever the features."""
        self.unfit = False
        """Whether the features do not realize v*, by the problem's table."""
        self.derivation: Derivation | None = None
        """Of the upper bound, or of the refutation."""
        self.earned = False
        """Whether a return refutes the features."""

    def _begin(self) -> None:
        key = key_of(self.access.root)
        self.known, begun = self.memory.settled.get(key), self.memory.unsettled.get(key)
        if begun is not None:
            self.bounds.lower, self.bounds.upper, self.evidence = begun.lower, begun.upper, begun.evidence
            self.evaluator.best, self.evaluator.earning = begun.best, begun.earning
        self.table.begin(self.queries)
        self.root = self.table.at(self.access.root)
        self.sol.aim(self.root.phi, self.access.deadline)
        self.measurements.add_range(self.root)
        least = self.bounds.delta / (8 * self.steps)
        self.closing = Closing(self.measurements, self.evaluator, self.bounds, self.root, least)
        self.watch = Watch("certified", self.access, self.sol, self.config.trace, self.config.callback)

    def _search(self) -> str:
        return self._close() if self.known is None else self._recall(self.known)

    # ------------------------------------------------------------------ closing the gap

    def _close(self) -> str:
        """Alternate bounds and moves until the bounds meet."""
        bounds = self.bounds
        while True:
            before = self._progress()
            found = self._bound()
            if found.status == "infeasible" or bounds.contradicted:
                return "refuted"
            if bounds.closed and not self.evaluator.suspicious and self._confirmed():
                return "closed"
            if self.watch.stopped:
                return "stopped"
            if found.theta is None:
                return "limit"
            self.closing.move(found)
            self.evaluator.keep_share()
            self._tell(found)
            if self.watch.stopped:
                return "stopped"
            if self._progress() == before:
                return "limit"

    def _tell(self, found: Solution) -> None:
        """Report an iteration, with the states that exclude its parameter now."""
        failures: list[tuple[Place, float]] = []
        if self.watch.attended and found.theta is not None:
            self.measurements.write()
            failures = self.measurements.excluding(found.theta)
        upper, lower = self.bounds.reported_upper, self.bounds.lower
        self.watch.tell(found, upper, lower, self.closing.visits.path, failures)

    def _progress(self) -> tuple[int, tuple[int, int, int]]:
        """What changes in every useful iteration."""
        return self.queries.made, self.measurements.version

    def _bound(self) -> Solution:
        """The optimistic step, with all samples so far; it and the sum under way may lower the upper bound."""
        measurements, bounds = self.measurements, self.bounds
        if self.found is not None and self.found[0] == measurements.version:
            return self.found[1]
        measurements.tighten()
        found = measurements.optimum(self._search_sol)
        self.found = measurements.version, found
        by_cases = self.closing.prove()
        proved = min(found.bound, by_cases)
        if proved + self.config.eta < bounds.upper:
            running = self.closing.sum if by_cases < found.bound else None
            self.evidence, self.derivation = Evidence.keep(measurements, running), None
        if proved == -math.inf:
            return replace(found, status="infeasible", theta=None)
        bounds.upper = min(bounds.upper, proved + self.config.eta)
        return found

    def _confirmed(self) -> bool:
        """Whether the bounds still meet when the upper one is derived from the samples that it rests on alone."""
        self.derivation = self._derive(self.bounds.upper - self.config.eta)
        self._claim(self.derivation)
        return self.bounds.closed

    def _claim(self, derivation: Derivation) -> None:
        """Claim no less than what was derived."""
        proved = min(derivation.bound + self.config.eta, self.bounds.high)
        if proved > self.bounds.upper + self.bounds.rounding:
            self.bounds.upper = proved

    def _derive(self, claimed: float, earned: float | None = None) -> Derivation:
        """The upper bound from its evidence; with a lower bound on v*(s0), if that is given."""
        root, nodes = (self.root.place, self.root.phi), self.sol.nodes_in(SECONDS)
        ranges = self.measurements.value_range
        return derive(self.evidence, self.sol.empty(), root, ranges, claimed, earned, min(nodes, self.nodes))

    def _search_sol(self) -> Solution:
        """One search of Sol."""
        limit = min(self.nodes, self.sol.nodes_in(SECONDS * self.nodes / NODES))
        found = self.sol.optimum(limit, self.watch.searching)
        self.evaluator.searched += found.nodes / self.sol.nodes_in(1.0)
        return found

    # ------------------------------------------------------------------ earlier results

    def _recall(self, known: Settled) -> str:
        """Reuse the policy of an earlier episode for this start state, provided that it still earns its lower bound."""
        bounds, best = self.bounds, known.candidate
        self.evaluator.best, bounds.upper, bounds.lower = best, known.certificate.upper, known.certificate.lower
        self.memory.recalls += 1
        visits, number = Visits(), self.memory.recalls
        self.player.play(best, RECALLED, visits)
        error = known.spread / math.sqrt(RECALLED)
        while visits.mean + 3 * max(visits.error, error) < bounds.lower:  # improbable, unless the simulator has changed
            error = 0.0
            if betting_upper_bound(visits.returns, bounds.high, ALARM / (number * (number + 1))) >= bounds.lower:
                self.player.play(best, len(visits.returns), visits)
                continue
            raise ProblemError(
                f"problem {self.access.problem_name!r} has changed since an earlier episode: a policy that was shown "
                f"to earn {bounds.lower:.4g} at least from this start state now earns {visits.mean:.4g} on average"
            )
        return known.certificate.status

    # ------------------------------------------------------------------ the end

    def _finish(self, status: str) -> str:
        """Challenge the bracket and return the final status; the queries kept back are free for acting."""
        if self.known is None:
            status = self._judged(status)
            if status in CLAIMED and self._ended(self._bound_anyway) == "interrupted":
                status = "interrupted"
        self.queries.kept_back = 0.0
        return status

    def _bound_anyway(self) -> str:
        """Bound v*(s0) in hindsight too, which needs no features; what it costs is a share of the queries so far."""
        self.queries.kept_back = self._kept_back(0.0)
        budget = min(self.config.anyway * self.queries.spent, self.queries.room)
        if budget >= 1 and self.config.discount == self.access.discount:
            self.anyway = upper_in_any_case(self.access, int(budget), self.ledger.zeta, self.rng)
        return ""

    def _judged(self, status: str) -> str:
        if status in ("stopped", "interrupted", "time"):
            return "refuted" if self.bounds.contradicted else status
        self.queries.kept_back = self._kept_back(0.0)
        ended = self._ended(lambda: self._challenge(status))
        if ended == "interrupted" or (ended == "time" and status == "closed"):
            status = ended
        if self.bounds.contradicted:
            self.sol.earned(self.root.place, self.root.phi, self.bounds.lower)
            self.derivation, self.earned = self._derive(-math.inf, self.bounds.lower), True
            return "refuted"
        if status not in ("closed", "budget"):
            return status
        return self._verdict() if self.bounds.closed and not self.curtailed else "budget"

    def _verdict(self) -> str:
        """The status of a closed gap."""
        if inconclusive(self.access, self.memory.experience):
            return "doubtful"
        self.unfit = unfit_by_table(self.access, self.config.eta)
        if self.unfit:
            return "refuted"
        return "certified" if self.bounds.upper - self.bounds.lower <= self.bounds.delta else "eta"

    def _challenge(self, status: str) -> str:
        """Search for a policy that earns more than the upper bound, or at least more than the best one so far."""
        bounds, allowance = self.bounds, self._allowance()
        self.curtailed = allowance > self.queries.room
        if status == "budget":
            allowance = self.queries.room
        end = self.queries.spent + min(allowance, self.queries.room)
        rival, pilot = find_rival(self.player, end, bounds.upper, self._see)
        self.table.learn(pilot)
        evaluation, most = self.evaluator.begin(rival), end - self.queries.spent
        visits = evaluation.visits
        while visits.queries < most:
            self.evaluator.grow(evaluation, most)
            hopeless = visits.mean + 2 * visits.error < bounds.upper and len(visits.returns) >= PILOT
            if status == "closed" and hopeless and not bounds.contradicted:
                break
        return status

    def _allowance(self) -> float:
        """Queries that a challenge may take."""
        doubted = self.bounds.lower == self.bounds.low or bool(doubts(self.access, self.memory.experience))
        allowance = max((DOUBTED if doubted else ATTACK) * self.queries.spent, 1.0)
        return allowance if self.memory.experience.paid else max(allowance, ROUNDS * self.steps)

    def _see(self, node: Node, action: int, reward: float, following: Any) -> None:
        self.table.at(node)

    def _bracket(self, status: str) -> Certificate:
        """The current bracket."""
        bounds = self.bounds
        refuted = status == "refuted" or bounds.contradicted
        upper = bounds.high if refuted else bounds.reported_upper
        return Certificate(
            upper,
            bounds.lower,
            status,
            self.ledger.zeta,
            lower_failure=self.ledger.zeta / 2,
            assumes="" if upper == bounds.high else assumption(self.access, self.config.eta),
            explained=0.0 if refuted else min(self.explained, upper - bounds.lower),
            warnings=tuple(doubts(self.access, self.memory.experience)),
            discount=self.config.discount,
            upper_anyway=self.anyway,
            anyway_failure=self.ledger.zeta if self.anyway < math.inf else 0.0,
        )

    def _certificate(self, status: str) -> Certificate:
        """The bracket with its proof; without one if a table refutes the features, or there is no time for it."""
        if self.known is not None:
            return replace(self.known.certificate, status=status)
        refuted, unproved = status == "refuted", self.bounds.contradicted and not self.earned
        if self.unfit or unproved or self.access.deadline.passed:
            return self._bracket(status)
        if self.derivation is None:
            self.derivation = self._derive(-math.inf if refuted else self.bounds.upper - self.config.eta)
        if refuted != (self.derivation.bound == -math.inf):
            return self._bracket(status)
        if not refuted:
            self._claim(self.derivation)
        certificate = self._bracket(status)
        earning, gamma = self.evaluator.earning, self.config.discount
        proof = certified_proof(
            self.access, self.sol, gamma, self.root, self.evidence, self.derivation, self.earned, earning, certificate
        )
        return replace(certificate, proof=proof)

    def _policy(self, certificate: Certificate) -> CertifiedPolicy:
        key, evaluator = key_of(self.access.root), self.evaluator
        if certificate.status in ("certified", "eta") and self.known is None:
            self.memory.settled[key] = Settled(evaluator.best, certificate, evaluator.spread)
            self.memory.unsettled.pop(key, None)
        elif self.known is None:
            bracket = self.bounds.lower, self.bounds.upper
            self.memory.unsettled[key] = Unsettled(*bracket, evaluator.best, evaluator.earning, self.evidence)
        return CertifiedPolicy(self, certificate, self.watch.trace(self.root.phi))

    def _refutation(self, policy: CertifiedPolicy) -> NotRealizable:
        if self.unfit:
            return table_refutation(self.access, policy)
        certainty = f"at confidence {1 - self.ledger.zeta:g}"
        eta, name, stop = self.config.eta, self.access.problem_name, self.watch.waiting
        return refutation(self.sol, name, eta, certainty, policy, stop=stop, empty=self._conflicting)

    def _conflicting(
        self, eta: float | None = None, radius: float | None = None, among: Collection[Place] | None = None
    ) -> tuple[bool, int]:
        """Whether samples exclude all parameters with another η or B, or those at some places do; and the nodes."""
        sol, place = self.sol, self.root.place
        made = Sol(
            sol.dimension,
            sol.radius if radius is None else radius,
            eta=sol.eta if eta is None else eta,
            discount=self.config.discount,
        )
        made.deadline = sol.deadline
        evidence = self.evidence if among is None else self.evidence.at(among)
        earned = self.bounds.lower if self.earned and (among is None or place in among) else None
        ranges, nodes = self.measurements.value_range, sol.nodes_in(LOOKED)
        derivation = derive(evidence, made, (place, self.root.phi), ranges, -math.inf, earned, nodes, 1)
        return derivation.bound == -math.inf, derivation.nodes

    # ------------------------------------------------------------------ queries

    def _kept_back(self, share: float) -> float:
        """Queries to reserve: those needed to act, and a share of the budget, if any."""
        acting = float(self.steps * self.evaluator.first * self.access.actions)
        return acting + (share * self.queries.total if self.queries.total < math.inf else 0.0)

    def _affordable(self) -> int:
        """n2 such that acting takes at most a quarter of the budget; at least two, which a variance needs."""
        return int(max(2, min(SAMPLES, self.queries.total / (4 * self.steps * self.access.actions))))


def _length(config: Config, access: Access, negligible: float) -> int:
    """The horizon, or the steps after which the discounted rest is a negligible share of the range of returns."""
    if access.horizon is not None:
        return access.horizon
    return max(1, math.ceil(math.log(negligible) / math.log(config.discount)))
