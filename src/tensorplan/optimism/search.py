"""The search: pop the node with the largest bound, bound it again, branch on a violated disjunction.

A node is its parent plus one slab; it keeps its active rows and multipliers, so that it can be taken up where it was
left and be proved afterwards.  The nodes that are not inner ones always cover the feasible set, whatever rows and
disjunctions are added later: the tree of one call is the starting point of the next.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorplan.core.errors import ProgramError
from tensorplan.optimism.branch import AHEAD, SATISFIED, Trial, admit, choose, make_trial, repair
from tensorplan.optimism.program import BoundTree, Program, Solution
from tensorplan.optimism.relax import EMPTY, UNIT, VIOLATED, Desk, Rows, compiled, make_desk, relax
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
    fill_heap,
    keep,
    load,
    make_heap,
    make_keep,
    make_pool,
    pop_heap,
    push_heap,
    store,
)

GOING, DONE, FULL, STOPPED = 0, 1, 2, 3

Work = Callable[[int], int]
"""``work`` on a search, given the number of steps."""

TINY = 1e-300
"""Next to nothing, and far enough from zero to have all its digits."""

LONGEST_DIVE = 64
"""Steps down before the search goes back to the node with the largest bound."""

REDIVE = 256
"""Nodes taken from the heap between two dives for a better point, where there is one."""

CANDIDATES = 4
"""Disjunctions that are tried before one is branched on."""

LEAST, MOST = 1e-140, 1e140
"""The sizes that the search handles: the product of any two, and their ratio, have 28 decades to spare."""

FAINT = 1e-290
"""The least size of an objective, times the radius or not: values have all their digits."""

FAR = 1e25
"""Distances, in the unit ball, that are as good as infinite; times the largest B ‖a‖ they are still a float."""

BLURRED = 1e-10
"""Rounding, relative to B ‖c‖, from which on what a leaf proves is computed exactly: a tenth of verify's ``CLAIM``."""

CALL = 0.02
"""Seconds that a compiled call should take: long against its overhead, and short for who waits for Ctrl-C."""

ATTENDED = 1e-3
"""Seconds of a step from which on it is attended from another thread: a degenerate one may take hundreds of times as
long, and a thread costs little against some of them."""

DEGENERATE = 30.0
"""How many times longer than guessed the first steps may take."""

