"""A problem with a horizon from a later stage on, for planning in the middle of an episode.

Stage 0 of the tail is stage h of the problem.  Its v* and q* are those of the problem, so θ*, B, η and the discount are
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from tensorplan.core import Batched, Enumerable, Features, OptimalValues, Problem, State, Vectorised
from tensorplan.problems.tables.reachable import WHOLE
from tensorplan.problems.tables.solution import exact_solution
from tensorplan.problems.transforms.forwarding import Forwarding


def tail(problem: Problem, state: State, first: int) -> Problem:
    """The problem from (state, stage ``first``) on."""
    return Problem(
        TailMDP(problem, state, first),
        _shifted(problem.phi_v, first),
        _shifted(problem.phi_q, first),
        bound=problem.bound,
        name=f"{problem.name} from stage {first}",
        solution=TailSolution(problem, first),
        theta=problem.theta,
        eta=problem.eta,
        discount=problem.discount,
        retries=problem.retries,
    )


class TailMDP(Forwarding):
    """The simulator of the problem with the remaining horizon, and the same capabilities."""

    def __init__(self, problem: Problem, state: State, first: int) -> None:
        assert problem.horizon is not None
        super().__init__(problem.mdp)
        self.state = state
        self.horizon = problem.horizon - first
        mdp: Any = problem.mdp
        if isinstance(mdp, Vectorised):
            self.step_batch = mdp.step_batch
        if isinstance(mdp, Batched):
            self.draw_noise, self.step_many = mdp.draw_noise, mdp.step_many
            self.uniforms: int = getattr(mdp, "uniforms", 0)
        if isinstance(mdp, Enumerable):
            self.states: Callable[[int], Any] = lambda stage: mdp.states(stage + first)

    def start(self, rng: np.random.Generator) -> State:
        """The first state of the tail."""
        return self.state

    def step(self, state: State, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state)."""
        drawn: tuple[float, State] = self.mdp.step(state, action, rng)
        return drawn


class TailSolution:
    """v* and q* of the problem, given or computed at the first access."""

    def __init__(self, problem: Problem, first: int) -> None:
        self.problem, self.first = problem, first

    @cached_property
    def whole(self) -> OptimalValues:
        """The solution of the whole problem."""
        return exact_solution(self.problem, WHOLE)

    def value(self, state: State, stage: int) -> float:
        """v*(state)."""
        return self.whole.value(state, stage + self.first)

    def action_value(self, state: State, action: int, stage: int) -> float:
        """q*(state, action)."""
        return self.whole.action_value(state, action, stage + self.first)


def _shifted(phi: Features | None, first: int) -> Features | None:
    return None if phi is None else lambda state, stage: phi(state, stage + first)
