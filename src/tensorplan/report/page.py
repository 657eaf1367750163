"""The report on a sweep: one HTML page that needs nothing else, neither files nor a network.

Plots are SVG and in the page; the table of all runs is JSON that a small script pages, sorts and filters.  What came
from a file is escaped (:mod:`tensorplan.report.markup`; the JSON has no ``<``), and the page's Content-Security-Policy
lets no script run but that one and nothing be fetched.  The same store gives the same page, to the bit.
"""

from __future__ import annotations

import json
import math
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from tensorplan.core.files import write_output
from tensorplan.core.intervals import Interval
from tensorplan.core.jsonable import plain
from tensorplan.judge.row import Row
from tensorplan.report import svg
from tensorplan.report.certificates import MEANINGS
from tensorplan.report.markup import Markup, join, tag
from tensorplan.report.tables import number
from tensorplan.sweeps.statistics import (
    Standing,
    Versus,
    bootstrap,
    comparisons,
    normalised_regret,
    profiles,
    scaling,
    standings,
)
from tensorplan.sweeps.store import Store

FIELDS = (
    *("problem", "planner", "seed", "status", "total_reward", "optimal", "regret", "queries", "worst_call", "steps"),
    *("actions", "dimension", "horizon", "lower", "upper", "certificate", "seconds", "attempts", "trace", "error"),
    *("failure", "lower_failure", "explained", "assumes", "warnings"),
)
"""What the page knows of each run, in the order of its JSON."""
WORDS = ("problem", "planner", "status", "certificate", "error", "assumes", "warnings")
"""Fields that are numbers of entries in a list of texts."""
SHOWN_FAILURES = 200
SHOWN_CLAIMS = 20
"""Assumptions, and doubts, that are listed."""
EXACT = 2**53
"""Whole numbers up to this are what they are in JavaScript."""
SIZES = {"dimension": "d", "actions": "A", "horizon": "H"}


def write_report(store: Store, path: str | Path) -> Path:
    """Write the page and give its path.  The file is complete or not there."""
    path = Path(path)
    return write_output(path, report(store, path.parent))


def report(store: Store, beside: Path) -> str:
    """The page, with links to traces as seen from the folder ``beside``."""
    sweep = _Sweep(store.rows())
    style, script = _asset("report.css"), _asset("report.js")
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'; img-src data:"
    title = f"tensorplan: {_count(len(sweep.rows), 'run')} of {_count(len(sweep.planners), 'planner')}"
    sections = [
        _asked(store, sweep),
        _planners(sweep),
        _certificates(sweep),
        _versus(sweep),
        _pictures(sweep),
        _failures(sweep),
        _runs(store, sweep, beside),
    ]
    there = [section for section in sections if section is not None]
    links = [tag("a", name, href=f"#{anchor}") for anchor, name, _ in there]
    body = [tag("section", tag("h2", name), content, id=anchor) for anchor, name, content in there]
    toggle = tag("button", "theme: auto", type="button", id="theme", class_="plain")
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(style)),
    ]
    page = [
        tag("header", tag("h1", "Sweep report"), tag("nav", *links, aria_label="Sections"), toggle),
        tag("main", *body),
        tag("script", Markup(script)),
    ]
    return f"<!DOCTYPE html>\n{tag('html', tag('head', *head), tag('body', *page), lang='en')}\n"


Section = tuple[str, str, Markup]


@dataclass(frozen=True)
class _Sweep:
    """The runs and what follows from them, computed once."""

    rows: Sequence[Row]

    @cached_property
    def planners(self) -> list[str]:
        return list(dict.fromkeys(row.planner for row in self.rows))

    @cached_property
    def standings(self) -> list[Standing]:
        return standings(self.rows)

    @cached_property
    def judged(self) -> dict[str, list[tuple[Row, float]]]:
        """By planner, the runs that have a normalised regret and queries."""
        found: dict[str, list[tuple[Row, float]]] = {planner: [] for planner in self.planners}
        for row in self.rows:
            regret = normalised_regret(row)
            if regret is not None and row.queries is not None:
                found[row.planner].append((row, regret))
        return found


