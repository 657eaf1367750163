"""The places (stage, state) of a problem where they can be listed, and what features have to fit there."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import NORM_SLACK, Array, OptimalValues, Problem, State
from tensorplan.core.errors import Refused
from tensorplan.diagnosis.clock import Clock
from tensorplan.features import PointFeatures
from tensorplan.problems.random.featurize import reachable
from tensorplan.problems.simulate import draw_start
from tensorplan.problems.tables.reachable import Effort, as_hashable, sweeping
from tensorplan.problems.tables.reachable import places as reached
from tensorplan.problems.tables.solution import exact_solution
from tensorplan.problems.tables.tabular import TabularMDP, solve_tabular

ENTRIES = 64_000_000
"""The most numbers in a matrix of features."""

UNLIMITED = Clock()
"""For those who wait for the end."""

PACED = 20
"""Places whose features tell how long those of all take."""

STARTS = 16
"""Draws that tell whether the start state is random."""

CHUNK = 1_000
"""Places whose features are made at a time."""


class Tabled:
    """All places of a table, numbered through the stages; ``reach`` says which are reachable from the start."""

    def __init__(self, mdp: TabularMDP) -> None:
        self.mdp = mdp
        masks = reachable(mdp)
        self.reach: NDArray[np.bool_] = np.concatenate(masks)
        self._ends = np.cumsum([len(mask) for mask in masks]).tolist()

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, place: int) -> tuple[int, State]:
        """(stage, state)."""
        stage = bisect_right(self._ends, place)
        return stage, self.mdp.states(stage)[place - (self._ends[stage - 1] if stage else 0)]


class Found:
    """The places that a search found; all are reachable."""

    def __init__(self, places: Sequence[tuple[int, State]]) -> None:
        self.places = places
        self.reach: NDArray[np.bool_] = np.ones(len(places), dtype=bool)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: int) -> tuple[int, State]:
        """(stage, state)."""
        return self.places[place]


Places = Tabled | Found


def listed(problem: Problem, most: int, clock: Clock = UNLIMITED) -> tuple[Places, OptimalValues]:
    """All places with v* and q*: of a table, or what a deterministic problem's one start state leads to.

    Refused where they cannot be listed, or where such a search finds more than ``most`` places or runs out of time.
    """
    if isinstance(problem.mdp, TabularMDP):
        swept = sweeping(problem, clock.left, clock.progress)
        return Tabled(problem.mdp), solve_tabular(problem, swept=swept)
    found = search(problem, most, clock)
    return Found(found), exact_solution(problem, Effort(seconds=clock.left), clock.progress)


def search(problem: Problem, most: int, clock: Clock = UNLIMITED) -> list[tuple[int, State]]:
    """What the start state of a deterministic problem leads to, breadth first.

    Refused where there is more than ``most``, where chance is involved, where states cannot be told apart, or where the
    time runs out.
    """
    if problem.deterministic and len({_start(problem, i) for i in range(STARTS)}) > 1:
        raise Refused(f"problem {problem.name!r} has a random start state, so its states cannot be enumerated")
    return list(reached(problem, most, Effort(seconds=clock.left), clock.progress))


def _start(problem: Problem, seed: int) -> State:
    """A start state that can be hashed."""
    return as_hashable(draw_start(problem, np.random.default_rng(seed)))


def starts(problem: Problem) -> list[State]:
    """The start states of a problem whose places are listed."""
    if isinstance(problem.mdp, TabularMDP):
        return [state for state, _ in problem.mdp.start_weights()]
    return [problem.mdp.start(np.random.default_rng(0))]


# -------------------------------------------------------------------------------------- what features have to fit


@dataclass(frozen=True, eq=False)
class Targets:
    """What a fit has to look at: distinct features with the largest and the least of the values that they stand for."""

    phi: Array
    """(n, d)."""
    x: Array
    """v* or q*, (n,)."""
    where: NDArray[np.int64]
    """Place and action of each row, (n, 2); the action is 0 for v*."""
    count: int
    """How many places, times actions for q*, were merged into them."""


class Gathered:
    """Features and values of places, merged as they come."""

    def __init__(self) -> None:
        self._index: dict[bytes, int] = {}
        self._phi: list[Array] = []
        self._extremes: list[list[tuple[float, int, int]]] = []  # (value, place, action), largest and least
        self.count = 0

    def __len__(self) -> int:
        return len(self._phi)

    def add(self, phi: Array, value: float, place: int, action: int) -> None:
        """One more place."""
        self.count += 1
        key = blake2b((phi + 0.0).tobytes(), digest_size=16).digest()  # + 0.0: there are two zeros
        row, entry = self._index.setdefault(key, len(self._phi)), (value, place, action)
        if row == len(self._phi):
            self._phi.append(phi)
            self._extremes.append([entry, entry])
            return
        extremes = self._extremes[row]
        if value > extremes[0][0]:
            extremes[0] = entry
        elif value < extremes[1][0]:
            extremes[1] = entry

    def targets(self) -> Targets:
        """The rows: one per distinct features, or two where they have to fit different values."""
        pairs = [(row, entry) for row, both in enumerate(self._extremes) for entry in dict.fromkeys(both)]
        return Targets(
            np.array([self._phi[row] for row, _ in pairs]),
            np.array([value for _, (value, _, _) in pairs]),
            np.array([(place, action) for _, (_, place, action) in pairs], dtype=np.int64),
            self.count,
        )


@dataclass(frozen=True, eq=False)
class Gathering:
    """The targets where episodes can go, and elsewhere; and whether no place was left out of them."""

    inside: Gathered
    outside: Gathered
    all_inside: bool
    all_outside: bool


def gather(
    problem: Problem,
    places: Places,
    solution: OptimalValues,
    kind: str,
    *,
    sample: int,
    seed: int,
    clock: Clock = UNLIMITED,
) -> Gathering:
    """Features and values of kind "v" or "q", of all places, the reachable ones first.

    At most ``sample`` distinct features are gathered, fewer where they are long or slow: of more, a sample.  At Ctrl-C
    those gathered so far are kept.
    """
    most = max(1, min(sample, ENTRIES // problem.dimension))
    parts, complete = (Gathered(), Gathered()), [True, True]
    try:
        for part, which in enumerate((places.reach, ~places.reach)):
            complete[part] = False
            order = np.flatnonzero(which)
            if len(order) > most or _takes(problem, places, order, kind) > clock.left:
                order = np.random.default_rng(seed).permutation(order)
            for done, (place, phi) in enumerate(_features(problem, places, order.tolist(), kind)):
                if sum(map(len, parts)) >= most or clock.stops(partial(_features_of, done, len(order))):
                    break
                for action, value in enumerate(_values(solution, kind, *places[place], problem.actions)):
                    parts[part].add(phi[action], value, place, action)
            else:
                complete[part] = True
    except KeyboardInterrupt:
        clock.interrupt()
    return Gathering(*parts, *complete)


def _takes(problem: Problem, places: Places, order: NDArray[np.intp], kind: str) -> float:
    """About how many seconds the features of these places take, from a few of them."""
    few = order[:: max(1, len(order) // PACED)][:PACED].tolist()
    if not few:
        return 0.0
    began = time.perf_counter()
    for _ in _features(problem, places, few, kind):
        pass
    return (time.perf_counter() - began) / len(few) * len(order)


def _features_of(done: int, places: int) -> str:
    return f"features of {done:,} of {places:,} places"


def _values(solution: OptimalValues, kind: str, stage: int, state: State, actions: int) -> list[float]:
    """v*, or q* of all actions."""
    if kind == "v":
        return [solution.value(state, stage)]
    return [solution.action_value(state, action, stage) for action in range(actions)]


def _features(problem: Problem, places: Places, order: list[int], kind: str) -> Iterator[tuple[int, Array]]:
    """Each place with its features, (1, d) or (A, d), checked; maps of points are asked for many at once."""
    phi = problem.phi_v if kind == "v" else None
    for start in range(0, len(order), CHUNK):
        chunk = order[start : start + CHUNK]
        here = [places[place] for place in chunk]
        if isinstance(phi, PointFeatures):
            points = np.array([phi.places.point(state) for _, state in here])
            rows = phi.map.many(points, [stage for stage, _ in here])
            if (np.linalg.norm(rows, axis=1) <= 1 + NORM_SLACK).all():
                yield from zip(chunk, rows[:, None], strict=True)
                continue
        for place, (stage, state) in zip(chunk, here, strict=True):
            if kind == "v":
                yield place, problem.state_features(state, stage)[None]
            else:
                yield place, problem.action_features(state, stage)
