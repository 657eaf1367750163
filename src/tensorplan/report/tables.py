"""Terminal tables that fit 80 columns; narrower terminals get lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from statistics import median
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Column, Table

from tensorplan.report.certificates import certificate_lines

if TYPE_CHECKING:  # for the types alone: tables must load fast
    from tensorplan.core import Certificate, Problem, Run
    from tensorplan.core.intervals import Interval
    from tensorplan.diagnosis.diagnosis import Diagnosis
    from tensorplan.evaluation.audit import Audit
    from tensorplan.evaluation.compare import Comparison
    from tensorplan.evaluation.row import Row
    from tensorplan.game import Cost
    from tensorplan.hindsight.blame import Share
    from tensorplan.paper.hardness import Hardness
    from tensorplan.paper.table1 import CostCurve, RowResult, Table1
    from tensorplan.paper.verify.families import Verification
    from tensorplan.planners.printed.constants import Constants
    from tensorplan.problems.catalog import Entry
    from tensorplan.sweeps.standings import Standing


def _table(title: str, left: Sequence[str], right: Sequence[str], note: str | None = None) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0), caption=note)
    table.caption_justify = "left"
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


FOLDED = 8
"""The least width of a column of text, unless its text is shorter."""


def fitted(table: Table, width: int) -> Table:
    """The table, or if numbers would be cut off at that width, a list of its rows with a line per column."""
    edges = 1 + 2 * len(table.columns)
    if edges + sum(_needed(column) for column in table.columns) <= width:
        return table
    rows = _table(str(table.title or ""), ["", ""], [], None if table.caption is None else str(table.caption))
    rows.show_header = False
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        for column, cell in zip(table.columns, cells, strict=True):
            if str(cell):
                rows.add_row(str(column.header), cell)
        rows.add_section()
    return rows


def _needed(column: Column) -> int:
    """The least width of a column."""
    texts = [str(column.header), *map(str, column.cells)]
    longest = max(cell_len(line) for text in texts for line in text.splitlines() or [""])
    return longest if column.no_wrap else min(longest, FOLDED)


def number(x: float, digits: int = 4) -> str:
    """A number with a few digits and thousands separators, without an exponent."""
    if not math.isfinite(x):
        return "-"
    if abs(x) < 5e-10:
        return "0"
    if abs(x) >= 10 ** (digits - 1) or float(x).is_integer():
        return f"{float(f'{x:.{digits}g}') if abs(x) >= 1e9 else round(x):,.0f}"
    return f"{x:.{digits}g}"


def with_interval(x: Interval | None) -> str:
    """``mean ± radius``, or a dash."""
    if x is None or math.isnan(x.mean):
        return "-"
    return number(x.mean, 3) + (f" ± {number(x.high - x.mean, 2)}" if math.isfinite(x.high) else "")


def seconds(x: float) -> str:
    """Seconds with two decimals at most."""
    return "<0.01" if x < 0.01 else f"{x:.2f}" if x < 100 else f"{x:,.0f}"


def problems_table(catalog: Mapping[str, Entry]) -> Table:
    """The catalog."""
    table = _table("Problems", ["name", "what it is"], [])
    for entry in catalog.values():
        table.add_row(entry.example, entry.about)
    return table


def planners_table(planners: Iterable[tuple[str, Mapping[str, object], str]]) -> Table:
    """The planners, with their parameters and defaults."""
    table = _table("Planners", ["name", "parameters", "what it is"], [])
    for name, options, about in planners:
        table.add_row(name, "\n".join(f"{k}={v}" for k, v in options.items()), about)
    return table


def run_table(problem: Problem, run: Run, optimal: Sequence[float | None]) -> Table:
    """One line per episode."""
    right = ["steps", "return", "v*", "regret", "queries", "worst call", "seconds", "ended by"]
    table = _table(f"{problem.name}, {run.planner}", ["#"], right)
    for number_, (episode, best) in enumerate(zip(run.episodes, optimal, strict=True)):
        table.add_row(
            str(number_),
            f"{episode.steps:,}",
            number(episode.total_reward),
            "-" if best is None else number(best),
            "-" if best is None else number(best - episode.total_reward),
            count(episode.total_queries),
            count(max(episode.queries, default=0)),
            seconds(episode.seconds),
            episode.stopped,
        )
    return table


def certificate_sentences(run: Run) -> list[str]:
    """The certificates: in full for one episode, in a few lines for each kind of several."""
    kinds: dict[tuple[str, str], list[Certificate]] = {}
    for episode in run.episodes:
        if episode.certificate is not None:
            kinds.setdefault((episode.certificate.status, episode.certificate.assumes), []).append(episode.certificate)
    return [line for alike in kinds.values() for line in certificate_lines(alike)]


def constants_table(constants: Constants) -> Table:
    """The paper's constants."""
    c = constants
    shape = f"A={c.A}, d={c.d}, H={c.H}, delta={c.delta:g}, B={c.B:g}"
    table = _table(f"TensorPlan as printed\n{shape}", ["constant"], ["value"])
    rows: list[tuple[str, int | float]] = [
        ("E_d, bound on the failures", c.E_d),
        ("epsilon", c.epsilon),
        ("zeta", c.zeta),
        ("c, tolerance of Sol", c.c),
        ("n1, rollouts", c.n1),
        ("n2, samples in a rollout", c.n2),
        ("n3, samples of a failure", c.n3),
        ("queries of Init, worst case", c.init_queries),
        ("queries of a later call", c.call_queries),
    ]
    for name, value in rows:
        table.add_row(name, count(value))
    return table


