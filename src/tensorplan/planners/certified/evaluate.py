"""The lower bound of the certified mode: policies, their pilot runs and evaluations, and the one that acts.

The policy of θ is frozen before its episodes: at a state in the table it takes argmax_a of the estimated l_a(θ), and
elsewhere it selects an action by a few fresh samples, once (see ``Candidate`` in
:mod:`tensorplan.planners.evidence.evaluation`).  Beside it competes the policy that is optimal for the transitions
seen, which ignores features.  A lower bound uses fresh episodes only, and bets that were tuned by a pilot run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from tensorplan.core import Array, Node
from tensorplan.core.intervals import BETS, tuned_bets
from tensorplan.planners.certified.table import Estimate, StateTable
from tensorplan.planners.evidence.challenge import PILOT
from tensorplan.planners.evidence.evaluation import RANDOM, Candidate, EpisodePlayer, Evaluation, Visits, key_of
from tensorplan.planners.evidence.ledger import Ledger

EVALUATION = 0.1
"""The share of the queries, and of the time, for episodes of the most promising policy."""

PER_SECOND = 500_000
"""Queries made in about a second of episodes."""

BETTER = 3.0
"""By how many standard errors a policy must earn more than the leader to replace it."""

SHARPENINGS = 12
"""Most rounds in which the states that decide how good a policy is get more samples."""

HALF = 0.4
"""About the share of the expected loss at some states that twice as many samples there avoid."""

LOG = 6.0
"""About ln(1/α) of a lower bound, for plans."""

ROOM = 0.65
"""The share of the goal that is left for the loss of a policy and for the error of its returns."""


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

    def __init__(self, player: EpisodePlayer, table: StateTable, ledger: Ledger, bounds: Bounds, first: int) -> None:
        self.player, self.table, self.ledger, self.bounds = player, table, ledger, bounds
        self.queries = player.queries
        self.first = first
        """Samples per action with which a state enters the table, and which select an action elsewhere."""
        self.best = RANDOM
        self.leader: Evaluation | None = None
        """The evaluation of the most promising policy, which gets a share of the queries."""
        self.promoted = False
        """Whether the leader is a policy that is expected to close the gap."""
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

    # ------------------------------------------------------------------ policies

    def pilot(self, theta: Array, episodes: int) -> Visits:
        """Episodes of the policy of θ that put every state they meet into the table."""
        chosen: dict[Any, int] = {}

        def known(node: Node) -> int:
            key = key_of(node)
            action = chosen.get(key)
            if action is None:
                estimate = self.table.at(node, key)
                self.table.fill(estimate, self.first)
                action = chosen[key] = int(np.argmax(estimate.values(theta)))
            return action

        visits = Visits()
        self.player.play(Candidate("pilot", known), episodes, visits)
        return visits

    def freeze(self, theta: Array) -> Candidate:
        """The policy of θ with the current table."""
        known = {key: e for key, e in self.table.estimates.items() if e.known}
        deltas = np.array([e.moments.deltas(e.phi) for e in known.values()])
        best = np.argmax(deltas @ theta, axis=1).tolist() if known else []
        choices = dict(zip(known, best, strict=True))
        return Candidate("theta", lambda node: choices.get(key_of(node)), theta, self.first)

    def promote(self, theta: Array) -> Visits:
        """Begin to evaluate the best policy that there is: that of θ, or the best one for the transitions seen."""
        visits, rival, played = self.pilot(theta, PILOT), None, Visits()
        if self.queries.experience.size:
            self.modelled = self.queries.spent
            rival = Candidate("model", self.queries.experience.greedy())
            self.player.play(rival, PILOT, played)
            self.table.learn(played)
        if rival is not None and played.mean >= visits.mean:
            self.leader = self.begin(rival, played)
        else:
            visits = self._sharpen(theta, visits)
            self.leader = self.begin(self.freeze(theta), visits)
        self.promoted = True
        self.grow(self.leader)
        return visits

    def _sharpen(self, theta: Array, visits: Visits) -> Visits:
        """More samples where the choice of an action is doubtful and matters, as long as that costs less than it saves.

        What a better policy saves are episodes: their number grows with the inverse square of what its loss leaves of
        the goal.
        """
        bounds = self.bounds
        for turn in range(SHARPENINGS):
            visited = self.table.visited(visits)
            weights = np.array([weight for _, weight in visited])
            losses = expected_losses([estimate for estimate, _ in visited], weights, theta)
            order = np.argsort(-losses)
            half = int(np.searchsorted(np.cumsum(losses[order]), losses.sum() / 2)) + 1
            doubtful = [visited[i][0] for i in order[:half].tolist() if visited[i][0].node is not None]
            saved = HALF * float(losses[order[:half]].sum())
            room = max(ROOM * bounds.goal - float(losses.sum()), bounds.goal / 10)
            episodes = 2 * LOG * float(np.var(visits.returns)) / room**2
            worth = 2 * episodes * float(weights.sum()) * saved / room
            price = sum(int(e.moments.counts.sum()) for e in doubtful)
            if not doubtful or price > worth or saved <= bounds.rounding:
                break
            for estimate in doubtful:
                self.table.fill(estimate, 2 * estimate.moments.n)
            if turn % 3 == 2:
                visits = self.pilot(theta, PILOT)
        return visits

    # ------------------------------------------------------------------ evaluations

    def begin(self, candidate: Candidate, pilot: Visits | None = None) -> Evaluation:
        """An evaluation of a policy, with its share of the failure probability; bets are tuned by a pilot run."""
        number, share = self.ledger.take("policy")
        bets = BETS
        if pilot is not None and len(pilot.returns) > 1:
            room = ROOM / 2 * self.bounds.goal
            planned = 2 * math.log(1 / share) * float(np.var(pilot.returns)) / room**2
            bets = tuned_bets(pilot.returns, self.bounds.low, max(PILOT, math.ceil(planned)), share)
        return Evaluation(candidate, self.player, number, share, self.bounds.low, bets)

    def try_out(self, candidate: Candidate) -> None:
        """A pilot run of a policy, which becomes the leader if it earns more."""
        visits = Visits()
        self.player.play(candidate, PILOT, visits)
        self.table.learn(visits)
        self.challenge_leader(candidate, visits)

    def challenge_leader(self, candidate: Candidate, visits: Visits) -> None:
        """Replace the leader by a policy that has earned more in a pilot run."""
        if self.leader is not None:
            leading, few = self.leader.visits, len(visits.returns)
            error = max(visits.error, leading.error * math.sqrt(len(leading.returns) / few)) if few else math.inf
            if visits.mean <= leading.mean + BETTER * math.hypot(leading.error, error):
                return
        self.leader, self.promoted = self.begin(candidate, visits), False

    def grow(self, evaluation: Evaluation, most: float = math.inf) -> None:
        """More episodes of a policy, which becomes ``best`` if its lower bound is the largest."""
        try:
            evaluation.grow(most)
        finally:
            self.table.learn(evaluation.visits)
            if evaluation.lower > self.bounds.lower:
                self.bounds.lower, self.best, self.earning = evaluation.lower, evaluation.candidate, evaluation

    @property
    def suspicious(self) -> bool:
        """Whether the mean return exceeds the upper bound by so much that more episodes would prove it."""
        if self.leader is None or not self.leader.visits.returns:
            return False
        slack, visits = max(self.bounds.delta / 256, self.bounds.rounding), self.leader.visits
        return visits.mean - 3 * visits.error > self.bounds.upper + slack

    def keep_share(self) -> None:
        """Run episodes of the most promising policy until it has its share of the queries, and of the time."""
        experience = self.queries.experience
        if self.queries.spent >= 2 * self.modelled and experience.size and not self.promoted:
            self.modelled = self.queries.spent
            self.try_out(Candidate("model", experience.greedy()))
        leader = self.leader
        while leader is not None and self._share_is_due(leader.visits):
            self.grow(leader)

    def _share_is_due(self, visits: Visits) -> bool:
        if visits.queries < EVALUATION * self.queries.made:
            return True
        late = visits.queries < EVALUATION * self.searched * PER_SECOND
        return late and (len(visits.returns) < PILOT or 4 * visits.error > self.bounds.delta / 8)


def expected_losses(estimates: Sequence[Estimate], weights: Array, theta: Array) -> Array:
    """The expected losses by mistaking the best action at some states, weighted by visits, (m,)."""
    if not estimates:
        return np.zeros(0)
    values = np.array([e.values(theta) for e in estimates])
    variances = np.array([e.variances(theta) for e in estimates])
    counts = np.array([e.moments.counts for e in estimates])
    pooled = variances.mean(axis=0)
    errors = ((counts - 1) * variances + 2 * pooled) / (counts + 1) / counts
    rows, best = np.arange(len(values)), values.argmax(axis=1)
    ahead = values[rows, best][:, None] - values
    deviations = np.sqrt(errors + errors[rows, best][:, None])
    z = ahead / np.maximum(deviations, math.ulp(0.0))
    expected = deviations * (np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) - z * ndtr(-z))
    expected[rows, best] = 0.0
    return np.asarray(weights * expected.max(axis=1))