# --------------------------------------------------------------------------------------- sections


def _asked(store: Store, sweep: _Sweep) -> Section:
    rows, units = sweep.rows, len(store.unit_ids())
    told = plain(store.asked)
    names = {"problems": "problem", "planners": "planner", "seeds": "seed"}
    lists = {name: told.pop(name, None) or _different(rows, column) for name, column in names.items()}
    done = sum(row.status == "done" for row in rows)
    seconds = math.fsum(row.seconds for row in rows if row.seconds is not None)
    tiles = [
        ("runs done", f"{done:,}"),
        ("failed", f"{len(rows) - done:,}"),
        ("not run yet", f"{max(0, units - len(rows)):,}"),
        *((name, f"{len(values):,}") for name, values in lists.items()),
        ("time in runs", _duration(seconds)),
    ]
    content = [
        tag("div", *(tag("div", tag("b", value), tag("span", name)) for name, value in tiles), class_="tiles"),
        tag("details", tag("summary", "What was asked for"), _terms({**lists, **told})),
        tag("details", tag("summary", "On which machine"), _terms(store.machine)),
    ]
    return "asked", "What was run", join(content)


def _different(rows: Iterable[Row], column: str) -> list[Any]:
    return list(dict.fromkeys(getattr(row, column) for row in rows))


def _planners(sweep: _Sweep) -> Section:
    if not sweep.rows:
        return "planners", "Planners", tag("p", "There are no runs yet.")
    heads = [
        "planner",
        "done",
        "regret / |v*|",
        "queries",
        "worst call",
        "seconds",
        "certified",
        "left out of the regret",
    ]
    lines = [
        [
            tag("span", svg.swatch(index), s.planner, class_="name"),
            f"{s.done:,} of {s.runs:,}",
            _interval(s.regret),
            _interval(s.queries),
            _number(s.worst_call),
            _number(s.seconds),
            _brackets(s),
            _left_out(s),
        ]
        for index, s in enumerate(sweep.standings)
    ]
    note = (
        "Regret over |v*(s₀)| and queries of the first episode: interquartile means over all runs that have them, with "
        "95% intervals (stratified bootstrap: seeds are resampled within each problem). The intervals say how a number "
        "would move with other seeds on the same problems; with one seed per problem there are none. Seconds are "
        "medians. Failed runs count in none of these numbers."
    )
    wrong = sum(s.wrong for s in sweep.standings)
    warning = [tag("p", f"{_count(wrong, 'bracket')} did not contain v*(s₀).", class_="warning")] if wrong else []
    return "planners", "Planners", join([_table("Planners", heads, lines), *warning, tag("p", note, class_="note")])


def _certificates(sweep: _Sweep) -> Section | None:
    """What the brackets rest on: how they ended, how sure they are, what they assume, and what speaks against them."""
    rows = [row for row in sweep.rows if row.done and row.certificate is not None]
    if not rows:
        return None
    heads = ["planner", "how planning ended", "confidence", "of the lower bound", "of the upper bound", "eta explains"]
    by_planner = _strata((row.planner, row) for row in rows)
    lines = [_certificate_line(s, by_planner[s.planner]) for s in sweep.standings if s.brackets]
    met = {row.certificate for row in rows}
    note = (
        "A lower bound on v*(s₀) rests on the simulator alone, whatever the features; an upper one on what it assumes. "
        "Confidences are the least of a planner's runs, what eta explains is the most of a gap."
    )
    meanings = [tag("li", tag("b", status), f": {what}") for status, what in MEANINGS.items() if status in met]
    content = [
        _table("Certificates", heads, lines, left=(0, 1)),
        tag("p", note, class_="note"),
        tag("ul", *meanings, class_="note"),
        _claims("What upper bounds assume", _assumptions(rows)),
        _claims("Reasons to doubt that", ((row.warnings, row) for row in rows if row.warnings)),
    ]
    return "certificates", "Certificates", join(content)


