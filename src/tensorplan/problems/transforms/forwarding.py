"""The base class of MDPs that wrap another one."""

from __future__ import annotations

from typing import Any

from tensorplan.core import DECLARATIONS, MDP


class Forwarding:
    """An MDP with the declarations of the wrapped one; subclasses replace those that differ."""

    horizon: int | None
    actions: int
    reward_range: tuple[float, float]
    deterministic_transitions: bool
    deterministic_rewards: bool
    return_range: tuple[float, float] | None

    def __init__(self, mdp: MDP) -> None:
        self.mdp: Any = mdp
        defaults: dict[str, Any] = {
            "reward_range": (0.0, 1.0),
            "return_range": None,
            "deterministic_transitions": False,
            "deterministic_rewards": False,
        }
        for name in DECLARATIONS:
            setattr(self, name, getattr(mdp, name, defaults.get(name)))
