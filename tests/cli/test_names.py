"""One rule for names: every command, and every function that takes a problem, takes each kind of them."""

import json
import sys

import pytest
from own_code import OWN

import tensorplan as tp
from tensorplan.evaluation.audit import audit
from tensorplan.problems.catalog import is_environment, take_apart
from tensorplan.sweeps.suite import Suite

LAKES = """
import gymnasium
if "Lakes/Small-v0" not in gymnasium.registry:
    gymnasium.register("Lakes/Small-v0", "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv", max_episode_steps=3)
"""

DRY = "features=realizing2:is_slippery=false:horizon=3"

NAMES = [
    "grid/2x2",
    "mine:make_problem:size=2",
    "./mine.py:make_problem",
    f"gym/FrozenLake-v1:{DRY}",
    f"FrozenLake-v1:{DRY}",
    f"gym/lakes:Lakes/Small-v0:{DRY}",
    f"lakes:Lakes/Small-v0:{DRY}",
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with a module of problems, and one that registers an environment."""
    pytest.importorskip("gymnasium")
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "lakes.py").write_text(LAKES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for module in ("mine", "lakes"):
        sys.modules.pop(module, None)


COMMANDS = {
    "plan": ["--planner", "random", "--max-steps", "5"],
    "compare": ["--planners", "random", "--seeds", "1", "--max-steps", "5"],
    "trace": [],
    "diagnose": [],
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_every_name(cli, command, name):
    code, out, err = cli(command, name, *COMMANDS[command], "--json")
    assert code == 0, err
    assert json.loads(out)["problem"]


@pytest.mark.parametrize("name", NAMES[1:])
def test_audits_take_every_name(cli, name):
    code, out, err = cli("audit", name, "--planner", "random", "--budget", "200", "--json")
    assert code == 0, err
    assert json.loads(out)["problem"]


def test_sweeps_and_reports_take_every_name(cli, here):
    listed = "\n".join(f"  - {name}" for name in NAMES)
    (here / "suite.yaml").write_text(f"problems:\n{listed}\nplanners: [random]\nseeds: 1\nmax_steps: 5\n")
    code, out, err = cli("sweep", "suite.yaml", "--out", "results", "--workers", "1", "--json")
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert [row["error"] for row in rows] == [None] * len(rows)
    assert len(rows) == len(NAMES) - 2  # two are named twice, with and without gym/
    assert {row["problem"].partition("/")[0] for row in rows} >= {"gym", "mine:make_problem:size=2"}
    assert cli("report", "results")[0] == 0


def test_environments_in_grids_of_parameters(here):
    (here / "suite.yaml").write_text(
        "problems:\n  - FrozenLake-v1: {features: [poly1, poly2]}\n  - lakes:Lakes/Small-v0: {features: poly1}\n"
        "planners: [random]\nseeds: 1\n"
    )
    assert Suite.read(here / "suite.yaml").problems == (
        "gym/FrozenLake-v1:features=poly1",
        "gym/FrozenLake-v1:features=poly2",
        "gym/lakes:Lakes/Small-v0:features=poly1",
    )


@pytest.mark.parametrize("name", NAMES[1:])
def test_every_function_takes_every_name(name):
    problem = tp.make(name)
    assert tp.run(name, "random", max_steps=5).problem == problem.name
    assert tp.compare(name, "random", 1).problem == name
    assert tp.judge(name, "random", 0.5, episodes=2).run.problem == problem.name
    assert tp.diagnose(name).problem == problem.name
    assert audit(name, "random", budget=200).problem == problem.name


@pytest.mark.parametrize("name", NAMES)
def test_only_families_with_claims_are_verified(cli, name):
    code, _, err = cli("verify", name)
    assert (code, "can be verified so far" in err) == (2, True)


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("FrozenLake-v1", ("gym", "FrozenLake-v1", {})),
        ("gym/FrozenLake-v1:features=poly2", ("gym", "FrozenLake-v1", {"features": "poly2"})),
        ("MinAtar/Breakout-v1:bound=3", ("gym", "MinAtar/Breakout-v1", {"bound": 3})),
        ("gym/MinAtar/Breakout-v1:bound=3", ("gym", "MinAtar/Breakout-v1", {"bound": 3})),
        ("gym/ALE/Pong-v5", ("gym", "ALE/Pong-v5", {})),
        ("minigrid:MiniGrid-Empty-8x8-v0:kind=q", ("gym", "minigrid:MiniGrid-Empty-8x8-v0", {"kind": "q"})),
        ("gym/minigrid:MiniGrid-Empty-8x8-v0", ("gym", "minigrid:MiniGrid-Empty-8x8-v0", {})),
        ("a.b:Space/My-Env-v12", ("gym", "a.b:Space/My-Env-v12", {})),
        ("hanoi/3", ("hanoi", "3", {})),
        ("grid/2x3-v1", ("grid", "2x3-v1", {})),
        ("mine:make_problem:size=5", ("mine:make_problem", "", {"size": 5})),
        ("./mine-v1.py:make", ("./mine-v1.py:make", "", {})),
        ("nowhere", ("nowhere", "", {})),
    ],
)
def test_what_a_name_means(spec, parts):
    assert take_apart(spec) == parts
    assert is_environment(spec) == (parts[0] == "gym" and not spec.startswith("gym/"))


def test_an_environment_has_linear_features_unless_others_are_named(cli):
    code, out, _ = cli("plan", "FrozenLake-v1:horizon=3", "--planner", "random", "--json")
    assert (code, "features=linear" in out) == (0, True)


def test_options_of_the_command_come_before_those_of_the_name(cli):
    code, out, err = cli("diagnose", f"gym/FrozenLake-v1:{DRY}", "--features", "onehot@stage", "--json")
    assert code == 0, err
    assert json.loads(out)["parts"][0]["dimension"] == 16 * 3
    code, out, _ = cli("diagnose", "FrozenLake-v1", "--features", "poly1", "--horizon", "3", "--json")
    assert (code, json.loads(out)["problem"]) == (0, "FrozenLake-v1")
    code, _, err = cli("diagnose", "Nowhere-v3", "--features", "poly1")
    assert (code, "there is no problem and no environment 'Nowhere-v3'" in err) == (2, True)


# --------------------------------------------------------------------------------------------------------- objects


class Fixed:
    """A planner whose repr does not say what it does."""

    def __init__(self, action):
        self.action = action

    def begin(self, access, rng):
        return self

    def act(self, node):
        return self.action

    def __repr__(self):
        return "Fixed()"


def test_planners_with_one_repr_are_told_apart():
    problem = tp.make("mine:make_problem")
    found = tp.compare(problem, [Fixed(0), "random", Fixed(1), tp.UCT(simulations=5), Fixed(0), "random"], seeds=2)
    means = {summary.planner: summary.total_reward.mean for summary in found.summaries}
    assert list(means) == ["Fixed()", "random", "Fixed() (2)", repr(tp.UCT(simulations=5)), "Fixed() (3)"]
    assert (means["Fixed()"], means["Fixed() (2)"], means["Fixed() (3)"]) == (0, 3, 0)
    assert len(found.rows) == 2 * 5


def test_one_planner_by_itself():
    (summary,) = tp.compare("mine:make_problem", Fixed(1), seeds=1).summaries
    assert summary.total_reward.mean == 3
    with pytest.raises(tp.BadInput, match="planners must be a list of planners or their names, got 3"):
        tp.compare("mine:make_problem", 3)
    with pytest.raises(tp.BadInput, match="a class: make an instance of it"):
        tp.compare("mine:make_problem", [Fixed])


def test_a_suite_is_made_of_names():
    problem = tp.make("hanoi/2")
    with pytest.raises(tp.BadInput, match=r"problems of a suite are names.*tp.compare takes objects"):
        Suite((problem,), ("uct",), (0,))
    with pytest.raises(tp.BadInput, match=r"planners of a suite are names"):
        Suite(("hanoi/2",), (tp.UCT(),), (0,))
    with pytest.raises(tp.BadInput, match="problems must be a list of names, got 'hanoi/2'"):
        Suite("hanoi/2", ("uct",), (0,))
