"""MDPs made of other MDPs: what the inner one declares holds for the outer one, unless that says otherwise."""

from __future__ import annotations

from typing import Any

from tensorplan.core import DECLARATIONS, MDP


class Forwarding:
    """The base of MDPs that wrap another one; a subclass replaces the declarations that it changes."""

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
