"""Branching: which disjunction, into what, and how good it would be."""

from __future__ import annotations

import numpy as np

from tensorplan.optimism.kernels.compiled import inlined
from tensorplan.optimism.kernels.points import SATISFIED, violation
from tensorplan.optimism.kernels.relax import EMPTY, relax
from tensorplan.optimism.kernels.state import (
    ACTIVE,
    BOUND,
    FORM,
    HI,
    HIGH,
    KIND,
    LO,
    LOW,
    ROW,
    SIDE,
    SOLVED,
    Relaxed,
    SearchState,
    T,
    Trial,
    X,
    Y,
)
from tensorplan.optimism.kernels.tree import carry, narrow, widen
from tensorplan.optimism.kernels.vectors import Vector, dot

NO_SLOT = -1
"""Instead of the slot of a branching: no disjunction is violated."""

HAIR = 3e-11
"""By how much a slab is narrower than the range that it must be disjoint from (distance, in the unit ball)."""

NOTICED = 0.1 * SATISFIED
"""A range that shrinks by less than this at x is not worth a branching (distance, in the unit ball)."""

WIDER = 1e-15
"""By how much of itself, and per alternative, a slab of a product is wider than computed, for the rounding."""

INSIDE = 1e-10
"""A range is split where the best point is when that is away from its ends by more than this much of them."""

LEAST_LOSS = 1e-9
"""What a child loses at least when branchings are compared, so that its siblings count too."""

ALL_LOST = 2.0
"""What a child that is empty or below the floor loses: all that there is in a ball where <c, x> is from -1 to 1."""


@inlined
def cover(trial: Trial, slot: int, first: int, a: int, width: float) -> None:
    """Child a of a cover: the slab |l_a| <= width."""
    trial.integers[FORM, slot, a], trial.reals[LOW, slot, a], trial.reals[HIGH, slot, a] = first + a, -width, width


@inlined
def plan_slabs(trial: Trial, slot: int, first: int, alternatives: int, width: float) -> None:
    """Branch on a disjunction: one slab per alternative."""
    trial.children[slot] = alternatives
    for a in range(alternatives):
        cover(trial, slot, first, a, width)


@inlined
def plan_cut(state: SearchState, slot: int, first: int, tol: float, values: Vector, least: Vector) -> bool:
    """Branch into a slab |l_a| <= tol / Π_{b != a} m_b that cuts x off, and empty ones; says whether there is one."""
    rows, trial, alternatives = state.rows, state.trial, state.disjunctions.alternatives
    for a in range(alternatives):
        others = 1.0
        for b in range(alternatives):
            if b != a:
                others *= max(0.0, least[b] - HAIR * rows.scale[first + b])
        width = tol / others * (1.0 + WIDER * alternatives) if others > 0.0 else np.inf
        if rows.moves[first + a] and width < abs(values[a]) - NOTICED * rows.scale[first + a]:
            trial.children[slot] = alternatives
            for b in range(alternatives):
                cover(trial, slot, first, b, width if b == a else least[b] - HAIR * rows.scale[first + b])
            return True
    return False


@inlined
def widest_factor(state: SearchState, first: int, values: Vector, least: Vector) -> int:
    """The factor b with the largest |l_b(x)| / m_b whose range can be split between the two; -1 if there is none."""
    rows = state.rows
    widest, pick = 0.0, -1
    for b in range(state.disjunctions.alternatives):
        scale = rows.scale[first + b]
        ratio = abs(values[b]) / max(least[b], SATISFIED * scale)
        if rows.moves[first + b] and abs(values[b]) - least[b] > NOTICED * scale and ratio > widest:
            widest, pick = ratio, b
    return pick


@inlined
def plan_split(state: SearchState, slot: int, f: int, at: float, value: float, least: float) -> None:
    """Split the range of form f at the size ``at``, or where the best point has it between least and |value|."""
    rows, trial, best, size = state.rows, state.trial, state.best, abs(value)
    if best.value[0] > -np.inf:
        there = (dot(rows.f[f], best.x) - rows.centre[f]) * rows.scale[f]
        if there * value > 0.0 and least * (1.0 + INSIDE) < abs(there) < size * (1.0 - INSIDE):
            at = abs(there)
    if value < 0.0:
        at = -at
    trial.children[slot] = 2
    trial.integers[FORM, slot, 0], trial.reals[LOW, slot, 0], trial.reals[HIGH, slot, 0] = f, -np.inf, at
    trial.integers[FORM, slot, 1], trial.reals[LOW, slot, 1], trial.reals[HIGH, slot, 1] = f, at, np.inf


