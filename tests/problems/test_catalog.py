"""The names that people type: all of them build, and what does not build says why in one sentence."""

from __future__ import annotations

import contextlib
import inspect
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from own_code import OWN

import tensorplan as tp
from tensorplan.core import Problem
from tensorplan.core.errors import BadInput
from tensorplan.diagnosis.inputs import named
from tensorplan.problems.catalog import CATALOG, instance, make
from tensorplan.problems.random.layered import Procedural

UNSOLVED = ("put", "max-call")
"""Problems on a continuum of states, whose optimal values are not part of them."""


@pytest.mark.parametrize("name", CATALOG)
def test_every_example_builds(name):
    entry = CATALOG[name]
    assert entry.example.startswith(name + "/")
    assert entry.about
    assert "\n" not in entry.about
    problem = make(entry.example)
    assert isinstance(problem, Problem)
    assert problem.name == entry.example  # the name leads back to the problem
    rng = np.random.default_rng(0)
    state = problem.mdp.start(rng)
    assert (problem.solution is None) == (name in UNSOLVED)
    if name not in UNSOLVED:
        if problem.phi_v is not None:
            linear = problem.state_features(state, 0) @ problem.theta
        else:
            linear = (problem.action_features(state, 0) @ problem.theta).max()
        assert linear == pytest.approx(problem.optimal_value(state), abs=problem.eta + 1e-9)
    reward, _ = problem.mdp.step(state, problem.actions - 1, rng)
    assert problem.reward_range[0] <= reward <= problem.reward_range[1]


def test_the_package_exports_make():
    assert tp.make is make


def test_sizes_and_options():
    problem = make("layered/4x10:horizon=3:states=7")
    assert (problem.actions, problem.dimension, problem.horizon) == (4, 10, 3)
    assert [len(problem.mdp.states(h)) for h in range(3)] == [7, 7, 7]
    assert make("grid/2x3x4").mdp.sides == (2, 3, 4)
    assert make("grid/9").mdp.sides == (9,)
    assert make("hanoi:disks=3").name == make("hanoi", disks=3).name == make(" hanoi / 3 ").name == "hanoi/3"
    assert make("chinese-rings/5").dimension == 5
    huge = make("layered/2x3:states=1e12:horizon=4")
    assert isinstance(huge.mdp, Procedural)
    assert huge.mdp.width == 10**12
    assert make("layered/2x3:noise=true:states=5").deterministic_rewards is False
    assert make("layered/2x3:noise=false:states=5").deterministic_rewards is True


def test_what_is_said_later_wins():
    assert make("layered/4x10:horizon=3:states=7", horizon=2).horizon == 2
    stochastic = make("layered-stochastic/2x3")
    assert (stochastic.horizon, len(stochastic.mdp.states(0))) == (5, 50)
    assert not stochastic.deterministic_transitions
    assert not stochastic.deterministic_rewards
    calmer = make("layered-stochastic/2x3:branching=1:states=9")
    assert (calmer.deterministic_transitions, calmer.deterministic_rewards) == (True, False)
    assert len(calmer.mdp.states(0)) == 9


BAD = {
    "hanoy/3": "unknown problem 'hanoy'; did you mean 'hanoi'?",
    "Layerd/4x10": "unknown problem 'Layerd'; did you mean 'layered'?",
    "chinese_rings/3": "unknown problem 'chinese_rings'; did you mean 'chinese-rings'?",
    "": None,
    "/3": None,
    "zzz": None,
    "hanoi": "'hanoi' needs the parameter 'disks'",
    "hanoi/": "'hanoi' needs the parameter 'disks'",
    "grid": "'grid' needs the parameter 'sides'",
    "hanoi/x": "'hanoi/x': expected disks behind the slash, as in 'hanoi/6'",
    "hanoi/2x3": "'hanoi/2x3': expected disks behind the slash, as in 'hanoi/6'",
    "hanoi/many": "disks must be a whole number from 1 to 40, got 'many'",
    "hanoi/0": "disks must be a whole number from 1 to 40, got 0",
    "hanoi/true": "disks must be a whole number from 1 to 40, got True",
    "hanoi/nan": "disks must be a whole number from 1 to 40, got nan",
    "hanoi/3/4": "disks must be a whole number from 1 to 40, got '3/4'",
    "layered/4": "'layered/4': expected actionsxd behind the slash, as in 'layered/4x10'",
    "layered/4x10x3": "'layered/4x10x3': expected actionsxd behind the slash, as in 'layered/4x10'",
    "layered/x": "actions must be a whole number >= 1, got ''",
    "layered/4x1": "d must be a whole number >= 2, got 1",
    "layered/4x10:horizon": "'layered/4x10:horizon': expected key=value after ':', got 'horizon'",
    "layered/4x10:=3": "'layered/4x10:=3': expected key=value after ':', got '=3'",
    "layered/4x10:": "'layered/4x10:': expected key=value after ':', got ''",
    "layered/4x10:horizn=3": "'layered' has no parameter 'horizn'; did you mean 'horizon'?",
    "hanoi/3:seed=1": "'hanoi' has no parameter 'seed'; there are: disks",
    "layered/4x10:horizon=long": "horizon must be a whole number >= 1, got 'long'",
    "layered/4x10:noise=no": "noise must be true or false, got 'no'",
    "layered/4x10:eta=a:procedural=true": "eta must be a number >= 0, got 'a'",
    "grid/1x1": "a grid needs a side of length 2 or more, got 1x1",
    "grid/5x": "a side of the grid must be a whole number >= 1, got ''",
    "grid/5xa": "a side of the grid must be a whole number >= 1, got 'a'",
    "grid:sides=2.5": "a side of the grid must be a whole number >= 1, got 2.5",
    "grid:sides=none": "a side of the grid must be a whole number >= 1, got None",
    "hanoi/3:disks=3": "'hanoi/3:disks=3': 'disks' is given twice, behind the slash and behind the colon",
    "layered/4x10:eta=0:eta=0": "'layered/4x10:eta=0:eta=0': 'eta' is given twice",
    "gym/Taxi-v4:features=poly1:env=x": None,
    "two\nlines/3": None,
    "hanoi/3:two\nlines=1": None,
}


