"""Sol: the parameters consistent with all measurements, and the optimistic one among them.

For a measured state s write l_a(θ; s) = E R + <γ E φ(S') - φ(s), θ> = <Δ_a, [1, θ]> for the temporal difference of
action a (γ = 1 unless discounted).  Bellman's optimality equation says of θ*

    T1   l_a(θ; s) <= ρ                for every a that was queried,
    T2   low <= <φ(s), θ> <= high      for every state that was seen: the range of returns,
    T3   l_a(θ; s) >= -ρ               for some a, once every a was queried,

with ρ the radius of the estimates.  The set of Eq. (sol-def) of Weisz et al. (2022) has only a product form of T3, at
the states where a test failed.  This one is smaller and contains θ* as well, so every argument about optimism and
termination stays valid.  With a misspecification of η in sup norm, some θ satisfies T1 and T3 with ρ + (1 + γ) η, and
T2 with an extra η at both ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from tensorplan.core import NEVER, Array, Deadline
from tensorplan.optimism import Program, Search, Solution
from tensorplan.planners.evidence.place import Place

ROUNDING = 1e-12
"""How much T1-T3 are widened, relative to 1 + B, since features and rewards are floats."""

VACUOUS = 1e12
"""The slack of an equation in units of η: a misspecification may change which action is best, and then it says nothing.
"""

CHUNK = 20_000
"""The most nodes between two progress reports of a long search."""

PER_LEAF, GRACE = 2e-6, 0.1
"""Seconds that it takes to write one node of a proof, per dimension, and how long a proof may take after the deadline.
"""

WORK = 4e9
"""Multiplications in about a second of search: work is counted, not timed, so that runs are reproducible."""


class Source(NamedTuple):
    """The origin of a row or a disjunction, for proofs."""

    kind: str
    """``"bellman"`` (T1), ``"low"`` or ``"high"`` (T2), ``"choice"`` (T3), ``"equation"`` (T3 with a
    known best action), ``"return"`` (a lower bound on v*(s0))."""
    about: Any = None
    """The planner's record of the state."""
    action: int = -1
    slack: float = 0.0
    """Of an equation."""
    samples: int | None = None
    """How many it rests on, where it is written anew as they grow."""


