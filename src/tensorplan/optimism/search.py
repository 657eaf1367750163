"""The search: a tree that grows until its bound meets the value of the best point, or a limit is reached.

A node is its parent plus one slab; it keeps its active rows and multipliers, so that it can be taken up where it was
left and be proved afterwards.  The nodes that are not inner ones always cover the feasible set, whatever rows and
disjunctions are added later: the tree of one call is the starting point of the next.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tensorplan.core.errors import ProgramError
from tensorplan.optimism.execution import EXECUTION
from tensorplan.optimism.kernels.points import AHEAD, SATISFIED
from tensorplan.optimism.kernels.relax import VIOLATED
from tensorplan.optimism.kernels.state import (
    COUNT,
    DIVE,
    HEAP,
    NO_HEAP,
    NO_NODE,
    NODES,
    POPS,
    SOLVED,
    STOP,
    BestPoint,
    Desk,
    Disjunctions,
    Flags,
    SearchState,
    make_basis,
    make_desk,
    make_repair,
    make_tree,
    make_trial,
)
from tensorplan.optimism.kernels.step import DONE, FULL, GOING, STOPPED
from tensorplan.optimism.kernels.tree import CLOSED, OPEN
from tensorplan.optimism.program import Program, Solution
from tensorplan.optimism.prove import bound_tree
from tensorplan.optimism.scale import TINY, scale

Work = Callable[[int], int]
"""Work on a search, given the number of steps."""

CANDIDATES = 4
"""Disjunctions that are tried before one is branched on."""

ROOM = 1024
"""Nodes that a new tree has room for; it doubles when they are used up."""

WHOLE_BALL = 1.0 + 1e-12
"""The bound of the root: <c, x> <= 1 on the ball, and a little for rounding."""

RESOLVED = 4e-13
"""Bound and value closer to each other than this much of B ‖c‖ cannot be told apart in double precision."""

LENIENT = 1.01
"""How many times the gap an optimal solution may have after it was scaled back, which rounds."""

FIRST_STEPS, MOST_STEPS = 8, 4096
"""Steps after which the gap, which may depend on the best value, is set anew: twice as many each time."""

LIMITED_STEPS = 16
"""Steps between two looks at the limits, where there are any."""

CALL = 0.02
"""Seconds that a compiled call should take: long against its overhead, and short for who waits for Ctrl-C."""

ATTENDED = 1e-3
"""Seconds of a step from which on it is attended from another thread: a degenerate one may take hundreds of times as
long, and a thread costs little against some of them."""

DEGENERATE = 30.0
"""How many times longer than guessed the first steps may take."""

PER_NUMBER = 1e-8
"""Seconds that a relaxation takes per number that it reads in its ten passes or so: a guess on the safe side."""

GLANCE = 0.05
"""Seconds between two looks at a compiled call that takes longer."""


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
        self._scaled = scale(program)
        self._tree = make_tree(ROOM, program.dimension)
        self._tree.parent[0], self._tree.form[0] = -1, -1
        self._tree.bound[0], self._tree.t[0] = WHOLE_BALL, 1.0
        self._tree.counters[NODES] = 1
        self._best = BestPoint(np.array([-np.inf]), np.zeros(program.dimension))
        self._hot: set[int] = set()

    @property
    def nodes(self) -> int:
        """Nodes of the tree."""
        return int(self._tree.counters[NODES])

    @property
    def program(self) -> Program:
        """All that was given so far."""
        return self._scaled.program

    def extend(
        self,
        rows: ArrayLike | None = None,
        rhs: ArrayLike | None = None,
        forms: ArrayLike | None = None,
        tol: ArrayLike = 0.0,
    ) -> None:
        """Add rows and disjunctions behind those that are there."""
        self._scaled = scale(self.program.extend(rows, rhs, forms, tol))

    def solve(
        self,
        gap: float = 1e-9,
        time_limit: float | None = None,
        node_limit: int | None = None,
        certificate: bool = False,
        strictly: bool = False,
    ) -> Solution:
        """The best θ and the least upper bound that can be had within the limits.

        The time limit is kept to within a few hundredths of a second, but for the certificate, which is written after,
        and for compiling, which is done once and announced on stderr; see :mod:`tensorplan.optimism.execution`.
        ``strictly`` counts that too, and does not begin it where there may be no time for it.
        """
        began = time.perf_counter()
        _check_limits(gap, time_limit, node_limit)
        limited = time_limit is not None or node_limit is not None
        state = self._start()
        deadline = math.inf if time_limit is None else began + time_limit
        pace = _Pace(self.program, self.candidates, deadline, strictly)
        steps = FIRST_STEPS
        while True:
            outcome = pace.walk(state, self._tolerated(gap), steps)
            if outcome == FULL:
                state = self._grow(state)
            if outcome == DONE or pace.is_late():
                break
            if node_limit is not None and self._tree.counters[SOLVED] >= node_limit:
                break
            steps = LIMITED_STEPS if limited else min(2 * steps, MOST_STEPS)
        self._hot = set(state.desk.hot[: state.desk.hot[COUNT]].tolist())
        return self._solution(outcome == DONE, gap, certificate, began)

    # ------------------------------------------------------------------ inside

    def _start(self) -> SearchState:
        """The state of a search with all leaves open, and with the best point of the call before if it is feasible."""
        program, counters = self.program, self._tree.counters
        d, alternatives = program.dimension, program.alternatives
        counters[SOLVED], counters[POPS], counters[DIVE], counters[HEAP] = 0, 0, NO_NODE, NO_HEAP
        self._best = self._recall()
        state = SearchState(
            rows=self._scaled.rows,
            disjunctions=Disjunctions(program.tol, program.product, alternatives),
            desk=self._warm(make_desk(d, len(program.forms) * alternatives, len(program.rows))),
            kept=make_basis(d),
            trial=make_trial(self.candidates, alternatives, d),
            repair=make_repair(len(program.forms) if program.product else 0),
            tree=self._tree,
            best=self._best,
        )
        return state

    def _warm(self, desk: Desk) -> Desk:
        """The desk with the rows that were violated in the call before."""
        hot = list(self._hot)
        desk.hot[: len(hot)], desk.hot[COUNT] = hot, len(hot)
        desk.is_hot[hot] = True
        return desk

    def _recall(self) -> BestPoint:
        """The best point of the call before, where it satisfies the program as it is now."""
        program, rows, x = self.program, self._scaled.rows, self._best.x
        if self._best.value[0] > -np.inf:
            theta = x * program.radius
            values = np.abs(program.forms[:, :, 0] + program.forms[:, :, 1:] @ theta)
            if program.product:
                held = values.prod(axis=1) <= program.tol
            else:
                slack = SATISFIED * rows.scale.reshape(values.shape)
                held = (values <= program.tol[:, None] + slack).any(axis=1)
            if held.all() and (rows.a @ x <= rows.hi + VIOLATED).all():
                return BestPoint(np.array([float(rows.c @ x)]), x.copy())
        return BestPoint(np.array([-np.inf]), np.zeros(program.dimension))

    def _grow(self, state: SearchState) -> SearchState:
        """The state with twice the room for nodes."""
        tree = make_tree(2 * len(state.tree.bound), self.program.dimension)
        arrays: list[tuple[Any, Any]] = list(zip(state.tree, tree, strict=True))
        for old, new in arrays:
            new[: len(old)] = old
        self._tree = tree
        return state._replace(tree=tree)

    def _tolerated(self, gap: float) -> float:
        """The difference between bound and value that counts as none, in the unit ball."""
        size = self._scaled.size
        return self._allowed(gap, float(self._best.value[0]) * size if size > 0 else 0.0) / max(size, TINY)

    def _allowed(self, gap: float, value: float) -> float:
        """The difference between bound and value that counts as none."""
        return max(gap * max(1.0, abs(value) if value > -np.inf else 0.0), RESOLVED * self._scaled.size)

    def _solution(self, done: bool, gap: float, certificate: bool, began: float) -> Solution:
        """What the tree says, and whether it bears out that the search is done."""
        program, tree, size = self.program, self._tree, self._scaled.size
        used = int(tree.counters[NODES])
        leaf = (tree.state[:used] == OPEN) | (tree.state[:used] == CLOSED)
        bounds = tree.bound[:used][leaf]
        bound = float(bounds.max()) * size if len(bounds) else -np.inf
        proof = bound_tree(self._scaled, tree) if certificate else None
        proven = float(np.nanmax(proof.bound)) if proof is not None and len(bounds) else bound
        theta, value = None, -np.inf
        if self._best.value[0] > -np.inf:
            theta = self._best.x * program.radius
            value = float(program.objective @ theta)
        if value > min(bound, proven) + AHEAD * size:  # it is beyond what the rows allow, though by next to nothing
            self._best.value[0], theta, value = -np.inf, None, -np.inf
        if not len(bounds):
            status = "infeasible"
        elif not done or theta is None or bound - value > LENIENT * self._allowed(gap, value):
            status = "limit"
        else:
            status = "optimal"
        return Solution(
            status=status,
            theta=theta,
            value=value,
            bound=max(proven, value),  # a point that satisfies the rows up to the tolerance may be ahead by as much
            nodes=int(tree.counters[SOLVED]),
            seconds=time.perf_counter() - began,
            certificate=proof,
        )


class _Pace:
    """How long steps take, so that compiled calls are neither too short nor too long, and how long they may take."""

    def __init__(self, program: Program, candidates: int, deadline: float, strictly: bool) -> None:
        d, relaxations = program.dimension, 1 + candidates * program.alternatives
        # A relaxation takes about ten passes over the basis, the rows and one form of each disjunction.
        self.step = PER_NUMBER * relaxations * d * (4 * d + len(program.rows) + len(program.forms))
        """Seconds that a compiled step may take: a guess, then the longest of late."""
        self.doubt = DEGENERATE
        self.deadline, self.strictly = deadline, strictly

    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return time.perf_counter() >= self.deadline

    def walk(self, state: SearchState, gap: float, steps: int) -> int:
        """Work that many steps, in as many calls as it takes, or until the deadline."""
        call = partial(EXECUTION.work, state, gap)
        while True:
            some, outcome = self._call(call, steps, state) if self._compiled(state) else self._interpret(call, state)
            steps -= some
            if outcome != GOING or steps == 0 or self.is_late():
                return outcome

    def _compiled(self, state: SearchState) -> bool:
        """Whether steps are compiled; if that takes time, the deadline is later by as much, unless it is strict."""
        if self.is_late():
            return EXECUTION.code is not None
        began = time.perf_counter()
        if self.strictly:
            return EXECUTION.is_compiled(state, self.deadline - began)
        compiled = EXECUTION.is_compiled(state)
        self.deadline += time.perf_counter() - began
        return compiled

    def _call(self, call: Work, steps: int, state: SearchState) -> tuple[int, int]:
        """Some steps in one compiled call: how many, and how they ended."""
        began = time.perf_counter()
        if self.step > ATTENDED:
            some, outcome = steps, _attended(call, steps, state.desk.is_hot, self.deadline)
        else:
            some = max(1, min(steps, int(CALL / (self.doubt * self.step))))
            outcome = call(some)
        self.step, self.doubt = max((time.perf_counter() - began) / some, self.step / 2), 1.0
        return some, outcome

    def _interpret(self, call: Work, state: SearchState) -> tuple[int, int]:
        """One step in Python; in another thread, since Ctrl-C must not leave it half done."""
        return 1, _attended(call, 1, state.desk.is_hot, self.deadline)


def _attended(call: Work, steps: int, stop: Flags, deadline: float) -> int:
    """Work in a thread, told to stop at the deadline or when a signal raises here, as Ctrl-C does.

    One step of a large program may take seconds, and compiled code does not let signals through.
    """
    outcome: list[Any] = []
    ended = threading.Event()  # Thread.join takes a thread for dead when a signal raises in it

    def run() -> None:
        try:
            outcome.append(STOPPED if stop[STOP] else call(steps))
        except BaseException as error:  # to be raised where it is waited for
            outcome.append(error)
        ended.set()

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
        while not ended.is_set() and (left := deadline - time.perf_counter()) > 0:
            ended.wait(min(left, GLANCE))
    finally:
        stop[STOP] = not ended.is_set()
        while thread.ident is not None and not ended.wait(GLANCE):
            pass
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return int(outcome[0])


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


def compile_now() -> None:
    """Load the machine code of the search, or compile it, without waiting until that pays.

    For measurements, and for who starts many processes; answers do not depend on it.
    """
    EXECUTION.compile(Search(Program([1.0], 1.0))._start())


def _check_limits(gap: float, time_limit: float | None, node_limit: int | None) -> None:
    if not 0 <= gap < np.inf:
        raise ProgramError(f"gap must be a finite number >= 0, got {gap!r}")
    if time_limit is not None and not time_limit >= 0:
        raise ProgramError(f"time_limit must be a number of seconds >= 0 or None, got {time_limit!r}")
    if node_limit is not None and not node_limit >= 1:
        raise ProgramError(f"node_limit must be a number of nodes >= 1 or None, got {node_limit!r}")
