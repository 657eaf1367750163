"""Enrich a feature map, one column at a time, until a small problem's v* is realized.

The columns come from a pool of feature maps of the coordinates of states, so that the result is a function of
coordinates, too, and serves a larger problem of the same kind.  Each round looks at the best fit so far in sup norm,
its residual ρ and the weights λ that prove it best (:mod:`tensorplan.features.misfit`), and at what is left of each
column c across the columns chosen.  Two are tried, and the one with the smaller misfit stays:

* the largest |<ρ, c>| / ‖c‖: orthogonal matching pursuit,
* the largest |<λ, c>| / ‖c‖_∞: the rate at which the misfit falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tensorplan.core import Array, Problem, State
from tensorplan.core.errors import BadInput, Refused
from tensorplan.core.specs import number, whole
from tensorplan.diagnosis.clock import Clock
from tensorplan.diagnosis.guarantee import rounded_up
from tensorplan.diagnosis.inputs import SEARCHED, points_of
from tensorplan.diagnosis.targets import ENTRIES, listed
from tensorplan.features import FeatureMap, Frame, resolve
from tensorplan.features.maps import BaseMap
from tensorplan.features.misfit import Fitter, SupFit
from tensorplan.problems.catalog import as_problem

REALIZED = 1e-9
"""A misfit, relative to the largest value, that is rounding."""

NEW = 1e-8
"""What must be left of a column across the others, relative to its length, for it to be of use."""

NEAR = 1.01
"""The ratio to what all candidates together reach at which adding more of them stops."""

LIMIT = 100
"""Columns that are added at most, unless given."""


class Selected(BaseMap):
    """Some features of several maps side by side; those of p maps are divided by √p, so norms stay at most 1."""

    def __init__(self, parts: Sequence[tuple[FeatureMap, Sequence[int]]]) -> None:
        names = [m.name if len(columns) == m.dimension else f"{len(columns)} of {m.name}" for m, columns in parts]
        super().__init__(" + ".join(names), sum(len(columns) for _, columns in parts))
        self.parts = tuple((m, np.array(columns, dtype=np.intp)) for m, columns in parts)
        self._scale = 1 / math.sqrt(len(parts))

    def describe(self) -> tuple[str, ...]:
        """The names of the features chosen."""
        return tuple(m.names[column] for m, columns in self.parts for column in columns.tolist())

    def __call__(self, x: Array, stage: int) -> Array:
        """φ(x, stage), (d,)."""
        return self._scale * np.concatenate([np.asarray(m(x, stage))[columns] for m, columns in self.parts])

    def many(self, points: Array, stages: ArrayLike) -> Array:
        """φ for points (m, n) and stages (m,), or one stage for all, (m, d)."""
        return self._scale * np.concatenate([m.many(points, stages)[:, columns] for m, columns in self.parts], axis=1)


@dataclass(frozen=True)
class Addition:
    """A column that was added, and the misfit with it."""

    column: str
    candidate: str
    """The map it is from."""
    eta: float


@dataclass(frozen=True)
class Fit:
    """An enriched feature map, and how it came about."""

    features: FeatureMap = field(repr=False)
    realized: bool
    """Whether the misfit is at most what was asked for, up to rounding."""
    eta: float
    """The misfit: some θ with ‖θ‖ <= bound misses v* by no more, at all reachable states."""
    bound: float
    """The norm that this takes, rounded up."""
    base_eta: float
    """The misfit of the base alone."""
    pool_eta: float
    """What base and candidates would miss by all together, at least."""
    history: tuple[Addition, ...]
    sentence: str
    """How far it got."""

    def __str__(self) -> str:
        return self.sentence


def fit_features(
    problem: Problem | str,
    base: Any,
    candidates: Sequence[Any],
    *,
    eta: float = 0.0,
    limit: int = LIMIT,
    frame: Frame | None = None,
    point: Callable[[State], Array] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Fit:
    """The base features with as many columns of the candidates as it takes to miss v* by at most eta, or ``limit``.

    ``problem``: a small one whose states can be listed, or its name; its own features do not matter.  ``base`` and
    ``candidates``: specs such as ``"poly2"``, or whatever :func:`tensorplan.features.resolve` takes.  ``frame``: what
    they are maps of; give that of a large problem to use the result there.  ``point(state)``: where a state lies in it;
    both are the problem's own unless given.
    """
    eta, limit, seed = number("eta", eta, 0.0), whole("limit", limit, 0), whole("seed", seed, 0)
    problem = as_problem(problem, seed)
    if isinstance(candidates, str) or not isinstance(candidates, Sequence):
        raise BadInput(f"candidates must be a list of features, got {candidates!r}")
    if frame is None or point is None:
        own = points_of(problem)
        frame, point = frame or own.frame, point or own.point
    maps = [resolve(features, frame, seed=seed) for features in (base, *candidates)]
    search = _Search(problem, maps, point, progress)
    return search.run(eta, limit, progress)


class _Search:
    """The columns of all maps at all reachable states, and those chosen so far."""

    def __init__(
        self,
        problem: Problem,
        maps: Sequence[FeatureMap],
        point: Callable[[State], Array],
        progress: Callable[[str], None] | None,
    ) -> None:
        try:
            places, solution = listed(problem, SEARCHED, Clock(progress=progress))
        except Refused as refusal:
            raise BadInput(f"{refusal}; fit features to a small problem of the same kind") from None
        reached = [places[i] for i in np.flatnonzero(places.reach).tolist()]
        self.maps, self.size = maps, sum(m.dimension for m in maps)
        if len(reached) * self.size > ENTRIES:
            raise BadInput(f"{self.size:,} columns at {len(reached):,} places are too many: fit a smaller problem")
        stages = np.array([stage for stage, _ in reached])
        points = np.array([point(state) for _, state in reached])
        self.x = np.array([solution.value(state, stage) for stage, state in reached])
        self.columns = np.concatenate([m.many(points, stages) for m in maps], axis=1)
        self.owner = np.repeat(np.arange(len(maps)), [m.dimension for m in maps])
        self.chosen = list(range(maps[0].dimension))

    def run(self, eta: float, limit: int, progress: Callable[[str], None] | None) -> Fit:
        """Add columns until the goal is reached, or as much of it as can be."""
        pool = Fitter(self.columns, self.x).best()
        goal = eta + REALIZED * (float(np.abs(self.x).max()) or 1.0)
        enough = goal if pool.upper <= goal else max(goal, NEAR * pool.upper)
        fit = base = self._fit(self.chosen)
        history: list[Addition] = []
        while fit.upper > enough and len(history) < limit:
            tries = [(self._fit([*self.chosen, column]), column) for column in self._promising(fit)]
            if not tries:
                break
            fit, column = min(tries, key=lambda pair: pair[0].upper)
            self.chosen.append(column)
            history.append(Addition(self._name(column), self.maps[self.owner[column]].name, fit.upper))
            if progress is not None:
                progress(f"{len(history)} columns added, misfit {fit.upper:.4g}; the last: {history[-1].column}")
        return self._result(eta, goal, pool, base, fit, tuple(history))

    def _fit(self, columns: list[int]) -> SupFit:
        return Fitter(self.columns[:, columns], self.x).best()

    def _promising(self, fit: SupFit) -> list[int]:
        """The columns that help most by either measure; none where no combination of them helps."""
        span, sizes, _ = np.linalg.svd(self.columns[:, self.chosen], full_matrices=False)
        span = span[:, sizes > NEW * sizes.max(initial=0.0)]
        left = self.columns - span @ (span.T @ self.columns)
        left -= span @ (span.T @ left)
        lengths = np.linalg.norm(left, axis=0)
        fresh = np.flatnonzero(lengths > NEW * np.linalg.norm(self.columns, axis=0))
        if not len(fresh):
            return []
        left = left[:, fresh]
        weights = np.zeros(len(self.x))
        weights[fit.support] = fit.weights
        residual = self.x - self.columns[:, self.chosen] @ fit.theta
        matching = np.abs(residual @ left) / lengths[fresh]
        falling = np.abs(weights @ left) / np.abs(left).max(axis=0)
        if falling.max() <= NEW:  # λ is orthogonal to all of them: it proves that nothing made of them fits better
            return []
        return list(dict.fromkeys(int(fresh[np.argmax(score)]) for score in (matching, falling)))

    def _name(self, column: int) -> str:
        owner = int(self.owner[column])
        return self.maps[owner].names[column - int(np.searchsorted(self.owner, owner))]

    def _features(self) -> tuple[FeatureMap, list[int]]:
        """The chosen columns as a map, and their numbers in its order."""
        order = sorted(self.chosen)
        parts = []
        for owner, m in enumerate(self.maps):
            first = int(np.searchsorted(self.owner, owner))
            mine = [column - first for column in order if self.owner[column] == owner]
            if mine:
                parts.append((m, mine))
        return (parts[0][0] if len(parts) == 1 else Selected(parts)), order

    def _result(
        self, eta: float, goal: float, pool: SupFit, base: SupFit, fit: SupFit, history: tuple[Addition, ...]
    ) -> Fit:
        features, order = self._features()
        parts = len({int(self.owner[column]) for column in order})
        shortest = Fitter(self.columns[:, order] / math.sqrt(parts), self.x).shortest(max(eta, fit.upper))
        realized = fit.upper <= goal
        said = f"{len(history)} of {self.size - self.maps[0].dimension} columns added to {self.maps[0].name}: misfit "
        said += f"{base.upper:.4g} -> {fit.upper:.4g}"
        if not realized and pool.lower > goal:
            said += f"; all candidates together miss by {pool.lower:.4g} at least, more than eta={eta:g}"
        elif not realized:
            said += f"; {'the limit is reached' if len(history) else 'no column was added'} before eta={eta:g}"
        return Fit(
            features=features,
            realized=realized,
            eta=shortest.residual,
            bound=rounded_up(shortest.upper) or 1.0,
            base_eta=base.upper,
            pool_eta=pool.lower,
            history=history,
            sentence=said,
        )
