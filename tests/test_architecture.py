"""Imports run along the way of the data, never back; the optimiser is a room of its own."""

import re
from pathlib import Path

import pytest

import tensorplan

ROOT = Path(tensorplan.__file__).parent
ORDER = [
    *("errors", "core", "specs", "intervals", "hypercube", "native", "features", "problems", "access"),
    *("proofs", "planners", "loop", "game", "lab", "bridges", "report", "terminal", "cli"),
]


def imports(path):
    return re.findall(r"^\s*(?:from|import) tensorplan\.(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("room", ORDER)
def test_imports_run_one_way(room):
    files = sorted((ROOT / room).glob("*.py")) or [ROOT / f"{room}.py"]
    assert all(path.exists() for path in files)
    for path in files:
        for other in imports(path):
            assert other == room or other == "optimism" or ORDER.index(other) < ORDER.index(room), (path.name, other)


def test_the_optimiser_imports_nothing_of_ours_but_the_errors():
    files = sorted((ROOT / "optimism").glob("*.py"))
    assert len(files) >= 6
    assert {other for path in files for other in imports(path)} == {"optimism", "errors"}


def test_the_checker_shares_no_code_with_the_search():
    text = (ROOT / "optimism" / "verify.py").read_text(encoding="utf-8")
    assert set(re.findall(r"tensorplan\.optimism\.(\w+) import", text)) == {"program"}


def test_the_checker_of_proofs_shares_no_code_with_the_planners():
    """It knows the optimiser's programs and their checker, the errors, and nothing else of the package."""
    files = sorted((ROOT / "proofs").glob("*.py"))
    assert len(files) >= 3
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    assert {other for path in files for other in imports(path)} == {"proofs", "optimism", "errors"}
    assert set(re.findall(r"^from tensorplan\.optimism import (.*)$", text, re.MULTILINE)) == {
        "Certificate, Program, Solution, verify"
    }
    assert set(re.findall(r"tensorplan\.optimism\.(\w+) import", text)) == {"program"}
    assert not re.search(r"^\s*from \.|import_module|__import__", text, re.MULTILINE)
