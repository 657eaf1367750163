"""The search: pop the node with the largest bound, bound it again, branch on a violated disjunction.

A node is its parent plus one slab; it keeps its active rows and multipliers, so that it can be taken up where it was
left and be proved afterwards.  The nodes that are not inner ones always cover the feasible set, whatever rows and
disjunctions are added later: the tree of one call is the starting point of the next.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorplan.optimism.program import Certificate, Program, ProgramError, Solution
from tensorplan.optimism.relax import (
    DEPENDENT,
    EMPTY,
    Desk,
    Rows,
    clear,
    compiled,
    dot,
    fetch,
    make_desk,
    push,
    relax,
    split,
)

SATISFIED = 1e-9
"""A disjunction is satisfied when an alternative is missed by no more than this (distance, in the unit ball)."""

REPAIRS = 24
"""Rounds of the search for a feasible point near a node's."""

HAIR = 3e-11
"""By how much a slab is narrower than the range that it must be disjoint from (distance, in the unit ball)."""

PRODUCT = 1e-8
"""A product may exceed its tolerance by this fraction of it."""

OPEN, INNER, CLOSED, VOID = 0, 1, 2, 3

GOING, DONE, FULL = 0, 1, 2

NODES, HEAP, SOLVED, DIVE, DIVED, POPS = range(6)
"""Places in the array of counters."""

TINY = 1e-300

LONGEST_DIVE = 64
"""Steps down before the search goes back to the node with the largest bound."""

CANDIDATES = 4
"""Disjunctions that are tried before one is branched on."""


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


class Trial(NamedTuple):
    """What the children of a branching would be, (CANDIDATES, max(A, 2), ..)."""

    children: NDArray[np.int64]
    """How many there are, (CANDIDATES,)."""
    form: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    kind: NDArray[np.int64]
    bound: NDArray[np.float64]
    t: NDArray[np.float64]
    active: NDArray[np.int64]
    row: NDArray[np.int64]
    side: NDArray[np.float64]
    y: NDArray[np.float64]


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


# ------------------------------------------------------------------------------------------ compiled


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


@compiled
def violation(rows: Rows, desk: Desk, tol: Any, product: bool, alternatives: int, i: int) -> float:
    """By how much x misses disjunction i (0 when satisfied, or decided at the node)."""
    first = i * alternatives
    if product:
        total, smallest = 1.0, np.inf
        for f in range(first, first + alternatives):
            off = abs(dot(rows.f[f], desk.x) - rows.centre[f])
            total *= off * rows.scale[f]
            smallest = min(smallest, off)
        return smallest if total > tol[i] * (1.0 + PRODUCT) and smallest > SATISFIED else 0.0
    least = np.inf
    for f in range(first, first + alternatives):
        if desk.hi[f] < np.inf:
            return 0.0
        least = min(least, abs(dot(rows.f[f], desk.x) - rows.centre[f]) - tol[i] / rows.scale[f])
    return least if least > SATISFIED else 0.0


@compiled
def is_feasible(rows: Rows, desk: Desk) -> bool:
    """Whether x satisfies the ball, all rows and the ranges of the node, which may have been hard to solve."""
    worst = np.sqrt(dot(desk.x, desk.x)) - 1.0
    for p in range(desk.path[-1]):
        f = desk.path[p]
        value = dot(rows.f[f], desk.x)
        worst = max(worst, value - desk.hi[f], desk.lo[f] - value)
    for j in range(len(rows.hi)):
        worst = max(worst, dot(rows.a[j], desk.x) - rows.hi[j])
    return bool(worst <= 10.0 * SATISFIED)


@compiled
def cover(trial: Trial, slot: int, first: int, a: int, width: float) -> None:
    """Child a of a cover: the slab |l_a| <= width."""
    trial.form[slot, a], trial.low[slot, a], trial.high[slot, a] = first + a, -width, width


@compiled
def plan_slabs(trial: Trial, slot: int, first: int, alternatives: int, width: float) -> None:
    """Branch on a disjunction: one slab per alternative."""
    trial.children[slot] = alternatives
    for a in range(alternatives):
        cover(trial, slot, first, a, width)


