"""The rows of Table 1: classes, families of instances, and the planners that the paper names.

Sizes differ between a quick and a full table.  The expected result, ``TableRow.paper``, is only printed beside the
verdict, and does not enter it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tensorplan.game import lower_bound
from tensorplan.problems.hard.exponential import forced_queries, usual_horizon
from tensorplan.problems.hard.near_orthogonal import usual_count
from tensorplan.sweeps.names import spec_of

STATES = 100
"""States per stage of the random layered problems."""

GUESSING = "tensorplan.game.planning:GuessPlanner"
"""The planner that plays the abstract game in the hard MDPs."""

EPISODES = 50
"""Episodes of a planner with a memory; it plans in the first."""


@dataclass(frozen=True)
class Contender:
    """A planner by its name in the table; ``sizes`` if it cannot be run at all sizes of the family, ``seeds`` if it is
    slow."""

    name: str
    spec: str
    sizes: tuple[int, ...] = ()
    seeds: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of its instances, if they differ from the family's."""


@dataclass(frozen=True)
class InstanceFamily:
    """Instances that grow in one parameter."""

    name: str
    symbol: str
    """The parameter that grows."""
    problem: Callable[..., str]
    """The spec of the instances of a size."""
    players: tuple[Contender, ...]
    delta: float
    quick: tuple[int, ...]
    full: tuple[int, ...]
    seeds: tuple[int, int]
    """At the largest size, in a quick and in a full table; twice as many at the next and four times as many at smaller
    ones, which take less time."""
    episodes: int = 1
    forced: Callable[[int], float] | None = None
    """Queries that the theorem forces on every sound planner, at a size."""

    def sizes(self, quick: bool) -> tuple[int, ...]:
        """The sizes of a quick or a full table."""
        return self.quick if quick else self.full


@dataclass(frozen=True)
class TableRow:
    """A class of problems."""

    number: int
    source: str
    actions: str
    """The number of actions, as the paper writes it."""
    members: str
    """The class."""
    paper: bool
    """Whether the class is tractable according to the paper."""
    families: tuple[InstanceFamily, ...]


def _planner(name: str, **params: Any) -> Contender:
    return Contender(name, spec_of(name, params))


def _layered(size: int, grows: tuple[str, ...], **options: Any) -> str:
    """Random layered problems whose parameters ``grows`` equal the size."""
    return spec_of("layered", {"states": STATES, **options, **dict.fromkeys(grows, size)})


def _exponential(size: int) -> str:
    return f"exponential/{size}"


def _exponential_forced(size: int) -> float:
    k = usual_count(size - 1)
    return forced_queries(k, usual_horizon(k), access="global")


def _hard(size: int, kind: str, features: str = "structured", noise: bool = True) -> str:
    return spec_of(f"hard/{size}x{_rounds(size)}", {"kind": kind, "features": features, "noise": noise})


def _rounds(p: int) -> int:
    """K: at least the 9 of the paper's construction."""
    return max(9, p)


def _hard_forced(p: int) -> float:
    return float(lower_bound(p, _rounds(p)).sharp)


def _limits(kind: str, small: str) -> tuple[InstanceFamily, ...]:
    """The hard MDPs of one kind: guessing, and a planner of the paper where its optimistic step is feasible."""
    guessing = tuple(Contender(f"guess {s}", spec_of(GUESSING, {"strategy": s})) for s in ("uniform", "best"))
    tried = Contender(small, small, (2, 3, 4), 2, {"features": "reduced", "noise": False})
    return (
        InstanceFamily(
            "hard MDPs, A = p, K = max(9, p)",
            "p",
            partial(_hard, kind=kind),
            (*guessing, tried),
            delta=0.01,
            quick=(8, 16, 24, 32, 40, 48, 56),
            full=(8, 16, 24, 32, 40, 48, 56, 64, 72),
            seeds=(8, 16),
            forced=_hard_forced,
        ),
    )


NAMES = {"d": "d", "horizon": "H", "actions": "A"}


def _random(
    planner: str,
    grows: tuple[str, ...],
    quick: tuple[int, ...],
    full: tuple[int, ...],
    seeds: tuple[int, int] = (6, 12),
    beside: tuple[Contender, ...] = (),
    **options: Any,
) -> InstanceFamily:
    """Random layered problems with Bernoulli rewards and, by default, random transitions."""
    fixed = {"d": 4, "horizon": 4, "actions": 2, "branching": 2, "noise": True, **options}
    shape = ", ".join(f"{NAMES[name]} = {fixed[name]}" for name in NAMES if name not in grows)
    return InstanceFamily(
        f"random layered, {shape}",
        " = ".join(NAMES[name] for name in grows),
        partial(_layered, grows=grows, **fixed),
        (_planner(planner, delta=0.5), *beside),
        delta=0.5,
        quick=quick,
        full=full,
        seeds=seeds,
        episodes=EPISODES,
    )


