"""What came of it: certificates, episodes, runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tensorplan.core.errors import BadInput
from tensorplan.core.mdp import State


@dataclass(frozen=True)
class Certificate:
    """A bracket on v*(s0) that the planner vouches for: lower <= v*(s0) <= upper.

    ``lower`` is a lower bound on the expected return of the policy that acts, and rests on nothing but the simulator;
    ``upper`` rests on what ``assumes`` says.
    """

    upper: float
    lower: float
    status: str
    """``"certified"``: the gap is as small as was asked for, and an attempt to refute the bracket has failed; else what
    ended the planning: ``"budget"`` (spent before the gap was closed, or before that attempt was over),
    ``"interrupted"``, ``"stopped"`` (by a callback), ``"limit"`` (of double precision), ``"eta"`` (what is left of the
    gap is what the misspecification eta explains), ``"doubtful"`` (the gap has closed, and ``warnings`` say why that
    proves little), ``"refuted"``, or ``"failed"`` by an error."""
    failure: float = 0.0
    """The probability that the bracket is wrong is at most this; in a session, the probability that any of its
    brackets is."""
    lower_failure: float = 0.0
    """The part of ``failure`` that is the lower bound's."""
    assumes: str = ""
    """What the upper bound rests on; empty if on nothing but the declared ranges."""
    explained: float = 0.0
    """How much of the gap the allowed misspecification eta explains."""
    warnings: tuple[str, ...] = ()
    """Reasons to doubt what the upper bound assumes."""
    discount: float = 1.0
    """Of the returns that the bracket is about."""
    proof: Any = field(default=None, repr=False, compare=False)
    """What ``tensorplan check`` verifies, or None."""

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise BadInput(f"a bracket [{self.lower!r}, {self.upper!r}] is none: lower must not be above upper")

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower

    @property
    def upper_failure(self) -> float:
        """The part of ``failure`` that is the upper bound's."""
        return self.failure - self.lower_failure

    @property
    def sentence(self) -> str:
        """What is claimed, and under which assumption."""
        sure = f", at confidence {1 - self.failure:.4g}" if self.failure else ""
        if not self.assumes:
            return f"v*(s0) is in [{self.lower:.6g}, {self.upper:.6g}]{sure}, whatever the features"
        return (
            f"v*(s0) is in [{self.lower:.6g}, {self.upper:.6g}]{sure}, if {self.assumes}; "
            f"the policy earns at least {self.lower:.6g} in any case"
        )


@dataclass(frozen=True)
class Episode:
    """One closed-loop episode."""

    start: State
    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    queries: tuple[int, ...]
    """Queries charged per call of the planner, in order; a call that was cut short comes last."""
    stopped: str
    """Why it ended: ``"end"`` (END or the horizon), ``"budget"``, ``"max_steps"``, ``"interrupted"``, or ``"failed"``
    by an error."""
    seconds: float
    discount: float = 1.0
    certificate: Certificate | None = None
    trace: Any = None
    """What the planner recorded of its planning, where it was asked to."""

    @property
    def total_reward(self) -> float:
        """The return of the episode, Σ_t γ^t R_t."""
        return math.fsum(self.discount**t * reward for t, reward in enumerate(self.rewards))

    @property
    def steps(self) -> int:
        """The number of actions executed."""
        return len(self.actions)

    @property
    def total_queries(self) -> int:
        """Queries charged in the whole episode."""
        return sum(self.queries)

    @property
    def complete(self) -> bool:
        """Whether the episode ran to its end, so that its return is that of the policy."""
        return self.stopped == "end"


@dataclass(frozen=True)
class Run:
    """The episodes of one planner on one problem."""

    problem: str
    planner: str
    seed: int
    episodes: tuple[Episode, ...]

    @property
    def worst_call(self) -> int:
        """The largest number of queries in one call."""
        return max((q for e in self.episodes for q in e.queries), default=0)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the last episode, or its planning."""
        return any("interrupted" in (e.stopped, e.certificate and e.certificate.status) for e in self.episodes)
