"""What a search works on: one object of arrays.

Compiled code allocates nothing: all scratch memory is here.  Objects are passed by value, array by array, so the
innermost functions take only those parts of the state that they need.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

COUNT = -1
"""The place in ``Desk.path`` and ``Desk.hot`` that says how many entries they have."""

STOP = -1
"""The place in ``Desk.is_hot`` that another thread may set, so that the search leaves off at once."""

NODES, HEAP, SOLVED, DIVE, DIVED, POPS = range(6)
"""Places in ``SearchTree.counters``: nodes of the tree, entries of the heap, node problems solved, the next of a dive
(or NO_NODE), steps of the dive so far, nodes taken from the heap."""

NO_NODE = -1

NO_HEAP = -1
"""Entries of the heap of a search that is taken up again: it is to be filled."""

GIVEN_UP = 16
"""Rows that a projection may give up, being neither independent of the others nor provably in conflict with them."""

PIVOTS = GIVEN_UP
"""The place in ``Desk.given_up`` that counts the rows that entered a projection: what a search mostly consists of."""

REPAIRS = 24
"""Rounds of the search for a feasible point near a node's; more seldom help."""


class Rows(NamedTuple):
    """The scaled program without its disjunctions.  Row j >= 0 is a plain row; row -1 - f is form f with the range that
    the node gives it."""

    c: Floats
    """The objective, a unit vector (or zero), (d,)."""
    a: Floats
    """Plain rows, (m, d), unit vectors (or zero)."""
    hi: Floats
    """Their right-hand sides, (m,)."""
    f: Floats
    """Directions of the forms, (n A, d), unit vectors (or zero)."""
    centre: Floats
    """Form k is scale_k (<f_k, x> - centre_k) in the program's units, (n A,)."""
    scale: Floats
    """(n A,); for a constant form its absolute value (1 when that is 0)."""
    moves: Flags
    """Whether a form depends on x, (n A,)."""


class Disjunctions(NamedTuple):
    """What is asked of the forms: disjunction i is about the forms i A .. (i + 1) A - 1."""

    tol: Floats
    """In the program's units, (n,)."""
    product: bool
    alternatives: int
    """A."""


SIDE, B, Y, CQ, XQ, X, PC, X0, U, W, Z, N = range(12)
"""Lines of ``Basis.v``.  Of the active rows: SIDE is +1 when a row is active at hi, -1 at lo; B is side * rhs; Y the
multipliers.  In the basis: CQ and XQ are the coordinates of c and of x0.  X is the point, PC is P c, X0 the point of
least norm with all active rows tight.  Scratch: U, W, Z, and N for the row that is being added."""

CARRIED = U
"""The lines before this one belong to a node; those from here on are scratch."""

ROW, EQUAL = range(2)
"""Lines of ``Basis.names``: the active rows, and whether each is an equality, whose multiplier may have any sign."""

LO, HI = range(2)
"""Lines of ``Desk.ranges``."""


class Basis(NamedTuple):
    """The active rows of a node, k <= d of them, or d + 1 in a proof that it is empty.

    Few arrays with many lines, since each array that a compiled function is passed costs time, and to compile too.
    """

    q: Floats
    """Orthonormal basis of the span of the active rows, one per line, (d, d)."""
    r: Floats
    """Upper triangular: active row j is Σ_i r[i, j] q[i], (d, d)."""
    v: Floats
    """Vectors, see ``SIDE`` and the names beside it, (12, d + 1)."""
    names: Integers
    """See ``ROW`` and ``EQUAL``, (2, d + 1)."""


class Desk(NamedTuple):
    """Working memory of one node problem."""

    basis: Basis
    ranges: Floats
    """LO <= <f_k, x> <= HI is asked for at this node, (2, n A)."""
    given_up: Integers
    """Rows that the projection under way has given up, and the number of pivots, (GIVEN_UP + 1,)."""
    path: Integers
    """The forms with a range at this node, and their number, (n A + 1,)."""
    hot: Integers
    """Plain rows that were violated somewhere, looked at first, and their number, (m + 1,)."""
    is_hot: Flags
    """Which those are, and whether to stop, (m + 1,)."""


class Relaxed(NamedTuple):
    """A solved node problem."""

    kind: int
    """BOUNDED or EMPTY, see :mod:`tensorplan.optimism.kernels.relax`."""
    active: int
    """The number of active rows; in an EMPTY one, of rows with a multiplier."""
    bound: float
    """What the multipliers prove, rounded up; -inf when EMPTY."""
    rounding: float
    """How much of the bound rounding up has added."""
    t: float
    """x = x(t)."""


FORM, KIND, ACTIVE = range(3)
"""``Trial.integers``: the form of which a child narrows the range, BOUNDED or EMPTY, and its number of active rows."""

LOW, HIGH, BOUND, T = range(4)
"""``Trial.reals``: the range that a child gives its form, what is proven of it, and its t."""


