"""The command audit."""

import json
import sys

import numpy as np
import pytest
from clocks import set_clock

import tensorplan as tp

PUT = ("audit", "american-put/6", "--planner", "random", "--budget", "30000")
V_STAR = 4.4825


def test_audit_prints_the_bracket_the_sentence_and_the_blame(cli):
    code, out, err = cli(*PUT)
    assert (code, err) == (0, "")
    result = tp.audit("american-put/6", tp.RandomPlanner(), budget=30_000)
    lines = out.splitlines()
    assert lines[0].split() == ["american-put/6,", "RandomPlanner()"]
    heads = ["lower", "upper", "gap", "of", "optimum", "confidence", "queries", "seconds"]
    assert lines[2].split() == heads
    row = lines[4].split()
    assert row[:3] == [f"{x:.5g}" for x in (result.lower, result.upper, result.gap)]
    assert row[5] == f"{result.queries:,}"
    assert f"{result.design}; {result.scenarios:,} scenarios, {result.episodes:,} episodes" in out
    assert "ended by budget" in out
    assert result.sentence in lines
    assert {"where", "both", "hindsight", "policy"} < set(out.split())
    assert max(len(line) for line in lines if line != result.sentence) <= 80
    assert sum(line.split()[:1] == ["stage"] for line in lines) == 5
    assert sum(line.split()[:1] == ["state"] for line in lines) == 5


def test_tables_become_lists_on_narrow_terminals(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    code, out, _ = cli(*PUT)
    assert code == 0
    assert sorted(map(len, out.splitlines()))[-2] <= 40  # the sentence is one line, for the terminal to wrap
    assert "…" not in out


def test_audit_as_data_has_everything(cli):
    code, out, _ = cli(*PUT, "--json", "--seed", "3")
    data, result = json.loads(out), tp.audit("american-put/6", "random", budget=30_000, seed=3)
    assert code == 0
    assert (data["lower"], data["upper"], data["gap"]) == (result.lower, result.upper, result.gap)
    assert data["lower"] <= V_STAR <= data["upper"]
    assert (data["sentence"], data["assumes"], data["seed"]) == (result.sentence, "", 3)
    assert data["loss"] == result.loss
    assert data["rests_on"] == "nothing but the simulator and its declared range of returns"
    assert data["return_range"][0] == 0
    assert [(s["state"], s["hindsight"], s["policy"]) for s in data["states"]] == [(s, *b) for s, b in result.states]
    assert [s["stage"] for s in data["stages"]] == list(result.stages)


def test_a_width_ends_an_audit(cli):
    code, out, _ = cli(*PUT, "--json", "--width", "12")
    data = json.loads(out)
    assert (code, data["status"]) == (0, "width")
    assert data["upper"] - data["lower"] <= 12
    assert data["queries"] < 30_000


def test_a_budget_that_is_too_small_for_a_bracket_says_so(cli):
    code, out, _ = cli("audit", "american-put/6", "--planner", "uct:simulations=500", "--budget", "2000")
    assert code == 0
    assert "the budget was spent before the first look, so this is the range of returns" in out
    assert "Where the gap comes from" not in out


# ------------------------------------------------------------------------------------------------ values

OWN = """
def zero(state, stage):
    return 0.0

def broken(state, stage):
    raise KeyError(state)

def undefined(state, stage):
    return float("nan")

number = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "guesses.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("guesses", None)


def test_a_value_function_of_ones_own(cli, own):
    expected = tp.audit("american-put/6", tp.RandomPlanner(), lambda state, stage: 0.0, budget=30_000)
    for name in ("./guesses.py:zero", "guesses:zero"):
        code, out, _ = cli(*PUT, "--value", name, "--json")
        data = json.loads(out)
        assert (code, data["upper"], data["lower"]) == (0, expected.upper, expected.lower)


def test_theta_from_a_file_gives_a_narrow_bracket(cli, own):
    problem = tp.make("american-put/6")
    np.save("theta.npy", problem.theta)
    code, out, _ = cli(*PUT, "--value", "theta.npy", "--json")
    data = json.loads(out)
    assert code == 0
    assert V_STAR <= data["upper"] <= tp.audit(problem, "random", lambda state, stage: 0.0, budget=30_000).upper


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("theta", "--value must be theta.npy, module:function or ./file.py:function, got 'theta'"),
        ("none.npy", "cannot read 'none.npy': No such file or directory"),
        ("text.npy", "cannot read 'text.npy': it is not an array of NumPy"),
        ("short.npy", "value must be a function of state and stage, or theta (3 finite numbers for phi_v)"),
        ("./guesses.py:nought", "there is no 'nought' in './guesses.py'; there are: broken, number, undefined, zero"),
        ("guesses:number", "'guesses:number' is not a function or a class: it is 3"),
        ("nowhere:zero", "there is no module 'nowhere'"),
        ("guesses:broken", "the value function at state 0, stage 0 raised KeyError: 0"),
        ("guesses:undefined", "the value function at state 0, stage 0 gave NaN"),
    ],
)
def test_bad_values(cli, own, value, sentence):
    np.save("short.npy", np.ones(2))
    (own / "text.npy").write_text("theta")
    code, out, err = cli(*PUT, "--value", value)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert sentence in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["american-put/6"], "Missing option '--planner' (see tensorplan audit --help)"),
        (["american-putt/6", "--planner", "random"], "did you mean 'american-put'?"),
        (["american-put/6", "--planner", "randon"], "did you mean 'random'?"),
        (["american-put/6", "--planner", "random", "--confidence", "1"], "confidence must be a number from 0.5 to"),
        (["american-put/6", "--planner", "random", "--budget", "0"], "0 is not in the range x>=1"),
        (["hanoi/3", "--planner", "random"], "problem 'hanoi/3' has no finite range of returns"),
    ],
)
def test_bad_input_is_one_sentence(cli, arguments, sentence):
    code, out, err = cli("audit", *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert sentence in err


def test_the_page_is_written(cli, tmp_path):
    code, out, _ = cli(*PUT, "--out", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert code == 0
    assert "no policy earns more than" in out
    assert "no policy earns more than" in page


# ---------------------------------------------------------------------------------------- plan with Hindsight


def test_plan_with_hindsight_prints_what_is_left_and_where(cli):
    code, out, _ = cli("plan", "american-put/6", "--planner", "hindsight", "--budget", "20000", "--delta", "0.01")
    assert code == 0
    assert "whatever the features" in out
    assert "a gap of " in out
    assert ", and most of it comes from " in out


def test_plan_with_hindsight_shows_its_bracket(monkeypatch):
    from tensorplan.cli.shared import configured
    from tensorplan.planners.hindsight.planner import Hindsight

    told = []
    planner = configured(Hindsight(budget=20_000), 0.01, False, told.append)
    tp.run("american-put/6", planner)
    assert told
    assert all(line.startswith("upper ") and line.endswith(" queries") and ", lower " in line for line in told)


def test_a_time_limit_ends_an_audit(cli, monkeypatch):
    set_clock(monkeypatch, 1e-3)
    code, out, _ = cli("audit", "american-put/6", "--planner", "random", "--time-limit", "4")
    assert code == 0
    assert "ended by time" in out
    code, out, _ = cli("audit", "american-put/6", "--planner", "random", "--time-limit", "0.05", "--json")
    data = json.loads(out)
    assert (code, data["status"]) == (0, "time")
    assert data["lower"] <= V_STAR <= data["upper"]