def _long(planner: str, **options: Any) -> InstanceFamily:
    return _random(planner, ("horizon",), (2, 4, 8, 16), (2, 4, 8, 16, 24), (8, 6), **options)


def _rich(planner: str, **options: Any) -> InstanceFamily:
    return _random(planner, ("d",), (2, 4, 8, 16), (2, 4, 8, 12, 16, 20), (24, 12), **options)


def _nothing_random(
    grows: tuple[str, ...], quick: tuple[int, ...], full: tuple[int, ...], **options: Any
) -> InstanceFamily:
    """Deterministic layered problems, drawn at random."""
    shape = f"d = H = {options['d']}" if "d" in options else f"d = H, A = {options['actions']}"
    return InstanceFamily(
        f"random layered, {shape}",
        " = ".join(NAMES[name] for name in grows),
        partial(_layered, grows=grows, kind="q", **options),
        (_planner("ocp"), _planner("span"), _planner("confident-lspi")),
        delta=1e-6,
        quick=quick,
        full=full,
        seeds=(4, 8),
    )


QSTAR: dict[str, Any] = {"kind": "q", "branching": 1}
REACH: dict[str, Any] = {"kind": "vq", "reach": True}
BESIDE = (Contender("bilin-ucb", "bilin-ucb:delta=0.5", (2, 4, 8), 4),)
"""BiLin-UCB on instances that are realizable at reachable states only."""

ROWS: tuple[TableRow, ...] = (
    TableRow(
        1,
        "Wen, Van Roy 2013",
        "any",
        "q* ∩ det",
        True,
        (
            _nothing_random(("d", "horizon"), (2, 4, 8, 16), (2, 4, 8, 16, 24, 32), actions=8),
            _nothing_random(("actions",), (4, 16, 64, 256), (4, 16, 64, 256, 1024), d=4, horizon=4),
        ),
    ),
    TableRow(
        2,
        "Du et al. 2021",
        "any",
        "v*/q*",
        True,
        (
            _random("bilin-ucb", ("d",), (2, 4, 8), (2, 4, 8, 16), kind="vq", actions=3),
            _random("bilin-ucb", ("horizon",), (2, 4, 8), (2, 4, 8, 12, 16), kind="vq", actions=3),
            _random("bilin-ucb", ("actions",), (2, 4, 8, 16), (2, 4, 8, 16, 32, 64), kind="vq"),
        ),
    ),
    TableRow(3, "Weisz et al. 2021", "O(1)", "v*", True, (_rich("tensorplan"), _long("tensorplan"))),
    TableRow(
        4,
        "Weisz et al. 2020",
        "2^Ω(d ∧ H)",
        "q* ∩ Pdet",
        False,
        (
            InstanceFamily(
                "near-orthogonal actions, A = e^((d-1)/32)",
                "d",
                _exponential,
                (_planner("root-search"),),
                delta=9 / 128,
                quick=(65, 97, 129, 161, 193, 225),
                full=(65, 97, 129, 161, 193, 225, 257, 289),
                seeds=(12, 40),
                forced=_exponential_forced,
            ),
        ),
    ),
    TableRow(5, "this paper", "Ω(d^¼ ∧ H^½)", "q* ∩ Pdet", False, _limits("q", "tensorplan-q")),
    TableRow(6, "this paper", "Ω(d^¼ ∧ H^½)", "v* ∩ Pdet", False, _limits("v", "tensorplan")),
    TableRow(7, "this paper", "Ω(d^¼ ∧ H^½)", "v*/q* reach ∩ Pdet", False, _limits("vq", "tensorplan")),
    TableRow(
        8,
        "this paper",
        "O(1)",
        "q* ∩ Pdet",
        True,
        (
            _random("tensorplan-q", ("d", "horizon"), (2, 3, 4, 6, 8), (2, 3, 4, 6, 8, 10), **QSTAR),
            _long("tensorplan-q", **QSTAR),
        ),
    ),
    TableRow(9, "this paper", "O(1)", "v*", True, (_rich("tensorplan", actions=3), _long("tensorplan", actions=3))),
    TableRow(
        10,
        "this paper",
        "O(1)",
        "v*/q* reach",
        True,
        (_rich("tensorplan", **REACH), _long("tensorplan", beside=BESIDE, **REACH)),
    ),
)
