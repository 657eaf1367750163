"""Every example runs, and prints what its page, or the README, says it prints."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_example(example):
    out = subprocess.run([sys.executable, str(example)], check=True, capture_output=True, text=True).stdout
    page = ROOT / "docs" / "cases" / f"{example.stem}.md"
    assert out.strip() in (page if page.exists() else ROOT / "README.md").read_text(encoding="utf-8")
    assert example.read_text(encoding="utf-8").count("\n") <= 60  # one screen
