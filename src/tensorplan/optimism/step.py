"""One step of the search: pop a node, bound it, prune it, or branch.

The node with the largest bound is taken from the heap, or the last branching's most promising child while the search
dives for a feasible point.
"""

from __future__ import annotations

import numpy as np

from tensorplan.optimism.branch import NO_SLOT, choose
from tensorplan.optimism.compiled import compiled, inlined
from tensorplan.optimism.points import admit, repair
from tensorplan.optimism.relax import EMPTY, Relaxed, relax
from tensorplan.optimism.state import DIVE, DIVED, HEAP, NO_NODE, NODES, POPS, SOLVED, STOP, State
from tensorplan.optimism.tree import CLOSED, INNER, OPEN, VOID, carry, load, pop_heap, push_heap, store

GOING, DONE, FULL, STOPPED = 0, 1, 2, 3
"""How steps end: there is more to do, the bounds have met, the pool must grow, another thread asked to stop."""

POSTPONED = 1e-12
"""A node whose bound falls by less than this when it is solved again is branched on at once."""

LONGEST_DIVE = 64
"""Steps down before the search goes back to the node with the largest bound."""

REDIVE = 256
"""Nodes taken from the heap between two dives for a better point, where there is one."""

FIRST_DIVE = 64
"""Nodes taken from the heap between two dives for a first point."""

REPAIR = 8
"""Nodes taken from the heap between two repairs, where there is a point: a repair costs as much as a branching."""


@compiled
def work(state: State, gap: float, steps: int) -> int:
    """Some steps of the search: GOING, DONE, FULL or STOPPED.  A step that is stopped leaves the tree as it was."""
    for _ in range(steps):
        outcome = step(state, gap)
        if outcome != GOING:
            return outcome
    return GOING


@inlined
def step(state: State, gap: float) -> int:
    """Take one node: close it, put it back with a smaller bound, or replace it by its children."""
    if not has_room(state):
        return FULL
    node = pop(state, gap)
    if node == NO_NODE:
        return DONE
    old = state.pool.bound[node]
    found = bound(state, node)
    if state.desk.is_hot[STOP]:
        return STOPPED
    proven = min(found.bound - found.rounding, old)
    relaxed = record(state, node, found, old)
    if prune(state, node, relaxed, gap) or postpone(state, node, relaxed.bound, old):
        return GOING
    carry(state.desk, state.copy, relaxed.active)
    if repair_is_due(state):
        repair(state, relaxed, proven)
        if prune(state, node, relaxed, gap):
            return GOING
    slot = choose(state, relaxed, state.best.value[0] + gap)
    if state.desk.is_hot[STOP]:
        return STOPPED
    if slot == NO_SLOT:
        admit(state, relaxed, proven)
        state.pool.state[node] = CLOSED
    else:
        dive(state, branch(state, node, slot, relaxed.bound, gap))
    return GOING


@inlined
def has_room(state: State) -> bool:
    """Whether the children of one more branching fit into the pool and the heap."""
    most = max(state.disjunctions.alternatives, 2)
    nodes, waiting = state.counters[NODES], state.counters[HEAP]
    return bool(nodes + most <= len(state.pool.bound) and waiting + most <= len(state.heap.node))


@inlined
def pop(state: State, gap: float) -> int:
    """The node to dive into, or the open one with the largest bound; NO_NODE when no bound is above the best point's
    value by more than the gap."""
    counters, heap = state.counters, state.heap
    node = counters[DIVE]
    if node != NO_NODE:
        counters[DIVE] = NO_NODE
        return int(node)
    while counters[HEAP] > 0 and state.pool.state[heap.node[0]] != OPEN:
        pop_heap(heap, counters)
    if counters[HEAP] == 0 or heap.key[0] <= state.best.value[0] + gap:
        return NO_NODE
    counters[POPS] += 1
    counters[DIVED] = 0
    return pop_heap(heap, counters)


@inlined
def bound(state: State, node: int) -> Relaxed:
    """Solve the relaxation of a node, with all rows."""
    k = load(state.rows, state.desk, state.pool, node)
    state.counters[SOLVED] += 1
    return relax(state.rows, state.desk, k, state.pool.t[node], True)


