"""A state and its stage, as rows, traces and messages name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensorplan.core import Node
from tensorplan.core.errors import shown

QUOTED = 24
"""Characters of a state in messages."""


@dataclass(frozen=True)
class Place:
    """The state and stage of a row or a disjunction."""

    stage: int
    state: Any

    @classmethod
    def of(cls, node: Node) -> Place:
        """The place of a node; a state that cannot be hashed is named by its repr."""
        key = node.key
        return cls(node.stage, repr(node) if key is None else key)

    def __str__(self) -> str:
        return f"{shown(self.state, QUOTED)} (stage {self.stage})"
