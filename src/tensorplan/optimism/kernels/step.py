"""One step of the search: pop a node, bound it, prune it, or branch.

The node with the largest bound is taken from the heap, or the last branching's most promising child while the search
dives for a feasible point.
"""

from __future__ import annotations

import numpy as np

from tensorplan.optimism.kernels.branch import NO_SLOT, choose
from tensorplan.optimism.kernels.compiled import inlined, kernel
from tensorplan.optimism.kernels.points import admit, repair
from tensorplan.optimism.kernels.relax import EMPTY, relax
from tensorplan.optimism.kernels.state import (
    ACTIVE,
    BOUND,
    DIVE,
    DIVED,
    FORM,
    HEAP,
    HIGH,
    KIND,
    LOW,
    NO_HEAP,
    NO_NODE,
    NODES,
    POPS,
    SOLVED,
    STOP,
    BestPoint,
    Desk,
    Relaxed,
    Rows,
    SearchState,
    SearchTree,
    T,
    Trial,
)
from tensorplan.optimism.kernels.tree import (
    CLOSED,
    INNER,
    OPEN,
    VOID,
    carry,
    fill_heap,
    load,
    pop_heap,
    push_heap,
    store,
)

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


@kernel
def work(state: SearchState, gap: float, steps: int) -> int:
    """Some steps of the search: GOING, DONE, FULL or STOPPED.  A step that is stopped leaves the tree as it was."""
    rows, desk, tree, best = state.rows, state.desk, state.tree, state.best
    if tree.counters[HEAP] == NO_HEAP:
        fill_heap(tree)
    for _ in range(steps):
        if not has_room(tree, state.disjunctions.alternatives):
            return FULL
        node = pop(tree, best.value[0] + gap)
        if node == NO_NODE:
            return DONE
        old = tree.bound[node]
        found = bound(rows, desk, tree, node)
        if desk.is_hot[STOP]:
            return STOPPED
        proven = min(found.bound - found.rounding, old)
        relaxed = record(desk, tree, node, found)
        if prune(tree, node, relaxed, best.value[0] + gap) or postpone(tree, node, relaxed.bound, old):
            continue
        carry(desk.basis, state.kept, relaxed.active)
        if state.disjunctions.product and repair_is_due(tree, best):
            repair(state, relaxed, proven)
            if prune(tree, node, relaxed, best.value[0] + gap):
                continue
        slot = choose(state, relaxed, best.value[0] + gap)
        if desk.is_hot[STOP]:
            return STOPPED
        if slot == NO_SLOT:
            admit(state, relaxed, proven)
            tree.state[node] = CLOSED
        else:
            child = branch(tree, state.trial, node, slot, best.value[0] + gap)
            if dive_is_due(tree, best, state.disjunctions.product):
                dive(tree, child)
    return GOING


@inlined
def has_room(tree: SearchTree, alternatives: int) -> bool:
    """Whether the children of one more branching fit into the tree and its heap."""
    most = max(alternatives, 2)
    nodes, waiting = tree.counters[NODES], tree.counters[HEAP]
    return bool(nodes + most <= len(tree.bound) and waiting + most <= len(tree.heap))


@inlined
def pop(tree: SearchTree, floor: float) -> int:
    """The node to dive into, or the open one with the largest bound; NO_NODE when no bound is above the floor."""
    node = tree.counters[DIVE]
    if node != NO_NODE:
        tree.counters[DIVE] = NO_NODE
        return int(node)
    while tree.counters[HEAP] > 0 and tree.state[tree.heap[0]] != OPEN:
        pop_heap(tree)
    if tree.counters[HEAP] == 0 or tree.key[0] <= floor:
        return NO_NODE
    tree.counters[POPS] += 1
    tree.counters[DIVED] = 0
    return pop_heap(tree)


@inlined
def bound(rows: Rows, desk: Desk, tree: SearchTree, node: int) -> Relaxed:
    """Solve the relaxation of a node, with all rows."""
    k = load(rows, desk, tree, node)
    tree.counters[SOLVED] += 1
    return relax(rows, desk, k, tree.t[node], True)


