"""The tree: nodes, the heap of those that are open, and a node on the desk."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorplan.optimism.relax import DEPENDENT, Desk, Rows, clear, compiled, fetch, push, split

OPEN, INNER, CLOSED, VOID = 0, 1, 2, 3
"""What a node is: waiting, branched on, a leaf with a bound, a leaf without points."""

NODES, HEAP, SOLVED, DIVE, DIVED, POPS = range(6)
"""Places in the array of counters."""


class Pool(NamedTuple):
    """All nodes, one per line; node 0 is the root."""

    parent: NDArray[np.int32]
    form: NDArray[np.int32]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    bound: NDArray[np.float64]
    t: NDArray[np.float64]
    state: NDArray[np.int8]
    active: NDArray[np.int32]
    row: NDArray[np.int32]
    side: NDArray[np.int8]
    y: NDArray[np.float64]


class Heap(NamedTuple):
    """Open nodes; some may be listed twice, or be closed by now."""

    node: NDArray[np.int64]
    key: NDArray[np.float64]


class Keep(NamedTuple):
    """A copy of what the desk holds of the parent while its children are tried."""

    q: NDArray[np.float64]
    r: NDArray[np.float64]
    row: NDArray[np.int64]
    side: NDArray[np.float64]
    equal: NDArray[np.bool_]
    b: NDArray[np.float64]
    y: NDArray[np.float64]
    x: NDArray[np.float64]
    cq: NDArray[np.float64]
    xq: NDArray[np.float64]
    pc: NDArray[np.float64]
    x0: NDArray[np.float64]


def make_pool(capacity: int, d: int) -> Pool:
    """Room for that many nodes."""
    return Pool(
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
    )


def make_heap(capacity: int) -> Heap:
    """Room for that many entries."""
    return Heap(node=np.zeros(capacity, dtype=np.int64), key=np.zeros(capacity))


def make_keep(d: int) -> Keep:
    """Memory for the copy of a node in dimension d."""
    vectors = [np.zeros(d + 1) for _ in range(5)]
    return Keep(
        q=np.zeros((d, d)),
        r=np.zeros((d, d)),
        row=np.zeros(d + 1, dtype=np.int64),
        side=vectors[0],
        equal=np.zeros(d + 1, dtype=np.bool_),
        b=vectors[1],
        y=vectors[2],
        x=np.zeros(d),
        cq=vectors[3],
        xq=vectors[4],
        pc=np.zeros(d),
        x0=np.zeros(d),
    )


@compiled
def push_heap(heap: Heap, counters: Any, node: int, key: float) -> None:
    """Insert a node into the heap, the largest key on top.

    The key is the bound when the node is put there.  The bound may fall while it waits; the order must not notice.
    """
    i = counters[HEAP]
    counters[HEAP] += 1
    while i > 0 and heap.key[(i - 1) // 2] < key:
        up = (i - 1) // 2
        heap.node[i], heap.key[i] = heap.node[up], heap.key[up]
        i = up
    heap.node[i], heap.key[i] = node, key


@compiled
def fill_heap(state: Any, bound: Any, heap: Heap, counters: Any) -> None:
    """The heap of all leaves that are not void, which are open again."""
    counters[HEAP] = 0
    for node in range(counters[NODES]):
        if state[node] == OPEN or state[node] == CLOSED:
            state[node] = OPEN
            push_heap(heap, counters, node, bound[node])


@compiled
def pop_heap(heap: Heap, counters: Any) -> int:
    """Take the node with the largest key."""
    top = heap.node[0]
    counters[HEAP] -= 1
    size = counters[HEAP]
    node, key = heap.node[size], heap.key[size]
    i = 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and heap.key[child + 1] > heap.key[child]:
            child += 1
        if heap.key[child] <= key:
            break
        heap.node[i], heap.key[i] = heap.node[child], heap.key[child]
        i = child
    heap.node[i], heap.key[i] = node, key
    return int(top)


@compiled
def narrow(rows: Rows, desk: Desk, form: int, low: float, high: float) -> tuple[float, float]:
    """Narrow the range of a form at the node on the desk; returns the range that it had, scaled."""
    before = desk.lo[form], desk.hi[form]
    if before[0] == -np.inf and before[1] == np.inf:
        desk.path[desk.path[-1]] = form
        desk.path[-1] += 1
    desk.lo[form] = max(before[0], low / rows.scale[form] + rows.centre[form])
    desk.hi[form] = min(before[1], high / rows.scale[form] + rows.centre[form])
    return before


@compiled
def widen(desk: Desk, form: int, before: tuple[float, float]) -> None:
    """Undo the last ``narrow``."""
    if before[0] == -np.inf and before[1] == np.inf:
        desk.path[-1] -= 1
    desk.lo[form], desk.hi[form] = before


@compiled
def load(rows: Rows, desk: Desk, pool: Pool, node: int) -> int:
    """Put a node's ranges and active rows on the desk; returns the number of active rows."""
    for p in range(desk.path[-1]):
        desk.lo[desk.path[p]] = -np.inf
        desk.hi[desk.path[p]] = np.inf
    desk.path[-1] = 0
    walk = node
    while walk > 0:
        narrow(rows, desk, pool.form[walk], pool.low[walk], pool.high[walk])
        walk = pool.parent[walk]
    k, d = 0, len(desk.x)
    clear(rows, desk)
    for i in range(pool.active[node]):
        if k == d:
            break
        name, side = int(pool.row[node, i]), float(pool.side[node, i])
        k = _activate(rows, desk, k, name, side)
    return k


@compiled
def _activate(rows: Rows, desk: Desk, k: int, name: int, side: float) -> int:
    """Make a row active when it is independent of those that are; returns how many are."""
    b, equal = fetch(rows, desk, name, side)
    rest = split(desk, k)
    if rest <= DEPENDENT:
        return k
    push(desk, k, name, side, b, equal, 0.0, rest)
    return k + 1


@compiled
def store(desk: Desk, pool: Pool, node: int, k: int, bound: float, t: float) -> None:
    """Keep active rows, multipliers, bound and t of the node on the desk."""
    pool.bound[node], pool.t[node], pool.active[node] = bound, t, k
    for i in range(k):
        pool.row[node, i], pool.side[node, i], pool.y[node, i] = desk.row[i], desk.side[i], desk.y[i]


@compiled
def keep(desk: Desk, copy: Keep, k: int, back: bool) -> None:
    """Copy the k active rows and what belongs to them to ``copy``, or back."""
    d = len(desk.x)
    for i in range(k):
        if back:
            desk.row[i], desk.side[i], desk.equal[i] = copy.row[i], copy.side[i], copy.equal[i]
            desk.b[i], desk.y[i], desk.cq[i], desk.xq[i] = copy.b[i], copy.y[i], copy.cq[i], copy.xq[i]
        else:
            copy.row[i], copy.side[i], copy.equal[i] = desk.row[i], desk.side[i], desk.equal[i]
            copy.b[i], copy.y[i], copy.cq[i], copy.xq[i] = desk.b[i], desk.y[i], desk.cq[i], desk.xq[i]
        for h in range(d):
            if back:
                desk.q[i, h] = copy.q[i, h]
                desk.r[h, i] = copy.r[h, i]
            else:
                copy.q[i, h] = desk.q[i, h]
                copy.r[h, i] = desk.r[h, i]
    for h in range(d):
        if back:
            desk.x[h], desk.pc[h], desk.x0[h] = copy.x[h], copy.pc[h], copy.x0[h]
        else:
            copy.x[h], copy.pc[h], copy.x0[h] = desk.x[h], desk.pc[h], desk.x0[h]