def _assumptions(rows: Iterable[Row]) -> Iterator[tuple[str, Row]]:
    """What upper bounds rest on, as far as the runs say so."""
    return ((row.assumes or "nothing but the declared ranges", row) for row in rows if row.assumes is not None)


def _certificate_line(s: Standing, rows: Sequence[Row]) -> list[object]:
    ended = ", ".join(f"{n:,} {status}" for status, n in s.statuses.items())
    known = [(row.failure, row.lower_failure or 0.0) for row in rows if row.failure is not None]
    failures = [(failure, lower, failure - lower) for failure, lower in known]
    worst = [max(column) for column in zip(*failures, strict=True)] or [None] * 3
    explained = max((row.explained for row in rows if row.explained), default=None)
    return [s.planner, ended, *map(_confidence, worst), _number(explained)]


def _confidence(failure: float | None) -> str:
    return "–" if failure is None else "certain" if not failure else f"{1 - failure:.4g}"


def _claims(heading: str, told: Iterable[tuple[str, Row]]) -> Markup:
    """What is said of runs, each text once, with how many of whose it is said of; nothing where there is none."""
    groups = _strata(((row.planner, text), row) for text, row in told)
    if not groups:
        return join([])
    lines = [[planner, text, f"{len(rows):,}"] for (planner, text), rows in list(groups.items())[:SHOWN_CLAIMS]]
    rest = len(groups) - len(lines)
    note = [tag("p", f"{rest:,} more are in the table of all runs.", class_="note")] if rest else []
    return join([tag("h3", heading), _table(heading, ["planner", "text", "runs"], lines, left=(0, 1)), *note])


def _versus(sweep: _Sweep) -> Section | None:
    if len(sweep.planners) < 2:
        return None
    heads = ["planner", "against", "P(better)", "better / equal / worse", "difference", "p", "ratio of queries"]
    note = (
        "P(better): the chance that a run of the planner has less regret than one of the other on the same problem, "
        "equal ones counted half, averaged over problems. The rest is paired by problem and seed, over the pairs where "
        "both have a regret (for the queries: both asked some): how often the planner has less, the mean difference "
        "of regret / |v*|, the p-value of Wilcoxon's signed-rank test (Holm's adjustment for all lines), and the "
        "geometric mean of the ratio of the queries."
    )
    lines = [_versus_line(versus) for versus in comparisons(sweep.rows)]
    return (
        "versus",
        "Comparisons",
        join([_table("Comparisons", heads, lines, left=(0, 1)), tag("p", note, class_="note")]),
    )


def _versus_line(v: Versus) -> list[object]:
    if v.paired is None:
        middle: list[object] = ["–", "–", "–"]
    else:
        p = v.paired
        middle = [f"{p.better:,} / {p.equal:,} / {p.worse:,}", _interval(p.difference), _p(v.p_adjusted)]
    return [v.planner, v.rival, _interval(v.improvement), *middle, _interval(v.queries)]


def _pictures(sweep: _Sweep) -> Section | None:
    figures = [_trade_off(sweep), _profile(sweep), *(_scaling(sweep, size) for size in SIZES)]
    there = [figure for figure in figures if figure is not None]
    if not there:
        return None
    keys = [
        tag("button", svg.swatch(i), name, type="button", aria_pressed="true", data_toggle=i)
        for i, name in enumerate(sweep.planners)
    ]
    legend = tag("div", *keys, class_="legend", role="group", aria_label="Planners shown in the plots")
    return "pictures", "Pictures", join([legend, tag("div", *there, class_="figures")])


