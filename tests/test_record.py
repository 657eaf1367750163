"""docs/paper_map.md names files, functions and tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE, TESTS = ROOT / "src" / "tensorplan", ROOT / "tests"
LINES = (ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8").splitlines()
TEST = re.compile(r"(?P<file>[\w/]*test_\w+\.py)?(?:::(?P<name>\w+))?")
CODE = re.compile(r"(?P<module>[a-z_]+(?:/\w+)+)(?:\.(?P<name>\w+))?(?:\.py)?(?:\(.*\))?")


def mentions(pattern):
    for line in LINES:
        for quoted in re.findall(r"`([^`]+)`", line):
            found = pattern.fullmatch(quoted)
            if found and any(found.groups()):
                yield line, quoted, found


def test_tests_exist():
    count, line, file = 0, "", TESTS
    for here, quoted, found in mentions(TEST):
        if found["file"]:
            file = TESTS / found["file"]
        else:
            assert here == line, f"{quoted} follows no file"
        line = here
        assert file.is_file(), quoted
        assert not found["name"] or f"def {found['name']}(" in file.read_text(encoding="utf-8"), (file.name, quoted)
        count += 1
    assert count > 100


def test_functions_exist():
    count = 0
    for _, quoted, found in mentions(CODE):
        if quoted.startswith("src/") or "/test_" in quoted:
            continue
        module = (ROOT if quoted.startswith("benchmarks/") else PACKAGE) / f"{found['module']}.py"
        assert module.is_file(), quoted
        name = found["name"]
        if name and name != "py":
            assert re.search(rf"^(?:def|class) {name}\b|^{name}\b", module.read_text(encoding="utf-8"), re.M), quoted
        count += 1
    assert count > 50
