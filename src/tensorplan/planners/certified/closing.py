"""Closing the gap: where the next queries go.

    the fit         the parameter that all samples agree with best; its value at s0 is where the bounds should meet
    one move, whichever is due:
      explore       episodes of the optimistic policy, while the upper bound is far above the fit; the states they meet
                    join the table, and those that exclude the optimistic parameter cheaply are measured
      measure       an experiment designed to bring the upper bound near the fit: sums over a few states
      evaluate      episodes of the best policy
    once a policy is evaluated that should close the gap, the move with the larger error per query comes first.

Fit and design are estimates: they decide where samples go, not what is proved.  Where they do not help (features that
do not fit, searches that are too long, too many cases), the states that exclude the optimistic parameter are measured.
"""

from __future__ import annotations

import math

import numpy as np

from tensorplan.core import Array
from tensorplan.optimism import Solution
from tensorplan.planners.certified.design import Blueprint, Hypothesis, Pair
from tensorplan.planners.certified.evaluate import Bounds, Evaluator
from tensorplan.planners.certified.fit import FittedTheta, TableView, fit
from tensorplan.planners.certified.measuring import Measurements
from tensorplan.planners.certified.sums import EXTRA, Sum, samples_of
from tensorplan.planners.certified.survey import Surveyor
from tensorplan.planners.certified.table import Estimate
from tensorplan.planners.evidence.evaluation import Evaluation, Visits

EPISODES = 16
"""Episodes of a pilot run that looks for states."""

PILOTED = 0.25
"""Pilot runs go on while they have taken less than this share of the queries for measurements."""

EXPLORED = 0.3
"""The share of all queries for the optimistic policy, while the upper bound is far above the fit."""

CHEAP, CHEAP_SHARE = 200, 0.1
"""A state is measured while exploring if it takes at most so many samples, or such a share of the queries so far."""

READY = 0.7
"""A policy is evaluated when the upper bound is within this share of the goal above the fit."""

AIM, CLOSER = 0.35, 0.7
"""The share of the goal above the fit that an experiment aims at; and how much closer than before, once it is there."""

HUNT = 6
"""Designs in a row with weights that are not known well, after which states must have samples already: some of many
states with few samples always look better than they are."""

AFFORDABLE, SMALL = 3.0, 500
"""An experiment may take so many times the queries spent so far, or a small number in any case; otherwise it aims at a
wider bracket."""

WIDER, BEYOND = 1.5, 1.25
"""The least factor by which the aim is widened; and one for what would be out of reach with any number of samples."""

ENOUGH = 512
"""Samples of each action with which a state need not get more for the sake of the fit."""

SETTLED = 0.1
"""The error of a lower bound, as a share of the goal, below which more episodes do not help."""

DETAIL = 0.25
"""The table must have this share of the designed samples before the weights of a sum are fixed."""

THIN, GROWTH = 32, 3
"""Samples of a pair whose weights are not known well are drawn in batches: at first so many, then by such a factor."""

PATIENCE = 1.0
"""About the most seconds that the searches of one design take."""

DISAPPOINTING, LEARNED = 0.35, 1.2
"""A policy that earns less than the fit promises by this share of the goal is replaced, if the samples have grown by
such a factor since it was frozen."""

SAME = 1.02
"""The growth of the samples up to which a fit is kept."""

CLOSE = 0.02
"""The least distance of an aim above the fit, as a share of the goal."""


