"""Pages in a real browser: Debian's Chromium, or the one that CHROMIUM names, driven by Playwright."""

import os
import shutil

import pytest


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, for one file: Playwright keeps an event loop running, which others may not want."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no Chromium here: install it (apt-get install chromium) or name it in CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the extra dev)")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=options)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """visit(path, "#step=2", color_scheme="dark", ...): the page, open.

    Afterwards: it wrote nothing to the console as an error or a warning, and asked for no other address.
    """
    complaints, contexts = [], []

    def open_page(path, fragment="", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
        page.goto(path.resolve().as_uri() + fragment)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
