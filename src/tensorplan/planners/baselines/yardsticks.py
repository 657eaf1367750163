"""The two ends of every comparison: a planner that knows nothing and one that knows everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tensorplan.access.everywhere import ModelAccess
from tensorplan.core import Access, Node, Problem, Solution
from tensorplan.core.errors import Refused
from tensorplan.problems.tables.reachable import BRIEF, WHOLE, Effort, Progress, explore
from tensorplan.problems.tables.tabular import TabularMDP, solve_tabular


@dataclass(frozen=True, kw_only=True)
class RandomPlanner:
    """Uniformly random actions, no queries."""

    about: ClassVar[str] = "uniformly random actions; no queries"

    def begin(self, access: Access, rng: np.random.Generator) -> RandomPolicy:
        """Start an episode."""
        return RandomPolicy(access.actions, rng)


@dataclass(frozen=True)
class RandomPolicy:
    """See RandomPlanner."""

    actions: int
    rng: np.random.Generator

    def act(self, node: Node) -> int:
        """A uniformly random action."""
        return int(self.rng.integers(self.actions))


@dataclass(frozen=True, kw_only=True)
class Oracle:
    """The optimal policy, from exact dynamic programming or a closed form: the yardstick, not a planner.

    It reads the model instead of asking a simulator, so it makes no queries.
    """

    about: ClassVar[str] = "the optimal policy, read off the exact solution; no queries"
    access: ClassVar[str] = "model"
    memoryless: ClassVar[bool] = True

    def begin(self, access: ModelAccess, rng: np.random.Generator) -> OptimalPolicy:
        """Start an episode."""
        return OptimalPolicy(access, exact_solution(access.problem, WHOLE))


@dataclass(frozen=True)
class OptimalPolicy:
    """The smallest action that maximises q*."""

    access: ModelAccess
    solution: Solution

    def act(self, node: Node) -> int:
        """argmax_a q*(s, a)."""
        state, stage = self.access.state(node), node.stage
        return int(np.argmax([self.solution.action_value(state, a, stage) for a in range(self.access.actions)]))


def exact_solution(problem: Problem, effort: Effort = BRIEF, progress: Progress | None = None) -> Solution:
    """v* and q*: as given, by backward induction on a table, or on the states that can be reached.

    Only to list those takes steps of the simulator, once for a problem, and no more than ``effort`` allows.
    """
    if problem.solution is not None:
        return problem.solution
    if isinstance(problem.mdp, TabularMDP):
        return solve_tabular(problem)
    if problem.deterministic:
        return explore(problem, effort, progress)
    raise Refused(
        f"problem {problem.name!r} has no known optimal values: its MDP is neither a table nor deterministic, "
        "and no solution was given"
    )
