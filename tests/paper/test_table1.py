import dataclasses
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from inline import Inline
from stores import held
from waiting import wait_for

import tensorplan as tp
from tensorplan.core.errors import BadInput
from tensorplan.evaluation.row import Row
from tensorplan.paper.table1 import APART, Table1Experiment, rows_of, table1
from tensorplan.paper.table1_rows import ROWS, Contender, InstanceFamily, TableRow
from tensorplan.problems.catalog import instance
from tensorplan.problems.tables.solution import exact_solution
from tensorplan.problems.tables.tabular import TabularMDP
from tensorplan.sweeps.unit import Result

SIZES = (4, 8, 16, 32)


def family(number, names, sizes):
    """Family number n of a made-up row: its instances are named layered/(n + 2)x(size), its planners by one letter."""
    players = tuple(Contender(name, f"uct:simulations={ord(name)}") for name in names)
    return InstanceFamily(
        "made up", "n", lambda size: f"layered/{number + 2}x{size}", players, 0.5, sizes, sizes, (3, 3)
    )


def judge(laws, *, families=1, paper=True, sizes=SIZES):
    """The verdict on a made-up row whose measurements follow given laws of (family, size, seed)."""
    parts = tuple(family(number, laws, sizes) for number in range(families))

    def measured(unit, built):
        number, size = (int(x) for x in unit.problem.removeprefix("layered/").split("x"))
        law = laws[chr(int(unit.planner.partition("=")[2]))]
        queries, loss = law(number - 2, size, unit.seed - APART)
        return Result(Row(unit.id, "", "", unit.seed, "done", worst_call=round(queries), loss=loss))

    experiment = Table1Experiment((TableRow(1, "nobody", "any", "made up", paper, parts),), quick=True)
    return table1(experiment, engine=Inline(measured)).rows[0]


def power(_, n, s):
    return 100 * n**2 * (1 + 0.1 * s), 0.1


def exponential(_, n, s):
    return 100 * 2 ** (n / 2) * (1 + 0.1 * s), 0.1


def unsound(_, n, s):
    return 100 * n, 0.1 if n < 32 else 0.6


def test_the_verdict_is_read_off_the_measurements():
    for paper in (True, False):
        assert judge({"a": power}, paper=paper).verdict is True
        assert judge({"a": exponential}, paper=paper).verdict is False
        assert judge({"a": unsound}, paper=paper).verdict is False
        assert judge({"a": exponential, "b": power}, paper=paper).verdict is True
        assert judge({"a": unsound, "b": exponential}, paper=paper).verdict is False


def test_the_cheapest_planner_that_decides_is_named():
    assert judge({"a": exponential, "b": power}).best == "b"
    assert judge({"a": unsound, "b": exponential}).best == "b"
    assert judge({"a": power, "b": lambda f, n, s: (n, 0.0)}).best == "b"


def test_every_family_must_agree():
    def half(family, n, s):
        return power(family, n, s) if family == 0 else exponential(family, n, s)

    assert judge({"a": half}, families=2).verdict is False
    assert judge({"a": power}, families=2).verdict is True


def test_a_short_range_or_a_wide_interval_leaves_it_open():
    def wild(_, n, s):
        return 100 * n * (1 + 30 * (s % 3)), 0.1

    assert judge({"a": wild}, sizes=(4, 5, 6)).verdict is None

    def doubtful(_, n, s):
        return 100 * n**2, 0.4 + 0.3 * (s % 2)

    assert not judge({"a": doubtful}).curves("a")[0].sound


def test_a_planner_that_was_not_run_at_all_sizes_does_not_decide():
    result = judge({"a": exponential, "b": power})
    part = result.families[0]
    partial_curve = dataclasses.replace(part.curves[1], whole=False)
    cut = dataclasses.replace(result, families=(dataclasses.replace(part, curves=(part.curves[0], partial_curve)),))
    assert cut.verdict is False


# ----------------------------------------------------------------------------------------------- the rows


