"""Names of the user's own code: what they mean, and what is said where they mean nothing."""

import os
import sys

import pytest

from tensorplan.core.errors import BadInput, ProblemError
from tensorplan.core.user_code import is_user_code, load, parse_name


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder that relative files and modules are looked for in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("mymodule:make", ("mymodule:make", "", {})),
        ("my.module:Class.make:size=5:name=a", ("my.module:Class.make", "", {"size": 5, "name": "a"})),
        ("./mine.py:make", ("./mine.py:make", "", {})),
        ("/a b/c-d/mine.py:make:size=5", ("/a b/c-d/mine.py:make", "", {"size": 5})),
        ("C:\\mine.py:make:x=1", ("C:\\mine.py:make", "", {"x": 1})),
        ("hanoi/3", ("hanoi", "3", {})),
        ("hanoi/3:disks=mine.py", ("hanoi", "3", {"disks": "mine.py"})),
    ],
)
def test_names(spec, parts):
    assert parse_name(spec, {"hanoi"}) == parts
    assert is_user_code(parts[0]) == (parts[0] != "hanoi")


@pytest.mark.parametrize("spec", ["hanoi:disks", "mymodule:make:size", "mymodule:3", "./mine.py:", "mymodule:make-it"])
def test_what_is_no_name(spec):
    with pytest.raises(BadInput, match="expected key=value after ':'"):
        parse_name(spec, {"hanoi"})


def test_a_module_and_a_file(here):
    (here / "shapes.py").write_text("def make(size=2):\n    return 'square', size\n")
    assert load("shapes:make")(size=3) == ("square", 3)
    assert load("./shapes.py:make")() == load(f"{here}/shapes.py:make")() == ("square", 2)
    (here / "inner").mkdir()
    (here / "inner" / "kinds.py").write_text("class Kinds:\n    @staticmethod\n    def make():\n        return 'in'\n")
    assert load("inner.kinds:Kinds.make")() == load("inner/kinds.py:Kinds.make")() == "in"


def test_a_file_is_run_once_and_again_when_it_has_changed(here):
    file = here / "counted.py"
    file.write_text("import sys\nsys.counted = getattr(sys, 'counted', 0) + 1\ndef make():\n    return sys.counted\n")
    assert [load("./counted.py:make")() for _ in range(3)] == [1, 1, 1]
    os.utime(file, (0, 0))
    assert load("./counted.py:make")() == 2
    del sys.counted


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        ("", "nowhere_at_all:make", r"^there is no module 'nowhere_at_all'$"),
        ("", "json.nowhere:make", r"^there is no module 'json.nowhere'$"),
        ("", "./nowhere.py:make", r"^cannot read './nowhere.py': No such file or directory$"),
        ("def make(): pass", "./own.py:mkae", r"^there is no 'mkae' in './own.py'; did you mean 'make'\?$"),
        ("", "./own.py:make", r"^there is no 'make' in './own.py'; there are none$"),
        ("make = 3", "./own.py:make", r"^'./own.py:make' is not a function or a class: it is 3$"),
        ("make = type", "./own.py:make", r"^'./own.py:make' does not say which parameters it takes$"),
        ("make = 1 / 0", "./own.py:make", r"^running './own.py' raised ZeroDivisionError: .* \(own.py, line 1\)$"),
        ("x = 1\nmake = 1 / 0", "own:make", r"^importing 'own' raised ZeroDivisionError: .* \(own.py, line 2\)$"),
        ("import nothing_like_it", "own:make", r"^importing 'own' raised ModuleNotFoundError: .* \(own.py, line 1\)$"),
        ("make = (", "./own.py:make", r"^running './own.py' raised SyntaxError: .*own.py, line 1\)$"),
        ("import sys\nsys.exit(3)", "./own.py:make", r"^running './own.py' raised SystemExit: 3 \(own.py, line 2\)$"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_a_sentence(here, text, name, sentence):
    (here / "own.py").write_text(text + "\n")
    with pytest.raises(BadInput, match=sentence):
        load(name)


def test_what_user_code_raises_is_said_with_its_line(here):
    (here / "own.py").write_text("import json\n\ndef make(text='{'):\n    return json.loads(text)\n")
    with pytest.raises(BadInput, match=r"^'./own.py:make' raised JSONDecodeError: .* \(own.py, line 4\)$") as info:
        load("./own.py:make")()
    assert type(info.value.__cause__).__name__ == "JSONDecodeError"
    (here / "broken.py").write_text(
        "from tensorplan import ProblemError\n\ndef make():\n    raise ProblemError('the boat sinks')\n"
    )
    with pytest.raises(ProblemError, match=r"^the boat sinks$"):
        load("./broken.py:make")()
