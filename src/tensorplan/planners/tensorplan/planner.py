"""TensorPlan (Weisz, Szepesvári and György 2022): act near-optimally where v*(s) = <φ(s), θ*>, with local access.

The idea, in all modes: take the optimistic θ among those consistent with all measurements; roll out the actions that
are consistent with it; at a state without one, measure, which excludes θ; repeat until a rollout has no such state.
The number of queries does not depend on the number of states.

* ``exact`` (:mod:`tensorplan.planners.tensorplan.exact`): deterministic problems; an optimal path, with a proof.
* ``certified`` (:mod:`tensorplan.planners.tensorplan.certified`): random problems; a bracket on v*(s0) that shrinks
  until it is within δ/2.
* ``paper`` (:mod:`tensorplan.planners.printed.printed`): the pseudocode with its constants, or with others; a planner
  of its own, :class:`PaperTensorPlan`.
* ``auto``: ``exact`` where the problem is declared deterministic, else ``certified``.

Realizability is needed only at the states that can be reached from the start: no other state is ever visited.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import InitVar, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from tensorplan.core import Access, Policy
from tensorplan.core.errors import BadInput, Refused
from tensorplan.planners.evidence.ledger import Ledger
from tensorplan.planners.printed.constants import CONSTANTS, PaperOptions
from tensorplan.planners.sessions import OneProblem
from tensorplan.planners.tensorplan.config import Config

if TYPE_CHECKING:  # the modes load the optimiser, and are imported when one of them is begun
    from tensorplan.planners.certified.planning import CertifiedMemory
    from tensorplan.planners.tensorplan.facts import ExactMemory

M = TypeVar("M")


class _MadeByMode:
    """Makes ``mode="paper"`` construct the planner of that mode, as ``pathlib.Path`` constructs that of the system."""

    paper: ClassVar[type[Any]]

    def __new__(cls, *, mode: str = "auto", **options: Any) -> Self:
        made: Self = super().__new__(cls.paper if mode == "paper" else cls)
        return made


@dataclass(frozen=True, kw_only=True, repr=False)
class TensorPlan(_MadeByMode, Config):
    """TensorPlan, δ-sound: E[return] >= v*(s0) - δ.

    ``delta``: the allowed loss; None takes a tenth of the range of returns.  Exact mode loses nothing and uses it for
    discounted problems only.  ``eta``: the misspecification of v* by the features, in sup norm; the loss may then grow
    by η (1 + (1 + γ) Σ_t γ^t), and the certificate shows how much it does.  ``budget``: queries per episode; once they
    are spent, the best policy so far acts.  ``time_limit``: the same in seconds of planning per episode, which makes
    runs irreproducible.  ``discount``: γ, if the features realize a discounted value and the problem
    does not declare it.  ``recheck``: in exact mode, the share of the steps of the final path that are queried again
    before it is called certified, since determinism is only declared; 1 queries all of them.  ``ask``: in exact mode,
    ``"lazy"`` queries one action at a time until one is consistent, ``"all"`` all of them.  ``anyway``: in certified
    mode, queries for an upper bound that holds whatever the features, as a share of those made before; 0 for none.
    ``trace``: record every
    iteration.  ``callback``: called with every iteration; a true result stops planning.  ``n1``, ``n2``, ``n3``, ``c``,
    ``zeta`` are for mode ``paper``, which constructs a :class:`PaperTensorPlan`.
    """

    n1: InitVar[int | None] = None
    n2: InitVar[int | None] = None
    n3: InitVar[int | None] = None
    c: InitVar[float | None] = None
    zeta: InitVar[float | None] = None
    modes: ClassVar[tuple[str, ...]] = ("auto", "exact", "certified", "paper")
    about: ClassVar[str] = "TensorPlan, with a certificate: queries do not depend on the number of states"

    def __post_init__(self, *constants: float | None) -> None:
        super().__post_init__()
        for name, value in zip(CONSTANTS, constants, strict=False):  # fields in mode ``paper``
            if value is not None:
                raise BadInput(f"{name} is a constant of mode 'paper', and the mode is {self.mode!r}")

    def begin(self, access: Access, rng: np.random.Generator) -> Policy:
        """Start an episode without a memory."""
        return self.session().begin(access, rng)

    def session(self) -> TensorPlanSession:
        """A planner that keeps its measurements for later episodes of the same problem, from any start state."""
        return TensorPlanSession(self)

    def fit(self, access: Access) -> str:
        """The mode for a problem; refuses one that does not fit, before any query."""
        name = f"problem {access.problem_name!r}"
        if not access.has_phi_v:
            raise Refused(f"{name} has no phi_v, which TensorPlan needs; TensorPlanQ plans with phi_q")
        deterministic = access.deterministic_transitions and access.deterministic_rewards
        mode = self.mode
        if mode == "auto":
            mode = "exact" if deterministic else "certified"
        if mode == "exact" and not deterministic:
            what = "rewards" if access.deterministic_transitions else "transitions"
            raise Refused(
                f"mode 'exact' is for deterministic problems, and {name} does not declare deterministic {what}"
            )
        if mode == "certified" and access.horizon is None and self.gamma(access) == 1:
            raise Refused(
                f"mode 'certified' needs episodes of bounded length, and {name} has neither a horizon nor a discount "
                "(discount=...); tp.Hindsight (--planner hindsight) needs only a finite range of returns"
            )
        if math.isfinite(access.return_range(0, self.gamma(access))[0]):
            self.accuracy(access)
        return mode


@dataclass(frozen=True, kw_only=True, repr=False)
class PaperTensorPlan(PaperOptions, TensorPlan):
    """TensorPlan as printed: ``n1``, ``n2``, ``n3``, ``c``, ``zeta`` replace its constants."""

    about: ClassVar[str] = "TensorPlan as printed, with the paper's constants or with others"


TensorPlan.paper = PaperTensorPlan


class TensorPlanSession:
    """TensorPlan with a memory, for episodes of one problem; all of its brackets hold together at the confidence."""

    def __init__(self, config: TensorPlan) -> None:
        self.config = config
        self._problem = OneProblem()
        self._memories: dict[Any, ExactMemory | CertifiedMemory] = {}
        self._ledger: Ledger | None = None

    def __repr__(self) -> str:
        return repr(self.config)

    def begin(self, access: Access, rng: np.random.Generator) -> Policy:
        """Start an episode with the measurements of earlier ones; mode ``paper`` keeps none, as printed."""
        self._problem.check(access)
        return self._begin(access, rng, "all start states")

    def _begin(self, access: Access, rng: np.random.Generator, about: Hashable) -> Policy:
        """Plan with the memory for ``about``; None for a memory that is not kept."""
        from tensorplan.planners.certified.planning import CertifiedMemory, CertifiedPlanning, failure_probability
        from tensorplan.planners.printed.printed import PaperPlanning
        from tensorplan.planners.tensorplan.exact import ExactPlanning
        from tensorplan.planners.tensorplan.facts import ExactMemory

        mode = self.config.fit(access)
        config = self.config
        if (gamma := config.gamma(access)) != config.discount:
            config = replace(config, discount=gamma)
        if isinstance(config, PaperOptions):
            return PaperPlanning(config, config.overrides, access).plan()
        access.limit_time(config.time_limit)
        memory = self._memories.get(about)
        if mode == "exact":
            memory = memory if isinstance(memory, ExactMemory) else ExactMemory(config, access)
            return ExactPlanning(config, access, self._kept(about, memory), rng).plan()
        if self._ledger is None:
            self._ledger = Ledger(failure_probability(config, access))
        memory = memory if isinstance(memory, CertifiedMemory) else CertifiedMemory(config, access, self._ledger)
        return CertifiedPlanning(config, access, self._kept(about, memory), rng).plan()

    def _kept(self, about: Hashable, memory: M) -> M:
        if about is not None:
            self._memories[about] = memory  # type: ignore[assignment]
        return memory