def test_there_are_the_ten_rows_of_the_paper():
    assert [row.number for row in ROWS] == list(range(1, 11))
    assert [row.paper for row in ROWS] == [True, True, True, False, False, False, False, True, True, True]
    assert all(len(set(f.quick)) >= 3 and len(set(f.full)) >= 3 for row in ROWS for f in row.families)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"row {row.number}")
def test_instances_are_in_their_class(row):
    for part in row.families:
        for size in part.quick[:2]:
            problem = instance(part.problem(size, **({"features": "reduced"} if part.symbol == "p" else {})), 3)
            assert problem.deterministic_transitions or "det" not in row.members
            assert problem.deterministic_rewards or "∩ det" not in row.members
            assert ("v*" in row.members) == (problem.phi_v is not None)
            assert ("q*" in row.members) == (problem.phi_q is not None)
            assert np.linalg.norm(problem.theta) <= problem.bound * (1 + 1e-9)
            right, wrong = misfit(problem)
            assert right < 1e-9
            assert (wrong > 0.01) == ("reach" in row.members and wrong is not None) or "det" in row.members


def misfit(problem, most=300):
    """The largest error of the features at states that can be reached, and at the others."""
    solution, mdp = exact_solution(problem), problem.mdp
    rng, horizon = np.random.default_rng(0), problem.horizon
    reached = set()
    for _ in range(200):
        state, stage = mdp.start(rng), 0
        while state is not tp.END and len(reached) < most:
            reached.add((stage, state))
            _, following = mdp.step(state, int(rng.integers(problem.actions)), rng)
            state, stage = problem.arrive(following, stage), stage + 1
    every = {(h, s) for h in range(horizon) for s in mdp.states(h)} if isinstance(mdp, TabularMDP) else reached
    errors = {True: [0.0], False: [0.0]}
    reachable = closure(problem) if isinstance(mdp, TabularMDP) else reached
    for stage, state in every:
        here = errors[(stage, state) in reachable]
        if problem.phi_v is not None:
            here.append(abs(problem.state_features(state, stage) @ problem.theta - solution.value(state, stage)))
        if problem.phi_q is not None:
            values = problem.action_features(state, stage) @ problem.theta
            truth = [solution.action_value(state, a, stage) for a in range(problem.actions)]
            here.extend(np.abs(values - truth))
    return max(errors[True]), max(errors[False])


def closure(problem):
    """All (stage, state) that can be reached, by following every successor of positive probability."""
    mdp = problem.mdp
    layer = {s for s, weight in mdp.start_weights() if weight > 0}
    found = set()
    for stage in range(problem.horizon):
        found |= {(stage, s) for s in layer}
        pairs = [(s, a) for s in layer for a in range(problem.actions)]
        layer = {
            problem.arrive(t, stage) for s, a in pairs for t in mdp.step_batch(s, a, 1, np.random.default_rng(0))[1]
        }
        layer -= {tp.END}
    return found


# -------------------------------------------------------------------------------------------- measuring