@pytest.mark.parametrize("spec", BAD)
def test_bad_names_are_one_clear_sentence(spec):
    with pytest.raises(BadInput) as info:
        make(spec)
    assert "\n" not in str(info.value)
    assert BAD[spec] is None or str(info.value) == BAD[spec]


ODD = ("x", "", "-1", "0", "1.5", "nan", "none", "true", "probe", "[0, 1]")
"""Values that few parameters can have."""


@pytest.mark.parametrize("name", [name for name in CATALOG if name != "gym"])
def test_any_value_of_any_parameter_builds_or_is_refused(name):
    entry = CATALOG[name]
    for key in [*inspect.signature(entry.build).parameters, "name", "self", "callback"]:
        for value in ODD:
            with contextlib.suppress(BadInput):
                instance(f"{entry.example}:{key}={value}", 0)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(name=st.sampled_from(["hanoi", "chinese-rings", "grid", ""]), rest=st.text("/x:=.-+e_ 0159adn\n", max_size=12))
def test_any_text_builds_or_is_refused(name, rest):
    try:
        sentence = make(name + rest).name
    except BadInput as error:
        sentence = str(error)
    assert len(sentence.splitlines()) == 1


def test_a_name_that_is_near_nothing_lists_what_there_is():
    with pytest.raises(BadInput) as info:
        make("zzz")
    assert str(info.value) == f"unknown problem 'zzz'; there are: {', '.join(sorted(CATALOG))}"


def test_instances():
    def theta(problem: Problem) -> list[float]:
        return problem.theta.tolist()

    spec = "layered/2x3:states=5"
    assert theta(instance(spec, 4)) == theta(make(spec, seed=4))
    assert theta(instance(spec, 4)) != theta(instance(spec, 5))
    assert theta(instance(spec + ":seed=9", 4)) == theta(make(spec, seed=9))
    assert instance("hanoi/3", 4).name == "hanoi/3"
    with pytest.raises(BadInput, match="seed must be a whole number"):
        instance(spec, -1)
    assert {name for name, entry in CATALOG.items() if entry.seeded} >= {"layered", "layered-stochastic"}
    assert not CATALOG["hanoi"].seeded


# ------------------------------------------------------------------------------------------------ user code


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a file of the user's own, in which relative paths start."""
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("mine", None)