@compiled
def plan_product(
    rows: Rows, desk: Desk, trial: Trial, slot: int, first: int, alternatives: int, tol: float, best: Any, best_x: Any
) -> None:
    """Branch on a product |Π_a l_a| <= tol that x misses.

    Let m_b be the least |l_b| that the ranges of the node allow.  If Π_{b != a} m_b |l_a(x)| > tol for some a, then
    |l_a| <= tol / Π_{b != a} m_b cuts x off: a cover whose other slabs, a hair narrower than m_b, are empty.  Else some
    range is too wide, and is split between m_b and |l_b(x)|: where the best point found so far has l_b, if that is
    there, and else at t_b = |l_b(x)| (tol / Π_a |l_a(x)|)^(1/A) or halfway to m_b.  Unlike t-slabs for all
    alternatives at once, the two halves do not overlap, so that what one of them closes is not met in the other again.
    """
    values, least = np.zeros(alternatives), np.zeros(alternatives)
    total = 1.0
    for a in range(alternatives):
        f = first + a
        values[a] = (dot(rows.f[f], desk.x) - rows.centre[f]) * rows.scale[f]
        low = (desk.lo[f] - rows.centre[f]) * rows.scale[f]
        high = (desk.hi[f] - rows.centre[f]) * rows.scale[f]
        least[a] = max(0.0, low, -high) if rows.moves[f] else abs(values[a])
        total *= abs(values[a])
    for a in range(alternatives):
        others = 1.0
        for b in range(alternatives):
            if b != a:
                others *= max(0.0, least[b] - HAIR * rows.scale[first + b])
        width = tol / others * (1.0 + 1e-15 * alternatives) if others > 0.0 else np.inf
        if rows.moves[first + a] and width < abs(values[a]) * (1.0 - 1e-10):
            trial.children[slot] = alternatives
            for b in range(alternatives):
                cover(trial, slot, first, b, width if b == a else least[b] - HAIR * rows.scale[first + b])
            return
    widest, pick = 1.0 + 1e-10, -1
    for b in range(alternatives):
        if rows.moves[first + b] and abs(values[b]) > widest * max(least[b], 1e-9 * rows.scale[first + b]):
            widest = abs(values[b]) / max(least[b], 1e-9 * rows.scale[first + b])
            pick = b
    if pick < 0 or tol == 0.0:
        plan_slabs(trial, slot, first, alternatives, tol ** (1.0 / alternatives) * (1.0 + 1e-15 * alternatives))
        return
    f, size = first + pick, abs(values[pick])
    at = np.sqrt(least[pick] * size) if least[pick] > 0.0 else size * (tol / total) ** (1.0 / alternatives)
    if best[0] > -np.inf:
        there = (dot(rows.f[f], best_x) - rows.centre[f]) * rows.scale[f]
        if there * values[pick] > 0.0 and least[pick] * (1.0 + 1e-10) < abs(there) < size * (1.0 - 1e-10):
            at = abs(there)
    if values[pick] < 0.0:
        at = -at
    trial.children[slot] = 2
    trial.form[slot, 0], trial.low[slot, 0], trial.high[slot, 0] = f, -np.inf, at
    trial.form[slot, 1], trial.low[slot, 1], trial.high[slot, 1] = f, at, np.inf


@compiled
def try_children(rows: Rows, desk: Desk, copy: Keep, trial: Trial, slot: int, k: int, t: float, counters: Any) -> None:
    """Solve the children in a slot of ``trial``; the desk holds the parent before and after."""
    for child in range(trial.children[slot]):
        form = trial.form[slot, child]
        before = narrow(rows, desk, form, trial.low[slot, child], trial.high[slot, child])
        kind, count, bound, new_t = relax(rows, desk, k, t, False)
        counters[SOLVED] += 1
        trial.kind[slot, child], trial.bound[slot, child], trial.t[slot, child] = kind, bound, new_t
        trial.active[slot, child] = count
        for j in range(count):
            trial.row[slot, child, j], trial.side[slot, child, j] = desk.row[j], desk.side[j]
            trial.y[slot, child, j] = desk.y[j]
        widen(desk, form, before)
        keep(desk, copy, k, True)


