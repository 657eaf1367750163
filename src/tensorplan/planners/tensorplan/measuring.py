"""The measurement of states by samples: rows of Sol that hold for θ* with a stated confidence.

The i-th measurement has a share of the failure probability (:mod:`tensorplan.planners.evidence.ledger`).  Its state and
its number of samples are fixed before they are drawn, and R + γ <φ(S'), θ*> has a known range, so Hoeffding's bound
gives a radius for l_a(θ*); if the variance is small, Bernstein's gives a smaller one, with the variance bounded over
the previous Sol, which contains θ*.  Only θ* matters: no cover over parameters is needed.

Which state to measure.  The gap of a policy is the mean of -l_A(θ; S) over the steps of its episodes, so a state that
is visited often with a large violation contributes most to it, and the samples that prove a violation grow with its
inverse square: states are measured in the order of (weight of the visits) (violation) / (samples).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tensorplan.core import Access, Array, Node
from tensorplan.core.intervals import bernstein_radius, hoeffding_radius
from tensorplan.planners.evidence.approx_td import Moments
from tensorplan.planners.evidence.evaluation import Visits, key_of
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.ledger import Ledger
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.evidence.queries import Queries
from tensorplan.planners.tensorplan.sol import ROUNDING, Sol, Variance

CHEAP = 2_000
"""Samples per action up to which Hoeffding's bound is used alone."""

SHARPNESS = 2.0
"""A state is measured until its violation is this many radii."""

SHARP = 4.0
"""The same after a long search: the smaller the radii, the fewer disjunctions have two alternatives left."""

LONG = 1_000
"""Nodes from which on a search is long."""

PATIENCE = 32
"""The table is refined first if a measurement takes more than so many times its samples."""

CLOSE_SECOND = 8
"""States that score less than the best one by more than this factor wait for another round."""

VARIANCE_NODES = 100
"""Nodes of the branch and bound for each term of a variance."""


class Estimate:
    """One state in the table: its features, and the moments of all samples drawn there."""

    __slots__ = ("moments", "node", "phi", "place", "ranged")

    def __init__(self, node: Node, actions: int) -> None:
        self.place = Place.of(node)
        self.phi = node.phi_v
        self.node: Node | None = node
        """The node to query in this episode; None if only an earlier episode was here."""
        self.moments = Moments(actions, len(self.phi))
        self.ranged = False
        """Whether its value range (T2) is in Sol."""

    def violation(self, theta: Array) -> float:
        """-max_a of the estimated l_a(θ)."""
        return -float(np.max(self.moments.deltas(self.phi) @ theta))


@dataclass(frozen=True, eq=False)
class Radius:
    """The confidence radius of an estimate of l_a(θ*)."""

    value: float
    variance: Variance | None = None
    """The variance bound, if Bernstein's bound was used."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """One measured state, the source of rows of Sol."""

    number: int
    """i, which determines its share of the failure probability."""
    place: Place
    phi: Array
    moments: Moments
    radii: tuple[Radius, ...]
    """By action."""


class Choice(NamedTuple):
    """A candidate state for a measurement."""

    score: float
    """Weighted violation per sample."""
    price: float
    """Samples per action that the measurement would take."""
    estimate: Estimate


class StateTable:
    """All states visited in a session, the samples drawn there, and the Sol that measurements define."""

    def __init__(self, sol: Sol, experience: Experience) -> None:
        self.sol, self.experience = sol, experience
        self.estimates: dict[Any, Estimate] = {}

    def begin(self) -> None:
        """Start an episode: nodes of the last one cannot be queried any more."""
        for estimate in self.estimates.values():
            estimate.node = None

    def at(self, node: Node, key: Any = None) -> Estimate:
        """The estimate of a node's state, created if it is new."""
        key = key_of(node) if key is None else key
        estimate = self.estimates.get(key)
        if estimate is None:
            self.estimates[key] = estimate = Estimate(node, self.experience.actions)
            self.experience.meet(node)
        estimate.node = node
        return estimate

    def learn(self, visits: Visits) -> None:
        """Add the states and samples of episodes to the table."""
        for key, node in visits.nodes.items():
            self.at(node, key)
        for key, moments in visits.fresh:
            self.estimates[key].moments.add(moments)
        visits.fresh.clear()

    def visited(self, visits: Visits) -> list[tuple[Estimate, float]]:
        """The visited states that have samples, with the weights of their visits."""
        known = [(self.estimates[key], weight) for key, weight in visits.weights.items()]
        return [(estimate, weight) for estimate, weight in known if estimate.moments.n]

    def promised_gap(self, theta: Array, visits: Visits) -> float:
        """The gap of a policy by the estimated temporal differences at its visited states."""
        return math.fsum(w * e.violation(theta) for e, w in self.visited(visits)) / len(visits.returns)


