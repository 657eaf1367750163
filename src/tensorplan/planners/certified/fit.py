"""The fit: the parameter that Bellman's optimality equation holds for best, over all states of the table.

An estimate, and nothing is proved by it: it tells which policy to evaluate, and what the design of measurements aims at
(:mod:`tensorplan.planners.certified.design`).  Least squares over max_a of the estimated l_a(θ) would be biased three
times over.  The maximum of noisy estimates is too large; noise in the features of next states pulls θ towards zero; and
where a few samples happen to be equal, they look exact and get too much weight.  So the samples of each state are kept
in two halves.  One half chooses the action, is the instrument and gives the weight, the other half the equation:

    Σ_s w_1(s) z_1(s) l_{a(s)}(θ; s)_2 = 0,        a(s) = argmax_a l_a(θ; s)_1,

with z the gradient of l, and both in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array
from tensorplan.planners.certified.table import Estimate
from tensorplan.planners.evidence.approx_td import WIDE, Moments

MOST = 4_000
"""States that a view holds: those with most samples."""

ENTRIES = 50_000_000
"""Numbers that a view may hold, which bounds the memory in high dimension."""

WIDEST = 1_000
"""The highest dimension in which a fit is improved: it solves linear equations."""

ROUNDS, SETTLED = 16, 1e-6
"""The most rounds of a fit, and the change of θ relative to B that ends it earlier."""

WORK = 1e9
"""About the multiplications of one fit: in many dimensions it ends after fewer rounds, two at least."""

DAMPED = 8
"""Rounds after which steps are halved, since choices of actions may go back and forth."""

OUTLYING = 3.0
"""Standard errors from which on an equation counts with less weight."""

POOLED, HALF_POOLED = 2.0, 4.0
"""How many samples the average variance of a stage counts for, beside a state's own; and beside those of one half."""

SMALL = 1e-12
"""The least variance, relative to (1 + B)²: values are floats."""


@dataclass(frozen=True, eq=False)
class Subsample:
    """Samples of the states of a view as arrays: all of them, or one half."""

    counts: Array
    """(m, A)"""
    deltas: Array
    """The estimates Δ_a, (m, A, d+1); those of a pair without samples have no meaning."""
    means: Array
    """Of x, (m, A, d+1)."""
    forms: Callable[[Array], Array]
    """Σ <x, v>² for a vector v, (m, A)."""

    @staticmethod
    def of(counts: Array, sums: Array, forms: Callable[[Array], Array], phis: Array) -> Subsample:
        """From Σ x and Σ <x, v>²."""
        means = sums / np.maximum(counts, 1.0)[:, :, None]
        deltas = means.copy()
        deltas[:, :, 1:] -= phis[:, None, :]
        return Subsample(counts, deltas, means, forms)

    def squares(self, one: Array) -> Array:
        """Σ (l - mean)² of l_a(θ), (m, A)."""
        return np.asarray(np.maximum(self.forms(one) - self.counts * (self.means @ one) ** 2, 0.0))