class Trial(NamedTuple):
    """The branchings that are tried, one per slot, and what their children would be."""

    disjunction: Integers
    """(slots,)."""
    miss: Floats
    """By how much x misses it, (slots,)."""
    children: Integers
    """How many there are, (slots,)."""
    integers: Integers
    """Of each child: see ``FORM`` and the names beside it, (3, slots, max(A, 2))."""
    reals: Floats
    """Of each child: see ``LOW`` and the names beside it, (4, slots, max(A, 2))."""
    row: Integers
    """The active rows of each child, (slots, max(A, 2), d + 1); so are their sides and multipliers."""
    side: Floats
    y: Floats
    value: Floats
    """Scratch: the factors of a product at x, (A,)."""
    least: Floats
    """Scratch: their least sizes at the node, (A,)."""


class Repair(NamedTuple):
    """The ranges that a repair has narrowed, to be undone: the form and what its range was, (REPAIRS n,)."""

    form: Integers
    low: Floats
    high: Floats


class SearchTree(NamedTuple):
    """All nodes of the tree, one per line, node 0 the root; and the heap of those that are open."""

    parent: NDArray[np.int32]
    form: NDArray[np.int32]
    low: Floats
    high: Floats
    bound: Floats
    t: Floats
    state: NDArray[np.int8]
    active: NDArray[np.int32]
    row: NDArray[np.int32]
    side: NDArray[np.int8]
    y: Floats
    heap: Integers
    """Open nodes; some may be listed twice, or be closed by now."""
    key: Floats
    """Their bounds when they were put there."""
    counters: Integers
    """See ``NODES`` and the names beside it, (6,)."""


class BestPoint(NamedTuple):
    """The best feasible point so far."""

    value: Floats
    """<c, x>, -inf when there is no point, (1,)."""
    x: Floats
    """(d,)."""


class SearchState(NamedTuple):
    """All of a search: the program, the node on the desk, the branchings on trial, the tree and the best point."""

    rows: Rows
    disjunctions: Disjunctions
    desk: Desk
    kept: Basis
    """A copy of the node on the desk, while its children are tried."""
    trial: Trial
    repair: Repair
    tree: SearchTree
    best: BestPoint


def make_basis(d: int) -> Basis:
    """Working memory for active rows in dimension d."""
    return Basis(
        q=np.zeros((d, d)),
        r=np.zeros((d, d)),
        v=np.zeros((12, d + 1)),
        names=np.zeros((2, d + 1), dtype=np.int64),
    )


def make_desk(d: int, forms: int, rows: int) -> Desk:
    """Working memory for a program of that size."""
    return Desk(
        basis=make_basis(d),
        ranges=np.stack([np.full(forms, -np.inf), np.full(forms, np.inf)]),
        given_up=np.zeros(GIVEN_UP + 1, dtype=np.int64),
        path=np.zeros(forms + 1, dtype=np.int64),
        hot=np.zeros(rows + 1, dtype=np.int64),
        is_hot=np.zeros(rows + 1, dtype=np.bool_),
    )


def make_trial(slots: int, alternatives: int, d: int) -> Trial:
    """Memory for that many branchings."""
    shape = (slots, max(alternatives, 2))
    return Trial(
        disjunction=np.zeros(slots, dtype=np.int64),
        miss=np.zeros(slots),
        children=np.zeros(slots, dtype=np.int64),
        integers=np.zeros((3, *shape), dtype=np.int64),
        reals=np.zeros((4, *shape)),
        row=np.zeros((*shape, d + 1), dtype=np.int64),
        side=np.zeros((*shape, d + 1)),
        y=np.zeros((*shape, d + 1)),
        value=np.zeros(alternatives),
        least=np.zeros(alternatives),
    )


def make_repair(products: int) -> Repair:
    """Memory for a repair of that many products."""
    size = REPAIRS * products
    return Repair(form=np.zeros(size, dtype=np.int64), low=np.zeros(size), high=np.zeros(size))


def make_tree(capacity: int, d: int) -> SearchTree:
    """Room for that many nodes, each of which may be listed twice in the heap."""
    return SearchTree(
        parent=np.zeros(capacity, dtype=np.int32),
        form=np.zeros(capacity, dtype=np.int32),
        low=np.zeros(capacity),
        high=np.zeros(capacity),
        bound=np.zeros(capacity),
        t=np.zeros(capacity),
        state=np.zeros(capacity, dtype=np.int8),
        active=np.zeros(capacity, dtype=np.int32),
        row=np.zeros((capacity, d + 1), dtype=np.int32),
        side=np.zeros((capacity, d + 1), dtype=np.int8),
        y=np.zeros((capacity, d + 1)),
        heap=np.zeros(2 * capacity, dtype=np.int64),
        key=np.zeros(2 * capacity),
        counters=np.zeros(6, dtype=np.int64),
    )