def test_units_take_the_large_sizes_first_and_more_seeds_at_small_ones():
    experiment = Table1Experiment(rows_of([4]), quick=True)
    sizes = [point.size for point in experiment.points]
    assert sizes == sorted(sizes, reverse=True)
    assert [sizes.count(s) for s in sorted(set(sizes))] == [48, 48, 48, 48, 24, 12]
    assert [unit.problem for unit in experiment.units()] == [f"exponential/{size}" for size in sizes]
    assert {unit.seed // APART for unit in experiment.units()} == {4}


def test_units_are_specs():
    units = {unit.planner: unit for unit in Table1Experiment(rows_of([3, 6]), quick=True, seed=5).units()}
    assert set(units) == {
        "tensorplan",
        "tensorplan:delta=0.5",
        "tensorplan.game.planning:GuessPlanner:strategy=uniform",
        "tensorplan.game.planning:GuessPlanner:strategy=best",
    }
    assert units["tensorplan"].problem.endswith("x9:features=reduced:kind=v:noise=false")
    assert units["tensorplan:delta=0.5"].episodes == 50
    assert min(unit.seed for unit in units.values()) >= 3 * APART + 5


def test_what_two_families_share_is_measured_once():
    """Row 3 grows d at H = 4 and H at d = 4: both meet in d = H = 4."""
    experiment = Table1Experiment(rows_of([3]), quick=True)
    assert len(experiment.units()) < len(experiment.points)


SMALL = dataclasses.replace(
    ROWS[0], families=(dataclasses.replace(ROWS[0].families[0], quick=(2, 3, 4), seeds=(1, 1)),)
)
"""Row 1 in a few seconds."""


@pytest.fixture(scope="module")
def undisturbed():
    return table1(Table1Experiment((SMALL,), quick=True), engine=Inline())


def test_processes_measure_the_same(undisturbed):
    assert table1(Table1Experiment((SMALL,), quick=True), workers=2).as_json() == undisturbed.as_json()
    assert len(undisturbed.rows[0].families[0].curves) == 3
    assert undisturbed.stopped is None


@pytest.mark.slow
def test_ray_measures_the_same(undisturbed):
    pytest.importorskip("ray")
    table = table1(Table1Experiment((SMALL,), quick=True), engine="ray", workers=2)
    assert table.as_json() == undisturbed.as_json()


def test_ctrl_c_leaves_what_is_done_and_nothing_is_measured_twice(tmp_path, undisturbed):
    experiment = Table1Experiment((SMALL,), quick=True)
    result = table1(experiment, tmp_path, engine=Inline(interrupt=10))
    assert result.stopped == "interrupted"
    assert result.rows[0].verdict is None
    rest = Inline()
    assert table1(experiment, tmp_path, engine=rest).as_json() == undisturbed.as_json()
    assert len(rest.asked) == len(experiment.units()) - 9
    again = Inline()
    table1(experiment, tmp_path, engine=again)
    assert again.asked == []


def test_a_unit_that_fails_is_told_and_tried_again(tmp_path):
    experiment = Table1Experiment((SMALL,), quick=True)
    bad = experiment.units()[4]

    def failing(unit, built):
        if unit == bad:
            raise ZeroDivisionError("by zero")
        return unit.run(built)

    result = table1(experiment, engine=Inline(failing))
    assert result.stopped.startswith(f"1 of {len(experiment.units())} units failed, the first of them ")
    assert result.stopped.endswith("ZeroDivisionError: by zero")


PROGRAM = """
import sys
from dataclasses import replace
from tensorplan.paper.table1 import Table1Experiment, rows_of, table1
(row,) = rows_of([4])
row = replace(row, families=(replace(row.families[0], quick=(65, 97, 129), seeds=(4, 4)),))
print(table1(Table1Experiment((row,), quick=True), sys.argv[1], workers=2).as_json())
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_sigkill_loses_nothing(tmp_path):
    command = [sys.executable, "-c", PROGRAM]
    process = subprocess.Popen([*command, str(tmp_path / "killed")], stdout=subprocess.PIPE)
    wait_for(lambda: len(held(tmp_path / "killed")) >= 5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = held(tmp_path / "killed")
    assert 5 <= len(kept) < 4 + 8 + 16
    runs = [subprocess.run([*command, str(tmp_path / name)], capture_output=True) for name in ("killed", "calm")]
    assert runs[0].stdout == runs[1].stdout != b""
    assert kept.items() <= held(tmp_path / "killed").items()  # the same rows, their seconds included


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "notes").write_text("dear diary\n")
    experiment = Table1Experiment((SMALL,), quick=True)
    with pytest.raises(tp.TensorplanError, match="cannot use"):
        table1(experiment, tmp_path / "notes", engine=Inline())
    assert (tmp_path / "notes").read_text() == "dear diary\n"


def test_rows_that_do_not_exist():
    with pytest.raises(BadInput, match="row"):
        rows_of([11])
    with pytest.raises(BadInput, match="at least one row"):
        rows_of([])
