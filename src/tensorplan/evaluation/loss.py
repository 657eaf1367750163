"""The loss of a planner, action by action.

Σ_t γ^t (v*(S_t) - q*(S_t, A_t)) has the expectation v*(s0) - E[return] and a smaller variance than v*(s0) - return,
since the noise of rewards and transitions is averaged out.
"""

from __future__ import annotations

from collections import defaultdict

from tensorplan.core import Problem, State


class LossMeter:
    """Adds up the losses of the actions in each episode, as the ``on_action`` of ``run``."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.losses: defaultdict[int, float] = defaultdict(float)
        """The loss of each episode."""
        self._steps: defaultdict[int, int] = defaultdict(int)

    def __call__(self, episode: int, state: State, stage: int, action: int) -> None:
        """Add the loss of one action."""
        problem = self.problem
        loss = problem.optimal_value(state, stage) - problem.optimal_action_value(state, action, stage)
        self.losses[episode] += float(problem.discount ** self._steps[episode] * loss)
        self._steps[episode] += 1
