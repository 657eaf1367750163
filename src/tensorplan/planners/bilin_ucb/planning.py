"""BiLin-UCB in one episode; for the algorithm and its soundness see :mod:`tensorplan.planners.bilin_ucb.planner`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tensorplan.access.everywhere import GlobalAccess
from tensorplan.core import END, Array, Certificate, Node
from tensorplan.core.errors import BudgetSpent, NotRealizable, ProblemError
from tensorplan.core.intervals import Interval, bernstein_radius, betting_upper_bound, hoeffding_radius
from tensorplan.planners.anytime import Planning
from tensorplan.planners.bilin_ucb.hypotheses import Hypotheses, Rollouts, greedy
from tensorplan.planners.config import PlannerConfig
from tensorplan.planners.evidence.challenge import ATTACK, DOUBTED, PILOT, doubts, find_path, find_rival, inconclusive
from tensorplan.planners.evidence.claims import rounding_of, table_refutation, unfit_by_table
from tensorplan.planners.evidence.evaluation import Candidate, EpisodePlayer, Evaluation, Visits, key_of
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.queries import Queries

FIRST = 64
"""The initial m."""

ALARM = 1e-6
"""The probability of a false alarm that a simulator has changed."""

SHARPNESS = 2.0
"""θ_t is excluded when a mean of ℓ is this many radii away from zero."""


class BilinMemory:
    """What is valid for every start state, and the results for earlier ones."""

    def __init__(self, access: GlobalAccess) -> None:
        self.hypotheses, self.experience = Hypotheses(access), Experience(access, 1.0)
        self.settled: dict[Any, tuple[Array, Certificate]] = {}


class BilinPolicy:
    """The greedy policy of the best hypothesis, or a better one that ignores features."""

    def __init__(self, planning: BilinPlanning, certificate: Certificate | None) -> None:
        self.planning, self.certificate = planning, certificate
        self.hypotheses, self.mean = planning.hypotheses, planning.mean

    def act(self, node: Node) -> int:
        """argmax_a <φ_q(s, a), θ>, or the action of the better policy."""
        return self.planning.choose(node)


class BilinPlanning(Planning[BilinPolicy]):
    """What both modes share."""

    access: GlobalAccess
    hypotheses: Hypotheses

    def __init__(self, config: PlannerConfig, access: GlobalAccess) -> None:
        self.config, self.access = config, access
        self.certain = access.deterministic_transitions and access.deterministic_rewards
        self.low, self.high = access.return_range(0)
        self.theta: Array = np.zeros(access.dimension)
        self.mean = -math.inf
        """The mean return of the policy of ``theta``; -inf before its first episode."""

    def choose(self, node: Node) -> int:
        """argmax_a <φ_q(s, a), θ>."""
        return greedy(node, self.theta)

    def _charge(self, n: int) -> None:
        """Raise at the planner's own budget and at the deadline; the access object enforces the other budget."""
        self.access.deadline.check()
        if self.config.budget is not None and n > self.config.budget - self.access.spent:
            raise BudgetSpent(f"the planner's budget of {self.config.budget:,} queries is spent")


