"""TensorPlan for random problems: an upper bound from optimism, a lower one from returns, until they meet.

    repeat
        θ, upper  <- the optimistic step over Sol
        π         <- at a state, argmax_a of the estimated l_a(θ)
        lower     <- a betting bound on the return of π, from fresh episodes
        if upper - lower <= δ/2: try to refute the bracket; if that fails, π acts
        otherwise measure visited states where all l_a(θ) are negative, and add T1-T3 for them

Why it is δ-sound.  Let ζ = δ/(2 · range of returns), and 0.05 at most, so that brackets can be relied on.

(i) With probability at least 1 - ζ/2 all rows hold for θ* (:mod:`tensorplan.planners.tensorplan.measuring`).  E_d does
not enter.  Hence upper >= v*(s0).

(ii) π is fixed before its episodes: it looks actions up in a table that is frozen, and draws n2 fresh samples per
action at states that are not there (:mod:`tensorplan.planners.tensorplan.evaluate`).  All lower bounds hold together
with probability 1 - ζ/2 (:mod:`tensorplan.planners.evidence.evaluation`).

(iii) The policy that acts is π, with the same table and fresh samples, so its value is the one that was bounded.
Altogether E[return] >= v*(s0) - δ/2 - ζ · range >= v*(s0) - δ.

Why it makes progress.  <φ(s0), θ> - v^π(s0) = -E Σ_t γ^t l_{A_t}(θ; S_t): a gap that does not close comes from visited
states where l is negative, and measuring them well enough excludes θ.

With features that miss v* by η, T1-T3 allow violations of (1 + γ) η everywhere, so the bounds need not meet within δ/2:
planning ends when they are within δ/2 + η + (1 + γ) η Σ_t γ^t, and the certificate says how much of that η explains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorplan.core import Access, Array, Certificate, Node
from tensorplan.core.errors import BudgetSpent, NotRealizable, ProblemError
from tensorplan.core.intervals import betting_upper_bound
from tensorplan.optimism import Solution
from tensorplan.planners.anytime import Planning
from tensorplan.planners.evidence.challenge import ATTACK, DOUBTED, PILOT, ROUNDS, doubts, find_rival, inconclusive
from tensorplan.planners.evidence.claims import assumption, explained_gap, rounding_of, table_refutation, unfit_by_table
from tensorplan.planners.evidence.evaluation import RANDOM, Candidate, EpisodePlayer, Visits, key_of
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.ledger import Ledger
from tensorplan.planners.evidence.queries import Queries
from tensorplan.planners.tensorplan.config import Config
from tensorplan.planners.tensorplan.evaluate import EVALUATION, Bounds, Evaluator
from tensorplan.planners.tensorplan.measuring import Estimate, StateTable, Surveyor
from tensorplan.planners.tensorplan.refute import refutation
from tensorplan.planners.tensorplan.sol import Sol
from tensorplan.planners.tensorplan.trace import Trace, Watch
from tensorplan.planners.tensorplan.transcript import certified_proof

SAMPLES = 16
"""n2 at first: samples per action at a state that is not in the table."""

DOUBT = 0.05
"""The largest failure probability, however large δ is."""

NODES = 50_000
"""Of the branch and bound per optimistic step, at first; its bound is valid wherever it stops."""

SECONDS = 20.0
"""The same in seconds, about: in high dimension nodes take longer."""

CUTS = 50
"""Rounds per optimistic step in which ranges of values that θ breaks are added."""

BROKEN = 1e-6
"""By how much, relative to 1 + B, θ must break a range of values for it to be added."""

RECALLED = 8
"""Episodes of a policy that was settled before: if they earn too little, more will show whether it is chance."""

ALARM = 1e-6
"""The probability of calling a simulator changed that is not, in a whole session."""


@dataclass(frozen=True, eq=False)
class Settled:
    """What was found for a start state."""

    candidate: Candidate
    certificate: Certificate
    spread: float
    """The standard deviation of its returns."""


class CertifiedMemory:
    """The table, Sol, and what was settled for earlier start states."""

    def __init__(self, config: Config, access: Access, ledger: Ledger) -> None:
        sol = Sol(access.dimension, access.bound, eta=config.eta, discount=config.discount)
        self.experience = Experience(access, config.discount)
        self.table = StateTable(sol, self.experience)
        self.ledger = ledger
        self.settled: dict[Any, Settled] = {}
        self.recalls = 0


def failure_probability(config: Config, access: Access) -> float:
    """ζ."""
    low, high = access.return_range(0, config.discount)
    return min(config.accuracy(access) / (2 * (high - low)), DOUBT)


class CertifiedPolicy:
    """The policy that planning ended with, its certificate and its trace."""

    def __init__(self, planning: CertifiedPlanning, certificate: Certificate, trace: Trace | None) -> None:
        self.player, self.candidate, self.sol = planning.player, planning.evaluator.best, planning.sol
        self.certificate, self.trace = certificate, trace

    def act(self, node: Node) -> int:
        """The candidate's action; a random one where it would have to ask and nothing can be asked any more."""
        try:
            return self.player.choose(self.candidate, node)
        except BudgetSpent:
            return self.player.choose(RANDOM, node)


