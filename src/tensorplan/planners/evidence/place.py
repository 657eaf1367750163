"""A state by name, as rows, traces and messages speak of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensorplan.core import Node
from tensorplan.core.errors import shown

QUOTED = 24
"""Characters of a state in messages."""


@dataclass(frozen=True)
class Place:
    """The state that a row or a disjunction is about."""

    stage: int
    state: Any

    @classmethod
    def of(cls, node: Node) -> Place:
        """The state of a node; one that cannot be hashed goes by what it looks like."""
        key = node.key
        return cls(node.stage, repr(node) if key is None else key)

    def __str__(self) -> str:
        return f"{shown(self.state, QUOTED)} (stage {self.stage})"
