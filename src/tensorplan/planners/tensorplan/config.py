"""TensorPlan (Weisz, Szepesvári and György 2022): act near-optimally where v*(s) = <φ(s), θ*>, with local access.

Its idea, in all modes: choose an optimistic θ among those that everything measured so far allows; roll out the
actions that are consistent with it; where none is, measure the state, which excludes θ; repeat until a rollout is
clean.  The number of queries does not depend on the number of states.

* ``exact`` (:mod:`tensorplan.planners.tensorplan.exact`): nothing is random; an optimal path, with a proof.
* ``certified`` (:mod:`tensorplan.planners.tensorplan.certified`): random problems; a bracket on v*(s0) that shrinks
until it is
  within δ/2.
* ``paper`` (:mod:`tensorplan.planners.printed.printed`): the pseudocode with its constants, or with others.
* ``auto``: ``exact`` where the problem is declared deterministic, else ``certified``.

Realizability is needed at the states that can be reached from the start only: no other state is ever looked at.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from tensorplan.core import Access, Policy
from tensorplan.core.errors import BadInput, Refused
from tensorplan.core.specs import number, one_of, truth, whole
from tensorplan.planners.evidence.ledger import Ledger
from tensorplan.planners.sessions import OneProblem

if TYPE_CHECKING:  # the modes load the optimiser, and are imported when one of them is begun
    from tensorplan.planners.tensorplan import certified, exact
    from tensorplan.planners.tensorplan.trace import Callback

MODES = ("auto", "exact", "certified", "paper")
CONSTANTS = ("n1", "n2", "n3", "c", "zeta")

M = TypeVar("M")

SHARE = 0.1
"""δ as a share of the range of returns where none is given."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TensorPlan:
    """TensorPlan, δ-sound: E[return] >= v*(s0) - δ.

    ``delta``: the loss that is allowed; None takes a tenth of the range of returns.  Exact mode loses nothing and
    does not use it, but for discounted problems.  ``eta``: by how much features may miss v*, in sup norm; the loss
    may then grow by η (1 + (1 + γ) Σ_t γ^t), and the certificate shows by how much it does.  ``budget``: queries of
    an episode; when they are spent, the best policy so far acts.  ``discount``: γ, where the features realize a
    discounted value and the problem does not say so.
    ``recheck``: in exact mode, the share of the answers along the final path that are asked again before anything is
    called certified, since the determinism is only declared; 1 asks all of them.
    ``ask``: in exact mode, ``"lazy"`` asks for one action at a time until one is consistent, ``"all"`` for all of
    them.  ``trace``: record every iteration.  ``callback``: hears of every iteration, and stops the planning by a
    true answer.  ``n1``, ``n2``, ``n3``, ``c``, ``zeta`` replace constants of mode ``paper``.
    """

    delta: float | None = None
    mode: str = "auto"
    eta: float = 0.0
    budget: int | None = None
    discount: float = 1.0
    ask: str = "lazy"
    recheck: float = 0.1
    trace: bool = False
    callback: Callback | None = field(default=None, compare=False)
    n1: int | None = None
    n2: int | None = None
    n3: int | None = None
    c: float | None = None
    zeta: float | None = None
    about: ClassVar[str] = "TensorPlan, with a certificate: queries do not depend on the number of states"

    def __post_init__(self) -> None:
        if self.delta is not None and not number("delta", self.delta, -math.inf) > 0:
            raise BadInput(f"delta must be positive, got {self.delta!r}")
        one_of("mode", self.mode, MODES)
        number("eta", self.eta, 0.0)
        if self.budget is not None:
            whole("budget", self.budget, 0)
        if not number("discount", self.discount, 0.0, 1.0) > 0:
            raise BadInput(f"discount must be above 0 and at most 1, got {self.discount!r}")
        one_of("ask", self.ask, ("lazy", "all"))
        number("recheck", self.recheck, 0.0, 1.0)
        truth("trace", self.trace)
        if self.callback is not None and not callable(self.callback):
            raise BadInput(f"callback must be callable, got {self.callback!r}")
        if self.mode != "paper":
            for name in CONSTANTS:
                if getattr(self, name) is not None:
                    raise BadInput(f"{name} is a constant of mode 'paper', and the mode is {self.mode!r}")

    def __repr__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        given.pop("callback", None)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def begin(self, access: Access, rng: np.random.Generator) -> Policy:
        """Start an episode, knowing nothing."""
        return self.session().begin(access, rng)

    def session(self) -> Session:
        """A planner that keeps what it measures for later episodes of the same problem, wherever they start."""
        return Session(self)

    def gamma(self, access: Access) -> float:
        """The discount: the problem's, or the one given here for a problem that has none."""
        if self.discount == 1 or access.discount in (1, self.discount):
            return min(self.discount, access.discount)
        raise BadInput(
            f"discount={self.discount:g} was given, and problem {access.problem_name!r} has {access.discount:g}: "
            "leave it out"
        )

    def accuracy(self, access: Access) -> float:
        """δ, as given or a tenth of the range of returns; refused where every policy is that good."""
        low, high = access.return_range(0, self.gamma(access))
        trivial = min(high, access.bound + self.eta) - low
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

    def fit(self, access: Access) -> str:
        """The mode for a problem; refused, before any query, where the problem does not fit."""
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
                f"mode 'certified' needs a range of returns: {name} has neither a horizon nor a discount (discount=...)"
            )
        if math.isfinite(access.return_range(0, self.gamma(access))[0]):
            self.accuracy(access)
        return mode


class Session:
    """A TensorPlan with a memory, for episodes in one problem; all of its brackets hold at the stated confidence."""

    def __init__(self, config: TensorPlan) -> None:
        self.config = config
        self._problem = OneProblem()
        self._memories: dict[Any, exact.Memory | certified.Memory] = {}
        self._ledger: Ledger | None = None

    def __repr__(self) -> str:
        return repr(self.config)

    def begin(self, access: Access, rng: np.random.Generator) -> Policy:
        """Start an episode with what earlier ones have measured; mode ``paper`` starts anew, as printed."""
        self._problem.check(access)
        return self._begin(access, rng, "all start states")

    def _begin(self, access: Access, rng: np.random.Generator, about: Hashable) -> Policy:
        """Plan with the memory of that name; None stands for one that is forgotten."""
        from tensorplan.planners.printed.printed import PaperPolicy
        from tensorplan.planners.tensorplan import certified, exact

        mode = self.config.fit(access)
        config = self.config
        if (gamma := config.gamma(access)) != config.discount:
            config = replace(config, discount=gamma)
        if mode == "paper":
            return PaperPolicy(config, access)
        memory = self._memories.get(about)
        if mode == "exact":
            memory = memory if isinstance(memory, exact.Memory) else exact.Memory(config, access)
            policy: Policy = exact.Planning(config, access, self._kept(about, memory), rng).plan()
            return policy
        if self._ledger is None:
            self._ledger = Ledger(certified.failure_probability(config, access))
        memory = memory if isinstance(memory, certified.Memory) else certified.Memory(config, access, self._ledger)
        return certified.Planning(config, access, self._kept(about, memory), rng).plan()

    def _kept(self, about: Hashable, memory: M) -> M:
        if about is not None:
            self._memories[about] = memory  # type: ignore[assignment]
        return memory
