"""The exact optimal values of a problem, wherever they can be had: what judges, diagnoses and the oracle read."""

from __future__ import annotations

from tensorplan.core import OptimalValues, Problem
from tensorplan.core.errors import Refused
from tensorplan.problems.tables.reachable import BRIEF, Effort, Progress, explore
from tensorplan.problems.tables.tabular import TabularMDP, solve_tabular


def exact_solution(problem: Problem, effort: Effort = BRIEF, progress: Progress | None = None) -> OptimalValues:
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
