"""Pathwise optimisation: the θ with the smallest bound in hindsight (Desai, Farias and Moallemi 2012).

With V = <φ, θ> the sum along a path is affine in θ,

    V(s0) + Σ_t γ^t l̂ = <φ(s0), θ> + Σ_t γ^t (mean R + <γ mean φ(S') - φ(s_t), θ>),

so its maximum over paths is convex, and so is its mean over scenarios: the tightest bound that features can give is a
convex program, however wrong they are.  It is solved by cutting planes, one for the best path of each scenario and
iterate, within a trust region.  The scenarios are used for fitting only: a bound must come from others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorplan.access.batches import ENDED, BatchAccess, Ids
from tensorplan.access.noise import Purpose
from tensorplan.core import Array, State
from tensorplan.core.errors import BadInput, BudgetSpent
from tensorplan.hindsight.scenario import Rules

SAMPLES = 16
"""Samples per temporal difference."""

SCENARIOS = 200
"""Most scenarios to fit on."""

ITERATIONS, CONVERGED = 100, 1e-4
"""Most steps, and the improvement, relative to the range of returns, below which they end."""

RANGED = 1_000
"""Most rows that keep values within the range of returns."""

SERIOUS = 0.1
"""The share of the predicted improvement from which on a step is taken."""


class Stretch(NamedTuple):
    """One time of a scenario: sums along paths are affine in θ."""

    constants: Array
    """γ^t times the mean reward, (n, A)."""
    slopes: Array
    """γ^t (γ mean φ(S') - φ(s)), (n, A, d)."""
    following: NDArray[np.intp]
    """Positions in the next stretch, or -1 at the end, (n, A)."""


class Ranged(NamedTuple):
    """States of one stage, where low <= <φ, θ> <= high is asked for: V will be clipped to that."""

    features: Array
    """(n, d)."""
    low: float
    high: float


class Cut(NamedTuple):
    """A lower bound on the value of a scenario that is exact at one θ: constant + <slope, θ>."""

    constant: float
    slope: Array


class PathTree:
    """All paths of one scenario."""

    def __init__(self, access: BatchAccess, start: State, rules: Rules, scenario: int, samples: int) -> None:
        self.access, self.problem = access, access.problem
        self.first = self._phi(np.array([access.number(start)]), 0)[0]
        self.stretches: list[Stretch] = []
        self.ranged: list[Ranged] = []
        ids, stage = np.array([access.number(start)]), 0
        for time in range(rules.times):
            if not len(ids):
                break
            columns = access.columns(Purpose.FIT, scenario, (1 << 50) + (time << 32), samples + 1, samples)
            ids = self._stretch(ids, time, stage, *access.steps(ids, stage, columns), rules.width)
            stage = self.problem.next_stage(stage)
        high = self.problem.return_range(stage if self.problem.horizon is None else 0)[1]
        self.last = self.problem.discount ** len(self.stretches) * np.column_stack(
            [np.full(len(ids), high), -self._phi(ids, stage)]
        )
        """Paths that were cut, as constants and slopes."""

    def _stretch(self, ids: Ids, time: int, stage: int, rewards: Array, following: Ids, width: int) -> Ids:
        """Record one time; the states of the next one."""
        gamma, ahead = self.problem.discount, self.problem.next_stage(stage)
        if ahead == self.problem.horizon:
            following = np.full(following.shape, ENDED)
        means = self._phi(following[..., 1:].ravel(), ahead).reshape(*following[..., 1:].shape, -1).mean(axis=2)
        own = self._phi(ids, stage)
        self.ranged.append(Ranged(own, *self.problem.return_range(stage)))
        slopes = gamma**time * (gamma * means - own[:, None])
        reached: Ids = np.unique(following[..., 0])
        reached = reached[reached != ENDED][:width]
        places = np.minimum(np.searchsorted(reached, following[..., 0]), max(len(reached) - 1, 0))
        found = reached[places] == following[..., 0] if len(reached) else np.zeros(places.shape, dtype=bool)
        constants = gamma**time * rewards[..., 1:].mean(axis=2)
        self.stretches.append(Stretch(constants, slopes, np.where(found, places, -1)))
        return reached

    def _phi(self, ids: Ids, stage: int) -> Array:
        """φ of numbered states, zero at END, (n, d)."""
        distinct, inverse = np.unique(ids, return_inverse=True)
        rows = [
            np.zeros(self.problem.dimension) if n == ENDED else self.problem.state_features(self.access.state(n), stage)
            for n in distinct.tolist()
        ]
        return np.array(rows).reshape(len(distinct), self.problem.dimension)[inverse.reshape(-1)]

    def best(self, theta: Array) -> Cut:
        """The best path for θ, as a cut."""
        ahead = self.last[:, 0] + self.last[:, 1:] @ theta
        choices = list[NDArray[np.intp]]()
        for stretch in reversed(self.stretches):
            sums = stretch.constants + stretch.slopes @ theta
            sums += np.where(stretch.following < 0, 0.0, np.append(ahead, 0.0)[stretch.following])
            choices.append(sums.argmax(axis=1))
            ahead = sums.max(axis=1)
        return self._along(choices[::-1])

    def _along(self, choices: list[NDArray[np.intp]]) -> Cut:
        constant, slope, at = 0.0, self.first.copy(), 0
        for stretch, chosen in zip(self.stretches, choices, strict=True):
            action = chosen[at]
            constant += float(stretch.constants[at, action])
            slope += stretch.slopes[at, action]
            at = int(stretch.following[at, action])
            if at < 0:
                return Cut(constant, slope)
        return Cut(constant + float(self.last[at, 0]), slope + self.last[at, 1:])


def pathwise_theta(access: BatchAccess, start: Callable[[int], State], rules: Rules, budget: int) -> Array:
    """The θ with the smallest mean bound over training scenarios, with about so many queries."""
    if access.problem.phi_v is None:
        raise BadInput(f"problem {access.problem.name!r} has no phi_v, which pathwise optimisation fits")
    trees, end = list[PathTree](), access.meter.spent + budget
    while len(trees) < SCENARIOS and (not trees or access.meter.spent < end):
        try:
            trees.append(PathTree(access, start(len(trees)), rules, len(trees), SAMPLES))
        except BudgetSpent:
            break
    low, high = access.problem.return_range()
    return minimise(trees, access.problem.dimension, access.problem.bound, CONVERGED * (high - low))


def minimise(trees: list[PathTree], dimension: int, bound: float, tolerance: float) -> Array:
    """min over ‖θ‖_∞ <= bound of the mean over the trees of their best path, by cutting planes."""
    centre, radius, ranged = np.zeros(dimension), bound / 2, _ranged(trees, dimension)
    cuts = [[tree.best(centre)] for tree in trees]
    value = _mean(cuts, centre, -1)
    for _ in range(ITERATIONS if trees else 0):
        theta, promised = _master(cuts, ranged, centre, radius, bound)
        if value - promised <= tolerance and radius >= bound / 2:
            break
        for tree, own in zip(trees, cuts, strict=True):
            own.append(tree.best(theta))
        found = _mean(cuts, theta, -1)
        if value - found >= SERIOUS * (value - promised):
            centre, value, radius = theta, found, min(2 * radius, bound)
        elif value - promised <= tolerance:
            radius = min(2 * radius, bound)
        else:
            radius /= 2
    return centre


def _mean(cuts: list[list[Cut]], theta: Array, which: int) -> float:
    return float(np.mean([own[which].constant + own[which].slope @ theta for own in cuts])) if cuts else 0.0


def _ranged(trees: list[PathTree], dimension: int) -> tuple[Array, Array]:
    """The ranges of values at distinct states as rows, G θ <= g; at some of them if there are many."""
    rows = [
        np.column_stack([sign * part.features, np.full(len(part.features), sign * end)])
        for tree in trees
        for part in tree.ranged
        for sign, end in ((1.0, part.high), (-1.0, part.low))
    ]
    distinct = np.unique(np.concatenate([np.zeros((0, dimension + 1)), *rows]), axis=0)
    if len(distinct) > RANGED:
        distinct = distinct[np.random.default_rng(0).permutation(len(distinct))[:RANGED]]
    return distinct[:, :-1], distinct[:, -1]


def _master(
    cuts: list[list[Cut]], ranged: tuple[Array, Array], centre: Array, radius: float, bound: float
) -> tuple[Array, float]:
    """The θ near the centre with the smallest value of the cuts, and that value."""
    from scipy import sparse
    from scipy.optimize import linprog

    count, dimension = len(cuts), len(centre)
    owner = np.repeat(np.arange(count), [len(own) for own in cuts])
    flat = [cut for own in cuts for cut in own]
    slopes = np.array([cut.slope for cut in flat])
    values = sparse.csr_array((np.ones(len(flat)), (np.arange(len(flat)), owner)), shape=(len(flat), count))
    result: Any = linprog(
        np.concatenate([np.zeros(dimension), np.full(count, 1 / count)]),
        A_ub=sparse.vstack(
            [
                sparse.hstack([sparse.csr_array(slopes), -values]),
                sparse.hstack([sparse.csr_array(ranged[0]), sparse.csr_array((len(ranged[1]), count))]),
            ],
            format="csr",
        ),
        b_ub=np.concatenate([-np.array([cut.constant for cut in flat]), ranged[1]]),
        bounds=[(max(c - radius, -bound), min(c + radius, bound)) for c in centre.tolist()] + [(None, None)] * count,
        method="highs",
    )
    if result.status != 0:
        return centre, float("-inf")
    return np.asarray(result.x[:dimension], dtype=np.float64), float(result.fun)
