"""Global access (a generative model), and access to the full model for the oracle.

Under global access every state and its features are known free of charge, and any state may be queried.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorplan.access.local import LocalAccess, LocalNode
from tensorplan.core import END, Enumerable, Node, Problem, State
from tensorplan.core.errors import BadInput, Refused


class GlobalAccess(LocalAccess):
    """Access to every state: nodes are issued on demand."""

    def node(self, state: State, stage: int = 0) -> LocalNode:
        """The node of any state, free of charge."""
        last = 0 if self.horizon is None else self.horizon - 1
        if state is END or not 0 <= stage <= last:
            raise BadInput(f"there is no node for state {state!r} at stage {stage}: stages are 0 .. {last}")
        return self._issue(state, stage)

    def states(self, stage: int = 0) -> Iterator[LocalNode]:
        """The nodes of all states of one stage, free of charge."""
        mdp = self._problem.mdp
        if not isinstance(mdp, Enumerable):
            raise Refused(f"problem {self.problem_name!r} cannot list its states")
        return (self.node(state, stage) for state in mdp.states(stage))


class ModelAccess(GlobalAccess):
    """Access to the problem itself, its optimal values included, for the oracle."""

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self._problem

    def state(self, node: Node) -> State:
        """The state of a node."""
        if not isinstance(node, LocalNode):
            raise self._not_reached(node)
        return node._state
