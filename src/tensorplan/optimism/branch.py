"""Branching: which disjunction, into what, and how good it would be; and feasible points near a node's."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorplan.optimism.relax import EMPTY, Desk, Rows, compiled, dot, drop_negative, project, relax
from tensorplan.optimism.tree import SOLVED, Keep, keep, narrow, widen

SATISFIED = 1e-9
"""A disjunction is satisfied when an alternative is missed by no more than this (distance, in the unit ball).

For a product: when moving one factor by so much would do.
"""

AHEAD = 9e-8
"""How far <c, x> may be ahead of what is proven of it: a little less than ``verify`` forgives.

Where rows touch the ball, or nearly depend on one another, a point that misses them by 1e-11 may be that far from any
that does not.
"""

HAIR = 3e-11
"""By how much a slab is narrower than the range that it must be disjoint from (distance, in the unit ball)."""

REPAIRS = 24
"""Rounds of the search for a feasible point near a node's."""


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


def make_trial(slots: int, alternatives: int, d: int) -> Trial:
    """Memory for that many branchings."""
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


@compiled
def violation(rows: Rows, desk: Desk, tol: Any, product: bool, alternatives: int, i: int) -> float:
    """By how much x misses disjunction i (0 when satisfied, or decided at the node)."""
    first = i * alternatives
    if product:
        total, least = 1.0, np.inf
        for f in range(first, first + alternatives):
            off = abs(dot(rows.f[f], desk.x) - rows.centre[f])
            total *= off * rows.scale[f]
            if rows.moves[f]:
                least = min(least, off)
        if total <= tol[i]:
            return 0.0
        least *= 1.0 - tol[i] / total  # how far that factor would have to move
        return least if least > SATISFIED else 0.0
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
def admit(
    rows: Rows,
    desk: Desk,
    tol: Any,
    product: bool,
    alternatives: int,
    k: int,
    t: float,
    proven: float,
    bound: float,
    best: Any,
    best_x: Any,
) -> None:
    """Let x be the best point if it is; one that is ahead of what is proven is replaced by x of a smaller t.

    The desk holds x(t) with its k active rows, and afterwards maybe others.
    """
    norm = max(1.0, np.sqrt(dot(desk.x, desk.x)))
    value = dot(rows.c, desk.x) / norm
    if value > proven + AHEAD:
        slope = dot(desk.pc, desk.pc)
        t -= (value - min(bound, proven + 0.9 * AHEAD)) / slope if slope > 0.0 else np.inf
        if t <= 0.0 or project(rows, desk, drop_negative(desk, k, t), True)[0] == EMPTY:
            return
        for i in range(len(tol)):
            if violation(rows, desk, tol, product, alternatives, i) > 0.0:
                return
        norm = max(1.0, np.sqrt(dot(desk.x, desk.x)))
        value = dot(rows.c, desk.x) / norm
    if best[0] < value <= proven + AHEAD and is_feasible(rows, desk):
        best[0] = value
        for h in range(len(desk.x)):
            best_x[h] = desk.x[h] / norm


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
        if rows.moves[first + a] and width < abs(values[a]) - 0.1 * SATISFIED * rows.scale[first + a]:
            trial.children[slot] = alternatives
            for b in range(alternatives):
                cover(trial, slot, first, b, width if b == a else least[b] - HAIR * rows.scale[first + b])
            return
    widest, pick = 0.0, -1
    for b in range(alternatives):
        scale = rows.scale[first + b]
        ratio = abs(values[b]) / max(least[b], SATISFIED * scale)
        if rows.moves[first + b] and abs(values[b]) - least[b] > 0.1 * SATISFIED * scale and ratio > widest:
            widest, pick = ratio, b
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
        kind, count, bound, _, new_t = relax(rows, desk, k, t, False)
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
    proven: float,
    bound: float,
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
            if violation(rows, desk, tol, True, alternatives, i) == 0.0:
                continue
            missed += 1
            total, way, pick = 1.0, np.inf, -1
            for f in range(i * alternatives, (i + 1) * alternatives):
                off = abs(dot(rows.f[f], desk.x) - rows.centre[f])
                total *= off * rows.scale[f]
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
        kind, count, bound, rounding, t = relax(rows, desk, count, t, True)
        proven = bound - rounding
        counters[SOLVED] += 1
        if kind == EMPTY:
            break
    if found:
        admit(rows, desk, tol, True, alternatives, count, t, proven, bound, best, best_x)
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
