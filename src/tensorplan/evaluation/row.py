"""The result of one measurement as one row.

Comparisons print rows, sweeps store them, and Table 1 and the hardness experiment are computed from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tensorplan.core import Certificate, Episode
from tensorplan.core.jsonable import plain


@dataclass(frozen=True)
class Row:
    """One planner on one instance with one seed; in the abstract game, one strategy against one secret.

    Infinite and unknown numbers are None, as SQLite and JSON require.
    """

    id: str
    """Content id of the unit of work; empty if nothing is stored."""
    problem: str
    planner: str
    seed: int
    status: str = "failed"
    """``"done"``, ``"failed"``, ``"timeout"`` or ``"memory"``."""
    error: str | None = None
    """One sentence; in a unit that is done, that its problem is not realizable."""
    attempts: int = 1
    actions: int | None = None
    """A, d and H of the instance, if it could be built."""
    dimension: int | None = None
    horizon: int | None = None
    optimal: float | None = None
    """v*(s0), if it is known; like the next three the mean over the episodes."""
    total_reward: float | None = None
    regret: float | None = None
    """v*(s0) - total_reward; an episode that was cut short counts with its reward so far."""
    loss: float | None = None
    """Σ_t γ^t (v*(S_t) - q*(S_t, A_t)), whose expectation is v*(s0) - E[return], if the problem comes with its solution
    and every episode was completed."""
    steps: int | None = None
    """Of the first episode."""
    queries: int | None = None
    """Of the first episode, in which a planner with a memory plans."""
    worst_call: int | None = None
    """The largest number of queries in one call, over all episodes."""
    stopped: str | None = None
    """What cut the first incomplete episode short, else ``"end"``; see :class:`tensorplan.Episode`."""
    upper: float | None = None
    """The certificate of the first episode, if it has one; see :class:`tensorplan.Certificate`."""
    lower: float | None = None
    gap: float | None = None
    certificate: str | None = None
    """Its status."""
    failure: float | None = None
    lower_failure: float | None = None
    assumes: str | None = None
    explained: float | None = None
    warnings: str | None = None
    """Separated by semicolons."""
    failed_states: int | None = None
    """States that excluded an optimistic parameter, if the first episode has a trace."""
    nodes: int | None = None
    """Nodes of the branch and bound, over all iterations of that trace."""
    seconds: float | None = None
    """Of all episodes."""
    trace: str | None = None
    """The name of a file in the folder ``traces`` of a store."""
    output: str | None = None
    """The end of what the unit printed, on stdout and stderr alike."""
    unmetered: int | None = None
    """Simulator steps of the instance so far that were not charged as queries; see :class:`tensorplan.Problem`."""
    note: str | None = None
    """Why there is no regret, if there is none."""

    @property
    def done(self) -> bool:
        """Whether the status is ``"done"``."""
        return self.status == "done"


def certificate_columns(certificate: Certificate | None) -> dict[str, Any]:
    """The columns of a certificate, without its proof."""
    if certificate is None:
        return {}
    return {
        "upper": _finite(certificate.upper),
        "lower": _finite(certificate.lower),
        "gap": _finite(certificate.gap),
        "certificate": certificate.status,
        "failure": certificate.failure,
        "lower_failure": certificate.lower_failure,
        "assumes": certificate.assumes,
        "explained": _finite(certificate.explained),
        "warnings": "; ".join(certificate.warnings) or None,
    }


def traces(episodes: Iterable[Episode]) -> list[Any]:
    """The traces of episodes as plain data, each with its certificate."""
    return [
        None if episode.trace is None else {**plain(episode.trace), "certificate": plain(episode.certificate)}
        for episode in episodes
    ]


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
