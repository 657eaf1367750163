"""The house rules: imports run along the way of the data, rooms stay small, and a name has one meaning."""

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tensorplan

ROOT = Path(tensorplan.__file__).parent
ROOMS = [
    *("core", "features", "problems", "access", "parallel", "optimism", "proofs", "hindsight", "planners"),
    *("loop", "evaluation", "diagnosis", "sweeps", "game", "paper", "bridges", "report", "testing", "cli"),
]
"""From the bottom up: a room may import those before it."""
PLANNERS = {
    **{"evidence": 0, "hindsight": 0, "tensorplan": 1, "certified": 1, "printed": 1},
    **{"linear_q": 2, "bilin_ucb": 2, "registry": 3},
}
"""Likewise inside ``planners``, for the rooms that build on one another."""
FACE = {"tensorplan", "tensorplan.__main__"}
"""The public names, which come from everywhere, and the way in from the command line."""
LARGEST = 12
"""Modules in a room."""
SHARED = {"tensorplan.core.errors", "tensorplan.optimism", "tensorplan.optimism.program", "tensorplan.optimism.verify"}
"""What the checker of proofs may know beside itself."""


def _module(path):
    return ".".join(["tensorplan", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")


MODULES = {_module(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def _imports(module):
    """The modules of the package that a module imports, wherever the import stands."""
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module


IMPORTS = {module: set(_imports(module)) - {module} for module in MODULES}


def _room(module):
    return module.split(".")[1]


def test_every_module_has_a_room():
    assert {_room(module) for module in set(MODULES) - FACE} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_run_down(room):
    """Lazy ones and those for types included."""
    below = ROOMS[: ROOMS.index(room) + 1]
    for module in set(MODULES) - FACE:
        if _room(module) == room:
            assert all(other != "tensorplan" and _room(other) in below for other in IMPORTS[module]), module


def test_planners_build_on_one_another_in_one_direction():
    def rank(module):
        parts = module.split(".")
        return PLANNERS.get(parts[2], -1) if parts[1:2] == ["planners"] and len(parts) > 2 else -1

    for module in MODULES:
        if rank(module) >= 0:
            assert all(rank(other) <= rank(module) for other in IMPORTS[module]), module


def test_no_module_imports_itself_by_way_of_others():
    try:
        TopologicalSorter({module: others for module, others in IMPORTS.items() if module not in FACE}).prepare()
    except CycleError as error:
        pytest.fail(f"a cycle: {' -> '.join(error.args[1])}")


def test_rooms_are_small():
    sizes = defaultdict(list)
    for path in ROOT.rglob("*.py"):
        if path.name != "__init__.py":
            sizes[path.parent].append(path.stem)
    assert max(map(len, sizes.values())) > 5
    assert {str(room.relative_to(ROOT)): len(names) for room, names in sizes.items() if len(names) > LARGEST} == {}


def test_a_public_class_name_has_one_meaning():
    homes = defaultdict(list)
    for module, tree in MODULES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    assert len(homes) > 150
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_a_public_function_is_not_hidden_by_a_room_of_its_name():
    """``import tensorplan.x.y`` would put the room ``tensorplan.x`` where the function was."""
    functions = set(tensorplan.__all__) - set(tensorplan._ROOMS)
    assert not functions & {path.stem for path in ROOT.iterdir()}


def test_the_optimiser_stands_alone():
    known = {other for module in MODULES if _room(f"{module}.") == "optimism" for other in IMPORTS[module]}
    assert {other for other in known if _room(other) != "optimism"} == {
        "tensorplan.core.compiled",
        "tensorplan.core.errors",
    }


def test_the_checkers_share_no_code_with_what_they_check():
    """That of trees knows what a program is; that of proofs knows programs and the first checker as well."""
    trees = {m for m in MODULES if m.startswith("tensorplan.optimism.verify")}
    assert {o for m in trees for o in IMPORTS[m]} - trees <= {"tensorplan.core.errors", "tensorplan.optimism.program"}
    proofs = {m for m in MODULES if m.startswith("tensorplan.proofs")}
    assert len(proofs) >= 3
    assert {o for m in proofs for o in IMPORTS[m]} - proofs <= SHARED
    for module in proofs | trees:
        names = {node.id for node in ast.walk(MODULES[module]) if isinstance(node, ast.Name)}
        assert not names & {"import_module", "__import__"}, module
        assert not any(isinstance(n, ast.ImportFrom) and n.level for n in ast.walk(MODULES[module])), module
    taken = {
        alias.name
        for module in proofs
        for node in ast.walk(MODULES[module])
        if isinstance(node, ast.ImportFrom) and node.module == "tensorplan.optimism"
        for alias in node.names
    }
    assert "solve" not in taken
    assert "verify" in taken
