"""Units that misbehave: each is recorded with one sentence, and the others are done."""

import os
import signal
import socket
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensorplan import BadInput, TensorplanError
from tensorplan.access.processes import processors
from tensorplan.lab import engine_ray, engines
from tensorplan.lab.engines import LocalEngine
from tensorplan.lab.suites import Suite, Unit
from tensorplan.lab.units import Facts, play

GOOD, RAISES, EXITS, KILLED, SLEEPS, GREEDY, NO_MEMORY, LEAKS = range(8)


def misbehave(unit, built):
    """What the unit's seed says."""
    if unit.seed == RAISES:
        built(Facts(3, 4, 5))
        raise ZeroDivisionError("a division\nby zero")
    if unit.seed == EXITS:
        built(Facts(3, 4, 5))
        os._exit(3)
    if unit.seed == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    if unit.seed == SLEEPS:
        time.sleep(60)
    if unit.seed == GREEDY:
        hoard = [np.ones(1_000_000) for _ in range(300)]  # 2.4 GB, should nobody stop it
        time.sleep(len(hoard))
    if unit.seed == NO_MEMORY:
        raise MemoryError
    if unit.seed == LEAKS:
        misbehave.kept = np.ones(40_000_000)
    return play(unit, built)


def dies_at_once(unit, built):
    raise AssertionError("never reached")


def done(engine, units):
    """All results, in the order of the units."""
    todo, found, busy = list(units), {}, 0
    while todo or busy:
        while todo and busy < engine.slots:
            engine.submit(todo.pop(0))
            busy += 1
        for unit, result in engine.wait(5.0):
            found[unit] = result
            busy -= 1
    return [found[unit] for unit in units]


def units(*seeds):
    return [Unit("hanoi/3", "random", seed) for seed in seeds]


def timeless(row):
    return replace(row, seconds=None)


def test_workers_find_what_this_process_finds_to_the_bit():
    suite = Suite(
        ("hanoi/3", "layered/2x3:states=10", "layered-stochastic/2x3:states=10"),
        ("random", "uct:simulations=20", "sparse-sampling:depth=2:width=2", "tensorplan"),
        (0,),
        episodes=2,
        budget=2000,
    )
    engine = LocalEngine(2)
    try:
        theirs = done(engine, suite.units())
    finally:
        engine.close()
    for unit, (row, trace) in zip(suite.units(), theirs, strict=True):
        assert timeless(row) == timeless(engines.attempt(unit, play, lambda facts: None).row)
        assert trace is None
    assert {r.row.status for r in theirs} == {"done"}


def test_units_that_misbehave_are_told_apart():
    engine = LocalEngine(2, timeout=8, memory=600, work=misbehave)
    try:
        began = time.monotonic()
        rows = [r.row for r in done(engine, units(RAISES, EXITS, KILLED, SLEEPS, GREEDY, NO_MEMORY, GOOD))]
    finally:
        engine.close()
    assert time.monotonic() - began < 60
    assert [(row.status, row.error) for row in rows] == [
        ("failed", "ZeroDivisionError: a division by zero"),
        ("failed", "its process ended with exit code 3"),
        ("failed", "its process was ended by SIGKILL"),
        ("timeout", "it took longer than 8 seconds"),
        ("memory", "it took more than 600 MB of memory"),
        ("memory", "there was no more memory"),
        ("done", None),
    ]
    assert [(row.actions, row.dimension, row.horizon) for row in rows[:3]] == [(3, 4, 5), (3, 4, 5), (None,) * 3]
    assert timeless(rows[-1]) == timeless(play(units(GOOD)[0], lambda facts: None).row)


def test_a_unit_does_not_pay_for_what_the_one_before_left_behind():
    engine = LocalEngine(1, memory=600, work=misbehave)
    try:
        rows = [r.row for r in done(engine, units(LEAKS, GOOD))]  # 320 MB are left: the worker is replaced
        assert [row.status for row in rows] == ["done", "done"]
        assert engine._idle[0].resident() < 300
        os.kill(engine._idle[0].process.pid, signal.SIGKILL)  # and one that dies while idle is no unit's fault
        engine._idle[0].process.join()
        assert [r.row.status for r in done(engine, units(GOOD))] == ["done"]
    finally:
        engine.close()


def test_the_planner_s_refusal_is_its_sentence():
    row = engines.attempt(Unit("hanoi/3", "sparse-sampling", 0), play, lambda facts: None).row
    assert row.status == "failed"
    assert "needs a horizon or a depth" in row.error
    assert (row.actions, row.dimension, row.horizon) == (3, 3, None)


def test_workers_that_cannot_start_are_no_unit_s_fault(monkeypatch):
    monkeypatch.setattr(engines, "_serve", dies_at_once)  # called with a pipe and the work
    monkeypatch.setattr(engines, "PATIENCE", 1)
    engine = LocalEngine(1)
    engine.submit(units(GOOD)[0])
    try:
        with pytest.raises(TensorplanError, match=r"the workers end while they start .*exit code 1.*__main__"):
            engine.wait(20.0)
    finally:
        engine.close()


def test_nothing_is_left_running():
    engine = LocalEngine(1, work=misbehave)
    engine.submit(units(SLEEPS)[0])
    process = engine._busy[0].process
    engine.close()
    assert not process.is_alive()


def test_workers_are_counted():
    assert LocalEngine().slots == processors() >= 1
    with pytest.raises(BadInput, match="workers must be a whole number >= 1"):
        LocalEngine(0)


# ---------------------------------------------------------------------------------------------- Ray


def test_an_address_that_does_not_answer_is_one_sentence():
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
        with pytest.raises(BadInput, match=f"no Ray cluster answers at '{address}': Connection refused"):
            engine_ray.RayEngine(address=address)
    with pytest.raises(BadInput, match="is host:port, ray://host:port or auto, got 'nowhere'"):
        engine_ray.RayEngine(address="nowhere")


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(BadInput, match=r"pip install 'tensorplan\[ray\]'"):
        engine_ray.RayEngine()


def test_ray_does_the_same_to_the_bit_misbehaviour_included(monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # where the workers find this file
    suite = Suite(("hanoi/3", "layered/2x3:states=10"), ("uct:simulations=20", "tensorplan"), (0,))
    engine = engine_ray.RayEngine(2, timeout=10, memory=900, work=misbehave)
    try:
        assert engine.slots == 2
        asked = [*suite.units(), *units(EXITS, RAISES)]
        rows = [r.row for r in done(engine, asked)]
        engine.submit(units(SLEEPS)[0])  # and an actor that is lost, with all it has
        (_, actor) = next(iter(engine._busy.values()))
        ray.kill(actor)
        ((_, lost),) = engine.wait(10.0)
    finally:
        engine.close()
    assert not ray.is_initialized()
    assert [timeless(row) for row in rows[:4]] == [timeless(play(u, lambda facts: None).row) for u in suite.units()]
    assert [row.error for row in rows[4:]] == [
        "its process ended with exit code 3",
        "ZeroDivisionError: a division by zero",
    ]
    assert lost.row.status == "failed"
    assert lost.row.error.startswith("its Ray actor was lost")
