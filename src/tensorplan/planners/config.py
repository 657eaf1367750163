"""What every planner with a certificate is told: the loss that is allowed, the mode, and the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tensorplan.core import Access
from tensorplan.core.errors import BadInput, Refused
from tensorplan.core.specs import number, one_of, whole

SHARE = 0.1
"""δ as a share of the range of returns where none is given."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PlannerConfig:
    """``delta``: the loss that is allowed; None takes a tenth of the range of returns.  ``budget``: queries of an
    episode; when they are spent, the best policy so far acts.
    """

    delta: float | None = None
    mode: str = "auto"
    budget: int | None = None
    modes: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        if self.delta is not None and not number("delta", self.delta, -math.inf) > 0:
            raise BadInput(f"delta must be positive, got {self.delta!r}")
        one_of("mode", self.mode, self.modes)
        if self.budget is not None:
            whole("budget", self.budget, 0)

    def accuracy(self, access: Access) -> float:
        """δ, as given or a tenth of the range of returns; refused where every policy is that good."""
        return self._accuracy(access, 1.0, 0.0)

    def _accuracy(self, access: Access, discount: float, eta: float) -> float:
        low, high = access.return_range(0, discount)
        trivial = min(high, access.bound + eta) - low
        if trivial <= 0:
            raise Refused(f"every policy is optimal in problem {access.problem_name!r}: all returns are {low:g}")
        if self.delta is None:
            return SHARE * trivial
        if self.delta >= trivial:
            raise BadInput(
                f"delta={self.delta:g} asks for nothing in problem {access.problem_name!r}: returns are at least "
                f"{low:g} and v*(s0) is at most {low + trivial:g}, so every policy is that good"
            )
        return self.delta
