"""BiLin-UCB at work in one episode; the algorithm and why it is sound: :mod:`tensorplan.planners.bilin_ucb.config`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from tensorplan.access.everywhere import GlobalAccess
from tensorplan.core import END, Array, Certificate, Node
from tensorplan.core.errors import BudgetSpent, ProblemError, Refused
from tensorplan.core.intervals import Interval, bernstein_radius, betting_upper_bound, hoeffding_radius
from tensorplan.planners.anytime import ended
from tensorplan.planners.bilin_ucb.config import BiLinUCB
from tensorplan.planners.bilin_ucb.constants import BilinConstants, bilin_constants
from tensorplan.planners.bilin_ucb.hypotheses import Hypotheses, Rollouts, greedy
from tensorplan.planners.evidence.challenge import ATTACK, DOUBTED, PILOT, doubts, find_path, find_rival, inconclusive
from tensorplan.planners.evidence.claims import rounding_of, table_refutation, unfit_by_table, warn
from tensorplan.planners.evidence.evaluation import Candidate, Evaluation, Player, Visits, key_of
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.queries import Queries

BUDGET = 10**9
"""Queries that are too many for mode ``paper`` when nobody gave a budget."""

FIRST = 64
"""m at first."""

ALARM = 1e-6
"""The probability of calling a simulator changed that is not."""

SHARPNESS = 2.0
"""θ_t is excluded when a mean of ℓ is this many radii away from zero."""


@dataclass(frozen=True, eq=False)
class Memory:
    """What holds wherever an episode starts, and what was settled for earlier start states."""

    hypotheses: Hypotheses
    experience: Experience
    settled: dict[Any, tuple[Array, Certificate]] = field(default_factory=dict)

    @classmethod
    def of(cls, access: GlobalAccess) -> Memory:
        """Of a problem about which nothing is known yet."""
        return cls(Hypotheses(access), Experience(access, 1.0))


class GreedyPolicy:
    """BiLin-UCB at work: the greedy policy of the best hypothesis so far."""

    def __init__(self, config: BiLinUCB, access: GlobalAccess, hypotheses: Hypotheses) -> None:
        self.config, self.access, self.hypotheses = config, access, hypotheses
        self.certain = access.deterministic_transitions and access.deterministic_rewards
        self.low, self.high = access.return_range(0)
        self.theta: Array = np.zeros(access.dimension)
        self.mean = -math.inf
        """The mean return of the policy of ``theta``, as far as it was tried."""
        self.certificate: Certificate | None = None
        hypotheses.sol.aim(access.root.phi_v)

    def act(self, node: Node) -> int:
        """argmax_a <φ_q(s, a), θ>."""
        return greedy(node, self.theta)

    def _charge(self, n: int) -> None:
        """End the planning at the planner's own budget; the access object sees to the other one."""
        if self.config.budget is not None and n > self.config.budget - self.access.spent:
            raise BudgetSpent(f"the planner's budget of {self.config.budget:,} queries is spent")


