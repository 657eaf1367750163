"""The compiled backup of one deterministic stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorplan.core.compiled import compiled


@compiled
def best_step(following: Any, target: Any, rewards: Any, best: Any) -> None:
    """Set best[s] = max_a rewards[s, a] + following[target[s A + a]]."""
    states, actions = rewards.shape
    for s in range(states):
        top = -np.inf
        for a in range(actions):
            top = max(top, rewards[s, a] + following[target[s * actions + a]])
        best[s] = top
