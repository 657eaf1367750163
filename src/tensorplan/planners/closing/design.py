"""Which measurements, and how accurate: the design of an experiment that bounds v*(s0) with few samples.

Everything here is an estimate and may be wrong; bounds are proved elsewhere, from samples drawn afterwards.

*The fit* is the parameter that the estimated temporal differences of some states agree with best: the least κ such that
T1-T3 hold with κ standard errors.  *The model* is what the problem would look like if that parameter were θ*: the same
estimates, moved so that they agree with it exactly.  In the model an upper bound on v*(s0) can be computed for any
accuracy r, that is, if temporal differences were known up to r standard deviations (and a term for rare values, which
shrinks with r²).  The largest r with a bound below a target is what has to be measured.

*The weights.*  In each case the optimum of the relaxation has multipliers w: the bound is a sum of measured temporal
differences with these weights.  If the sum is measured as one, with n samples in all and a part proportional to |w| σ
for each of them, its standard error is Σ |w| σ / sqrt(n): so 2 ln(1/α) / r² samples are enough, for all terms together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tensorplan.core import Array
from tensorplan.optimism import Program, Search, Solution

NODES = 2_000
"""Node limit of a search in the model: the design is an estimate anyway."""

CERTAIN = 1e-4
"""The accuracy that stands for exact knowledge."""

COARSEST = 4.0
"""The largest accuracy that is considered, in standard deviations."""

FINE = 1.1
"""Accuracies are found up to this factor."""

RARE = 0.55
"""Rare values cost a radius of about W ln(1/α) / (0.9 n) = 0.55 W r², since n = 2 ln(1/α) / r²."""

GAP = 1e-4
"""The relative gap at which a search in the model ends."""

TINY = 1e-9
"""The smallest radius, relative to 1 + B: estimates are floats."""

LARGEST_FIT = 64.0
"""The most standard errors by which a fit may miss an estimate."""

ROWS = tuple[Array, Array]
"""Normals (m, d) and right-hand sides (m,)."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """The temporal differences of m states, as estimated."""

    deltas: Array
    """Δ_a, (m, A, d+1)."""
    deviations: Array
    """The standard deviations of one sample, (m, A)."""
    errors: Array
    """The standard errors of the estimates, (m, A)."""
    widths: Array
    """W, (m,)."""


class PlannedCase(NamedTuple):
    """One leaf of the search: optimal actions of some states, by their index, and the weights that prove its bound."""

    choices: Mapping[int, int]
    weights: Mapping[tuple[int, int], float]
    """By state and action: positive for T1, negative for T3."""
    accuracy: float
    """The largest r with a bound below the target in this case."""


class Model:
    """T1-T3 of some states as if a fitted parameter were θ*."""

    def __init__(
        self,
        objective: Array,
        radius: float,
        excused: float,
        estimates: Estimates,
        ranges: Callable[[], ROWS],
        enforce: Callable[[Array], bool],
    ) -> None:
        """``ranges()`` are the rows of T2; ``enforce(θ)`` adds those that θ violates, and says whether there were any."""
        self.objective, self.radius, self.excused = objective, radius, excused
        self.estimates, self.ranges, self.enforce = estimates, ranges, enforce
        self.deltas = estimates.deltas
        self.searched = 0
        """Nodes of all searches so far."""

    # ------------------------------------------------------------------ the fit

    def fit(self) -> tuple[Array, float] | None:
        """The parameter that agrees best with the estimates, and by how many standard errors it misses one at most."""
        theta, low, high, kappa = None, 0.0, math.inf, 1.0
        while kappa <= LARGEST_FIT and not (high < math.inf and (high - low < 0.1 * high or high < 0.1)):
            found = self._feasible(kappa * self.estimates.errors)
            if found is None:
                low = kappa
            else:
                theta, high = found, kappa
            kappa = 2 * low if high == math.inf else (low + high) / 2
        return None if theta is None else (theta, high)

    def _feasible(self, radii: Array) -> Array | None:
        while True:
            found = self._search(self._program(radii, np.zeros_like(self.objective))[0])
            if found.theta is None or not self.enforce(found.theta):
                return found.theta

    def agree_with(self, theta: Array) -> None:
        """Move the estimates so that T1-T3 hold for θ exactly: the best action is optimal, no other is better."""
        self.deltas = self.estimates.deltas.copy()
        values = self.deltas @ np.concatenate([[1.0], theta])
        best = values.argmax(axis=1)
        excess = np.maximum(values, 0.0)
        rows = np.arange(len(values))
        excess[rows, best] = values[rows, best]
        self.deltas[:, :, 0] -= excess

    # ------------------------------------------------------------------ bounds in the model

    def bound(self, accuracy: float, certificate: bool = False) -> Solution:
        """The optimistic step in the model, for a given accuracy."""
        while True:
            found = self._search(self._program(self._radii(accuracy), self.objective)[0], certificate)
            if found.theta is None or not self.enforce(found.theta):
                return found

    def accuracy(self, target: float) -> float | None:
        """The largest accuracy with a bound of at most ``target``; None if there is none."""
        if self.bound(CERTAIN).bound > target:
            return None
        return _largest(lambda r: self.bound(r).bound <= target, CERTAIN, COARSEST)

    def cases(self, accuracy: float, target: float) -> list[PlannedCase]:
        """The leaves of the search, each with the weights that it needs for the target."""
        tree = self.bound(accuracy, certificate=True).certificate
        assert tree is not None
        planned = []
        for leaf in np.flatnonzero(~np.isnan(tree.bound)).tolist():
            choices: dict[int, int] = {}
            while leaf > 0:
                choices[int(tree.form[leaf])] = int(tree.choice[leaf])
                leaf = int(tree.parent[leaf])
            planned.append(self._planned(choices, accuracy, target))
        return planned

    def _planned(self, choices: Mapping[int, int], accuracy: float, target: float) -> PlannedCase:
        def enough(r: float) -> bool:
            return self._search(self._program(self._radii(r), self.objective, choices)[0]).bound <= target

        best = _largest(enough, accuracy, COARSEST) if enough(accuracy) else accuracy
        program, pairs = self._program(self._radii(0.97 * best), self.objective, choices)
        leaf = self._search(program, certificate=True).certificate
        assert leaf is not None
        weights: dict[tuple[int, int], float] = {}
        for j in range(int(leaf.start[0]), int(leaf.start[1])):
            if int(leaf.index[j]) < len(pairs):
                state, action, sign = pairs[int(leaf.index[j])]
                weights[state, action] = weights.get((state, action), 0.0) + sign * float(leaf.value[j])
        large = max(map(abs, weights.values()), default=0.0)
        return PlannedCase(choices, {pair: w for pair, w in weights.items() if abs(w) > 1e-6 * large}, best)

    def radius_of(self, pair: tuple[int, int], accuracy: float) -> float:
        """The radius of a temporal difference measured with that accuracy."""
        return float(self._radii(accuracy)[pair])

    def _radii(self, accuracy: float) -> Array:
        radii = accuracy * self.estimates.deviations + RARE * accuracy**2 * self.estimates.widths[:, None]
        return np.asarray(radii)

    def _program(
        self, radii: Array, objective: Array, choices: Mapping[int, int] | None = None
    ) -> tuple[Program, list[tuple[int, int, float]]]:
        """T1-T3 with these radii, and what the first rows are; with choices in place of the disjunctions, if given."""
        m, actions, width = self.deltas.shape
        allowed = np.maximum(radii, TINY * (1 + self.radius)) + self.excused
        normals, ends = self.deltas[:, :, 1:].reshape(-1, width - 1), (allowed - self.deltas[:, :, 0]).ravel()
        pairs = [(i, a, 1.0) for i in range(m) for a in range(actions)]
        chosen = list(choices.items()) if choices else []
        below = np.array([-self.deltas[i, a, 1:] for i, a in chosen]).reshape(-1, width - 1)
        below_ends = np.array([allowed[i, a] + self.deltas[i, a, 0] for i, a in chosen])
        pairs += [(i, a, -1.0) for i, a in chosen]
        values, value_ends = self.ranges()
        rows = np.concatenate([normals, below, values]), np.concatenate([ends, below_ends, value_ends])
        if choices is not None or not m:
            return Program(objective, self.radius, *rows), pairs
        largest = allowed.max(axis=1)
        forms = self.deltas * (largest[:, None] / allowed)[:, :, None]
        return Program(objective, self.radius, *rows, forms, largest), pairs

    def _search(self, program: Program, certificate: bool = False) -> Solution:
        found = Search(program).solve(gap=GAP, node_limit=NODES, certificate=certificate)
        self.searched += found.nodes
        return found


def _largest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """About the largest number for which a monotone condition holds; it holds for ``low``."""
    if holds(high):
        return high
    while high / low > FINE:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