@inlined
def record(desk: Desk, tree: SearchTree, node: int, found: Relaxed) -> Relaxed:
    """Keep what was found at a node; one that was hard to solve keeps the bound that it had."""
    old = tree.bound[node]
    if found.bound <= old:
        store(desk, tree, node, found.active, found.bound, found.t)
    return Relaxed(found.kind, found.active, min(found.bound, old), found.rounding, found.t)


@inlined
def prune(tree: SearchTree, node: int, relaxed: Relaxed, floor: float) -> bool:
    """Close a node that has no point, or whose bound is not above the floor; says whether it did."""
    if relaxed.kind == EMPTY:
        tree.state[node] = VOID
        return True
    if relaxed.bound <= floor:
        tree.state[node] = CLOSED
        return True
    return False


@inlined
def postpone(tree: SearchTree, node: int, bound: float, old: float) -> bool:
    """Put a node from the heap back whose bound has fallen below that of another one; says whether it did."""
    if tree.counters[DIVED] == 0 and bound < old - POSTPONED and tree.counters[HEAP] > 0 and bound < tree.key[0]:
        push_heap(tree, node, bound)
        return True
    return False


@inlined
def repair_is_due(tree: SearchTree, best: BestPoint) -> bool:
    """Whether to look for a feasible point of products near this node's."""
    return bool(best.value[0] == -np.inf or tree.counters[POPS] % REPAIR == 1)


@inlined
def branch(tree: SearchTree, trial: Trial, node: int, slot: int, floor: float) -> int:
    """Replace a node by the children in a slot; returns the open one with the largest bound, or NO_NODE."""
    tree.state[node] = INNER
    top, deepest = -np.inf, NO_NODE
    for a in range(trial.children[slot]):
        child = tree.counters[NODES]
        tree.counters[NODES] += 1
        adopt(tree, trial, node, child, slot, a)
        if trial.integers[KIND, slot, a] == EMPTY:
            tree.state[child] = VOID
        elif tree.bound[child] <= floor:
            tree.state[child] = CLOSED
        else:
            tree.state[child] = OPEN
            push_heap(tree, child, tree.bound[child])
            if tree.bound[child] > top:
                top, deepest = tree.bound[child], child
    return deepest


@inlined
def adopt(tree: SearchTree, trial: Trial, node: int, child: int, slot: int, a: int) -> None:
    """Write child a of a branching into the tree, with its own multipliers or its parent's if they prove no less."""
    tree.parent[child], tree.form[child] = node, trial.integers[FORM, slot, a]
    tree.low[child], tree.high[child] = trial.reals[LOW, slot, a], trial.reals[HIGH, slot, a]
    if trial.integers[KIND, slot, a] == EMPTY or trial.reals[BOUND, slot, a] < tree.bound[node]:
        tree.bound[child], tree.t[child] = trial.reals[BOUND, slot, a], trial.reals[T, slot, a]
        tree.active[child] = trial.integers[ACTIVE, slot, a]
        for j in range(trial.integers[ACTIVE, slot, a]):
            tree.row[child, j], tree.side[child, j] = trial.row[slot, a, j], trial.side[slot, a, j]
            tree.y[child, j] = trial.y[slot, a, j]
    else:
        tree.bound[child], tree.t[child], tree.active[child] = tree.bound[node], tree.t[node], tree.active[node]
        for j in range(tree.active[node]):
            tree.row[child, j], tree.side[child, j] = tree.row[node, j], tree.side[node, j]
            tree.y[child, j] = tree.y[node, j]


@inlined
def dive_is_due(tree: SearchTree, best: BestPoint, product: bool) -> bool:
    """Whether to go on with a child instead of the heap, to find a feasible point: for products always."""
    pops = tree.counters[POPS]
    due = pops % FIRST_DIVE <= 1 if best.value[0] == -np.inf else pops % REDIVE == 0
    return bool(tree.counters[DIVED] < LONGEST_DIVE and (product or due))


@inlined
def dive(tree: SearchTree, child: int) -> None:
    """Take a child as the next node."""
    tree.counters[DIVE] = child
    tree.counters[DIVED] += 1
