"""Hindsight: a planner for any features, with a bracket that assumes nothing about them.

    repeat, each round with eight times the queries of the one before
        V, π   <- fitted value iteration, at states on the best paths in hindsight and on those of π
        lower  <- a bound on the mean return of π
        upper  <- a bound in hindsight, with V
    until upper - lower <= δ, or until more queries do not help

(:mod:`tensorplan.hindsight` has the bounds.)  Good features make V good where it was not sampled, and the bracket
narrow; bad ones leave a gap, and the certificate names the states that it comes from.  The failure probabilities of
the rounds add up to 1 - confidence, so the best bounds of all rounds hold together.

Where transitions and rewards are declared deterministic there is a better way, with a bracket that holds for certain:
:mod:`tensorplan.planners.hindsight.certain`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tensorplan.access.batches import BatchAccess
from tensorplan.access.local import LocalAccess
from tensorplan.access.meter import Allowance, Meter
from tensorplan.access.noise import Purpose
from tensorplan.core import Certificate, Node
from tensorplan.core.errors import BadInput, BudgetSpent, Refused
from tensorplan.core.specs import number, seconds, whole
from tensorplan.hindsight.blame import Blame
from tensorplan.hindsight.bracket import BracketTest, PolicyBounds
from tensorplan.hindsight.fitting.greedy import LOOKAHEAD, Fit, greedy
from tensorplan.hindsight.fitting.model import FittedValues
from tensorplan.hindsight.fitting.rounds import FIT_SHARE, start_fitting
from tensorplan.hindsight.pilot import LOWER_SHARE, Pilot
from tensorplan.hindsight.scenario import Rules
from tensorplan.hindsight.subject import Subject
from tensorplan.hindsight.values import Values
from tensorplan.planners.anytime import Planning
from tensorplan.planners.config import SHARE
from tensorplan.planners.evidence.replay import Replay
from tensorplan.planners.hindsight.certain import CertainPlanning
from tensorplan.planners.sessions import OneProblem

FIRST_ROUND, GROWTH = 100_000, 8
"""Queries of the first round, and the factor from round to round."""

FIRST_TIMED_ROUND = 1_000
"""Queries of the first round where there is a time limit: it shows how fast the simulator is."""

MOMENT = 1e-6
"""Seconds that a round takes at least, so that its speed is finite."""

LAST_SHARE = 0.8
"""The share of the last round in the failure probability, where a budget tells which one is the last."""

STALLED = 0.9
"""A round that leaves more than this share of the gap has not helped; after two of them planning ends."""

BLAMED = 3
"""States that are named as the source of a gap."""


@dataclass(frozen=True, kw_only=True)
class Hindsight:
    """A planner for any features; its certificate assumes nothing.

    ``delta``: the wanted width of the bracket; None takes a tenth of the range of returns.  ``confidence``: that the
    bracket holds; where nothing is random it does for certain.  ``budget``: queries per episode.  ``time_limit``:
    seconds of planning per episode, which make runs irreproducible.
    ``callback(bounds, queries)``: called with every look at the bracket; a true result stops planning.
    """

    delta: float | None = None
    confidence: float = 0.95
    budget: int | None = None
    time_limit: float | None = None
    callback: Callable[[PolicyBounds, int], object] | None = field(default=None, compare=False, repr=False)
    about: ClassVar[str] = "fitted values and bounds in hindsight: a certificate that assumes nothing, for any features"

    def __post_init__(self) -> None:
        if self.delta is not None and not number("delta", self.delta, -math.inf) > 0:
            raise BadInput(f"delta must be positive, got {self.delta!r}")
        number("confidence", self.confidence, 0.5, 0.999999)
        if self.budget is not None:
            whole("budget", self.budget, 0)
        if self.time_limit is not None:
            seconds("time_limit", self.time_limit)

    def begin(self, access: LocalAccess, rng: np.random.Generator) -> HindsightPolicy | Replay:
        """Start an episode; all of the planning is done here."""
        low, high = access.return_range(0)
        certain = access.deterministic_transitions and access.deterministic_rewards
        if not math.isfinite(high if certain else high - low):
            raise Refused(
                f"hindsight needs a finite range of returns, and that of problem {access.problem_name!r} is "
                f"[{low:g}, {high:g}]"
            )
        access.limit_time(self.time_limit)
        if certain:
            return CertainPlanning(access, self.width(access), self.budget, self.callback, rng).plan()
        return HindsightPlanning(self, access, rng).plan()

    def width(self, access: LocalAccess) -> float:
        """The wanted width of the bracket on this problem; zero by default where returns can be any loss."""
        low, high = access.return_range(0)
        default = SHARE * (high - low) if math.isfinite(high - low) else 0.0
        return default if self.delta is None else self.delta

    def session(self) -> HindsightSession:
        """A planner that plans once for each start state, and acts with what it found in later episodes."""
        return HindsightSession(self)


class HindsightPolicy:
    """The greedy policy with the best lower bound."""

    def __init__(self, batches: BatchAccess, fit: Fit, certificate: Certificate, rng: np.random.Generator) -> None:
        self.batches, self.fit, self.certificate = batches, fit, certificate
        self._rng, self._player = rng, greedy(fit, batches)(Purpose.POLICY, 0, None)

    def act(self, node: Node) -> int:
        """The greedy action; a random one if that takes samples and the budget is spent."""
        try:
            return self._player.act(self.batches.at(node), node.stage)
        except BudgetSpent:
            return int(self._rng.integers(self.batches.problem.actions))


class HindsightSession:
    """Hindsight with a memory, for episodes of one problem.

    The failure probabilities of all start states add up: the certificate of the k-th one has k times that of the first.
    """

    def __init__(self, config: Hindsight) -> None:
        self.config = config
        self._problem = OneProblem()
        self._known: dict[Any, HindsightPolicy | Replay] = {}
        self._planned = 0

    def __repr__(self) -> str:
        return repr(self.config)

    def begin(self, access: LocalAccess, rng: np.random.Generator) -> HindsightPolicy | Replay:
        """Start an episode: with the policy of an earlier one from the same start state, if there is one."""
        self._problem.check(access)
        known = self._known.get(access.root.key)
        if isinstance(known, Replay):
            return known.again()
        if known is not None:
            batches = access.batches(int(rng.integers(2**63)))
            return HindsightPolicy(batches, known.fit, known.certificate, rng)
        policy = self.config.begin(access, rng)
        self._planned += 1
        policy.certificate = self._together(policy.certificate)
        if access.root.key is not None and policy.certificate.status not in ("interrupted", "stopped"):
            self._known[access.root.key] = policy
        return policy

    def _together(self, certificate: Certificate) -> Certificate:
        """The certificate with the failure probability of all brackets of the session."""
        total = min(self._planned * certificate.failure, 1.0)
        return replace(certificate, failure=total, lower_failure=min(self._planned * certificate.lower_failure, total))


class HindsightPlanning(Planning[HindsightPolicy]):
    """The rounds of one episode."""

    def __init__(self, config: Hindsight, access: LocalAccess, rng: np.random.Generator) -> None:
        self.config, self.access, self.rng = config, access, rng
        self.batches = access.batches(int(rng.integers(2**63)))
        self.meter = self.batches.meter
        low, high = access.return_range(0)
        self.delta = config.width(access)
        self.rules = Rules.of(self.batches.problem)
        self.root = self.batches.at(access.root)
        self.fitting = start_fitting(self.batches, lambda index: self.root, self.rules)
        self.best: Fit = FittedValues(self.batches.problem)
        """The values whose greedy policy has the best lower bound."""
        self.bounds = PolicyBounds(low, high, high - low)
        self.blame = Blame()
        self.began = self.meter.spent
        self.tested = False
        """Whether the last round has come to scenarios that bound v*."""

    def _search(self) -> str:
        stalled = 0
        for budget, alpha in self._rounds():
            before = self.bounds.width
            if status := self.round(budget, alpha):
                return status
            self.access.deadline.check()
            tested = self.tested and budget >= FIRST_ROUND
            stalled = stalled + 1 if tested and self.bounds.width > STALLED * before else 0
            if stalled == 2:
                return "limit"
        timed = self.access.deadline.remaining < math.inf
        return "time" if timed and self._budget() >= FIRST_TIMED_ROUND else "budget"

    def _rounds(self) -> Iterator[tuple[int, float]]:
        """The queries of each round and its failure probability.

        A budget ends with a round that takes what the others leave, and most of the failure probability; without
        one, or with a time limit, round k has 1/(k (k + 1)) of it.
        """
        alpha, left = 1 - self.config.confidence, self._budget()
        if self.access.deadline.remaining < math.inf:
            for k, budget in enumerate(self._within_time(), start=1):
                yield budget, alpha / (k * (k + 1))
            return
        if left == math.inf:
            for k in itertools.count(1):
                yield FIRST_ROUND * GROWTH ** (k - 1), alpha / (k * (k + 1))
        budgets = list[int]()
        while left > (1 + GROWTH) * FIRST_ROUND * GROWTH ** len(budgets):
            budgets.append(FIRST_ROUND * GROWTH ** len(budgets))
            left -= budgets[-1]
        for budget in budgets:
            yield budget, (1 - LAST_SHARE) * alpha / len(budgets)
        yield int(left), LAST_SHARE * alpha if budgets else alpha

    def _within_time(self) -> Iterator[int]:
        """The queries of each round if there is a time limit.

        The speed of a round says how many queries the time left allows; another round takes all of them, unless it
        leaves enough for one that is larger.
        """
        deadline, budget = self.access.deadline, FIRST_TIMED_ROUND
        while True:
            before, spent = deadline.remaining, self.meter.spent
            yield int(min(budget, self._budget()))
            speed = (self.meter.spent - spent) / max(before - deadline.remaining, MOMENT)
            affordable = min(speed * deadline.remaining, self._budget())
            if affordable < FIRST_TIMED_ROUND:
                return
            budget = GROWTH * budget if affordable > (1 + GROWTH) * GROWTH * budget else int(affordable)

    def _budget(self) -> float:
        """The queries for planning: some are kept for acting."""
        left = self.meter.remaining
        if self.config.budget is not None:
            left = min(left, self.config.budget - (self.meter.spent - self.began))
        acting = self.rules.times * self.access.actions * (LOOKAHEAD + 1)
        return left - min(acting, left / 4) if left < math.inf else left

    def round(self, budget: int, alpha: float) -> str:
        """Fit, choose by a pilot, and test; the status if planning ends."""
        whole_meter: Meter = self.meter
        self.batches.meter = Allowance(whole_meter, budget)
        try:
            return self._test(budget, alpha)
        except BudgetSpent:
            return ""
        finally:
            self.batches.meter = whole_meter

    def _test(self, budget: int, alpha: float) -> str:
        self.fitting.spend(int(FIT_SHARE * budget))
        fit = self.fitting.fit
        subject = Subject(
            self.batches, Values(self.batches, fit), greedy(fit, self.batches), lambda purpose, index: self.root
        )
        pilot = Pilot(subject, self.rules, alpha, int(self.batches.meter.remaining))
        bracket = BracketTest(*pilot.choose(), alpha)
        self.tested = bracket.plan.scenarios > 0
        for bounds in bracket.grow():
            self._improve(bounds, fit, bracket)
            stop = self.config.callback and self.config.callback(self.bounds, self.meter.spent)
            if self.bounds.width <= self.delta:
                return "certified"
            if stop:
                return "stopped"
        return ""

    def _improve(self, bounds: PolicyBounds, fit: Fit, bracket: BracketTest) -> None:
        """Keep the best bounds of all rounds, and the policy with the best lower one."""
        lower, upper, _ = self.bounds
        if bounds.lower > lower:
            lower, self.best = bounds.lower, fit
        if bounds.upper < upper:
            upper, self.blame = bounds.upper, bracket.blame
        self.bounds = PolicyBounds(lower, max(upper, lower), max(upper - lower, 0.0))

    def _bracket(self, status: str) -> Certificate:
        return Certificate(
            self.bounds.upper,
            self.bounds.lower,
            status,
            failure=1 - self.config.confidence,
            lower_failure=LOWER_SHARE * (1 - self.config.confidence),
            discount=self.batches.problem.discount,
            notes=self._notes(status),
        )

    def _notes(self, status: str) -> tuple[str, ...]:
        """Where the gap comes from, unless it is closed."""
        if status == "certified" or not self.blame.scenarios:
            return ()
        lead = "more queries do not help with these features: " if status == "limit" else ""
        places = "; ".join(f"{place} ({share.total:.3g})" for place, share in self.blame.places(BLAMED))
        return (f"{lead}a gap of {self.bounds.width:.4g} is left, and most of it comes from {places}",)

    def _policy(self, certificate: Certificate) -> HindsightPolicy:
        if self.config.budget is not None:
            left = max(self.config.budget - (self.meter.spent - self.began), 0)
            self.batches.meter = Allowance(self.meter, int(min(left, self.meter.remaining)))
        return HindsightPolicy(self.batches, self.best, certificate, self.rng)