class CertifiedBilinPlanning(BilinPlanning):
    """Mode ``certified``."""

    def __init__(
        self, config: PlannerConfig, access: GlobalAccess, memory: BilinMemory, rng: np.random.Generator
    ) -> None:
        super().__init__(config, access)
        self.memory, self.hypotheses = memory, memory.hypotheses
        self.known: tuple[Array, Certificate] | None = None
        """The result of an earlier episode for this start state."""
        self.upper, self.lower = min(self.high, access.bound), self.low
        self.zeta, self.goal = 0.0, 2 * self.hypotheses.horizon * self.hypotheses.loose
        """If the problem is deterministic, (C) and ℓ may be off by the tolerance at each step."""
        self.queries = Queries(access, config.budget, 1.0, memory.experience)
        self.player = EpisodePlayer(self.queries, self.hypotheses.horizon, rng)
        self.unfit: str | None = None
        """"v" or "q": the values that the features do not realize, by the problem's table."""
        self.rival: Candidate | None = None
        """The policy to act with, if it was shown to earn more than that of θ."""

    def choose(self, node: Node) -> int:
        """argmax_a <φ_q(s, a), θ>, or the action of a better policy."""
        return super().choose(node) if self.rival is None else self.player.choose(self.rival, node)

    def _begin(self) -> None:
        delta = self.config.accuracy(self.access)
        if not self.certain:
            self.zeta, self.goal = delta / (2 * (self.high - self.low)), delta / 2
        self.known = self.memory.settled.get(self.access.root.key)
        self.hypotheses.sol.aim(self.access.root.phi_v, self.access.deadline)

    def _search(self) -> str:
        return self._close() if self.known is None else self._recall(*self.known)

    def _finish(self, status: str) -> str:
        if self.known is not None or status not in ("certified", "refuted", "limit"):
            return status
        return self._attacked(status, lambda: self._challenged(status))

    def _certificate(self, status: str) -> Certificate:
        return self._bracket(status) if self.known is None else replace(self.known[1], status=status)

    def _policy(self, certificate: Certificate) -> BilinPolicy:
        key = self.access.root.key
        if certificate.status == "certified" and key is not None and self.rival is None:
            self.memory.settled[key] = self.theta, certificate
        return BilinPolicy(self, certificate)

    def _refutation(self, policy: BilinPolicy) -> NotRealizable:
        if self.unfit is not None:
            return table_refutation(self.access, policy, self.unfit)
        certainty = "for certain" if self.certain else f"at confidence {1 - self.zeta:g}"
        return self.hypotheses.refutation(self.access.problem_name, certainty, policy)

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
        """If the problem is deterministic: the best path through the transitions seen."""
        path = find_path(self.queries, self.player.steps, self.player.rng, end, self.upper)
        total = math.fsum(step.reward for step in path)
        if path and path[-1].following is END and total > self.lower:
            choices = {key_of(step.node): step.action for step in path}
            self.lower, self.rival = total, Candidate("path", lambda node: choices.get(key_of(node)))

    def _try_rival(self, end: float, status: str) -> None:
        """A lower bound on the return of the most promising policy that ignores features."""
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

    def _recall(self, theta: Array, certificate: Certificate) -> str:
        """Reuse the policy of an earlier episode, provided that it still earns its lower bound."""
        self.theta, visits = theta, Visits()
        candidate = Candidate("theta", lambda node: greedy(node, theta))
        self.player.play(candidate, 1 if self.certain else PILOT, visits)
        high = visits.mean if self.certain else betting_upper_bound(visits.returns, self.high, ALARM)
        if high < certificate.lower - self.goal / 8:
            raise ProblemError(
                f"problem {self.access.problem_name!r} has changed since an earlier episode: a policy that was shown "
                f"to earn {certificate.lower:.4g} at least from this start state now earns {visits.mean:.4g}"
            )
        return certificate.status

    def _bracket(self, status: str) -> Certificate:
        """The current bracket."""
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

    def _close(self) -> str:
        """Alternate the optimistic step and episodes until the bounds meet."""
        while True:
            found = self.hypotheses.optimum(self._bounded)
            if found.status == "infeasible":
                return "refuted"
            if self._contradicted:
                self.hypotheses.demand(self.access.root, self.lower)
                return "refuted"
            if self._closed and self.mean > -math.inf:  # a policy was evaluated
                return "certified"
            theta = self.hypotheses.sol.point() if found.theta is None else found.theta
            progress = theta is not None and self._evaluate(theta)
            if self._closed and not self._contradicted and self.mean > -math.inf:
                return "certified"
            if not progress:  # the branch and bound ran out of nodes or digits
                return "limit"

    def _bounded(self, bound: float) -> None:
        if bound > -math.inf:
            self.upper = min(self.upper, bound)

    @property
    def _closed(self) -> bool:
        return self.upper - self.lower <= self.goal

    @property
    def _contradicted(self) -> bool:
        """Whether the mean return exceeds the upper bound."""
        slack = self.goal if self.certain else rounding_of(self.access, 1.0)
        return self.lower > self.upper + slack

    def _evaluate(self, theta: Array) -> bool:
        """Whether episodes of θ's policy exclude θ; their number doubles until they do or the policy is good enough."""
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
            radii = np.zeros(self.hypotheses.horizon) if self.certain else slab_radii(self.access, m, share)
            off = np.abs(rollouts.means @ np.concatenate([[1.0], theta]))
            excluded = self._contradicted or bool((off > SHARPNESS * radii + self.hypotheses.loose).any())
            kept = promise - low <= self.goal / 2 or self._closed
            if excluded or self.certain or (kept and high <= self.upper + self.goal):
                self.hypotheses.learn(rollouts.means, radii)
                return excluded
            m *= 2

    def _value(self, rollouts: Rollouts, share: float) -> Interval:
        """The mean return of a policy, and bounds on its value that hold with probability 1 - share each."""
        mean = rollouts.total / rollouts.n
        if self.certain:
            return Interval(mean, mean, mean)
        variance = max(0.0, rollouts.squares - rollouts.n * mean**2) / (rollouts.n - 1)
        radius = bernstein_radius(rollouts.n, variance, self.high - self.low, 2 * share)
        return Interval(mean, max(self.low, mean - radius), min(self.high, mean + radius))


def slab_radii(access: GlobalAccess, m: int, share: float) -> Array:
    """e_th from m episodes, (H,), which hold at all stages together with probability 1 - share."""
    horizon = access.horizon
    assert horizon is not None
    return np.array([hoeffding_radius(m, slab_width(access, stage), share / horizon) for stage in range(horizon)])


def slab_width(access: GlobalAccess, stage: int) -> float:
    """The length of the range of R + v*(S_{h+1}), given S_h and A_h; R may depend on S_{h+1}."""
    width = access.reward_range[1] - access.reward_range[0]
    if not access.deterministic_transitions:
        low, high = access.return_range(stage + 1)
        width += min(high, access.bound) - max(low, -access.bound)
    return width
