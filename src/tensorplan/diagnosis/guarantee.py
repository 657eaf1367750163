"""What TensorPlan guarantees with features that miss by η."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensorplan.core import Problem


@dataclass(frozen=True)
class Guarantee:
    """E[return] >= v*(s0) - δ - ``loss`` for a planner, given ``eta`` and a problem with ``bound``."""

    planner: str | None
    """None: none of the planners has a guarantee."""
    eta: float
    bound: float
    loss: float
    """inf without a guarantee."""
    uses_delta: bool
    """Whether δ is part of the loss: not in exact mode, but for discounted problems without a horizon."""
    vacuous: bool
    """Whether every policy is that good, since no return is that far below v*(s0)."""
    sentence: str


def guarantee(problem: Problem, kind: str, eta: float, bound: float, optimum: float) -> Guarantee:
    """The guarantee with features of v* or q* that some θ, ‖θ‖ <= bound, misses by at most eta at all places reached.

    T1-T3 are widened by what η explains (:mod:`tensorplan.planners.tensorplan.sol`).  An optimistic θ promises <φ(s0),
    θ>, no less than v*(s0) - η, and each of its steps keeps all but (1 + γ) η of the promise: the loss is at most δ + η
    (1 + (1 + γ) Σ_t γ^t), rounding aside.  TP' plans in the delayed problem, which has one step more. ``optimum``:
    v*(s0), or the largest where the start is random.
    """
    eta, bound = rounded_up(eta), rounded_up(bound) or 1.0
    refusal = _refusal(problem, kind, eta)
    if refusal is not None:
        return Guarantee(None, eta, bound, math.inf, False, True, f"no guarantee: {refusal}")
    uses_delta = not problem.deterministic or (problem.horizon is None and problem.discount < 1)
    loss = eta * (1 + (1 + problem.discount) * _steps(problem, 0 if kind == "v" else 1)) if eta else 0.0
    low, _ = problem.return_range()
    vacuous = loss > 0 and loss >= optimum - low
    planner = "TensorPlan" if kind == "v" else "TensorPlanQ"
    config = f"{planner}({f'eta={eta:g}' if eta else ''}) with bound={bound:g}"
    lost = " - delta" * uses_delta + (f" - {rounded_up(loss):g}" if loss else "")
    sentence = f"{config}: {'return' if problem.deterministic else 'E[return]'} >= v*(s0){lost}"
    if vacuous:
        sentence += f", which says nothing: v*(s0) = {optimum:.4g}, and no return is below {low:g}"
    return Guarantee(planner, eta, bound, loss, uses_delta, vacuous, sentence)


def rounded_up(x: float, digits: int = 4) -> float:
    """The least number with so many digits that is at least x >= 0."""
    near = float(f"{x:.{digits}g}")
    return near if near >= x else float(f"{near + _unit(x, digits):.{digits}g}")


def rounded_down(x: float, digits: int = 4) -> float:
    """The largest number with so many digits that is at most x >= 0."""
    near = float(f"{x:.{digits}g}")
    return near if near <= x else float(f"{near - _unit(x, digits):.{digits}g}")


def _unit(x: float, digits: int) -> float:
    """One in the last of so many digits."""
    return float(10.0 ** (math.floor(math.log10(x)) - digits + 1))


def _refusal(problem: Problem, kind: str, eta: float) -> str | None:
    """Why there is no guarantee."""
    endless = problem.horizon is None and problem.discount == 1
    if kind == "q" and not problem.deterministic_transitions:
        return "linear q* with random transitions and few actions is an open question"
    if kind == "q" and problem.discount < 1:
        return "TensorPlanQ is for undiscounted problems"
    if endless and not problem.deterministic:
        return "random problems need a horizon or a discount"
    if endless and eta:
        return "without a horizon or a discount errors add up without end, unless eta is 0"
    return None


def _steps(problem: Problem, more: int) -> float:
    """Σ_t γ^t over the steps of an episode, and ``more`` of them."""
    if problem.horizon is None:
        return 1 / (1 - problem.discount)
    return math.fsum(problem.discount**t for t in range(problem.horizon + more))