def mode_costs_table(constants: Constants, records: Iterable[Mapping[str, Any]]) -> Table:
    """The queries of the modes, beside the paper's worst case."""
    title = "Measured in one episode on a random layered problem of that shape"
    note = "fewer: the paper's worst case, in units of the queries"
    table = _table(title, ["mode", "what is random"], ["queries", "fewer", "loss at most", "gap"], note)
    table.columns[1].no_wrap = True
    for record in records:
        ratio = Decimal(constants.init_queries) / max(record["queries"], 1)
        bounds = ["-" if x is None else number(max(x, 0.0), 3) for x in (record["loss"], record["gap"])]
        table.add_row(record["mode"], record["what"], f"{record['queries']:,}", count(ratio), *bounds)
    return table


def verification_table(verification: Verification) -> Table:
    """One line per claim."""
    v = verification
    secrets = f"{v.secrets} secret{'s' * (v.secrets != 1)}"
    title = f"{v.name}: {'passed' if v.passed else 'FAILED'} ({v.method}; {v.states:,} states, {secrets})"
    table = _table(title, ["claim", "", "where"], ["worst"])
    for check in v.checks:
        table.add_row(check.name, "ok" if check.passed else "FAILED", check.detail, number(check.worst, 3))
    return table


def costs_table(hardness: Hardness) -> Table:
    """The cost of search, with its interval, beside 2^p/|W_close| and the bounds."""
    table = _table(
        "Queries until a weight close to the secret is found",
        ["p", "strategy"],
        ["queries", "95% interval", "2^p/|close|", "ratio", "forced", "theorem"],
        "forced: by the sharp count; theorem: 0.05 n of the paper, vacuous where\nthat is less than one query",
    )
    table.columns[1].no_wrap = True
    for c in hardness.costs:
        table.add_row(
            str(c.p),
            c.strategy,
            brief(c.mean.mean),
            f"{brief(c.mean.low)} .. {brief(c.mean.high)}",
            brief(float(c.bound.guesses)),
            f"{c.ratio:.2f}",
            brief(float(c.bound.sharp)),
            "vacuous" if c.bound.vacuous else brief(float(c.bound.forced)),
        )
    return table


def cost_record(cost: Cost) -> dict[str, Any]:
    """One point of the search as plain data."""
    bound = cost.bound
    return {
        "strategy": cost.strategy,
        "p": cost.p,
        "K": cost.K,
        "found": cost.found,
        "games": len(cost.costs),
        "queries": cost.mean,
        "expected": cost.expected,
        "guesses": float(bound.guesses),
        "ratio": cost.ratio,
        "forced": float(bound.sharp),
        "theorem": float(bound.forced),
        "vacuous": bound.vacuous,
    }


def attempt_record(row: Row) -> dict[str, Any]:
    """A run of a planner on a hard MDP, in which A = p and H = Kp, as plain data."""
    assert row.actions is not None
    assert row.horizon is not None
    return {
        "planner": row.planner,
        "p": row.actions,
        "K": row.horizon // row.actions,
        "d": row.dimension,
        "queries": row.queries,
        "failures": row.failed_states,
        "nodes": row.nodes,
        "loss": row.regret,
        "seconds": row.seconds,
    }


def growth_sentences(hardness: Hardness) -> list[str]:
    """The growth of the cost, one sentence per strategy."""
    return [
        f"{g.strategy}: the cost doubles {g.doublings.mean:.3f} times per unit of p "
        f"(95%: {g.doublings.low:.3f} to {g.doublings.high:.3f}); 2^p/|W_close| doubles {g.guesses:.3f} times"
        for g in hardness.growth
    ]