@compiled
def repair(
    rows: Rows,
    desk: Desk,
    copy: Keep,
    tol: Any,
    alternatives: int,
    k: int,
    t: float,
    counters: Any,
    best: Any,
    best_x: Any,
) -> None:
    """Look for a feasible point of a program of products near x; the desk holds the parent before and after.

    Each product that is missed gets a slab for the factor that has the least way to go, as wide as the other factors
    allow where they are now.  They move, so this is repeated, after a while with less than what is allowed.
    """
    forms = np.zeros(REPAIRS * len(tol), dtype=np.int64)
    ranges = np.zeros((REPAIRS * len(tol), 2))
    used, count, found = 0, k, False
    for attempt in range(REPAIRS):
        missed = 0
        for i in range(len(tol)):
            total, way, pick = 1.0, np.inf, -1
            for f in range(i * alternatives, (i + 1) * alternatives):
                total *= abs(dot(rows.f[f], desk.x) - rows.centre[f]) * rows.scale[f]
            if total <= tol[i] * (1.0 + PRODUCT):
                continue
            missed += 1
            for f in range(i * alternatives, (i + 1) * alternatives):
                off = abs(dot(rows.f[f], desk.x) - rows.centre[f])
                if rows.moves[f] and off < way:
                    way, pick = off, f
            if pick < 0:
                break
            width = way * rows.scale[pick] * tol[i] / total * (1.0 if attempt < 8 else 0.99 if attempt < 16 else 0.9)
            forms[used] = pick
            ranges[used] = narrow(rows, desk, pick, -width, width)
            used += 1
        if missed == 0:
            found = True
            break
        kind, count, _, t = relax(rows, desk, count, t, True)
        counters[SOLVED] += 1
        if kind == EMPTY:
            break
    if found and is_feasible(rows, desk):
        norm = max(1.0, np.sqrt(dot(desk.x, desk.x)))
        value = dot(rows.c, desk.x) / norm
        if value > best[0]:
            best[0] = value
            for h in range(len(desk.x)):
                best_x[h] = desk.x[h] / norm
    while used > 0:
        used -= 1
        widen(desk, forms[used], (ranges[used, 0], ranges[used, 1]))
    keep(desk, copy, k, True)


@compiled
def choose(
    rows: Rows,
    desk: Desk,
    copy: Keep,
    trial: Trial,
    tol: Any,
    product: bool,
    alternatives: int,
    k: int,
    t: float,
    bound: float,
    floor: float,
    candidates: int,
    counters: Any,
    branch: Any,
    best: Any,
    best_x: Any,
) -> int:
    """The slot of the branching to make, branch[slot] its disjunction; -1 when no disjunction is violated.

    The most violated ones are tried.  The better branching lowers the bound more in all its children: the product of
    what they lose counts, where a child that is empty or below ``floor`` loses all there is.
    """
    found = 0
    worst = np.zeros(candidates)
    for i in range(len(tol)):
        miss = violation(rows, desk, tol, product, alternatives, i)
        if miss > 0.0:
            j = min(found, candidates)
            while j > 0 and worst[j - 1] < miss:
                if j < candidates:
                    worst[j], branch[j] = worst[j - 1], branch[j - 1]
                j -= 1
            if j < candidates:
                worst[j], branch[j] = miss, i
            found += 1
    if found == 0:
        return -1
    found = min(found, candidates)
    top, slot = -1.0, 0
    for j in range(found):
        first = branch[j] * alternatives
        if product and tol[branch[j]] > 0.0:
            plan_product(rows, desk, trial, j, first, alternatives, tol[branch[j]], best, best_x)
        else:
            plan_slabs(trial, j, first, alternatives, tol[branch[j]])
        try_children(rows, desk, copy, trial, j, k, t, counters)
        score, alive = 1.0, 0
        for a in range(trial.children[j]):
            value = trial.bound[j, a]
            if trial.kind[j, a] == EMPTY or value <= floor:
                score *= 2.0
            else:
                score *= max(bound - value, 1e-9)
                alive += 1
        if score > top:
            top, slot = score, j
        if alive <= 1:
            return j
    return slot