GLANCE = 0.05
"""Seconds between two looks at a compiled call that takes longer."""


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
    """Some steps of the search: GOING, DONE when the bounds have met, FULL when the pool must grow, or STOPPED.

    A step that is stopped leaves the tree as it was.
    """
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
        kind, k, bound, rounding, t = relax(rows, desk, k, pool.t[node], True)
        counters[SOLVED] += 1
        if desk.is_hot[-1]:
            return STOPPED
        if kind == EMPTY:
            store(desk, pool, node, k, -np.inf, t)
            pool.state[node] = VOID
            continue
        proven = min(bound - rounding, old)
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
            repair(rows, desk, copy, tol, alternatives, k, t, proven, bound, counters, best, best_x)
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
        if desk.is_hot[-1]:
            return STOPPED
        if slot < 0:
            admit(rows, desk, tol, product, alternatives, k, t, proven, bound, best, best_x)
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

    The radius, and the norms of each row and of each form's slope, must be 0 or from 1e-140 to 1e140, that of the
    objective, with the radius or without, 0 or from 1e-290; right-hand sides, constants and tolerances may be any
    numbers.  Of a product also what its factors, or those of them that are larger or smaller than 1, can multiply to on
    the ball must be from 1e-140 to 1e140, and its tolerance 0 or 1e-300 of that at least.  :class:`ProgramError` says
    where it is not so.

    One thread at a time: compiled code does not hold Python's lock.
    """

    def __init__(self, program: Program, *, candidates: int = CANDIDATES) -> None:
        if candidates < 1:
            raise ProgramError(f"candidates must be a number of disjunctions >= 1, got {candidates!r}")
        self.candidates = candidates
        self._best_x: NDArray[np.float64] | None = None
        self._take(program)
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
        self._take(self.program.extend(rows, rhs, forms, tol))

    def solve(
        self,
        gap: float = 1e-9,
        time_limit: float | None = None,
        node_limit: int | None = None,
        certificate: bool = False,
    ) -> Solution:
        """The best θ and the least upper bound that can be had within the limits.

        The time limit is kept to within a few hundredths of a second, but for the certificate, which is written after.
        """
        began = time.perf_counter()
        _check_limits(gap, time_limit, node_limit)
        program, counters, size = self.program, self._counters, self._size
        d, alternatives = program.dimension, program.alternatives
        deadline = math.inf if time_limit is None else began + time_limit
        desk = make_desk(d, len(program.forms) * alternatives, len(program.rows))
        for j in self._hot:
            desk.hot[desk.hot[-1]] = j
            desk.hot[-1] += 1
            desk.is_hot[j] = True
        best, best_x = self._recall()
        heap = make_heap(2 * len(self._pool.bound))
        counters[SOLVED], counters[POPS], counters[DIVE] = 0, 0, -1
        fill_heap(self._pool.state, self._pool.bound, heap, counters)
        copy, trial = make_keep(d), make_trial(self.candidates, alternatives, d)
        pace = _Pace(program, self.candidates)
        status, steps = "limit", 8
        while True:
            tolerated = self._allowed(gap, best[0] * size if size > 0 else 0.0) / max(size, TINY)
            some_steps = partial(
                work,
                self._rows,
                program.tol,
                program.product,
                alternatives,
                self.candidates,
                desk,
                copy,
                trial,
                self._pool,
                heap,
                counters,
                best,
                best_x,
                tolerated,
            )
            try:
                state = pace.walk(some_steps, steps, desk.is_hot, deadline)
            finally:
                self._best_x = best_x if best[0] > -np.inf else None
            if state == DONE:
                status = "infeasible" if self._best_x is None else "optimal"
                break
            if state == FULL:
                heap = self._grow(heap)
            if time.perf_counter() >= deadline:
                break
            if node_limit is not None and counters[SOLVED] >= node_limit:
                break
            steps = min(2 * steps, 4096) if time_limit is None and node_limit is None else 16
        self._hot = set(desk.hot[: desk.hot[-1]].tolist())
        return self._solution(status, gap, certificate, began)

    # ------------------------------------------------------------------ inside

    def _solution(self, status: str, gap: float, certificate: bool, began: float) -> Solution:
        """What the tree says, and whether it bears the status out."""
        program, size, used = self.program, self._size, int(self._counters[NODES])
        state = self._pool.state[:used]
        bounds = self._pool.bound[:used][(state == OPEN) | (state == CLOSED)]
        bound = float(bounds.max()) * size if len(bounds) else -np.inf
        proof = self._certificate() if certificate else None
        proven = float(np.nanmax(proof.bound)) if proof is not None and len(bounds) else bound
        theta = None if self._best_x is None else self._best_x * program.radius
        value = -np.inf if theta is None else float(program.objective @ theta)
        if value > min(bound, proven) + AHEAD * size:  # it is beyond what the rows allow, though by next to nothing
            self._best_x, theta, value = None, None, -np.inf
        if not len(bounds):
            status = "infeasible"
        elif theta is None or bound - value > 1.01 * self._allowed(gap, value):
            status = "limit"
        return Solution(
            status=status,
            theta=theta,
            value=value,
            bound=max(proven, value),  # a point that satisfies the rows up to the tolerance may be ahead by as much
            nodes=int(self._counters[SOLVED]),
            seconds=time.perf_counter() - began,
            certificate=proof,
        )

    def _take(self, program: Program) -> None:
        """Work on this program from now on: in the unit ball, every row a unit vector."""
        radius, d = program.radius, program.dimension
        forms = program.forms.reshape(-1, d + 1)
        with np.errstate(over="ignore", under="ignore"):  # what overflows is refused, or as good as infinite
            length, norms, slopes = _length(program), _norms(program.rows), _norms(forms[:, 1:])
            _check_sizes(program, norms, slopes)
            row_scale, scale, constants = radius * norms, radius * slopes, np.abs(forms[:, 0])
            moves = FAR * scale > constants
            scale = np.where(moves, scale, constants)
            scale[scale == 0] = 1.0
            unit = _over(program.rows, row_scale / radius if radius > 0 else row_scale)
            hi = _over(program.rhs, np.where(row_scale > 0, row_scale, np.abs(program.rhs)))
            self._rows = Rows(
                c=program.objective / length if length * radius > 0 else np.zeros(d),
                a=unit if radius > 0 else np.zeros_like(unit),
                hi=np.minimum(np.maximum(hi, -FAR), FAR),
                f=forms[:, 1:] / np.where(moves, slopes, np.inf)[:, None],
                centre=-forms[:, 0] / scale,
                scale=scale,
                moves=moves,
            )
        self.program, self._size = program, radius * length
        self._row_norms, self._form_norms = norms, slopes

    def _allowed(self, gap: float, value: float) -> float:
        """The difference between bound and value that counts as none."""
        return max(gap * max(1.0, abs(value) if value > -np.inf else 0.0), 4e-13 * self._size)

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

    def _grow(self, heap: Heap) -> Heap:
        """Twice the room."""
        pool, wider = make_pool(2 * len(self._pool.bound), self.program.dimension), make_heap(2 * len(heap.node))
        arrays: list[tuple[Any, Any]] = [*zip(self._pool, pool, strict=True), *zip(heap, wider, strict=True)]
        for old, new in arrays:
            new[: len(old)] = old
        self._pool = pool
        return wider

    def _certificate(self) -> BoundTree:
        """The tree with the multipliers of its leaves, in the units of the program."""
        pool, used = self._pool, int(self._counters[NODES])
        alternatives = self.program.alternatives
        state = pool.state[:used]
        length = self._size / self.program.radius if self.program.radius > 0 else 0.0
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
        return BoundTree(
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
            name, y = int(pool.row[node, i]), float(pool.y[node, i]) * factor * float(pool.side[node, i])
            if y != 0.0:
                y /= self._unit(name)
                # The sign says which end is meant: that of an equality, whose ends two edges may give, is free.
                place = name if name >= 0 else -edges[-1 - name, y > 0]
                entries[place] = entries.get(place, 0.0) + y
        return {place: y for place, y in entries.items() if y != 0.0}

    def _unit(self, name: int) -> float:
        """The norm of a row or of a form's slope in the program; 1 where it is constant."""
        if name < 0:
            return float(self._form_norms[-1 - name]) if self._rows.moves[-1 - name] else 1.0
        return float(self._row_norms[name]) if self.program.radius * self._row_norms[name] > 0 else 1.0

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
        size += self._size
        rounding = (2 * len(y) + d + 8) * UNIT * size
        if rounding > BLURRED * self._size:
            return _proved_exactly(program, y, normals, b)
        rest = program.radius * math.hypot(*(program.objective - y @ normals).tolist())
        return float(y @ b + rest + rounding)

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


