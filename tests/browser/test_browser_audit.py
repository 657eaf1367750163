"""The page on an audit in a browser."""

import pytest

import tensorplan as tp
from tensorplan.hindsight.blame import Share
from tensorplan.report.audit_page import write_audit_page


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    stages = {stage: Share(0.1 * stage, 0.2 - 0.05 * stage) for stage in range(40)}
    states = ((f"({'1, ' * 40}), stage 3", Share(1.0, -0.5)),)
    audit = tp.Audit(
        "a problem with a long name/6:features=payoff@time",
        "a policy with a long name, and many=parameters",
        *(4.1, 4.9, 0.6, 0.95, 10**7, "budget"),
        return_range=(0.0, 16.0),
        scenarios=10,
        mean_return=4.3,
        stages=stages,
        states=states,
    )
    return write_audit_page(audit, tmp_path_factory.mktemp("audit") / "page.html")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_fits_and_draws_its_pictures(page, visit, scheme, width):
    shown = visit(page, color_scheme=scheme, viewport={"width": width, "height": 844})
    assert shown.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert shown.locator("svg.plot").count() == 3
    assert shown.locator("#blame path.marker").count() == 80 + 2  # two bars a stage, and the legend
