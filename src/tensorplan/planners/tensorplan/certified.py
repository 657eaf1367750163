"""TensorPlan for random problems: an upper bound from optimism, a lower one from returns, until they meet.

    repeat
        θ, upper  <- the optimistic step over Sol
        π         <- at a state, argmax_a of the estimated l_a(θ)
        lower     <- a betting bound on the return of π, from fresh episodes
        if upper - lower <= δ/2: try to refute the bracket; if that fails, π acts
        otherwise measure visited states where all l_a(θ) are negative, and add T1-T3 for them

Why it is δ-sound.  Let ζ = δ/(2 · range of returns), and 0.05 at most, so that brackets can be relied on.

(i) With probability at least 1 - ζ/2 all rows hold for θ* (:mod:`tensorplan.planners.tensorplan.measuring`).  E_d does
not enter. Hence upper >= v*(s0).

(ii) π is fixed before its episodes: it looks actions up in a table that is frozen, and draws n2 fresh samples per
action at states that are not there.  All lower bounds hold together with probability 1 - ζ/2
(:mod:`tensorplan.planners.evidence.evaluation`).

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
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorplan.core import Access, Array, Certificate, Node
from tensorplan.core.errors import BudgetSpent, ProblemError
from tensorplan.core.intervals import betting_upper_bound
from tensorplan.optimism import Solution
from tensorplan.planners.anytime import ended
from tensorplan.planners.evidence.challenge import ATTACK, DOUBTED, PILOT, ROUNDS, doubts, find_rival, inconclusive
from tensorplan.planners.evidence.claims import (
    assumption,
    explained_gap,
    rounding_of,
    table_refutation,
    unfit_by_table,
    warn,
)
from tensorplan.planners.evidence.evaluation import RANDOM, Candidate, Evaluation, Player, Visits, key_of
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.ledger import Ledger
from tensorplan.planners.evidence.queries import Queries
from tensorplan.planners.tensorplan.measuring import Estimate, Surveyor, Table
from tensorplan.planners.tensorplan.refute import refutation
from tensorplan.planners.tensorplan.sol import Sol
from tensorplan.planners.tensorplan.trace import Trace, Watch
from tensorplan.planners.tensorplan.transcript import certified_proof

if TYPE_CHECKING:
    from tensorplan.planners.tensorplan.config import TensorPlan

SAMPLES = 16
"""n2 at first: samples per action at a state that is not in the table."""

DOUBT = 0.05
"""The largest failure probability, however large δ is."""

NODES = 50_000
"""Of the branch and bound per optimistic step, at first; its bound is valid wherever it stops."""

SECONDS = 20.0
"""The same in seconds, about: in high dimension nodes take longer."""

PER_SECOND = 500_000
"""Queries in about a second of playing episodes."""

PATIENCE = 32
"""A measurement that takes so many times the samples of a finer table waits for that."""

CUTS = 50
"""Rounds per optimistic step in which ranges of values that θ breaks are added."""

EVALUATION = 0.1
"""The share of the queries, and of the time, that goes into episodes of the policy that would act."""

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


class Memory:
    """The table, Sol, and what was settled for earlier start states."""

    def __init__(self, config: TensorPlan, access: Access, ledger: Ledger) -> None:
        sol = Sol(access.dimension, access.bound, eta=config.eta, discount=config.discount)
        self.experience = Experience(access, config.discount)
        self.table = Table(sol, self.experience)
        self.ledger = ledger
        self.settled: dict[Any, Settled] = {}
        self.recalls = 0


def failure_probability(config: TensorPlan, access: Access) -> float:
    """ζ."""
    low, high = access.return_range(0, config.discount)
    return min(config.accuracy(access) / (2 * (high - low)), DOUBT)


class CertifiedPolicy:
    """The policy that planning ended with, its certificate and its trace."""

    def __init__(self, planning: Planning, certificate: Certificate, trace: Trace | None) -> None:
        self.player, self.candidate, self.sol = planning.player, planning.best, planning.sol
        self.certificate, self.trace = certificate, trace

    def act(self, node: Node) -> int:
        """The candidate's action; a random one where it would have to ask and nothing can be asked any more."""
        try:
            return self.player.choose(self.candidate, node)
        except BudgetSpent:
            return self.player.choose(RANDOM, node)


