"""δ-soundness: is the expected return of the closed loop at least v*(s0) - δ? (section 2 of the paper)"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorplan.core import END, OptimalValues, Planner, Problem, Run
from tensorplan.core.errors import BadInput, shown
from tensorplan.core.intervals import Interval, betting_interval
from tensorplan.core.specs import number, whole
from tensorplan.loop import Driver, Streams, run
from tensorplan.planners.registry import as_planner
from tensorplan.problems.catalog import as_problem
from tensorplan.problems.simulate import draw, draw_start
from tensorplan.problems.tables.reachable import WHOLE
from tensorplan.problems.tables.solution import exact_solution
from tensorplan.problems.tables.tabular import TabularMDP, evaluate_tabular


@dataclass(frozen=True)
class Verdict:
    """Whether a planner is δ-sound on a problem, and why."""

    verdict: str
    """``"sound"``, ``"not sound"`` or ``"undecided"``."""
    loss: Interval
    """v*(s0) - E[return]: the estimate and its interval, a single point when exact."""
    delta: float
    confidence: float
    """1.0 when exact."""
    method: str
    """``"exact"``, or ``"betting interval"`` with the number of episodes."""
    run: Run | None = None

    def __str__(self) -> str:
        return (
            f"{self.verdict}: loss {self.loss.mean:.4g} in [{self.loss.low:.4g}, {self.loss.high:.4g}], "
            f"delta {self.delta:g} ({self.method}, confidence {self.confidence:g})"
        )


def judge(
    problem: Problem | str,
    planner: Planner | str,
    delta: float,
    *,
    episodes: int = 100,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[int, int, int], None] | None = None,
    **options: Any,
) -> Verdict:
    """Whether a planner is δ-sound on a problem whose v* is known; both are objects or names.

    Exact if the policy is memoryless and the MDP a table or deterministic.  Else from independent episodes, with start
    states drawn by the problem, and a betting interval on E[v*(S0) - return], which stays valid if one judges again
    with more episodes and the same seed until there is a verdict.  Without a horizon returns have no range, and only
    the exact method can decide.
    """
    episodes, seed = whole("episodes", episodes, 1), whole("seed", seed, 0)
    planner = as_planner(planner)
    problem = as_problem(problem, seed)
    loss = exact_loss(problem, planner, seed)
    if loss is not None:
        return exact_verdict(loss, delta)
    played = run(problem, planner, episodes, seed, learn=False, progress=progress, **options)
    return judge_run(problem, played, delta, confidence)


def exact_verdict(loss: float, delta: float) -> Verdict:
    """The verdict for an exact loss."""
    delta = number("delta", delta, 0.0)
    interval = Interval(loss, loss, loss)
    return Verdict(_decide(interval, delta), interval, delta, 1.0, "exact")


def judge_run(problem: Problem, played: Run, delta: float, confidence: float = 0.95) -> Verdict:
    """The verdict from the episodes of a run."""
    delta = number("delta", delta, 0.0)
    solution = exact_solution(problem, WHOLE)
    losses = [solution.value(e.start, 0) - e.total_reward for e in played.episodes if e.complete]
    broken = len(played.episodes) - len(losses)
    low, high = problem.return_range()
    interval = betting_interval(losses, (low - high, high - low), confidence)
    method = f"betting interval, {len(losses)} episodes"
    if broken:
        method += f"; {broken} did not end"
    verdict = "undecided" if broken else _decide(interval, delta)
    return Verdict(verdict, interval, delta, confidence, method, played)


def _decide(loss: Interval, delta: float) -> str:
    slack = 1e-9 * max(1.0, abs(loss.mean))
    if loss.high <= delta + slack:
        return "sound"
    return "not sound" if loss.low > delta + slack else "undecided"


def exact_loss(problem: Problem, planner: Planner, seed: int = 0) -> float | None:
    """v*(s0) - v^π(s0) if π is memoryless and its value can be computed, else None.

    A planner declares memoryless policies by an attribute ``memoryless = True``: their actions depend on the node
    alone, without queries or random numbers.
    """
    if not getattr(planner, "memoryless", False):
        return None
    if not (isinstance(problem.mdp, TabularMDP) or problem.deterministic):
        return None
    streams = Streams.of(seed, 0)
    driver = Driver(problem, planner, draw_start(problem, streams.world), streams)
    try:
        driver.begin()
        if driver.refutation is not None:
            raise driver.refutation
        solution = exact_solution(problem, WHOLE)
        if isinstance(problem.mdp, TabularMDP):
            return _loss_in_table(problem, problem.mdp, driver, solution)
        start = driver.state
        return solution.value(start, 0) - _value_of_path(problem, driver, streams.world)
    finally:
        driver.close()


def _loss_in_table(problem: Problem, mdp: TabularMDP, driver: Driver, solution: OptimalValues) -> float:
    """The mean of v* - v^π over the start states, with π tabulated state by state."""

    def action(state: int, stage: int) -> int:
        driver.move_to(state, stage)
        return driver.act()

    table = [[action(state, stage) for state in mdp.states(stage)] for stage in range(mdp.horizon or 1)]
    values = evaluate_tabular(problem, table).v[0]
    return float(sum(w * (solution.value(s, 0) - values[s]) for s, w in mdp.start_weights()))


def _value_of_path(problem: Problem, driver: Driver, rng: np.random.Generator) -> float:
    """The return of the path of a deterministic problem, cycles included."""
    discount = problem.discount
    rewards: list[float] = []
    seen: dict[Any, int] = {}
    while driver.state is not END:
        first = seen.setdefault((driver.stage, driver.state), len(rewards))
        if first < len(rewards):  # a cycle
            if discount == 1:
                raise BadInput(
                    f"the policy of {driver.planner!r} goes in circles at state {shown(driver.state)}: it has no value"
                )
            once, steps = _total(rewards[first:], discount), len(rewards) - first
            return _total(rewards, discount) + discount ** len(rewards) * once / (1 - discount**steps)
        problem.count_unmetered(1)
        reward, following = draw(problem, driver.state, driver.stage, driver.act(), rng)
        rewards.append(reward)
        driver.arrive(problem.arrive(following, driver.stage))
    return _total(rewards, discount)


def _total(rewards: list[float], discount: float) -> float:
    return math.fsum(discount**t * reward for t, reward in enumerate(rewards))