def _trade_off(sweep: _Sweep) -> Markup | None:
    """Queries against regret: a dot per planner and problem, a marker with intervals per planner."""
    centres: dict[int, tuple[Interval, Interval]] = {}
    clouds: dict[int, list[tuple[float, float]]] = {}
    for index, judged in enumerate(sweep.judged.values()):
        if judged:
            strata = _strata((row.problem, (float(row.queries or 0), regret)) for row, regret in judged)
            standing = sweep.standings[index]
            queries = standing.queries if standing.unjudged == 0 else None
            queries = queries or bootstrap([[q for q, _ in runs] for runs in strata.values()])
            assert standing.regret is not None
            centres[index] = queries, standing.regret
            clouds[index] = [
                (float(np.mean(runs, axis=0)[0]), float(np.mean(runs, axis=0)[1])) for runs in strata.values()
            ]
    if not centres:
        return None
    across = [q for cloud in clouds.values() for q, _ in cloud] + [end for q, _ in centres.values() for end in _ends(q)]
    up = [r for cloud in clouds.values() for _, r in cloud] + [end for _, r in centres.values() for end in _ends(r)]
    x, y = svg.log_scale(across, svg.LEFT, svg.RIGHT), svg.log_scale(up, svg.BOTTOM, svg.TOP)
    series = []
    for index, (queries, regret) in centres.items():
        at = x.place(queries.mean), y.place(regret.mean)
        bars = [(x.place(queries.low), at[1], x.place(queries.high), at[1])] if math.isfinite(queries.high) else []
        bars += [(at[0], y.place(regret.low), at[0], y.place(regret.high))] if math.isfinite(regret.high) else []
        name = sweep.planners[index]
        title = f"{name}: {_spelled(queries)} queries, regret {_spelled(regret)}"
        cloud = svg.dots((x.place(q), y.place(r)) for q, r in clouds[index])
        series.append(svg.group(index, name, cloud, svg.whiskers(bars), svg.marker(*at, index, title)))
    describe = f"Queries against normalised regret of {_count(len(centres), 'planner')}, both on logarithmic axes"
    picture = svg.plot(x, y, "queries", "regret / |v*|", _paths(sweep, centres, x, y) + series, describe)
    caption = "Each marker is a planner over all problems, with its 95% intervals; each dot the means on one problem. "
    caption += "Grey lines join one planner with different parameters. Further left and further down is better."
    return _figure("Queries and regret", picture, caption)


def _paths(sweep: _Sweep, centres: Mapping[int, tuple[Interval, Interval]], x: svg.Scale, y: svg.Scale) -> list[Markup]:
    """Lines through the settings of one planner, by its queries."""
    families = _strata((sweep.planners[index].partition(":")[0], index) for index in centres)
    paths = []
    for members in families.values():
        means = sorted((centres[index][0].mean, centres[index][1].mean) for index in members)
        if len(means) > 1:
            paths.append(tag("g", svg.line([(x.place(q), y.place(r)) for q, r in means], 1), class_="joins"))
    return paths


def _profile(sweep: _Sweep) -> Markup | None:
    regrets = [regret for judged in sweep.judged.values() for _, regret in judged]
    if not regrets:
        return None
    positive = [regret for regret in regrets if regret > 0] or [1.0]
    low, high = max(min(positive) / 2, 1e-6), max(2 * max(positive), 1e-5)
    taus = np.concatenate([[0.0], np.geomspace(low, high, 80)])
    x = svg.Scale(low, high, svg.LEFT, svg.RIGHT, log=True, floor="≤ 0")
    y = svg.Scale(0.0, 1.0, svg.BOTTOM, svg.TOP)
    series = []
    found = profiles(sweep.rows, taus)
    for planner, curve in found.items():
        index = sweep.planners.index(planner)
        at = [x.place(tau) for tau in taus]
        above, below = ([(px, y.place(v)) for px, v in zip(at, side, strict=True)] for side in (curve.high, curve.low))
        middle = [(px, y.place(v)) for px, v in zip(at, curve.fraction, strict=True)]
        series.append(svg.group(index, planner, svg.band(above, below), svg.line(middle, index)))
    describe = f"Performance profiles of {_count(len(found), 'planner')}: the fraction of runs up to each regret"
    picture = svg.plot(x, y, "regret / |v*| at most", "fraction of runs", series, describe)
    known = {row.problem for row in sweep.rows if row.optimal is not None}
    out = sum(row.problem not in known or (row.status == "done" and row.optimal is None) for row in sweep.rows)
    caption = (
        "The fraction of runs with a regret of at most this; failed runs never get there. Bands: 95% at each point, by "
        "stratified bootstrap. Higher is better."
    )
    caption += f" {_count(out, 'run')} left out: v*(s₀) is not known." if out else ""
    return _figure("Performance profile", picture, caption)