class _Pace:
    """How long steps take, so that compiled calls are neither too short nor too long."""

    def __init__(self, program: Program, candidates: int) -> None:
        d, relaxations = program.dimension, 1 + candidates * program.alternatives
        # A relaxation takes about ten passes over the basis, the rows and one form of each disjunction.
        self.step = 1e-8 * relaxations * d * (4 * d + len(program.rows) + len(program.forms))
        """Seconds that a step may take: a guess, then the longest of late."""
        self.doubt = DEGENERATE

    def walk(self, call: Work, steps: int, stop: NDArray[np.bool_], deadline: float) -> int:
        """Work that many steps, in as many calls as it takes, or until the deadline."""
        while True:
            began = time.perf_counter()
            if self.step > ATTENDED:
                some = steps
                state = _attended(call, some, stop, deadline)
            else:
                some = max(1, min(steps, int(CALL / (self.doubt * self.step))))
                state = call(some)
            now = time.perf_counter()
            self.step, self.doubt = max((now - began) / some, self.step / 2), 1.0
            steps -= some
            if state != GOING or steps == 0 or now >= deadline:
                return state


def _attended(call: Work, steps: int, stop: NDArray[np.bool_], deadline: float) -> int:
    """Work in a thread, told to stop at the deadline or when a signal raises here, as Ctrl-C does.

    One step of a large program may take seconds, and compiled code does not let signals through.
    """
    outcome: list[Any] = []
    ended = threading.Event()  # Thread.join takes a thread for dead when a signal raises in it

    def run() -> None:
        try:
            outcome.append(STOPPED if stop[-1] else call(steps))
        except BaseException as error:  # to be raised where it is waited for
            outcome.append(error)
        ended.set()

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
        while not ended.is_set() and (left := deadline - time.perf_counter()) > 0:
            ended.wait(min(left, GLANCE))
    finally:
        stop[-1] = not ended.is_set()
        while thread.ident is not None and not ended.wait(GLANCE):
            pass
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return int(outcome[0])


