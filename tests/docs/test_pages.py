"""Every page of the documentation runs, and prints what it says (how: see blocks.py)."""

import re
from pathlib import Path

import pytest
from blocks import Page

ROOT = Path(__file__).parent.parent.parent
OUTSIDE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]  # of the site, whose links MkDocs checks
PAGES = [*OUTSIDE, *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")

README_LINES = 180
"""mctx has 144, cvxpy 158: what does not fit is a page of the documentation."""


SLOW = ("docs/audit.md", "docs/cases/cartpole.md")
"""Pages that take ten seconds or more; make slow runs them."""


def _marked(path):
    name = str(path.relative_to(ROOT))
    return pytest.param(path, id=name, marks=[pytest.mark.slow] * (name in SLOW))


@pytest.mark.parametrize("path", map(_marked, PAGES))
def test_page(path, tmp_path):
    for output in Page(path).run(tmp_path):
        assert output.agrees, f"{path.name}:{output.line} says\n{output.said}\nbut this is printed:\n{output.printed}"


def test_the_readme_is_short():
    lines = OUTSIDE[0].read_text(encoding="utf-8").count("\n")
    assert lines <= README_LINES, f"README.md has {lines} lines"


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.name)
def test_links_outside_of_the_site_lead_somewhere(path):
    targets = LINK.findall(path.read_text(encoding="utf-8"))
    assert targets
    missing = [target for target in targets if not (ROOT / target).exists()]
    assert not missing
