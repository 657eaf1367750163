"""Units that misbehave: each is recorded with one sentence, and the others are done."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from waiting import wait_for

from tensorplan import BadInput, TensorplanError
from tensorplan.parallel.processes import processors
from tensorplan.sweeps import engine_ray, engines
from tensorplan.sweeps.engines import LocalEngine
from tensorplan.sweeps.suite import Suite
from tensorplan.sweeps.unit import PlannerUnit, play

GOOD, RAISES, EXITS, KILLED, SLEEPS, GREEDY, NO_MEMORY, LEAKS = range(8)
PRINTS, FLOODS, DIES_TALKING, STARTS, HOARDS_BESIDE, FORKS, UNSPEAKABLE, FOREIGN = range(8, 16)

NOTE = "TENSORPLAN_TEST_NOTE"
"""The environment variable that says where units write the number of a process that they start."""


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no")


def start(*command):
    """A program of the unit's own, its number noted down."""
    process = subprocess.Popen(command)
    Path(os.environ[NOTE]).write_text(str(process.pid), encoding="utf-8")


def speak(unit):
    """Say things in every way."""
    if unit.seed == PRINTS:
        print("from Python")
        print(" é \udc80", file=sys.stderr)
        os.write(1, b"from the system\n")
        subprocess.run(["sh", "-c", "echo from a program; echo and its complaint >&2"], check=True)
        ctypes.CDLL(None).printf(b"from C\n")
    if unit.seed == FLOODS:
        for number in range(400_000):
            print(f"line {number}")
    if unit.seed == DIES_TALKING:
        print("my last words")
        os.write(2, b"Segmentation fault\n")
        os.kill(os.getpid(), signal.SIGSEGV)


def misbehave(unit, built):
    """What the unit's seed says."""
    if unit.seed == RAISES:
        built(replace(unit.row, actions=3, dimension=4, horizon=5))
        raise ZeroDivisionError("a division\nby zero")
    if unit.seed == EXITS:
        built(replace(unit.row, actions=3, dimension=4, horizon=5))
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
    if unit.seed == STARTS:
        start("sleep", "1000")
        time.sleep(60)
    if unit.seed == HOARDS_BESIDE:
        start(sys.executable, "-c", "import time; hoard = b'x' * 800_000_000; time.sleep(1000)")
        time.sleep(60)
    if unit.seed == FORKS:
        if os.fork() == 0:  # with the pipes in its hands
            time.sleep(1000)
        os._exit(3)
    if unit.seed == UNSPEAKABLE:
        raise Unspeakable
    if unit.seed == FOREIGN:
        raise RuntimeError(os.fsdecode(b"caf\xe9") + "x" * 1000)
    speak(unit)
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
    return [PlannerUnit("hanoi/3", "random", seed) for seed in seeds]


def python_path():
    """Where programs that pytest did not start find this file and what it imports."""
    here = Path(__file__).parent
    return os.pathsep.join([str(here), str(here.parent / "support"), *filter(None, [os.environ.get("PYTHONPATH")])])


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
        ("memory", "it used more than 600 MB of memory"),
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
    row = engines.attempt(PlannerUnit("hanoi/3", "sparse-sampling", 0), play, lambda facts: None).row
    assert row.status == "failed"
    assert "needs a horizon or a depth" in row.error
    assert (row.actions, row.dimension, row.horizon) == (3, 3, None)


def test_workers_that_cannot_start_are_no_unit_s_fault(monkeypatch):
    monkeypatch.setattr(engines, "_serve", dies_at_once)  # called with a pipe and the work
    monkeypatch.setattr(engines, "FAILED_STARTS", 1)
    engine = LocalEngine(1)
    engine.submit(units(GOOD)[0])
    try:
        with pytest.raises(TensorplanError, match=r"the workers end during start-up .*exit code 1.*__main__"):
            engine.wait(60.0)
    finally:
        engine.close()


def test_nothing_is_left_running():
    engine = LocalEngine(1, work=misbehave)
    engine.submit(units(SLEEPS)[0])
    process = engine._busy[0].process
    engine.close()
    assert not process.is_alive()


