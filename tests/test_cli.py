import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tensorplan.cli import main


@pytest.fixture
def cli(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call


def test_list_names_problems_and_planners(cli):
    code, out, _ = cli("list")
    assert code == 0
    for name in ("hanoi/6", "layered/4x10", "uct", "sparse-sampling", "oracle", "random"):
        assert name in out
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = cli("list", "--json")
    names = json.loads(out)
    assert {"hanoi", "chinese-rings", "grid", "layered"} <= {p["name"] for p in names["problems"]}
    assert {"uct", "oracle"} <= {p["name"] for p in names["planners"]}


def test_plan_shows_63_steps(cli):
    code, out, err = cli("plan", "hanoi/6", "--planner", "oracle", "--json")
    assert code == 0
    assert err == ""
    data = json.loads(out)
    (episode,) = data["episodes"]
    assert episode["steps"] == 63
    assert episode["total_reward"] == episode["optimal"] == -63
    assert len(episode["actions"]) == 63
    code, out, _ = cli("plan", "hanoi/6", "--planner", "oracle")
    assert " 63 " in out


def test_plan_judges(cli):
    _, out, _ = cli("plan", "hanoi/3", "--planner", "oracle", "--delta", "0.1")
    assert "sound: loss 0 in [0, 0]" in out
    arguments = ("plan", "layered-stochastic/2x3", "--planner", "uct:simulations=20", "--episodes", "3")
    _, out, _ = cli(*arguments, "--delta", "0.1", "--json")
    soundness = json.loads(out)["soundness"]
    assert soundness["verdict"] == "undecided"
    assert soundness["loss"]["low"] < soundness["loss"]["mean"] < soundness["loss"]["high"]


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


def test_seeds_reproduce(cli):
    def rows(seed):
        _, out, _ = cli("plan", "layered-stochastic/2x3", "--planner", "random", "--seed", seed, "--json")
        return [(e["actions"], e["rewards"]) for e in json.loads(out)["episodes"]]

    assert rows("3") == rows("3") != rows("4")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["plan", "hanoj/6"], "unknown problem 'hanoj'; did you mean 'hanoi'?"),
        (["plan", "hanoi/0"], "disks must be a whole number from 1 to 40, got 0"),
        (["plan", "hanoi/3", "--planner", "utc"], "unknown planner 'utc'; did you mean 'uct'?"),
        (["compare", "hanoi/3", "--planners", ","], "name at least one planner"),
        (["compare", "hanoi/3", "--planners", "sparse-sampling"], "sparse sampling needs a horizon or a depth"),
        (["plan", "hanoi/3", "--episodes", "0"], "0 is not in the range x>=1"),
        (["plan"], "Missing argument 'PROBLEM' (see tensorplan plan --help)"),
        (["plam"], "No such command 'plam'"),
        (["plan", "hanoi/3", "--color"], "--color"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(cli, arguments, sentence):
    code, out, err = cli(*arguments)
    assert code == 2
    assert out == ""
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err


def test_what_was_done_before_an_error_is_printed(cli):
    code, out, err = cli("compare", "hanoi/3", "--planners", "oracle,sparse-sampling", "--seeds", "2")
    assert code == 2
    assert "oracle" in out
    assert len(err.splitlines()) == 1


def test_ctrl_c_prints_the_table_so_far():
    arguments = ["compare", "hanoi/4", "--planners", "oracle,uct:simulations=2000", "--seeds", "500"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tensorplan", *arguments, "--max-steps", "100", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "interrupted" in err
    assert "Traceback" not in err
    assert json.loads(out)["stopped"] == "interrupted"
    assert json.loads(out)["rows"]


def test_help_and_version(cli):
    code, out, _ = cli("--help")
    assert code == 0
    assert "compare" in out
    code, out, _ = cli("--version")
    assert (code, out.split()[0]) == (0, "tensorplan,")