class Planning:
    """The certified mode at work in one episode."""

    def __init__(self, config: TensorPlan, access: Access, memory: Memory, rng: np.random.Generator) -> None:
        self.config, self.access, self.memory, self.rng = config, access, memory, rng
        self.sol, self.table, self.ledger = memory.table.sol, memory.table, memory.ledger
        self.delta = config.accuracy(access)
        self.low, self.high = access.return_range(0, config.discount)
        self.upper, self.lower = min(self.high, access.bound + config.eta), self.low
        self.steps = self._length()
        self.explained = explained_gap(config.eta, config.discount, self.steps)
        self.goal = self.delta / 2 + self.explained
        self.queries = Queries(access, config.budget, config.discount, memory.experience)
        self.samples = self._affordable()
        self.queries.kept_back = self._kept_back(2 * EVALUATION)
        self.player = Player(self.queries, self.steps, rng)
        self.surveyor = Surveyor(self.queries, self.table, self.ledger, self.delta / (8 * self.steps))
        self.nodes = self.limit = NODES
        self.searched = 0.0
        """Seconds of searching, about; counted, so that a seed repeats a run."""
        self.best = RANDOM
        self.leader: Evaluation | None = None
        """The evaluation of the most promising policy, which gets its share of the queries."""
        self.earning: Evaluation | None = None
        """The evaluation that the lower bound rests on."""
        self.modelled = 0
        self.curtailed = False
        """Whether an attack had fewer queries than it should have."""
        self.unfit = False
        """Whether a table shows that the features do not realize v*."""

    def plan(self) -> CertifiedPolicy:
        """The policy, after optimism, episodes and measurements; raises NotRealizable, which has the policy too."""
        self.table.begin()
        self.root = self.table.at(self.access.root)
        self.sol.aim(self.root.phi)
        self.surveyor.add_range(self.root)
        self.watch = Watch("certified", self.access, self.sol, self.config.trace, self.config.callback)
        known = self.memory.settled.get(key_of(self.access.root))
        if known is None:
            status = self._finish(ended(self._close, self._certificate))
            certificate = self._proved(self._certificate(status))
        else:
            status = ended(lambda: self._recall(known), self._certificate)
            certificate = replace(known.certificate, status=status)
        policy = CertifiedPolicy(self, certificate, self.watch.trace(self.root.phi))
        self.queries.kept_back = 0.0
        warn(self.access.problem_name, certificate)
        if status in ("certified", "eta") and known is None:
            self.memory.settled[key_of(self.access.root)] = Settled(self.best, certificate, self._spread)
        if self.unfit:
            raise table_refutation(self.access, policy)
        if status == "refuted":
            certainty = f"at confidence {1 - self.ledger.zeta:g}"
            raise refutation(self.sol, self.access.problem_name, self.config.eta, certainty, policy)
        return policy

    # ------------------------------------------------------------------ what was settled before

    def _recall(self, known: Settled) -> str:
        """The policy that an earlier episode settled for the same start state, if it still earns what it should."""
        self.best, self.upper, self.lower = known.candidate, known.certificate.upper, known.certificate.lower
        self.memory.recalls += 1
        visits, number = Visits(), self.memory.recalls
        self.player.play(self.best, RECALLED, visits)
        error = known.spread / math.sqrt(RECALLED)
        while visits.mean + 3 * max(visits.error, error) < self.lower:  # as good as never, if all is as it was
            error = 0.0
            if betting_upper_bound(visits.returns, self.high, ALARM / (number * (number + 1))) >= self.lower:
                self.player.play(self.best, len(visits.returns), visits)
                continue
            raise ProblemError(
                f"problem {self.access.problem_name!r} has changed since an earlier episode: a policy that was shown "
                f"to earn {self.lower:.4g} at least from this start state now earns {visits.mean:.4g} on average"
            )
        return known.certificate.status

    @property
    def _spread(self) -> float:
        """Of the returns that the lower bound rests on."""
        visits = Visits() if self.earning is None else self.earning.visits
        return visits.error * math.sqrt(len(visits.returns)) if visits.returns else self.high - self.low

    # ------------------------------------------------------------------ closing the gap

    def _close(self) -> str:
        """Optimism, episodes, measurements, and again, until the bounds meet."""
        while True:
            before = self._progress()
            found = self._optimum()
            if found.status == "infeasible":
                return "refuted"
            self.upper = min(self.upper, found.bound + self.config.eta)
            if self._contradicted:
                return "refuted"
            if self._closed:
                return "closed"
            if self.watch.stopped:
                return "stopped"
            if found.theta is None:
                return "limit"
            theta = np.concatenate([[1.0], found.theta])
            visits = self._try_out(self._freeze(theta))
            if self._promised_gap(theta, visits) <= self.goal:
                self._evaluate(self._freeze(theta))
            measured = [] if self._closed else self._measure(found, theta, visits)
            failures = [(estimate.place, estimate.violation(theta)) for estimate in measured]
            self.watch.tell(found, self._upper_bound, self.lower, visits.path, failures)
            if self._closed and not self._contradicted:
                return "closed"
            if self.watch.stopped:
                return "stopped"
            self._keep_share()
            if self._progress() == before:
                return "limit"

    def _progress(self) -> tuple[int, int, int, int]:
        """What grows while there is something left to do."""
        return self.queries.spent, len(self.sol.rows), self.nodes, self.samples

    @property
    def _closed(self) -> bool:
        return self.upper - self.lower <= self.goal

    @property
    def _contradicted(self) -> bool:
        """Whether the policy earns more than the upper bound: then the features do not realize v*."""
        return self.lower > self.upper + rounding_of(self.access, self.config.discount)

    @property
    def _upper_bound(self) -> float:
        """What the bracket says: if the features do not realize v*, the range of returns alone."""
        return self.high if self._contradicted else max(self.upper, self.lower)

    def _optimum(self) -> Solution:
        """The optimistic step; ranges of values that its θ breaks at states seen cost no query, and are added."""
        seen = [estimate for estimate in self.table.estimates.values() if not estimate.ranged]
        phis = np.array([estimate.phi for estimate in seen]).reshape(-1, self.sol.dimension)
        ranges = np.array([self.surveyor.range(estimate.place.stage) for estimate in seen]).reshape(-1, 2)
        for _ in range(CUTS):
            self.limit = min(self.nodes, self.sol.nodes_in(SECONDS * self.nodes / NODES))
            found = self.sol.optimum(self.limit, self.watch.searching)
            self.searched += found.nodes / self.sol.nodes_in(1.0)
            if found.theta is None or self.watch.stopped:
                break
            values = phis @ found.theta
            excess = np.maximum(values - ranges[:, 1], ranges[:, 0] - values)
            worst = np.argsort(-excess)[: 2 * self.sol.dimension]
            broken = [seen[i] for i in worst if excess[i] > 1e-6 * (1 + self.sol.radius) and not seen[i].ranged]
            if not broken:
                break
            for estimate in broken:
                self.surveyor.add_range(estimate)
        return found

    # ------------------------------------------------------------------ policies and their episodes

    def _freeze(self, theta: Array) -> Candidate:
        """The policy of θ, with the table as it is now."""
        known = {key: e for key, e in self.table.estimates.items() if e.moments.n >= self.samples}
        deltas = np.array([e.moments.deltas(e.phi) for e in known.values()])
        best = np.argmax(deltas @ theta, axis=1).tolist() if known else []
        choices = dict(zip(known, best, strict=True))
        return Candidate("theta", lambda node: choices.get(key_of(node)), theta, self.samples)

    def _try_out(self, candidate: Candidate) -> Visits:
        """A few episodes of a policy, which show where it leads."""
        visits = Visits()
        self.player.play(candidate, PILOT, visits)
        self._learn(visits)
        if self.leader is None or visits.mean > self.leader.visits.mean + self.leader.visits.error + visits.error:
            self.leader = self._begin_evaluation(candidate)
        return visits

    def _learn(self, visits: Visits) -> None:
        """What episodes met, and sampled, joins the table."""
        for key, node in visits.nodes.items():
            self.table.at(node, key)
        for key, moments in visits.fresh:
            self.table.estimates[key].moments.add(moments)
        visits.fresh.clear()

    def _begin_evaluation(self, candidate: Candidate) -> Evaluation:
        return Evaluation(candidate, self.player, *self.ledger.policy(), self.low)

    def _grow(self, evaluation: Evaluation, most: float = math.inf) -> None:
        """More episodes of a policy; it acts if its lower bound is the best."""
        try:
            evaluation.grow(most)
        finally:
            self._learn(evaluation.visits)
            if evaluation.lower > self.lower:
                self.lower, self.best, self.earning = evaluation.lower, evaluation.candidate, evaluation

    def _evaluate(self, candidate: Candidate) -> None:
        """Episodes of a policy until the gap is closed, the upper bound is refuted, or more are of no use."""
        evaluation = self._begin_evaluation(candidate)
        while True:
            self._grow(evaluation)
            visits = evaluation.visits
            if self._contradicted or (self._closed and not self._suspicious(visits)) or not self._worthwhile(visits):
                break
        if self.leader is None or visits.mean >= self.leader.visits.mean:
            self.leader = evaluation

    def _suspicious(self, visits: Visits) -> bool:
        """Whether more seems to be earned than the upper bound allows, by so much that more episodes would prove it."""
        slack = max(self.delta / 256, rounding_of(self.access, self.config.discount))
        return visits.mean - 3 * visits.error > self.upper + slack

    def _worthwhile(self, visits: Visits) -> bool:
        """Whether more episodes are likely to close the gap: the mean is well above what is needed."""
        room = self.goal - (self.upper - visits.mean)
        return room + 2 * visits.error > 0 and (len(visits.returns) < 2 * PILOT or room + visits.error > self.delta / 8)

    def _keep_share(self) -> None:
        """See to it that the policy that would act has its share of the queries, and of the time."""
        if self.queries.spent >= 2 * self.modelled and self.memory.experience.size:
            self.modelled = self.queries.spent
            self._try_out(Candidate("model", self.memory.experience.greedy()))
        leader = self.leader
        assert leader is not None
        while self._share_is_due(leader.visits):
            self._grow(leader)

    def _share_is_due(self, visits: Visits) -> bool:
        if visits.queries < EVALUATION * self.queries.asked:
            return True
        late = visits.queries < EVALUATION * self.searched * PER_SECOND
        return late and (len(visits.returns) < PILOT or 4 * visits.error > self.delta / 8)

    # ------------------------------------------------------------------ measuring

    def _promised_gap(self, theta: Array, visits: Visits) -> float:
        """The gap that the estimated temporal differences at the visited states add up to."""
        return math.fsum(w * e.violation(theta) for e, w in self._visited(visits)) / len(visits.returns)

    def _visited(self, visits: Visits) -> list[tuple[Estimate, float]]:
        known = [(self.table.estimates[key], weight) for key, weight in visits.weights.items()]
        return [(estimate, weight) for estimate, weight in known if estimate.moments.n]

    def _measure(self, found: Solution, theta: Array, visits: Visits) -> list[Estimate]:
        """Measure the states that say most against θ for their price; those that exclude it."""
        scored = []
        for estimate, weight in self._visited(visits):
            size = estimate.violation(theta) - self.surveyor.excused
            if size > self.surveyor.least:
                price = self.surveyor.price(estimate, theta)
                scored.append((weight * size / price, price, estimate))
        scored.sort(key=lambda entry: -entry[0])
        finer = sum(max(0, 2 * self.samples - estimate.moments.n) for estimate, _ in self._visited(visits))
        if not scored and found.status == "limit" and found.bound - found.value > self.goal / 2:
            if found.nodes >= self.limit:
                self.nodes *= 2  # the search stopped before it found a θ that promises what its bound allows
            return []
        if not scored or scored[0][1] > PATIENCE * finer > 0:
            self._sharpen(visits)
            return []
        few = [e for score, _, e in scored[: max(2, self.sol.dimension // 2)] if score >= scored[0][0] / 8]
        return [estimate for estimate in few if self.surveyor.excludes(estimate, theta)]

    def _sharpen(self, visits: Visits) -> None:
        """Nothing says anything against θ, or only what is expensive to prove.

        The table is too coarse to act well, or to see why θ is wrong: the largest of noisy l_a is too large.
        """
        self.samples *= 2
        for estimate, _ in self._visited(visits):
            self.surveyor.sharpen(estimate, self.samples)

    # ------------------------------------------------------------------ the end

    def _finish(self, status: str) -> str:
        """Challenge what was found, let the best policy act, and say what may be said."""
        if status in ("stopped", "interrupted"):
            return "refuted" if self._contradicted else status
        self.queries.kept_back = self._kept_back(0.0)
        if ended(lambda: self._challenge(status), self._certificate) == "interrupted":
            status = "interrupted"
        if self._contradicted:
            self.sol.earned(self.root.place, self.root.phi, self.lower)
            self.sol.optimum(self.sol.nodes_in(SECONDS))  # which finds it empty: the proof
            return "refuted"
        if status not in ("closed", "budget"):
            return status
        return self._verdict() if self._closed and not self.curtailed else "budget"

    def _verdict(self) -> str:
        """What a closed gap may be called."""
        if inconclusive(self.access, self.memory.experience):
            return "doubtful"
        self.unfit = unfit_by_table(self.access, self.config.eta)
        if self.unfit:
            return "refuted"
        return "certified" if self.upper - self.lower <= self.delta else "eta"

    def _challenge(self, status: str) -> str:
        """Look for a policy that earns more than the upper bound, or at least more than the best one so far."""
        spent = self.queries.spent
        doubted = self.lower == self.low or bool(doubts(self.access, self.memory.experience))
        allowance = max((DOUBTED if doubted else ATTACK) * spent, 1.0)
        if not self.memory.experience.paid:
            allowance = max(allowance, ROUNDS * self.steps)
        self.curtailed = allowance > self.queries.room
        if status == "budget":
            allowance = self.queries.room
        end = spent + min(allowance, self.queries.room)
        rival, pilot = find_rival(self.player, end, self.upper, self._see)
        self._learn(pilot)
        evaluation, most = self._begin_evaluation(rival), end - self.queries.spent
        visits = evaluation.visits
        while visits.queries < most:
            self._grow(evaluation, most)
            hopeless = visits.mean + 2 * visits.error < self.upper and len(visits.returns) >= PILOT
            if status == "closed" and hopeless and not self._contradicted:
                break
        return status

    def _see(self, node: Node, action: int, reward: float, following: Any) -> None:
        self.table.at(node)

    def _certificate(self, status: str) -> Certificate:
        """The bracket as it stands."""
        refuted = status == "refuted" or self._contradicted
        upper = self.high if refuted else self._upper_bound
        return Certificate(
            upper,
            self.lower,
            status,
            self.ledger.zeta,
            lower_failure=self.ledger.zeta / 2,
            assumes="" if upper == self.high else assumption(self.access, self.config.eta),
            explained=0.0 if refuted else min(self.explained, upper - self.lower),
            warnings=tuple(doubts(self.access, self.memory.experience)),
            discount=self.config.discount,
        )

    def _proved(self, certificate: Certificate) -> Certificate:
        """The certificate with its proof, unless a return or a table contradicts Sol, and not its own rows."""
        if self.unfit or (self._contradicted and certificate.status != "refuted"):
            return certificate
        proof = certified_proof(self.access, self.sol, self.config.discount, self.root, self.earning, certificate)
        return replace(certificate, proof=proof)

    # ------------------------------------------------------------------ small things

    def _kept_back(self, share: float) -> float:
        """Queries to keep: a share of the budget, where there is one, and what it takes to act."""
        acting = float(self.steps * self.samples * self.access.actions)
        return acting + (share * self.queries.total if self.queries.total < math.inf else 0.0)

    def _affordable(self) -> int:
        """n2 such that acting takes at most a quarter of the budget; two at least, for the sake of variances."""
        return int(max(2, min(SAMPLES, self.queries.total / (4 * self.steps * self.access.actions))))

    def _length(self) -> int:
        """Steps of an episode: the horizon, or until what is left, discounted, is within an eighth of δ."""
        if self.access.horizon is not None:
            return self.access.horizon
        return max(1, math.ceil(math.log(self.delta / (8 * (self.high - self.low))) / math.log(self.config.discount)))