class Surveyor:
    """Measures states in one episode.

    ``least``: a negligible violation.  ``samples``: n2, the samples per action that a state needs to be looked up.
    ``sharpness``: how many radii a violation is measured to.
    """

    sharpness = SHARPNESS

    def __init__(self, queries: Queries, table: StateTable, ledger: Ledger, least: float, samples: int) -> None:
        self.queries, self.access, self.table, self.sol = queries, queries.access, table, table.sol
        self.ledger, self.least, self.samples = ledger, least, samples

    # ------------------------------------------------------------------ which states

    def follow(self, nodes: int) -> None:
        """Measure to the accuracy that suits a search of so many nodes."""
        self.sharpness = SHARP if nodes >= LONG else SHARPNESS

    def rank(self, theta: Array, visits: Visits) -> list[Choice]:
        """Visited states with a violation of θ, in decreasing order of score."""
        choices = []
        for estimate, weight in self.table.visited(visits):
            size = estimate.violation(theta) - self.excused
            if size > self.least:
                price = self._price(estimate, size)
                choices.append(Choice(weight * size / price, price, estimate))
        return sorted(choices, key=lambda choice: -choice.score)

    def measure_best(self, choices: Sequence[Choice], theta: Array, visits: Visits) -> list[Estimate]:
        """Measure the first of the states, and return those that exclude θ.

        If no state violates θ, or only at a price far above that of a finer table, the table is too coarse to act well
        or to see why θ is wrong (the maximum of noisy l_a is biased upwards): it is refined instead.
        """
        finer = sum(max(0, 2 * self.samples - estimate.moments.n) for estimate, _ in self.table.visited(visits))
        if not choices or choices[0].price > PATIENCE * finer > 0:
            self.samples *= 2
            for estimate, _ in self.table.visited(visits):
                self._sharpen(estimate)
            return []
        most, least = max(2, self.sol.dimension // 2), choices[0].score / CLOSE_SECOND
        few = [choice.estimate for choice in choices[:most] if choice.score >= least]
        return [estimate for estimate in few if self.excludes(estimate, theta)]

    def _price(self, estimate: Estimate, size: float) -> float:
        """Samples per action that would prove a violation at a state, by Hoeffding's bound."""
        return self._enough(estimate, size / self.sharpness, self.ledger.next_measurement(self.access.actions))

    def _sharpen(self, estimate: Estimate) -> None:
        """Draw samples for the table; rows of Sol do not use them."""
        if estimate.moments.n < self.samples:
            estimate.moments.add(self.sample(estimate, self.samples - estimate.moments.n))

    # ------------------------------------------------------------------ one state

    @property
    def excused(self) -> float:
        """The violation (1 + γ) η that T1-T3 allow."""
        return self.sol.step * self.sol.eta

    def range(self, stage: int) -> tuple[float, float]:
        """The range of returns from a stage on."""
        return self.access.return_range(stage, self.queries.discount)

    def add_range(self, estimate: Estimate) -> None:
        """T2 for a state, once."""
        if not estimate.ranged:
            estimate.ranged = True
            self.sol.values(estimate.place, estimate.phi, *self.range(estimate.place.stage), estimate)

    def sample(self, estimate: Estimate, n: int) -> Moments:
        """n fresh samples of every action at a state of this episode."""
        assert estimate.node is not None
        return self.queries.moments(estimate.node, n)

    def excludes(self, estimate: Estimate, theta: Array) -> bool:
        """Measure a state until T1-T3 exclude θ; False if the violation proves negligible."""
        sharpness = self.sharpness
        while True:
            number, alpha = self.ledger.measurement(self.access.actions)
            n = self._plan_samples(estimate, theta, sharpness, alpha)
            if n is None:
                return False
            if self.measure(estimate, n, number, alpha, theta):
                return True
            sharpness *= math.sqrt(2)  # twice as many samples

    def measure(self, estimate: Estimate, n: int, number: int, alpha: float, theta: Array) -> bool:
        """T1-T3 for a state from n fresh samples of every action; whether they exclude θ."""
        moments, width = self.sample(estimate, n), self.width(estimate.place.stage)
        deltas = moments.deltas(estimate.phi)
        radii = tuple(self._radius(moments, action, width, alpha) for action in range(self.access.actions))
        measured = Measurement(number, estimate.place, estimate.phi, moments, radii)
        for action, (delta, radius) in enumerate(zip(deltas, radii, strict=True)):
            self.sol.inequality(estimate.place, delta, radius.value, measured, action)
        allowed = np.array([radius.value for radius in radii]) + self.excused
        scale = allowed.max() / allowed  # |l_a| <= ρ_a + (1 + γ) η for some a, as forms with one tolerance
        largest = max(radius.value for radius in radii)
        self.sol.disjunction(estimate.place, deltas * scale[:, None], largest, measured)
        self.add_range(estimate)
        estimate.moments.add(moments)
        return bool(np.all(deltas @ theta < -allowed))

    def width(self, stage: int) -> float:
        """The length of the range of R + γ <φ(S'), θ*> at a stage, 0 if it is not random."""
        return td_width(self.access, self.queries.discount, self.sol.eta, stage)

    def _plan_samples(self, estimate: Estimate, theta: Array, sharpness: float, alpha: float) -> int | None:
        """Samples per action that prove the violation, None if it is negligible.

        Samples drawn to estimate it join the table; rows of Sol do not use them.
        """
        moments, width = estimate.moments, self.width(estimate.place.stage)
        while True:
            size = estimate.violation(theta) - self.excused
            if size < self.least:
                return None
            if not width:
                return 1
            spread = max(0.0, *(float(theta @ moments.covariance(a) @ theta) for a in range(self.access.actions)))
            if math.sqrt(spread / moments.n) < size / 4:
                break
            moments.add(self.sample(estimate, moments.n))
        target = size / sharpness
        n = self._enough(estimate, target, alpha)
        if n <= CHEAP:
            return n
        variances = (self.sol.variance(moments.covariance(a), VARIANCE_NODES) for a in range(self.access.actions))
        variance = max(v.bound for v in variances)
        low, high = 1, n
        while high - low > 1:
            middle = (low + high) // 2
            enough = bernstein_radius(middle, variance, width, alpha / 2) <= target
            low, high = (low, middle) if enough else (middle, high)
        return high

    def _enough(self, estimate: Estimate, radius: float, alpha: float) -> int:
        """Samples with which Hoeffding's radius is at most ``radius``."""
        return max(1, math.ceil(self.width(estimate.place.stage) ** 2 * math.log(2 / alpha) / (2 * radius**2)))

    def _radius(self, moments: Moments, action: int, width: float, alpha: float) -> Radius:
        """The confidence radius of l_a(θ*), at confidence 1 - α."""
        n, rounding = moments.n, ROUNDING * (1 + self.sol.radius)
        if n <= CHEAP or not width:
            return Radius(hoeffding_radius(n, width, alpha) + rounding)
        plain = hoeffding_radius(n, width, alpha / 2)
        variance = self.sol.variance(moments.covariance(action), VARIANCE_NODES)
        sharp = bernstein_radius(n, variance.bound, width, alpha / 2)
        return Radius(sharp + rounding, variance) if sharp < plain else Radius(plain + rounding)


def td_width(access: Access, discount: float, eta: float, stage: int) -> float:
    """The length of the range of R + γ <φ(S'), θ*>; at most that of returns, since R + γ v*(S') is an expected one."""
    width = 0.0
    if not (access.deterministic_rewards and access.deterministic_transitions):  # R may depend on S'
        width += access.reward_range[1] - access.reward_range[0]
    if not access.deterministic_transitions:
        low, high = access.return_range(stage if access.horizon is None else stage + 1, discount)
        low, high = max(low - eta, -access.bound), min(high + eta, access.bound)
        width += discount * (high - low)
    low, high = access.return_range(stage, discount)
    return min(width, high - low + 2 * discount * eta)
