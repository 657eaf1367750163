"""The tree: the heap of its open nodes, and the way of a node to the desk and back."""

from __future__ import annotations

import numpy as np

from tensorplan.optimism.kernels.basis import DEPENDENT, clear, fetch, push, split
from tensorplan.optimism.kernels.compiled import inlined, kernel
from tensorplan.optimism.kernels.state import COUNT, HEAP, NODES, Desk, Keep, Rows, SearchTree
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


def fill_heap(tree: SearchTree) -> None:
    """Open all leaves that are not void again, and make them the heap."""
    used = tree.counters[NODES]
    leaves = np.flatnonzero((tree.state[:used] == OPEN) | (tree.state[:used] == CLOSED))
    tree.state[leaves] = OPEN
    order = leaves[np.argsort(-tree.bound[leaves], kind="stable")]  # falling keys are a heap
    tree.heap[: len(order)], tree.key[: len(order)] = order, tree.bound[order]
    tree.counters[HEAP] = len(order)


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
    before = desk.lo[form], desk.hi[form]
    if before[0] == -np.inf and before[1] == np.inf:
        desk.path[desk.path[COUNT]] = form
        desk.path[COUNT] += 1
    desk.lo[form] = max(before[0], low / rows.scale[form] + rows.centre[form])
    desk.hi[form] = min(before[1], high / rows.scale[form] + rows.centre[form])
    return before


@kernel
def widen(desk: Desk, form: int, before: tuple[float, float]) -> None:
    """Undo the last ``narrow``."""
    if before[0] == -np.inf and before[1] == np.inf:
        desk.path[COUNT] -= 1
    desk.lo[form], desk.hi[form] = before


@inlined
def load(rows: Rows, desk: Desk, tree: SearchTree, node: int) -> int:
    """Put a node's ranges and active rows on the desk; returns the number of active rows."""
    for p in range(desk.path[COUNT]):
        desk.lo[desk.path[p]] = -np.inf
        desk.hi[desk.path[p]] = np.inf
    desk.path[COUNT] = 0
    walk = node
    while walk > 0:
        narrow(rows, desk, tree.form[walk], tree.low[walk], tree.high[walk])
        walk = tree.parent[walk]
    k, d = 0, len(desk.x)
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
    b, equal = fetch(rows, desk, name, side)
    rest = split(desk, k)
    if rest <= DEPENDENT:
        return k
    push(desk, k, name, side, b, equal, 0.0, rest)
    return k + 1


@inlined
def store(desk: Desk, tree: SearchTree, node: int, k: int, bound: float, t: float) -> None:
    """Keep active rows, multipliers, bound and t of the node on the desk."""
    tree.bound[node], tree.t[node], tree.active[node] = bound, t, k
    for i in range(k):
        tree.row[node, i], tree.side[node, i], tree.y[node, i] = desk.row[i], desk.side[i], desk.y[i]


@kernel
def put_by(desk: Desk, keep: Keep, k: int) -> None:
    """Copy the k active rows on the desk, and what belongs to them."""
    d = len(desk.x)
    for i in range(k):
        keep.names[0, i], keep.names[1, i] = desk.row[i], desk.equal[i]
        copy(desk.q[i], keep.q[i], d)
        copy(desk.r[i], keep.r[i], d)
    copy(desk.side, keep.vectors[0], k)
    copy(desk.b, keep.vectors[1], k)
    copy(desk.y, keep.vectors[2], k)
    copy(desk.cq, keep.vectors[3], k)
    copy(desk.xq, keep.vectors[4], k)
    copy(desk.x, keep.vectors[5], d)
    copy(desk.pc, keep.vectors[6], d)
    copy(desk.x0, keep.vectors[7], d)


@kernel
def put_back(keep: Keep, desk: Desk, k: int) -> None:
    """Undo what was done on the desk since ``put_by``."""
    d = len(desk.x)
    for i in range(k):
        desk.row[i], desk.equal[i] = keep.names[0, i], keep.names[1, i] != 0
        copy(keep.q[i], desk.q[i], d)
        copy(keep.r[i], desk.r[i], d)
    copy(keep.vectors[0], desk.side, k)
    copy(keep.vectors[1], desk.b, k)
    copy(keep.vectors[2], desk.y, k)
    copy(keep.vectors[3], desk.cq, k)
    copy(keep.vectors[4], desk.xq, k)
    copy(keep.vectors[5], desk.x, d)
    copy(keep.vectors[6], desk.pc, d)
    copy(keep.vectors[7], desk.x0, d)
