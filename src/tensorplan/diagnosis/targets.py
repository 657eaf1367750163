"""The places (stage, state) of a problem where they can be listed, and what features have to fit there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import NORM_SLACK, Array, OptimalValues, Problem, State
from tensorplan.core.errors import Refused
from tensorplan.features import PointFeatures
from tensorplan.problems.random.featurize import reachable
from tensorplan.problems.tables.reachable import WHOLE, Progress
from tensorplan.problems.tables.reachable import places as reached
from tensorplan.problems.tables.solution import exact_solution
from tensorplan.problems.tables.tabular import TabularMDP, solve_tabular

ENTRIES = 64_000_000
"""The most numbers in a matrix of features."""

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


def listed(problem: Problem, most: int, progress: Progress | None = None) -> tuple[Places, OptimalValues] | None:
    """All places with v* and q*: of a table, or what a deterministic problem's one start state leads to.

    None where that is not known, or where such a search finds more than ``most`` places.
    """
    if isinstance(problem.mdp, TabularMDP):
        return Tabled(problem.mdp), solve_tabular(problem)
    found = search(problem, most, progress) if problem.deterministic else None
    return None if found is None else (Found(found), exact_solution(problem, WHOLE, progress))


def search(problem: Problem, most: int, progress: Progress | None = None) -> list[tuple[int, State]] | None:
    """What the start state leads to, breadth first.

    None where there is more, where the start is random, or where states cannot be told apart.
    """
    drawn = [problem.mdp.start(np.random.default_rng(i)) for i in range(STARTS)]
    try:
        return None if len(set(drawn)) > 1 else list(reached(problem, most, WHOLE, progress))
    except (TypeError, Refused):  # states that cannot be hashed, chance, or too many of them
        return None


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
    progress: Callable[[str], None] | None = None,
) -> Gathering:
    """Features and values of kind "v" or "q", of all places, the reachable ones first.

    At most ``sample`` distinct features are gathered, fewer where they are long: of more, a random sample.
    """
    most = max(1, min(sample, ENTRIES // problem.dimension))
    parts, complete = (Gathered(), Gathered()), [True, True]
    for part, which in enumerate((places.reach, ~places.reach)):
        order = np.flatnonzero(which)
        if len(order) > most:
            order = np.random.default_rng(seed).permutation(order)
        for done, (place, phi) in enumerate(_features(problem, places, order.tolist(), kind)):
            if sum(map(len, parts)) >= most:
                complete[part] = False
                break
            if progress is not None and done % CHUNK == 0:
                progress(f"features of {done:,} of {len(order):,} places")
            for action, value in enumerate(_values(solution, kind, *places[place], problem.actions)):
                parts[part].add(phi[action], value, place, action)
    return Gathering(*parts, *complete)


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
