"""What a planner is: a frozen configuration that starts episodes, and the policy that acts in one."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from tensorplan.core.access import Node


class Policy(Protocol):
    """A planner at work in one episode; what it remembers lives here."""

    def act(self, node: Node) -> int:
        """The action for the current state, after as many queries as it likes."""


class Planner(Protocol):
    """A frozen configuration that can start an episode."""

    def begin(self, access: Any, rng: np.random.Generator) -> Policy:
        """Start an episode at ``access.root``."""


@runtime_checkable
class Learner(Planner, Protocol):
    """A planner that can keep what it learns in one episode for the next ones."""

    def session(self) -> Planner:
        """A planner with a memory, empty at first, for episodes in one problem."""
