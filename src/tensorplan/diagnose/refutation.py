"""A lower bound on the misfit where states cannot be listed: is realizability refuted by what TensorPlan measures?

TensorPlan plans as if features missed v* by η at most (TP' for q*), η = 0 at first.  Where no θ in the ball agrees with
what it measured, they miss by more: min_{‖θ‖ <= B} max_s |v*(s) - <φ(s), θ>| > η.  Then the least η that agrees with
these measurements is tried, and so on.  Where some θ agrees nothing follows: the states that were not measured may say
otherwise.

Without randomness all this is for certain.  With it each run is wrong with a small probability; what it says about
larger η than its own is a guess, since the radii of its estimates were made for its own, and counts once a run with
that η was refuted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorplan.core import Certificate, Problem
from tensorplan.core.errors import NotRealizable
from tensorplan.diagnose.guarantee import rounded_down

NODES = 200_000
"""Of the branch and bound in one round, after which planning is stopped."""

RUNS = 8
"""How many η are tried where nothing is random."""

RANDOM_RUNS = 4
"""The same where something is."""

FAILURE = 0.05
"""The probability that something is wrong, in all runs together."""


@dataclass(frozen=True)
class Trial:
    """What planning with a budget of queries said about the features."""

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
    """(stage, state) of a set of states that cannot all be right, for the largest η that was refuted."""
    certificate: Certificate | None
    """Of the run that assumed realizability."""
    interrupted: bool = False
    """Whether Ctrl-C ended it."""

    @property
    def sentence(self) -> str:
        """What follows."""
        star = f"{self.kind}*"
        if not self.refuted:
            why = "" if self.certificate is None else f" (planning ended: {self.certificate.status})"
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


def try_to_refute(
    problem: Problem, kind: str, budget: int, seed: int, progress: Callable[[str], None] | None = None
) -> Trial:
    """Plan with at most ``budget`` queries in all, as if features missed v* ("v") or q* ("q") by η, for growing η."""
    from tensorplan.planners.tensorplan.refute import CLOSE

    certain = problem.deterministic
    first: _Run | None = None
    last: NotRealizable | None = None
    proven, claim, high = 0.0, 0.0, np.inf  # the misfit is at least proven; a run with η = high was not refuted
    queries, failure, interrupted = 0, 0.0, False
    for number in range(RUNS if certain else RANDOM_RUNS):
        share = (budget - queries) // 2 if number else budget
        run = _Run(problem, kind, claim, share, [seed, number], progress)
        first = first or run
        queries, failure, interrupted = queries + run.queries, failure + run.failure, run.interrupted
        if run.refutation is not None:
            last, guess = run.refutation, run.refutation.eta or 0.0
            proven = max(claim, guess / CLOSE) if certain else claim
        elif certain or last is None:
            break
        else:
            high = claim
        claim = guess if guess < high else (proven + high) / 2
        if claim <= proven or interrupted:
            break
    assert first is not None
    needed = first.refutation.bound if certain and first.refutation is not None else None
    return Trial(
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
    )


class _Run:
    """One planning from the start state, and how it ended."""

    def __init__(
        self,
        problem: Problem,
        kind: str,
        eta: float,
        budget: int,
        seed: list[int],
        progress: Callable[[str], None] | None,
    ) -> None:
        from tensorplan.access import LocalAccess
        from tensorplan.planners.linear_q.tensorplan_q import TensorPlanQ
        from tensorplan.planners.tensorplan.planner import TensorPlan

        def tell(iteration: Any) -> bool:
            if progress is not None:
                progress(f"planning with eta={eta:.4g}: round {iteration.number}, {iteration.queries:,} queries")
            return bool(iteration.nodes >= NODES)

        planner = (TensorPlan if kind == "v" else TensorPlanQ)(
            delta=_accuracy(problem), eta=eta, budget=budget, callback=tell
        )
        world, simulator, mind = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3))
        access = LocalAccess(problem, problem.mdp.start(world), simulator)
        self.eta = eta
        self.refutation: NotRealizable | None = None
        policy: Any
        try:
            policy = planner.begin(access, mind)
        except NotRealizable as refutation:
            self.refutation, policy = refutation, refutation.policy
        self.queries = access.spent
        self.certificate: Certificate | None = getattr(policy, "certificate", None)
        self.failure = 0.0 if self.certificate is None else self.certificate.failure
        ended = self.certificate is not None and self.certificate.status == "interrupted"
        self.interrupted = ended or (self.refutation is not None and self.refutation.eta is None)


def _accuracy(problem: Problem) -> float | None:
    """δ such that a run of the certified mode fails with its share of :data:`FAILURE`: ζ = δ/(2 · range of returns)."""
    low, high = problem.return_range()
    if problem.deterministic or not np.isfinite(high - low):
        return None
    least = min(high, problem.bound) - low  # δ must be below what v*(s0) can be above the least return
    return min(2 * (high - low) * FAILURE / RANDOM_RUNS, least / 10) if least > 0 else None
