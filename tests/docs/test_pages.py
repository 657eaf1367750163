"""Every page of the documentation runs, and prints what it says (how: see blocks.py)."""

from pathlib import Path

import pytest
from blocks import Page

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_page(path, tmp_path):
    for output in Page(path).run(tmp_path):
        assert output.agrees, f"{path.name}:{output.line} says\n{output.said}\nbut this is printed:\n{output.printed}"