@compiled
def work(
    rows: Rows,
    tol: Any,
    product: bool,
    alternatives: int,
    candidates: int,
    desk: Desk,
    copy: Keep,
    trial: Trial,
    pool: Pool,
    heap: Heap,
    counters: Any,
    best: Any,
    best_x: Any,
    gap: float,
    steps: int,
) -> int:
    """Some steps of the search: GOING, DONE when the bounds have met, or FULL when the pool must grow."""
    branch = np.zeros(candidates, dtype=np.int64)
    for _ in range(steps):
        most = max(alternatives, 2)
        if counters[NODES] + most > len(pool.bound) or counters[HEAP] + most > len(heap.node):
            return FULL
        floor = best[0] + gap
        diving = counters[DIVE] >= 0
        if diving:
            node = counters[DIVE]
            counters[DIVE] = -1
        else:
            while counters[HEAP] > 0 and pool.state[heap.node[0]] != OPEN:
                pop_heap(heap, counters)
            if counters[HEAP] == 0 or heap.key[0] <= floor:
                return DONE
            node = pop_heap(heap, counters)
            counters[POPS] += 1
            counters[DIVED] = 0
        old = pool.bound[node]
        k = load(rows, desk, pool, node)
        kind, k, bound, t = relax(rows, desk, k, pool.t[node], True)
        counters[SOLVED] += 1
        if kind == EMPTY:
            store(desk, pool, node, k, -np.inf, t)
            pool.state[node] = VOID
            continue
        if bound <= old:
            store(desk, pool, node, k, bound, t)
        bound = min(bound, old)
        if bound <= floor:
            pool.state[node] = CLOSED
            continue
        if not diving and bound < old - 1e-12 and counters[HEAP] > 0 and bound < heap.key[0]:
            push_heap(heap, counters, node, bound)
            continue
        keep(desk, copy, k, False)
        if product and (best[0] == -np.inf or counters[POPS] % 8 == 1):
            repair(rows, desk, copy, tol, alternatives, k, t, counters, best, best_x)
            floor = best[0] + gap
            if bound <= floor:
                pool.state[node] = CLOSED
                continue
        slot = choose(
            rows,
            desk,
            copy,
            trial,
            tol,
            product,
            alternatives,
            k,
            t,
            bound,
            floor,
            candidates,
            counters,
            branch,
            best,
            best_x,
        )
        if slot < 0:
            norm = max(1.0, np.sqrt(dot(desk.x, desk.x)))
            value = dot(rows.c, desk.x) / norm
            if value > best[0] and is_feasible(rows, desk):
                best[0] = value
                for h in range(len(desk.x)):
                    best_x[h] = desk.x[h] / norm
            pool.state[node] = CLOSED
            continue
        pool.state[node] = INNER
        top, deepest = -np.inf, -1
        for a in range(trial.children[slot]):
            child = counters[NODES]
            counters[NODES] += 1
            pool.parent[child], pool.form[child] = node, trial.form[slot, a]
            pool.low[child], pool.high[child] = trial.low[slot, a], trial.high[slot, a]
            if trial.kind[slot, a] == EMPTY or trial.bound[slot, a] < bound:
                pool.bound[child], pool.t[child] = trial.bound[slot, a], trial.t[slot, a]
                pool.active[child] = trial.active[slot, a]
                for j in range(trial.active[slot, a]):
                    pool.row[child, j], pool.side[child, j] = trial.row[slot, a, j], trial.side[slot, a, j]
                    pool.y[child, j] = trial.y[slot, a, j]
            else:  # the parent's multipliers prove no less
                pool.bound[child], pool.t[child], pool.active[child] = bound, pool.t[node], pool.active[node]
                for j in range(pool.active[node]):
                    pool.row[child, j], pool.side[child, j] = pool.row[node, j], pool.side[node, j]
                    pool.y[child, j] = pool.y[node, j]
            if trial.kind[slot, a] == EMPTY:
                pool.state[child] = VOID
            elif pool.bound[child] <= floor:
                pool.state[child] = CLOSED
            else:
                pool.state[child] = OPEN
                push_heap(heap, counters, child, pool.bound[child])
                if pool.bound[child] > top:
                    top, deepest = pool.bound[child], child
        if counters[DIVED] < LONGEST_DIVE and (product or (best[0] == -np.inf and counters[POPS] % 64 <= 1)):
            counters[DIVE] = deepest
            counters[DIVED] += 1
    return GOING


# ------------------------------------------------------------------------------------------ the search object