def _proved_exactly(
    program: Program, y: NDArray[np.float64], normals: NDArray[np.float64], b: NDArray[np.float64]
) -> float:
    """b·y + B ‖c - Aᵀy‖ for multipliers so large that rounding would hide it, rounded up."""
    weights = [Fraction(v) for v in y.tolist()]
    scalar = sum((w * Fraction(v) for w, v in zip(weights, b.tolist(), strict=True)), Fraction(0))
    rest = [
        Fraction(c) - sum(w * Fraction(v) for w, v in zip(weights, column, strict=True))
        for c, column in zip(program.objective.tolist(), normals.T.tolist(), strict=True)
    ]
    square = Fraction(program.radius) ** 2 * sum(r * r for r in rest)
    digits = max(0, 128 + (square.denominator.bit_length() - square.numerator.bit_length()) // 2)
    root = Fraction(math.isqrt((square.numerator << 2 * digits) // square.denominator) + 1, 1 << digits)
    return math.nextafter(float(scalar + root), math.inf)


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


def _length(program: Program) -> float:
    """‖c‖; what no multiple of it can be told from 0, or from infinity, is refused."""
    length = math.sqrt(program.objective @ program.objective)
    if LEAST <= length <= MOST or not program.objective.any():
        return length
    length = math.hypot(*program.objective.tolist())
    if length > MOST or min(length, length * (program.radius or 1.0)) < FAINT:
        raise ProgramError(
            f"the norm of the objective is about {length:.1e}, and the search handles 0 and {FAINT:g} to {MOST:g}, "
            "times the radius too"
        )
    return length


def _check_sizes(program: Program, norms: NDArray[np.float64], slopes: NDArray[np.float64]) -> None:
    """Refuse numbers so large or small that their products and ratios leave double precision; see :class:`Search`."""
    forms = program.forms.reshape(-1, program.dimension + 1)
    if program.radius != 0.0 and not LEAST <= program.radius <= MOST:
        raise _refusal("the radius", program.radius)
    sizes = np.concatenate([norms, slopes])
    if sizes.size and not (sizes.min() >= LEAST and sizes.max() <= MOST):
        vectors = np.concatenate([program.rows, forms[:, 1:]])
        wrong = ~((sizes >= LEAST) & (sizes <= MOST)) & vectors.any(axis=1)
        if wrong.any():
            k = int(np.argmax(wrong))
            name = f"row {k}" if k < len(norms) else f"form {divmod(k - len(norms), program.alternatives)}"
            raise _refusal(f"the norm of {name}", float(np.abs(vectors[k]).max()))
    if program.product and len(forms):
        _check_products(program, np.abs(forms[:, 0]) + program.radius * slopes)


def _check_products(program: Program, sizes: NDArray[np.float64]) -> None:
    """Refuse products that may overflow or vanish, whatever the order of multiplication."""
    alternatives, tol = program.alternatives, program.tol
    usual = min(1.0, sizes.min()) ** alternatives >= LEAST and max(1.0, sizes.max()) ** alternatives <= MOST
    if usual and not ((tol > 0) & (tol < TINY * MOST)).any():
        return
    factors = np.where(sizes > 0, sizes, 1.0).reshape(-1, alternatives)
    grown, shrunk = np.maximum(factors, 1.0).prod(axis=1), np.minimum(factors, 1.0).prod(axis=1)
    for products in (grown, shrunk):
        wrong = ~((products >= LEAST) & (products <= MOST))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise _refusal(f"what the factors of product {i} multiply to", float(products[i]))
    wrong = (tol > 0) & (tol < TINY * grown)  # no factor can be that small
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ProgramError(f"the tolerance of product {i} is {tol[i]:.1e}: too small to be told from 0, say so")


def _refusal(what: str, size: float) -> ProgramError:
    return ProgramError(f"{what} is about {size:.1e}, and the search handles 0 and {LEAST:g} to {MOST:g}")


def _norms(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    norms: NDArray[np.float64] = np.sqrt((vectors * vectors).sum(axis=1))
    return norms


def _over(x: Any, norm: Any) -> NDArray[np.float64]:
    """x / norm row by row; rows of norm zero stay as they are."""
    safe = np.where(norm > 0, norm, 1.0)
    return np.ascontiguousarray(x / (safe[:, None] if x.ndim == 2 else safe))
