import json
import math
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import pytest
from inline import Inline

import tensorplan as tp
from tensorplan.evaluation.row import Row
from tensorplan.paper.hardness import HardnessExperiment, hardness
from tensorplan.report import svg
from tensorplan.report.markup import Markup, join, tag
from tensorplan.report.page import report, write_report
from tensorplan.sweeps.standings import comparisons, standings
from tensorplan.sweeps.statistics import bootstrap
from tensorplan.sweeps.store import Store
from tensorplan.sweeps.suite import Suite

SUITE = Suite(("hanoi/3", "layered/2x4", "layered/2x8"), ("tensorplan", "uct:simulations=20", "random"), range(4))
EVIL = "</script><script>alert(1)</script><img src=x onerror='alert(\"2\")'>&"


def result(unit: Any, **changes: Any) -> Row:
    """A made-up run of a unit."""
    kind = ["tensorplan", "uct", "random"].index(unit.planner.split(":")[0])
    sizes = {"hanoi/3": (3, 3, None), "layered/2x4": (2, 4, 10), "layered/2x8": (2, 8, 10)}
    actions, dimension, horizon = sizes[unit.problem]
    optimal, regret = -7.0, float(kind * (1 + unit.seed))
    row = Row(
        id=unit.id,
        problem=unit.problem,
        planner=unit.planner,
        seed=unit.seed,
        status="done",
        actions=actions,
        dimension=dimension,
        horizon=horizon,
        optimal=optimal,
        total_reward=optimal - regret,
        regret=regret,
        steps=7,
        queries=[dimension * 5 + unit.seed, 1000, 0][kind],
        worst_call=[15, 100, 0][kind],
        seconds=0.25,
    )
    return replace(row, **changes)


def stored(folder: Path, **changes: Any) -> Store:
    """A store on the disk."""
    store = Store.create(folder, SUITE)
    for unit in SUITE.units():
        store.add(result(unit, **changes))
    return store


class Stand(Store):
    """A store in memory, with rows of our own making, such as a tampered database may hold."""

    suite = SUITE
    machine: ClassVar[dict[str, Any]] = {}  # type: ignore[misc]

    def __init__(self, rows: list[Row], folder: Path = Path("out")) -> None:
        self.folder, self._rows = folder, rows

    def rows(self) -> list[Row]:
        return self._rows

    def _get(self, key: str) -> str | None:
        return self.suite.as_json() if key == "suite" else None


def filled(folder: Path, **changes: Any) -> Store:
    return Stand([result(unit, **changes) for unit in SUITE.units()], folder)


