"""The public face: flat names, found when first used; problems and planners as objects or by name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import Walk, problem

import tensorplan as tp
from tensorplan.planners.registry import as_planner
from tensorplan.problems.catalog import as_problem

EXAMPLES = Path(__file__).parent.parent / "examples"


def python(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --------------------------------------------------------------------------------------------------- names


def test_dir_shows_public_names_only():
    shown = python("import tensorplan as tp; tp.run, tp.compare, tp.diagnose, tp.testing; print(*dir(tp))").split()
    assert set(shown) == {*tp.__all__, "__version__"}
    assert not {"annotations", "import_module", "TYPE_CHECKING", "Any", "core", "loop"} & set(shown)
    assert {"run", "compare", "judge", "diagnose", "side_by_side", "Learner", "Walk", "optimism"} <= set(shown)


@pytest.mark.parametrize("room", ["features", "game", "optimism", "proofs", "testing"])
def test_rooms_need_no_second_import(room):
    assert python(f"import tensorplan as tp; print(tp.{room}.__name__)") == f"tensorplan.{room}\n"


def test_importing_the_package_is_cheap():
    assert python("import sys, tensorplan; print('numpy' in sys.modules)") == "False\n"


def test_a_name_that_there_is_not():
    with pytest.raises(AttributeError, match="module 'tensorplan' has no attribute 'TensorPlam'"):
        _ = tp.TensorPlam


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_use_public_names_only(example):
    text = example.read_text(encoding="utf-8")
    modules = re.findall(r"^\s*(?:from|import) (tensorplan[\w.]*)", text, re.MULTILINE)
    assert set(modules) <= {"tensorplan", *(f"tensorplan.{room}" for room in tp._ROOMS)}
    assert set(re.findall(r"\btp\.(\w+)", text)) <= set(tp.__all__)


# ----------------------------------------------------------------------------------------------- by name


def test_run_takes_names():
    named, made = tp.run("hanoi/3", "tensorplan:delta=1"), tp.run(tp.make("hanoi/3"), tp.TensorPlan(delta=1))
    assert named.episodes[0].actions == made.episodes[0].actions
    assert (named.problem, named.planner) == (made.problem, made.planner) == ("hanoi/3", made.planner)


def test_a_random_family_without_a_seed_is_drawn_by_that_of_the_run():
    task = "layered/2x3:states=5:horizon=3"
    for seed in (0, 4):
        drawn = tp.run(tp.make(task, seed=seed), "random", seed=seed)
        assert tp.run(task, "random", seed=seed).episodes[0].rewards == drawn.episodes[0].rewards
    fixed = tp.run(tp.make(task, seed=1), "random", seed=4).episodes[0].rewards
    assert tp.run(f"{task}:seed=1", "random", seed=4).episodes[0].rewards == fixed
    assert tp.run(task, "random", seed=4).episodes[0].rewards != fixed


def test_judge_and_diagnose_take_names():
    assert tp.judge("hanoi/3", "oracle", 0.1).verdict == "sound"
    task = "layered/2x3:states=5:horizon=3"
    one, two = (tp.judge(p, "random", 0.1, episodes=5, seed=3).loss for p in (task, tp.make(task, seed=3)))
    assert one == two
    assert tp.diagnose("hanoi/3")["v"].realized
    assert tp.diagnose(task, seed=3)["v"].theta == tp.diagnose(tp.make(task, seed=3))["v"].theta


def lights():
    return problem()


NOT_PROBLEMS = [
    (None, r"^expected a problem, or the name of one such as 'hanoi/3', got None$"),
    (3, r"got 3$"),
    (tp.Problem, r"got <class 'tensorplan.core.problem.Problem'>, a class: make an instance of it$"),
    (Walk, r"a class: make an instance of it$"),
    (Walk(), r"an MDP without features: make a problem of it, as in tensorplan.Problem\(mdp, phi_v=.., bound=..\)$"),
    (lights, r"a function: call it first$"),
    (tp.UCT(), r"a planner: the problem comes first, then the planner$"),
    ("hanio/3", r"^unknown problem 'hanio'; did you mean 'hanoi'\?$"),
    ("hanoi/3:disk", r"^'hanoi/3:disk': expected key=value after ':', got 'disk'$"),
]


@pytest.mark.parametrize("call", [as_problem, lambda p: tp.run(p, "uct"), lambda p: tp.judge(p, "uct", 1), tp.diagnose])
@pytest.mark.parametrize(("thing", "sentence"), NOT_PROBLEMS)
def test_what_is_not_a_problem(call, thing, sentence):
    with pytest.raises(tp.BadInput, match=sentence) as info:
        call(thing)
    assert "\n" not in str(info.value)


def test_an_environment_is_not_a_problem():
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(tp.BadInput, match=r"an environment: make a problem of it, as in tensorplan.from_gym"):
        tp.run(gymnasium.make("CartPole-v1"), "uct")


class Acting:
    def act(self, node):
        return 0


NOT_PLANNERS = [
    (
        None,
        r"^expected a planner, or the name of one such as 'uct', got None: a planner has a method begin\(access, rng\)",
    ),
    (tp.UCT, r"got <class 'tensorplan.*UCT'>, a class: make an instance of it$"),
    (lights, r"a function: call it first$"),
    (Acting(), r"a policy: a planner has a method begin\(access, rng\) that returns one$"),
    (problem(), r"a problem: the problem comes first, then the planner$"),
    ("hanoi/3", r"^'hanoi/3' is a problem, not a planner: the problem comes first, then the planner$"),
    ("utc", r"^unknown planner 'utc'; did you mean 'uct'\?$"),
    ("uct/3", r"a planner takes key=value parameters behind ':'"),
]


@pytest.mark.parametrize("call", [as_planner, lambda p: tp.run("hanoi/2", p), lambda p: tp.judge("hanoi/2", p, 1)])
@pytest.mark.parametrize(("thing", "sentence"), NOT_PLANNERS)
def test_what_is_not_a_planner(call, thing, sentence):
    with pytest.raises(tp.BadInput, match=sentence) as info:
        call(thing)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize(
    ("first", "second"), [("uct", "hanoi/3"), (tp.UCT(), "hanoi/3"), ("uct", problem()), (tp.UCT(), problem())]
)
def test_swapped_arguments(first, second):
    with pytest.raises(tp.BadInput, match="the problem comes first, then the planner"):
        tp.run(first, second)
