"""Planner, Policy and Learner: a frozen configuration, the policy it starts an episode with, and one with memory."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from tensorplan.core.access import Node


class Policy(Protocol):
    """The policy of one episode; it holds all mutable state of the planner."""

    def act(self, node: Node) -> int:
        """The action for the current state; it may query the access object first."""


class Planner(Protocol):
    """A frozen configuration that starts episodes."""

    def begin(self, access: Any, rng: np.random.Generator) -> Policy:
        """The policy for an episode that starts at ``access.root``."""


@runtime_checkable
class Learner(Planner, Protocol):
    """A planner that can reuse what it learned in earlier episodes."""

    def session(self) -> Planner:
        """A planner whose memory, empty at first, persists over the episodes of one problem."""