def attempts_table(hardness: Hardness) -> Table:
    """Planners on the hard MDPs."""
    columns = ["d", "queries", "failures", "nodes", "loss", "secs"]
    table = _table("Planners on M^v, square-free features, mean rewards", ["problem", "planner"], columns)
    for a in map(attempt_record, hardness.attempts):
        table.add_row(
            f"hard/{a['p']}x{a['K']}",
            a["planner"],
            str(a["d"]),
            f"{a['queries']:,}",
            "-" if a["failures"] is None else str(a["failures"]),
            "-" if a["nodes"] is None else f"{a['nodes']:,}",
            number(max(a["loss"], 0.0), 3),
            seconds(a["seconds"]),
        )
    return table


def table1_table(table: Table1) -> Table:
    """For each family of each row: the decisive planner, its cost at the least and the largest size, and the growth."""
    out = _table(
        "Table 1, measured",
        ["", "class", "planner", "size"],
        ["queries", "growth", "verdict"],
        "queries: mean, half of its 95% interval; forced: by the theorem\n"
        "evidence: Akaike's, for this growth; at 6 the other is 1/20 as likely\n"
        "verdict: measured, and in brackets the paper's",
    )
    for result in table.rows:
        row = result.row
        out.add_section()
        about = iter([row.members, f"A = {row.actions}" if row.actions != "any" else "any A", row.source])
        head = iter([(str(row.number), f"{_mark(result.verdict)} ({_mark(row.paper)})")])
        for cells in _table1_lines(result):
            number, verdict = next(head, ("", ""))
            out.add_row(number, next(about, ""), *cells, verdict)
        for rest in about:
            out.add_row("", rest)
    return out


def _table1_lines(result: RowResult) -> Iterator[tuple[str, str, str, str]]:
    """Planner, size, queries and growth: two lines for each family, and one for the lower bound."""
    for part in result.families:
        symbol = part.family.symbol
        for curve in part.curves:
            if curve.player == result.best:
                rate, evidence = _grown(curve, symbol)
                sound = "sound" if curve.sound else "not sound"
                short = symbol.replace(" = ", "=")
                first, last = ((f"{short} {a.size}", _share(a.queries)) for a in (curve.at[0], curve.at[-1]))
                yield curve.player, *first, rate
                yield sound, *last, evidence
                if part.family.forced is not None:
                    yield "forced", last[0], brief(part.family.forced(curve.at[-1].size)), ""
            elif refuted := sum(a.refuted for a in curve.at):
                yield curve.player, "", f"{refuted} of {sum(a.runs for a in curve.at)}", "refuted"


def _share(x: Interval) -> str:
    """A mean with its half-width in percent."""
    return brief(x.mean) + (f" ±{100 * x.radius / x.mean:.0f}%" if x.mean and math.isfinite(x.radius) else "")


def _grown(curve: CostCurve, symbol: str) -> tuple[str, str]:
    """The growth, and the evidence for it."""
    g = curve.growth
    if g is None:
        return "-", ""
    if g.verdict == "flat":
        return "none", ""
    if g.verdict == "exponential":
        return f"2^({g.doublings.mean:.2f}±{g.doublings.radius:.2f} {symbol})", f"evidence {-g.evidence:.0f}"
    base = symbol if " " not in symbol else symbol[0]
    rate = f"{base}^({g.degree.mean:.1f}±{g.degree.radius:.1f})"
    return rate, f"evidence {g.evidence:.0f}" if g.verdict == "polynomial" else f"undecided, {g.evidence:.0f}"


def standings_table(standings: Sequence[Standing], runs: int) -> Table:
    """A summary of a sweep, one line per planner."""
    table = _table(
        f"{runs} run{'s' * (runs != 1)}",
        ["planner"],
        ["regret/|v*|", "queries", "secs", "certified", "failed"],
        "interquartile means with 95% bootstrap intervals; secs: median",
    )
    for s in standings:
        table.add_row(
            s.planner,
            _in_brackets(s.regret),
            _in_brackets(s.queries),
            "-" if s.seconds is None else seconds(s.seconds),
            f"{s.certified}/{s.brackets}" if s.brackets else "-",
            f"{s.failed}/{s.runs}",
        )
    return table


def so_far_table(rows: Iterable[Row]) -> Table:
    """A running sweep, one line per planner, with medians over the finished runs."""
    table = _table("So far", ["planner"], ["done", "failed", "regret", "queries", "secs"], "medians")
    by_planner: dict[str, list[Row]] = {}
    for row in rows:
        by_planner.setdefault(row.planner, []).append(row)
    for planner, mine in by_planner.items():
        done = [row for row in mine if row.done]
        columns = ([r.regret for r in done], [r.queries for r in done], [r.seconds for r in done])
        known = [[x for x in column if x is not None] for column in columns]
        cells = [number(median(column), 3) if column else "-" for column in known]
        table.add_row(planner, str(len(done)), str(len(mine) - len(done)), *cells)
    return table


