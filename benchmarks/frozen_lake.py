"""UCT on FrozenLake 8x8, in simulator steps per second, against the package ``mcts`` 1.0.4 in the same run.

Both walk the same transition table of Gymnasium's environment and play random actions to the end of the
episode.  ``mcts`` knows deterministic problems only, so the slippery lake is a race against our own figure.
"""

from __future__ import annotations

import random
from typing import Any

import gymnasium
import mcts
import numpy as np

import tensorplan as tp
from benchmarks.timing import race

HORIZON = 100
Table = list[list[list[tuple[float, Any, float]]]]


def table(slippery: bool) -> Table:
    """For each state and action the (cumulative probability, next state, reward), END where the episode ends."""
    environment: Any = gymnasium.make("FrozenLake-v1", map_name="8x8", is_slippery=slippery).unwrapped
    rows: Table = []
    for state in range(64):
        rows.append([])
        for action in range(4):
            entries, total = [], 0.0
            for probability, following, reward, ends in environment.P[state][action]:
                total += probability
                entries.append((total, tp.END if ends else int(following), float(reward)))
            rows[-1].append(entries)
    return rows


class Lake:
    """FrozenLake as an MDP."""

    horizon = HORIZON
    actions = 4

    def __init__(self, slippery: bool) -> None:
        self.rows = table(slippery)

    def start(self, rng: np.random.Generator) -> int:
        """The corner."""
        return 0

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[float, Any]:
        """One step on the ice."""
        entries = self.rows[state][action]
        if len(entries) > 1:
            u = rng.random()
            for bound, following, reward in entries:
                if u < bound:
                    return reward, following
        return entries[-1][2], entries[-1][1]


class LakeState:
    """FrozenLake in the terms of the package ``mcts``."""

    __slots__ = ("left", "reward", "rows", "state")
    steps = 0

    def __init__(self, rows: Table, state: Any, left: int, reward: float) -> None:
        self.rows, self.state, self.left, self.reward = rows, state, left, reward

    def getCurrentPlayer(self) -> int:  # noqa: N802
        """The only player."""
        return 1

    def getPossibleActions(self) -> tuple[int, ...]:  # noqa: N802
        """Four directions."""
        return (0, 1, 2, 3)

    def takeAction(self, action: int) -> LakeState:  # noqa: N802
        """The next state."""
        LakeState.steps += 1
        _, following, reward = self.rows[self.state][action][0]
        return LakeState(self.rows, following, self.left - 1, reward)

    def isTerminal(self) -> bool:  # noqa: N802
        """Whether the episode is over."""
        return self.state is tp.END or self.left == 0

    def getReward(self) -> float:  # noqa: N802
        """The reward of the last step, the only one that can be positive."""
        return self.reward


def main() -> None:
    problems = {
        name: tp.Problem(Lake(slippery), phi_v=lambda state, stage: np.ones(1), bound=1.0)
        for name, slippery in (("dry", False), ("slippery", True))
    }
    rows = table(False)

    def ours(name: str) -> float:
        rng = np.random.default_rng(0)
        access = tp.LocalAccess(problems[name], 0, rng)
        tp.UCT(simulations=5000).begin(access, rng).act(access.root)
        return access.spent

    def theirs() -> float:
        random.seed(0)
        LakeState.steps = 0
        mcts.mcts(iterationLimit=5000).search(LakeState(rows, 0, HORIZON, 0.0))
        return LakeState.steps

    seconds = race({"ours, dry": lambda: ours("dry"), "ours, slippery": lambda: ours("slippery"), "mcts, dry": theirs})
    print("UCT on FrozenLake 8x8, simulator steps per second")
    for name, per_step in seconds.items():
        print(f"  {name:<16} {1 / per_step:>10,.0f}   {seconds['mcts, dry'] / per_step:5.2f} x mcts 1.0.4")


if __name__ == "__main__":
    main()
