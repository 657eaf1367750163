"""A lower bound on the misfit where states cannot be listed: is realizability refuted by what TensorPlan measures?

TensorPlan plans as if features missed v* by η at most (TP' for q*), η = 0 at first.  Where no θ in the ball agrees with
what it measured, they miss by more: min_{‖θ‖ <= B} max_s |v*(s) - <φ(s), θ>| > η.  Then the least η that agrees with
these measurements is tried, and so on.  Where some θ agrees nothing follows: the states that were not measured may say
otherwise.

Without randomness all this is certain.  With it each run is wrong with a small probability; what a run says about
larger η than its own is a guess, since the radii of its estimates were made for its own, and counts once a run with
that η was refuted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tensorplan.core import Certificate, Problem
from tensorplan.core.errors import NotRealizable
from tensorplan.diagnosis.clock import Clock
from tensorplan.diagnosis.guarantee import rounded_down
from tensorplan.diagnosis.targets import UNLIMITED
from tensorplan.loop import Driver, Streams
from tensorplan.planners.linear_q.tensorplan_q import TensorPlanQ
from tensorplan.planners.tensorplan.planner import TensorPlan
from tensorplan.planners.tensorplan.refute import CLOSE
from tensorplan.planners.tensorplan.trace import Iteration
from tensorplan.problems.simulate import draw_start

NODES = 200_000
"""Nodes of branch and bound in one round, after which planning is stopped."""

QUERYING = 0.7
"""The share of the time after which no more queries are made; the rest is for what follows from the answers."""

RUNS = 8
"""How many η are tried where nothing is random."""

RANDOM_RUNS = 4
"""The same where something is."""

FAILURE = 0.05
"""The probability that something is wrong, in all runs together."""


@dataclass(frozen=True)
class RefutationAttempt:
    """What planning with a budget of queries found out about the features."""

    kind: str
    """``"v"`` or ``"q"``."""
    dimension: int
    bound: float
    """B, the radius of the ball that was searched for a θ."""
    refuted: bool
    """Whether no θ in the ball realizes the values."""
    eta: float
    """The misfit within the ball is at least this."""
    needed_bound: float | None
    """Every θ that realizes what was measured is at least this long; None: random, not refuted, or no θ does."""
    failure: float
    """The probability that ``refuted`` or ``eta`` is wrong is at most this; 0 without randomness."""
    queries: int
    places: tuple[tuple[int, Any], ...]
    """(stage, state) of a set of states whose measurements contradict each other at the largest η that was refuted."""
    certificate: Certificate | None
    """Of the run that assumed realizability."""
    interrupted: bool = False
    """Whether Ctrl-C ended it."""
    out_of_time: bool = False
    """Whether the end of the time did: with more of it more might have been found."""

    @property
    def sentence(self) -> str:
        """The finding in words."""
        star = f"{self.kind}*"
        if not self.refuted:
            ended = "out of time" if self.out_of_time else self.certificate and self.certificate.status
            why = f" (planning ended: {ended})" if ended else ""
            return (
                f"not refuted by {self.queries:,} queries{why}: what was measured of {star} agrees with some θ, "
                f"‖θ‖ <= {self.bound:g}, which says nothing about other states"
            )
        sure = "for certain" if not self.failure else f"at confidence {1 - self.failure:g}"
        more = (
            ""
            if self.needed_bound is None
            else f"; to realize {star}, B must be at least {rounded_down(self.needed_bound):g}"
        )
        what = f"at least {rounded_down(self.eta):g}" if self.eta else "positive"
        ball = f"with ‖θ‖ <= {self.bound:g}"
        return f"refuted by {self.queries:,} queries, {sure}: {ball} the misfit of {star} is {what}{more}"


def try_to_refute(problem: Problem, kind: str, budget: int, seed: int, clock: Clock = UNLIMITED) -> RefutationAttempt:
    """Plan with at most ``budget`` queries in all, as if features missed v* ("v") or q* ("q") by η, for growing η."""
    certain = problem.deterministic
    first: _Planned | None = None
    last: NotRealizable | None = None
    proven, claim, high = 0.0, 0.0, np.inf  # the misfit is at least proven; a run with η = high was not refuted
    queries, failure, interrupted, out_of_time = 0, 0.0, False, False
    for number in range(RUNS if certain else RANDOM_RUNS):
        share = (budget - queries) // 2 if number else budget
        planned = _plan(problem, _planner(problem, kind, claim, share, clock), Streams.of(seed, number), clock)
        first = first or planned
        queries, failure = queries + planned.queries, failure + planned.failure
        interrupted, out_of_time = planned.interrupted, planned.out_of_time
        if planned.refutation is not None:
            last, guess = planned.refutation, planned.refutation.eta or 0.0
            proven = max(claim, guess / CLOSE) if certain else claim
        elif certain or last is None:
            break
        else:
            high = claim
        claim = guess if guess < high else (proven + high) / 2
        if claim <= proven or interrupted or out_of_time:
            break
    assert first is not None
    needed = first.refutation.bound if certain and first.refutation is not None else None
    return RefutationAttempt(
        kind=kind,
        dimension=problem.dimension,
        bound=problem.bound,
        refuted=last is not None,
        eta=proven,
        needed_bound=None if needed is None else needed / CLOSE,
        failure=failure if last is not None else 0.0,
        queries=queries,
        places=() if last is None else last.places,
        certificate=first.certificate,
        interrupted=interrupted,
        out_of_time=out_of_time and not interrupted,
    )


class _Planned(NamedTuple):
    """How one planning from the start state ended."""

    refutation: NotRealizable | None
    certificate: Certificate | None
    queries: int
    out_of_time: bool

    @property
    def failure(self) -> float:
        return 0.0 if self.certificate is None else self.certificate.failure

    @property
    def interrupted(self) -> bool:
        ended = self.certificate is not None and self.certificate.status == "interrupted"
        return ended or (self.refutation is not None and self.refutation.eta is None and not self.out_of_time)


def _plan(problem: Problem, planner: TensorPlan | TensorPlanQ, streams: Streams, clock: Clock) -> _Planned:
    driver = Driver(problem, planner, draw_start(problem, streams.world), streams)
    querying, stopped = clock.part(QUERYING), False

    def stop(spent: int) -> bool:
        nonlocal stopped
        stopped = stopped or querying.stops(lambda: f"planning with eta={planner.eta:.4g}: {spent:,} queries")
        return stopped

    driver.watch(stop)
    try:
        driver.begin()
    finally:
        driver.close()
    return _Planned(driver.refutation, driver.certificate, driver.charge(), stopped or clock.out)


def _planner(problem: Problem, kind: str, eta: float, budget: int, clock: Clock) -> TensorPlan | TensorPlanQ:
    def tell(iteration: Iteration) -> bool:
        def text() -> str:
            return f"planning with eta={eta:.4g}: round {iteration.number}, {iteration.queries:,} queries"

        return clock.stops(text) or iteration.nodes >= NODES

    which = TensorPlan if kind == "v" else TensorPlanQ
    return which(delta=_accuracy(problem), eta=eta, budget=budget, callback=tell)


def _accuracy(problem: Problem) -> float | None:
    """δ such that a run of the certified mode fails with its share of :data:`FAILURE`: ζ = δ/(2 · range of returns)."""
    low, high = problem.return_range()
    if problem.deterministic or not np.isfinite(high - low):
        return None
    least = min(high, problem.bound) - low  # δ must be below what v*(s0) can be above the least return
    return min(2 * (high - low) * FAILURE / RANDOM_RUNS, least / 10) if least > 0 else None
