"""Sol: the parameters that everything measured so far allows, and the optimistic one among them.

For a measured state s write l_a(θ; s) = E R + <γ E φ(S') - φ(s), θ> = <Δ_a, [1, θ]> for the temporal difference of
action a (γ = 1 unless discounted).  Bellman's optimality equation says of θ*

    T1   l_a(θ; s) <= ρ                for every a that was asked,
    T2   low <= <φ(s), θ> <= high      for every state that was seen: the range of returns,
    T3   l_a(θ; s) >= -ρ               for some a, where every a was asked,

with ρ the radius of the estimates.  The set of Eq. (sol-def) of Weisz et al. (2022) asks for a product form of T3 at
the states where a test failed, and for nothing else.  This one is smaller and contains θ* as well, so every argument
about optimism and termination stays valid.  With features that miss v* by up to η in sup norm, some θ within η of v*
satisfies T1 and T3 with ρ + (1 + γ) η, and T2 with η to spare at both ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorplan.core import Array, Node
from tensorplan.errors import shown
from tensorplan.optimism import Program, Search, Solution

QUOTED = 24
"""Characters of a state in messages."""

CHUNK = 20_000
"""Nodes after which a long search says how far it is."""


@dataclass(frozen=True)
class Place:
    """The state that a row or a disjunction is about."""

    stage: int
    state: Any

    @classmethod
    def of(cls, node: Node) -> Place:
        """The state of a node; one that cannot be hashed goes by what it looks like."""
        key = node.key
        return cls(node.stage, repr(node) if key is None else key)

    def __str__(self) -> str:
        return f"{shown(self.state, QUOTED)} (stage {self.stage})"


class Sol:
    """The set.  It only shrinks, and what it is made of holds for θ* wherever an episode starts."""

    def __init__(
        self, dimension: int, radius: float, *, eta: float = 0.0, discount: float = 1.0, product: bool = False
    ) -> None:
        self.dimension = dimension
        self.radius = radius
        self.eta = eta
        self.step = 1.0 + discount  # how many η a temporal difference can be off
        self.product = product
        self.rows: list[Array] = []
        self.rhs: list[float] = []
        self.row_slack: list[float] = []
        self.row_places: list[Place] = []
        self.forms: list[Array] = []
        self.tol: list[float] = []
        self.form_places: list[Place] = []
        self._search: Search | None = None
        self._given = (0, 0)

    def inequality(self, place: Place, delta: Array, rho: float) -> None:
        """T1 for one action, whose Δ_a is (d+1,)."""
        self._row(place, delta[1:], rho - float(delta[0]), self.step)

    def values(self, place: Place, phi: Array, low: float, high: float) -> None:
        """T2; an infinite end says nothing."""
        if high < np.inf:
            self._row(place, phi, high, 1.0)
        if low > -np.inf:
            self._row(place, -phi, -low, 1.0)

    def disjunction(self, place: Place, deltas: Array, tol: float) -> None:
        """T3, from all Δ_a, (A, d+1): some |l_a| <= tol; of a product Sol, |Π_a l_a| <= tol."""
        self.forms.append(np.array(deltas))
        self.tol.append(tol)
        self.form_places.append(place)

    def aim(self, objective: Array) -> None:
        """Maximise <objective, θ> from now on."""
        self._search = Search(self.program(objective))
        self._given = len(self.rows), len(self.forms)

    def optimum(self, node_limit: int | None = None, report: Callable[[Solution], bool] | None = None) -> Solution:
        """The optimistic parameter and the upper bound; the status is ``"infeasible"`` when Sol is empty.

        ``report`` hears of a long search after every :data:`CHUNK` nodes, and ends it by a true answer.
        """
        assert self._search is not None
        m, n = self._given
        if (m, n) != (len(self.rows), len(self.forms)):
            self._search.extend(*self._arrays(self.eta, range(m, len(self.rows)), range(n, len(self.forms))))
            self._given = len(self.rows), len(self.forms)
        nodes, began = 0, time.perf_counter()
        while True:
            chunk = CHUNK if node_limit is None else min(CHUNK, node_limit - nodes)
            found = self._search.solve(node_limit=chunk)
            nodes += found.nodes
            so_far = Solution(found.status, found.theta, found.value, found.bound, nodes, time.perf_counter() - began)
            if found.status != "limit" or found.nodes < chunk or (node_limit is not None and nodes >= node_limit):
                return so_far
            if report is not None and report(so_far):
                return so_far

    def point(self) -> Array | None:
        """Some point of the set, which may be found where the optimistic one is not: that is at the edge."""
        return Search(self.program(np.zeros(self.dimension))).solve().theta

    def largest(self, vector: Array, node_limit: int) -> float:
        """An upper bound on <vector, [1, θ]> over the set, close to the least one; -inf if the set is empty."""
        return float(vector[0]) + Search(self.program(vector[1:])).solve(node_limit=node_limit).bound

    def variance(self, covariance: Array, node_limit: int) -> float:
        """An upper bound on [1, θ]ᵀ C [1, θ] over the set, for a covariance C, (d+1, d+1).

        With the eigenvectors u_k of C it is Σ_k λ_k max_θ <u_k, [1, θ]>²; small terms are bounded over the ball.
        """
        weights, vectors = np.linalg.eigh(covariance)
        sizes = np.abs(vectors[0]) + self.radius * np.linalg.norm(vectors[1:], axis=0)
        terms = np.maximum(weights, 0.0) * sizes**2
        for k in np.flatnonzero(terms > 1e-3 * terms.sum()).tolist():
            reach = max(self.largest(vectors[:, k], node_limit), self.largest(-vectors[:, k], node_limit), 0.0)
            terms[k] = min(terms[k], weights[k] * reach**2)
        return float(terms.sum())

    def program(
        self,
        objective: Array,
        *,
        radius: float | None = None,
        eta: float | None = None,
        among: Collection[Place] | None = None,
    ) -> Program:
        """The set as a program; of another radius or η, or of what some places say alone."""
        rows = [i for i, p in enumerate(self.row_places) if among is None or p in among]
        forms = [i for i, p in enumerate(self.form_places) if among is None or p in among]
        arrays = self._arrays(self.eta if eta is None else eta, rows, forms)
        return Program(objective, self.radius if radius is None else radius, *arrays, self.product)

    def bound(self, row: int) -> float:
        """The right-hand side of a row, η included."""
        return self.rhs[row] + self.eta * self.row_slack[row]

    def tolerance(self, form: int) -> float:
        """The tolerance of a disjunction, η included."""
        return self.tol[form] + self.eta * self._form_slack(form)

    def _form_slack(self, form: int) -> float:
        """How many η a disjunction can be off; the other factors of a product are at most 1 + 2B each."""
        return self.step * ((1 + 2 * self.radius) ** (len(self.forms[form]) - 1) if self.product else 1.0)

    def _row(self, place: Place, normal: Array, rhs: float, slack: float) -> None:
        self.rows.append(np.array(normal))
        self.rhs.append(rhs)
        self.row_slack.append(slack)
        self.row_places.append(place)

    def _arrays(self, eta: float, rows: Collection[int], forms: Collection[int]) -> tuple[Any, Any, Any, Any]:
        """Rows, right-hand sides, forms and tolerances."""
        some_rows = np.array([self.rows[i] for i in rows]).reshape(-1, self.dimension)
        rhs = np.array([self.rhs[i] + eta * self.row_slack[i] for i in rows])
        some_forms = np.array([self.forms[i] for i in forms]) if forms else None
        tol = np.array([self.tol[i] + eta * self._form_slack(i) for i in forms])
        return some_rows, rhs, some_forms, tol if forms else 0.0
