"""Your own simulator: a row of lights, of which each step may switch one on, and the features that realize v*.

Run it with ``python examples/lights.py``.
"""

import numpy as np

import tensorplan as tp


class Lights:
    """Six lights; action 0 waits, action 1 switches the first dark one on.  Each step pays the share that is lit."""

    horizon = 10
    actions = 2
    deterministic_transitions = True
    deterministic_rewards = True

    def start(self, rng: np.random.Generator) -> int:
        """All dark."""
        return 0

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[float, int]:
        """The number of lit lights is the state."""
        return state / 6, min(state + action, 6)


def v_star(state: int, stage: int) -> float:
    """Switching on at once is optimal."""
    return sum(min(state + t, 6) / 6 for t in range(10 - stage))


problem = tp.Problem(
    Lights(),
    phi_v=lambda state, stage: np.array([v_star(state, stage) / 10, (10 - stage) / 20]),
    bound=11.0,
    name="lights",
)

for planner in (tp.TensorPlan(), tp.UCT(simulations=200), tp.RandomPlanner()):
    episode = tp.run(problem, planner, seed=0).episodes[0]
    print(f"{type(planner).__name__:<14} return {episode.total_reward:.3f}  queries {episode.total_queries}")