class CertifiedPolicy(GreedyPolicy):
    """Mode ``certified``."""

    def __init__(self, config: BiLinUCB, access: GlobalAccess, memory: Memory, rng: np.random.Generator) -> None:
        super().__init__(config, access, memory.hypotheses)
        delta, key = config.accuracy(access), access.root.key
        self.upper, self.lower = min(self.high, access.bound), self.low
        if self.certain:  # (C) and ℓ may be off by the tolerance, at each step
            self.zeta, self.goal = 0.0, 2 * memory.hypotheses.horizon * memory.hypotheses.loose
        else:
            self.zeta, self.goal = delta / (2 * (self.high - self.low)), delta / 2
        self.queries = Queries(access, config.budget, 1.0, memory.experience)
        self.player = Player(self.queries, memory.hypotheses.horizon, rng)
        self.unfit: str | None = None
        """"v" or "q": the values that a table shows the features not to realize."""
        self.rival: Candidate | None = None
        """The policy that acts, where it was shown to earn more than that of θ."""
        if key is not None and key in memory.settled:
            self.theta, certificate = memory.settled[key]
            self._check_settled(certificate)
            self.certificate = certificate
            return
        status = ended(self._plan, self._bracket)
        if status in ("certified", "refuted", "limit"):
            status = ended(lambda: self._challenged(status), self._bracket)
        self.certificate = self._bracket(status)
        warn(access.problem_name, self.certificate)
        if status == "certified" and key is not None and self.rival is None:
            memory.settled[key] = self.theta, self.certificate
        if status == "refuted":
            if self.unfit is not None:
                raise table_refutation(access, self, self.unfit)
            certainty = "for certain" if self.certain else f"at confidence {1 - self.zeta:g}"
            raise self.hypotheses.refutation(access.problem_name, certainty, self)

    def act(self, node: Node) -> int:
        """argmax_a <φ_q(s, a), θ>, or what a better policy does."""
        return super().act(node) if self.rival is None else self.player.choose(self.rival, node)

    def _challenged(self, status: str) -> str:
        """The status after an attempt to find a policy that earns more than the upper bound."""
        doubted = bool(doubts(self.access, self.queries.experience))
        share = DOUBTED if doubted else ATTACK
        end = self.queries.spent + min(max(1.0, share * self.queries.spent), self.queries.room)
        if self.certain:
            self._try_path(end)
        else:
            self._try_rival(end, status)
        if self._contradicted:
            self.hypotheses.demand(self.access.root, self.lower)
            return "refuted"
        self.unfit = next((kind for kind in ("v", "q") if unfit_by_table(self.access, 0.0, kind)), None)
        if status != "certified":
            return status
        if inconclusive(self.access, self.queries.experience):
            return "doubtful"
        return "certified" if self.unfit is None else "refuted"

    def _try_path(self, end: float) -> None:
        """Where nothing is random: the best path by all that was seen."""
        path = find_path(self.queries, self.player.steps, self.player.rng, end, self.upper)
        total = math.fsum(step.reward for step in path)
        if path and path[-1].following is END and total > self.lower:
            choices = {key_of(step.node): step.action for step in path}
            self.lower, self.rival = total, Candidate("path", lambda node: choices.get(key_of(node)))

    def _try_rival(self, end: float, status: str) -> None:
        """The most promising policy that makes no use of features, and what it earns at least."""
        rival, _ = find_rival(self.player, end, self.upper)
        self.hypotheses.policies += 1
        t = self.hypotheses.policies
        evaluation = Evaluation(rival, self.player, t, self.zeta / (2 * t * (t + 1)), self.low)
        most = end - self.queries.spent
        while evaluation.visits.queries < most:
            evaluation.grow(most)
            if evaluation.lower > self.lower:
                self.lower, self.rival = evaluation.lower, rival
            hopeless = evaluation.visits.mean + 2 * evaluation.visits.error < self.upper
            if status == "certified" and hopeless and not self._contradicted:
                break

    def _check_settled(self, certificate: Certificate) -> None:
        """Raise where the policy that an earlier episode settled no longer earns what it was shown to."""
        visits = Visits()
        candidate = Candidate("theta", lambda node: greedy(node, self.theta))
        self.player.play(candidate, 1 if self.certain else PILOT, visits)
        high = visits.mean if self.certain else betting_upper_bound(visits.returns, self.high, ALARM)
        if high < certificate.lower - self.goal / 8:
            raise ProblemError(
                f"problem {self.access.problem_name!r} has changed since an earlier episode: a policy that was shown "
                f"to earn {certificate.lower:.4g} at least from this start state now earns {visits.mean:.4g}"
            )

    def _bracket(self, status: str) -> Certificate:
        """The bracket as it stands."""
        refuted = status == "refuted" or self._contradicted
        upper = self.high if refuted else max(self.upper, self.lower)
        maps = "v*(s) = <phi_v(s), theta> and q*(s, a) = <phi_q(s, a), theta> at all states, reachable or not"
        assumes = f"{maps}, with one theta of norm at most {self.access.bound:g}"
        return Certificate(
            upper,
            self.lower,
            status,
            self.zeta,
            lower_failure=self.zeta / 2,
            assumes="" if upper == self.high else assumes,
            warnings=tuple(doubts(self.access, self.queries.experience)),
        )

    def _plan(self) -> str:
        """Optimism, episodes, and again, until the bounds meet."""
        while True:
            found = self.hypotheses.optimum(self._bounded)
            if found.status == "infeasible":
                return "refuted"
            if self._contradicted:
                self.hypotheses.demand(self.access.root, self.lower)
                return "refuted"
            if self._closed and self.mean > -math.inf:  # of a policy that was tried
                return "certified"
            theta = self.hypotheses.sol.point() if found.theta is None else found.theta
            progress = theta is not None and self._evaluate(theta)
            if self._closed and not self._contradicted and self.mean > -math.inf:
                return "certified"
            if not progress:  # time or digits of the branch and bound ran out
                return "limit"

    def _bounded(self, bound: float) -> None:
        if bound > -math.inf:
            self.upper = min(self.upper, bound)

    @property
    def _closed(self) -> bool:
        return self.upper - self.lower <= self.goal

    @property
    def _contradicted(self) -> bool:
        """Whether more was collected than can be had."""
        slack = self.goal if self.certain else rounding_of(self.access, 1.0)
        return self.lower > self.upper + slack

    def _evaluate(self, theta: Array) -> bool:
        """m episodes of θ's policy, doubled until it is good enough or its data exclude θ; whether they do."""
        self.hypotheses.policies += 1
        t, look, m = self.hypotheses.policies, 0, 1 if self.certain else FIRST
        promise, rollouts = float(self.access.root.phi_v @ theta), Rollouts(self.access)
        while True:
            rollouts.extend(theta, m - rollouts.n, self._charge, self.queries.experience)
            look += 1
            share = self.zeta / (2 * t * (t + 1) * look * (look + 1))
            mean, low, high = self._value(rollouts, share)
            if low > self.lower or (low == self.lower and mean > self.mean):
                self.lower, self.mean, self.theta = low, mean, theta
            radii = self._radii(m, share)
            off = np.abs(rollouts.means @ np.concatenate([[1.0], theta]))
            excluded = self._contradicted or bool((off > SHARPNESS * radii + self.hypotheses.loose).any())
            kept = promise - low <= self.goal / 2 or self._closed
            if excluded or self.certain or (kept and high <= self.upper + self.goal):
                self.hypotheses.learn(rollouts.means, radii)
                return excluded
            m *= 2

    def _value(self, rollouts: Rollouts, share: float) -> Interval:
        """The value of a policy, between bounds each of which holds with probability 1 - share."""
        mean = rollouts.total / rollouts.n
        if self.certain:
            return Interval(mean, mean, mean)
        variance = max(0.0, rollouts.squares - rollouts.n * mean**2) / (rollouts.n - 1)
        radius = bernstein_radius(rollouts.n, variance, self.high - self.low, 2 * share)
        return Interval(mean, max(self.low, mean - radius), min(self.high, mean + radius))

    def _radii(self, m: int, share: float) -> Array:
        """e_th for all stages, which hold together with probability 1 - share."""
        horizon = self.hypotheses.horizon
        if self.certain:
            return np.zeros(horizon)
        return np.array([hoeffding_radius(m, self._width(stage), share / horizon) for stage in range(horizon)])

    def _width(self, stage: int) -> float:
        """The length of the range of R + v*(S_{h+1}), given S_h and A_h; R may depend on S_{h+1}."""
        access = self.access
        width = access.reward_range[1] - access.reward_range[0]
        if not access.deterministic_transitions:
            low, high = access.return_range(stage + 1)
            width += min(high, access.bound) - max(low, -access.bound)
        return width


