"""What TensorPlan needs: the paper's worst case beside what the modes ask for on a problem of that shape."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from tensorplan.core import Problem
from tensorplan.loop import run
from tensorplan.planners.printed.constants import Constants
from tensorplan.planners.tensorplan.planner import TensorPlan
from tensorplan.problems.random.layered import layered

STATES = 50
"""Per stage, of the problem that is measured."""


KINDS = (
    ("exact", "nothing random", 1, False),
    ("certified", "random rewards", 1, True),
    ("certified", "random steps and rewards", 3, True),
)
"""Mode, what is random, successors per pair, Bernoulli rewards."""


@dataclass(frozen=True)
class Need:
    """The queries of one episode."""

    mode: str
    what: str
    queries: int
    loss: float
    """v*(s0) - lower bound on the value of the policy that acts."""
    gap: float


def measured_needs(constants: Constants, seed: int = 0) -> list[Need]:
    """Episodes of the modes that can be run, on random layered problems with the A, d, H, δ and B of the constants.

    There is one for each of :data:`KINDS`, in that order; Ctrl-C ends it with those that are finished.
    """
    needs: list[Need] = []
    with suppress(KeyboardInterrupt):
        for mode, what, branching, noise in KINDS:
            problem = _problem(constants, branching, noise, seed)
            played = run(problem, TensorPlan(mode=mode, delta=constants.delta), seed=seed)
            if played.interrupted or not played.episodes:
                break
            (episode,) = played.episodes
            certificate = episode.certificate
            assert certificate is not None
            loss = problem.optimal_value(episode.start) - certificate.lower
            needs.append(Need(mode, what, episode.total_queries, loss, certificate.gap))
    return needs


def _problem(constants: Constants, branching: int, noise: bool, seed: int) -> Problem:
    """A layered problem with rewards so small that values up to B suffice."""
    return layered(
        constants.A,
        max(2, constants.d),
        states=STATES,
        horizon=constants.H,
        branching=branching,
        noise=noise,
        scale=min(1.0, 0.8 * constants.B / constants.H),
        bound=constants.B,
        seed=seed,
    )