@inlined
def record(state: State, node: int, found: Relaxed, old: float) -> Relaxed:
    """Keep what was found at a node; one that was hard to solve keeps the bound that it had."""
    if found.bound <= old:
        store(state.desk, state.pool, node, found.active, found.bound, found.t)
    return Relaxed(found.kind, found.active, min(found.bound, old), found.rounding, found.t)


@inlined
def prune(state: State, node: int, relaxed: Relaxed, gap: float) -> bool:
    """Close a node that has no point, or none better than the best by more than the gap; says whether it did."""
    if relaxed.kind == EMPTY:
        state.pool.state[node] = VOID
        return True
    if relaxed.bound <= state.best.value[0] + gap:
        state.pool.state[node] = CLOSED
        return True
    return False


@inlined
def postpone(state: State, node: int, bound: float, old: float) -> bool:
    """Put a node from the heap back whose bound has fallen below that of another one; says whether it did."""
    counters, heap = state.counters, state.heap
    if counters[DIVED] == 0 and bound < old - POSTPONED and counters[HEAP] > 0 and bound < heap.key[0]:
        push_heap(heap, counters, node, bound)
        return True
    return False


@inlined
def repair_is_due(state: State) -> bool:
    """Whether to look for a feasible point of products near this node's."""
    seldom = state.counters[POPS] % REPAIR == 1
    return state.disjunctions.product and (state.best.value[0] == -np.inf or seldom)


@inlined
def branch(state: State, node: int, slot: int, bound: float, gap: float) -> int:
    """Replace a node by the children in a slot; returns the open one with the largest bound, or NO_NODE."""
    pool, trial, counters = state.pool, state.trial, state.counters
    pool.state[node] = INNER
    top, deepest = -np.inf, NO_NODE
    for a in range(trial.children[slot]):
        child = counters[NODES]
        counters[NODES] += 1
        adopt(state, node, child, slot, a, bound)
        if trial.kind[slot, a] == EMPTY:
            pool.state[child] = VOID
        elif pool.bound[child] <= state.best.value[0] + gap:
            pool.state[child] = CLOSED
        else:
            pool.state[child] = OPEN
            push_heap(state.heap, counters, child, pool.bound[child])
            if pool.bound[child] > top:
                top, deepest = pool.bound[child], child
    return deepest


@inlined
def adopt(state: State, node: int, child: int, slot: int, a: int, bound: float) -> None:
    """Write child a of a branching into the pool, with its own multipliers or its parent's if they prove no less."""
    pool, trial = state.pool, state.trial
    pool.parent[child], pool.form[child] = node, trial.form[slot, a]
    pool.low[child], pool.high[child] = trial.low[slot, a], trial.high[slot, a]
    if trial.kind[slot, a] == EMPTY or trial.bound[slot, a] < bound:
        pool.bound[child], pool.t[child] = trial.bound[slot, a], trial.t[slot, a]
        pool.active[child] = trial.active[slot, a]
        for j in range(trial.active[slot, a]):
            pool.row[child, j], pool.side[child, j] = trial.row[slot, a, j], trial.side[slot, a, j]
            pool.y[child, j] = trial.y[slot, a, j]
    else:
        pool.bound[child], pool.t[child], pool.active[child] = bound, pool.t[node], pool.active[node]
        for j in range(pool.active[node]):
            pool.row[child, j], pool.side[child, j] = pool.row[node, j], pool.side[node, j]
            pool.y[child, j] = pool.y[node, j]


@inlined
def dive(state: State, child: int) -> None:
    """Go on with a child instead of the heap, where a feasible point is wanted: for products always."""
    counters = state.counters
    wanted = state.best.value[0] == -np.inf
    due = counters[POPS] % FIRST_DIVE <= 1 if wanted else counters[POPS] % REDIVE == 0
    if counters[DIVED] < LONGEST_DIVE and (state.disjunctions.product or due):
        counters[DIVE] = child
        counters[DIVED] += 1
