"""TensorPlan for random problems: an upper bound from optimism, a lower one from returns, until they meet.

    repeat
        θ, upper  <- the optimistic step over Sol
        π         <- at a state, argmax_a of the estimated l_a(θ)
        lower     <- an empirical Bernstein bound on the return of π, from fresh episodes
        if upper - lower <= δ/2: π acts
        otherwise measure visited states where all l_a(θ) are negative, and add T1-T3 for them

Why it is δ-sound.  Let ζ = δ/(2 · range of returns), and 0.05 at most, so that brackets can be relied on.

(i) With probability at least 1 - ζ/2 all rows hold for θ*.  The i-th measurement has confidence 1 - ζ/(2i(i+1)): its
state and its number of samples are fixed before they are drawn, and R + γ <φ(S'), θ*> has a known range, so
Hoeffding's bound gives a radius; where the variance is small, Bernstein's gives a smaller one, with the variance
bounded over the Sol of before, which contains θ* already.  Only θ* matters: there is no cover over parameters, and
E_d does not enter.  Hence upper >= v*(s0).

(ii) π is fixed before its episodes: it looks actions up in a table that is frozen, and draws n2 fresh samples per
action at states that are not there.  So its returns are independent and identically distributed.  The j-th look at the
returns of the σ-th policy has confidence 1 - ζ/(2σ(σ+1)j(j+1)): all lower bounds hold with probability 1 - ζ/2.

(iii) The policy that acts is π, with the same table and fresh samples, so its value is the one that was bounded.
Altogether E[return] >= v*(s0) - δ/2 - ζ · range >= v*(s0) - δ.

Why it makes progress.  <φ(s0), θ> - v^π(s0) = -E Σ_t γ^t l_{A_t}(θ; S_t): a gap that does not close comes from visited
states where l is negative, and measuring them well enough excludes θ.

With features that miss v* by η, T1-T3 allow violations of (1 + γ) η everywhere, so the bounds need not meet within δ/2:
they are accepted within δ/2 + η + (1 + γ) η Σ_t γ^t, and the loss grows by as much.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorplan.core import END, Access, Array, Certificate, Node
from tensorplan.errors import BudgetSpent
from tensorplan.intervals import bernstein_radius, empirical_bernstein, hoeffding_radius
from tensorplan.optimism import Solution
from tensorplan.planners.approx_td import Moments, sample_moments
from tensorplan.planners.exact import ROUNDING
from tensorplan.planners.refute import refutation
from tensorplan.planners.sol import Place, Sol
from tensorplan.planners.trace import Trace, Watch
from tensorplan.problems.simulate import believable

if TYPE_CHECKING:
    from tensorplan.planners.tensorplan import TensorPlan

SAMPLES = 16
"""n2 at first: samples per action at a state that is not in the table."""

DOUBT = 0.05
"""The largest failure probability, however large δ is."""

PILOT = 32
"""Episodes that show where a new θ leads; samples of a state that show how large a violation is."""

NODES = 50_000
"""Of the branch and bound per optimistic step, at first; its bound is valid wherever it stops."""

VARIANCE_NODES = 100
"""The same for each term of a variance."""

CHEAP = 2_000
"""Samples per action below which no variance is looked at."""

SHARPNESS = 2.0
"""A state is measured until its violation is this many radii."""

PATIENCE = 32
"""A measurement that takes so many times the samples of a finer table waits for that."""

CUTS = 50
"""Rounds per optimistic step in which ranges of values that θ breaks are added."""


class Estimate:
    """One state in the table: its features, and the moments of all samples drawn there."""

    __slots__ = ("moments", "node", "phi", "place", "ranged")

    def __init__(self, node: Node, actions: int) -> None:
        self.place = Place.of(node)
        self.phi = node.phi_v
        self.node: Node | None = node
        """Where to ask, in this episode; None when only an earlier episode was here."""
        self.moments = Moments(actions, len(self.phi))
        self.ranged = False
        """Whether its range of values is in Sol."""

    def violation(self, theta: Array) -> float:
        """-max_a of the estimated l_a(θ)."""
        return -float(np.max(self.moments.deltas(self.phi) @ theta))


class Memory:
    """The table, Sol, and what was settled for earlier start states."""

    def __init__(self, config: TensorPlan, access: Access) -> None:
        self.table: dict[Any, Estimate] = {}
        self.sol = Sol(access.dimension, access.bound, eta=config.eta, discount=config.discount)
        self.measurements = 0
        self.settled: dict[Any, tuple[Frozen, Certificate]] = {}

    def begin(self) -> None:
        """A new episode: nodes of the last one cannot be asked any more."""
        for estimate in self.table.values():
            estimate.node = None


@dataclass(frozen=True, eq=False)
class Frozen:
    """A policy that does not change: actions at the states of the table, and n2 fresh samples under θ elsewhere."""

    theta: Array
    """[1, θ]"""
    choices: dict[Any, int]
    samples: int


@dataclass(frozen=True, eq=False)
class Visits:
    """What episodes of one policy met."""

    returns: list[float] = field(default_factory=list)
    weights: Counter[Any] = field(default_factory=Counter)
    """Σ γ^t over the visits of a state."""
    nodes: dict[Any, Node] = field(default_factory=dict)
    fresh: list[tuple[Any, Moments]] = field(default_factory=list)
    """The samples that were drawn at states outside of the table."""
    path: list[tuple[Place, int]] = field(default_factory=list)
    """The first episode."""

    def meet(self, node: Node, key: Any, weight: float, action: int) -> None:
        """One step, or several that are the same."""
        self.nodes[key] = node
        self.weights[key] += weight  # type: ignore[assignment]
        if not self.returns:
            self.path.append((Place.of(node), action))


class CertifiedPolicy:
    """The certified mode at work in one episode."""

    def __init__(self, config: TensorPlan, access: Access, memory: Memory) -> None:
        self.config, self.access, self.memory, self.sol = config, access, memory, memory.sol
        self.delta = config.accuracy(access)
        low, high = self._range(0)
        self.upper, self.lower = min(high, access.bound + config.eta), low
        self.zeta = min(self.delta / (2 * (high - low)), DOUBT)
        self.steps = self._length()
        visits = math.fsum(config.discount**t for t in range(self.steps))
        self.goal = self.delta / 2 + config.eta + self._excused * visits
        self.samples = self._affordable()
        self.nodes = NODES
        self.best: Frozen | None = None
        self.policies = 0
        self.planning = True
        memory.begin()
        self.root = self._estimate(access.root)
        self.sol.aim(self.root.phi)
        self._add_range(self.root)
        self.watch = Watch("certified", access, self.sol, config.trace, config.callback)
        status = self._recall() or self._plan()
        self.certificate = Certificate(self.upper, self.lower, status, self.zeta, discount=config.discount)
        self.trace: Trace | None = self.watch.trace(self.root.phi)
        self.planning = False
        if status == "certified" and self.best is not None:
            memory.settled[_key(access.root)] = self.best, self.certificate
        if status == "refuted":
            self.certificate = Certificate(high, self.lower, status, self.zeta, discount=config.discount)
            raise refutation(self.sol, access.problem_name, config.eta, f"at confidence {1 - self.zeta:g}", self)

    def _recall(self) -> str | None:
        """The policy that an earlier episode settled for the same start state."""
        known = self.memory.settled.get(_key(self.access.root))
        if known is None:
            return None
        self.best, certificate = known
        self.upper, self.lower = certificate.upper, certificate.lower
        return certificate.status

    def _plan(self) -> str:
        try:
            return self._init()
        except BudgetSpent:
            return "budget"
        except KeyboardInterrupt:
            return "interrupted"

    # ------------------------------------------------------------------ Init

    def _init(self) -> str:
        """Optimism, episodes, measurements, and again, until the bounds meet."""
        while True:
            found = self._optimum()
            if found.status == "infeasible":
                return "refuted"
            self.upper = min(self.upper, found.bound + self.config.eta)
            if self.lower > self.upper:  # more is collected than can be had
                self.sol.values(self.root.place, self.root.phi, self.lower, math.inf)
                return "refuted" if self.sol.optimum(NODES).status == "infeasible" else "limit"
            if self._closed:
                return "certified"
            if found.theta is None:
                return "limit"
            theta = np.concatenate([[1.0], found.theta])
            visits = self._evaluate(theta, PILOT)
            if self._promised_gap(theta, visits) <= self.goal:
                visits = self._evaluate(theta)
            measured = [] if self._closed else self._measure(found, theta, visits)
            failures = [(estimate.place, estimate.violation(theta)) for estimate in measured]
            self.watch.tell(found, self.upper, self.lower, visits.path, failures)
            if self._closed and self.lower <= self.upper:
                return "certified"
            if self.watch.stopped:
                return "stopped"

    @property
    def _closed(self) -> bool:
        return self.upper - self.lower <= self.goal

    def _optimum(self) -> Solution:
        """The optimistic step; ranges of values that its θ breaks at states seen cost no query, and are added."""
        seen = [estimate for estimate in self.memory.table.values() if not estimate.ranged]
        phis = np.array([estimate.phi for estimate in seen]).reshape(-1, self.sol.dimension)
        ranges = np.array([self._range(estimate.place.stage) for estimate in seen]).reshape(-1, 2)
        for _ in range(CUTS):
            found = self.sol.optimum(self.nodes)
            if found.theta is None:
                break
            values = phis @ found.theta
            excess = np.maximum(values - ranges[:, 1], ranges[:, 0] - values)
            worst = np.argsort(-excess)[: 2 * self.sol.dimension]
            broken = [seen[i] for i in worst if excess[i] > 1e-6 * (1 + self.sol.radius) and not seen[i].ranged]
            if not broken:
                break
            for estimate in broken:
                self._add_range(estimate)
        return found

    # ------------------------------------------------------------------ the policy and its episodes

    def _evaluate(self, theta: Array, episodes: int | None = None) -> Visits:
        """Episodes of θ's policy, and the lower bound that they give: so many, or until it is of no use."""
        policy, visits = self._freeze(theta), Visits()
        self.best = self.best or policy
        self.policies += 1
        share = self.zeta / (2 * self.policies * (self.policies + 1))
        look, size = 0, episodes or PILOT
        while True:
            self._episodes(policy, size - len(visits.returns), visits)
            look += 1
            mean, low, _ = empirical_bernstein(visits.returns, self._range(0), 1 - 2 * share / (look * (look + 1)))
            if low > self.lower:
                self.lower, self.best = low, policy
            settled = self._closed and not self._suspicious(visits.returns, mean)
            if episodes is not None or settled or not self._worthwhile(visits.returns, mean):
                break
            size *= 2
        for key, node in visits.nodes.items():
            self._estimate(node, key)
        for key, moments in visits.fresh:
            self.memory.table[key].moments.add(moments)
        return visits

    def _freeze(self, theta: Array) -> Frozen:
        """The policy of θ, with the table as it is now."""
        known = {key: e for key, e in self.memory.table.items() if e.moments.n >= self.samples}
        deltas = np.array([e.moments.deltas(e.phi) for e in known.values()])
        best = np.argmax(deltas @ theta, axis=1).tolist() if known else []
        return Frozen(theta, dict(zip(known, best, strict=True)), self.samples)

    def _choose(self, policy: Frozen, node: Node, key: Any, visits: Visits) -> int:
        action = policy.choices.get(key)
        if action is None:
            moments = self._sample(node, policy.samples)
            visits.fresh.append((key, moments))
            action = int(np.argmax(moments.deltas(node.phi_v) @ policy.theta))
        return action

    def _episodes(self, policy: Frozen, n: int, visits: Visits) -> None:
        """n episodes from s0; where transitions are deterministic and actions known, all take the same steps."""
        node: Any = self.access.root
        totals, weight, time = np.zeros(n), 1.0, 0
        while self.access.deterministic_transitions and node is not END and time < self.steps:
            key = _key(node)
            action = policy.choices.get(key)
            if action is None:
                break
            visits.meet(node, key, n * weight, action)
            self._charge(n)
            sample = self.access.sample(node, action, n)
            totals += weight * sample.rewards
            weight, time, node = weight * self.config.discount, time + 1, sample.successors[sample.which[0]]
        for total in totals.tolist():
            visits.returns.append(self._finish(policy, node, total, weight, time, visits))

    def _finish(self, policy: Frozen, node: Any, total: float, weight: float, time: int, visits: Visits) -> float:
        """The return of an episode that is at a node; where little is left it is cut, and counts as the least."""
        while node is not END:
            if time == self.steps:
                return max(total + weight * self._range(time)[0], self._range(0)[0])
            key = _key(node)
            action = self._choose(policy, node, key, visits)
            visits.meet(node, key, weight, action)
            self._charge(1)
            reward, node = self.access.query(node, action)[0]
            total += weight * reward
            weight, time = weight * self.config.discount, time + 1
        return believable(self.access.problem_name, total, self._range(0))

    def _suspicious(self, returns: list[float], mean: float) -> bool:
        """Whether more seems to be collected than can be had, which more episodes would prove."""
        return self.lower <= self.upper < mean - 3 * float(np.std(returns)) / math.sqrt(len(returns))

    def _worthwhile(self, returns: list[float], mean: float) -> bool:
        """Whether a few times more episodes are likely to close the gap: the mean is well above what is needed."""
        room = self.goal - (self.upper - mean)
        error = float(np.std(returns)) / math.sqrt(len(returns))
        return room + 2 * error > 0 and (len(returns) < 2 * PILOT or room + error > self.delta / 8)

    # ------------------------------------------------------------------ measuring

    def _promised_gap(self, theta: Array, visits: Visits) -> float:
        """The gap that the estimated temporal differences at the visited states add up to."""
        return math.fsum(weight * e.violation(theta) for e, weight in self._visited(visits)) / len(visits.returns)

    def _visited(self, visits: Visits) -> Iterator[tuple[Estimate, float]]:
        return ((self.memory.table[key], weight) for key, weight in visits.weights.items())

    def _measure(self, found: Solution, theta: Array, visits: Visits) -> list[Estimate]:
        """Measure the states that say most against θ for their price; those that exclude it."""
        scored, alpha = [], self._share(self.memory.measurements + 1)
        for estimate, weight in self._visited(visits):
            size = estimate.violation(theta) - self._excused
            if size > self._least:
                price = self._enough(estimate, size / SHARPNESS, alpha)
                scored.append((weight * size / price, price, estimate))
        scored.sort(key=lambda entry: -entry[0])
        finer = sum(max(0, 2 * self.samples - estimate.moments.n) for estimate, _ in self._visited(visits))
        if not scored and found.status == "limit" and found.bound - found.value > self.goal / 2:
            self.nodes *= 2  # the search stopped before it found a θ that promises what its bound allows
            return []
        if not scored or scored[0][1] > PATIENCE * finer > 0:
            self._sharpen(visits)
            return []
        few = [e for score, _, e in scored[: max(2, self.sol.dimension // 2)] if score >= scored[0][0] / 8]
        return [estimate for estimate in few if self._excludes(estimate, theta)]

    def _sharpen(self, visits: Visits) -> None:
        """Nothing says anything against θ, or only what is dear to prove.

        The table is too coarse to act well, or to see why θ is wrong: the largest of noisy l_a is too large.
        """
        self.samples *= 2
        for estimate, _ in self._visited(visits):
            if estimate.moments.n < self.samples:
                estimate.moments.add(self._sample(estimate, self.samples - estimate.moments.n))

    @property
    def _least(self) -> float:
        """A violation that does not matter: δ/8 if it is met at every step."""
        return self.delta / (8 * self.steps)

    @property
    def _excused(self) -> float:
        """A violation that η may explain, so that T1-T3 allow it."""
        return self.sol.step * self.sol.eta

    def _excludes(self, estimate: Estimate, theta: Array) -> bool:
        """Measure a state until T1-T3 exclude θ there; False if the violation turns out to be negligible."""
        sharpness = SHARPNESS
        while True:
            self.memory.measurements += 1
            alpha = self._share(self.memory.measurements)
            n = self._plan_samples(estimate, theta, sharpness, alpha)
            if n is None:
                return False
            if self._add_rows(estimate, theta, n, alpha):
                return True
            sharpness *= 2

    def _share(self, i: int) -> float:
        """α of the i-th measurement, for each of its actions."""
        return self.zeta / (2 * i * (i + 1) * self.access.actions)

    def _enough(self, estimate: Estimate, radius: float, alpha: float) -> int:
        """Samples with which Hoeffding's radius is that small."""
        return max(1, math.ceil(self._width(estimate.place.stage) ** 2 * math.log(2 / alpha) / (2 * radius**2)))

    def _plan_samples(self, estimate: Estimate, theta: Array, sharpness: float, alpha: float) -> int | None:
        """How many samples it takes to see the violation, None if there is none to speak of.

        Samples that are drawn to find out join the table; no row rests on them.
        """
        moments, width = estimate.moments, self._width(estimate.place.stage)
        while True:
            size = estimate.violation(theta) - self._excused
            if size < self._least:
                return None
            if not width:
                return 1
            spread = max(0.0, *(float(theta @ moments.covariance(a) @ theta) for a in range(self.access.actions)))
            if math.sqrt(spread / moments.n) < size / 4:
                break
            moments.add(self._sample(estimate, moments.n))
        target = size / sharpness
        n = self._enough(estimate, target, alpha)
        if n <= CHEAP:
            return n
        variance = max(self.sol.variance(moments.covariance(a), VARIANCE_NODES) for a in range(self.access.actions))
        low, high = 1, n
        while high - low > 1:
            middle = (low + high) // 2
            enough = bernstein_radius(middle, variance, width, alpha / 2) <= target
            low, high = (low, middle) if enough else (middle, high)
        return high

    def _add_rows(self, estimate: Estimate, theta: Array, n: int, alpha: float) -> bool:
        """T1-T3 for a state from n fresh samples of every action; whether they exclude θ."""
        moments, width = self._sample(estimate, n), self._width(estimate.place.stage)
        deltas = moments.deltas(estimate.phi)
        radii = [self._radius(moments, action, width, alpha) for action in range(self.access.actions)]
        for delta, rho in zip(deltas, radii, strict=True):
            self.sol.inequality(estimate.place, delta, rho)
        allowed = np.array(radii) + self._excused
        scale = allowed.max() / allowed  # |l_a| <= ρ_a + (1 + γ) η for some a, as forms with one tolerance
        self.sol.disjunction(estimate.place, deltas * scale[:, None], max(radii))
        self._add_range(estimate)
        estimate.moments.add(moments)
        return bool(np.all(deltas @ theta < -allowed))

    def _radius(self, moments: Moments, action: int, width: float, alpha: float) -> float:
        """The confidence radius of l_a(θ*), at confidence 1 - α."""
        n, rounding = moments.n, ROUNDING * (1 + self.sol.radius)
        if n <= CHEAP or not width:
            return hoeffding_radius(n, width, alpha) + rounding
        variance = self.sol.variance(moments.covariance(action), VARIANCE_NODES)
        radii = hoeffding_radius(n, width, alpha / 2), bernstein_radius(n, variance, width, alpha / 2)
        return min(radii) + rounding

    def _width(self, stage: int) -> float:
        """The length of the range of R + γ <φ(S'), θ*>, where it is random: R + γ v*(S') is an expected return, too."""
        access, width = self.access, 0.0
        if not (access.deterministic_rewards and access.deterministic_transitions):  # R may depend on S'
            width += access.reward_range[1] - access.reward_range[0]
        if not access.deterministic_transitions:
            low, high = self._range(stage if access.horizon is None else stage + 1)
            low, high = max(low - self.sol.eta, -access.bound), min(high + self.sol.eta, access.bound)
            width += self.config.discount * (high - low)
        low, high = self._range(stage)
        return min(width, high - low + 2 * self.config.discount * self.sol.eta)

    # ------------------------------------------------------------------ asking

    def _sample(self, where: Node | Estimate, n: int) -> Moments:
        self._charge(n * self.access.actions)
        node = where.node if isinstance(where, Estimate) else where
        assert node is not None
        return sample_moments(self.access, node, n, self.config.discount)

    def _charge(self, n: int) -> None:
        """End the planning while enough queries are left to act, and the asking when none are left."""
        room = self.access.remaining
        if self.config.budget is not None:
            room = min(room, self.config.budget - self.access.spent)
        if self.planning:
            room -= self.steps * self.samples * self.access.actions
        if n > room:
            raise BudgetSpent("no queries are left for this")

    def _affordable(self) -> int:
        """n2 such that acting takes at most a quarter of the budget; two at least, for the sake of variances."""
        budget = min(self.access.remaining, math.inf if self.config.budget is None else self.config.budget)
        return int(max(2, min(SAMPLES, budget / (4 * self.steps * self.access.actions))))

    # ------------------------------------------------------------------ small things

    def _estimate(self, node: Node, key: Any = None) -> Estimate:
        """What the table has on a node, new if it was not there."""
        key = _key(node) if key is None else key
        estimate = self.memory.table.get(key)
        if estimate is None:
            self.memory.table[key] = estimate = Estimate(node, self.access.actions)
        estimate.node = node
        return estimate

    def _add_range(self, estimate: Estimate) -> None:
        """T2 for a state, once."""
        if not estimate.ranged:
            estimate.ranged = True
            self.sol.values(estimate.place, estimate.phi, *self._range(estimate.place.stage))

    def _range(self, stage: int) -> tuple[float, float]:
        return self.access.return_range(stage, self.config.discount)

    def _length(self) -> int:
        """Steps of an episode: the horizon, or until what is left, discounted, is within an eighth of δ."""
        if self.access.horizon is not None:
            return self.access.horizon
        low, high = self._range(0)
        return max(1, math.ceil(math.log(self.delta / (8 * (high - low))) / math.log(self.config.discount)))

    # ------------------------------------------------------------------ GetAction

    def act(self, node: Node) -> int:
        """The action of the best policy; where nothing can be asked any more, the first one."""
        if self.best is None:
            return 0
        try:
            return self._choose(self.best, node, _key(node), Visits())
        except BudgetSpent:
            return 0


def _key(node: Node) -> Any:
    """What tells states apart; one that cannot be hashed is a new one each time that it is met."""
    key = node.key
    return node if key is None else (node.stage, key)
