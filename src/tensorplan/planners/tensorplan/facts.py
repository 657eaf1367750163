"""What is known of states where nothing is random, and paths through them."""

from __future__ import annotations

import numpy as np

from tensorplan.core import Array, Node
from tensorplan.planners.evidence.place import Place


class Fact:
    """What is known of one state: its features, and per action the answer and Δ_a, once asked."""

    __slots__ = ("answers", "choice", "deltas", "node", "phi", "place", "unasked")

    def __init__(self, place: Place, phi: Array, actions: int) -> None:
        self.place = place
        self.phi = phi
        self.node: Node | None = None
        """Where to ask, in this episode; None when only an earlier episode was here."""
        self.answers: list[tuple[float, Fact | None] | None] = [None] * actions
        """Reward and next fact, which is None at END."""
        self.deltas = np.full((actions, len(phi) + 1), np.nan)
        self.unasked = actions
        self.choice: int | None = None
        """What a path that was proved optimal does here; preferred, since other actions may only seem as good."""


class Rollout:
    """A path of consistent actions, and how it ended."""

    def __init__(self) -> None:
        self.steps: list[tuple[Fact, int]] = []
        self.total = 0.0
        self.weight = 1.0  # γ^t
        self.last: Fact | None = None
        """Where it stopped; None at END."""
        self.failed = False
        """Whether ``last`` has no consistent action."""
        self.loop: int | None = None
        """The step that the path comes back to, for ever (discounted problems)."""

    def take(self, fact: Fact, action: int, discount: float) -> None:
        """One more step, whose answer is known."""
        answer = fact.answers[action]
        assert answer is not None
        self.steps.append((fact, action))
        self.total += self.weight * answer[0]
        self.weight *= discount
        self.last = answer[1]
