"""The report on a sweep: one self-contained HTML page.

Plots are inline SVG; the table of all runs is JSON that a small script pages, sorts and filters.  Data are escaped
(:mod:`tensorplan.report.markup`; the JSON has no ``<``), and the page's Content-Security-Policy allows no other script
and no requests.  The same store gives the same page, byte by byte.
"""

from __future__ import annotations

import json
import math
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tensorplan.core.files import write_output
from tensorplan.core.jsonable import plain
from tensorplan.evaluation.row import Row
from tensorplan.report import svg
from tensorplan.report.certificates import MEANINGS
from tensorplan.report.markup import Markup, join, tag
from tensorplan.report.pieces import (
    Section,
    asset,
    count,
    document,
    duration,
    interval,
    number_or_dash,
    p_value,
    sections,
    table,
    terms,
)
from tensorplan.report.sweep_plots import Runs, pictures
from tensorplan.sweeps.standings import Standing, Versus, comparisons
from tensorplan.sweeps.statistics import grouped
from tensorplan.sweeps.store import Store

FIELDS = (
    *("problem", "planner", "seed", "status", "total_reward", "optimal", "regret", "queries", "worst_call", "steps"),
    *("actions", "dimension", "horizon", "lower", "upper", "certificate", "seconds", "attempts", "trace", "error"),
    *("failure", "lower_failure", "explained", "assumes", "warnings"),
)
"""The fields of each run, in the order of the JSON."""
WORDS = ("problem", "planner", "status", "certificate", "error", "assumes", "warnings")
"""Fields stored as indices into a list of texts."""
SHOWN_FAILURES = 200
SHOWN_CLAIMS = 20
"""The most assumptions, and doubts, that are listed."""
EXACT = 2**53
"""The largest integer that JavaScript represents exactly."""


def write_report(store: Store, path: str | Path) -> Path:
    """Write the page atomically; its path."""
    path = Path(path)
    return write_output(path, report(store, path.parent))


def report(store: Store, beside: Path) -> str:
    """The page, with links to traces as seen from the folder ``beside``."""
    runs = Runs(store.rows())
    script = asset("assets/report.js")
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'; img-src data:"
    title = f"tensorplan: {count(len(runs.rows), 'run')} of {count(len(runs.planners), 'planner')}"
    parts = [
        _asked(store, runs),
        _planners(runs),
        _certificates(runs),
        _versus(runs),
        pictures(runs),
        _failures(runs),
        _runs(store, runs, beside),
    ]
    there = [part for part in parts if part is not None]
    links = [tag("a", name, href=f"#{anchor}") for anchor, name, _ in there]
    toggle = tag("button", "theme: auto", type="button", id="theme", class_="plain")
    header = tag("header", tag("h1", "Sweep report"), tag("nav", *links, aria_label="Sections"), toggle)
    return document(title, policy, header, tag("main", sections(there)), tag("script", Markup(script)))


# --------------------------------------------------------------------------------------- sections


def _asked(store: Store, runs: Runs) -> Section:
    rows, units = runs.rows, len(store.unit_ids())
    told = plain(store.parameters)
    names = {"problems": "problem", "planners": "planner", "seeds": "seed"}
    lists = {
        name: told.pop(name) if isinstance(told.get(name), list) else _different(rows, column)
        for name, column in names.items()
    }
    done = sum(row.done for row in rows)
    seconds = math.fsum(row.seconds for row in rows if row.seconds is not None)
    tiles = [
        ("runs done", f"{done:,}"),
        ("failed", f"{len(rows) - done:,}"),
        ("not run yet", f"{max(0, units - len(rows)):,}"),
        *((name, f"{len(values):,}") for name, values in lists.items()),
        ("time in runs", duration(seconds)),
    ]
    content = [
        tag("div", *(tag("div", tag("b", value), tag("span", name)) for name, value in tiles), class_="tiles"),
        tag("details", tag("summary", "Parameters"), terms({**lists, **told})),
        tag("details", tag("summary", "Machine"), terms(store.machine)),
    ]
    return "asked", "What was run", join(content)


def _different(rows: Iterable[Row], column: str) -> list[Any]:
    return list(dict.fromkeys(getattr(row, column) for row in rows))


def _planners(runs: Runs) -> Section:
    if not runs.rows:
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
            interval(s.regret),
            interval(s.queries),
            number_or_dash(s.worst_call),
            number_or_dash(s.seconds),
            _brackets(s),
            _left_out(s),
        ]
        for index, s in enumerate(runs.standings)
    ]
    note = (
        "Regret over |v*(s₀)| and queries of the first episode: interquartile means over all runs that have them, with "
        "95% intervals (stratified bootstrap: seeds are resampled within each problem). The intervals show the "
        "variation with other seeds on the same problems; with one seed per problem there are none. Seconds are "
        "medians. Failed runs count in none of these numbers."
    )
    wrong = sum(s.wrong for s in runs.standings)
    warning = [tag("p", f"{count(wrong, 'bracket')} did not contain v*(s₀).", class_="warning")] if wrong else []
    return "planners", "Planners", join([table("Planners", heads, lines), *warning, tag("p", note, class_="note")])


