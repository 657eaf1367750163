"""How large a scenario can be: what confidence bounds on means need to know beforehand."""

from __future__ import annotations

from tensorplan.core import Problem
from tensorplan.core.errors import BadInput
from tensorplan.hindsight.scenario import Rules
from tensorplan.hindsight.values import Values


def finite_returns(problem: Problem) -> tuple[float, float]:
    """The range of returns from the start; BadInput if it is not finite."""
    low, high = problem.return_range()
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        raise BadInput(
            f"problem {problem.name!r} has no finite range of returns: give it a horizon, a discount below 1, or an "
            "MDP with a return_range"
        )
    return low, high


def residual_range(values: Values, stage: int) -> tuple[float, float]:
    """The least and the largest estimate of a temporal difference at a stage."""
    problem = values.access.problem
    low, high = values.band(stage)
    ahead = problem.next_stage(stage)
    next_low, next_high = (0.0, 0.0) if ahead == problem.horizon else values.band(ahead)
    least, most = problem.reward_range
    return (
        least + problem.discount * min(next_low, 0.0) - high,
        most + problem.discount * max(next_high, 0.0) - low,
    )


def most_upper(values: Values, rules: Rules) -> float:
    """The largest value of ``Scenario.upper``."""
    problem, gamma = values.access.problem, values.access.problem.discount
    running = most = values.band(0)[1]
    for time, stage in _times(problem, rules):
        running = min(running, rules.limit) + gamma**time * max(residual_range(values, stage)[1], 0.0)
        ahead = problem.next_stage(stage)
        cut = 0.0 if ahead == problem.horizon else problem.return_range(ahead)[1] - values.band(ahead)[0]
        most = max(most, running + gamma ** (time + 1) * max(cut, 0.0))
    return max(most, problem.return_range(0)[1])


def most_gap(values: Values, rules: Rules) -> float:
    """The largest value of ``Scenario.gap``."""
    problem, gamma = values.access.problem, values.access.problem.discount
    running = most = 0.0
    for time, stage in _times(problem, rules):
        low, high = residual_range(values, stage)
        running = min(running, rules.limit) + gamma**time * (max(high, 0.0) - min(low, 0.0))
        ahead, cut = problem.next_stage(stage), 0.0
        if ahead != problem.horizon:
            least, largest = problem.return_range(ahead)
            smallest_value, largest_value = values.band(ahead)
            cut = max(largest - smallest_value, 0.0) + max(largest_value - least, 0.0)
        most = max(most, running + gamma ** (time + 1) * cut)
    return most


def least_policy(values: Values, rules: Rules) -> float:
    """The least value of ``Scenario.policy``."""
    problem, gamma = values.access.problem, values.access.problem.discount
    running, least = values.band(0)[0], problem.return_range(0)[0]
    for time, stage in _times(problem, rules):
        running = max(running, rules.floor) + gamma**time * min(residual_range(values, stage)[0], 0.0)
        ahead = problem.next_stage(stage)
        cut = 0.0 if ahead == problem.horizon else problem.return_range(ahead)[0] - values.band(ahead)[1]
        least = min(least, running + gamma ** (time + 1) * min(cut, 0.0))
    return least


def _times(problem: Problem, rules: Rules) -> list[tuple[int, int]]:
    """The times of a scenario with their stages."""
    if problem.horizon is None:
        return [(time, 0) for time in range(rules.times)]
    return [(time, time) for time in range(min(rules.times, problem.horizon))]
