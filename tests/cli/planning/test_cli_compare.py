"""The command compare."""

import json

import pytest
from clocks import set_clock


def test_compare_counts_queries_in_units_of_the_first_planner(cli):
    code, out, _ = cli("compare", "layered/3x4:states=30", "--seeds", "2")
    assert code == 0
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert lines["tensorplan"][-3] == "1"
    assert float(lines["uct"][-3].replace(",", "")) > 10


def test_compare_prints_its_table(cli):
    arguments = ("compare", "layered/4x10:states=20:horizon=4", "--planners", "uct:simulations=20,random,oracle")
    code, out, _ = cli(*arguments, "--seeds", "3")
    assert code == 0
    assert "±" in out
    assert out.splitlines()[4].split()[0] == "oracle"  # the best regret comes first
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = cli(*arguments, "--seeds", "3", "--json")
    data = json.loads(out)
    assert len(data["rows"]) == 9
    assert data["summary"][2]["regret"]["mean"] == pytest.approx(0, abs=1e-12)


def test_what_was_done_before_an_error_is_printed(cli):
    code, out, err = cli("compare", "hanoi/3", "--planners", "oracle,sparse-sampling", "--seeds", "2")
    assert code == 2
    assert "oracle" in out
    assert len(err.splitlines()) == 1


def test_a_time_limit_holds_for_the_planners_that_take_it(cli, monkeypatch):
    set_clock(monkeypatch, 1e-3)
    arguments = ("compare", "layered-stochastic/2x3", "--planners", "tensorplan:delta=0.001,uct,random", "--seeds", "1")
    code, out, _ = cli(*arguments, "--time-limit", "0.5", "--json")
    rows = {row["planner"]: row for row in json.loads(out)["rows"]}
    assert code == 0
    assert rows["tensorplan:delta=0.001"]["certificate"] == "time"
    assert [row["stopped"] for row in rows.values()] == ["end"] * 3
