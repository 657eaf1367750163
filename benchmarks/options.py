"""Options with published prices, beside QuantLib: ``python -m benchmarks.options [--quick] [--plot FILE]``.

* The put of Longstaff and Schwartz (2001), Table 1: 20 cases, 50 dates a year.  Their prices are by finite differences
  and by least-squares Monte Carlo (LSM); QuantLib has an engine for each, run here in the same process.
* The call on the dearest of 2, 3 and 5 shares, 10 dates.  Published prices: a binomial lattice for 2 and 3 shares
  (Andersen and Broadie 2004), an interval of Broadie and Cao (2008) for 5.

Ours is ``tp.audit(problem, "greedy")``, with polynomials of the prices and the payoff as features: a 95% bracket that
holds whatever the features, and a policy that earns its lower end.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorplan as tp
from tensorplan.problems.cases.bermudan import DATES_PER_YEAR, Bermudan

PUTS = {
    "36-20-1": (4.478, 4.472),
    "36-20-2": (4.840, 4.821),
    "36-40-1": (7.101, 7.091),
    "36-40-2": (8.508, 8.488),
    "38-20-1": (3.250, 3.244),
    "38-20-2": (3.745, 3.735),
    "38-40-1": (6.148, 6.139),
    "38-40-2": (7.670, 7.669),
    "40-20-1": (2.314, 2.313),
    "40-20-2": (2.885, 2.879),
    "40-40-1": (5.312, 5.308),
    "40-40-2": (6.920, 6.921),
    "42-20-1": (1.617, 1.617),
    "42-20-2": (2.212, 2.206),
    "42-40-1": (4.582, 4.588),
    "42-40-2": (6.248, 6.243),
    "44-20-1": (1.110, 1.118),
    "44-20-2": (1.690, 1.675),
    "44-40-1": (3.948, 3.957),
    "44-40-2": (5.647, 5.622),
}
"""Price, volatility and years: by finite differences and by LSM."""

CALLS = {
    (2, 90): (8.075, 8.075),
    (2, 100): (13.902, 13.902),
    (2, 110): (21.345, 21.345),
    (3, 90): (11.290, 11.290),
    (3, 100): (18.690, 18.690),
    (3, 110): (27.580, 27.580),
    (5, 90): (16.620, 16.653),
    (5, 100): (26.115, 26.164),
    (5, 110): (36.710, 36.798),
}
"""Shares and their price: the published price, as an interval."""

PUT_WIDTH, CALL_WIDTH = 0.015, 0.02
"""The widths asked for, as a share of the price; brackets end there."""

PUT_BUDGET, CALL_BUDGET = 100_000_000, 60_000_000
"""Most queries of a bracket: of a put for each year, and of a call."""


class Engine(NamedTuple):
    """What an engine of QuantLib says."""

    price: float
    error: float
    seconds: float


@dataclass(frozen=True)
class Line:
    """One option."""

    name: str
    published: tuple[float, float]
    audit: tp.Audit
    differences: Engine | None = None
    simulation: Engine | None = None

    @property
    def holds(self) -> bool:
        """Whether the published price is in the bracket: an interval of prices must meet it."""
        return self.audit.lower <= self.published[1] and self.published[0] <= self.audit.upper

    @property
    def width(self) -> float:
        """The width of the bracket as a share of its middle."""
        return 2 * (self.audit.upper - self.audit.lower) / (self.audit.upper + self.audit.lower)


def bracket(name: str, width: float, workers: int, budget: float) -> tp.Audit:
    """The bracket of an option, until it is as narrow as asked for."""
    return tp.audit(name, "greedy", budget=round(budget), width=width, workers=workers)


# ------------------------------------------------------------------------------------------ QuantLib


class PutInQuantLib:
    """The put in QuantLib, by finite differences and by its LSM."""

    stretch = 8
    """Days between two exercise dates: dates are whole days there, so that a year is stretched to 400 of them."""

    def __init__(self, option: Bermudan, volatility: float, rate: float, paths: int) -> None:
        import QuantLib

        ql = QuantLib
        self.ql, self.option, self.paths = ql, option, paths
        today = ql.Date(1, 1, 2025)
        ql.Settings.instance().evaluationDate = today
        slower = 365 / (self.stretch * DATES_PER_YEAR)
        days = ql.Actual365Fixed()
        rates = [ql.YieldTermStructureHandle(ql.FlatForward(today, r, days)) for r in (0.0, rate * slower)]
        noise = ql.BlackConstantVol(today, ql.NullCalendar(), volatility * slower**0.5, days)
        self.process = ql.BlackScholesMertonProcess(
            ql.QuoteHandle(ql.SimpleQuote(option.spot)), *rates, ql.BlackVolTermStructureHandle(noise)
        )
        self.dates = [today + self.stretch * i for i in range(1, option.horizon)]
        self.today = today

    def differences(self) -> Engine:
        """Finite differences: 40 steps between two dates, 1,000 prices."""
        steps = 40 * len(self.dates)
        engine = self.ql.FdBlackScholesVanillaEngine(self.process, steps, 1000, 0)
        return self._price(self.ql.BermudanExercise(self.dates), engine)

    def simulation(self) -> Engine:
        """Least-squares Monte Carlo with polynomials of degree 5."""
        engine = self.ql.MCAmericanEngine(
            self.process,
            "pseudorandom",
            timeSteps=len(self.dates),
            requiredSamples=self.paths,
            seed=1,
            polynomOrder=5,
            nCalibrationSamples=self.paths,
        )
        return self._price(self.ql.AmericanExercise(self.today, self.dates[-1]), engine)

    def _price(self, exercise: Any, engine: Any) -> Engine:
        payoff = self.ql.PlainVanillaPayoff(self.ql.Option.Put, self.option.strike)
        contract = self.ql.VanillaOption(payoff, exercise)
        contract.setPricingEngine(engine)
        began = time.perf_counter()
        price = contract.NPV()
        seconds = time.perf_counter() - began
        try:
            error = contract.errorEstimate()
        except RuntimeError:  # not a simulation
            error = 0.0
        return Engine(price, error, seconds)


# ------------------------------------------------------------------------------------------ tables


def puts(cases: Sequence[str], workers: int, paths: int) -> list[Line]:
    """The table of puts."""
    import QuantLib

    print(f"puts: published by finite differences and LSM; QuantLib {QuantLib.__version__}, LSM with {paths:,} paths")
    print(f"  {'put':<8} {'published':>13} {'our bracket':>17} {'width':>6} {'policy':>7} {'seconds':>7}", end="")
    print(f" {'differences':>12} {'LSM':>15} {'seconds':>7}")
    lines = []
    for case in cases:
        name, published = f"put/{case}", PUTS[case]
        _, volatility, years = (float(part) for part in case.split("-"))
        audit = bracket(name, PUT_WIDTH * published[0], workers, PUT_BUDGET * years)
        option: Any = tp.make(name).mdp
        rival = PutInQuantLib(option, volatility / 100, 0.06, paths)
        line = Line(name, (published[0], published[0]), audit, rival.differences(), rival.simulation())
        lines.append(line)
        assert line.differences is not None
        assert line.simulation is not None
        print(
            f"  {case:<8} {published[0]:>6.3f} {published[1]:>6.3f} {_bracket(line)} {line.differences.price:>12.4f} "
            f"{line.simulation.price:>7.3f} ± {1.96 * line.simulation.error:.3f} {line.simulation.seconds:>7.1f}",
            flush=True,
        )
    _verdict(lines, PUT_WIDTH)
    return lines


def calls(cases: Sequence[tuple[int, int]], workers: int) -> list[Line]:
    """The table of calls."""
    print("calls on the dearest of several shares")
    print(
        f"  {'shares':>6} {'price':>5} {'published':>16} {'our bracket':>17} {'width':>6} {'policy':>7} {'seconds':>7}"
    )
    lines = []
    for shares, price in cases:
        published = CALLS[shares, price]
        name = f"max-call/{shares}:s0={price}"
        line = Line(name, published, bracket(name, CALL_WIDTH * published[0], workers, CALL_BUDGET))
        lines.append(line)
        known = f"{published[0]:.3f}" if published[0] == published[1] else f"{published[0]:.3f}, {published[1]:.3f}"
        print(f"  {shares:>6} {price:>5} {known:>16} {_bracket(line)}", flush=True)
    _verdict(lines, CALL_WIDTH)
    return lines


def _bracket(line: Line) -> str:
    audit = line.audit
    ends = f"[{audit.lower:.3f}, {audit.upper:.3f}]"
    return f"{ends:>17} {100 * line.width:>5.1f}% {audit.mean_return:>7.3f} {audit.seconds:>7.1f}"


def _verdict(lines: Sequence[Line], width: float) -> None:
    missed, wide = [x.name for x in lines if not x.holds], [x.name for x in lines if x.width > 1.01 * width]
    total = sum(line.audit.seconds for line in lines)
    print(f"  published prices outside of the bracket: {', '.join(missed) or 'none'}; ", end="")
    print(f"brackets wider than {100 * width:g}%: {', '.join(wide) or 'none'}; {total:.0f} s in all")


def plot(path: str, lines: Sequence[Line]) -> None:
    """Brackets relative to the published price."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for at, line in enumerate(lines):
        middle = (line.published[0] + line.published[1]) / 2
        ends = [100 * (end / middle - 1) for end in (line.audit.lower, line.audit.upper)]
        axes.plot([at, at], ends, color="tab:blue", linewidth=3, label=None if at else "our bracket, 95%")
        if line.simulation is not None:
            here = 100 * (line.simulation.price / middle - 1)
            error = 196 * line.simulation.error / middle
            label = None if at else "QuantLib's LSM, 95%"
            axes.errorbar(at + 0.25, here, error, color="tab:orange", fmt=".", markersize=4, label=label)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(lines)), [line.name.partition("/")[2] for line in lines], rotation=90, fontsize=7)
    axes.set_ylabel("per cent of the published price")
    axes.legend(loc="upper right")
    figure.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the first put and the first call")
    parser.add_argument("--workers", type=int, default=2, help="processes of an audit")
    parser.add_argument("--only", choices=("puts", "calls"), help="one of the tables")
    parser.add_argument("--plot", metavar="FILE", help="a picture of the brackets")
    options = parser.parse_args(arguments)
    lines = list[Line]()
    if options.only != "calls":
        lines += puts(list(PUTS)[: 1 if options.quick else None], options.workers, 50_000)
    if options.only != "puts":
        lines += calls(list(CALLS)[: 1 if options.quick else None], options.workers)
    if options.plot:
        plot(options.plot, lines)


if __name__ == "__main__":
    main()