@dataclass(frozen=True, eq=False)
class TableView:
    """The table as arrays: states that have samples of every action."""

    estimates: list[Estimate]
    radius: float
    phis: Array
    """(m, d)"""
    widths: Array
    """(m,)"""
    stages: NDArray[np.intp]
    """(m,)"""
    all: Subsample
    halves: tuple[Subsample, Subsample]

    @staticmethod
    def of(estimates: Iterable[Estimate], radius: float) -> TableView:
        """The view of some states, at least one of which has samples of every action."""
        known = [estimate for estimate in estimates if estimate.known]
        most = max(1, min(MOST, ENTRIES // (8 * known[0].moments.sums.size)))
        if len(known) > most:
            order = np.argsort([-int(e.moments.counts.sum()) for e in known], kind="stable")
            known = [known[i] for i in sorted(order[:most].tolist())]
        phis = np.array([e.phi for e in known])
        (counts, sums, forms), (first, first_sums, first_forms) = (
            _stacked([getattr(e, name) for e in known]) for name in ("moments", "first")
        )
        return TableView(
            known,
            radius,
            phis,
            np.array([e.width for e in known]),
            np.array([e.place.stage for e in known], dtype=np.intp),
            Subsample.of(counts, sums, forms, phis),
            (
                Subsample.of(first, first_sums, first_forms, phis),
                Subsample.of(counts - first, sums - first_sums, lambda v: forms(v) - first_forms(v), phis),
            ),
        )

    @property
    def counts(self) -> Array:
        """Samples of each pair, (m, A)."""
        return self.all.counts

    @property
    def deltas(self) -> Array:
        """The estimates Δ_a, (m, A, d+1)."""
        return self.all.deltas

    @cached_property
    def numbers(self) -> dict[Estimate, int]:
        """Where each state is."""
        return {estimate: i for i, estimate in enumerate(self.estimates)}

    def pooled(self, one: Array) -> Array:
        """The average variance of l_a(θ) at the stage of each state, (m, 1)."""
        own = (self.all.squares(one) / (self.counts - 1)).mean(axis=1)
        average = np.bincount(self.stages, weights=own) / np.maximum(np.bincount(self.stages), 1)
        return np.asarray(average[self.stages][:, None] + SMALL * (1 + self.radius) ** 2)

    def variances(self, one: Array) -> Array:
        """The variances of l_a(θ), shrunk towards the average of the stage, (m, A)."""
        shrunk = self.all.squares(one) + POOLED * self.pooled(one)
        return np.asarray(shrunk / (self.counts - 1 + POOLED))


def _stacked(moments: list[Moments]) -> tuple[Array, Array, Callable[[Array], Array]]:
    """Counts, Σ x and Σ <x, v>² of many states."""
    counts = np.array([m.counts for m in moments], dtype=np.float64)
    sums = np.array([m.sums for m in moments])
    if sums.size * sums.shape[-1] <= ENTRIES // 3 and sums.shape[-1] <= WIDE:
        squares = np.array([[part.matrix() for part in m.squares] for m in moments])
        return counts, sums, lambda v: np.einsum("mai,i->ma", squares @ v, v)
    factors = [part.factor() for m in moments for part in m.squares]
    starts, rows = np.cumsum([0, *map(len, factors[:-1])]), np.concatenate(factors)
    return counts, sums, lambda v: np.add.reduceat((rows @ v) ** 2, starts).reshape(counts.shape)


@dataclass(frozen=True, eq=False)
class FittedTheta:
    """A fitted parameter, and what the table says of it."""

    theta: Array
    """[1, θ], (d+1,)."""
    values: Array
    """l_a(θ), (m, A)."""
    variances: Array
    """Of one sample of l_a(θ), (m, A)."""
    loss: float
    """The mean square of max_a l_a(θ) in standard errors, with large ones cut: about 1 or less if the features fit."""


def fit(view: TableView, starts: Iterable[Array]) -> FittedTheta:
    """The best of the fits that some parameters [1, θ] lead to."""
    fits = [_judge(view, _iterate(view, start)) for start in starts]
    return min(fits, key=lambda found: found.loss)


def _judge(view: TableView, one: Array) -> FittedTheta:
    values, variances = view.deltas @ one, view.variances(one)
    best = np.arange(len(values)), values.argmax(axis=1)
    squares = values[best] ** 2 / (variances[best] / view.counts[best])
    return FittedTheta(one, values, variances, float(np.minimum(squares, OUTLYING**2).mean()))


def _iterate(view: TableView, one: Array) -> Array:
    """θ to which the iteration of choosing actions and solving the equations leads."""
    if len(one) > WIDEST:
        return one
    ridge, (first, second) = np.eye(len(one) - 1) / view.radius**2, view.halves
    work = (3 * view.counts.size + len(one)) * len(one) ** 2
    for rounds in range(max(2, min(ROUNDS, int(WORK / work)))):
        pooled = view.pooled(one)
        parts = [_equations(chooser, other, one, pooled) for chooser, other in ((first, second), (second, first))]
        theta = _solved(ridge + parts[0][0] + parts[1][0], parts[0][1] + parts[1][1])
        theta *= min(1.0, view.radius / max(float(np.linalg.norm(theta)), view.radius))
        moved = theta - one[1:]
        one = np.concatenate([[1.0], one[1:] + (moved if rounds < DAMPED else moved / 2)])
        if np.linalg.norm(moved) <= SETTLED * view.radius:
            break
    return one


def _solved(matrix: Array, right: Array) -> Array:
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:  # the ridge is too small for it
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])


def _equations(chooser: Subsample, other: Subsample, one: Array, pooled: Array) -> tuple[Array, Array]:
    """What one half of the samples adds to the normal equations, with the other half as instrument."""
    best = np.arange(len(pooled)), (chooser.deltas @ one).argmax(axis=1)
    squares, counts = chooser.squares(one)[best], chooser.counts[best]
    variances = (squares + HALF_POOLED * pooled[:, 0]) / (np.maximum(counts - 1, 0.0) + HALF_POOLED)
    weights = other.counts[best] * (counts > 0) / variances
    instrument, equation = chooser.deltas[best], other.deltas[best]
    errors = np.abs(equation @ one) * np.sqrt(weights)
    weights = weights * (OUTLYING / np.maximum(errors, OUTLYING))
    weighted = instrument[:, 1:] * weights[:, None]
    return weighted.T @ equation[:, 1:], -weighted.T @ equation[:, 0]