class CertifiedPlanning(Planning[CertifiedPolicy]):
    """The certified mode at work in one episode: the loop."""

    root: Estimate
    watch: Watch

    def __init__(self, config: Config, access: Access, memory: CertifiedMemory, rng: np.random.Generator) -> None:
        self.config, self.access, self.memory = config, access, memory
        self.sol, self.table, self.ledger = memory.table.sol, memory.table, memory.ledger
        self.known: Settled | None = None
        """What an earlier episode has settled for this start state."""
        delta, (low, high) = config.accuracy(access), access.return_range(0, config.discount)
        self.steps = _length(config, access, delta / (8 * (high - low)))
        self.explained = explained_gap(config.eta, config.discount, self.steps)
        upper, rounding = min(high, access.bound + config.eta), rounding_of(access, config.discount)
        self.bounds = Bounds(low, high, low, upper, delta, delta / 2 + self.explained, rounding)
        self.queries = Queries(access, config.budget, config.discount, memory.experience)
        self.player = EpisodePlayer(self.queries, self.steps, rng)
        self.surveyor = Surveyor(self.queries, self.table, self.ledger, delta / (8 * self.steps), self._affordable())
        self.queries.kept_back = self._kept_back(2 * EVALUATION)
        self.evaluator = Evaluator(self.player, self.table, self.ledger, self.bounds)
        self.nodes = self.limit = NODES
        self.curtailed = False
        """Whether an attack had fewer queries than it should have."""
        self.unfit = False
        """Whether a table shows that the features do not realize v*."""

    def _begin(self) -> None:
        self.known = self.memory.settled.get(key_of(self.access.root))
        self.table.begin()
        self.root = self.table.at(self.access.root)
        self.sol.aim(self.root.phi)
        self.surveyor.add_range(self.root)
        self.watch = Watch("certified", self.access, self.sol, self.config.trace, self.config.callback)

    def _search(self) -> str:
        return self._close() if self.known is None else self._recall(self.known)

    # ------------------------------------------------------------------ closing the gap

    def _close(self) -> str:
        """Optimism, episodes, measurements, and again, until the bounds meet."""
        bounds, evaluator = self.bounds, self.evaluator
        while True:
            before = self._progress()
            found = self._optimum()
            if found.status == "infeasible":
                return "refuted"
            bounds.upper = min(bounds.upper, found.bound + self.config.eta)
            if bounds.contradicted:
                return "refuted"
            if bounds.closed:
                return "closed"
            if self.watch.stopped:
                return "stopped"
            if found.theta is None:
                return "limit"
            theta = np.concatenate([[1.0], found.theta])
            visits = evaluator.try_out(evaluator.freeze(theta, self.surveyor.samples))
            if self.table.promised_gap(theta, visits) <= bounds.goal:
                evaluator.evaluate(evaluator.freeze(theta, self.surveyor.samples))
            measured = [] if bounds.closed else self._measure(found, theta, visits)
            failures = [(estimate.place, estimate.violation(theta)) for estimate in measured]
            self.watch.tell(found, bounds.reported_upper, bounds.lower, visits.path, failures)
            if bounds.closed and not bounds.contradicted:
                return "closed"
            if self.watch.stopped:
                return "stopped"
            evaluator.keep_share()
            if self._progress() == before:
                return "limit"

    def _progress(self) -> tuple[int, int, int, int]:
        """What grows while there is something left to do."""
        return self.queries.spent, len(self.sol.rows), self.nodes, self.surveyor.samples

    def _optimum(self) -> Solution:
        """The optimistic step; ranges of values that its θ breaks at states seen cost no query, and are added."""
        seen = [estimate for estimate in self.table.estimates.values() if not estimate.ranged]
        phis = np.array([estimate.phi for estimate in seen]).reshape(-1, self.sol.dimension)
        ranges = np.array([self.surveyor.range(estimate.place.stage) for estimate in seen]).reshape(-1, 2)
        for _ in range(CUTS):
            self.limit = min(self.nodes, self.sol.nodes_in(SECONDS * self.nodes / NODES))
            found = self.sol.optimum(self.limit, self.watch.searching)
            self.evaluator.searched += found.nodes / self.sol.nodes_in(1.0)
            if found.theta is None or self.watch.stopped:
                break
            values = phis @ found.theta
            excess = np.maximum(values - ranges[:, 1], ranges[:, 0] - values)
            worst = np.argsort(-excess)[: 2 * self.sol.dimension]
            broken = [seen[i] for i in worst if excess[i] > BROKEN * (1 + self.sol.radius) and not seen[i].ranged]
            if not broken:
                break
            for estimate in broken:
                self.surveyor.add_range(estimate)
        return found

    def _measure(self, found: Solution, theta: Array, visits: Visits) -> list[Estimate]:
        """Measure the states that say most against θ for their price; those that exclude it."""
        choices = self.surveyor.rank(theta, visits)
        if not choices and found.status == "limit" and found.bound - found.value > self.bounds.goal / 2:
            if found.nodes >= self.limit:
                self.nodes *= 2  # the search stopped before it found a θ that promises what its bound allows
            return []
        return self.surveyor.measure_best(choices, theta, visits)

    # ------------------------------------------------------------------ what was settled before

    def _recall(self, known: Settled) -> str:
        """The policy that an earlier episode settled for the same start state, if it still earns what it should."""
        bounds, best = self.bounds, known.candidate
        self.evaluator.best, bounds.upper, bounds.lower = best, known.certificate.upper, known.certificate.lower
        self.memory.recalls += 1
        visits, number = Visits(), self.memory.recalls
        self.player.play(best, RECALLED, visits)
        error = known.spread / math.sqrt(RECALLED)
        while visits.mean + 3 * max(visits.error, error) < bounds.lower:  # as good as never, if all is as it was
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
        """Challenge what was found, let the best policy act, and say what may be said."""
        if self.known is None:
            status = self._judged(status)
        self.queries.kept_back = 0.0
        return status

    def _judged(self, status: str) -> str:
        if status in ("stopped", "interrupted"):
            return "refuted" if self.bounds.contradicted else status
        self.queries.kept_back = self._kept_back(0.0)
        if self._ended(lambda: self._challenge(status)) == "interrupted":
            status = "interrupted"
        if self.bounds.contradicted:
            self.sol.earned(self.root.place, self.root.phi, self.bounds.lower)
            self.sol.optimum(self.sol.nodes_in(SECONDS))  # which finds it empty: the proof
            return "refuted"
        if status not in ("closed", "budget"):
            return status
        return self._verdict() if self.bounds.closed and not self.curtailed else "budget"

    def _verdict(self) -> str:
        """What a closed gap may be called."""
        if inconclusive(self.access, self.memory.experience):
            return "doubtful"
        self.unfit = unfit_by_table(self.access, self.config.eta)
        if self.unfit:
            return "refuted"
        return "certified" if self.bounds.upper - self.bounds.lower <= self.bounds.delta else "eta"

    def _challenge(self, status: str) -> str:
        """Look for a policy that earns more than the upper bound, or at least more than the best one so far."""
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
        """Queries that an attack may take."""
        doubted = self.bounds.lower == self.bounds.low or bool(doubts(self.access, self.memory.experience))
        allowance = max((DOUBTED if doubted else ATTACK) * self.queries.spent, 1.0)
        return allowance if self.memory.experience.paid else max(allowance, ROUNDS * self.steps)

    def _see(self, node: Node, action: int, reward: float, following: Any) -> None:
        self.table.at(node)

    def _bracket(self, status: str) -> Certificate:
        """The bracket as it stands."""
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
        )

    def _certificate(self, status: str) -> Certificate:
        """The bracket with its proof, unless a return or a table contradicts Sol, and not its own rows."""
        if self.known is not None:
            return replace(self.known.certificate, status=status)
        certificate = self._bracket(status)
        if self.unfit or (self.bounds.contradicted and status != "refuted"):
            return certificate
        earning, gamma = self.evaluator.earning, self.config.discount
        return replace(
            certificate, proof=certified_proof(self.access, self.sol, gamma, self.root, earning, certificate)
        )

    def _policy(self, certificate: Certificate) -> CertifiedPolicy:
        if certificate.status in ("certified", "eta") and self.known is None:
            settled = Settled(self.evaluator.best, certificate, self.evaluator.spread)
            self.memory.settled[key_of(self.access.root)] = settled
        return CertifiedPolicy(self, certificate, self.watch.trace(self.root.phi))

    def _refutation(self, policy: CertifiedPolicy) -> NotRealizable:
        if self.unfit:
            return table_refutation(self.access, policy)
        certainty = f"at confidence {1 - self.ledger.zeta:g}"
        return refutation(self.sol, self.access.problem_name, self.config.eta, certainty, policy)

    # ------------------------------------------------------------------ queries

    def _kept_back(self, share: float) -> float:
        """Queries to keep: a share of the budget, where there is one, and what it takes to act."""
        acting = float(self.steps * self.surveyor.samples * self.access.actions)
        return acting + (share * self.queries.total if self.queries.total < math.inf else 0.0)

    def _affordable(self) -> int:
        """n2 such that acting takes at most a quarter of the budget; two at least, for the sake of variances."""
        return int(max(2, min(SAMPLES, self.queries.total / (4 * self.steps * self.access.actions))))


def _length(config: Config, access: Access, negligible: float) -> int:
    """Steps of an episode: the horizon, or until a negligible share of the range of returns is left, discounted."""
    if access.horizon is not None:
        return access.horizon
    return max(1, math.ceil(math.log(negligible) / math.log(config.discount)))
