"""The hardness of the lower bound's instances: the cost of search in the abstract game, and of planners in the MDPs."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

from tensorplan.core.errors import BadInput
from tensorplan.core.intervals import Interval
from tensorplan.core.specs import lookup, whole
from tensorplan.evaluation.row import Row
from tensorplan.game import STRATEGIES, AbstractGame, Cost
from tensorplan.game.search import cost_of
from tensorplan.paper.growth import slope
from tensorplan.sweeps.sweep import collect
from tensorplan.sweeps.unit import Built, Experiment, PlannerUnit, Result, Unit, content_id

ROUNDS = 9
"""K of the MDPs for planners, the least in the paper's construction."""

SMALL = (2, 3, 4)
"""Their p: the optimistic step is infeasible for larger ones."""

PLANNERS = ("tensorplan", "uct")
"""The planners run on them."""

FOUND, GAVE_UP = "end", "gave up"
"""How a game can end."""


@dataclass(frozen=True)
class StrategyUnit:
    """One play of the abstract game: a strategy against the secret that the seed draws."""

    strategy: str
    p: int
    K: int
    seed: int

    @cached_property
    def row(self) -> Row:
        """The row before the play: strategy, p, K and seed, with the game in place of a problem."""
        return Row(content_id({"game": asdict(self)}), f"game/{self.p}x{self.K}", self.strategy, self.seed)

    def run(self, built: Built) -> Result:
        """Play the game; its queries are those up to the first reply with U or V = 1."""
        began = time.perf_counter()
        play = AbstractGame(self.p, self.K, seed=self.seed).play(STRATEGIES[self.strategy], seed=self.seed)
        stopped, seconds = FOUND if play.found else GAVE_UP, time.perf_counter() - began
        return Result(replace(self.row, status="done", queries=play.cost, stopped=stopped, seconds=seconds))


@dataclass(frozen=True)
class HardnessExperiment(Experiment):
    """Games of every strategy at every p, and planners on small hard MDPs M^v, square-free features, mean rewards."""

    sizes: tuple[int, ...]
    strategies: tuple[str, ...] = ("uniform", "best")
    rounds: int | None = None
    """K; None for K = p."""
    seeds: int = 20
    seed: int = 0
    with_planners: bool = True
    kind: ClassVar[str] = "hardness"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(whole("p", p, 2) for p in self.sizes))
        if not self.sizes:
            raise BadInput("give at least one p")
        for name in self.strategies:
            lookup("strategy", name, STRATEGIES)
        whole("seeds", self.seeds, 1)

    @cached_property
    def points(self) -> dict[str, tuple[Unit, ...]]:
        """By what it is in words: the games of a strategy at one p, and the run of a planner."""
        seeds = range(self.seed, self.seed + self.seeds)
        found: dict[str, tuple[Unit, ...]] = {
            f"{name} at p = {p}": tuple(StrategyUnit(name, p, self.rounds or p, seed) for seed in seeds)
            for p in self.sizes
            for name in self.strategies
        }
        for name, p in product(PLANNERS, SMALL if self.with_planners else ()):
            problem = f"hard/{p}x{ROUNDS}:features=reduced:kind=v:noise=false"
            found[f"{name} on hard/{p}x{ROUNDS}"] = (PlannerUnit(problem, name, self.seed, trace=True),)
        return found

    def units(self) -> list[Unit]:
        """The games, then the planners."""
        return [unit for units in self.points.values() for unit in units]

    def parameters(self) -> dict[str, Any]:
        """The fields as a dict."""
        return asdict(self)


@dataclass(frozen=True)
class Rate:
    """The growth of the cost of a strategy: log2(cost) against p, by least squares."""

    strategy: str
    doublings: Interval
    """Doublings of the cost per unit of p, with a 95% t interval."""
    guesses: float
    """The same for 2^p/|W_close|."""


@dataclass(frozen=True)
class Hardness:
    """The results of the experiment."""

    costs: tuple[Cost, ...]
    attempts: tuple[Row, ...]
    """The runs of planners on the hard MDPs, in which A = p and H = Kp."""
    missing: tuple[str, ...] = ()
    """Descriptions of what was not measured."""
    stopped: str | None = None
    """Why it stopped early: ``"interrupted"``, or a sentence on units that failed."""

    @property
    def growth(self) -> list[Rate]:
        """One fit per strategy measured at three or more p."""
        names = dict.fromkeys(c.strategy for c in self.costs)
        fits = [_fit(name, [c for c in self.costs if c.strategy == name and c.found]) for name in names]
        return [fit for fit in fits if fit is not None]


def hardness(experiment: HardnessExperiment, out: str | Path | None = None, **options: Any) -> Hardness:
    """The cost of each strategy at each p, and of planners for p = 2, 3, 4.

    ``out`` and ``options`` are those of :func:`tensorplan.sweeps.sweep.collect`.
    """
    found, stopped = collect(experiment, out, **options)
    costs, attempts, missing = list[Cost](), list[Row](), list[str]()
    for what, units in experiment.points.items():
        rows = [found[unit.row.id] for unit in units if unit.row.id in found]
        if len(rows) < len(units):
            missing.append(what)
        elif isinstance(units[0], StrategyUnit):
            costs.append(_cost(units[0], rows))
        else:
            attempts += rows
    return Hardness(tuple(costs), tuple(attempts), tuple(missing), stopped)


def _cost(game: StrategyUnit, rows: Sequence[Row]) -> Cost:
    queries = tuple(row.queries for row in rows if row.queries is not None)
    return cost_of(game.strategy, game.p, game.K, queries, sum(row.stopped == FOUND for row in rows))


def _fit(name: str, costs: Sequence[Cost]) -> Rate | None:
    sizes = [c.p for c in costs]
    if len(set(sizes)) < 3:
        return None
    ideal = slope(sizes, [c.bound.log2_guesses for c in costs])
    return Rate(name, slope(sizes, [math.log2(c.mean.mean) for c in costs]), ideal.mean)


def parse_sizes(text: str) -> list[int]:
    """The p in ``"16"``, ``"16:96"`` (about six, in steps of a multiple of 4 if possible) or ``"16:96:8"``."""
    parts = text.split(":")
    try:
        numbers = [int(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) == 1:
        return numbers
    if len(numbers) not in (2, 3) or numbers[0] > numbers[1] or (len(numbers) == 3 and numbers[2] < 1):
        raise BadInput(f"--p must be like 16, 16:96 or 16:96:8, got {text!r}")
    low, high = numbers[:2]
    unit = 4 if high - low >= 20 else 1
    step = numbers[2] if len(numbers) == 3 else max(1, unit * math.ceil((high - low) / (5 * unit)))
    return list(range(low, high + 1, step))