@pytest.mark.parametrize("where", ["mine", "./mine.py"])
def test_problems_of_the_users_own(own, where):
    assert make(f"{where}:make_problem").horizon == 3
    assert make(f"{where}:make_problem:size=5").horizon == make(f"{where}:make_problem", size=5).horizon == 5
    assert instance(f"{where}:make_problem", 7).horizon == 3
    assert instance(f"{where}:draw_problem", 7).horizon == 8  # it takes a seed, so it is a random family
    assert instance(f"{where}:draw_problem:seed=2", 7).horizon == 3
    run = tp.run(f"{where}:make_problem:size=4", f"{where}:MyPlanner:action=1")
    assert (run.problem, run.episodes[0].total_reward) == ("steps 4", 4.0)
    assert tp.run(f"{where}:make_problem:size=4", "tensorplan").episodes[0].certificate.upper == pytest.approx(4)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("./mine.py:make_problem:sise=5", r"^'./mine.py:make_problem' has no parameter 'sise'; did you mean 'size'\?$"),
        ("./mine.py:make_problem:size", r"^'./mine.py:make_problem:size': expected key=value after ':', got 'size'$"),
        ("./mine.py:make_problem:size=0", r"^problem 'steps 0': the bound B must be a positive number, got 0.0$"),
        ("./mine.py:make_problem:size=x", r"^'./mine.py:make_problem' raised ValueError: .* \(mine.py, line \d+\)$"),
        ("./mine.py:nothing", r"^'./mine.py:nothing' must return a problem, got None$"),
        (
            "./mine.py:simulator",
            r"^'./mine.py:simulator' must return a problem, got <.*>, an MDP without features: make a problem of it",
        ),
        (
            "./mine.py:MyPlanner",
            r"^'./mine.py:MyPlanner' must return a problem, got MyPlanner\(1\), a planner: the problem comes first",
        ),
        ("mine:broken", r"^'mine:broken' raised RuntimeError: out of paper \(mine.py, line \d+\)$"),
        ("mine:Steps", r"^'mine:Steps' needs the parameter 'size'$"),
        ("mine:make_porblem", r"^there is no 'make_porblem' in 'mine'; did you mean 'make_problem'\?$"),
        ("./other.py:make_problem", r"^cannot read './other.py': No such file or directory$"),
        ("hanoi:make_problem", r"^'hanoi:make_problem': expected key=value after ':', got 'make_problem'$"),
    ],
)
def test_what_is_wrong_with_the_users_own_is_said_in_a_sentence(own, spec, sentence):
    with pytest.raises(tp.TensorplanError, match=sentence):
        make(spec)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("./mine.py:MyPlanner:width=5", r"^'./mine.py:MyPlanner' has no parameter 'width'; there are: action$"),
        (
            "./mine.py:nothing",
            r"^'./mine.py:nothing' must return a planner, got None: a planner has a method begin\(access, rng\)$",
        ),
        (
            "./mine.py:make_problem",
            r"^'./mine.py:make_problem' must return a planner, got Problem.*, a problem: the problem comes first",
        ),
        ("uct:simulations", r"^'uct:simulations': expected key=value after ':', got 'simulations'$"),
    ],
)
def test_what_is_wrong_with_a_planner_of_the_users_own(own, spec, sentence):
    with pytest.raises(tp.BadInput, match=sentence):
        tp.make_planner(spec)


OWN_ENV = """
import gymnasium
from gymnasium import spaces

class Corridor(gymnasium.Env):
    observation_space, action_space = spaces.Discrete(4), spaces.Discrete(2)
    def __init__(self, prize=1.0): self.prize, self.place = prize, 0
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}
    def step(self, action):
        self.place += int(action)
        return self.place, self.prize * (self.place == 3), self.place == 3, False, {}

gymnasium.register("Corridor-v0", Corridor, max_episode_steps=5)
gymnasium.register("halls/Corridor-v0", Corridor, max_episode_steps=6)
"""


def test_environments_of_the_users_own(tmp_path, monkeypatch):
    gymnasium = pytest.importorskip("gymnasium")
    (tmp_path / "corridors.py").write_text(OWN_ENV)
    monkeypatch.syspath_prepend(str(tmp_path))
    options = "features=onehot@stage:reward_range=probe:bound=3"
    corridor = make(f"gym/corridors:Corridor-v0:{options}")
    assert (corridor.horizon, corridor.name) == (5, f"gym/corridors:Corridor-v0:{options}")
    assert tp.run(corridor, tp.TensorPlan()).episodes[0].total_reward == 1
    assert make(f"gym/corridors:halls/Corridor-v0:{options}").horizon == 6
    prize = make(f"gym/corridors:Corridor-v0:{options}:prize=2", horizon=4)
    assert prize.reward_range == (0.0, 2.0)
    with pytest.raises(tp.BadInput, match=r"gymnasium.make\('corridors:Hall-v0'\) failed: .*Hall"):
        make(f"gym/corridors:Hall-v0:{options}")
    with pytest.raises(tp.BadInput, match=r"gymnasium.make\('nowhere_at_all:Hall-v0'\) failed: No module named"):
        make(f"gym/nowhere_at_all:Hall-v0:{options}")
    with pytest.raises(tp.BadInput, match=r"expected key=value after ':', got 'more'"):
        make("gym/corridors:Corridor-v0:more")
    with pytest.raises(tp.BadInput, match=r"the range of the rewards of Corridor-v0 is not known"):
        named("corridors:Corridor-v0", features="poly1", bound=3.0)
    assert tp.diagnose(f"gym/corridors:Corridor-v0:{options}")["v"].realized
    for name in ("Corridor-v0", "halls/Corridor-v0"):
        gymnasium.registry.pop(name)
    sys.modules.pop("corridors")
