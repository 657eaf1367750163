"""The lower bound of the certified mode: the evaluation of policies, and the choice of the one that acts.

The policy of θ is frozen before its episodes: at a state in the table it takes argmax_a of the estimated l_a(θ), and
draws n2 fresh samples per action at others.  Each has a pilot run.  The one with the best mean return gets a share of
the queries, and one whose temporal differences promise to close the gap is evaluated until it does or cannot; a lower
bound uses fresh episodes only (:mod:`tensorplan.planners.evidence.evaluation`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensorplan.core import Array
from tensorplan.planners.evidence.challenge import PILOT
from tensorplan.planners.evidence.evaluation import RANDOM, Candidate, EpisodePlayer, Evaluation, Visits, key_of
from tensorplan.planners.evidence.ledger import Ledger
from tensorplan.planners.tensorplan.measuring import StateTable

PER_SECOND = 500_000
"""Queries made in about a second of episodes."""

EVALUATION = 0.1
"""The share of the queries, and of the time, for episodes of the most promising policy."""


@dataclass(eq=False)
class Bounds:
    """The bracket on v*(s0) during planning."""

    low: float
    """The least declared return; ``high`` is the largest."""
    high: float
    lower: float
    upper: float
    delta: float
    goal: float
    """The gap at which planning ends."""
    rounding: float

    @property
    def closed(self) -> bool:
        """Whether the gap is at most the goal."""
        return self.upper - self.lower <= self.goal

    @property
    def contradicted(self) -> bool:
        """Whether the lower bound exceeds the upper one: then the features do not realize v*."""
        return self.lower > self.upper + self.rounding

    @property
    def reported_upper(self) -> float:
        """The upper end of the bracket; the largest declared return if the features do not realize v*."""
        return self.high if self.contradicted else max(self.upper, self.lower)


class Evaluator:
    """Pilot runs and evaluations of policies in one episode; ``best`` is the policy that acts."""

    def __init__(self, player: EpisodePlayer, table: StateTable, ledger: Ledger, bounds: Bounds) -> None:
        self.player, self.table, self.ledger, self.bounds = player, table, ledger, bounds
        self.queries = player.queries
        self.best = RANDOM
        self.leader: Evaluation | None = None
        """The evaluation of the most promising policy, which gets a share of the queries."""
        self.earning: Evaluation | None = None
        """The evaluation that gave the lower bound."""
        self.searched = 0.0
        """Approximate seconds of search, counted in nodes rather than timed, so that runs are reproducible."""
        self.modelled = 0
        """Queries spent when the greedy policy of the experience was last tried."""

    @property
    def spread(self) -> float:
        """The standard deviation of the returns that gave the lower bound."""
        visits = Visits() if self.earning is None else self.earning.visits
        return visits.error * math.sqrt(len(visits.returns)) if visits.returns else self.bounds.high - self.bounds.low

    def freeze(self, theta: Array, samples: int) -> Candidate:
        """The policy of θ with the current table, restricted to states with at least ``samples`` samples."""
        known = {key: e for key, e in self.table.estimates.items() if e.moments.n >= samples}
        deltas = np.array([e.moments.deltas(e.phi) for e in known.values()])
        best = np.argmax(deltas @ theta, axis=1).tolist() if known else []
        choices = dict(zip(known, best, strict=True))
        return Candidate("theta", lambda node: choices.get(key_of(node)), theta, samples)

    def try_out(self, candidate: Candidate) -> Visits:
        """A pilot run of a policy."""
        visits = Visits()
        self.player.play(candidate, PILOT, visits)
        self.table.learn(visits)
        if self.leader is None or visits.mean > self.leader.visits.mean + self.leader.visits.error + visits.error:
            self.leader = self.begin(candidate)
        return visits

    def begin(self, candidate: Candidate) -> Evaluation:
        """An evaluation of a policy, with its share of the failure probability."""
        return Evaluation(candidate, self.player, *self.ledger.policy(), self.bounds.low)

    def grow(self, evaluation: Evaluation, most: float = math.inf) -> None:
        """More episodes of a policy, which becomes ``best`` if its lower bound is the largest."""
        try:
            evaluation.grow(most)
        finally:
            self.table.learn(evaluation.visits)
            if evaluation.lower > self.bounds.lower:
                self.bounds.lower, self.best, self.earning = evaluation.lower, evaluation.candidate, evaluation

    def evaluate(self, candidate: Candidate) -> None:
        """Episodes of a policy until the gap is closed, the upper bound is refuted, or more would not help."""
        evaluation, bounds = self.begin(candidate), self.bounds
        while True:
            self.grow(evaluation)
            visits = evaluation.visits
            if bounds.contradicted or (bounds.closed and not self._suspicious(visits)) or not self._worthwhile(visits):
                break
        if self.leader is None or visits.mean >= self.leader.visits.mean:
            self.leader = evaluation

    def _suspicious(self, visits: Visits) -> bool:
        """Whether the mean return exceeds the upper bound by so much that more episodes would prove it."""
        slack = max(self.bounds.delta / 256, self.bounds.rounding)
        return visits.mean - 3 * visits.error > self.bounds.upper + slack

    def _worthwhile(self, visits: Visits) -> bool:
        """Whether more episodes are likely to close the gap, given the mean return."""
        room = self.bounds.goal - (self.bounds.upper - visits.mean)
        enough = self.bounds.delta / 8
        return room + 2 * visits.error > 0 and (len(visits.returns) < 2 * PILOT or room + visits.error > enough)

    def keep_share(self) -> None:
        """Run episodes of the most promising policy until it has its share of the queries, and of the time."""
        experience = self.queries.experience
        if self.queries.spent >= 2 * self.modelled and experience.size:
            self.modelled = self.queries.spent
            self.try_out(Candidate("model", experience.greedy()))
        leader = self.leader
        assert leader is not None
        while self._share_is_due(leader.visits):
            self.grow(leader)

    def _share_is_due(self, visits: Visits) -> bool:
        if visits.queries < EVALUATION * self.queries.made:
            return True
        late = visits.queries < EVALUATION * self.searched * PER_SECOND
        return late and (len(visits.returns) < PILOT or 4 * visits.error > self.bounds.delta / 8)