class Sol:
    """The set.  It only shrinks, and its constraints hold for θ* whatever the start state."""

    def __init__(
        self, dimension: int, radius: float, *, eta: float = 0.0, discount: float = 1.0, product: bool = False
    ) -> None:
        self.dimension = dimension
        self.radius = radius
        self.eta = eta
        self.step = 1.0 + discount  # the error of a temporal difference, in units of η
        self.product = product
        self.rows: list[Array] = []
        self.rhs: list[float] = []
        self.row_slack: list[float] = []
        self.row_places: list[Place] = []
        self.row_sources: list[Source] = []
        self.forms: list[Array] = []
        self.tol: list[float] = []
        self.form_places: list[Place] = []
        self.form_sources: list[Source] = []
        self._objective = np.zeros(dimension)
        self._search: Search | None = None
        self._given = (0, 0)
        self.deadline = NEVER
        """When searches end; their bounds are valid wherever they do."""

    def empty(self) -> Sol:
        """The whole ball, with the same deadline."""
        made = Sol(self.dimension, self.radius, eta=self.eta, discount=self.step - 1.0, product=self.product)
        made.deadline = self.deadline
        return made

    def renew(self) -> None:
        """Forget all rows and disjunctions, to write them anew."""
        lists: list[list[Any]] = [self.rows, self.rhs, self.row_slack, self.row_places, self.row_sources]
        lists += [self.forms, self.tol, self.form_places, self.form_sources]
        for each in lists:
            each.clear()
        self._search = None

    def inequality(
        self, place: Place, delta: Array, rho: float, about: Any = None, action: int = -1, samples: int | None = None
    ) -> None:
        """T1 for one action, whose Δ_a is (d+1,)."""
        source = Source("bellman", about, action, samples=samples)
        self._row(place, delta[1:], rho - float(delta[0]), self.step, source)

    def values(
        self, place: Place, phi: Array, low: float, high: float, about: Any = None, samples: int | None = None
    ) -> None:
        """T2; infinite ends are left out."""
        if high < np.inf:
            self._row(place, phi, high, 1.0, Source("high", about, samples=samples))
        if low > -np.inf:
            self._row(place, -phi, -low, 1.0, Source("low", about, samples=samples))

    def earned(self, place: Place, phi: Array, total: float) -> None:
        """v*(s0) >= total, the proved return of a policy."""
        self._row(place, -phi, -total, 1.0, Source("return", total))

    def equation(self, place: Place, delta: Array, rho: float, slack: float, about: Any, action: int) -> None:
        """T3 where the best action is known up to a slack: l_a(θ; s) >= -ρ - slack for its Δ_a, (d+1,)."""
        source = Source("equation", about, action, slack)
        self._row(place, -delta[1:], rho + slack + float(delta[0]), VACUOUS, source)

    def disjunction(
        self, place: Place, deltas: Array, tol: float, about: Any = None, samples: int | None = None
    ) -> None:
        """T3, from all Δ_a, (A, d+1): some |l_a| <= tol, or |Π_a l_a| <= tol in the product form."""
        self.forms.append(np.array(deltas))
        self.tol.append(tol)
        self.form_places.append(place)
        self.form_sources.append(Source("choice", about, samples=samples))

    def aim(self, objective: Array, deadline: Deadline | None = None) -> None:
        """Maximise <objective, θ> from now on; until a deadline, if there is another one."""
        self._objective, self._search = objective, None
        self.deadline = deadline or self.deadline

    def nodes_in(self, seconds: float) -> int:
        """Nodes of the branch and bound in about so many seconds, at least one."""
        per_node = self.dimension * (100 * self.dimension + 10 * len(self.rows))
        return max(1, int(seconds * WORK / per_node))

    def optimum(self, node_limit: int | None = None, report: Callable[[Solution], bool] | None = None) -> Solution:
        """The optimistic parameter and the upper bound; the status is ``"infeasible"`` if Sol is empty.

        ``report`` is called about once a second; a true result ends the search, as do the node limit and the deadline.
        The bound is valid wherever it stops, and another call resumes it.
        """
        search, nodes, began = self._current(), 0, time.perf_counter()
        most = min(CHUNK, self.nodes_in(1.0))
        while True:
            chunk = most if node_limit is None else min(most, node_limit - nodes)
            found = self.solve(search, node_limit=chunk)
            nodes += found.nodes
            passed = time.perf_counter() - began
            so_far = Solution(found.status, found.theta, found.value, found.bound, nodes, passed)
            if found.status != "limit" or found.nodes < chunk:
                return so_far
            if node_limit is not None and nodes >= node_limit:
                return so_far
            if report is not None and report(so_far):
                return so_far

    def solve(self, search: Search, node_limit: int | None = None, certificate: bool = False) -> Solution:
        """Search until the deadline."""
        left = self.deadline.remaining
        seconds = None if left == np.inf else left
        return search.solve(time_limit=seconds, node_limit=node_limit, certificate=certificate, strictly=True)

    @property
    def provable(self) -> bool:
        """Whether there is time to write the proof of the last search."""
        seconds = PER_LEAF * self.dimension * self._current().nodes
        return seconds <= max(self.deadline.remaining, GRACE)

    def proof(self) -> Solution:
        """The bound of the last search with its certificate, the current tree."""
        return self._current().solve(time_limit=0.0, certificate=True)

    def _current(self) -> Search:
        """The search for the objective, with all rows and disjunctions."""
        if self._search is None:
            self._search, self._given = Search(self.program(self._objective)), (len(self.rows), len(self.forms))
        m, n = self._given
        if (m, n) != (len(self.rows), len(self.forms)):
            self._search.extend(*self._arrays(self.eta, range(m, len(self.rows)), range(n, len(self.forms))))
            self._given = len(self.rows), len(self.forms)
        return self._search

    def point(self) -> Array | None:
        """Some point of the set; it may be found when the optimistic one, on the boundary, is not."""
        return self.solve(Search(self.program(np.zeros(self.dimension)))).theta

    def most(self, vector: Array, node_limit: int, certificate: bool = False) -> Solution:
        """A nearly tight upper bound on <vector, θ> over the set, with its proof if that is wanted."""
        return self.solve(Search(self.program(vector)), node_limit=node_limit, certificate=certificate)

    def program(
        self,
        objective: Array,
        *,
        radius: float | None = None,
        eta: float | None = None,
        among: Collection[Place] | None = None,
    ) -> Program:
        """The set as a program, with another radius or η, or restricted to T1-T3 of some places."""
        rows = [
            i
            for i, (place, source) in enumerate(zip(self.row_places, self.row_sources, strict=True))
            if among is None or (place in among and source.kind != "equation")
        ]
        forms = [i for i, p in enumerate(self.form_places) if among is None or p in among]
        arrays = self._arrays(self.eta if eta is None else eta, rows, forms)
        return Program(objective, self.radius if radius is None else radius, *arrays, self.product)

    @property
    def linear(self) -> tuple[list[Array], list[float]]:
        """All rows and their right-hand sides, η included, as new lists."""
        return list(self.rows), [self.bound(i) for i in range(len(self.rows))]

    def bound(self, row: int) -> float:
        """The right-hand side of a row, η included."""
        return self.rhs[row] + self.eta * self.row_slack[row]

    def tolerance(self, form: int) -> float:
        """The tolerance of a disjunction, η included."""
        return self.tol[form] + self.eta * self._form_slack(form)

    def _form_slack(self, form: int) -> float:
        """The error of a disjunction in units of η; the other factors of a product are at most 1 + 2B each."""
        return self.step * ((1 + 2 * self.radius) ** (len(self.forms[form]) - 1) if self.product else 1.0)

    def _row(self, place: Place, normal: Array, rhs: float, slack: float, source: Source) -> None:
        self.rows.append(np.array(normal))
        self.rhs.append(rhs)
        self.row_slack.append(slack)
        self.row_places.append(place)
        self.row_sources.append(source)

    def _arrays(self, eta: float, rows: Collection[int], forms: Collection[int]) -> tuple[Any, Any, Any, Any]:
        """Rows, right-hand sides, forms and tolerances."""
        some_rows = np.array([self.rows[i] for i in rows]).reshape(-1, self.dimension)
        rhs = np.array([self.rhs[i] + eta * self.row_slack[i] for i in rows])
        some_forms = np.array([self.forms[i] for i in forms]) if forms else None
        tol = np.array([self.tol[i] + eta * self._form_slack(i) for i in forms])
        return some_rows, rhs, some_forms, tol if forms else 0.0
