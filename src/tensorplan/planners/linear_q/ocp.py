"""OCP, optimistic constraint propagation (Wen and Van Roy 2013): linear q*, deterministic transitions and rewards.

C is a set of parameters that contains θ*: those in the box |θ_i| <= B that satisfy some constraints
L <= <φ(s, a), θ> <= U.  An episode in the simulator takes a = argmax_a sup_{θ in C} <φ(s, a), θ> at each state, and a
step with reward r to s' puts a constraint on a queue:

    U = r + max_a' sup_{θ in C} <φ(s', a'), θ>,     L = r + inf_{θ in C} max_a' <φ(s', a'), θ>,     U = L = r at END.

After the episode the queue joins the constraints.  The largest sup at s0 is an upper bound on v*(s0), and an episode
that earns it is optimal: its path is replayed.

At most d episodes add information.  Call a step determined if <φ(s, a), θ> is constant on C.  After the last step of an
episode that is not, the next action is determined and has the largest sup, which makes U = L: the episode adds an
equation whose φ(s, a) is no combination of those of earlier equations, since it was not determined.  That happens at
most d times.  If all steps are determined, each has <φ(s, a), θ*> = max_a' sup <φ(s, a'), θ> >= v*(s), so the episode
is optimal.

No bound depends on the accuracy of the solver: for any multipliers y of the constraints low <= Xθ <= high,

    <c, θ> <= Σ_i max(y_i low_i, y_i high_i) + B ‖c - yX‖_1     for all θ in C     (weak duality),

and the right-hand side, for the solver's y, is used as the sup.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Access, Array, Node
from tensorplan.planners.evidence.challenge import PathStep
from tensorplan.planners.evidence.replay import Replay
from tensorplan.planners.linear_q.replay import ROUNDING, ReplayConfig, ReplayPlanning, ReplaySession, SolvedStart

DETERMINED = 1e-10
"""The width, relative to 1 + B, below which a range needs no linear program."""

CUTS = 8
"""Actions added to the program for inf max at a time."""

CORNERS = 64
"""Corners of C that are kept."""

FLAT = 1e8
"""The condition number above which a corner is ignored."""

EPSILON = float(np.finfo(np.float64).eps)

OPTIONS: dict[str, bool | int | float | str] = {
    "output_flag": False,
    "threads": 1,
    "presolve": "off",
    "solver": "simplex",
    "simplex_strategy": 4,  # primal: the last solution stays feasible when the objective changes
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
    "small_matrix_value": 1e-12,
}
"""Options of HiGHS."""


@dataclass(frozen=True, kw_only=True, repr=False)
class OCP(ReplayConfig):
    """Optimistic constraint propagation: at most (d + 1) H queries for deterministic transitions and rewards.

    ``time_limit``: seconds of planning per episode, after which the best path so far is replayed; it makes runs
    irreproducible.
    """

    about: ClassVar[str] = "OCP: linear q* where nothing is random, any number of actions; (d+1)H queries"

    def begin(self, access: Access, rng: np.random.Generator) -> Replay:
        """Start an episode without a memory."""
        return self.session().begin(access, rng)

    def session(self) -> ReplaySession[Constraints]:
        """A planner that keeps its constraints: they hold for θ*, whatever the start state."""
        return ReplaySession(self, lambda access: Constraints(access.dimension, access.bound), Propagation)


class Propagation(ReplayPlanning["Constraints"]):
    """Optimistic episodes, and the constraints that they add."""

    def __init__(
        self, access: Access, memory: Constraints, rng: np.random.Generator, known: SolvedStart | None = None
    ) -> None:
        super().__init__(access, memory, rng, known)
        self.views: dict[Node, tuple[int, float]] = {}
        """The optimistic action and its sup at the states visited since C changed."""

    def promise(self) -> float:
        """max_a sup <φ(s0, a), θ>."""
        return self._optimist(self.access.root)[1]

    def choose(self, node: Node) -> int:
        """argmax_a sup <φ(s, a), θ>."""
        return self._optimist(node)[0]

    def learn(self, steps: list[PathStep]) -> None:
        """Add L <= <φ(s, a), θ> <= U for each step of an episode, unless C implies it."""
        polytope, scale = self.memory.polytope, 1 + self.access.bound
        queue: list[Constraint] = []
        low = high = 0.0  # inf max and max sup of the next state
        for node, action, reward, _ in reversed(steps):
            self.access.deadline.check()
            cut = Constraint(node.phi_q[action], reward + low - ROUNDING * scale, reward + high + ROUNDING * scale)
            low, high = polytope.inf(cut.phi), self._optimist(node)[1]
            if cut.low - ROUNDING * scale > low or cut.high + ROUNDING * scale < high:
                queue.append(cut)
            if high - low > DETERMINED * scale:
                low = max(low, polytope.inf_max(node.phi_q, action))
        self.memory.extend(queue[::-1])
        self.views.clear()

    def _optimist(self, node: Node) -> tuple[int, float]:
        if node not in self.views:
            self.access.deadline.check()  # linear programs take longer than queries
            self.views[node] = self.memory.polytope.optimist(node.phi_q)
        return self.views[node]


class Constraint(NamedTuple):
    """low <= <phi, θ> <= high."""

    phi: Array
    low: float
    high: float


class Constraints:
    """All constraints, and C: the θ that satisfy them, or if they conflict, a selection of them.

    The selection goes through the sequence from its end, and keeps a constraint that is consistent with those kept
    before (Wen and Van Roy 2013, constraint selection).  If one is dropped, no θ in the box satisfies all of them:
    q* is not linear or B is too small, realizability is refuted, and C need not contain any particular θ.
    """

    def __init__(self, dimension: int, bound: float) -> None:
        self.dimension, self.bound = dimension, bound
        self.sequence: list[Constraint] = []
        self.refuted = False
        self.polytope = Polytope([], dimension, bound)

    def extend(self, queue: list[Constraint]) -> None:
        """Add the queue of an episode."""
        sequence = self.sequence + queue
        polytope = Polytope(sequence, self.dimension, self.bound)
        if self.refuted or polytope.empty:
            kept: list[Constraint] = []
            polytope = Polytope(kept, self.dimension, self.bound)
            for constraint in reversed(sequence):
                if polytope.sup(constraint.phi) >= constraint.low and polytope.inf(constraint.phi) <= constraint.high:
                    kept.append(constraint)
                    polytope = Polytope(kept, self.dimension, self.bound)
            self.refuted |= len(kept) < len(sequence)
        self.sequence, self.polytope = sequence, polytope


class Corner(NamedTuple):
    """The optimal basis of a program: k rows, and the k columns in which they cancel the objective.

    For another objective c the multipliers y = c[columns] inverse of these rows are valid too, and optimal if c is
    maximal at the same corner.
    """

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    inverse: Array


class Polytope:
    """The θ in the box that satisfy some constraints, and bounds on linear functions over them."""

    def __init__(self, constraints: list[Constraint], dimension: int, bound: float) -> None:
        self.dimension, self.bound = dimension, bound
        self.x = np.array([c.phi for c in constraints]).reshape(-1, dimension)
        self.low = np.array([c.low for c in constraints])
        self.high = np.array([c.high for c in constraints])
        self.size = np.maximum(np.abs(self.low), np.abs(self.high)) + bound * np.abs(self.x).sum(axis=1)
        self.corners: deque[Corner] = deque(maxlen=CORNERS)
        self.solver = Solver(self.x, self.low / bound, self.high / bound)

    @property
    def empty(self) -> bool:
        """Whether the solver finds the constraints infeasible."""
        return self.solver.infeasible()

    # ------------------------------------------------------------------ one program

    def sup(self, c: Array) -> float:
        """The least upper bound on <c, θ>, up to rounding."""
        return self._solve(c)[0]

    def inf(self, c: Array) -> float:
        """The greatest lower bound on <c, θ>, up to rounding."""
        return -self.sup(-c)

    def inf_max(self, phi: Array, action: int) -> float:
        """The greatest lower bound on max_a <φ_a, θ>, for φ (A, d), up to rounding; ``action`` is a guess.

        It is the inf of <Σ_a λ_a φ_a, θ>, with the solver's λ_a >= 0, which sum to one.
        """
        y, weights = self.solver.minimise_max(phi, action)
        return float(self._weak_duality((weights @ phi)[None], -y[None])[0][0])

    def _solve(self, c: Array) -> tuple[float, list[Corner]]:
        """The sup of <c, θ>, and the corner that attains it, if that is nondegenerate."""
        y, reduced = self.solver.maximise(c)
        rows, columns = np.flatnonzero(y), np.flatnonzero(reduced == 0)
        found: list[Corner] = []
        if 0 < len(rows) == len(columns):
            matrix = self.x[np.ix_(rows, columns)]
            if np.linalg.cond(matrix) < FLAT:
                found = [Corner(rows, columns, np.linalg.inv(matrix))]
                self.corners += found
        return float(self._weak_duality(c[None], y[None])[1][0]), found

    # ------------------------------------------------------------------ all actions

    def optimist(self, phi: Array) -> tuple[int, float]:
        """argmax_a sup <φ_a, θ>, for φ (A, d), and that sup up to rounding.

        A program is solved for the action with the largest bound, and its corner tightens the bounds of the others,
        until the largest bound is a sup.
        """
        low, high = self.ranges(phi)
        scale, best, value = 1 + self.bound, 0, -math.inf
        while True:
            action = int(np.argmax(high))
            if high[action] <= value + ROUNDING * scale:
                return best, float(high[action])
            if high[action] - low[action] > DETERMINED * scale:
                sup, found = self._solve(phi[action])
                high[action] = min(high[action], sup)
                self._tighten(phi, found, low, high)
            if high[action] > value:
                best, value = action, float(high[action])

    def ranges(self, phi: Array) -> tuple[Array, Array]:
        """Bounds on <φ_a, θ> for all a, from the box and the corners, without a linear program."""
        high = self.bound * np.abs(phi).sum(axis=1)
        low = -high
        self._tighten(phi, self.corners, low, high)
        return low, high

    def _tighten(self, phi: Array, corners: Iterable[Corner], low: Array, high: Array) -> None:
        for corner in corners:
            below, above = self._weak_duality(phi, phi[:, corner.columns] @ corner.inverse, corner.rows)
            np.maximum(low, below, out=low)
            np.minimum(high, above, out=high)

    def _weak_duality(self, c: Array, y: Array, rows: Any = slice(None)) -> tuple[Array, Array]:
        """Bounds on <c_i, θ>, for c (n, d), from multipliers of some rows, y (n, k), rounded outwards."""
        up, down = np.maximum(y, 0.0), np.minimum(y, 0.0)
        rest = self.bound * np.abs(c - y @ self.x[rows]).sum(axis=1)
        size = np.abs(y) @ self.size[rows] + self.bound * np.abs(c).sum(axis=1)
        rest += EPSILON * (len(self.x) + self.dimension) * size
        low, high = self.low[rows], self.high[rows]
        return up @ low + down @ high - rest, up @ high + down @ low + rest


class Solver:
    """HiGHS over low <= Xθ <= high, |θ_i| <= 1, and a free τ, with warm starts.

    Only its multipliers are used, and zeros if it finds no optimum.
    """

    def __init__(self, x: Array, low: Array, high: Array) -> None:
        import highspy

        self.status = highspy.HighsModelStatus
        self.highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in OPTIONS.items():
            self.highs.setOptionValue(option, value)
        self.highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
        self.rows, self.dimension = x.shape
        box = np.append(np.ones(self.dimension), np.inf)
        self.highs.addVars(self.dimension + 1, -box, box)
        self._add(x, 0.0, low, high)

    def infeasible(self) -> bool:
        """Whether no θ satisfies the rows."""
        self._run(np.zeros(self.dimension), 0.0)
        return bool(self.highs.getModelStatus() == self.status.kInfeasible)

    def maximise(self, c: Array) -> tuple[Array, Array]:
        """The multipliers of max <c, θ>, and the reduced costs c - yX."""
        if not self._run(c, 0.0):
            return np.zeros(self.rows), c
        solution = self.highs.getSolution()
        return np.array(solution.row_dual), np.array(solution.col_dual)[:-1]

    def minimise_max(self, phi: Array, action: int) -> tuple[Array, Array]:
        """The multipliers of min max_a <φ_a, θ>, and the weights λ of the actions.

        It is min τ with a row <φ_a, θ> <= τ for ``action`` at first, and then for the actions that violate theirs.
        """
        members, new = [], [action]
        try:
            while new:
                members += new
                self._add(phi[new], -1.0, np.full(len(new), -np.inf), np.zeros(len(new)))
                solved, solution = self._run(np.zeros(self.dimension), -1.0), self.highs.getSolution()
                point = np.array(solution.col_value)
                excess = phi @ point[:-1] - point[-1] if solved else np.zeros(len(phi))
                excess[members] = 0.0
                new = [a for a in np.argsort(-excess)[:CUTS].tolist() if excess[a] > DETERMINED]
        finally:
            added = np.arange(self.rows, self.highs.getNumRow(), dtype=np.int32)
            self.highs.deleteRows(len(added), added)
        y = np.array(solution.row_dual) if solved else np.zeros(self.rows + len(members))
        weights = np.zeros(len(phi))
        weights[members] = np.maximum(y[self.rows :], 0.0)
        if not weights.any():
            weights[action] = 1.0
        return y[: self.rows], weights / weights.sum()

    def _add(self, x: Array, tau: float, low: Array, high: Array) -> None:
        """Rows low <= <x, θ> + tau τ <= high."""
        rows = np.column_stack([x, np.full(len(x), tau)])
        m, n = rows.shape
        starts, columns = np.arange(0, m * n, n, dtype=np.int32), np.tile(np.arange(n, dtype=np.int32), m)
        self.highs.addRows(m, low, high, m * n, starts, columns, rows.ravel())

    def _run(self, c: Array, tau: float) -> bool:
        """Maximise <c, θ> + tau τ; whether there is an optimum.  If the warm start fails, start from scratch."""
        n = self.dimension + 1
        self.highs.changeColsCost(n, np.arange(n, dtype=np.int32), np.append(c, tau))
        self.highs.run()
        if self.highs.getModelStatus() != self.status.kOptimal:
            self.highs.clearSolver()
            self.highs.run()
        return bool(self.highs.getModelStatus() == self.status.kOptimal)