def _certificates(runs: Runs) -> Section | None:
    """The brackets: why planning ended, confidences, assumptions and doubts."""
    rows = [row for row in runs.rows if row.done and row.certificate is not None]
    if not rows:
        return None
    heads = ["planner", "how planning ended", "confidence", "of the lower bound", "of the upper bound", "eta explains"]
    by_planner = grouped((row.planner, row) for row in rows)
    lines = [_certificate_line(s, by_planner[s.planner]) for s in runs.standings if s.brackets]
    met = {row.certificate for row in rows}
    note = (
        "A lower bound on v*(s₀) rests on the simulator alone, whatever the features; an upper one on its assumption. "
        "Confidences are the least over a planner's runs, what eta explains is the largest part of a gap."
    )
    meanings = [tag("li", tag("b", status), f": {what}") for status, what in MEANINGS.items() if status in met]
    content = [
        table("Certificates", heads, lines, left=(0, 1)),
        tag("p", note, class_="note"),
        tag("ul", *meanings, class_="note"),
        _claims("What upper bounds assume", _assumptions(rows)),
        _claims("Reasons to doubt that", ((row.warnings, row) for row in rows if row.warnings)),
    ]
    return "certificates", "Certificates", join(content)


def _assumptions(rows: Iterable[Row]) -> Iterator[tuple[str, Row]]:
    """The assumptions of upper bounds."""
    return ((row.assumes or "nothing but the declared ranges", row) for row in rows if row.assumes is not None)


def _certificate_line(s: Standing, rows: Sequence[Row]) -> list[object]:
    ended = ", ".join(f"{n:,} {status}" for status, n in s.statuses.items())
    known = [(row.failure, row.lower_failure or 0.0) for row in rows if row.failure is not None]
    failures = [(failure, lower, failure - lower) for failure, lower in known]
    worst = [max(column) for column in zip(*failures, strict=True)] or [None] * 3
    explained = max((row.explained for row in rows if row.explained), default=None)
    return [s.planner, ended, *map(_confidence, worst), number_or_dash(explained)]


def _confidence(failure: float | None) -> str:
    return "–" if failure is None else "certain" if not failure else f"{1 - failure:.4g}"


def _claims(heading: str, told: Iterable[tuple[str, Row]]) -> Markup:
    """A table of texts by planner, each once, with the number of runs; empty if there are none."""
    groups = grouped(((row.planner, text), row) for text, row in told)
    if not groups:
        return join([])
    lines = [[planner, text, f"{len(rows):,}"] for (planner, text), rows in list(groups.items())[:SHOWN_CLAIMS]]
    rest = len(groups) - len(lines)
    note = [tag("p", f"{rest:,} more are in the table of all runs.", class_="note")] if rest else []
    return join([tag("h3", heading), table(heading, ["planner", "text", "runs"], lines, left=(0, 1)), *note])


def _versus(runs: Runs) -> Section | None:
    if len(runs.planners) < 2:
        return None
    heads = ["planner", "against", "P(better)", "better / equal / worse", "difference", "p", "ratio of queries"]
    note = (
        "P(better): the chance that a run of the planner has less regret than one of the other on the same problem, "
        "equal ones counted half, averaged over problems. The rest is paired by problem and seed, over the pairs where "
        "both have a regret (for the queries: both made some): how often the planner has less, the mean difference "
        "of regret / |v*|, the p-value of Wilcoxon's signed-rank test (Holm's adjustment for all lines), and the "
        "geometric mean of the ratio of the queries."
    )
    lines = [_versus_line(versus) for versus in comparisons(runs.rows)]
    return (
        "versus",
        "Comparisons",
        join([table("Comparisons", heads, lines, left=(0, 1)), tag("p", note, class_="note")]),
    )


def _versus_line(v: Versus) -> list[object]:
    if v.paired is None:
        middle: list[object] = ["–", "–", "–"]
    else:
        p = v.paired
        middle = [f"{p.better:,} / {p.equal:,} / {p.worse:,}", interval(p.difference), p_value(v.p_adjusted)]
    return [v.planner, v.rival, interval(v.improvement), *middle, interval(v.queries)]


def _failures(runs: Runs) -> Section | None:
    failed = [row for row in runs.rows if not row.done]
    said = [row for row in runs.rows if row.done and row.error is not None]
    if not failed and not said:
        return None
    groups = grouped(((row.planner, row.status, row.error or "no message"), row) for row in [*failed, *said])
    lines: list[list[object]] = []
    for (planner, status, sentence), rows in list(groups.items())[:SHOWN_FAILURES]:
        places = list(dict.fromkeys(row.problem for row in rows))
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        said_so = join([sentence, *(_output(row) for row in rows if row.output)][:2])
        lines.append([planner, said_so, status, f"{len(rows):,}", ", ".join(places[:3]) + more])
    listed = table("Failures", ["planner", "message", "status", "runs", "problems"], lines, left=(0, 1, 2, 4))
    rest = len(groups) - len(lines)
    note = [tag("p", f"{rest:,} more kinds are in the table of all runs.", class_="note")] if rest else []
    heading = f"{count(len(failed), 'run')} failed"
    heading += f"; {count(len(said), 'run')} finished with a message." if said else "."
    return "failures", "Failures", join([tag("p", heading), listed, *note])


def _output(row: Row) -> Markup:
    """The output of a run, collapsed."""
    whose = f"output of {row.problem}, seed {row.seed}"
    return tag("details", tag("summary", whose), tag("pre", row.output))


def _runs(store: Store, runs: Runs, beside: Path) -> Section:
    words: dict[str, int] = {}
    lines = []
    for row in runs.rows:
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
    """The value for JSON, which has no infinities, and JavaScript, where integers beyond 2^53 must be text."""
    if isinstance(value, int) and abs(value) > EXACT:
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _brackets(s: Standing) -> str:
    return f"{s.certified:,} of {s.brackets:,}" if s.brackets else "–"


def _left_out(s: Standing) -> str:
    parts = [f"{s.failed:,} failed"] * bool(s.failed) + [f"{s.unjudged:,} without v*"] * bool(s.unjudged)
    return ", ".join(parts) or "none"
