"""Pages name files, functions and tests that exist: the paper map, the architecture, the guide for contributors."""

import re
from pathlib import Path

import pytest

import tensorplan

ROOT = Path(__file__).parent.parent
PACKAGE, TESTS = ROOT / "src" / "tensorplan", ROOT / "tests"
PAPER_MAP = ROOT / "docs" / "paper_map.md"
PAGES = [PAPER_MAP, ROOT / "docs" / "architecture.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]
PAGES += [ROOT / "CONTRIBUTING.md"]
TEST = re.compile(r"(?P<file>[\w/]*test_\w+\.py)?(?:::(?P<name>\w+))?")
CODE = re.compile(r"(?P<module>[a-z_]+(?:/\w+)+)(?:\.(?P<name>\w+))?(?:\.py)?(?:\(.*\))?")
CATALOG_NAME = re.compile(r"[a-z-]+/\d[\dx]*")
"""Such as ``hanoi/8``: a problem, not a file."""
ELSEWHERE = ("src/", "tests/", "docs/", "examples/")
"""Paths that start from the root of the repository, not of the package."""


def mentions(path, pattern):
    for line in path.read_text(encoding="utf-8").splitlines():
        for quoted in re.findall(r"`([^`]+)`", line):
            found = pattern.fullmatch(quoted)
            if found and any(found.groups()):
                yield line, quoted, found


def test_tests_exist():
    count, line, file = 0, "", TESTS
    for here, quoted, found in mentions(PAPER_MAP, TEST):
        if found["file"]:
            file = TESTS / found["file"]
        else:
            assert here == line, f"{quoted} follows no file"
        line = here
        assert file.is_file(), quoted
        assert not found["name"] or f"def {found['name']}(" in file.read_text(encoding="utf-8"), (file.name, quoted)
        count += 1
    assert count > 100


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_exist(path):
    count = 0
    for _, quoted, found in mentions(path, CODE):
        if quoted.startswith(ELSEWHERE) or "/test_" in quoted or CATALOG_NAME.fullmatch(quoted):
            continue
        module = (ROOT if quoted.startswith("benchmarks/") else PACKAGE) / f"{found['module']}.py"
        assert module.is_file(), quoted
        name = found["name"]
        if name and name != "py":
            assert re.search(rf"^(?:def|class) {name}\b|^{name}\b", module.read_text(encoding="utf-8"), re.M), quoted
        count += 1
    assert count > 50 or path != PAPER_MAP


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_paths_from_the_root_exist(path):
    for quoted in re.findall(r"`([^`]+)`", path.read_text(encoding="utf-8")):
        if quoted.startswith(ELSEWHERE) and "*" not in quoted and " " not in quoted:
            assert (ROOT / quoted.partition("::")[0]).exists(), quoted


def test_every_room_is_in_the_table_of_rooms():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file())
    assert [room for room in rooms if f"\n| `{room}/` |" not in text] == []


def test_the_changelog_has_this_version():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[:2] == ["Unreleased", tensorplan.__version__]
