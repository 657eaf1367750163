"""The solution: status, bound, value and theta agree with the leaves and with the program."""

from __future__ import annotations

import math

import numpy as np

from tensorplan.core.errors import CertificateError
from tensorplan.optimism.program import Array, Program, Solution
from tensorplan.optimism.verify.leaves import CLAIM
from tensorplan.optimism.verify.terms import SMALLEST_NORMAL, Leaves, norms, scale
from tensorplan.optimism.verify.tree import refuse

FEASIBLE = 1e-7
"""A θ may exceed a constraint by this much of the largest value its left-hand side has on the ball."""


def check_status(program: Program, solution: Solution, leaves: Leaves) -> None:
    """The claimed bound is the largest of the leaves, and status says infeasible exactly when all leaves are empty.

    The value of theta, which satisfies the program up to ``FEASIBLE`` only, may be ahead of the leaves by as much: then
    it is the bound.  A bound below a leaf is none, be it by a hair.
    """
    status, bound, largest = solution.status, float(solution.bound), float(leaves.claim.max())
    if status not in ("optimal", "infeasible", "limit"):
        raise CertificateError(f"the solution has the unknown status {status!r}")
    if status == "optimal" and solution.theta is None:
        raise CertificateError("the solution is called optimal but has no theta")
    if (largest == -math.inf) != (status == "infeasible"):
        proven = "empty" if largest == -math.inf else "not all empty"
        raise CertificateError(f"the solution has the status {status!r} but its leaves are {proven}")
    slack = CLAIM * (abs(largest) + scale(program) + SMALLEST_NORMAL)
    ahead = solution.theta is not None and largest > -math.inf
    highest = max(largest, float(solution.value)) if ahead else largest
    if bound != highest and not (largest <= bound <= highest + slack < math.inf):
        raise CertificateError(f"the solution claims the bound {bound:.12g} but its leaves claim {largest:.12g}")


def check_theta(program: Program, solution: Solution, confirmed: float) -> None:
    """theta satisfies the program up to ``FEASIBLE``, and value is <objective, theta>, not above the bound."""
    value = float(solution.value)
    if solution.theta is None:
        if value != -math.inf:
            raise CertificateError(f"the solution has the value {value:.12g} but no theta")
        return
    if solution.status == "infeasible":
        raise CertificateError("the solution is called infeasible but has a theta")
    theta = np.asarray(solution.theta, dtype=np.float64)
    if theta.shape != (program.dimension,) or not np.isfinite(theta).all():
        raise CertificateError(f"theta must be a vector of {program.dimension} finite numbers")
    with np.errstate(all="ignore"):
        _check_feasible(program, theta)
        reached = float(program.objective @ theta)
    size = abs(reached) + scale(program) + SMALLEST_NORMAL
    if not abs(value - reached) <= CLAIM * size < math.inf:
        raise CertificateError(f"the solution claims the value {value:.12g} but theta has {reached:.12g}")
    # theta is feasible up to FEASIBLE only, so its value may pass the bound by as much.
    if not value <= confirmed + FEASIBLE * size:
        raise CertificateError(f"the solution claims the value {value:.12g}, above the proven bound {confirmed:.12g}")


def _check_feasible(program: Program, theta: Array) -> None:
    """theta is in the ball, the rows and the disjunctions, each up to ``FEASIBLE`` times its largest size on the ball.

    Sizes: B for the ball, |g_j| + B ‖G_j‖ for row j, |l0| + B ‖l‖ for a form and the product of these for a product.
    """
    radius, length = program.radius, float(norms(theta[None])[0])
    if not length <= radius * (1 + FEASIBLE):
        raise CertificateError(f"theta has norm {length:.12g}, the ball has radius {radius:.12g}")
    rows = program.rows @ theta
    room = program.rhs + FEASIBLE * (np.abs(program.rhs) + radius * norms(program.rows))
    refuse(~(rows <= room), lambda j: f"theta violates row {j}: {rows[j]:.12g} > {program.rhs[j]:.12g}")
    forms = np.abs(program.forms[..., 0] + program.forms[..., 1:] @ theta)
    vectors = program.forms[..., 1:].reshape(-1, program.dimension)
    sizes = np.abs(program.forms[..., 0]) + radius * norms(vectors).reshape(forms.shape)
    if program.product:
        met = forms.prod(axis=1) <= program.tol + FEASIBLE * sizes.prod(axis=1)
    else:
        met = (forms <= program.tol[:, None] + FEASIBLE * sizes).any(axis=1)
    refuse(~met, lambda i: f"theta violates disjunction {i}")
