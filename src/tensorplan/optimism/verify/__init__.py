"""The checker: a certificate is believed for what its numbers prove, not for where they came from.

It shares nothing with the search but the data types.  A leaf with multipliers y proves, by weak duality,

    <c, θ>  <=  Σ_j y_j g_j + Σ_e y_e (end_e - l0_e) + B ‖c - Σ_j y_j G_j - Σ_e y_e l_e‖                          (*)

for every θ of the ball with G_j θ <= g_j (y_j >= 0) and low_e <= l0_e + <l_e, θ> <= high_e, where end_e is high_e for
y_e > 0 and low_e for y_e < 0, and must be finite.  The same with c = 0 reads 0 <= right-hand side, so a negative
right-hand side shows that no θ is there.

    tree       the branchings cover the feasible set, and every multiplier belongs to a row or to a range on its path
    terms      the rows, forms and leaves as arrays, ready for (*)
    floating   the right-hand side of (*) in floating point, with a bound on its rounding error
    rational   the same in exact fractions
    leaves     every leaf claims what its multipliers prove
    solution   status, bound, value and theta agree with the leaves and with the program
"""

from __future__ import annotations

from tensorplan.core.errors import CertificateError
from tensorplan.optimism.program import Program, Solution
from tensorplan.optimism.verify.leaves import check_leaves
from tensorplan.optimism.verify.solution import check_status, check_theta
from tensorplan.optimism.verify.terms import Leaves, Terms
from tensorplan.optimism.verify.tree import check_tree

__all__ = ["verify"]


def verify(program: Program, solution: Solution, *, exact: bool = False) -> float:
    """A proven upper bound of max <objective, θ> over the program; -inf when it is proven to be infeasible.

    Raises :class:`CertificateError` unless the certificate is a tree whose branchings cover the feasible set, the
    multipliers of each leaf prove what the leaf claims, and bound, value, theta and status agree with the leaves.

    The claims are compared, not trusted: a claim further than ``CLAIM`` (and the rounding of its own evaluation, at
    most ``DOUBT``) from what the multipliers prove, on either side, is refused.  What comes back is the largest
    right-hand side of (*) itself, rounded outward, so it holds whatever the claims were.  A leaf that floating point
    cannot decide is decided in rational arithmetic; with ``exact`` all leaves are, and the answer is that maximum
    rounded up to a float.
    """
    tree = solution.certificate
    if tree is None:
        raise CertificateError("the solution has no certificate: solve with certificate=True")
    check_tree(program, tree)
    leaves = Leaves.of(program, tree)
    confirmed = check_leaves(Terms(program), leaves, exact)
    check_status(program, solution, leaves)
    check_theta(program, solution, confirmed)
    return confirmed
