"""Sweeps: speed-up with workers, Ray beside local processes, SIGKILLs, the scan of a resume, simulators that sleep.

``python -m benchmarks.sweeps [--only PART] [--kills N]``, with the parts speed, ray, kills, scan and replicas.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from tensorplan.core.errors import TensorplanError
from tensorplan.evaluation.row import Row
from tensorplan.parallel.replicas import ReplicatedMDP
from tensorplan.sweeps.store import Store
from tensorplan.sweeps.suite import Suite
from tensorplan.sweeps.sweep import sweep

CPU_BOUND = Suite(("layered/2x4",), ("uct:simulations=16000",), tuple(range(16)))
KILLED = """\
problems: [hanoi/3, hanoi/4, "layered/2x3:states=10"]
planners: [random, tensorplan, {uct: {simulations: [20, 200]}}]
seeds: 40
"""
SWEEP = """
import sys
from tensorplan.sweeps.suite import Suite
from tensorplan.sweeps.sweep import sweep
sweep(Suite.read(sys.argv[1]), sys.argv[2], workers=2, resume=True).close()
"""
RUNS = 10_000


class Sleeper:
    """A simulator that takes a twentieth of a second for a step."""

    horizon = 10
    actions = 4

    def start(self, rng: np.random.Generator) -> int:
        """Zero."""
        return 0

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[float, int]:
        """A coin, after a while."""
        time.sleep(0.05)
        return float(rng.random()), state + 1


def timeless(store: Store) -> list[Row]:
    return [replace(row, seconds=None) for row in store.rows()]


def timed(suite: Suite, engine: str, workers: int) -> tuple[float, float, list[Row]]:
    """Seconds in all, seconds from the first finished unit to the last per unit, and the rows."""
    moments: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()

        def tell(progress: object) -> None:
            done = getattr(progress, "done", 0)
            moments.extend([time.perf_counter()] * (done - len(moments)))

        with sweep(suite, folder, engine=engine, workers=workers, progress=tell) as store:
            seconds = time.perf_counter() - began
            rows = timeless(store)
    steady = (moments[-1] - moments[workers - 1]) / (len(moments) - workers)
    return seconds, steady, rows


def speed() -> None:
    print(f"speed-up, {len(CPU_BOUND.units())} units of about a second, {os.cpu_count()} processors")
    first: tuple[float, float, list[Row]] | None = None
    for workers in (1, 2):
        found = timed(CPU_BOUND, "local", workers)
        first = first or found
        assert found[2] == first[2]
        print(
            f"  {workers} workers  {found[0]:6.2f} s in all, {first[0] / found[0]:.2f} times one;"
            f"  {found[1]:.3f} s per unit once started, {first[1] / found[1]:.2f} times one"
        )


def ray() -> None:
    print("Ray beside local processes, 2 workers, units of about a second")
    local, cluster = (timed(CPU_BOUND, engine, 2) for engine in ("local", "ray"))
    assert local[2] == cluster[2]
    print("  the same rows")
    for name, found in (("local", local), ("ray", cluster)):
        print(f"  {name:6} {found[0]:6.2f} s in all, {found[1]:.3f} s per unit once started")
    print(f"  ray takes {cluster[1] / local[1] - 1:+.1%} per unit, and {cluster[0] / local[0] - 1:+.1%} in all")


def kills(count: int = 50) -> None:
    """SIGKILLs at random moments, of the sweep alone or of all its processes, then a resume."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "suite.yaml")
        file.write_text(KILLED, encoding="utf-8")
        suite = Suite.read(file)
        command = [sys.executable, "-c", SWEEP, str(file)]
        subprocess.run([*command, f"{folder}/calm"], check=True)
        dice = random.Random(7)
        kept: dict[str, Row] = {}
        during = 0
        for number in range(count):
            process = subprocess.Popen([*command, f"{folder}/killed"], start_new_session=True)
            if number % 3:  # while units are finished, else while it starts
                rows, patience = len(kept) + dice.randrange(6), time.monotonic() + 10
                while held(f"{folder}/killed") < rows and time.monotonic() < patience:
                    time.sleep(0.005)
                time.sleep(dice.uniform(0.0, 0.05))
            else:
                time.sleep(dice.uniform(0.05, 1.5))
            during += process.poll() is None
            if number % 2:
                with suppress(ProcessLookupError):  # it has just ended
                    os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            process.wait()
            if held(f"{folder}/killed"):
                with Store.open(f"{folder}/killed") as store:
                    found = store.found()
                assert kept.items() <= found.items(), "a finished unit was lost or repeated"
                kept = found
        print(f"{count} SIGKILLs, {during} of them while the sweep ran: {len(kept)} of {len(suite.units())} units done")
        subprocess.run([*command, f"{folder}/killed"], check=True)
        with Store.open(f"{folder}/killed") as store, Store.open(f"{folder}/calm") as calm:
            assert kept.items() <= store.found().items()
            assert timeless(store) == timeless(calm)
        print("  after a resume: nothing lost, nothing repeated, the rows of an undisturbed sweep")


def held(folder: str) -> int:
    """Runs in a folder, which may not be there yet."""
    try:
        with Store.open(folder) as store:
            return store.count()
    except TensorplanError:
        return 0


def scan() -> None:
    suite = Suite(("hanoi/3",), ("random", "uct", "tensorplan", "oracle"), tuple(range(RUNS // 4)))
    with tempfile.TemporaryDirectory() as folder:
        with Store.create(folder, suite) as store, store._transaction():
            rows = [(u.id, u.problem, u.planner, u.seed, "done", None, 1, *[None] * 14) for u in suite.units()]
            store._connection.executemany(f"INSERT INTO runs VALUES ({', '.join('?' * 21)})", rows)
        file = Path(folder, "suite.yaml")
        file.write_text(f"problems: hanoi/3\nplanners: [random, uct, tensorplan, oracle]\nseeds: {RUNS // 4}\n")
        began = time.perf_counter()
        with sweep(Suite.read(file), folder, resume=True) as store:
            seconds = time.perf_counter() - began
            assert store.count() == RUNS
    print(f"resume with {RUNS:,} finished runs and nothing left: {seconds:.2f} s")


def replicas() -> None:
    print("replicas of a simulator that sleeps 50 ms, 64 samples of one pair")
    first: tuple[float, list[float]] | None = None
    for workers in (1, 2, 4, 8):
        with ReplicatedMDP(Sleeper, workers) as mdp:
            mdp.step_batch(0, 0, workers, np.random.default_rng(1))  # start them
            began = time.perf_counter()
            rewards = mdp.step_batch(0, 0, 64, np.random.default_rng(0))[0].tolist()
            seconds = time.perf_counter() - began
        first = first or (seconds, rewards)
        assert rewards == first[1]
        print(f"  {workers} replicas {seconds:6.2f} s, {first[0] / seconds:.2f} times one")


def main(arguments: list[str] | None = None) -> None:
    parts: dict[str, Callable[[], None]] = {"speed": speed, "ray": ray, "scan": scan, "replicas": replicas}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=[*parts, "kills"])
    parser.add_argument("--kills", type=int, default=50)
    given = parser.parse_args(arguments)
    parts["kills"] = lambda: kills(given.kills)
    for name, part in parts.items():
        if given.only in (None, name):
            part()


if __name__ == "__main__":
    main()