def _scaling(sweep: _Sweep, size: str) -> Markup | None:
    curves, pooled = scaling(sweep.rows, size)
    if not curves:
        return None
    letter = SIZES[size]
    everything = [(at, interval) for curve in curves for at, interval in curve.points]
    x = svg.log_scale((at for at, _ in everything), svg.LEFT, svg.RIGHT, (at for at, _ in everything))
    y = svg.log_scale((end for _, q in everything for end in _ends(q)), svg.BOTTOM, svg.TOP)
    series = []
    for curve in curves:
        index = sweep.planners.index(curve.planner)
        at = [(x.place(value), y.place(q.mean)) for value, q in curve.points]
        bars = [
            (x.place(value), y.place(q.low), x.place(value), y.place(q.high))
            for value, q in curve.points
            if math.isfinite(q.high)
        ]
        signs = [
            svg.marker(*place, index, f"{curve.planner}; {curve.fixed}, {letter} = {value}: {_spelled(q)} queries")
            for place, (value, q) in zip(at, curve.points, strict=True)
        ]
        series.append(
            svg.group(index, f"{curve.planner}; {curve.fixed}", svg.line(at, index), svg.whiskers(bars), *signs)
        )
    picture = svg.plot(x, y, letter, "queries", series, f"Queries against {letter}, both on logarithmic axes")
    if pooled:
        caption = (
            "One curve per planner and family of problems, over all problems with that size; the other sizes vary too."
        )
    else:
        caption = "One curve per planner and kind of problem, everything else fixed (hover to see what)."
    return _figure(f"Scaling in {letter}", picture, f"{caption} Interquartile means with 95% intervals.")


def _failures(sweep: _Sweep) -> Section | None:
    failed = [row for row in sweep.rows if row.status != "done"]
    said = [row for row in sweep.rows if row.status == "done" and row.error is not None]
    if not failed and not said:
        return None
    groups = _strata(((row.planner, row.status, row.error or "no sentence"), row) for row in [*failed, *said])
    lines: list[list[object]] = []
    for (planner, status, sentence), rows in list(groups.items())[:SHOWN_FAILURES]:
        places = list(dict.fromkeys(row.problem for row in rows))
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        said_so = join([sentence, *(_output(row) for row in rows if row.output)][:2])
        lines.append([planner, said_so, status, f"{len(rows):,}", ", ".join(places[:3]) + more])
    table = _table("Failures", ["planner", "what it said", "ended as", "runs", "problems"], lines, left=(0, 1, 2, 4))
    rest = len(groups) - len(lines)
    note = [tag("p", f"{rest:,} more kinds are in the table of all runs.", class_="note")] if rest else []
    heading = f"{_count(len(failed), 'run')} failed"
    heading += f"; {_count(len(said), 'run')} got to the end and had something to say." if said else "."
    return "failures", "Failures", join([tag("p", heading), table, *note])


def _output(row: Row) -> Markup:
    """What a run printed, to be opened."""
    whose = f"what {row.problem}, seed {row.seed}, printed"
    return tag("details", tag("summary", whose), tag("pre", row.output))


