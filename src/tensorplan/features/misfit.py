"""The distance of linear features from given values in sup norm, with bounds that can be verified independently.

For features Φ (n, d) and values x (n,), by linear and least-distance programs with row generation:

    η    = min_θ max_i |x_i - <φ_i, θ>|                    (`Fitter.best`)
    η_R  = the same over ‖θ‖ <= R                          (`Fitter.within`)
    N(η) = the least ‖θ‖ with max_i |x_i - <φ_i, θ>| <= η  (`Fitter.shortest`)

Upper bounds are the residual and the norm of a given θ.  Lower bounds follow by weak duality: for weights λ with
‖λ‖_1 = 1 every θ satisfies

    max_i |x_i - <φ_i, θ>| >= <λ, x - Φθ> >= <λ, x> - ‖Φᵀλ‖ ‖θ‖,

so η_R >= <λ, x> - ‖Φᵀλ‖ R and N(η) >= (<λ, x> - η) / ‖Φᵀλ‖.  Both bounds are computed from θ and λ alone, with
rounding accounted for, and do not depend on the accuracy of the solvers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array

UNIT = 2.3e-16
"""Twice the unit roundoff."""

RANK = 1e-11
"""Singular values of the features below this, relative to the largest, are treated as zero."""

CLOSE = 1e-10
"""The gap between the bounds, relative to the largest |x|, at which a program counts as solved."""

SLACK = 1e-10
"""How much the residual of a θ of small norm may exceed the least one, relative to the largest |x|."""

FREE = 1e-9
"""The relative loss of a lower bound that is accepted for extending it to a larger radius."""

CANDIDATES = 2_000
"""Most violated rows considered when rows are added, which bounds the time of the QR decomposition."""

ROUNDS = 100
"""Most rounds of row generation in one program; about ten suffice."""

LEVELS = 30
"""Most least-distance programs for one radius; about ten suffice."""

DRIFT = 1e-6
"""A refinement that changes a solution by more than this, relative to the largest |x|, has lost precision."""

POLISH = 1e-8
"""Singular values of the features on the support of λ below this, relative to the largest, are treated as zero."""

SLICE = 0.5
"""Seconds of the simplex method after which it is asked whether to stop."""

BLOCK = 2e9
"""Rows times d^2 in one QR decomposition, for about a second; of more rows it is made block by block."""

HIGHS_OPTIONS: dict[str, bool | int | float | str] = {
    "output_flag": False,
    "threads": 1,
    "presolve": "off",
    "solver": "simplex",
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}
"""Simplex with warm starts, at the tightest tolerances that HiGHS allows."""

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class SupFit:
    """A bracket on η: ``theta`` has the residual ``upper``, and all θ of norm <= ``radius`` have at least ``lower``."""

    lower: float
    upper: float
    theta: Array
    """A θ with residual ``upper``, (d,)."""
    radius: float
    support: Indices
    """The rows with λ != 0, which no θ fits better."""
    weights: Array
    """λ on ``support``."""


@dataclass(frozen=True, eq=False)
class Shortest:
    """A bracket on N: ``theta`` has ``residual``, and no θ of a norm below ``lower`` has one as small."""

    lower: float
    upper: float
    """The norm of ``theta``."""
    theta: Array
    residual: float


# ------------------------------------------------------------------------------------------------- verifiable bounds


def residual(phi: Array, x: Array, theta: Array) -> float:
    """max_i |x_i - <φ_i, θ>|, rounded up."""
    if not len(x):
        return 0.0
    rounding = (len(theta) + 2) * UNIT * (np.abs(x) + np.abs(phi) @ np.abs(theta))
    return float(np.max(np.abs(x - phi @ theta) + rounding))


def length(theta: Array) -> float:
    """‖θ‖, rounded up."""
    return float(np.linalg.norm(theta)) * (1 + (len(theta) + 3) * UNIT)


def misfit_floor(phi: Array, x: Array, weights: Array, radius: float) -> float:
    """A lower bound on max_i |x_i - <φ_i, θ>| over all θ with ‖θ‖ <= radius, from any weights (n,)."""
    gain, slope, total = _dual(phi, x, weights)
    away = slope * radius * (1 + UNIT) if slope else 0.0  # the radius may be infinite
    return max(0.0, (gain - away) / total * (1 - 4 * UNIT)) if total else 0.0


def norm_floor(phi: Array, x: Array, weights: Array, eta: float) -> float:
    """A lower bound on ‖θ‖ over the θ with max_i |x_i - <φ_i, θ>| <= eta, from any weights (n,); inf if none exists."""
    gain, slope, total = _dual(phi, x, weights)
    above = gain - eta * total * (1 + 4 * UNIT)
    return 0.0 if above <= 0 else above / slope * (1 - 4 * UNIT) if slope else math.inf


def _dual(phi: Array, x: Array, weights: Array) -> tuple[float, float, float]:
    """<λ, x> rounded down, ‖Φᵀλ‖ rounded up, and ‖λ‖_1 rounded up."""
    products = weights * x
    gain = math.fsum(products)
    gain -= UNIT * (math.fsum(np.abs(products)) + abs(gain))
    parts = weights[:, None] * phi
    sums = np.array([math.fsum(column) for column in parts.T])
    slope = length(np.abs(sums) + UNIT * (np.abs(parts).sum(axis=0) * (1 + len(x) * UNIT) + np.abs(sums)))
    return gain, slope, math.fsum(np.abs(weights)) * (1 + UNIT)


# ------------------------------------------------------------------------------------------------------ the programs


def _never() -> bool:
    return False


class Fitter:
    """The three programs for features (n, d) and values (n,).

    ``stop()`` is called about once a second, and a true result ends the search for better bounds, as Ctrl-C does, which
    is remembered in ``interrupted``; the bounds found until then are valid.
    """

    def __init__(self, phi: Array, x: Array, stop: Callable[[], bool] = _never) -> None:
        self.phi, self.x = phi, x
        self._asked = stop
        self.interrupted = self.stopped = False
        """Whether Ctrl-C, or ``stop`` or Ctrl-C, ended a search."""
        self.scale = float(np.abs(x).max(initial=0.0)) or 1.0
        """The largest |x|; the programs use x / scale."""
        n = max(len(x), 1)
        self.triangle = _triangle(phi, stop)
        """R of the QR decomposition of the features."""
        _, sigma, right = np.linalg.svd(self.triangle, full_matrices=False)
        keep = sigma > RANK * sigma.max(initial=0.0)
        self.rank = int(keep.sum())
        self._back = right[keep].T  # (d, r), orthonormal: θ = back (z / spans)
        self._spans = sigma[keep] / math.sqrt(n)
        self._basis = phi @ (self._back / self._spans)  # (n, r): orthogonal columns of length sqrt(n)
        self._y = x / self.scale
        self._rows: list[tuple[int, int]] = []  # (row, sign) of the least-distance programs, kept between them
        self._best: SupFit | None = None

    def _stop(self) -> bool:
        self.stopped = self.stopped or self._asked()
        return self.stopped

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Where Ctrl-C ends the search and keeps the bounds."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = self.stopped = True

    @property
    def slack(self) -> float:
        """How much the residual of a θ of small norm may exceed the least one."""
        return SLACK * self.scale

    # ------------------------------------------------------------------ η

    def best(self, radius: float = 1.0) -> SupFit:
        """The best fit over all θ; the lower bound holds for norms up to ``radius``, and beyond if that costs nothing.

        Typically that is up to 10^6 times the values: with a larger θ, features in double precision fit anything.
        """
        if self._best is None:
            self._best = self._chebyshev()
        fit = self._best
        if not len(fit.support):
            return fit
        phi, x = self.phi[fit.support], self.x[fit.support]
        free = norm_floor(phi, x, fit.weights, (1 - FREE) * misfit_floor(phi, x, fit.weights, 0.0))
        radius = max(radius, length(fit.theta), free)
        lower = min(misfit_floor(phi, x, fit.weights, radius), fit.upper)
        return SupFit(lower, fit.upper, fit.theta, radius, fit.support, fit.weights)

    def _chebyshev(self) -> SupFit:
        """min t with |y_i - <b_i, z>| <= t, with violated rows added until there are none."""
        z = self._least_squares()
        theta = self._theta(z)
        upper = residual(self.phi, self.x, theta)
        fit = SupFit(0.0, upper, theta, math.inf, np.zeros(0, dtype=np.intp), np.zeros(0))
        if upper <= CLOSE * self.scale:
            return fit
        program, first = _Program(self.rank), _spread(self._basis, np.ones(len(self._y)), self.rank)
        program.add([(i, s) for i in first for s in (1, -1)], self._basis, self._y)
        best, most = z, float(np.abs(self._y - self._basis @ z).max())
        with self._interruptible():
            for _ in range(ROUNDS):
                solved = program.run(self._stop)
                if not solved and not self.stopped:
                    break
                z, t = program.point()
                errors = self._y - self._basis @ z
                if (worst := float(np.abs(errors).max())) < most:
                    best, most = z, worst
                if not solved or most - t <= CLOSE:
                    break
                if not program.add(self._violated(errors, t), self._basis, self._y):
                    break
        theta = self._theta(best)
        found = residual(self.phi, self.x, theta)
        if found >= upper:
            found, theta = upper, fit.theta
        support, weights = self._polished(*_weights(program.pairs, program.multipliers()))
        return SupFit(0.0, found, theta, math.inf, support, weights)

    def _least_squares(self) -> Array:
        """The least-squares z, by iterative refinement, since the columns are orthogonal only up to rounding."""
        z = np.zeros(self.rank)
        for _ in range(3):
            z += self._basis.T @ (self._y - self._basis @ z) / max(len(self._y), 1)
        return z

    def _theta(self, z: Array) -> Array:
        return np.asarray(self._back @ (z / self._spans)) * self.scale

    def _violated(self, errors: Array, t: float) -> list[tuple[int, int]]:
        """(row, sign of the error) for the worst row with |error| > t and others in different directions."""
        excess = np.abs(errors) - t
        excess[excess <= CLOSE / 2] = 0.0
        if not excess.any():
            return []
        chosen = {int(np.argmax(excess)), *_spread(self._basis, excess, self.rank + 1)}
        return [(i, 1 if errors[i] > 0 else -1) for i in sorted(chosen)]

    def _polished(self, support: Indices, weights: Array) -> tuple[Indices, Array]:
        """λ projected onto Φᵀλ = 0, which the solver satisfies up to its tolerance; unchanged if precision is lost."""
        rows, polished = self._basis[support], weights
        for _ in range(2):
            if self.rank and len(support):
                polished = polished - rows @ np.linalg.lstsq(rows, polished, rcond=POLISH)[0]
        change = float(np.abs(polished - weights).sum())
        return support, weights if change > DRIFT else polished / float(np.abs(polished).sum())

    # ------------------------------------------------------------------ N(η)

    def shortest(self, eta: float) -> Shortest:
        """The θ of least norm with a residual of at most eta, or of the least one plus ``slack`` if that is larger."""
        best = self.best()
        if not len(best.support) and eta <= best.upper:  # realizable: least squares has the least norm
            return self._realizing(best)
        eta = max(eta, best.upper + self.slack)
        theta, support, weights = self._least_distance(eta)
        reached = residual(self.phi, self.x, theta)
        if reached > eta + self.slack or length(theta) > length(best.theta):  # precision was lost
            theta, reached = best.theta, best.upper
        return self._short(theta, reached, max(eta, reached), support, weights)

    def _realizing(self, best: SupFit) -> Shortest:
        """The least-squares θ, with λ such that Φᵀλ = θ, on rows that determine it."""
        support = np.array(_spread(self._basis, np.ones(len(self._y)), self.rank), dtype=np.intp)
        rows = self._basis[support] * self._spans
        weights = np.linalg.lstsq(rows.T, self._back.T @ best.theta, rcond=None)[0]
        return self._short(best.theta, best.upper, best.upper, support, weights)

    def _short(self, theta: Array, reached: float, eta: float, support: Indices, weights: Array) -> Shortest:
        lower = norm_floor(self.phi[support], self.x[support], weights, eta)
        return Shortest(min(lower, length(theta)), length(theta), theta, reached)

    def _least_distance(self, eta: float) -> tuple[Array, Indices, Array]:
        """The θ of least norm with a residual of at most eta, by row generation, and λ (Lawson and Hanson 1974, §23).

        min ‖w‖ subject to E w >= f is solved by u = argmin_{u >= 0} ‖[Eᵀ; fᵀ] u - e_{r+1}‖, w = -ρ_{1..r} / ρ_{r+1}
        with ρ the residual of that problem; u are the multipliers.
        """
        from scipy.optimize import nnls

        level, unit = eta / self.scale, max(length(self.best().theta) / self.scale, 1e-300)
        w, u = np.zeros(self.rank), np.zeros(len(self._rows))
        last = np.zeros(self.rank + 1)
        last[-1] = 1.0
        with self._interruptible():
            for _ in range(ROUNDS):
                if self._rows:
                    rows, signs = np.array([i for i, _ in self._rows]), np.array([s for _, s in self._rows])
                    normals = signs[:, None] * self._basis[rows] * (self._spans * unit)
                    rhs = signs * self._y[rows] - level
                    system = np.vstack([normals.T, rhs])
                    try:
                        u = nnls(system, last, maxiter=30 * len(rows) + 100)[0]
                    except RuntimeError:  # it cycled: return the current solution, whose bounds are valid in any case
                        break
                    rho = system @ u - last
                    if not rho[-1] < 0:
                        break
                    w = _sharpened(-rho[:-1] / rho[-1], normals[u > 0], rhs[u > 0]) * unit
                errors = self._y - self._basis @ (w * self._spans)
                new = [row for row in self._violated(errors, level) if row not in self._rows]
                if not new or self._stop():
                    break
                self._rows += new
                u = np.zeros(len(self._rows))
        if len(u) != len(self._rows):  # Ctrl-C came between the two
            u = np.zeros(len(self._rows))
        return self._back @ w * self.scale, *_weights(self._rows, u)

    # ------------------------------------------------------------------ η_R

    def within(self, radius: float) -> SupFit:
        """The best fit over ‖θ‖ <= radius: the level η with N(η) = radius.

        A least-distance program at any level improves both bounds: its λ gives a lower bound, which is the next iterate
        of Newton's method, and its θ, scaled to the radius, an upper bound.  Every fourth level, and whenever Newton's
        method makes no progress, the bracket is bisected.
        """
        best = self.best(radius)
        if length(best.theta) <= radius:
            return best
        start = SupFit(0.0, math.inf, np.zeros(len(best.theta)), radius, best.support, best.weights)
        fit = self._better(start, start.theta, best.support, best.weights)
        fit = self._better(fit, best.theta, best.support, best.weights)
        level = least = best.upper + self.slack
        for turn in range(1, LEVELS + 1):
            fit = self._better(fit, *self._least_distance(level))
            if fit.upper - fit.lower <= CLOSE * self.scale or self._stop():
                break
            if turn % 4 and fit.lower > least:
                level = least = fit.lower
            else:
                level = max(best.upper + self.slack, (fit.lower + fit.upper) / 2)
        return fit

    def _better(self, fit: SupFit, theta: Array, support: Indices, weights: Array) -> SupFit:
        """The fit with each bound replaced by that of θ or of λ, if better."""
        theta = theta * min(1.0, fit.radius / (length(theta) or 1.0) * (1 - 4 * UNIT))
        upper = residual(self.phi, self.x, theta)
        lower = misfit_floor(self.phi[support], self.x[support], weights, fit.radius)
        if upper >= fit.upper:
            upper, theta = fit.upper, fit.theta
        if lower <= fit.lower:
            lower, support, weights = fit.lower, fit.support, fit.weights
        return SupFit(min(lower, upper), upper, theta, fit.radius, support, weights)


class _Program:
    """min t subject to s (y_i - <b_i, z>) <= t for pairs (i, s), by HiGHS with warm starts."""

    def __init__(self, rank: int) -> None:
        import highspy

        self.rank = rank
        self.pairs: dict[tuple[int, int], None] = {}  # an ordered set
        self.optimal, self.unfinished = highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kTimeLimit
        self.highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in HIGHS_OPTIONS.items():
            self.highs.setOptionValue(option, value)
        free = np.full(rank + 1, np.inf)
        self.highs.addVars(rank + 1, np.append(-free[1:], 0.0), free)
        self.highs.changeColCost(rank, 1.0)

    def add(self, pairs: list[tuple[int, int]], basis: Array, y: Array) -> bool:
        """Add rows; return whether any of them is new."""
        new = [pair for pair in pairs if pair not in self.pairs]
        if not new:
            return False
        self.pairs.update(dict.fromkeys(new))
        rows, signs = np.array([i for i, _ in new]), np.array([s for _, s in new], dtype=np.float64)
        entries = np.column_stack([signs[:, None] * basis[rows], np.ones(len(new))])
        m, n = entries.shape
        starts, columns = np.arange(0, m * n, n, dtype=np.int32), np.tile(np.arange(n, dtype=np.int32), m)
        self.highs.addRows(m, signs * y[rows], np.full(m, np.inf), m * n, starts, columns, entries.ravel())
        return True

    def run(self, stop: Callable[[], bool]) -> bool:
        """Solve the program, from scratch if the warm start fails; return whether an optimum was found."""
        if not self._solved(stop) and not stop():
            self.highs.clearSolver()
            self._solved(stop)
        return bool(self.highs.getModelStatus() == self.optimal)

    def _solved(self, stop: Callable[[], bool]) -> bool:
        """Whether the simplex method finds an optimum, slice by slice, until ``stop()``."""
        while True:
            self.highs.setOptionValue("time_limit", self.highs.getRunTime() + SLICE)
            self.highs.run()
            if self.highs.getModelStatus() != self.unfinished or stop():
                return bool(self.highs.getModelStatus() == self.optimal)

    def point(self) -> tuple[Array, float]:
        """The solution (z, t)."""
        point = np.array(self.highs.getSolution().col_value)
        return point[:-1], float(point[-1])

    def multipliers(self) -> Array:
        """The dual value of each pair, >= 0; zeros if there is no solution."""
        found = np.array(self.highs.getSolution().row_dual)
        return np.maximum(found, 0.0) if len(found) == len(self.pairs) else np.zeros(len(self.pairs))


def _triangle(phi: Array, stop: Callable[[], bool]) -> Array:
    """R of the QR decomposition of phi (n, d); ``stop`` is called between the blocks of a long one, for its reports."""
    size = max(2 * phi.shape[1], int(BLOCK / max(phi.shape[1], 1) ** 2))
    triangle: Array = np.asarray(np.linalg.qr(phi[:size], mode="r"))
    for start in range(size, len(phi), size):
        stop()
        longer = np.concatenate([triangle, phi[start : start + size]])
        triangle = np.asarray(np.linalg.qr(longer, mode="r"))
    return triangle


def _sharpened(w: Array, normals: Array, rhs: Array) -> Array:
    """The point of least norm at which the active rows are tight; w if precision is lost."""
    sharp = np.asarray(np.linalg.lstsq(normals, rhs, rcond=None)[0], dtype=np.float64)
    return sharp if np.abs(sharp - w).max(initial=0.0) <= DRIFT else w


def _weights(pairs: Iterable[tuple[int, int]], multipliers: Array) -> tuple[Indices, Array]:
    """The support and values of λ, from multipliers of signed rows, normalised to ‖λ‖_1 = 1."""
    weights: dict[int, float] = {}
    for (row, sign), multiplier in zip(pairs, multipliers.tolist(), strict=True):
        if multiplier > 0:
            weights[row] = weights.get(row, 0.0) + sign * multiplier
    total = sum(map(abs, weights.values())) or 1.0
    return np.array(list(weights), dtype=np.intp), np.array(list(weights.values())) / total


def _spread(rows: Array, weights: Array, most: int) -> list[int]:
    """Rows of large weight in different directions, by a QR decomposition with pivoting."""
    from scipy.linalg import qr

    some = np.flatnonzero(weights)
    if len(some) > CANDIDATES:
        heavy = some[np.argsort(-weights[some], kind="stable")[:most]]
        some = np.union1d(heavy, some[np.linspace(0, len(some) - 1, CANDIDATES).astype(np.intp)])
    if not rows.shape[1] or not len(some):
        return []
    _, order = qr((rows[some] * weights[some, None]).T, mode="r", pivoting=True)
    chosen: list[int] = some[order[:most]].tolist()
    return chosen
