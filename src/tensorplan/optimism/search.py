"""The search: pop the node with the largest bound, bound it again, branch on a violated disjunction.

A node is its parent plus one slab; it keeps its active rows and multipliers, so that it can be taken up where it was
left and be proved afterwards.  The nodes that are not inner ones always cover the feasible set, whatever rows and
disjunctions are added later: the tree of one call is the starting point of the next.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorplan.errors import ProgramError
from tensorplan.optimism.branch import SATISFIED, Trial, choose, is_feasible, make_trial, repair
from tensorplan.optimism.program import Certificate, Program, Solution
from tensorplan.optimism.relax import EMPTY, UNIT, VIOLATED, Desk, Rows, compiled, dot, make_desk, relax
from tensorplan.optimism.tree import (
    CLOSED,
    DIVE,
    DIVED,
    HEAP,
    INNER,
    NODES,
    OPEN,
    POPS,
    SOLVED,
    VOID,
    Heap,
    Keep,
    Pool,
    keep,
    load,
    make_heap,
    make_keep,
    make_pool,
    pop_heap,
    push_heap,
    store,
)

GOING, DONE, FULL = 0, 1, 2

TINY = 1e-300

LONGEST_DIVE = 64
"""Steps down before the search goes back to the node with the largest bound."""

REDIVE = 256
"""Nodes taken from the heap between two dives for a better point, where there is one."""

CANDIDATES = 4
"""Disjunctions that are tried before one is branched on."""


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
        else:  # a node that was hard to solve keeps the bound that it had
            bound = old
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
        due = counters[POPS] % 64 <= 1 if best[0] == -np.inf else counters[POPS] % REDIVE == 0
        if counters[DIVED] < LONGEST_DIVE and (product or due):
            counters[DIVE] = deepest
            counters[DIVED] += 1
    return GOING


class Search:
    """A program that grows, and the tree that proves its bound.

    ``solve`` may be called again after ``extend``: rows and disjunctions only shrink the feasible set, so every leaf
    and every bound remains valid.  Ctrl-C leaves the tree as it is: ``solve(time_limit=0)`` then says what is known.
    """

    def __init__(self, program: Program, *, candidates: int = CANDIDATES) -> None:
        self.program = program
        self.candidates = candidates
        self._best_x: NDArray[np.float64] | None = None
        self._scale()
        self._pool = make_pool(1024, program.dimension)
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
        best, best_x = self._recall()
        heap = make_heap(2 * len(pool.bound))
        counters[HEAP], counters[SOLVED], counters[POPS], counters[DIVE] = 0, 0, 0, -1
        leaves = np.flatnonzero((pool.state[: counters[NODES]] == OPEN) | (pool.state[: counters[NODES]] == CLOSED))
        for node in leaves.tolist():
            pool.state[node] = OPEN
            push_heap(heap, counters, node, pool.bound[node])
        copy, trial = make_keep(d), make_trial(self.candidates, alternatives, d)
        status, state, steps = "limit", GOING, 8
        while state != DONE:
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
            self._best_x = best_x if np.isfinite(best[0]) else None
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
        # A point that satisfies the rows up to the tolerance may be ahead of the bound by as much.
        bound = max(scaled * size, value) if scaled > -np.inf else -np.inf
        # What was found must bear the status out, whatever made the search stop.
        if status == "infeasible" and leaf.any():
            status = "limit"
        if status == "optimal" and bound - value > 1.01 * self._allowed(gap, value):
            status = "limit"
        proof = self._certificate(size) if certificate else None
        if proof is not None and bound > -np.inf:
            bound = max(float(np.nanmax(proof.bound)), value)
        return Solution(
            status=status,
            theta=theta,
            value=value,
            bound=bound,
            nodes=int(counters[SOLVED]),
            seconds=time.perf_counter() - began,
            certificate=proof,
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

    def _recall(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The best point of the call before and its value, where it satisfies the program as it is now."""
        program, x = self.program, self._best_x
        if x is not None:
            theta = x * program.radius
            values = np.abs(program.forms[:, :, 0] + program.forms[:, :, 1:] @ theta)
            if program.product:
                held = values.prod(axis=1) <= program.tol
            else:
                slack = SATISFIED * self._rows.scale.reshape(values.shape)
                held = (values <= program.tol[:, None] + slack).any(axis=1)
            if held.all() and (self._rows.a @ x <= self._rows.hi + VIOLATED).all():
                return np.array([float(self._rows.c @ x)]), x.copy()
        return np.array([-np.inf]), np.zeros(program.dimension)

    def _grow(self, heap: Heap) -> tuple[Pool, Heap]:
        """Twice the room."""
        pool, wider = make_pool(2 * len(self._pool.bound), self.program.dimension), make_heap(2 * len(heap.node))
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
        bound = np.where(state == VOID, -np.inf, np.nan)
        for node in range(used):
            if state[node] != INNER:
                entries = self._multipliers(node, 1.0 if state[node] == VOID else length)
                index.extend(entries)
                value.extend(entries.values())
                if state[node] != VOID:
                    bound[node] = self._proved(entries)
            ends.append(len(index))
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

    def _multipliers(self, node: int, factor: float) -> dict[int, float]:
        """The multipliers of a leaf in the units of the program, by the index that a certificate uses.

        Where both ends of a range have one, their difference proves no less.
        """
        pool, edges = self._pool, self._edges(node)
        entries: dict[int, float] = {}
        for i in range(pool.active[node]):
            name, side, y = int(pool.row[node, i]), float(pool.side[node, i]), float(pool.y[node, i]) * factor
            if y != 0.0:
                norm = self._row_norms[name] if name >= 0 else self._form_norms[-1 - name]
                y *= side / (norm if norm > 0 and self.program.radius > 0 else 1.0)
                place = name if name >= 0 else -edges[-1 - name, side > 0]
                entries[place] = entries.get(place, 0.0) + y
        return {place: y for place, y in entries.items() if y != 0.0}

    def _proved(self, entries: dict[int, float]) -> float:
        """b·y + B ‖c - Aᵀy‖, rounded up: what these multipliers prove."""
        program, pool, d = self.program, self._pool, self.program.dimension
        place, y = np.array(list(entries), dtype=np.int64), np.array(list(entries.values()))
        row, edge = place[place >= 0], -place[place < 0]
        forms = program.forms.reshape(-1, d + 1)[pool.form[edge]]
        end = np.where(y[place < 0] > 0, pool.high[edge], pool.low[edge])
        normals, b = np.empty((len(y), d)), np.empty(len(y))
        normals[place >= 0], b[place >= 0] = program.rows[row], program.rhs[row]
        normals[place < 0], b[place < 0] = forms[:, 1:], end - forms[:, 0]
        size = np.abs(y) @ (np.abs(b) + program.radius * np.linalg.norm(normals, axis=1))
        size += program.radius * np.linalg.norm(program.objective)
        rest = program.radius * np.linalg.norm(program.objective - y @ normals)
        return float(y @ b + rest + (2 * len(y) + d + 8) * UNIT * size)

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
    """The optimum of a program with a proof of its bound; see the package for the mathematics.

    Ctrl-C ends it with what is known by then.
    """
    search = Search(program)
    try:
        return search.solve(gap, time_limit, node_limit, certificate)
    except KeyboardInterrupt:
        return search.solve(gap, 0.0, None, certificate)


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
