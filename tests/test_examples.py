"""Every example runs, and prints what its page, or the README, says it prints; ``make examples`` runs the slow ones."""

import subprocess
import sys
from pathlib import Path

import pytest
from blocks import Page, same

ROOT = Path(__file__).parent.parent
SLOW = (
    "american_option",
    "cartpole",
    "cliff_walking",
    "frozen_lake",
    "frozen_lake_slippery",
    "options",
    "queue_admission",
    "taxi",
    "trained_agent",
)  # several seconds or more
NEEDS = {"trained_agent": "stable_baselines3"}  # an extra that brings gigabytes, and is not part of `dev`
EXAMPLES = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW))
    for path in sorted((ROOT / "examples").glob("*.py"))
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example):
    if example.stem in NEEDS:
        pytest.importorskip(NEEDS[example.stem])
    out = subprocess.run([sys.executable, str(example)], check=True, capture_output=True, text=True).stdout
    page = ROOT / "docs" / "cases" / f"{example.stem}.md"
    blocks = Page(page if page.exists() else ROOT / "README.md").blocks
    assert any(same(block.text, out) for block in blocks), out
    assert example.read_text(encoding="utf-8").count("\n") <= 60  # one screen
