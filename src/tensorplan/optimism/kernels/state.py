"""What a search works on: one object of arrays, for compiled code.

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

GIVEN_UP = 16
"""Rows that a projection may give up, being neither independent of the others nor provably in conflict with them."""

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


class Desk(NamedTuple):
    """Working memory of one node problem; k active rows."""

    q: Floats
    """Orthonormal basis of the span of the active rows, one per line, (d, d)."""
    r: Floats
    """Upper triangular: active row j is Σ_i r[i, j] q[i], (d, d)."""
    row: Integers
    """The active rows, (d + 1,)."""
    side: Floats
    """+1 when the row is active at hi, -1 at lo, (d + 1,)."""
    equal: Flags
    """Whether it is an equality, whose multiplier may have any sign, (d + 1,)."""
    b: Floats
    """side * rhs, (d + 1,)."""
    y: Floats
    """Multipliers, (d + 1,)."""
    x: Floats
    """The point, (d,)."""
    cq: Floats
    """Coordinates of c in the basis, (d + 1,)."""
    xq: Floats
    """Coordinates of x0 in the basis, (d + 1,)."""
    pc: Floats
    """P c, (d,)."""
    x0: Floats
    """The point of least norm with all active rows tight, (d,)."""
    u: Floats
    """Scratch, (d + 1,)."""
    w: Floats
    """Scratch, (d + 1,)."""
    z: Floats
    """Scratch, (d + 1,)."""
    n: Floats
    """Scratch: the row that is being added, (d,)."""
    lo: Floats
    """lo <= <f_k, x> is asked for at this node, (n A,)."""
    hi: Floats
    """<f_k, x> <= hi is asked for at this node, (n A,)."""
    given_up: Integers
    """Rows that the projection under way has given up, (GIVEN_UP,)."""
    path: Integers
    """The forms with a range at this node, and their number, (n A + 1,)."""
    hot: Integers
    """Plain rows that were violated somewhere, looked at first, and their number, (m + 1,)."""
    is_hot: Flags
    """Which those are, and whether to stop, (m + 1,).

    That is no array of its own because the desk is passed by value, and each array of it costs time.
    """


class Keep(NamedTuple):
    """A copy of what the desk holds of a node while its children are tried."""

    q: Floats
    r: Floats
    vectors: Floats
    """side, b, y, cq, xq, x, pc, x0, one per line, (8, d + 1)."""
    names: Integers
    """row and equal, one per line, (2, d + 1)."""


class Trial(NamedTuple):
    """The branchings that are tried, one per slot, and what their children would be, (slots, max(A, 2), ..)."""

    disjunction: Integers
    """(slots,)."""
    miss: Floats
    """By how much x misses it, (slots,)."""
    children: Integers
    """How many there are, (slots,)."""
    form: Integers
    low: Floats
    high: Floats
    kind: Integers
    bound: Floats
    t: Floats
    active: Integers
    row: Integers
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
    keep: Keep
    trial: Trial
    repair: Repair
    tree: SearchTree
    best: BestPoint


def make_desk(d: int, forms: int, rows: int) -> Desk:
    """Working memory for a program of that size."""
    vector = [np.zeros(d + 1) for _ in range(8)]
    return Desk(
        q=np.zeros((d, d)),
        r=np.zeros((d, d)),
        row=np.zeros(d + 1, dtype=np.int64),
        side=vector[0],
        equal=np.zeros(d + 1, dtype=np.bool_),
        b=vector[1],
        y=vector[2],
        x=np.zeros(d),
        cq=vector[3],
        xq=vector[4],
        pc=np.zeros(d),
        x0=np.zeros(d),
        u=vector[5],
        w=vector[6],
        z=vector[7],
        n=np.zeros(d),
        lo=np.full(forms, -np.inf),
        hi=np.full(forms, np.inf),
        given_up=np.zeros(GIVEN_UP, dtype=np.int64),
        path=np.zeros(forms + 1, dtype=np.int64),
        hot=np.zeros(rows + 1, dtype=np.int64),
        is_hot=np.zeros(rows + 1, dtype=np.bool_),
    )


def make_keep(d: int) -> Keep:
    """Memory for the copy of a node in dimension d."""
    return Keep(np.zeros((d, d)), np.zeros((d, d)), np.zeros((8, d + 1)), np.zeros((2, d + 1), dtype=np.int64))


def make_trial(slots: int, alternatives: int, d: int) -> Trial:
    """Memory for that many branchings."""
    shape = (slots, max(alternatives, 2))
    return Trial(
        disjunction=np.zeros(slots, dtype=np.int64),
        miss=np.zeros(slots),
        children=np.zeros(slots, dtype=np.int64),
        form=np.zeros(shape, dtype=np.int64),
        low=np.zeros(shape),
        high=np.zeros(shape),
        kind=np.zeros(shape, dtype=np.int64),
        bound=np.zeros(shape),
        t=np.zeros(shape),
        active=np.zeros(shape, dtype=np.int64),
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
