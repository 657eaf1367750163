"""What one measurement leaves behind: one row, whoever asked for it.

Comparisons print rows, sweeps store them, Table 1 and the hardness experiment are read off them.
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

    Numbers that are infinite or unknown are None, so that a row fits SQLite and JSON as it is.
    """

    id: str
    """Content id of the unit of work; empty where nothing is stored."""
    problem: str
    planner: str
    seed: int
    status: str = "failed"
    """``"done"``, ``"failed"``, ``"timeout"`` or ``"memory"``."""
    error: str | None = None
    """One sentence; of a unit that is done, that it found its problem not realizable."""
    attempts: int = 1
    actions: int | None = None
    """A, d and H of the instance, where it could be built."""
    dimension: int | None = None
    horizon: int | None = None
    optimal: float | None = None
    """v*(s0), where it is known; like the next three the mean over the episodes."""
    total_reward: float | None = None
    regret: float | None = None
    """v*(s0) - total_reward; an episode that did not end counts with what it had earned."""
    loss: float | None = None
    """Σ_t γ^t (v*(S_t) - q*(S_t, A_t)), whose expectation is v*(s0) - E[return]: where the problem came with its
    solution and every episode ended."""
    steps: int | None = None
    """Of the first episode."""
    queries: int | None = None
    """Of the first episode, the one that plans."""
    worst_call: int | None = None
    """The largest number of queries in one call, of all episodes."""
    stopped: str | None = None
    """What ended the first episode that did not run to its end, else ``"end"``; see :class:`tensorplan.Episode`."""
    upper: float | None = None
    """The certificate of the first episode, where there is one; see :class:`tensorplan.Certificate`."""
    lower: float | None = None
    gap: float | None = None
    certificate: str | None = None
    """Its status."""
    failure: float | None = None
    lower_failure: float | None = None
    assumes: str | None = None
    explained: float | None = None
    warnings: str | None = None
    """One after the other."""
    failed_states: int | None = None
    """Of the first episode's trace, where there is one: states at which an optimistic parameter was refuted."""
    nodes: int | None = None
    """Of the branch and bound, in all its iterations."""
    seconds: float | None = None
    """Of all episodes."""
    trace: str | None = None
    """The name of a file in the folder ``traces`` of a store."""
    output: str | None = None
    """The end of what the unit printed, on stdout and stderr alike."""
    unmetered: int | None = None
    """Steps of the instance's simulator so far that no planner asked for; see :class:`tensorplan.Problem`."""
    note: str | None = None
    """Why there is no regret, where there is none."""

    @property
    def done(self) -> bool:
        """Whether it ran to its end."""
        return self.status == "done"


def certificate_columns(certificate: Certificate | None) -> dict[str, Any]:
    """The columns of a row that a certificate fills: all of it but the proof, which has a file of its own."""
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
    """The traces of episodes as plain data, each with the certificate that it led to."""
    return [
        None if episode.trace is None else {**plain(episode.trace), "certificate": plain(episode.certificate)}
        for episode in episodes
    ]


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
