"""The lower bound of the certified mode: policies, their episodes, and the one that acts.

A policy of θ is frozen before its episodes: at a state in the table it takes argmax_a of the estimated l_a(θ), and
draws n2 fresh samples per action at others.  A few episodes show where it leads.  The one that seems to earn most has a
share of the queries, and one whose temporal differences promise to close the gap is evaluated until that is settled;
a lower bound rests on fresh episodes alone (:mod:`tensorplan.planners.evidence.evaluation`).
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
"""Queries in about a second of playing episodes."""

EVALUATION = 0.1
"""The share of the queries, and of the time, that goes into episodes of the policy that would act."""


@dataclass(eq=False)
class Bounds:
    """The bracket on v*(s0) while it is closed."""

    low: float
    """The least return that the problem declares."""
    high: float
    lower: float
    upper: float
    delta: float
    goal: float
    """The gap to be reached."""
    rounding: float

    @property
    def closed(self) -> bool:
        """Whether the bounds have met, as far as was asked for."""
        return self.upper - self.lower <= self.goal

    @property
    def contradicted(self) -> bool:
        """Whether the policy earns more than the upper bound: then the features do not realize v*."""
        return self.lower > self.upper + self.rounding

    @property
    def reported_upper(self) -> float:
        """What the bracket says: if the features do not realize v*, the range of returns alone."""
        return self.high if self.contradicted else max(self.upper, self.lower)


class Evaluator:
    """Tries policies out and evaluates them in one episode; ``best`` is the one that acts."""

    def __init__(self, player: EpisodePlayer, table: StateTable, ledger: Ledger, bounds: Bounds) -> None:
        self.player, self.table, self.ledger, self.bounds = player, table, ledger, bounds
        self.queries = player.queries
        self.best = RANDOM
        self.leader: Evaluation | None = None
        """The evaluation of the most promising policy, which gets its share of the queries."""
        self.earning: Evaluation | None = None
        """The evaluation that the lower bound rests on."""
        self.searched = 0.0
        """Seconds of searching, about, of which episodes get a share; counted, so that a seed repeats a run."""
        self.modelled = 0
        """Queries spent when the policy of experience was last tried."""

    @property
    def spread(self) -> float:
        """The standard deviation of the returns that the lower bound rests on."""
        visits = Visits() if self.earning is None else self.earning.visits
        return visits.error * math.sqrt(len(visits.returns)) if visits.returns else self.bounds.high - self.bounds.low

    def freeze(self, theta: Array, samples: int) -> Candidate:
        """The policy of θ, with the table as it is now, for states that have so many samples."""
        known = {key: e for key, e in self.table.estimates.items() if e.moments.n >= samples}
        deltas = np.array([e.moments.deltas(e.phi) for e in known.values()])
        best = np.argmax(deltas @ theta, axis=1).tolist() if known else []
        choices = dict(zip(known, best, strict=True))
        return Candidate("theta", lambda node: choices.get(key_of(node)), theta, samples)

    def try_out(self, candidate: Candidate) -> Visits:
        """A few episodes of a policy, which show where it leads."""
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
        """More episodes of a policy; it acts if its lower bound is the best."""
        try:
            evaluation.grow(most)
        finally:
            self.table.learn(evaluation.visits)
            if evaluation.lower > self.bounds.lower:
                self.bounds.lower, self.best, self.earning = evaluation.lower, evaluation.candidate, evaluation

    def evaluate(self, candidate: Candidate) -> None:
        """Episodes of a policy until the gap is closed, the upper bound is refuted, or more are of no use."""
        evaluation, bounds = self.begin(candidate), self.bounds
        while True:
            self.grow(evaluation)
            visits = evaluation.visits
            if bounds.contradicted or (bounds.closed and not self._suspicious(visits)) or not self._worthwhile(visits):
                break
        if self.leader is None or visits.mean >= self.leader.visits.mean:
            self.leader = evaluation

    def _suspicious(self, visits: Visits) -> bool:
        """Whether more seems to be earned than the upper bound allows, by so much that more episodes would prove it."""
        slack = max(self.bounds.delta / 256, self.bounds.rounding)
        return visits.mean - 3 * visits.error > self.bounds.upper + slack

    def _worthwhile(self, visits: Visits) -> bool:
        """Whether more episodes are likely to close the gap: the mean is well above what is needed."""
        room = self.bounds.goal - (self.bounds.upper - visits.mean)
        enough = self.bounds.delta / 8
        return room + 2 * visits.error > 0 and (len(visits.returns) < 2 * PILOT or room + visits.error > enough)

    def keep_share(self) -> None:
        """See to it that the policy that would act has its share of the queries, and of the time."""
        experience = self.queries.experience
        if self.queries.spent >= 2 * self.modelled and experience.size:
            self.modelled = self.queries.spent
            self.try_out(Candidate("model", experience.greedy()))
        leader = self.leader
        assert leader is not None
        while self._share_is_due(leader.visits):
            self.grow(leader)

    def _share_is_due(self, visits: Visits) -> bool:
        if visits.queries < EVALUATION * self.queries.asked:
            return True
        late = visits.queries < EVALUATION * self.searched * PER_SECOND
        return late and (len(visits.returns) < PILOT or 4 * visits.error > self.bounds.delta / 8)
