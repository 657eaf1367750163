"""Gymnasium's spaces of actions, as numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from gymnasium import spaces

from tensorplan.core.errors import BadInput

MOST_ACTIONS = 100_000
"""Most combinations of actions, which are enumerated in a list."""


def numbered_actions(space: Any, name: str) -> list[Any]:
    """The actions of the environment, in the order of the numbers 0 .. A-1."""
    if isinstance(space, spaces.Discrete):
        return [int(space.start) + i for i in range(int(space.n))]
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        sizes = np.ravel(space.nvec if isinstance(space, spaces.MultiDiscrete) else [2] * int(np.prod(space.shape)))
        if float(np.prod(sizes.astype(float))) > MOST_ACTIONS:
            raise BadInput(f"{name} has {np.prod(sizes.astype(float)):.3g} actions ({space}): too many to enumerate")
        first = getattr(space, "start", 0)
        combinations = itertools.product(*map(range, sizes))
        return [np.array(one, dtype=space.dtype).reshape(space.shape) + first for one in combinations]
    kind = "continuous actions" if isinstance(space, spaces.Box) else "actions that cannot be numbered"
    raise BadInput(
        f"{name} has {kind} ({space}), and planners choose among finitely many: wrap it with some of them, as "
        "gymnasium.wrappers.TransformAction(env, lambda i: ACTIONS[i], gymnasium.spaces.Discrete(len(ACTIONS)))"
    )