def _in_brackets(x: Interval | None) -> str:
    """``mean [low, high]``."""
    if x is None:
        return "-"
    return f"{number(x.mean, 3)} [{number(x.low, 2)}, {number(x.high, 2)}]"


def _mark(verdict: bool | None) -> str:
    return "?" if verdict is None else "✓" if verdict else "✗"


def count(x: Decimal | float) -> str:
    """A count: all digits up to 10^9, powers of ten beyond."""
    if x == math.inf:
        return "no bound"
    if x == 0 or 1 <= x < 10**9:
        return f"{x:,.0f}"
    return f"{Decimal(x):.2e}" if x < 1e-3 or x >= 10**9 else f"{x:.3g}"


def brief(x: float) -> str:
    """A count with three digits from 100,000 on."""
    return f"{x:,.0f}" if x < 1e5 else f"{x:.2e}".replace("e+0", "e").replace("e+", "e")


def comparison_table(comparison: Comparison) -> Table:
    """One line per planner, best regret first."""
    seeds = len({row.seed for row in comparison.rows})
    summaries = comparison.summaries
    unit = summaries[0].queries.mean
    all_ended = all(s.ended == s.runs for s in summaries)
    note = (
        "mean per episode ± half-width of the 95% t interval;\n"
        "times: queries in units of the first planner's; worst: largest call"
    )
    if not all_ended:
        note += ";\nincomplete episodes count with their reward so far"
    columns = ["regret", "return", "queries", "times", "worst", "secs", *([] if all_ended else ["ended"])]
    table = _table(f"{comparison.problem}, {seeds} seed{'s' * (seeds != 1)}", ["planner"], columns, note)
    table.columns[0].min_width = min(20, max(len(s.planner) for s in summaries))
    for s in sorted(summaries, key=lambda s: math.inf if s.regret is None else s.regret.mean):
        table.add_row(
            s.planner,
            with_interval(s.regret),
            number(s.total_reward.mean),
            with_interval(s.queries),
            number(s.queries.mean / unit, 3) if unit else "-",
            f"{s.worst_call:,}",
            seconds(s.seconds),
            *([] if all_ended else [f"{s.ended}/{s.runs}"]),
        )
    return table


def diagnosis_table(diagnosis: Diagnosis) -> Table:
    """The findings about the features: a section for v* and one for q*."""
    from tensorplan.diagnosis.diagnosis import findings

    note = escape("\n".join(diagnosis.notes)) or None
    table = _table(f"Features of {diagnosis.problem}", ["", "about", "finding"], [], note)
    for part in diagnosis.parts:
        table.add_section()
        before = ""
        for row, (about, finding) in enumerate(findings(part)):
            table.add_row(f"{part.kind}*" if not row else "", "" if about == before else about, escape(finding))
            before = about
    return table


BLAMED = 5
"""Stages that are listed as sources of a gap."""


def audit_table(audit: Audit) -> Table:
    """The bracket of an audit, in one line."""
    a, left_out = audit, f", {_several(audit.cut, 'path')} cut" if audit.cut else ""
    played = f", {_several(a.episodes, 'episode')}" if a.episodes else ""
    note = f"{a.design}; {_several(a.scenarios, 'scenario')}{left_out}{played}\nended by {a.status}"
    right = ["lower", "upper", "gap", "of optimum", "confidence", "queries", "seconds"]
    table = _table(escape(f"{a.problem}, {a.policy}"), [], right, note if a.scenarios else None)
    share = f"{100 * a.loss:.3g}%" if a.loss < 1 else "-"
    bounds = [f"{x:.5g}" for x in (a.lower, a.upper, a.gap)]
    table.add_row(*bounds, share, f"{a.confidence:g}", count(a.queries), seconds(a.seconds))
    return table


def blame_table(audit: Audit) -> Table:
    """Where the gap of an audit comes from: the stages and states with the largest parts in it."""
    table = _table(
        "Where the gap comes from",
        ["where"],
        ["both", "hindsight", "policy"],
        "parts of the mean gap\nhindsight: V is too low, or luck\npolicy: bad actions, or V is too high",
    )
    stages = sorted(audit.stages.items(), key=lambda item: -item[1].total)[:BLAMED]
    for stage, share in stages if len(audit.stages) > 1 else ():
        table.add_row(f"stage {stage}", *_parts(share))
    table.add_section()
    for state, share in audit.states:
        table.add_row(escape(f"state {state}"), *_parts(share))
    return table


def _several(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"


def _parts(share: Share) -> list[str]:
    return [number(x, 3) for x in (share.total, share.hindsight, share.policy)]
