"""What certificates claim: their assumption, the gap that η explains, and what contradicts them."""

from __future__ import annotations

import math
import warnings

from tensorplan.core import Access, Certificate, Policy
from tensorplan.core.errors import NotRealizable
from tensorplan.planners.evidence.place import Place

ROUNDING = 1e-9
"""By how much bounds may cross, relative to the scale of returns, before that is a contradiction."""


def rounding_of(access: Access, discount: float) -> float:
    """The rounding tolerance of a problem, relative to the range of returns or to 1 + B, whichever is smaller."""
    low, high = access.return_range(0, discount)
    return ROUNDING * min(1 + access.bound, high - low)


def assumption(access: Access, eta: float, values: str = "v*(s)", features: str = "phi_v(s)") -> str:
    """The assumption of an upper bound by optimism."""
    within = f"is within {eta:g} of" if eta else "="
    return (
        f"{values} {within} <{features}, theta> at all states that can be reached, with one theta of norm at most "
        f"{access.bound:g}"
    )


def explained_gap(eta: float, discount: float, steps: int) -> float:
    """The gap that a misspecification of η can leave: η + (1 + γ) η Σ_t γ^t."""
    visits = math.fsum(discount**t for t in range(steps))
    return eta + (1 + discount) * eta * visits


def warn(problem: str, certificate: Certificate) -> None:
    """Issue the reasons to doubt a certificate as Python warnings."""
    if certificate.status in ("certified", "doubtful", "eta"):
        for doubt in certificate.warnings:
            warnings.warn(f"problem {problem!r}, status {certificate.status!r}: {doubt}", stacklevel=2)


def unfit_by_table(access: Access, eta: float, kind: str = "v") -> bool:
    """Whether the problem has a table, and no θ of norm B is within η of v* (or q*) at all of its states."""
    misfit = access.misfit(kind)
    return misfit is not None and misfit.least > eta + rounding_of(access, access.discount)


def table_refutation(access: Access, policy: Policy, kind: str = "v") -> NotRealizable:
    """The error for features that do not realize the values of the problem's table."""
    misfit = access.misfit(kind)
    assert misfit is not None
    where = ", ".join(str(Place(stage, state)) for stage, state in misfit.places[:4])
    return NotRealizable(
        f"problem {access.problem_name!r} is not realizable with B={access.bound:g} (for certain): its table gives "
        f"{misfit.kind}*, which no parameter fits better than {misfit.least:.4g} at {where}",
        misfit.places,
        misfit.least,
        misfit.bound,
        policy,
    )
