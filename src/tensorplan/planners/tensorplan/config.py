"""The parameters of TensorPlan in all modes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tensorplan.core import Access
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import number, one_of, truth
from tensorplan.planners.config import PlannerConfig, brief

if TYPE_CHECKING:  # it loads the optimiser
    from tensorplan.planners.tensorplan.trace import Callback


@dataclass(frozen=True, kw_only=True, repr=False)
class Config(PlannerConfig):
    """The parameters; :class:`tensorplan.TensorPlan` documents them."""

    eta: float = 0.0
    discount: float = 1.0
    ask: str = "lazy"
    recheck: float = 0.1
    anyway: float = 0.2
    trace: bool = False
    callback: Callback | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        number("eta", self.eta, 0.0)
        if not number("discount", self.discount, 0.0, 1.0) > 0:
            raise BadInput(f"discount must be above 0 and at most 1, got {self.discount!r}")
        one_of("ask", self.ask, ("lazy", "all"))
        number("recheck", self.recheck, 0.0, 1.0)
        number("anyway", self.anyway, 0.0)
        truth("trace", self.trace)
        if self.callback is not None and not callable(self.callback):
            raise BadInput(f"callback must be callable, got {self.callback!r}")

    def __repr__(self) -> str:
        return brief(self)

    def gamma(self, access: Access) -> float:
        """The discount of the problem, or the one given here if it has none."""
        if self.discount == 1 or access.discount in (1, self.discount):
            return min(self.discount, access.discount)
        raise BadInput(
            f"discount={self.discount:g} was given, and problem {access.problem_name!r} has {access.discount:g}: "
            "leave it out"
        )

    def accuracy(self, access: Access) -> float:
        """δ, as given or a tenth of the range of returns; refused if every policy is that good."""
        return self._accuracy(access, self.gamma(access), self.eta)
