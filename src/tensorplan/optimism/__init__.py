r"""The optimistic step, solved exactly and with a proof.

The problem.  Given c in R^d, a radius B, rows G, g and affine forms l_{i,a}(θ) = L_{i,a,0} + <L_{i,a,1:}, θ>,

    maximise <c, θ>   subject to   ‖θ‖ <= B,   G θ <= g,   and for each i:  some a has |l_{i,a}(θ)| <= tol_i.      (P)

TensorPlan's choice of an optimistic parameter is of this form (Weisz et al. 2022, the maximisation over Sol): the rows
are Bellman inequalities and ranges of values, and there is one disjunction for each state that was measured.  With
``product=True`` the disjunctions are the paper's own constraint |Π_a l_{i,a}(θ)| <= tol_i.  The problem is not convex,
and for growing d it has no polynomial algorithm unless NP = RP.

The relaxation.  Drop the disjunctions but for some that were decided, |l_{i,a}(θ)| <= w: what is left is a linear
function over a ball and a polyhedron { A θ <= b }.  For every y >= 0 (of any sign for an equality)

    <c, θ>  =  <y, A θ> + <c - Aᵀy, θ>  <=  b·y + B ‖c - Aᵀy‖,                                                    (W)

and the best y attains the optimum.  When the same expression with c = 0 is negative, no θ satisfies the rows.

The branching.  If the relaxation's θ misses disjunction i, every feasible point lies in one of the A slabs
|l_{i,a}| <= tol_i, none of which contains θ.  For a product, any widths t_a with Π t_a = tol_i give slabs
|l_{i,a}| <= t_a of which every feasible point is in one.  Such slabs overlap, and near the optimum all of them would
have to be refined again and again; so the range of a factor is split in two, l_{i,a} <= s or l_{i,a} >= s, until the
least sizes m_b of the others are known well enough for the slab |l_{i,a}| <= tol_i / Π_{b != a} m_b to cut θ off.

The proof.  The tree of branchings with one y per leaf proves the bound: the leaves cover the feasible set, and (W)
bounds each of them.  ``solve(..., certificate=True)`` returns it as a :class:`BoundTree`, and :func:`verify`, which
shares no code with the search, checks it in floating point with outward rounding or in exact fractions.  Pruning rests
on (W) alone, never on the accuracy of the point, so numerical trouble can cost time or tightness but not a feasible θ.

Numbers.  Everything is scaled to the unit ball and to rows of norm one.  There a row holds when it is missed by no
more than 1e-11, a disjunction when an alternative is missed by no more than 1e-9, a product when moving one factor by
1e-9 would do.  ``"optimal"`` means bound - value <= gap max(1, |value|), or 4e-13 B ‖c‖ where that is
larger.  ``"limit"`` means that time or nodes ran out, or the digits of double precision (where the rows leave one
point of the ball's surface, a bound may not come closer than about 1e-8 B ‖c‖): theta is feasible if there is one,
and the bound is valid.

The files, from the statement to the search and its checker:

    program    the data types: Program, Solution, BoundTree
    scale      the program in the unit ball, and which sizes of numbers are refused
    kernels/   the inner loops: relaxation, tree, points, branching
    execution  whether they run as Python or as machine code
    search     Search and solve: time limits, Ctrl-C, programs that grow
    prove      the tree and its multipliers as a BoundTree, in the units of the program
    verify/    the checker

>>> from tensorplan.optimism import Program, solve, verify
>>> program = Program(objective=[1.0, 0.5], radius=2.0, forms=[[[0.3, 1, 0], [0.2, 0, 1]]])   # θ_0 = -0.3 or θ_1 = -0.2
>>> s = solve(program, certificate=True)
>>> s.status, round(s.value, 6), s.theta.round(6).tolist()
('optimal', 1.889975, [1.989975, -0.2])
>>> round(verify(program, s), 6)
1.889975
"""

from tensorplan.core.errors import CertificateError, ProgramError
from tensorplan.optimism.program import BoundTree, Program, Solution
from tensorplan.optimism.search import Search, solve
from tensorplan.optimism.verify import verify

__all__ = ["BoundTree", "CertificateError", "Program", "ProgramError", "Search", "Solution", "solve", "verify"]
