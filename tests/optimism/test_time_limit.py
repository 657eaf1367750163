"""A search stops when it is told to, wherever it is, with a bound that is valid."""

import contextlib
import itertools
import math
import signal
import threading
import time

import numpy as np
import pytest
from test_search import hard_program
from waiting import wait_for

from tensorplan.optimism import Program, Search, execution, search, solve, verify
from tensorplan.optimism.execution import Execution
from tensorplan.optimism.kernels.step import STOPPED
from tensorplan.optimism.search import _attended, compile_now

LATE = 0.2
"""Seconds after the limit at which the answer must be there."""

EARLY = 0.05
"""Seconds after which none of the programs is solved; a fast machine takes 0.2 for the shortest."""


def degenerate_program():
    """One node problem that takes long: thousands of rows through one point."""
    rng = np.random.default_rng(0)
    d, m = 150, 20_000
    star = rng.normal(size=d)
    star *= 0.9 / np.linalg.norm(star)
    rows = rng.normal(size=(m, d))
    return Program(rng.normal(size=d), 1.0, rows, rows @ star), star


PROGRAMS = {
    "many nodes": lambda: hard_program(1, d=18, n=90, a=4),
    "long steps": lambda: hard_program(2, d=100, n=300, a=3),
    "one long step": degenerate_program,
}


@pytest.fixture(autouse=True, params=[True, False], ids=["compiled", "interpreted"])
def _execution(request, monkeypatch):
    if request.param:
        compile_now()
    else:
        if "one long step" in request.node.name:
            pytest.skip("a program of that size is compiled at once")
        monkeypatch.setattr(search, "EXECUTION", Execution())
        monkeypatch.setattr(execution, "LOADING_PAYS", math.inf)
        monkeypatch.setattr(execution, "COMPILING_PAYS", math.inf)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("limit", [0.0, 0.02, 0.3])
def test_the_limit_is_honoured(name, limit):
    program, star = PROGRAMS[name]()
    growing = Search(program)
    began = time.perf_counter()
    found = growing.solve(time_limit=limit)
    assert time.perf_counter() - began < limit + LATE
    assert found.status == "limit" or (name == "one long step" and limit == 0.3)  # which may do
    assert found.bound >= program.objective @ star - 1e-9
    certified = growing.solve(time_limit=0.0, certificate=True)
    assert program.objective @ star - 1e-9 <= verify(program, certified) <= found.bound + 1e-9


@contextlib.contextmanager
def interrupted(seconds=0.0):
    """Ctrl-C after so long, or at SIGALRM, which must come through at once."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", PROGRAMS)
def test_ctrl_c_is_heard_at_once_and_leaves_a_search_that_goes_on(name):
    program, star = PROGRAMS[name]()
    growing = Search(program)
    began = time.perf_counter()
    with interrupted(EARLY):
        growing.solve()
    assert time.perf_counter() - began < EARLY + LATE
    first, second = growing.solve(time_limit=0.0), growing.solve(time_limit=0.1)
    assert program.objective @ star - 1e-9 <= second.bound <= first.bound


def test_ctrl_c_waits_until_the_other_thread_has_left_the_tree_alone():
    stop, abandoned, waited = np.zeros(1, dtype=np.bool_), threading.Event(), []

    def call(_):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)
        wait_for(lambda: stop[-1])
        waited.append(not abandoned.wait(LATE))
        return STOPPED

    with interrupted():
        try:
            _attended(call, 1, stop, math.inf)
        finally:
            abandoned.set()
    assert waited == [True]


def test_an_error_in_the_other_thread_is_raised():
    def call(_):
        raise MemoryError

    with pytest.raises(MemoryError):
        _attended(call, 1, np.zeros(1, dtype=np.bool_), math.inf)


def test_short_calls_one_after_another_end_where_one_long_one_does():
    program, _ = hard_program()
    growing = Search(program)
    bounds = []
    for _ in range(10_000):
        found = growing.solve(time_limit=1e-4)
        bounds.append(found.bound)
        if found.status == "optimal":
            break
    assert found.status == "optimal"
    assert found.value == pytest.approx(solve(program).value, abs=1e-8)
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(bounds))