class Closing:
    """The moves of one episode."""

    fit: FittedTheta
    view: TableView

    def __init__(self, measurements: Measurements, evaluator: Evaluator, bounds: Bounds, root: Estimate, least: float):
        self.measurements, self.evaluator, self.bounds, self.root = measurements, evaluator, bounds, root
        self.table, self.sol, self.queries = measurements.table, measurements.sol, evaluator.queries
        self.surveyor = Surveyor(measurements, least)
        self.sum: Sum | None = None
        self.working: list[Estimate] = []
        """States that supported the last design."""
        self.optimist: Array | None = None
        """[1, θ] of the model's optimum, if the table did not determine v*(s0)."""
        self.visits = Visits()
        """Of the last pilot run."""
        self.measuring = self.piloting = self.exploring = 0
        """Queries for measurements, for pilot runs, and for the optimistic policy."""
        self.details = 0
        """Designs in a row whose weights were not known well."""
        self.seen = 0
        """Samples in the table when the parameter was fitted."""
        self.frozen = 0
        """Queries for the table and for measurements when the last policy was promoted."""

    # ------------------------------------------------------------------ what is known

    @property
    def value(self) -> float:
        """<φ(s0), θ> of the fit."""
        return float(self.root.phi @ self.fit.theta[1:])

    def look(self, optimum: Array) -> None:
        """Fit the parameter to the table, unless it has hardly changed."""
        if self.seen * SAME >= self.table.drawn:
            return
        starts = [optimum] if self.optimist is None else [optimum, self.optimist]
        if self.seen:
            starts.append(self.fit.theta)
        self.seen = self.table.drawn
        self.view = TableView.of(self.table.estimates.values(), self.sol.radius)
        self.fit = fit(self.view, starts)

    def prove(self) -> float:
        """The upper bound on <φ(s0), θ*> by the sum under way; infinite without one, -inf if no case is possible."""
        if self.sum is None:
            return math.inf
        return self.sum.prove(self.sol, self.root.phi, self.measurements.box)

    # ------------------------------------------------------------------ moves

    def move(self, found: Solution) -> None:
        """The next move."""
        assert found.theta is not None
        optimum = np.concatenate([[1.0], found.theta])
        if not self.visits.returns:
            self._pilot(optimum)
        self.look(optimum)
        leader, promoted = self.evaluator.leader, self.evaluator.promoted
        if not promoted and self.piloting <= PILOTED * self.measuring:
            self._pilot(self.fit.theta)
            self.look(optimum)
        excess, goal = self.bounds.upper - self.value, self.bounds.goal
        if promoted and leader is not None and self._disappointing():
            self._promote()
        elif promoted and leader is not None and self._evaluation_is_due(leader):
            self.evaluator.grow(leader)
        elif not promoted and excess <= READY * goal:
            self._promote()
        elif self.sum is not None and not self.sum.finished and self.sum.target < self.bounds.upper:
            self._grow(self.sum)
        elif not promoted and excess > goal and self.exploring < EXPLORED * self.queries.spent:
            self._explore(optimum)
        else:
            self._measure(optimum, excess, promoted)

    def _evaluation_is_due(self, leader: Evaluation) -> bool:
        """Whether the lower bound has the larger error per query."""
        error, visits = leader.visits.mean - leader.lower, leader.visits
        return error / visits.queries >= (self.bounds.upper - visits.mean) / (self.measuring + 1)

    def _pilot(self, theta: Array) -> None:
        """A pilot run of the policy of θ."""
        before = self.queries.spent
        self.visits = self.evaluator.pilot(theta, EPISODES)
        self.piloting += self.queries.spent - before
        if not self.evaluator.promoted:
            self.evaluator.challenge_leader(self.evaluator.freeze(theta), self.visits)

    def _promote(self) -> None:
        self.visits = self.evaluator.promote(self.fit.theta)
        self.frozen = self._learned

    @property
    def _learned(self) -> int:
        """Queries that were not made for evaluations."""
        leader = self.evaluator.leader
        return self.queries.made - (0 if leader is None else leader.visits.queries)

    def _disappointing(self) -> bool:
        """Whether the policy under evaluation should be replaced."""
        leader = self.evaluator.leader
        assert leader is not None
        visits = leader.visits
        less = self.value - visits.mean - visits.error
        return less > DISAPPOINTING * self.bounds.goal and self._learned > LEARNED * self.frozen

    def _explore(self, optimum: Array) -> None:
        """Episodes of the optimistic policy; states that exclude its parameter cheaply are measured."""
        before = self.queries.spent
        self.evaluator.pilot(optimum, EPISODES // 2)
        self.look(optimum)
        self._survey(optimum, max(CHEAP, CHEAP_SHARE * self.queries.spent))
        self.exploring += self.queries.spent - before

    def _survey(self, optimum: Array, most: float = math.inf) -> None:
        """Measure states that exclude the optimistic parameter; if there are none, refine the table."""
        before = self.queries.spent
        if not self.surveyor.exclude(optimum, self.view, self.fit, most) and most == math.inf:
            for estimate, _ in self.table.visited(self.visits):
                self.table.fill(estimate, 2 * estimate.moments.n)
        self.measuring += self.queries.spent - before

    # ------------------------------------------------------------------ experiments

    def _measure(self, optimum: Array, excess: float, promoted: bool) -> None:
        """Design an experiment, and begin it; where none is within reach, survey, or evaluate."""
        model = self._model()
        aim = CLOSER * max(excess, CLOSE * self.bounds.goal) if promoted else AIM * self.bounds.goal
        while self.value + aim < self.bounds.upper:
            target = self.value + aim
            design = self._design(model, target)
            if not design.accuracy:
                self.details = 0
                if self._find_states(design.found):
                    return
                aim = max(WIDER * aim, BEYOND * (design.found.bound - self.value))
                continue
            price = 2 * (math.log(1 / self.measurements.ledger.next("sum")) + EXTRA) / design.accuracy**2
            affordable = max(AFFORDABLE * self.queries.spent, SMALL)
            if price <= affordable:
                self._begin(design, model, target, optimum)
                return
            aim *= max(WIDER, math.sqrt(price / affordable))
        leader = self.evaluator.leader
        if promoted and leader is not None and leader.visits.mean - leader.lower > SETTLED * self.bounds.goal:
            self.evaluator.grow(leader)
        else:
            self._survey(optimum)

    def _begin(self, design: Blueprint, model: Hypothesis, target: float, optimum: Array) -> None:
        """Begin an experiment, if the table has samples enough to fix its weights."""
        if not design.cases:
            self._survey(optimum)
        elif not any(case.weights for case in design.cases):
            pass  # ranges of values suffice, which need no samples
        elif self._detail(design, model):
            self.details += 1
        else:
            self.details = 0
            self.sum = Sum.begin(design, model, self.measurements, target)
            self._grow(self.sum)

    def _model(self) -> Hypothesis:
        sol, cut, patience = self.sol, self.measurements.cut, self.sol.nodes_in(PATIENCE)
        excused, fewest = sol.step * sol.eta, THIN if self.details >= HUNT else 0
        return Hypothesis(
            self.root.phi, self.view, self.fit, excused, self._ranges, cut, patience, sol.deadline, fewest
        )

    def _ranges(self) -> tuple[Array, Array]:
        """T2 of the states that have it."""
        kinds = [i for i, source in enumerate(self.sol.row_sources) if source.kind in ("low", "high")]
        normals = np.array([self.sol.rows[i] for i in kinds]).reshape(-1, self.sol.dimension)
        return normals, np.array([self.sol.bound(i) for i in kinds])

    def _design(self, model: Hypothesis, target: float) -> Blueprint:
        """An experiment with states that can be queried."""
        numbers = self.view.numbers
        working = [numbers[estimate] for estimate in self.working if estimate in numbers]
        working = [i for i in working if model.available[i]]
        design = model.design(target, working)
        self.working = [self.view.estimates[i] for i in working]
        self.evaluator.searched += model.searched / self.sol.nodes_in(1.0)
        model.searched = 0
        return design

    def _find_states(self, found: Solution) -> bool:
        """The table does not determine v*(s0): look for states by the model's optimistic policy, or draw more samples.

        Whether anything was found or drawn.
        """
        if found.theta is None or self.exploring > EXPLORED * self.queries.spent:
            return False
        self.optimist = np.concatenate([[1.0], found.theta])
        before, known = self.queries.spent, len(self.table.estimates)
        self.evaluator.pilot(self.optimist, EPISODES)
        few = [estimate for estimate in self.working if estimate.moments.n < ENOUGH]
        grown = len(self.table.estimates) > known
        if not grown:
            for estimate in few:
                self.table.fill(estimate, 2 * estimate.moments.n)
        self.exploring += self.queries.spent - before
        return grown or bool(few)

    def _detail(self, design: Blueprint, model: Hypothesis) -> bool:
        """Draw samples of pairs whose weights are not known well; False if there are none."""
        share, needed = self.measurements.ledger.next("sum"), dict[Pair, float]()
        for case in design.cases:
            for pair, n in samples_of(case, model, share).items():
                needed[pair] = max(needed.get(pair, 0.0), n)
        thin: dict[Estimate, list[int]] = {}
        for (i, action), n in needed.items():
            estimate = self.view.estimates[i]
            have = int(estimate.moments.counts[action])
            more = math.ceil(min(DETAIL * n, max(THIN, GROWTH * have))) - have
            if more > 0:
                thin.setdefault(estimate, [0] * len(estimate.moments.counts))[action] = more
        before = self.queries.spent
        for estimate, counts in thin.items():
            self.table.draw(estimate, counts)
        self.measuring += self.queries.spent - before
        return bool(thin)

    def _grow(self, running: Sum) -> None:
        """More samples for the cases of a sum that have not met its target."""
        before = self.queries.spent
        for estimate, counts, tallies in running.grow():
            self.table.draw(estimate, counts, tallies)
        self.measuring += self.queries.spent - before
