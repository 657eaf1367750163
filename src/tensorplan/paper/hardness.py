"""How hard the lower bound's instances are: the cost of search in the abstract game, and of planners in the MDPs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from tensorplan.core.errors import BadInput
from tensorplan.core.intervals import Interval
from tensorplan.core.specs import lookup, whole
from tensorplan.game import STRATEGIES, Cost, cost
from tensorplan.loop import run
from tensorplan.paper.growth import slope
from tensorplan.planners.baselines.uct import UCT
from tensorplan.planners.tensorplan.planner import TensorPlan
from tensorplan.problems.catalog import make

ROUNDS = 9
"""K of the MDPs that planners play, the least of the paper's construction."""

PLAYERS = ("tensorplan", "uct")
"""The planners that play them."""


@dataclass(frozen=True)
class Rate:
    """How fast the cost of a strategy grows: log2(cost) against p, by least squares."""

    strategy: str
    doublings: Interval
    """Doublings of the cost per unit of p, with a 95% t interval."""
    guesses: float
    """The same of 2^p/|W_close|."""


@dataclass(frozen=True)
class Attempt:
    """One planner on one hard MDP M^v, with square-free features and mean rewards."""

    planner: str
    p: int
    K: int
    d: int
    queries: int
    failures: int | None
    nodes: int | None
    loss: float
    seconds: float


@dataclass(frozen=True)
class Hardness:
    """Everything that was measured."""

    costs: tuple[Cost, ...]
    attempts: tuple[Attempt, ...]
    missing: tuple[str, ...] = ()
    """What Ctrl-C left unmeasured, in words."""

    @property
    def growth(self) -> list[Rate]:
        """One fit per strategy that was measured at three p or more."""
        names = dict.fromkeys(c.strategy for c in self.costs)
        fits = [_fit(name, [c for c in self.costs if c.strategy == name and c.found]) for name in names]
        return [fit for fit in fits if fit is not None]


def hardness(
    sizes: Iterable[int],
    strategies: Sequence[str] = ("uniform", "best"),
    *,
    rounds: int | None = None,
    seeds: int = 20,
    seed: int = 0,
    planners: bool = True,
    progress: Callable[[int, int, str], None] | None = None,
) -> Hardness:
    """The cost of each strategy at each p, with K = ``rounds`` (p unless given), and of planners for p = 2, 3, 4.

    ``progress(done, total, what)`` is called before each measurement.  Ctrl-C ends it with those that are finished.
    """
    sizes = [whole("p", p, 2) for p in sizes]
    if not sizes:
        raise BadInput("give at least one p")
    for name in strategies:
        lookup("strategy", name, STRATEGIES)
    games = range(seed, seed + whole("seeds", seeds, 1))
    todo: dict[str, Callable[[], Cost | Attempt]] = {
        f"{name} at p = {p}": partial(cost, name, p, rounds or p, games) for p in sizes for name in strategies
    }
    if planners:
        todo |= {
            f"{name} on hard/{p}x{ROUNDS}": partial(_attempt, name, p, seed) for name in PLAYERS for p in (2, 3, 4)
        }
    found: list[Cost | Attempt] = []
    with suppress(KeyboardInterrupt):
        for what, measure in todo.items():
            if progress is not None:
                progress(len(found), len(todo), what)
            found.append(measure())
    return Hardness(
        tuple(x for x in found if isinstance(x, Cost)),
        tuple(x for x in found if isinstance(x, Attempt)),
        tuple(todo)[len(found) :],
    )


def _attempt(planner: str, p: int, seed: int) -> Attempt:
    problem = make("hard", p=p, K=ROUNDS, kind="v", features="reduced", noise=False, seed=seed)
    config: Any = TensorPlan(trace=True) if planner == "tensorplan" else UCT()
    played = run(problem, config, seed=seed)
    if played.interrupted or not played.episodes:
        raise KeyboardInterrupt
    (episode,) = played.episodes
    trace = episode.trace
    return Attempt(
        planner=planner,
        p=p,
        K=ROUNDS,
        d=problem.dimension,
        queries=episode.total_queries,
        failures=None if trace is None else sum(len(i.failures) for i in trace.iterations),
        nodes=None if trace is None else sum(i.nodes for i in trace.iterations),
        loss=problem.optimal_value(episode.start) - episode.total_reward,
        seconds=episode.seconds,
    )


def _fit(name: str, costs: Sequence[Cost]) -> Rate | None:
    sizes = [c.p for c in costs]
    if len(set(sizes)) < 3:
        return None
    ideal = slope(sizes, [c.bound.log2_guesses for c in costs])
    return Rate(name, slope(sizes, [math.log2(c.mean.mean) for c in costs]), ideal.mean)


def parse_sizes(text: str) -> list[int]:
    """The p of ``"16"``, ``"16:96"`` (about six, in steps of a multiple of 4 where that fits) or ``"16:96:8"``."""
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
