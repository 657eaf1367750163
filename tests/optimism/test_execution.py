"""Searches run as Python or as machine code, with the same answer, and who must wait for the compiler is told."""

import fcntl
import math
import os
import subprocess
import sys
from types import FunctionType

import numba
import numpy as np
import pytest
from random_programs import random_program

from tensorplan.core import compiled as core_compiled
from tensorplan.optimism import Program, Search, execution, search, verify
from tensorplan.optimism.execution import Execution
from tensorplan.optimism.kernels import loops, vectors
from tensorplan.optimism.search import compile_now


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """The execution of a process that begins with an empty cache."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(search, "EXECUTION", Execution())
    core_compiled.cache_root.cache_clear()
    yield search.EXECUTION
    core_compiled.cache_root.cache_clear()


@pytest.fixture
def quick_compiler(monkeypatch):
    """Instead of the compiler, one that is done at once."""

    class Quick(execution.Compilation):
        def compile_all(self):
            self.entry = execution.work

    monkeypatch.setattr(execution, "Compilation", Quick)


def programs(count=60):
    rng = np.random.default_rng(7)
    return [random_program(rng, dims=(1, 20), most=10**5, product=rng.random() < 0.4)[0] for _ in range(count)]


def answer(program, **limits):
    found = Search(program).solve(certificate=True, **limits)
    if found.status != "limit":
        verify(program, found)
    theta = None if found.theta is None else found.theta.tobytes()
    return found.status, found.value, found.bound, found.nodes, theta, found.certificate.value.tobytes()


def test_python_and_machine_code_give_the_same_answer_to_the_last_bit(monkeypatch):
    compile_now()
    assert search.EXECUTION.code is not None
    expected = [answer(program, node_limit=200) for program in programs()]
    assert {one[0] for one in expected} == {"optimal", "infeasible", "limit"}
    monkeypatch.setattr(search, "EXECUTION", Execution())
    monkeypatch.setattr(execution, "LOADING_PAYS", math.inf)
    monkeypatch.setattr(execution, "COMPILING_PAYS", math.inf)
    assert [answer(program, node_limit=200) for program in programs()] == expected
    assert search.EXECUTION.code is None
    assert search.EXECUTION.done > 0


def test_machine_code_that_comes_in_mid_search_changes_no_bit(monkeypatch):
    compile_now()
    rng = np.random.default_rng(3)
    program = random_program(rng, dims=(16, 16), alternatives=(3, 3), most=3**9)[0]
    expected = answer(program)
    assert expected[3] > 50
    monkeypatch.setattr(search, "EXECUTION", Execution())
    some_nodes = 20 * execution.PER_NODE + execution._first_node(Search(program)._start())
    monkeypatch.setattr(execution, "LOADING_PAYS", some_nodes)
    assert answer(program) == expected
    assert search.EXECUTION.code is not None
    assert search.EXECUTION.done > 0


OPERATIONS = [name for name, value in vars(vectors).items() if isinstance(value, FunctionType)]
"""All of them but dot and partial_dot change a vector."""


def operands(name, rng, n):
    """Random arguments of an operation on vectors."""
    a, b = rng.normal(size=(2, n + 1)) * 10.0 ** rng.integers(-8, 8, size=(2, n + 1))
    start = int(rng.integers(0, n + 1))
    return {
        "dot": [a, b],
        "partial_dot": [a, b, start, n],
        "fill": [a, 0.3, n],
        "copy": [a, b, n],
        "add": [a, 0.3, b, n],
        "multiply": [a, 0.3, b, n],
        "divide": [a, 0.3, b, n],
        "rotate": [a, b, 0.6, 0.8, start, n],
    }[name]


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_loops_round_as_numpy_does(name):
    loop = numba.njit(getattr(loops, name), error_model="numpy")
    for n in range(40):
        one, two = (operands(name, np.random.default_rng(n), n) for _ in range(2))
        assert loop(*one) == getattr(vectors, name)(*two)
        assert all(np.array_equal(x, y) for x, y in zip(one, two, strict=True))


def test_a_small_problem_is_planned_without_the_compiler(tmp_path):
    script = "import sys; from tensorplan.cli.main import main\n"
    script += "try: main(['plan', 'hanoi/8', '--json'])\nfinally: print('numba' in sys.modules, file=sys.stderr)"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "False\n")
    assert list(tmp_path.rglob("*.nbi")) == []


def test_compiling_begins_when_it_pays_and_is_announced_once(fresh, quick_compiler, capsys):
    small = Program([1.0, 0.5], 2.0, forms=[[[0.3, 1, 0], [0.2, 0, 1]]])
    Search(small).solve()
    assert fresh.code is None
    assert 0 < fresh.done < execution.LOADING_PAYS
    assert capsys.readouterr().err == ""
    fresh.done = execution.COMPILING_PAYS
    assert Search(small).solve().status == "optimal"
    assert Search(small).solve().status == "optimal"
    assert capsys.readouterr().err == f"compiling the optimiser, once, about {execution.SECONDS} s\n"
    assert fresh.code is not None


def test_while_another_process_compiles_python_goes_on(fresh, quick_compiler, capsys):
    fresh.done = execution.COMPILING_PAYS
    fresh.folder.path.mkdir(parents=True)
    with open(fresh.folder.path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert Search(Program([1.0], 1.0)).solve().status == "optimal"
        assert fresh.code is None
    assert capsys.readouterr().err == ""
    Search(Program([1.0], 1.0)).solve()
    assert fresh.code is not None


def test_a_search_whose_time_is_up_does_not_compile(fresh, quick_compiler):
    fresh.done = execution.COMPILING_PAYS
    assert Search(Program([1.0], 1.0)).solve(time_limit=0.0).bound >= 1.0
    assert fresh.code is None


def test_the_time_of_the_compiler_does_not_count(fresh, monkeypatch):
    class Slow(Execution):
        def is_compiled(self, state, left=math.inf):
            import time

            time.sleep(0.1)
            return False

    monkeypatch.setattr(search, "EXECUTION", Slow())
    assert Search(Program([1.0], 1.0)).solve(time_limit=0.09).status == "optimal"


def test_strictly_nothing_is_compiled_that_may_take_too_long(fresh, monkeypatch):
    seen = []

    class Watched(Execution):
        def is_compiled(self, state, left=math.inf):
            seen.append(left)
            return super().is_compiled(state, left)

    monkeypatch.setattr(search, "EXECUTION", Watched())
    monkeypatch.setattr(execution, "LOADING_PAYS", 0)
    monkeypatch.setattr(execution, "COMPILING_PAYS", 0)
    state = search.Search(Program([1.0], 1.0))
    assert state.solve(time_limit=5.0, strictly=True).status == "optimal"
    assert (0 < min(seen) <= max(seen) <= 5.0, search.EXECUTION.code) == (True, None)


def test_numba_can_be_turned_off(fresh, monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    fresh.done = execution.COMPILING_PAYS
    assert Search(Program([1.0], 1.0)).solve().status == "optimal"
    assert fresh.code is None
