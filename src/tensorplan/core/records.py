"""The records of a run: certificates, episodes, runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tensorplan.core.errors import BadInput
from tensorplan.core.mdp import State


@dataclass(frozen=True)
class Certificate:
    """A bracket on the optimal value of the start state: lower <= v*(s0) <= upper.

    ``lower`` is a lower bound on the expected return of the executed policy and needs no assumption on the features;
    ``upper`` holds under the assumption stated in ``assumes``, and ``upper_anyway`` in any case.
    """

    upper: float
    lower: float
    status: str
    """``"certified"``: the gap is as small as requested, and an attempt to refute the bracket failed.  Otherwise what
    ended planning: ``"budget"`` (spent before the gap was closed or the attempt was complete), ``"time"`` (the time
    limit, likewise), ``"interrupted"``, ``"stopped"`` (by a callback), ``"limit"`` (more queries would not narrow the
    bracket: double precision or the features allow no more), ``"eta"`` (the rest of the gap is explained by the
    misspecification eta), ``"doubtful"`` (the gap is closed, but see ``warnings``), ``"refuted"``, or ``"failed"`` (by
    an error)."""
    failure: float = 0.0
    """An upper bound on the probability that the bracket is wrong; in a session, that any of its brackets is."""
    lower_failure: float = 0.0
    """The share of ``failure`` due to the lower bound."""
    assumes: str = ""
    """The assumption behind the upper bound; empty if it needs only the declared ranges."""
    explained: float = 0.0
    """The part of the gap that the allowed misspecification eta explains."""
    warnings: tuple[str, ...] = ()
    """Reasons to doubt the assumption behind the upper bound."""
    discount: float = 1.0
    """The discount γ of the returns that are bracketed."""
    proof: Any = field(default=None, repr=False, compare=False)
    """The proof that ``tensorplan check`` verifies, or None."""
    notes: tuple[str, ...] = ()
    """What else planning found out, such as where a gap that is left comes from."""
    upper_anyway: float = math.inf
    """An upper bound on v*(s0) that needs only the declared ranges, at its own confidence; infinite if not known."""
    anyway_failure: float = 0.0
    """An upper bound on the probability that ``upper_anyway`` is wrong."""

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise BadInput(f"the bracket [{self.lower!r}, {self.upper!r}] is empty: lower must not be above upper")

    @property
    def gap(self) -> float:
        """The width of the bracket, upper - lower."""
        return self.upper - self.lower

    @property
    def upper_failure(self) -> float:
        """The share of ``failure`` due to the upper bound."""
        return self.failure - self.lower_failure

    @property
    def sentence(self) -> str:
        """The claim as one sentence, with its confidence and assumption."""
        sure = f", at confidence {1 - self.failure:.4g}" if self.failure else ""
        if self.status == "refuted":
            return f"the features do not realize the values as declared{sure}; {self._earned}"
        if not self.assumes:
            return f"v*(s0) is in [{self.lower:.6g}, {self.upper:.6g}]{sure}, whatever the features"
        return (
            f"v*(s0) is in [{self.lower:.6g}, {self.upper:.6g}]{sure}, if {self.assumes}; "
            f"the policy earns at least {self.lower:.6g} in any case{self._anyway}"
        )

    @property
    def _earned(self) -> str:
        """What holds although the features are refuted: the lower bound, and the upper one if it needs no features."""
        earned = f"the policy earns at least {self.lower:.6g} in any case"
        if self.assumes or self.upper == math.inf:
            return earned + self._anyway
        return f"{earned}, and no policy more than {self.upper:.6g}, by the declared range of returns{self._anyway}"

    @property
    def _anyway(self) -> str:
        if self.upper_anyway == math.inf:
            return ""
        return f", and no policy more than {self.upper_anyway:.6g} (confidence {1 - self.anyway_failure:.4g})"


@dataclass(frozen=True)
class Episode:
    """One closed-loop episode."""

    start: State
    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    queries: tuple[int, ...]
    """Queries charged per call of the planner, in order; a call that was interrupted comes last."""
    stopped: str
    """Why it ended: ``"end"`` (END or the horizon), ``"budget"``, ``"max_steps"``, ``"interrupted"``, or ``"failed"``
    (by an error)."""
    seconds: float
    discount: float = 1.0
    certificate: Certificate | None = None
    trace: Any = None
    """The planner's record of its planning, if requested."""

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
        """Whether the episode ran to its end, so that its return is a sample of the policy's return."""
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
        """The largest number of queries in one call of the planner."""
        return max((q for e in self.episodes for q in e.queries), default=0)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the last episode, or its planning."""
        return any("interrupted" in (e.stopped, e.certificate and e.certificate.status) for e in self.episodes)
