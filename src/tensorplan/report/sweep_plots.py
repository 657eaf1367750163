"""The plots of a sweep: queries against regret, performance profiles, scaling in A, d and H."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tensorplan.core.intervals import Interval
from tensorplan.evaluation.row import Row
from tensorplan.report import svg
from tensorplan.report.markup import Markup, join, tag
from tensorplan.report.pieces import Section, count, spelled
from tensorplan.sweeps.standings import Standing, normalised_regret, profiles, scaling, standings
from tensorplan.sweeps.statistics import bootstrap, grouped

SIZES = {"dimension": "d", "actions": "A", "horizon": "H"}


@dataclass(frozen=True)
class Runs:
    """The runs and their summaries, computed once."""

    rows: Sequence[Row]

    @cached_property
    def planners(self) -> list[str]:
        """The planners in order of appearance, which numbers the series."""
        return list(dict.fromkeys(row.planner for row in self.rows))

    @cached_property
    def standings(self) -> list[Standing]:
        """One standing per planner."""
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


def pictures(runs: Runs) -> Section | None:
    """The plots that have data, below one legend."""
    figures = [_trade_off(runs), _profile(runs), *(_scaling(runs, size) for size in SIZES)]
    there = [figure for figure in figures if figure is not None]
    if not there:
        return None
    keys = [
        tag("button", svg.swatch(i), name, type="button", aria_pressed="true", data_toggle=i)
        for i, name in enumerate(runs.planners)
    ]
    legend = tag("div", *keys, class_="legend", role="group", aria_label="Planners shown in the plots")
    return "pictures", "Pictures", join([legend, tag("div", *there, class_="figures")])


def _trade_off(runs: Runs) -> Markup | None:
    """Queries against regret: a dot per planner and problem, a marker with intervals per planner."""
    centres: dict[int, tuple[Interval, Interval]] = {}
    clouds: dict[int, list[tuple[float, float]]] = {}
    for index, judged in enumerate(runs.judged.values()):
        if judged:
            strata = grouped((row.problem, (float(row.queries or 0), regret)) for row, regret in judged)
            standing = runs.standings[index]
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
        name = runs.planners[index]
        title = f"{name}: {spelled(queries)} queries, regret {spelled(regret)}"
        cloud = svg.dots((x.place(q), y.place(r)) for q, r in clouds[index])
        series.append(svg.group(index, name, cloud, svg.whiskers(bars), svg.marker(*at, index, title)))
    describe = f"Queries against normalised regret of {count(len(centres), 'planner')}, both on logarithmic axes"
    picture = svg.plot(x, y, "queries", "regret / |v*|", _paths(runs, centres, x, y) + series, describe)
    caption = "Each marker is a planner over all problems, with its 95% intervals; each dot the means on one problem. "
    caption += "Grey lines join one planner with different parameters. Further left and further down is better."
    return _figure("Queries and regret", picture, caption)


def _paths(runs: Runs, centres: Mapping[int, tuple[Interval, Interval]], x: svg.Scale, y: svg.Scale) -> list[Markup]:
    """Lines through the settings of one planner, in order of queries."""
    families = grouped((runs.planners[index].partition(":")[0], index) for index in centres)
    paths = []
    for members in families.values():
        means = sorted((centres[index][0].mean, centres[index][1].mean) for index in members)
        if len(means) > 1:
            paths.append(tag("g", svg.line([(x.place(q), y.place(r)) for q, r in means], 1), class_="joins"))
    return paths


def _profile(runs: Runs) -> Markup | None:
    regrets = [regret for judged in runs.judged.values() for _, regret in judged]
    if not regrets:
        return None
    positive = [regret for regret in regrets if regret > 0] or [1.0]
    low, high = max(min(positive) / 2, 1e-6), max(2 * max(positive), 1e-5)
    taus = np.concatenate([[0.0], np.geomspace(low, high, 80)])
    x = svg.Scale(low, high, svg.LEFT, svg.RIGHT, log=True, floor="≤ 0")
    y = svg.Scale(0.0, 1.0, svg.BOTTOM, svg.TOP)
    series = []
    found = profiles(runs.rows, taus)
    for planner, curve in found.items():
        index = runs.planners.index(planner)
        at = [x.place(tau) for tau in taus]
        above, below = ([(px, y.place(v)) for px, v in zip(at, side, strict=True)] for side in (curve.high, curve.low))
        middle = [(px, y.place(v)) for px, v in zip(at, curve.fraction, strict=True)]
        series.append(svg.group(index, planner, svg.band(above, below), svg.line(middle, index)))
    describe = f"Performance profiles of {count(len(found), 'planner')}: the fraction of runs up to each regret"
    picture = svg.plot(x, y, "regret / |v*| at most", "fraction of runs", series, describe)
    known = {row.problem for row in runs.rows if row.optimal is not None}
    out = sum(row.problem not in known or (row.done and row.optimal is None) for row in runs.rows)
    caption = (
        "The fraction of runs with a regret of at most this; failed runs never reach it. Bands: 95% at each point, by "
        "stratified bootstrap. Higher is better."
    )
    caption += f" {count(out, 'run')} left out: v*(s₀) is not known." if out else ""
    return _figure("Performance profile", picture, caption)


def _scaling(runs: Runs, size: str) -> Markup | None:
    curves, pooled = scaling(runs.rows, size)
    if not curves:
        return None
    letter = SIZES[size]
    everything = [(at, interval) for curve in curves for at, interval in curve.points]
    x = svg.log_scale((at for at, _ in everything), svg.LEFT, svg.RIGHT, (at for at, _ in everything))
    y = svg.log_scale((end for _, q in everything for end in _ends(q)), svg.BOTTOM, svg.TOP)
    series = []
    for curve in curves:
        index = runs.planners.index(curve.planner)
        at = [(x.place(value), y.place(q.mean)) for value, q in curve.points]
        bars = [
            (x.place(value), y.place(q.low), x.place(value), y.place(q.high))
            for value, q in curve.points
            if math.isfinite(q.high)
        ]
        signs = [
            svg.marker(*place, index, f"{curve.planner}; {curve.fixed}, {letter} = {value}: {spelled(q)} queries")
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


def _figure(title: str, picture: Markup, caption: str) -> Markup:
    return tag("figure", tag("h3", title), picture, tag("figcaption", caption))


def _ends(x: Interval) -> list[float]:
    """The values that a plot must contain."""
    return list(x) if math.isfinite(x.high) else [x.mean]
