"""The page on an audit, and what a notebook shows of it."""

import dataclasses
import math
import re
from html.parser import HTMLParser

import pytest

import tensorplan as tp
from tensorplan.hindsight.blame import Share
from tensorplan.report.audit_page import audit_page, write_audit_page

EVIL = "</script><script>alert(1)</script><img src=x onerror='alert(\"2\")'>&"
AUDIT = tp.Audit(
    "american-put/6",
    "UCT()",
    4.1,
    4.9,
    0.6,
    confidence=0.95,
    queries=123_456,
    status="budget",
    return_range=(0.0, 16.0),
    scenarios=100,
    episodes=1_000,
    mean_return=4.3,
    design="paired, 32 samples",
    seconds=1.5,
    stages={0: Share(0.1, 0.05), 1: Share(0.3, -0.02), 2: Share(0.0, 0.07)},
    states=(("3, stage 1", Share(0.25, -0.01)), ("0, stage 0", Share(0.1, 0.05))),
)


class Reader(HTMLParser):
    """Elements with their attributes, and text; all are closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_the_page_says_what_the_audit_says():
    texts = Reader(audit_page(AUDIT)).texts
    sentence = AUDIT.sentence
    assert f"{sentence[0].upper()}{sentence[1:]}." in texts
    for told in ("4.1", "4.3", "4.9", "0.6", "12.8%", "0.95", "123,456", "1.5 s", "100 (paired, 32 samples)"):
        assert told in texts
    assert "nothing but the simulator and its declared range of returns" in texts
    at = texts.index("3, stage 1")
    assert texts[at : at + 4] == ["3, stage 1", "0.24", "0.25", "-0.01"]


def test_the_bracket_is_drawn_on_the_range_and_close_up():
    reader = Reader(audit_page(AUDIT))
    labels = [a["aria-label"] for n, a in reader.tags if n == "svg" and "aria-label" in a]
    assert labels[0] == "The range of returns: lower 4.1, upper 4.9, mean return 4.3"
    assert labels[1].startswith("Close up: ")
    assert labels[2] == "the part of each of 3 stages in the mean gap"
    wide = dataclasses.replace(AUDIT, lower=1.0, upper=15.0)
    assert "Close up" not in audit_page(wide)


def test_bars_start_at_zero_and_point_the_right_way():
    page = audit_page(AUDIT)
    bars = re.findall(r"M(\S+) (\S+)h(\S+)V(\S+)h-\3Z", page)
    assert len(bars) == 6
    zero = {y for _, y, _, _ in bars}
    assert len(zero) == 1
    heights = [float(y) - float(end) for _, y, _, end in bars]  # up is positive
    shares = [s.hindsight for s in AUDIT.stages.values()] + [s.policy for s in AUDIT.stages.values()]
    assert [round(h / heights[1], 2) for h in heights] == pytest.approx([s / 0.3 for s in shares], abs=0.02)


def test_the_page_asks_nobody_and_runs_nothing():
    page = audit_page(AUDIT)
    reader = Reader(page)
    assert not any(n in ("script", "img") or "src" in a for n, a in reader.tags)
    assert not re.search(r"https?:|@import|url\(", page)
    policy = next(a["content"] for _, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy
    ids = [a["id"] for _, a in reader.tags if "id" in a]
    assert ids == ["bracket", "blame", "basis"]


def test_everything_is_escaped():
    evil = dataclasses.replace(AUDIT, problem=EVIL, policy=EVIL, design=EVIL, states=((EVIL, Share(1.0, 0.0)),))
    for page in (audit_page(evil), evil._repr_html_()):
        reader = Reader(page)
        assert not any(n in ("script", "img") for n, _ in reader.tags)
        assert any(EVIL in text for text in reader.texts)


def test_an_audit_without_a_bracket_has_a_page(tmp_path):
    none = dataclasses.replace(
        AUDIT, lower=0.0, upper=16.0, gap=16.0, scenarios=0, episodes=0, mean_return=math.nan, stages={}, states=()
    )
    page = write_audit_page(none, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "before the first look" in page
    assert "Where the gap comes from" not in page
    assert not list(tmp_path.glob("*.partial"))


def test_one_stage_has_no_bars():
    assert "part of the gap" not in audit_page(dataclasses.replace(AUDIT, stages={0: Share(0.5, 0.1)}))


def test_a_notebook_shows_a_small_table():
    reader = Reader(AUDIT._repr_html_())
    assert [n for n, _ in reader.tags].count("td") == 4
    assert {"4.1", "4.3", "4.9", "0.6", "american-put/6, UCT()", AUDIT.sentence} <= set(reader.texts)


def test_where_states_are_points_the_stages_remain():
    texts = Reader(audit_page(dataclasses.replace(AUDIT, states=()))).texts
    assert "Where the gap comes from" in texts
    assert "States" not in texts
    without = Reader(audit_page(dataclasses.replace(AUDIT, states=(), stages={}))).texts
    assert "Where the gap comes from" not in without
