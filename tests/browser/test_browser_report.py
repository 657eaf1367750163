import re

import pytest

from tensorplan.evaluation.row import Row
from tensorplan.report.page import write_report
from tensorplan.sweeps.store import Store
from tensorplan.sweeps.suite import Suite

SUITE = Suite(("hanoi/3", "hanoi/10", "layered/2x4"), ("tensorplan", "random"), range(20))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    with Store.create(folder, SUITE) as store:
        for number, unit in enumerate(SUITE.units()):
            good = number % 7 > 0
            store.add(
                Row(
                    id=unit.id,
                    problem=unit.problem,
                    planner=unit.planner,
                    seed=unit.seed,
                    status="done" if good else "failed",
                    error=None if good else "<b>No</b> memory.",
                    dimension=3 + number % 2,
                    optimal=8.0 if good else None,
                    regret=number / 50 if good else None,
                    queries=number * 37 % 101 if good else None,
                    trace="a b.json" if good else None,
                )
            )
        return write_report(store, folder / "report.html")


def column(page, name):
    names = [text.strip(" ↑↓↕") for text in page.locator("#runs thead th").all_inner_texts()]
    return page.locator(f"#runs tbody tr > :nth-child({names.index(name) + 1})").all_inner_texts()


def test_sorting(visit, path):
    page = visit(path)
    head = page.locator("#runs th", has_text="queries")
    for direction, order in [("ascending", 1), ("descending", -1)]:
        head.locator("button").press("Enter")
        assert head.get_attribute("aria-sort") == direction
        seen = [int(text) * order for text in column(page, "queries")]
        assert len(seen) == 50
        assert seen == sorted(seen)
    page.click("#runs-next")
    page.click("#runs-next")
    assert set(column(page, "queries")[-18:]) == {"–"}
    page.locator("#runs thead button", has_text="problem").click()
    assert set(column(page, "problem")) == {"hanoi/3", "hanoi/10"}
    assert column(page, "problem")[0] == "hanoi/3"


def test_filtering_and_paging(visit, path):
    page = visit(path)
    assert page.inner_text("#runs-count") == "1 to 50 of 120 runs"
    assert page.is_disabled("#runs-back")
    page.click("#runs-next")
    assert page.inner_text("#runs-count") == "51 to 100 of 120 runs"
    page.select_option("#runs-planner", "random")
    assert page.inner_text("#runs-count") == "1 to 50 of 60 runs"
    page.fill("#runs-search", "LAYERED")
    assert page.inner_text("#runs-count") == "1 to 20 of 20 runs"
    page.select_option("#runs-status", "failed")
    assert column(page, "status") == ["failed"] * 3
    assert column(page, "message") == ["<b>No</b> memory."] * 3
    page.fill("#runs-search", "nothing like it")
    assert page.inner_text("#runs-count") == "no runs"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_themes(visit, path, scheme):
    page = visit(path, color_scheme=scheme)
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(251, 251, 250)", "rgb(20, 23, 26)"
    assert page.evaluate(ground) == (light if scheme == "light" else dark)
    for text, colour in [("theme: light", light), ("theme: dark", dark)]:
        page.click("#theme")
        assert page.inner_text("#theme") == text
        assert page.evaluate(ground) == colour
    page.reload()
    page.wait_for_function(f"{ground} === '{dark}'")


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_is_wider_than_the_screen(visit, path, width):
    page = visit(path, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not re.search("NaN|undefined|Infinity", page.inner_text("main"))


def test_the_legend_hides_a_planner(visit, path):
    page = visit(path)
    series = page.locator("[data-series='1']")
    assert series.count() >= 2
    page.click("[data-toggle='1']")
    assert page.get_attribute("[data-toggle='1']", "aria-pressed") == "false"
    assert not any(series.nth(k).is_visible() for k in range(series.count()))


def test_links_to_traces(visit, path):
    page = visit(path)
    assert page.locator("#runs tbody a").first.get_attribute("href") == "traces/a%20b.json"