class Search:
    """A program that grows, and the tree that proves its bound.

    ``solve`` may be called again after ``extend``: rows and disjunctions only shrink the feasible set, so every leaf
    and every bound remains valid.
    """

    def __init__(self, program: Program, *, candidates: int = CANDIDATES) -> None:
        self.program = program
        self.candidates = candidates
        self.incumbent: NDArray[np.float64] | None = None
        self._scale()
        self._pool = _make_pool(1024, program.dimension)
        self._counters = np.zeros(6, dtype=np.int64)
        self._counters[DIVE] = -1
        self._counters[NODES] = 1
        self._pool.parent[0], self._pool.form[0] = -1, -1
        self._pool.bound[0], self._pool.t[0] = 1.0 + 1e-12, 1.0
        self._hot: set[int] = set()

    def extend(
        self,
        rows: ArrayLike | None = None,
        rhs: ArrayLike | None = None,
        forms: ArrayLike | None = None,
        tol: ArrayLike = 0.0,
    ) -> None:
        """Add rows and disjunctions behind those that are there."""
        self.program = self.program.extend(rows, rhs, forms, tol)
        self._scale()

    def solve(
        self,
        gap: float = 1e-9,
        time_limit: float | None = None,
        node_limit: int | None = None,
        certificate: bool = False,
    ) -> Solution:
        """The best θ and the least upper bound that can be had within the limits."""
        began = time.perf_counter()
        _check_limits(gap, time_limit, node_limit)
        program, pool, counters = self.program, self._pool, self._counters
        d, alternatives = program.dimension, program.alternatives
        size = program.radius * float(np.linalg.norm(program.objective))
        desk = make_desk(d, len(program.forms) * alternatives, len(program.rows))
        for j in self._hot:
            desk.hot[desk.hot[-1]] = j
            desk.hot[-1] += 1
            desk.is_hot[j] = True
        best, best_x = np.array([-np.inf]), np.zeros(d)
        heap = _make_heap(2 * len(pool.bound))
        counters[HEAP], counters[SOLVED], counters[POPS], counters[DIVE] = 0, 0, 0, -1
        leaves = np.flatnonzero((pool.state[: counters[NODES]] == OPEN) | (pool.state[: counters[NODES]] == CLOSED))
        for node in leaves.tolist():
            pool.state[node] = OPEN
            push_heap(heap, counters, node, pool.bound[node])
        copy, trial = _make_keep(d), _make_trial(self.candidates, alternatives, d)
        status = "limit"
        steps = 8
        while True:
            state = work(
                self._rows,
                program.tol,
                program.product,
                alternatives,
                self.candidates,
                desk,
                copy,
                trial,
                pool,
                heap,
                counters,
                best,
                best_x,
                self._allowed(gap, best[0] * size if size > 0 else 0.0) / max(size, TINY),
                steps,
            )
            if state == DONE:
                status = "optimal" if np.isfinite(best[0]) else "infeasible"
                break
            if state == FULL:
                pool, heap = self._grow(heap)
            if time_limit is not None and time.perf_counter() - began >= time_limit:
                break
            if node_limit is not None and counters[SOLVED] >= node_limit:
                break
            steps = min(2 * steps, 4096) if time_limit is None and node_limit is None else 16
        self._hot = set(desk.hot[: desk.hot[-1]].tolist())
        used = int(counters[NODES])
        leaf = (pool.state[:used] == OPEN) | (pool.state[:used] == CLOSED)
        scaled = float(pool.bound[:used][leaf].max(initial=-np.inf))
        theta = best_x * program.radius if np.isfinite(best[0]) else None
        value = -np.inf if theta is None else float(program.objective @ theta)
        bound = scaled * size if scaled > -np.inf else -np.inf
        # What was found must bear the status out, whatever made the search stop.
        if status == "infeasible" and leaf.any():
            status = "limit"
        if status == "optimal" and bound - value > 1.01 * self._allowed(gap, value):
            status = "limit"
        return Solution(
            status=status,
            theta=theta,
            value=value,
            bound=bound,
            nodes=int(counters[SOLVED]),
            seconds=time.perf_counter() - began,
            certificate=self._certificate(size) if certificate else None,
        )

    # ------------------------------------------------------------------ inside

    def _scale(self) -> None:
        """The program in the unit ball, every row a unit vector."""
        program = self.program
        radius, d = program.radius, program.dimension
        length = float(np.linalg.norm(program.objective))
        norms = np.linalg.norm(program.rows, axis=1)
        forms = program.forms.reshape(-1, d + 1)
        self._row_norms, self._form_norms = norms, np.linalg.norm(forms[:, 1:], axis=1)
        row_scale, scale = radius * norms, radius * self._form_norms
        moves = scale > 0
        scale = np.where(moves, scale, np.abs(forms[:, 0]))
        scale[scale == 0] = 1.0
        unit = _over(program.rows, row_scale / radius if radius > 0 else row_scale)
        self._rows = Rows(
            c=program.objective / length if length * radius > 0 else np.zeros(d),
            a=unit if radius > 0 else np.zeros_like(unit),
            hi=_over(program.rhs, row_scale),
            f=_over(forms[:, 1:], self._form_norms) if radius > 0 else np.zeros((len(forms), d)),
            centre=-forms[:, 0] / scale,
            scale=scale,
            moves=moves,
        )

    def _allowed(self, gap: float, value: float) -> float:
        """The difference between bound and value that counts as none."""
        size = self.program.radius * float(np.linalg.norm(self.program.objective))
        return max(gap * max(1.0, abs(value) if np.isfinite(value) else 0.0), 4e-13 * size)

    def _grow(self, heap: Heap) -> tuple[Pool, Heap]:
        """Twice the room."""
        pool, wider = _make_pool(2 * len(self._pool.bound), self.program.dimension), _make_heap(2 * len(heap.node))
        arrays: list[tuple[Any, Any]] = [*zip(self._pool, pool, strict=True), *zip(heap, wider, strict=True)]
        for old, new in arrays:
            new[: len(old)] = old
        self._pool = pool
        return pool, wider

    def _certificate(self, size: float) -> Certificate:
        """The tree with the multipliers of its leaves, in the units of the program."""
        pool, used = self._pool, int(self._counters[NODES])
        alternatives = self.program.alternatives
        state = pool.state[:used]
        length = size / self.program.radius if self.program.radius > 0 else 0.0
        ends: list[int] = [0]
        index: list[int] = []
        value: list[float] = []
        for node in range(used):
            if state[node] != INNER:
                edges = self._edges(node)
                factor = 1.0 if state[node] == VOID else length
                for i in range(pool.active[node]):
                    name, y = int(pool.row[node, i]), float(pool.y[node, i])
                    if y == 0.0 or factor == 0.0:
                        continue
                    norm = self._row_norms[name] if name >= 0 else self._form_norms[-1 - name]
                    y *= factor / (norm if norm > 0 and self.program.radius > 0 else 1.0)
                    index.append(name if name >= 0 else -edges[-1 - name, pool.side[node, i] > 0])
                    value.append(y if name >= 0 else y * float(pool.side[node, i]))
            ends.append(len(index))
        bound = pool.bound[:used] * size
        bound[state == INNER] = np.nan
        bound[state == VOID] = -np.inf
        form = pool.form[:used].astype(np.int64)
        return Certificate(
            parent=pool.parent[:used].astype(np.int64),
            form=np.where(form < 0, -1, form // alternatives),
            choice=np.where(form < 0, -1, form % alternatives),
            low=pool.low[:used].copy(),
            high=pool.high[:used].copy(),
            bound=bound,
            start=np.array(ends, dtype=np.int64),
            index=np.array(index, dtype=np.int64),
            value=np.array(value, dtype=np.float64),
        )

    def _edges(self, node: int) -> dict[tuple[int, bool], int]:
        """For each form with a range on the path, and each of its ends, the node whose edge has it narrowest."""
        edges: dict[tuple[int, bool], int] = {}
        pool = self._pool
        while node > 0:
            form = int(pool.form[node])
            if (form, True) not in edges or pool.high[node] < pool.high[edges[form, True]]:
                edges[form, True] = node
            if (form, False) not in edges or pool.low[node] > pool.low[edges[form, False]]:
                edges[form, False] = node
            node = int(pool.parent[node])
        return edges


def solve(
    program: Program,
    gap: float = 1e-9,
    time_limit: float | None = None,
    node_limit: int | None = None,
    certificate: bool = False,
) -> Solution:
    """The optimum of a program with a proof of its bound; see the package for the mathematics."""
    return Search(program).solve(gap, time_limit, node_limit, certificate)


def _check_limits(gap: float, time_limit: float | None, node_limit: int | None) -> None:
    if not 0 <= gap < np.inf:
        raise ProgramError(f"gap must be a finite number >= 0, got {gap!r}")
    if time_limit is not None and not time_limit >= 0:
        raise ProgramError(f"time_limit must be a number of seconds >= 0 or None, got {time_limit!r}")
    if node_limit is not None and not node_limit >= 1:
        raise ProgramError(f"node_limit must be a number of nodes >= 1 or None, got {node_limit!r}")


def _over(x: Any, norm: Any) -> NDArray[np.float64]:
    """x / norm row by row; rows of norm zero stay as they are."""
    safe = np.where(norm > 0, norm, 1.0)
    return np.ascontiguousarray(x / (safe[:, None] if x.ndim == 2 else safe))


def _make_pool(capacity: int, d: int) -> Pool:
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


def _make_heap(capacity: int) -> Heap:
    return Heap(node=np.zeros(capacity, dtype=np.int64), key=np.zeros(capacity))


def _make_keep(d: int) -> Keep:
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


def _make_trial(slots: int, alternatives: int, d: int) -> Trial:
    shape = (slots, max(alternatives, 2))
    return Trial(
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
    )
