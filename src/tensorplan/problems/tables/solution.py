"""The exact optimal values of a problem, for judges, diagnoses and the oracle."""

from __future__ import annotations

from tensorplan.core import OptimalValues, Problem
from tensorplan.core.errors import Refused
from tensorplan.problems.tables.reachable import BRIEF, Effort, Progress, explore
from tensorplan.problems.tables.tabular import TabularMDP, solve_tabular


def exact_solution(problem: Problem, effort: Effort = BRIEF, progress: Progress | None = None) -> OptimalValues:
    """v* and q*: the given solution, or by dynamic programming on a table, or on the reachable states.

    Only the enumeration of reachable states takes simulator steps, once per problem and within ``effort``.
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