# ---------------------------------------------------------------------------------------------- what units print


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX pipes")
def test_what_a_unit_prints_is_kept_with_its_row_and_goes_nowhere_else(capfd):
    engine = LocalEngine(1, work=misbehave)
    try:
        spoken, silent, died = (r.row for r in done(engine, units(PRINTS, GOOD, DIES_TALKING)))
    finally:
        engine.close()
    assert spoken.status == "done"
    said = ("from Python", " é \\udc80", "from the system", "from a program", "and its complaint")
    assert spoken.output.replace("from C\n", "") == "".join(f"{line}\n" for line in said)
    assert "from C\n" in spoken.output  # whenever C thought it right
    assert silent.output is None
    assert (died.status, died.output) == ("failed", "my last words\nSegmentation fault\n")
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX pipes")
def test_of_much_text_the_end_is_kept():
    engine = LocalEngine(1, timeout=60, work=misbehave)
    try:
        (row,) = (r.row for r in done(engine, units(FLOODS)))
    finally:
        engine.close()
    assert row.status == "done"
    assert len(row.output) == engines.KEPT
    assert row.output.startswith("...")
    assert row.output.endswith("\nline 399998\nline 399999\n")


def test_errors_that_cannot_be_written_are_written():
    engine = LocalEngine(1, work=misbehave)
    try:
        mute, foreign = (r.row for r in done(engine, units(UNSPEAKABLE, FOREIGN)))
    finally:
        engine.close()
    assert (mute.status, mute.error) == ("failed", "Unspeakable")
    assert foreign.error.startswith("RuntimeError: caf\\udce9xxx")
    assert len(foreign.error) <= 300


# ---------------------------------------------------------------------------------------------- what units start


def alive(pid):
    """Whether a process is there and not just waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def note(tmp_path, monkeypatch):
    """Where units note down the process that they start."""
    path = tmp_path / "note"
    monkeypatch.setenv(NOTE, str(path))
    return path


linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")


@linux
@pytest.mark.parametrize("way", ["timeout", "memory", "close", "death"])
def test_what_a_unit_started_ends_with_it(way, note):
    limits = {"timeout": {"timeout": 3}, "memory": {"memory": 600}}.get(way, {})
    engine = LocalEngine(1, work=misbehave, **limits)
    try:
        (unit,) = units(HOARDS_BESIDE if way == "memory" else STARTS)
        engine.submit(unit)
        while not note.exists() or not note.read_text(encoding="utf-8"):
            assert engine.wait(0.05) == []
        started = int(note.read_text(encoding="utf-8"))
        assert alive(started)
        if way == "close":
            engine.close()
        else:
            if way == "death":
                os.kill(engine._busy[0].pid, signal.SIGKILL)
            ((_, (row, _)),) = engine.wait(30.0)
            assert row.status == {"death": "failed"}.get(way, way)
        wait_for(lambda: not alive(started), 5.0)
    finally:
        engine.close()


@linux
def test_a_worker_whose_copy_holds_its_pipe_is_missed():
    engine = LocalEngine(1, work=misbehave)
    try:
        (row,) = (r.row for r in done(engine, units(FORKS)))
    finally:
        engine.close()
    assert (row.status, row.error) == ("failed", "its process ended with exit code 3")


ORPHANS = """
import sys
from test_engines import STARTS, misbehave, units
from tensorplan.sweeps.engines import LocalEngine
if __name__ == "__main__":
    engine = LocalEngine(1, work=misbehave)
    engine.submit(units(STARTS)[0])
    while True:
        engine.wait(1.0)
        {end}
"""


@linux
@pytest.mark.parametrize("end", ["", "sys.exit()", "os._exit(0)"])
def test_what_units_started_ends_when_the_parent_is_gone(end, note, tmp_path):
    script = tmp_path / "orphans.py"
    waiting = f"import os; os.path.exists({str(note)!r}) and {end}" if end else "pass"
    script.write_text(ORPHANS.format(end=waiting), encoding="utf-8")
    parent = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "PYTHONPATH": python_path()})
    try:
        wait_for(lambda: note.exists() and note.read_text(encoding="utf-8"))
        started = int(note.read_text(encoding="utf-8"))
        if not end:
            parent.kill()
        parent.wait(timeout=20)
        wait_for(lambda: not alive(started), 5.0)
    finally:
        parent.kill()
        parent.wait()


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
    monkeypatch.setenv("PYTHONPATH", python_path())
    suite = Suite(("hanoi/3", "layered/2x3:states=10"), ("uct:simulations=20", "tensorplan"), (0,))
    engine = engine_ray.RayEngine(2, timeout=60, memory=900, work=misbehave)
    try:
        assert engine.slots == 2
        asked = [*suite.units(), *units(EXITS, RAISES, PRINTS)]
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
        None,
    ]
    assert "from a program\n" in rows[-1].output
    assert lost.row.status == "failed"
    assert lost.row.error.startswith("its Ray actor was lost")
