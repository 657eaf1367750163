"""The site is built without a warning, asks for nothing outside of it, and works from a folder, search included."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FETCHED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"?([^\"> ]+)")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="MkDocs is not installed (the extra docs)")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed (the extra docs)")
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return built(base / "site")
    shared = base.parent / "site"  # one for all workers: the first one builds it
    try:
        (base.parent / "site.begun").touch(exist_ok=False)
    except FileExistsError:
        while not (base.parent / "site.done").exists():
            time.sleep(0.2)
        return shared
    try:
        return built(shared)
    finally:
        (base.parent / "site.done").touch()


def built(folder):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def pages(site):
    return sorted(path for path in site.rglob("*.html") if path.name != "404.html")


def test_nothing_is_fetched_from_elsewhere(site):
    found = pages(site)
    assert len(found) > 10
    for path in found:
        text = path.read_text(encoding="utf-8")
        strange = [url for url in FETCHED.findall(text) if re.match(r"(?:https?:)?//", url)]
        assert not strange, f"{path.relative_to(site)} asks for {strange}"
    for path in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", path.read_text(encoding="utf-8")), path


def test_every_picture_is_drawn_and_no_docstring_is_left_as_it_was(site):
    for path in pages(site):
        text = path.read_text(encoding="utf-8")
        assert "<!-- picture:" not in text, path
        assert not re.search(r":(?:class|func|meth|mod|data|attr):", text), path


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), pytest.param("dark", 390, marks=pytest.mark.slow)])
def test_pages_load_without_a_complaint_and_fit(site, visit, scheme, width):
    page = visit(site / "index.html", color_scheme=scheme, viewport={"width": width, "height": 844})
    for path in pages(site):
        if scheme == "light" and "api" in path.parts:  # long pages, which the slow test visits
            continue
        page.goto(path.as_uri())
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, f"{path.relative_to(site)} is {over} pixels too wide"


def test_search_works_without_a_server(site, visit):
    page = visit(site / "index.html", viewport={"width": 1280, "height": 844})
    page.get_by_placeholder("Search").press_sequentially("misspecification")
    page.locator(".md-search-result__item a").first.wait_for()
    assert page.locator(".md-search-result__item").count() > 1


def test_the_run_in_the_page_can_be_stepped_through(site, visit):
    page = visit(site / "idea.html", viewport={"width": 1280, "height": 844})
    page.locator(".trace iframe").scroll_into_view_if_needed()
    frame = page.frame_locator(".trace iframe")
    before = frame.locator("#sentence").inner_text()
    frame.locator("#next").click()
    assert frame.locator("#sentence").inner_text() != before
