import re

import pytest

import tensorplan as tp
from tensorplan.report.trace_page import trace_page, write_trace_page

PROBLEMS = {
    "hanoi/4": lambda: tp.make("hanoi/4"),
    "layered/3x2": lambda: tp.make("layered", actions=3, d=2, horizon=8, states=200, seed=1),
    "layered/3x8": lambda: tp.make("layered", actions=3, d=8, horizon=10, states=100, seed=1),
    "layered-stochastic/2x2": lambda: tp.make("layered-stochastic/2x2", seed=1),
    "chinese-rings/6": lambda: tp.make("chinese-rings/6"),
    "grid/6x5": lambda: tp.make("grid/6x5"),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def page_of(name):
        if name not in made:
            (episode,) = tp.run(PROBLEMS[name](), tp.TensorPlan(trace=True)).episodes
            path = folder / (name.replace("/", "-") + ".html")
            write_trace_page(name, episode.trace, path, certificate=episode.certificate)
            made[name] = episode.trace, path
        return made[name]

    return page_of


def shown(page):
    """The parts of a step, as the reader sees them."""
    words = [page.inner_text(f"#{part}") for part in ("sentence", "step", "queries", "theta")]
    return [*words, page.get_attribute("#chart .way", "d"), page.inner_html("#disc"), page.inner_html("#plot")]


def current(page):
    return int(re.match(r"step (\d+) of", page.inner_text("#step"))[1])


def until(page, part, pattern):
    from playwright.sync_api import expect

    expect(page.locator(part)).to_have_text(re.compile(pattern), timeout=60_000)


@pytest.mark.parametrize(
    ("name", "width"), [*((name, 1280) for name in PROBLEMS), ("hanoi/4", 390), ("layered/3x8", 390)]
)
def test_every_step_is_drawn_without_complaint(visit, pages, name, width):
    trace, path = pages(name)
    page = visit(path, viewport={"width": width, "height": 800})
    for k, now in enumerate(trace.iterations):
        assert current(page) == k + 1
        assert page.inner_text("#queries") == f"{now.queries:,}"
        assert page.locator("#chart .fail").count() == len(now.failures)
        assert page.locator("#disc .theta").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert "NaN" not in page.inner_html("main")
        assert "undefined" not in page.inner_html("main")
        page.keyboard.press("ArrowRight")
    assert page.is_disabled("#next")
    assert "in any case" in page.inner_text("#claim")


def test_stepping_by_keyboard_and_by_buttons_is_the_same(visit, pages):
    trace, path = pages("hanoi/4")
    page = visit(path, reduced_motion="reduce")
    seen = [shown(page)]
    for _ in trace.iterations[1:]:
        page.keyboard.press("ArrowRight")
        seen.append(shown(page))
    assert len({parts[1] for parts in seen}) == len(seen)
    assert len({parts[0] for parts in seen}) == len({parts[4] for parts in seen}) == 5
    page.keyboard.press("ArrowRight")
    assert shown(page) == seen[-1]
    page.click("#back")
    assert shown(page) == seen[-2]
    page.keyboard.press("ArrowLeft")  # the button that was clicked keeps no key for itself
    assert shown(page) == seen[-3]
    page.keyboard.press("Home")
    assert shown(page) == seen[0]
    page.click("#next")
    assert shown(page) == seen[1]
    page.keyboard.press("End")
    assert shown(page) == seen[-1]
    page.click("#first")
    page.click("#end")
    assert shown(page) == seen[-1]
    page.fill("#slider", "3")
    assert shown(page) == seen[2]
    page.click("#plot", position={"x": 5, "y": 50})
    assert shown(page) == seen[0]


def test_a_link_leads_to_a_step(visit, pages):
    trace, path = pages("hanoi/4")
    page = visit(path, "#step=3")
    assert current(page) == 3
    page.keyboard.press("ArrowRight")
    assert page.url.endswith("#step=4")
    page.evaluate("location.hash = '#step=2'")
    until(page, "#step", "step 2")
    for fragment, step in (("#step=99", len(trace.iterations)), ("#step=0", 1), ("#other", 1), ("", 1)):
        assert current(visit(path, fragment)) == step


def test_play_and_pause(visit, pages):
    _, path = pages("hanoi/4")
    page = visit(path)
    page.select_option("#speed", "4")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Space")
    assert page.inner_text("#play").endswith("Pause")
    until(page, "#step", "step [345]")
    page.click("#play")
    stopped = current(page)
    page.wait_for_timeout(700)  # a step takes 450 ms
    assert current(page) == stopped
    page.keyboard.press("Space")
    until(page, "#step", "step 5")
    until(page, "#play", "Play")
    page.keyboard.press("Space")  # from the start again
    until(page, "#step", "step [12]")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#play").endswith("Play")


def test_the_puzzle_moves_along_the_path(visit, pages):
    trace, path = pages("hanoi/4")
    page = visit(path, "#step=5")
    assert page.inner_text("#moved") == "after 15 moves: the goal"
    assert page.locator("#picture rect").count() == 4
    end = page.inner_html("#picture")
    page.fill("#move", "0")
    assert page.inner_text("#moved") == "after 0 moves"
    assert page.inner_html("#picture") != end
    page.keyboard.press("Home")
    assert page.locator("#chart .here").count() == 1
    assert trace.iterations[4].path[0].state == "(0, 0, 0, 0)"


def test_theta_stands_where_the_trace_has_it(visit, pages):
    """On the screen: θ in the disc, at the height of what it promises."""
    trace, path = pages("layered/3x2")
    page = visit(path, reduced_motion="reduce", viewport={"width": 1280, "height": 800})
    for now in trace.iterations:
        ball = page.locator("#disc .ball").bounding_box()
        dot = page.locator("#disc .theta circle").bounding_box()
        middle = ball["y"] + ball["height"] / 2 - dot["y"] - dot["height"] / 2
        size = sum(x * x for x in trace.objective) ** 0.5
        promise = sum(a * b for a, b in zip(trace.objective, now.theta, strict=True)) / size / trace.radius
        assert middle / (ball["height"] / 2) == pytest.approx(promise, abs=0.02)
        page.keyboard.press("ArrowRight")


def test_light_and_dark(visit, pages):
    _, path = pages("hanoi/4")

    def brightness(page):
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", color)[:3])

    light, dark = visit(path, color_scheme="light"), visit(path, color_scheme="dark")
    assert brightness(light) > 600 > 150 > brightness(dark)
    light.click("#theme")
    dark.keyboard.press("d")
    assert brightness(dark) > 600 > 150 > brightness(light)
    light.click("#theme")
    assert brightness(light) > 600


def test_text_is_not_markup(visit, pages, tmp_path):
    trace, _ = pages("layered/3x2")
    name = "<img src=x onerror=document.title='gone'></script><b id=evil>"
    (tmp_path / "evil.html").write_text(trace_page(name, trace), encoding="utf-8")
    page = visit(tmp_path / "evil.html")
    assert page.title() == f"TensorPlan on {name}"
    assert page.locator("img, #evil").count() == 0
    assert name in page.inner_text("h1")
