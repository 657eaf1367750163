"""The parameters that all planners with a certificate share: accuracy, mode, budget and time limit."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from tensorplan.core import Access, Planner
from tensorplan.core.errors import BadInput, Refused
from tensorplan.core.specs import number, one_of, options, seconds, whole

MOST_QUERIES = 10**9
"""The most queries that an algorithm as printed may need if no budget is given."""

SHARE = 0.1
"""The default δ, as a share of the range of returns."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PlannerConfig:
    """``delta``: the allowed loss; None takes a tenth of the range of returns.  ``budget``: queries per episode; once
    they are spent, the best policy so far acts.  ``time_limit``: the same in seconds of planning per episode.
    """

    delta: float | None = None
    mode: str = "auto"
    budget: int | None = None
    time_limit: float | None = None
    modes: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        if self.delta is not None and not number("delta", self.delta, -math.inf) > 0:
            raise BadInput(f"delta must be positive, got {self.delta!r}")
        one_of("mode", self.mode, self.modes)
        if self.budget is not None:
            whole("budget", self.budget, 0)
        if self.time_limit is not None:
            seconds("time_limit", self.time_limit)
            if self.mode == "paper":
                raise BadInput("time_limit is not for mode 'paper', which runs to the end: give a budget")

    def accuracy(self, access: Access) -> float:
        """δ, as given or a tenth of the range of returns; refused if every policy is that good."""
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
                f"delta={self.delta:g} is trivial in problem {access.problem_name!r}: returns are at least "
                f"{low:g} and v*(s0) is at most {low + trivial:g}, so every policy is that good"
            )
        return self.delta


def brief(config: Any) -> str:
    """The repr of a dataclass with those of its fields that were given another value than the default."""
    values = [(f, getattr(config, f.name)) for f in fields(config) if f.repr]
    given = ", ".join(f"{f.name}={value!r}" for f, value in values if value != f.default)
    return f"{type(config).__name__}({given})"


def takes_time_limit(planner: Planner) -> bool:
    """Whether a planner has the parameter ``time_limit``."""
    return "time_limit" in options(planner)


def with_time_limit(planner: Planner, time_limit: float | None) -> Planner:
    """The planner with a time limit, if one is given and the planner takes it."""
    if time_limit is None or not takes_time_limit(planner):
        return planner
    limited: Any = planner
    return replace(limited, time_limit=time_limit)  # type: ignore[no-any-return]


def refuse_unless_unit_rewards(access: Access, planner: str) -> None:
    """Raise Refused unless rewards lie in [0, 1], as the analyses of the printed algorithms assume."""
    low, high = access.reward_range
    if low < 0 or high > 1:
        raise Refused(
            f"{planner} is for rewards in [0, 1], and problem {access.problem_name!r} has [{low:g}, {high:g}]"
        )


def refuse_above_budget(budget: float, queries: float, needs: str, remedy: str) -> None:
    """Raise Refused if the queries exceed the budget, or MOST_QUERIES without one."""
    if queries > (MOST_QUERIES if budget == math.inf else budget):
        limit = f"{MOST_QUERIES:,} when no budget is given" if budget == math.inf else f"the budget of {budget:,.0f}"
        raise Refused(f"{needs}, more than {limit}; {remedy}, or use mode='certified'")
