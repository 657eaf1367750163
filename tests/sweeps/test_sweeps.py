"""A sweep is what it would have been, whatever happened to it on the way."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from inline import Inline
from stores import held
from waiting import wait_for

from tensorplan import BadInput
from tensorplan.sweeps.engines import LocalEngine
from tensorplan.sweeps.store import Store, StoreError, lock
from tensorplan.sweeps.suite import Suite
from tensorplan.sweeps.sweep import collect, sweep
from tensorplan.sweeps.unit import Experiment, failure, play

SUITE = Suite(("hanoi/3", "layered/2x3:states=10"), ("random", "uct:simulations=20"), (0, 1, 2))


def timeless(store):
    return [replace(row, seconds=None) for row in store.rows()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    with sweep(SUITE, tmp_path_factory.mktemp("undisturbed"), engine=Inline()) as store:
        return timeless(store)


def test_the_local_engine_does_them_all(tmp_path, undisturbed):
    told = []
    with sweep(SUITE, tmp_path, workers=2, progress=told.append) as store:
        assert timeless(store) == undisturbed
        assert store.stopped is None
    assert [row.status for row in undisturbed] == ["done"] * 12
    last = told[-1]
    assert (last.done, last.total, last.failures, last.remaining) == (12, 12, 0, 0.0)
    assert last.rate > 0
    assert told[0].remaining is None
    assert len(last.rows) == 12


def test_rows_tell_what_no_meter_saw_and_why_there_is_no_regret(tmp_path):
    pytest.importorskip("gymnasium")
    suite = Suite(("gym/CartPole-v1:features=linear:bound=9:horizon=40", "hanoi/3"), ("random",), (0,))
    with sweep(suite, tmp_path, engine=Inline()) as store:
        pole, hanoi = store.rows()
    assert 1_000 < pole.unmetered < 25_000
    assert (pole.status, pole.optimal, pole.regret) == ("done", None, None)
    assert "is not known: its states could not be listed within 20,000 steps" in pole.note
    assert (hanoi.unmetered, hanoi.note, hanoi.optimal) == (0, None, -7)


def test_resume_repeats_nothing_and_a_suite_may_grow(tmp_path, undisturbed):
    sweep(replace(SUITE, seeds=(0, 1)), tmp_path, engine=Inline()).close()
    with pytest.raises(BadInput, match=r"holds 8 runs already: resume \(--resume\)"):
        sweep(SUITE, tmp_path, engine=Inline())
    engine = Inline()
    with sweep(SUITE, tmp_path, engine=engine, resume=True) as store:
        assert timeless(store) == undisturbed
        assert engine.asked == [unit.id for unit in SUITE.units() if unit.seed == 2]
        assert engine.closed
    again = Inline()
    sweep(SUITE, tmp_path, engine=again, resume=True).close()
    assert again.asked == []


def flaky(unit, built, tries={}):  # noqa: B006
    """Unit of seed 1 fails twice, that of seed 2 always."""
    tries[unit.id] = tries.get(unit.id, 0) + 1
    if unit.seed == 2 or (unit.seed == 1 and tries[unit.id] <= 2):
        return failure(unit.row, "timeout", f"attempt {tries[unit.id]}")
    return play(unit, built)


def test_failures_are_tried_again_as_asked(tmp_path):
    suite = Suite(("hanoi/3",), ("random",), (0, 1, 2), retries=2)
    with sweep(suite, tmp_path, engine=Inline(lambda unit, built: flaky(unit, built))) as store:
        rows = store.rows()
    assert [(row.status, row.attempts, row.error) for row in rows] == [
        ("done", 1, None),
        ("done", 3, None),
        ("timeout", 3, "attempt 3"),
    ]
    engine = Inline()
    sweep(suite, tmp_path, engine=engine, resume=True).close()
    assert engine.asked == []  # it has failed as often as it may
    with sweep(replace(suite, retries=3), tmp_path, engine=engine, resume=True) as store:
        assert [(row.status, row.attempts) for row in store.rows()] == [("done", 1), ("done", 3), ("done", 4)]


def test_traces_lie_beside(tmp_path):
    suite = Suite(("hanoi/2",), ("tensorplan", "random"), (0,), trace=True)
    with sweep(suite, tmp_path, engine=Inline()) as store:
        planned, random_ = store.rows()
        data = json.loads((tmp_path / "traces" / planned.trace).read_text())
        assert planned.trace == f"{planned.id}.json"
        assert random_.trace is None
    assert (data["problem"], data["planner"], data["seed"]) == ("hanoi/2", "tensorplan", 0)
    assert data["episodes"][0]["iterations"][-1]["upper"] == pytest.approx(planned.upper)


def foreign(unit, built):
    """A simulator that says what no database can write down."""
    raise RuntimeError(os.fsdecode(b"caf\xe9"))


def test_an_error_in_no_known_writing_does_not_end_the_sweep(tmp_path):
    suite = Suite(("hanoi/3",), ("random",), (0, 1))
    with sweep(suite, tmp_path, engine=Inline(foreign)) as store:
        assert [row.error for row in store.rows()] == [r"RuntimeError: caf\udce9"] * 2
    with sweep(replace(suite, retries=1), tmp_path, engine=Inline(), resume=True) as store:
        assert [row.status for row in store.rows()] == ["done"] * 2


def test_seeds_of_any_size(tmp_path):
    seeds = (2**63 - 1, 2**63, 3**200)
    suite = Suite(("hanoi/3", "layered/2x3:states=10"), ("random",), seeds)
    with sweep(suite, tmp_path, engine=Inline()) as store:
        first = store.rows()
    assert [(row.seed, row.status) for row in first] == [(seed, "done") for _ in range(2) for seed in seeds]
    with sweep(suite, tmp_path, engine=Inline(), resume=True) as store:
        assert store.rows() == first


def test_ctrl_c_keeps_what_is_finished(tmp_path, undisturbed):
    def interrupt(progress):
        if progress.done == 5:
            raise KeyboardInterrupt

    with sweep(SUITE, tmp_path, engine=Inline(), progress=interrupt) as store:
        assert store.stopped == "interrupted"
        assert timeless(store) == undisturbed[:5]
    with sweep(SUITE, tmp_path, engine=Inline(), resume=True) as store:
        assert timeless(store) == undisturbed


def test_a_disk_that_fills_up_is_one_sentence(tmp_path, undisturbed, monkeypatch):
    real, left = Store.write_trace, iter(range(1))

    def full(store, name, trace):
        if next(left, None) is None:
            monkeypatch.setattr(json, "dump", lambda *a, **k: (_ for _ in ()).throw(OSError(28, "No space left")))
        real(store, name, trace)

    monkeypatch.setattr(Store, "write_trace", full)
    suite = Suite(("hanoi/2",), ("tensorplan",), (0, 1, 2), trace=True)
    engine = Inline()
    with pytest.raises(StoreError, match="No space left; what was finished before is kept"):
        sweep(suite, tmp_path, engine=engine)
    assert engine.closed
    monkeypatch.undo()
    with Store.open(tmp_path) as store:
        assert [row.seed for row in store.rows()] == [0]
    with sweep(suite, tmp_path, engine=Inline(), resume=True) as store:
        assert [row.status for row in store.rows()] == ["done"] * 3


def test_one_sweep_at_a_time(tmp_path):
    with lock(tmp_path), pytest.raises(BadInput, match="another sweep is running"):
        sweep(SUITE, tmp_path, engine=Inline(), resume=True)


class Other(Experiment):
    """An experiment of another kind, with units of the first one."""

    kind = "other"

    def units(self):
        return SUITE.units()[:3]

    def parameters(self):
        return {"about": "nothing"}


def test_anything_with_units_can_be_swept(tmp_path, undisturbed):
    with sweep(Other(), tmp_path, engine=Inline()) as store:
        assert timeless(store) == undisturbed[:3]
        assert (store.kind, store.parameters) == ("other", {"about": "nothing"})


def test_a_folder_of_one_experiment_is_refused_for_another(tmp_path):
    sweep(Other(), tmp_path / "other", engine=Inline()).close()
    sweep(SUITE, tmp_path / "suite", engine=Inline()).close()
    for resume in (True, False):
        with pytest.raises(
            BadInput, match="other' holds the results of 'other', not of 'sweep': choose another folder"
        ):
            sweep(SUITE, tmp_path / "other", engine=Inline(), resume=resume)
        with pytest.raises(BadInput, match="holds the results of 'sweep', not of 'other'"):
            sweep(Other(), tmp_path / "suite", engine=Inline(), resume=resume)


def test_what_is_collected_is_what_is_done(tmp_path, undisturbed):
    found, stopped = collect(Other(), None, engine=Inline())
    assert [replace(row, seconds=None) for row in found.values()] == undisturbed[:3]
    assert stopped is None
    found, stopped = collect(SUITE, tmp_path, engine=Inline(interrupt=3))
    assert (len(found), stopped) == (2, "interrupted")
    broken = replace(SUITE, problems=("hanoi/3",))
    found, stopped = collect(broken, None, engine=Inline(lambda unit, built: flaky(unit, built, {})))
    assert len(found) == 2
    assert stopped == ("4 of 6 units failed, the first of them random on hanoi/3, seed 1: attempt 1")


def test_engines_have_names(tmp_path):
    with pytest.raises(BadInput, match="engine must be one of local, ray, got 'cloud'"):
        sweep(SUITE, tmp_path, engine="cloud")
    with pytest.raises(BadInput, match="the address 'here:1' is that of a Ray cluster"):
        sweep(SUITE, tmp_path, address="here:1")


# ------------------------------------------------------------------------------------------- SIGKILL

SWEEP = """
import sys
from tensorplan.sweeps.suite import Suite
from tensorplan.sweeps.sweep import sweep
sweep(Suite.read(sys.argv[1]), sys.argv[2], workers=2, resume=True)
"""


MARK = "TENSORPLAN_TEST_SWEEP"
"""An environment variable by which the processes of a sweep are found, each of which is in a group of its own."""


def start(folder):
    """A sweep in a process group of its own."""
    file = Path(folder) / "suite.yaml"
    if not file.exists():
        given = f"problems: {json.dumps(SUITE.problems)}\nplanners: {json.dumps(SUITE.planners)}\nseeds: 3\n"
        file.write_text(given, encoding="utf-8")
    command = [sys.executable, "-c", SWEEP, str(file), str(Path(folder) / "out")]
    marked = {**os.environ, MARK: str(folder)}
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True, env=marked)


def processes(folder):
    """The processes of the sweep in a folder, its workers included."""
    mark = f"{MARK}={folder}".encode()
    found = []
    for about in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in about.read_bytes().split(b"\0"):
                found.append(int(about.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_sigkill_at_any_moment_loses_nothing_and_repeats_nothing(tmp_path, undisturbed):
    kept, out = {}, tmp_path / "out"
    moments = {
        "its folder is there": out.exists,
        "a worker is there": lambda: len(processes(tmp_path)) > 1,
        "a unit is done": lambda: len(held(out)) > len(kept),
        "two more units are done": lambda: len(held(out)) > len(kept) + 1,
        "a worker is there again": lambda: len(processes(tmp_path)) > 1,
        "one more unit is done": lambda: len(held(out)) > len(kept),
    }
    for attempt, moment in enumerate(moments.values()):
        process = start(tmp_path)
        wait_for(lambda: moment() or process.poll() is not None)  # noqa: B023 (called at once)
        if attempt % 2:
            for pid in processes(tmp_path):  # everything at once, as a power cut
                with suppress(ProcessLookupError):  # it may be through
                    os.kill(pid, signal.SIGKILL)
        else:
            process.kill()  # the parent alone: the workers notice
        process.communicate()
        found = held(out)
        assert kept.items() <= found.items()  # the same rows, their seconds included: none was done again
        kept = found
    process = start(tmp_path)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    with Store.open(out) as store:
        assert kept.items() <= store.found().items()
        assert timeless(store) == undisturbed
    wait_for(lambda: not processes(tmp_path))


def read(note):
    return note.exists() and note.read_text(encoding="utf-8")


def doomed(notes, unit, built):
    """The first workers write a note each, with their number, and wait for their end in the middle of a unit."""
    built(unit.row)
    for note in notes:
        with suppress(FileExistsError):
            with note.open("x", encoding="utf-8") as file:
                file.write(str(os.getpid()))
            signal.pause()
    return play(unit, built)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_workers_that_are_killed_cost_their_unit_an_attempt_and_no_more(tmp_path, undisturbed):
    notes = [tmp_path / f"note {number}" for number in range(3)]

    def hunt():
        for note in notes:
            os.kill(int(wait_for(partial(read, note))), signal.SIGKILL)

    hunter = threading.Thread(target=hunt)
    hunter.start()
    engine = LocalEngine(2, timeout=60, work=partial(doomed, notes))
    with sweep(replace(SUITE, retries=5), tmp_path / "out", engine=engine) as store:
        assert [replace(row, attempts=1) for row in timeless(store)] == undisturbed
        assert sum(row.attempts - 1 for row in store.rows()) == len(notes)
    hunter.join()


@pytest.mark.skipif(os.name != "posix", reason="needs SIGINT")
def test_ctrl_c_of_a_real_sweep(tmp_path, undisturbed):
    given = tmp_path / "suite.yaml"
    given.write_text("problems: [hanoi/3]\nplanners: [random]\nseeds: 100000\n", encoding="utf-8")
    code = SWEEP.replace("sweep(Suite", "store = sweep(Suite") + "print(store.stopped, store.count())\n"
    command = [sys.executable, "-c", code, str(given), str(tmp_path / "out")]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: len(held(tmp_path / "out")) > 5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    said, complaints = process.communicate(timeout=20)
    word, count = said.split()
    assert (word, complaints) == (b"interrupted", b"")
    with Store.open(tmp_path / "out") as store:
        assert store.count() == int(count) > 5
        assert all(row.done for row in store.found().values())
