"""The layers of an environment: its wrappers and itself."""

from __future__ import annotations

import copy
from typing import Any

from gymnasium import wrappers

from tensorplan.core.errors import BadInput

SKIPPED = ("env", "spec", "_np_random", "_np_random_seed", "_cached_spec", "render_mode", "metadata")
"""Attributes of environments and wrappers that are not part of a state."""

NEUTRAL = (
    *("TimeLimit", "OrderEnforcing", "PassiveEnvChecker"),
    *("RecordEpisodeStatistics", "RecordVideo", "HumanRendering"),
)
"""Wrappers that do not change dynamics, rewards or observations; the time limit becomes the horizon."""


def layers(env: Any) -> list[Any]:
    """The wrappers of an environment and the environment itself, outermost first."""
    innermost = env.unwrapped
    if innermost is env:
        return [env]
    found = [env]
    while found[-1] is not innermost:
        found.append(found[-1].env)
    return found


def stripped(env: Any) -> tuple[Any, int | None]:
    """The environment without neutral wrappers, and its time limit."""
    stack = layers(env)
    limits = [layer._max_episode_steps for layer in stack if isinstance(layer, wrappers.TimeLimit)]
    for layer in stack:
        if isinstance(layer, wrappers.Autoreset):
            raise BadInput(f"{env} resets itself at the end of an episode (Autoreset), which hides the end: unwrap it")
    kept = [layer for layer in stack if type(layer).__name__ not in NEUTRAL or layer is env.unwrapped]
    if len(kept) < len(stack) and len(kept) > 1:  # relink the remaining layers, in copies of the wrappers
        relinked = [copy.copy(layer) for layer in kept[:-1]]
        for layer, inner in zip(relinked, [*relinked[1:], kept[-1]], strict=True):
            layer.env = inner
        kept = [*relinked, kept[-1]]
    return kept[0], min(limits, default=None)