class PrintedPolicy(GreedyPolicy):
    """Mode ``paper``."""

    def __init__(self, config: BiLinUCB, access: GlobalAccess) -> None:
        self.constants = _constants(config, access)
        super().__init__(config, access, Hypotheses(access, self.constants.R))
        self._announce()
        status = ended(self._plan, lambda status: Certificate(self.high, self.low, status))
        if status != "done":
            self.certificate = Certificate(self.high, self.low, status)
        if status == "refuted":
            overridden = ", ".join(self.constants.overridden)
            certainty = f"if {overridden} are right" if overridden else f"at confidence {1 - self.constants.failure:g}"
            raise self.hypotheses.refutation(access.problem_name, certainty, self)

    def _plan(self) -> str:
        """Algorithm 1; where nothing is random one episode stands for m, and a θ that its data allow stays."""
        for _ in range(self.constants.T):
            found = self.hypotheses.optimum(lambda bound: None)
            if found.status == "infeasible":
                return "refuted"
            if found.theta is None:
                return "limit"
            self.hypotheses.policies += 1
            rollouts = Rollouts(self.access)
            rollouts.extend(found.theta, 1 if self.certain else self.constants.m, self._charge)
            mean = rollouts.total / rollouts.n
            if mean > self.mean:
                self.mean, self.theta = mean, found.theta
            self.hypotheses.learn(rollouts.means)
            if self.certain and self.hypotheses.agrees(found.theta):
                break
        return "done"

    def _announce(self) -> None:
        """Refuse if the planning may cost too much."""
        budget = self.access.remaining
        if self.config.budget is not None:
            budget = min(budget, self.config.budget - self.access.spent)
        if not self.certain and self.constants.queries > (BUDGET if budget == math.inf else budget):
            limit = f"{BUDGET:,} when no budget is given" if budget == math.inf else f"the budget of {budget:,.0f}"
            raise Refused(
                f"BiLin-UCB as printed needs {Decimal(self.constants.trajectories):.3g} trajectories, up to "
                f"{Decimal(self.constants.queries):.3g} queries, more than {limit}; override T, m and R, or use "
                "mode='certified'"
            )


def _constants(config: BiLinUCB, access: GlobalAccess) -> BilinConstants:
    """The paper's constants with the overrides; half of δ is for the loss, half for the probability of failure."""
    if access.reward_range[0] < 0 or access.reward_range[1] > 1:
        raise Refused(
            f"BiLin-UCB as printed is for rewards in [0, 1], and problem {access.problem_name!r} has "
            f"[{access.reward_range[0]:g}, {access.reward_range[1]:g}]"
        )
    assert access.horizon is not None
    delta, horizon = config.accuracy(access), access.horizon
    failure = min(delta / (2 * horizon), 0.3)
    overrides: dict[str, Any] = {"T": config.T, "m": config.m, "R": config.R}
    return bilin_constants(access.dimension, horizon, access.bound, delta / 2, failure, **overrides)