def _runs(store: Store, sweep: _Sweep, beside: Path) -> Section:
    words: dict[str, int] = {}
    lines = []
    for row in sweep.rows:
        line = [_for_script(getattr(row, name)) for name in FIELDS]
        for name in WORDS:
            at = FIELDS.index(name)
            if line[at] is not None:
                line[at] = words.setdefault(line[at], len(words))
        lines.append(line)
    base = quote(os.path.relpath(store.folder / "traces", beside).replace(os.sep, "/")) + "/"
    told = {"fields": FIELDS, "words": list(words), "wordy": WORDS, "traces": base, "rows": lines}
    data = json.dumps(told, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    content = [
        tag("noscript", tag("p", "This table needs JavaScript; the runs are also in the sweep's database.")),
        tag("div", id="runs-table"),
        tag("script", Markup(data), type="application/json", id="runs-data"),
    ]
    return "runs", "All runs", join(content)


# ------------------------------------------------------------------------------------------ pieces


def _for_script(value: Any) -> Any:
    """JSON has no infinities, and JavaScript rounds whole numbers beyond 2^53, which are sent as text."""
    if isinstance(value, int) and abs(value) > EXACT:
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(name: str, heads: Sequence[str], lines: Iterable[Sequence[object]], left: Sequence[int] = (0,)) -> Markup:
    """A table with its first column as row headers; columns that are not ``left`` are numbers."""
    kinds = [None if at in left else "n" for at in range(len(heads))]
    head = [tag("th", text, scope="col", class_=kind) for text, kind in zip(heads, kinds, strict=True)]
    body = [
        tag(
            "tr",
            tag("th", line[0], scope="row"),
            *(tag("td", cell, class_=kind) for cell, kind in zip(line[1:], kinds[1:], strict=True)),
        )
        for line in lines
    ]
    table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=name)


def _figure(title: str, picture: Markup, caption: str) -> Markup:
    return tag("figure", tag("h3", title), picture, tag("figcaption", caption))


def _terms(told: Mapping[str, Any]) -> Markup:
    """Keys and values, lists and what is nested spelled out."""
    pairs = (join([tag("dt", key.replace("_", " ")), tag("dd", _value(value))]) for key, value in told.items())
    return tag("dl", *pairs)


def _value(value: Any) -> object:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {part}" for key, part in value.items())
    if isinstance(value, list) and all(isinstance(part, int) for part in value):
        return _ranges(value)
    if isinstance(value, list):
        return tag("ul", *(tag("li", _value(part)) for part in value))
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:,}" if isinstance(value, int | float) else value


def _ranges(values: Sequence[int]) -> str:
    """0 to 5 for 0, 1, 2, 3, 4, 5."""
    if len(values) > 2 and list(values) == list(range(values[0], values[0] + len(values))):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))


def _strata(items: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in items:
        groups.setdefault(key, []).append(value)
    return groups


def _brackets(s: Standing) -> str:
    return f"{s.certified:,} of {s.brackets:,}" if s.brackets else "–"


def _left_out(s: Standing) -> str:
    parts = [f"{s.failed:,} failed"] * bool(s.failed) + [f"{s.unjudged:,} without v*"] * bool(s.unjudged)
    return ", ".join(parts) or "none"


def _ends(x: Interval) -> list[float]:
    """What a picture must have room for."""
    return list(x) if math.isfinite(x.high) else [x.mean]


def _interval(x: Interval | None) -> Markup:
    """The estimate, and its interval in small where there is one."""
    mean, _, rest = _spelled(x).partition(" ")
    return join([mean, " ", tag("small", rest)] if rest else [mean])


def _spelled(x: Interval | None) -> str:
    if x is None or math.isnan(x.mean):
        return "–"
    mean = number(x.mean, 3)
    return f"{mean} [{number(x.low, 3)}, {number(x.high, 3)}]" if math.isfinite(x.high) else mean


def _number(x: float | None) -> str:
    return "–" if x is None else number(x, 3)


def _p(x: float | None) -> str:
    return "–" if x is None else "< 0.001" if x < 0.001 else f"{x:.3f}"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def _asset(name: str) -> str:
    return files("tensorplan.report").joinpath("assets", name).read_text(encoding="utf-8")
