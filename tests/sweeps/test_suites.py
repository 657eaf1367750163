import itertools
import json
import subprocess
import sys

import pytest

from tensorplan import BadInput
from tensorplan.sweeps.suite import Suite
from tensorplan.sweeps.unit import PlannerUnit


@pytest.fixture
def read(tmp_path):
    def reading(text):
        path = tmp_path / "suite.yaml"
        path.write_text(text, encoding="utf-8")
        return Suite.read(path)

    return reading


def test_three_lines_are_enough(read):
    suite = read("problems: [hanoi/3, layered/2x4]\nplanners: [tensorplan, uct]\nseeds: 6\n")
    assert suite == Suite(("hanoi/3", "layered/2x4"), ("tensorplan", "uct"), tuple(range(6)))
    which = [(u.problem, u.planner, u.seed) for u in suite.units()]
    assert which == list(itertools.product(["hanoi/3", "layered/2x4"], ["tensorplan", "uct"], range(6)))
    assert Suite(**json.loads(suite.as_json())) == suite


def test_grids_are_all_combinations(read):
    suite = read(
        "problems:\n  - layered/2x3: {states: [10, 20]}\n"
        "planners:\n  - uct: {simulations: [100, 1e3], exploration: [0.5, 1.0]}\n  - random:\n  - oracle\n"
        "seeds: [3, 1, 3]\nepisodes: 2\nbudget: 500\ntrace: true\ntimeout: 1.5\nmemory: 400\nretries: 1\n"
    )
    assert suite.problems == ("layered/2x3:states=10", "layered/2x3:states=20")
    assert suite.planners == (
        *(f"uct:exploration={c}:simulations={n}" for n in (100, 1000) for c in ("0.5", "1")),
        "random",
        "oracle",
    )
    assert suite.seeds == (3, 1)
    assert (suite.episodes, suite.budget, suite.trace) == (2, 500, True)
    assert (suite.timeout, suite.memory, suite.retries) == (1.5, 400, 1)
    assert len(suite.units()) == 2 * 6 * 2


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("problems: [hanoi/3]\nplaners: [uct]\n", 2, "unknown key 'planers'; did you mean 'planners'?"),
        ("problems: [hanoi/3]\nplanners:\n - uct\n - utc\nseeds: 1\n", 4, "unknown planner 'utc'; did you mean 'uct'?"),
        ("seeds: 1\n\nproblems: hanio/3\n", 3, "unknown problem 'hanio'; did you mean 'hanoi'?"),
        ("planners:\n - uct:\n     depth: 2\n     simulatons: 3\n", 4, "'uct' has no parameter 'simulatons'; did you"),
        ("planners:\n - uct:\n     depth: 2\n     simulations: [3, 0]\n", 4, "simulations must be a whole number >= 1"),
        ("problems:\n - hanoi: {disk: 3}\n", 2, "'hanoi' has no parameter 'disk'; did you mean 'disks'?"),
        ("problems: [hanoi/3x3]\n", 1, "'hanoi/3x3': expected disks behind the slash"),
        ("problems: [hanoi/3\nplanners: uct\n", 2, "this is not YAML"),
        ("problems: hanoi/3\nplanners: uct\nseeds: many\n", 3, "seeds must be a whole number"),
        ("problems: hanoi/3\nplanners: uct\nseeds: 0\n", 3, "seeds must be a whole number"),
        ("problems: hanoi/3\nplanners: uct\nseeds: 1\ntimeout: -3\n", 4, "timeout must be a number >= 0"),
        ("problems: hanoi/3\nplanners: uct\nseeds: 1\nmemory: 0\n", 4, "memory must be positive"),
        ("problems: hanoi/3\nplanners: []\nseeds: 1\n", 2, "planners must name at least one"),
        ("seeds: 1\nseeds: 2\n", 2, "'seeds' is given twice"),
        ("planners: &a [*a]\n", 1, "expected a name"),
        ("seeds: &a [*a]\n", 1, "this cannot be read"),
        ("planners: [uct: fast]\n", 1, "expected the parameters of 'uct' as {key: value}"),
        ("planners: [uct: {simulations: {a: 1}}]\n", 1, "simulations must be a number, a word, or a list"),
        ("hanoi/3", 1, "a suite is a list of 'key: value'"),
        ("seeds: 2001-99-99\n", 1, "cannot read '2001-99-99' as a number or a date"),
        ("seeds: [1, " + "9" * 5000 + "]\n", 1, "cannot read an entry of this list as a number or a date"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(read, text, line, sentence):
    with pytest.raises(BadInput) as caught:
        read(text)
    said = str(caught.value)
    assert f"suite.yaml, line {line}: {sentence}" in said
    assert "\n" not in said


def test_files_that_are_none(read, tmp_path):
    with pytest.raises(BadInput, match="cannot read the suite"):
        Suite.read(tmp_path / "nowhere.yaml")
    with pytest.raises(BadInput, match="cannot read the suite"):
        Suite.read(tmp_path)
    with pytest.raises(BadInput, match="a suite is a list"):
        read("")
    with pytest.raises(BadInput, match="nested too deeply"):
        read("problems: " + "[" * 3000 + "]" * 3000)
    with pytest.raises(BadInput, match="'seeds' is missing"):
        read("problems: hanoi/3\nplanners: uct\n")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00\x01\x02")
    with pytest.raises(BadInput, match="not YAML"):
        Suite.read(tmp_path / "bytes.yaml")


def test_a_unit_has_one_id_however_it_is_spelled():
    unit = PlannerUnit("layered/2x3", "uct", 4)
    same = [
        PlannerUnit("layered:d=3:actions=2", "uct", 4),
        PlannerUnit("layered/2x3:states=200:horizon=10", "uct:simulations=1000.0", 4),
        PlannerUnit("layered/2x3", "uct:depth=100:exploration=1.0", 4),
    ]
    assert {u.id for u in same} == {unit.id}
    others = [
        PlannerUnit("layered/2x3", "uct", 5),
        PlannerUnit("layered/2x3:seed=4", "uct", 4),
        PlannerUnit("layered/3x2", "uct", 4),
        PlannerUnit("layered/2x3", "uct:simulations=999", 4),
        PlannerUnit("layered/2x3", "random", 4),
        PlannerUnit("layered/2x3", "uct", 4, episodes=2),
        PlannerUnit("layered/2x3", "uct", 4, budget=10),
        PlannerUnit("layered/2x3", "uct", 4, max_steps=10),
        PlannerUnit("layered/2x3", "uct", 4, trace=True),
    ]
    assert len({u.id for u in [unit, *others]}) == 1 + len(others)


def test_one_thing_under_two_names_is_one_unit():
    suite = Suite(("hanoi/3", "hanoi:disks=3"), ("uct", "uct:depth=100"), (0,))
    (unit,) = suite.units()
    assert (unit.problem, unit.planner) == ("hanoi/3", "uct")


def test_limits_do_not_change_what_a_unit_is():
    plain = Suite(("hanoi/3",), ("uct",), (0,)).units()
    assert Suite(("hanoi/3",), ("uct",), (0,), timeout=3.0, memory=500.0, retries=2).units() == plain


def test_ids_are_the_same_in_another_process():
    units = Suite(("hanoi/3", "layered/2x3"), ("tensorplan", "uct"), (0, 1)).units()
    code = (
        "import json; from tensorplan.sweeps.suite import Suite; print(json.dumps([u.id for u in "
        "Suite(('hanoi/3', 'layered/2x3'), ('tensorplan', 'uct'), (0, 1)).units()]))"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert json.loads(out) == [u.id for u in units]


def test_a_suite_has_a_size_limit():
    with pytest.raises(BadInput, match="2,000,000 units"):
        Suite(("hanoi/3", "hanoi/4"), ("uct",), tuple(range(1_000_000)))


def test_problems_that_take_any_option():
    """The options of a Gymnasium environment are its own business, and part of the identity."""
    suite = Suite(("gym/FrozenLake-v1:features=realizing3:is_slippery=false",), ("random",), (0,))
    other = Suite(("gym/FrozenLake-v1:features=realizing3:is_slippery=true",), ("random",), (0,))
    assert suite.units()[0].id != other.units()[0].id


OWN = (
    "def make(size=3, seed=0):\n    raise RuntimeError\n\nclass Mine:\n    def begin(self, access, rng): return self\n"
)


def test_user_code_is_named_in_a_suite(read, tmp_path, monkeypatch):
    (tmp_path / "ours.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    suite = read("problems:\n - ./ours.py:make: {size: [4.0, 5]}\nplanners: [./ours.py:Mine]\nseeds: 2\n")
    assert suite.problems == ("./ours.py:make:size=4", "./ours.py:make:size=5")
    assert suite.planners == ("./ours.py:Mine",)
    ids = [unit.id for unit in suite.units()]
    assert len(set(ids)) == 4
    (tmp_path / "ours.py").unlink()  # what was stored is read without the code
    again = Suite(**json.loads(suite.as_json()))
    assert (again, [unit.id for unit in again.units()]) == (suite, ids)
    with pytest.raises(BadInput, match=r"^cannot read './ours.py': No such file or directory$"):
        again.check()


def test_the_id_of_user_code_is_made_of_its_name_and_parameters():
    def of(problem, planner="uct"):
        return PlannerUnit(problem, planner, 0).id

    assert of("ours:make:size=4") == of("ours:make:size=4.0")
    different = [of(p) for p in ("ours:make", "ours:make:size=4", "ours:make:size=5", "./ours.py:make", "ours:made")]
    different += [of("ours:make", planner) for planner in ("ours:Mine", "ours:Mine:width=3", "./ours.py:Mine")]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("./ours.py:made", "there is no 'made' in './ours.py'; did you mean 'make'?"),
        ("./ours.py:make: {sise: 3}", "'./ours.py:make' has no parameter 'sise'; did you mean 'size'?"),
        ("./theirs.py:make", "cannot read './theirs.py': No such file or directory"),
        ("there_is_no:make", "there is no module 'there_is_no'"),
    ],
)
def test_bad_user_code_has_its_line(read, tmp_path, monkeypatch, entry, sentence):
    (tmp_path / "ours.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as info:
        read(f"seeds: 1\nproblems:\n - hanoi/3\n - {entry}\nplanners: uct\n")
    assert str(info.value).endswith(f"suite.yaml, line 4: {sentence}")


def test_an_environment_of_the_users_own_keeps_its_module(read):
    suite = read("problems: ['gym/mymodule:MyEnv-v0:features=poly2:bound=3']\nplanners: uct\nseeds: 1\n")
    assert suite.problems == ("gym/mymodule:MyEnv-v0:bound=3:features=poly2",)
    assert suite.units()[0].id != PlannerUnit("gym/MyEnv-v0:bound=3:features=poly2", "uct", 0).id


def test_planners_of_a_module_are_named_by_it():
    suite = Suite(("hard/8x9",), ("tensorplan.game.planning:GuessPlanner:strategy=uniform",), (0,))
    (unit,) = suite.units()
    same = PlannerUnit("hard/8x9", "tensorplan.game.planning:GuessPlanner", 0)
    assert (unit.id == same.id, unit.planner) == (False, "tensorplan.game.planning:GuessPlanner:strategy=uniform")
    assert unit.run(lambda row: None).row.status == "done"
    for planner, sentence in [
        ("no.such:Planner", "there is no module 'no'"),
        ("tensorplan.loop:nothing", "there is no 'nothing' in 'tensorplan.loop'"),
        ("tensorplan.game.planning:GuessPlanner:width=3", "has no parameter 'width'"),
    ]:
        with pytest.raises(BadInput, match=sentence):
            Suite(("hard/8x9",), (planner,), (0,)).check()
