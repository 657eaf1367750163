"""Ctrl-C: every command prints what it has so far."""

import dataclasses
import json
import subprocess
import sys

import pytest
from commands import CONSTANTS, interrupting
from inline import Inline

SIGNALLED = """
import os, signal, sys
from tensorplan.{module} import {owner}
real, calls = {owner}.{name}, iter(range(10**9))
def counted(*arguments, **options):
    if next(calls) == {number}:
        os.kill(os.getpid(), signal.SIGINT)
    return real(*arguments, **options)
{owner}.{name} = counted
from tensorplan.cli.main import main
main(sys.argv[1:])
"""
"""A command whose process gets a real SIGINT at some call of a function."""


def signalled(*arguments, **where):
    return subprocess.run(
        [sys.executable, "-c", SIGNALLED.format(**where), *arguments], capture_output=True, text=True, timeout=120
    )


def test_ctrl_c_prints_the_table_so_far():
    arguments = ["compare", "hanoi/4", "--planners", "oracle,uct:simulations=200", "--seeds", "500", "--json"]
    done = signalled(*arguments, module="evaluation", owner="compare", name="run_unit", number=5)
    assert done.returncode == 1
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr
    result = json.loads(done.stdout)
    assert (result["stopped"], len(result["rows"])) == ("interrupted", 5)


def test_ctrl_c_leaves_a_bracket():
    arguments = ["plan", "layered-stochastic/3x8:horizon=10", "--delta", "0.02", "--json"]
    done = signalled(*arguments, module="access.local", owner="LocalAccess", name="sample_all", number=200)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (episode,) = json.loads(done.stdout)["episodes"]
    certificate = episode["certificate"]
    assert certificate["status"] == "interrupted"
    assert certificate["lower"] <= episode["optimal"] <= certificate["upper"] <= 10
    assert episode["stopped"] == "end"


def test_ctrl_c_leaves_the_bracket_of_an_audit():
    arguments = ["audit", "american-put/6", "--planner", "random", "--budget", "100000", "--json"]
    done = signalled(*arguments, module="hindsight.bracket", owner="BracketTest", name="bounds", number=1)
    assert done.returncode == 1
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "interrupted"
    assert 0 <= result["lower"] <= 4.4825 <= result["upper"] <= 15.9925


def cut_short(played):
    """The run as Ctrl-C would have left it: while it planned, for those that give certificates."""
    *before, last = played.episodes
    if last.certificate is None:
        last = dataclasses.replace(last, stopped="interrupted")
    else:
        certificate = dataclasses.replace(last.certificate, status="interrupted")
        last = dataclasses.replace(last, certificate=certificate)
    return dataclasses.replace(played, episodes=(*before, last))


def interrupted_run(real, at):
    """``tensorplan.run``, which hears of Ctrl-C in the call with that number and returns what it has."""
    calls = []

    def wrapped(*arguments, **options):
        calls.append(arguments)
        played = real(*arguments, **options)
        return cut_short(played) if len(calls) == at else played

    return wrapped


@pytest.mark.parametrize("interrupt", [interrupting, interrupted_run])
def test_ctrl_c_leaves_the_constants_that_are_measured(cli, monkeypatch, interrupt):
    from tensorplan.evaluation import runner

    monkeypatch.setattr(runner, "run", interrupt(runner.run, 2))
    code, out, err = cli(*CONSTANTS)
    assert code == 1
    assert "interrupted" in err
    assert "not measured: certified mode, random rewards; certified mode, random steps and rewards" in out
    monkeypatch.undo()
    monkeypatch.setattr(runner, "run", interrupt(runner.run, 2))
    code, out, _ = cli(*CONSTANTS, "--json")
    data = json.loads(out)
    assert (code, len(data["not_measured"])) == (1, 2)
    assert [record["mode"] for record in data["measured"]] == ["exact"]


@pytest.fixture
def ctrl_c(monkeypatch):
    """Experiments run in this process, and Ctrl-C is pressed at the unit with that number."""
    from tensorplan.sweeps import sweep

    def press(at):
        monkeypatch.setattr(sweep, "LocalEngine", lambda *limits, **more: Inline(interrupt=at))

    return press


def test_ctrl_c_leaves_the_hardness_that_is_measured(cli, ctrl_c, tmp_path):
    folder, picture = tmp_path / "out", tmp_path / "x.png"
    arguments = ("hardness", "--p", "8:12:4", "--seeds", "2", "--plot", str(picture), "--out", str(folder))
    ctrl_c(1)
    code, out, _ = cli(*arguments)
    assert (code, out.startswith("not measured: uniform at p = 8")) == (1, True)
    ctrl_c(5)
    code, out, err = cli(*arguments)
    assert code == 1
    assert "interrupted" in err
    assert "not measured: uniform at p = 12; best at p = 12; tensorplan on hard/2x9" in out
    assert "Planners on" not in out
    assert picture.exists()
    ctrl_c(6)  # four games are left: the second run of a planner
    code, out, _ = cli(*arguments, "--json")
    data = json.loads(out)
    assert (code, len(data["costs"]), len(data["planners"])) == (1, 4, 1)
    assert data["not_measured"][0] == "tensorplan on hard/3x9"


def test_ctrl_c_before_the_first_query(cli, monkeypatch):
    from tensorplan.planners.baselines.uct import UCT

    for arguments in (("plan", "hanoi/3", "--planner", "uct"), ("compare", "hanoi/3", "--planners", "uct")):
        monkeypatch.setattr(UCT, "begin", interrupting(UCT.begin, 1))
        code, out, err = cli(*arguments)
        assert (code, out, "interrupted" in err) == (1, "", True)


def test_ctrl_c_between_two_runs_keeps_the_comparison(cli, monkeypatch):
    from tensorplan.problems import catalog

    monkeypatch.setattr(catalog, "instance", interrupting(catalog.instance, 2))
    code, out, err = cli("compare", "hanoi/3", "--planners", "oracle", "--seeds", "3", "--json")
    assert (code, "interrupted" in err) == (1, True)
    assert len(json.loads(out)["rows"]) == 1


def test_ctrl_c_leaves_the_table1_that_is_measured(cli, ctrl_c, tmp_path):
    from tensorplan.sweeps.store import Store

    ctrl_c(3)
    code, _, err = cli("table1", "--quick", "--rows", "1", "--out", str(tmp_path))
    assert (code, "interrupted" in err) == (1, True)
    with Store.open(tmp_path) as store:
        assert (store.kind, store.count()) == ("table1", 2)