class Reader(HTMLParser):
    """The page taken apart: text and attributes by element, and all elements with whether they were closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="runs-data">(.*?)</script>', page, re.S)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def rows_of(page: str) -> list[dict[str, Any]]:
    data = data_of(page)
    rows = [dict(zip(data["fields"], row, strict=True)) for row in data["rows"]]
    for row in rows:
        row.update({name: None if row[name] is None else data["words"][row[name]] for name in data["wordy"]})
    return rows


def test_the_page_holds_every_run(tmp_path):
    store = stored(tmp_path)
    path = write_report(store, tmp_path / "report.html")
    page = path.read_text(encoding="utf-8")
    expected = [{name: getattr(row, name) for name in data_of(page)["fields"]} for row in store.rows()]
    assert rows_of(page) == expected
    assert not list(tmp_path.glob("*.partial"))


def test_the_headline_is_that_of_the_statistics(tmp_path):
    store = filled(tmp_path)
    page = report(store, tmp_path)
    uct = standings(store.rows())[1]
    assert uct.regret is not None
    by_hand = bootstrap([[(1 + seed) / 7 for seed in range(4)]] * 3)
    assert uct.regret == pytest.approx(by_hand, abs=1e-8)
    assert f"{uct.regret.mean:.3g} <small>[{uct.regret.low:.3g}, {uct.regret.high:.3g}]</small>" in page
    improvement = comparisons(store.rows())[0].improvement
    assert improvement is not None
    assert improvement.mean == 1.0
    assert "1 <small>[1, 1]</small>" in page


def test_the_page_is_well_formed_and_asks_nobody(tmp_path):
    page = report(filled(tmp_path), tmp_path)
    reader = Reader(page)
    assert reader.open == []
    for name, attributes in reader.tags:
        assert "src" not in attributes
        assert not any(key.startswith("on") for key in attributes)
        href = attributes.get("href") or "#"
        assert href.startswith("#") or (name == "link" and href == "data:,")
    assert "http:" not in page
    assert "https:" not in page
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|innerHTML", page)
    policy = next(a["content"] for n, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    ids = [a["id"] for _, a in reader.tags if "id" in a]
    assert len(ids) == len(set(ids))
    anchors = [a["href"] for n, a in reader.tags if n == "a"]
    assert anchors == ["#asked", "#planners", "#versus", "#pictures", "#runs"]
    assert {a[1:] for a in anchors if a} <= set(ids)


def test_the_script_is_the_one_that_the_policy_allows(tmp_path):
    page = report(filled(tmp_path), tmp_path)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    policy = next(a["content"] for _, a in Reader(page).tags if a.get("http-equiv") == "Content-Security-Policy")
    assert f"script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}';" in str(policy)


def test_everything_from_a_file_is_escaped():
    rows = []
    for unit in SUITE.units():
        row = result(unit)
        failed = {"status": EVIL, "error": EVIL} if unit.seed == 0 else {}
        rows.append(
            replace(
                row, problem=EVIL + unit.problem, planner=EVIL + unit.planner, certificate=EVIL, trace=EVIL, **failed
            )
        )
    store = Stand(rows)
    store.machine = {EVIL: {EVIL: EVIL}, "also": [EVIL, {"platform": EVIL}]}  # type: ignore[misc]
    page = report(store, Path("out"))
    reader = Reader(page)
    assert reader.open == []
    assert [a.get("type") for n, a in reader.tags if n == "script"] == ["application/json", None]
    assert not any(n == "img" for n, _ in reader.tags)
    assert rows_of(page)[0]["problem"] == EVIL + "hanoi/3"
    texts = [text for _, text in reader.texts]
    assert EVIL in texts
    assert any(EVIL in text for element, text in reader.texts if element == "title")


def test_markup_escapes_text_and_attributes():
    assert tag("a", '<"&', href="'\"<", class_="x", hidden=True, title=None) == (
        '<a href="&#x27;&quot;&lt;" class="x" hidden>&lt;&quot;&amp;</a>'
    )
    assert tag("input", type="search") == '<input type="search">'
    assert join(["<", Markup("<b>"), 3]) == "&lt;<b>3"


def test_the_same_store_gives_the_same_page(tmp_path):
    first = report(stored(tmp_path / "a"), tmp_path / "a")
    with Store.open(tmp_path / "a") as store:
        assert report(store, tmp_path / "a") == first


def test_traces_are_linked_from_where_the_page_is(tmp_path):
    store = filled(tmp_path / "a sweep", trace="x y.json")
    data = data_of(report(store, tmp_path / "a sweep"))
    assert data["traces"] == "traces/"
    data = data_of(report(store, tmp_path))
    assert data["traces"] == "a%20sweep/traces/"
    assert data["rows"][0][data["fields"].index("trace")] == "x y.json"
    data = data_of(report(store, tmp_path / "pages"))
    assert data["traces"] == "../a%20sweep/traces/"


def text_of(page: str) -> str:
    return " ".join(" ".join(t for e, t in Reader(page).texts if e not in ("script", "style")).split())


def test_no_runs_yet(tmp_path):
    text = text_of(report(Store.create(tmp_path, SUITE), tmp_path))
    assert "There are no runs yet." in text
    assert "36 not run yet" in text
    assert "Pictures" not in text


def test_all_failed(tmp_path):
    nothing = dict.fromkeys(["optimal", "total_reward", "regret", "steps", "queries", "worst_call", "seconds"])
    page = report(filled(tmp_path, status="timeout", error="It took more than 1 s.", **nothing), tmp_path)
    text = text_of(page)
    assert "36 runs failed." in text
    assert "It took more than 1 s." in text
    assert "12 failed" in text
    assert "0 of 12" in text
    assert "<figure>" not in page


def test_what_failed_runs_printed_is_there_to_be_opened(tmp_path):
    rows = filled(tmp_path).rows()
    rows[0] = replace(rows[0], status="failed", error="Oh.", output=f"Segmentation fault {EVIL}")
    rows[1] = replace(rows[1], output="of no interest")
    page = report(Stand(rows), tmp_path)
    assert ("pre", f"Segmentation fault {EVIL}") in Reader(page).texts
    assert "of no interest" not in page


def test_seeds_keep_all_their_digits(tmp_path):
    page = report(filled(tmp_path, seed=2**64 + 1), tmp_path)
    assert rows_of(page)[0]["seed"] == str(2**64 + 1)


def test_what_is_left_out_is_said(tmp_path):
    store = filled(tmp_path)
    unknown = {"optimal": None, "regret": None}
    rows = [replace(r, **unknown) if (r.problem, r.planner) == ("hanoi/3", "random") else r for r in store.rows()]
    rows[0] = replace(rows[0], status="failed", error="Oh.", optimal=None, regret=None, queries=None)
    text = text_of(report(Stand(rows), tmp_path))
    assert "1 failed" in text
    assert "4 without v*" in text
    assert "4 runs left out: v*(s₀) is not known." in text
    assert "1 run failed." in text


def test_unknown_optimum_leaves_the_queries(tmp_path):
    page = report(filled(tmp_path, optimal=None, regret=None), tmp_path)
    text = text_of(page)
    assert "12 without v*" in text
    assert "Queries and regret" not in text
    assert "Performance profile" not in text
    assert "Scaling in d" in text


def test_a_single_planner_and_a_single_seed(tmp_path):
    page = report(Stand([result(Suite(("hanoi/3",), ("random",), (0,)).units()[0])]), tmp_path)
    assert "Comparisons" not in text_of(page)
    assert 'id="versus"' not in page
    assert "nan" not in text_of(page)
    assert "inf" not in text_of(page).replace("information", "")


def test_wrong_brackets_are_told(tmp_path):
    page = report(filled(tmp_path, upper=-8.0, lower=-9.0, certificate="certified"), tmp_path)
    assert "36 brackets did not contain v*(s₀)." in text_of(page)
    assert "12 of 12" in text_of(page)


def test_ten_thousand_runs_stay_below_ten_megabytes(tmp_path):
    units = SUITE.units()
    rows = [
        replace(
            result(units[i % 36]),
            id=f"{i:064x}",
            seed=i // 36,
            regret=math.sqrt(i),
            total_reward=-7 - math.sqrt(i),
            seconds=math.pi * i,
            upper=math.e * i,
            lower=1 / (1 + i),
            certificate="budget",
            trace=f"{i:064x}.json",
        )
        for i in range(10_000)
    ]
    page = report(Stand(rows), tmp_path)
    assert len(page.encode()) < 10e6
    assert len(rows_of(page)) == 10_000


def test_where_it_cannot_be_written(tmp_path):
    store = filled(tmp_path)
    with pytest.raises(tp.BadInput, match=r"cannot write to '.*nowhere/x\.html': its folder does not exist"):
        write_report(store, tmp_path / "nowhere" / "x.html")
    with pytest.raises(tp.BadInput, match=r"cannot write to '.*': it is a folder"):
        write_report(store, tmp_path)


# ------------------------------------------------------------------------------------------ plots


def test_scales():
    scale = svg.log_scale([1.0, 100.0], 0.0, 100.0)
    assert scale.floor is None
    assert scale.place(10.0) == pytest.approx(50.0)
    assert [label for _, label in scale.ticks()] == ["1", "2", "5", "10", "20", "50", "100"]
    narrow = svg.log_scale([1000, 3000], 0.0, 1.0)
    assert [label for _, label in narrow.ticks()] == ["1,000", "2,000", "3,000"]
    floored = svg.log_scale([0.0, 1e-6, 1e6], 300.0, 0.0)
    assert floored.place(0.0) == 300.0
    assert floored.place(1e-6) < 300.0 - svg.FLOOR + 1
    assert floored.ticks()[0] == (300.0, "0")
    assert svg.log_scale([-1.0, 2.0], 0.0, 1.0).floor == "≤ 0"
    linear = svg.Scale(0.0, 1.0, 0.0, 10.0)
    assert [label for _, label in linear.ticks()] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert [linear.place(x) for x in (-1.0, 0.5, 2.0)] == [0.0, 5.0, 10.0]
    assert "1" in [label for _, label in svg.log_scale([], 0.0, 1.0).ticks()]


def test_a_plot_is_xml_and_its_points_are_where_they_belong():
    x, y = svg.log_scale([1, 10], svg.LEFT, svg.RIGHT), svg.log_scale([1, 10], svg.BOTTOM, svg.TOP)
    at = (x.place(10.0), y.place(10.0))
    picture = svg.plot(
        x, y, "<x>", "y", [svg.group(3, "name & co", svg.line([(0, 0), at], 0), svg.marker(*at, 0))], "d"
    )
    root = ElementTree.fromstring(picture)
    (series,) = root.findall("g")
    assert series.attrib == {"class": "s3", "data-series": "3"}
    assert series.findtext("title") == "name & co"
    path = series.find("path")
    assert path is not None
    numbers = [float(n) for n in re.findall(r"[\d.]+", path.attrib["d"])]
    assert numbers == pytest.approx([0, 0, *at], abs=0.06)
    for index in range(5):
        assert ElementTree.fromstring(svg.swatch(index)).find("g") is not None


def test_what_brackets_rest_on_is_told_once_for_each_planner(tmp_path):
    claims = {"failure": 0.05, "lower_failure": 0.02, "assumes": EVIL, "explained": 0.0, "warnings": None}

    def with_claims(unit):
        if unit.planner != "tensorplan":
            return result(unit)
        row = result(unit, upper=-6.0, lower=-7.0, certificate="certified", **claims)
        if unit.seed == 1:
            return replace(row, certificate="doubtful", warnings="no reward was seen", explained=0.25)
        return replace(row, certificate="budget", assumes="") if unit.seed == 2 else row

    rows = [with_claims(unit) for unit in SUITE.units()]
    (standing, *others) = standings(rows)
    assert standing.statuses == {"certified": 6, "doubtful": 3, "budget": 3}
    assert [s.statuses for s in others] == [{}, {}]
    page = report(Stand(rows), tmp_path)
    section = re.search(r'<section id="certificates">(.*?)</section>', page, re.S)[1]
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", section))
    for words in (
        "tensorplan 6 certified, 3 doubtful, 3 budget 0.95 0.98 0.97 0.25",
        "doubtful : the gap has closed",
        "budget : the queries ran out",
        "nothing but the declared ranges 3 ",
        "tensorplan no reward was seen 3 ",
    ):
        assert words in said
    assert "refuted" not in said
    assert "uct" not in said
    assert EVIL not in page
    assert 'id="certificates"' not in report(filled(tmp_path), tmp_path)


def test_runs_of_older_sweeps_have_no_confidence(tmp_path):
    page = report(filled(tmp_path, upper=-6.0, lower=-7.0, certificate="certified"), tmp_path)
    section = re.search(r'<section id="certificates">(.*?)</section>', page, re.S)[1]
    assert section.count('<td class="n">–</td>') == 12
    assert "What upper bounds assume" not in section


def test_long_lists_of_assumptions_are_cut(tmp_path):
    rows = [
        result(unit, certificate="certified", assumes=f"norm at most {number}")
        for number, unit in enumerate(SUITE.units())
    ]
    page = report(Stand(rows), tmp_path)
    assert "16 more are in the table of all runs." in page
    assert len(SUITE.units()) == 36


def test_other_experiments_have_pages_too(tmp_path):
    experiment = HardnessExperiment((8,), seeds=2, with_planners=False)
    hardness(experiment, tmp_path, engine=Inline())
    with Store.open(tmp_path) as store:
        page = write_report(store, tmp_path / "x.html").read_text(encoding="utf-8")
    assert [row["problem"] for row in rows_of(page)] == ["game/8x8"] * 4
    text = " ".join(text for _, text in Reader(page).texts)
    assert "sizes 8" in text
    assert "with planners no" in text