@inlined
def plan_product(state: SearchState, slot: int, first: int, tol: float) -> None:
    """Branch on a product |Π_a l_a| <= tol that x misses.

    Let m_b be the least |l_b| that the ranges of the node allow.  If Π_{b != a} m_b |l_a(x)| > tol for some a, then
    |l_a| <= tol / Π_{b != a} m_b cuts x off: a cover whose other slabs, a hair narrower than m_b, are empty.  Else some
    range is too wide, and is split between m_b and |l_b(x)|: where the best point found so far has l_b, if that is
    there, and else at t_b = |l_b(x)| (tol / Π_a |l_a(x)|)^(1/A) or halfway to m_b.  Unlike t-slabs for all
    alternatives at once, the two halves do not overlap, so that what one of them closes is not met in the other again.
    """
    rows, desk, alternatives = state.rows, state.desk, state.disjunctions.alternatives
    values, least = state.trial.value, state.trial.least
    total = 1.0
    for a in range(alternatives):
        f = first + a
        values[a] = (dot(rows.f[f], desk.basis.v[X]) - rows.centre[f]) * rows.scale[f]
        low = (desk.ranges[LO, f] - rows.centre[f]) * rows.scale[f]
        high = (desk.ranges[HI, f] - rows.centre[f]) * rows.scale[f]
        least[a] = max(0.0, low, -high) if rows.moves[f] else abs(values[a])
        total *= abs(values[a])
    if plan_cut(state, slot, first, tol, values, least):
        return
    pick = widest_factor(state, first, values, least)
    if pick < 0 or tol == 0.0:
        plan_slabs(state.trial, slot, first, alternatives, tol ** (1.0 / alternatives) * (1.0 + WIDER * alternatives))
        return
    size = abs(values[pick])
    at = np.sqrt(least[pick] * size) if least[pick] > 0.0 else size * (tol / total) ** (1.0 / alternatives)
    plan_split(state, slot, first + pick, at, values[pick], least[pick])


@inlined
def plan(state: SearchState, slot: int) -> None:
    """The children of the branching in a slot, unsolved."""
    i, alternatives = state.trial.disjunction[slot], state.disjunctions.alternatives
    tol = state.disjunctions.tol[i]
    if state.disjunctions.product and tol > 0.0:
        plan_product(state, slot, i * alternatives, tol)
    else:
        plan_slabs(state.trial, slot, i * alternatives, alternatives, tol)


@inlined
def try_children(state: SearchState, slot: int, k: int, t: float) -> None:
    """Solve the children in a slot; the desk holds the parent, with k active rows, before and after."""
    rows, desk, trial = state.rows, state.desk, state.trial
    basis = desk.basis
    for child in range(trial.children[slot]):
        form = trial.integers[FORM, slot, child]
        before = narrow(rows, desk, form, trial.reals[LOW, slot, child], trial.reals[HIGH, slot, child])
        found = relax(rows, desk, k, t, False)
        state.tree.counters[SOLVED] += 1
        trial.integers[KIND, slot, child], trial.reals[BOUND, slot, child] = found.kind, found.bound
        trial.reals[T, slot, child] = found.t
        trial.integers[ACTIVE, slot, child] = found.active
        for j in range(found.active):
            trial.row[slot, child, j], trial.side[slot, child, j] = basis.names[ROW, j], basis.v[SIDE, j]
            trial.y[slot, child, j] = basis.v[Y, j]
        widen(desk, form, before)
        carry(state.kept, basis, k)


@inlined
def score(trial: Trial, slot: int, bound: float, floor: float) -> tuple[float, int]:
    """The product of what the children lose against the bound of their parent, and how many must be searched."""
    product, alive = 1.0, 0
    for a in range(trial.children[slot]):
        value = trial.reals[BOUND, slot, a]
        if trial.integers[KIND, slot, a] == EMPTY or value <= floor:
            product *= ALL_LOST
        else:
            product *= max(bound - value, LEAST_LOSS)
            alive += 1
    return product, alive


@inlined
def most_violated(state: SearchState) -> int:
    """Put the most violated disjunctions into the slots, the worst first; returns how many slots are filled."""
    branch, worst = state.trial.disjunction, state.trial.miss
    found, slots = 0, len(branch)
    for i in range(len(state.disjunctions.tol)):
        miss = violation(state.rows, state.desk, state.disjunctions, i)
        if miss > 0.0:
            j = min(found, slots)
            while j > 0 and worst[j - 1] < miss:
                if j < slots:
                    worst[j], branch[j] = worst[j - 1], branch[j - 1]
                j -= 1
            if j < slots:
                worst[j], branch[j] = miss, i
            found += 1
    return min(found, slots)


@inlined
def choose(state: SearchState, relaxed: Relaxed, floor: float) -> int:
    """The slot of the branching to make; NO_SLOT when no disjunction is violated.

    The most violated ones are tried.  The better branching lowers the bound more in all its children: the product of
    what they lose counts, where a child that is empty or below ``floor`` loses all there is.
    """
    top, slot = -1.0, NO_SLOT
    for j in range(most_violated(state)):
        plan(state, j)
        try_children(state, j, relaxed.active, relaxed.t)
        lost, alive = score(state.trial, j, relaxed.bound, floor)
        if lost > top:
            top, slot = lost, j
        if alive <= 1:
            return j
    return slot
