"""Which measurements, and how accurate: the design of an experiment that bounds v*(s0) with few samples.

Everything here is an estimate and may be wrong; bounds are proved elsewhere, from samples drawn afterwards.

*The model* is what the table would say if the fitted parameter were θ*: the same estimates, moved so that they agree
with it.  In the model an upper bound on v*(s0) can be computed for any accuracy r, that is, if temporal differences of
all states in the table were known up to r standard deviations (and a term for rare values, which shrinks with r²).  Few
states support that bound; they are found by adding what the optimistic parameter violates until it violates nothing.
The largest r with a bound below a target is what has to be measured.

*The weights.*  In each case, that is, a leaf of the branch and bound, the optimum of the relaxation has multipliers w:
the bound is a sum of measured temporal differences with these weights.  If the sum is measured as one, with n samples
in all and a part proportional to |w| σ for each of them, its standard error is Σ |w| σ / sqrt(n): so 2 ln(1/α) / r²
samples are enough, for all terms together.  This is a c-optimal design (Elfving 1952), for each case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tensorplan.core import Array, Deadline
from tensorplan.optimism import BoundTree, Program, Search, Solution
from tensorplan.planners.certified.fit import FittedTheta, TableView

NODES = 3_000
"""Node limit of a search in the model: the design is an estimate anyway."""

GAP = 1e-4
"""The relative gap at which a search in the model ends."""

COARSEST, FINEST, STEP = 1.0, 1e-3, 0.7
"""The accuracies that are tried: from the coarsest to the finest, each so many times the last."""

RARE = 0.55
"""Rare values cost a radius of about W ln(1/α) / (0.9 n) = 0.55 W r², since n = 2 ln(1/α) / r²."""

FINE, CAREFUL = 1.1, 0.97
"""Accuracies of cases are found up to this factor, and weights are taken at a little less."""

DOUBT = 0.5
"""By how many standard errors an action may be better than it looks."""

VIOLATED = 1e-3
"""By how much of its radius a temporal difference must be violated for its state to be added."""

TINY = 1e-9
"""The smallest radius, relative to 1 + B: estimates are floats."""

WORTH = 1e-6
"""Weights below this share of the largest are left out."""

TURNS = 60
"""Most rounds of adding states."""

MOST_CASES = 64
"""A design with more cases is not used."""

Pair = tuple[int, int]
"""The number of a state in the view, and an action."""


class PlannedCase(NamedTuple):
    """One leaf of the search: optimal actions of some states, and the weights that prove its bound."""

    choices: Mapping[int, int]
    weights: Mapping[Pair, float]
    """Positive for T1, negative for T3."""
    accuracy: float
    """The largest r with a bound below the target in this case."""


@dataclass(frozen=True, eq=False)
class Blueprint:
    """An experiment, if ``accuracy`` is positive; otherwise the table does not determine v*(s0) well enough."""

    accuracy: float
    """r"""
    found: Solution
    """The last search."""
    cases: list[PlannedCase]
    """Empty if the search was too long, or there are too many."""


class Hypothesis:
    """T1-T3 of the states of a view as if a fitted parameter were θ*."""

    def __init__(
        self,
        objective: Array,
        view: TableView,
        fit: FittedTheta,
        excused: float,
        ranges: Callable[[], tuple[Array, Array]],
        cut: Callable[[Array], bool],
        patience: int,
        deadline: Deadline,
        fewest: int = 0,
    ) -> None:
        """``ranges()`` are the rows of T2; ``cut(θ)`` adds those that θ violates, and says whether there were any.

        ``patience`` is the number of nodes that all searches together may take, ``fewest`` the samples of each action
        that a state must have.
        """
        self.objective, self.view, self.excused, self.ranges, self.cut = objective, view, excused, ranges, cut
        self.patience, self.deadline = patience, deadline
        queried = np.array([estimate.node is not None for estimate in view.estimates], dtype=bool)
        self.available = queried & (view.counts.min(axis=1) >= fewest)
        """Which states may be used, (m,): those that can be queried in this episode, and have samples enough."""
        self.deviations = np.sqrt(fit.variances)
        """Of one sample, (m, A)."""
        states, best = np.arange(len(view.phis)), fit.values.argmax(axis=1)
        errors = fit.variances / view.counts
        doubt = DOUBT * np.sqrt(errors + errors[states, best][:, None])
        agreed = np.minimum(fit.values - fit.values[states, best][:, None] + doubt, 0.0)
        agreed[states, best] = 0.0
        self.deltas = view.deltas.copy()
        self.deltas[:, :, 0] += agreed - fit.values
        self.searched = 0
        """Nodes of all searches so far."""

    def design(self, target: float, working: list[int]) -> Blueprint:
        """An experiment that would prove the target; ``working`` are states to begin with, and others join them."""
        accuracy = COARSEST
        while True:
            found = self._bound(accuracy, working, target)
            if found.bound <= target:
                break
            accuracy *= STEP
            if accuracy < FINEST:
                return Blueprint(0.0, found, [])
            if self.tired:
                return Blueprint(accuracy, found, [])
        proved = self._search(self._program(accuracy, working)[0], certificate=True)
        tree = proved.certificate
        assert tree is not None
        leaves = _leaves(tree, working) if proved.bound <= target else []
        cases: list[PlannedCase] = []
        for choices in leaves if len(leaves) <= MOST_CASES else []:
            if self.deadline.passed:
                return Blueprint(accuracy, proved, [])
            cases.append(self._case(choices, accuracy, working, target))
        return Blueprint(accuracy, proved, cases)

    @property
    def tired(self) -> bool:
        """Whether searches have taken too long."""
        return self.searched >= self.patience or self.deadline.passed

    def radii(self, accuracy: float) -> Array:
        """The radii of all temporal differences at that accuracy, (m, A)."""
        rare = RARE * accuracy**2 * self.view.widths[:, None]
        return np.asarray(np.maximum(accuracy * self.deviations + rare, TINY * (1 + self.view.radius)))

    def _bound(self, accuracy: float, working: list[int], target: float) -> Solution:
        """The bound at an accuracy; states of the table that its θ violates join the working ones."""
        allowed = self.radii(accuracy) + self.excused
        for _ in range(TURNS):
            found = self._search(self._program(accuracy, working)[0])
            if found.theta is None or found.bound <= target or self.tired:
                break
            if self.cut(found.theta):
                continue
            values = self.deltas @ np.concatenate([[1.0], found.theta])
            missed = np.maximum(-(values + allowed).max(axis=1), (values - allowed).max(axis=1)) / allowed.max(axis=1)
            missed[working] = missed[~self.available] = 0.0
            worst = np.argsort(-missed)[: max(1, len(self.objective) // 2)]
            more = [int(i) for i in worst if missed[i] > VIOLATED]
            if not more:
                break
            working += more
        return found

    def _program(
        self, accuracy: float, working: list[int], choices: Mapping[int, int] | None = None
    ) -> tuple[Program, list[tuple[int, int, float]]]:
        """T1-T3 of the working states at an accuracy, with choices in place of the disjunctions if they are given.

        And what its last rows are: states, actions and signs.
        """
        allowed = self.radii(accuracy) + self.excused
        deltas, some = self.deltas[working], allowed[working]
        values, ends = self.ranges()
        width = deltas.shape[-1]
        chosen = list((choices or {}).items())
        below = np.array([-self.deltas[pair][1:] for pair in chosen]).reshape(-1, width - 1)
        below_ends = np.array([allowed[pair] + self.deltas[pair][0] for pair in chosen])
        rows = np.concatenate([values, deltas[:, :, 1:].reshape(-1, width - 1), below])
        rhs = np.concatenate([ends, (some - deltas[:, :, 0]).ravel(), below_ends])
        kinds = [(i, action, 1.0) for i in working for action in range(deltas.shape[1])]
        kinds += [(i, action, -1.0) for i, action in chosen]
        if choices is not None or not working:
            return Program(self.objective, self.view.radius, rows, rhs), kinds
        largest = some.max(axis=1)
        forms = deltas * (largest[:, None] / some)[:, :, None]
        return Program(self.objective, self.view.radius, rows, rhs, forms, largest), kinds

    def _search(self, program: Program, certificate: bool = False) -> Solution:
        left = self.deadline.remaining
        seconds = None if left == math.inf else left
        found = Search(program).solve(gap=GAP, node_limit=NODES, time_limit=seconds, certificate=certificate)
        self.searched += found.nodes
        return found

    def _case(self, choices: Mapping[int, int], accuracy: float, working: list[int], target: float) -> PlannedCase:
        """The coarsest measurement that proves the target in a case: where an action is far from optimal, little is
        needed to exclude it."""
        low, high = accuracy, COARSEST
        while high / low > FINE:
            middle = math.sqrt(low * high)
            enough = self._search(self._program(middle, working, choices)[0]).bound <= target
            low, high = (middle, high) if enough else (low, middle)
        program, kinds = self._program(CAREFUL * low, working, choices)
        leaf = self._search(program, certificate=True).certificate
        assert leaf is not None
        first, weights = len(program.rows) - len(kinds), dict[Pair, float]()
        for entry in range(int(leaf.start[0]), int(leaf.start[1])):
            if int(leaf.index[entry]) >= first:
                i, action, sign = kinds[int(leaf.index[entry]) - first]
                weights[i, action] = weights.get((i, action), 0.0) + sign * float(leaf.value[entry])
        large = max(map(abs, weights.values()), default=0.0)
        return PlannedCase(choices, {pair: w for pair, w in weights.items() if abs(w) > WORTH * large}, low)


def _leaves(tree: BoundTree, working: list[int]) -> list[dict[int, int]]:
    """The actions that are chosen at the leaves of a tree."""
    leaves = []
    for node in np.flatnonzero(~np.isnan(tree.bound)).tolist():
        choices = dict[int, int]()
        while node > 0:
            choices[working[int(tree.form[node])]] = int(tree.choice[node])
            node = int(tree.parent[node])
        leaves.append(choices)
    return leaves
