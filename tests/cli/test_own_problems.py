"""Every command that takes a problem takes one of the user's own, from the folder where it is called."""

import json
import subprocess
import sys

import pytest
from own_code import OWN

SUITE = """problems:
  - ./mine.py:make_problem
  - mine:make_problem: {size: [4, 5]}
planners: [tensorplan, "mine:MyPlanner:action=0", "./mine.py:MyPlanner"]
seeds: 1
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The folder with the user's own code, which is not on the path by itself."""
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("mine", None)


@pytest.mark.parametrize("where", ["mine", "./mine.py"])
def test_plan(cli, where):
    code, out, _ = cli("plan", f"{where}:make_problem:size=4", "--json")
    assert code == 0
    assert json.loads(out)["episodes"][0]["total_reward"] == 4
    code, out, _ = cli("plan", f"{where}:make_problem", "--planner", f"{where}:MyPlanner:action=0", "--json")
    data = json.loads(out)
    assert (code, data["planner"], data["episodes"][0]["total_reward"]) == (0, "MyPlanner(0)", 0)


def test_compare(cli):
    code, out, _ = cli(
        "compare", "./mine.py:make_problem", "--planners", "mine:MyPlanner,random", "--seeds", "2", "--json"
    )
    assert code == 0
    rows = json.loads(out)["rows"]
    assert [(row["planner"], row["regret"]) for row in rows if row["planner"] != "random"] == [
        ("mine:MyPlanner", 0)
    ] * 2


def test_trace(cli):
    code, out, _ = cli("trace", "./mine.py:make_problem", "--json")
    assert code == 0
    assert json.loads(out)["problem"] == "steps 3"


def test_diagnose(cli):
    code, out, _ = cli("diagnose", "mine:make_problem:size=4")
    assert code == 0
    assert "realized within" in out
    code, _, err = cli("diagnose", "./mine.py:make_problem", "--horizon", "5")
    assert (code, err.count("\n")) == (2, 1)


def test_sweep_and_its_report(cli, here, monkeypatch):
    """Workers are other processes; the report needs the results alone."""
    (here / "suite.yaml").write_text(SUITE)
    code, out, err = cli("sweep", "suite.yaml", "--out", "results", "--workers", "2", "--json")
    assert code == 0, err
    rows = json.loads(out)["rows"]
    found = {(row["problem"], row["planner"]): row["total_reward"] for row in rows}
    assert len(found) == 9
    assert found["mine:make_problem:size=5", "tensorplan"] == 5
    assert found["./mine.py:make_problem", "mine:MyPlanner:action=0"] == 0
    assert found["mine:make_problem:size=4", "./mine.py:MyPlanner"] == 4
    (here / "mine.py").unlink()
    sys.modules.pop("mine", None)
    code, _, err = cli("report", "results")
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["plan", "./there.py:make_problem"], "cannot read './there.py': No such file or directory"),
        (["plan", "there_is_no:make_problem"], "there is no module 'there_is_no'"),
        (["plan", "mine:make"], "there is no 'make' in 'mine'; did you mean 'make_problem'?"),
        (["plan", "mine:make_problem:width=3"], "'mine:make_problem' has no parameter 'width'; there are: size"),
        (["plan", "hanoi/2", "--planner", "mine:make_problem"], "a problem: the problem comes first"),
        (["plan", "hanoi/2", "--planner", "mine:MyPlanner", "--trace", "x.json"], "keeps no trace"),
        (["trace", "mine:MyPlanner", "--json"], "a planner: the problem comes first"),
        (["diagnose", "mine:absent"], "there is no 'absent' in 'mine'"),
    ],
)
def test_bad_names_get_one_sentence(cli, arguments, sentence):
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_line_of_the_suite_is_named(cli, here):
    (here / "suite.yaml").write_text(SUITE.replace("size:", "sise:"))
    code, _, err = cli("sweep", "suite.yaml", "--out", "results")
    assert code == 2
    assert "suite.yaml, line 3: 'mine:make_problem' has no parameter 'sise'; did you mean 'size'?" in err


def test_the_folder_comes_after_all_else_on_the_path(here):
    """A file that is called like a module of Python's does not take its place."""
    (here / "random.py").write_text("raise RuntimeError('shadowed')\n")
    program = "import sys; sys.path.remove(''); from tensorplan.cli.main import main; main()"
    command = [sys.executable, "-c", program, "plan", "mine:make_problem", "--json"]
    assert subprocess.run(command, capture_output=True, check=True, cwd=here).returncode == 0
