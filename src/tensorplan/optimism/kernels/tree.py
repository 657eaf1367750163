"""The tree: the heap of its open nodes, and the way of a node to the desk and back."""

from __future__ import annotations

import numpy as np

from tensorplan.optimism.kernels.basis import DEPENDENT, clear, fetch, push, split
from tensorplan.optimism.kernels.compiled import inlined, kernel
from tensorplan.optimism.kernels.state import (
    CARRIED,
    COUNT,
    EQUAL,
    HEAP,
    HI,
    LO,
    NODES,
    ROW,
    SIDE,
    Basis,
    Desk,
    Rows,
    SearchTree,
    Y,
)
from tensorplan.optimism.kernels.vectors import copy

OPEN, INNER, CLOSED, VOID = 0, 1, 2, 3
"""What a node is: waiting, branched on, a leaf with a bound, a leaf without points."""


@kernel
def push_heap(tree: SearchTree, node: int, key: float) -> None:
    """Insert a node into the heap, the largest key on top.

    The key is the bound when the node is put there.  The bound may fall while it waits; the order must not notice.
    """
    i = tree.counters[HEAP]
    tree.counters[HEAP] += 1
    while i > 0 and tree.key[(i - 1) // 2] < key:
        up = (i - 1) // 2
        tree.heap[i], tree.key[i] = tree.heap[up], tree.key[up]
        i = up
    tree.heap[i], tree.key[i] = node, key


@kernel
def fill_heap(tree: SearchTree) -> None:
    """Open all leaves that are not void again, and make them the heap."""
    tree.counters[HEAP] = 0
    for node in range(tree.counters[NODES]):
        if tree.state[node] == OPEN or tree.state[node] == CLOSED:
            tree.state[node] = OPEN
            push_heap(tree, node, tree.bound[node])


@kernel
def pop_heap(tree: SearchTree) -> int:
    """Take the node with the largest key."""
    top = tree.heap[0]
    tree.counters[HEAP] -= 1
    size = tree.counters[HEAP]
    node, key = tree.heap[size], tree.key[size]
    i = 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and tree.key[child + 1] > tree.key[child]:
            child += 1
        if tree.key[child] <= key:
            break
        tree.heap[i], tree.key[i] = tree.heap[child], tree.key[child]
        i = child
    tree.heap[i], tree.key[i] = node, key
    return int(top)


@kernel
def narrow(rows: Rows, desk: Desk, form: int, low: float, high: float) -> tuple[float, float]:
    """Narrow the range of a form at the node on the desk; returns the range that it had, scaled."""
    before = desk.ranges[LO, form], desk.ranges[HI, form]
    if before[0] == -np.inf and before[1] == np.inf:
        desk.path[desk.path[COUNT]] = form
        desk.path[COUNT] += 1
    desk.ranges[LO, form] = max(before[0], low / rows.scale[form] + rows.centre[form])
    desk.ranges[HI, form] = min(before[1], high / rows.scale[form] + rows.centre[form])
    return before


@kernel
def widen(desk: Desk, form: int, before: tuple[float, float]) -> None:
    """Undo the last ``narrow``."""
    if before[0] == -np.inf and before[1] == np.inf:
        desk.path[COUNT] -= 1
    desk.ranges[LO, form], desk.ranges[HI, form] = before


@inlined
def load(rows: Rows, desk: Desk, tree: SearchTree, node: int) -> int:
    """Put a node's ranges and active rows on the desk; returns the number of active rows."""
    for p in range(desk.path[COUNT]):
        desk.ranges[LO, desk.path[p]] = -np.inf
        desk.ranges[HI, desk.path[p]] = np.inf
    desk.path[COUNT] = 0
    walk = node
    while walk > 0:
        narrow(rows, desk, tree.form[walk], tree.low[walk], tree.high[walk])
        walk = tree.parent[walk]
    k, d = 0, len(desk.basis.q)
    clear(rows, desk)
    for i in range(tree.active[node]):
        if k == d:
            break
        name, side = int(tree.row[node, i]), float(tree.side[node, i])
        k = _activate(rows, desk, k, name, side)
    return k


@inlined
def _activate(rows: Rows, desk: Desk, k: int, name: int, side: float) -> int:
    """Make a row active when it is independent of those that are; returns how many are."""
    basis = desk.basis
    b, equal = fetch(rows, desk, name, side)
    rest = split(basis, k)
    if rest <= DEPENDENT:
        return k
    push(basis, k, name, side, b, equal, 0.0, rest)
    return k + 1


@inlined
def store(desk: Desk, tree: SearchTree, node: int, k: int, bound: float, t: float) -> None:
    """Keep active rows, multipliers, bound and t of the node on the desk."""
    basis = desk.basis
    tree.bound[node], tree.t[node], tree.active[node] = bound, t, k
    for i in range(k):
        tree.row[node, i], tree.side[node, i], tree.y[node, i] = (
            basis.names[ROW, i],
            basis.v[SIDE, i],
            basis.v[Y, i],
        )


@kernel
def carry(source: Basis, target: Basis, k: int) -> None:
    """Copy k active rows and what belongs to them."""
    d = len(source.q)
    for i in range(k):
        target.names[ROW, i], target.names[EQUAL, i] = source.names[ROW, i], source.names[EQUAL, i]
        copy(source.q[i], target.q[i], d)
        copy(source.r[i], target.r[i], d)
    for line in range(CARRIED):
        copy(source.v[line], target.v[line], d + 1)
