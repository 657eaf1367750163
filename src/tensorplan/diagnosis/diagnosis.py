"""How far features are from realizing v* and q*, what B they need, what is guaranteed with them, which are redundant.

Where the places (stage, state) can be listed the misfit η = min_θ max |v* - <φ, θ>| is bracketed
(:mod:`tensorplan.features.misfit`), with v* as dynamic programming gives it; elsewhere TensorPlan tries to refute
realizability (:mod:`tensorplan.diagnosis.refutation`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tensorplan.core import Array, OptimalValues, Problem
from tensorplan.core.errors import BadInput, Refused
from tensorplan.core.jsonable import plain
from tensorplan.core.specs import number, one_of, whole
from tensorplan.diagnosis.clock import Clock, Progress
from tensorplan.diagnosis.guarantee import Guarantee, guarantee, rounded_down, rounded_up
from tensorplan.diagnosis.redundancy import Redundant, redundant
from tensorplan.diagnosis.refutation import RefutationAttempt, try_to_refute
from tensorplan.diagnosis.targets import Gathering, Places, Targets, gather, listed, starts
from tensorplan.features.misfit import Fitter, SupFit
from tensorplan.problems.catalog import as_problem

REALIZED = 1e-9
"""A misfit, relative to 1 + ‖θ‖, that is rounding, as TensorPlan's exact mode takes it."""

SAMPLE = 1_000_000
"""Distinct features that are fitted, unless given."""

SEARCHED = 200_000
"""Places (stage, state) that a search through a deterministic problem may find, unless given."""

SECONDS = 60.0
"""About how long a diagnosis may take, unless given."""

LISTING, GATHERING = 0.5, 0.6
"""The shares of the time that is left, after which listing places ends, and after which computing features does."""

PACE = 1e8
"""Rows times d^2 for each second of the time: a fit decomposes several times as many, even on a slow processor."""

BUDGET = 100_000
"""Queries of one attempt to refute, unless given."""

SHOWN = 4
"""How many names or states one sentence lists."""

NOTHING = 1e-9
"""A weight below this is rounding."""


class Bracket(NamedTuple):
    """Bounds on a number; ``upper`` is infinite where only a lower bound is known."""

    lower: float
    upper: float


@dataclass(frozen=True)
class WorstState:
    """A state, at a stage, that keeps the misfit from being smaller."""

    stage: int
    state: Any
    action: int | None
    """None for v*."""
    value: float
    """v* or q*."""
    fitted: float
    """<φ, θ>."""
    residual: float
    """value - fitted."""
    weight: float
    """|λ|: its share in the proof that no θ fits better."""


@dataclass(frozen=True)
class Fitted:
    """The fit of one feature map over all places (stage, state) that are reachable from the start."""

    kind: str
    """``"v"`` or ``"q"``."""
    dimension: int
    rank: int
    redundant: tuple[Redundant, ...]
    places: int
    """How many were fitted, times actions for q*."""
    complete: bool
    """Whether these are all; if not they are a sample, and only lower bounds are known."""
    eta: Bracket
    """The misfit; the lower bound is for θ of norm up to ``radius``."""
    radius: float
    everywhere: Bracket | None
    """The same over all places of a table, where some are not reachable."""
    theta: tuple[float, ...] | None
    """Of least norm among those that attain ``eta.upper``, but for 10^-10 of the largest value."""
    norm: Bracket
    """The norm that this takes: the B that is needed; not known from a sample, whose η is smaller."""
    worst: tuple[WorstState, ...]
    """The places that prove the lower bound, largest weight first."""
    declared_eta: float
    declared_bound: float
    declared_norm: Bracket | None
    """The B needed at the problem's own eta; None where no B up to ``radius`` is enough."""
    in_ball: Bracket
    """The misfit of θ with ‖θ‖ <= declared_bound."""
    guarantee: Guarantee | None
    """None where the misfit has no upper bound."""
    stopped: bool = False
    """Whether the time, or Ctrl-C, ended the fit: its bounds hold, and might be closer."""

    @property
    def realized(self) -> bool:
        """Whether the features realize the values up to rounding."""
        return self.eta.upper <= REALIZED * (1 + self.norm.upper) and math.isfinite(self.norm.upper)

    @property
    def suffices(self) -> bool | None:
        """Whether some θ in the declared ball misses by the declared eta at most, up to rounding; None: not known."""
        allowed = self.declared_eta + REALIZED * (1 + self.declared_bound)
        return True if self.in_ball.upper <= allowed else False if self.in_ball.lower > allowed else None


@dataclass(frozen=True)
class Diagnosis:
    """What is known about the features of a problem, one part per feature map."""

    problem: str
    parts: tuple[Fitted | RefutationAttempt, ...]
    notes: tuple[str, ...] = ()
    """What could not be listed or fitted, and why."""
    unmetered: int = 0
    """Simulator steps so far that no planner queried: listing the places takes many."""
    interrupted: bool = False
    """Whether Ctrl-C ended it: what is said is what was known by then."""

    def __getitem__(self, kind: str) -> Fitted | RefutationAttempt:
        """The part of ``"v"`` or ``"q"``."""
        for part in self.parts:
            if part.kind == kind:
                return part
        raise BadInput(f"the diagnosis of problem {self.problem!r} has no part {kind!r}")

    def __str__(self) -> str:
        found = [f"{part.kind}*, {what}: {said}" for part in self.parts for what, said in findings(part)]
        return "\n  ".join([self.problem, *found, *self.notes])

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        parts = [{"method": METHODS[type(part)], **plain(part)} for part in self.parts]
        return {
            "problem": self.problem,
            "parts": parts,
            "notes": list(self.notes),
            "unmetered": self.unmetered,
            "interrupted": self.interrupted,
        }


METHODS: dict[type[Any], str] = {Fitted: "fitted", RefutationAttempt: "trial"}
"""How the parts of a diagnosis were found, as plain data says it."""


def diagnose(
    problem: Problem | str,
    *,
    kind: str | None = None,
    sample: int = SAMPLE,
    states: int = SEARCHED,
    seconds: float = SECONDS,
    budget: int = BUDGET,
    seed: int = 0,
    progress: Progress | None = None,
) -> Diagnosis:
    """How far the features of a problem are from realizing v* ("v"), q* ("q"), or whichever it has features for.

    The problem may be given by name.  Of a table, and of a deterministic problem with at most ``states`` places (stage,
    state), all places are fitted: η in a bracket, the θ that attains it, the worst states, the B that is needed, what
    TensorPlan guarantees then, redundant features.  ``sample`` bounds the number of distinct feature vectors; of more,
    a random sample is fitted, and η has a lower bound only.  For other problems TensorPlan tries to refute
    realizability with ``budget`` queries.

    It ends after about ``seconds``, or at Ctrl-C, with what is proven by then; ``notes`` say what could not be listed
    or fitted.  ``progress(text)`` is called about twice a second.
    """
    sample, budget, seed = whole("sample", sample, 1), whole("budget", budget, 0), whole("seed", seed, 0)
    states, seconds = whole("states", states, 1), seconds if seconds == math.inf else number("seconds", seconds, 0.0)
    if progress is not None and not callable(progress):
        raise BadInput(f"progress must be a function of a text, got {progress!r}")
    problem = as_problem(problem, seed)
    maps = {"v": problem.phi_v, "q": problem.phi_q}
    if kind is not None and maps[one_of("kind", kind, maps)] is None:
        raise BadInput(f"problem {problem.name!r} has no phi_{kind}")
    chosen = [kind] if kind is not None else [each for each, phi in maps.items() if phi is not None]
    examination = _Examination(problem, sample, budget, seed, Clock(seconds, progress))
    try:
        examination.run(chosen, states)
    except KeyboardInterrupt:
        examination.interrupted()
    return examination.result()


class _Examination:
    """A diagnosis while it is made."""

    def __init__(self, problem: Problem, sample: int, budget: int, seed: int, clock: Clock) -> None:
        self.problem, self.sample, self.budget, self.seed, self.clock = problem, sample, budget, seed, clock
        self.parts: list[Fitted | RefutationAttempt] = []
        self.notes: list[str] = []
        self.doing = "listing states"
        """What Ctrl-C would interrupt."""

    def run(self, kinds: list[str], states: int) -> None:
        """A part for each kind: a fit where the places can be listed, else an attempt to refute."""
        known, unlisted = None, ""
        try:
            known = listed(self.problem, states, self.clock.part(LISTING))
        except Refused as refusal:
            unlisted = f"not all states were fitted: {refusal}"
        for left, kind in zip(range(len(kinds), 0, -1), kinds, strict=True):
            clock = self.clock.part(1 / left)
            if known is not None:
                self._fit(kind, *known, clock)
            else:
                self._refute(kind, clock, last=left == 1)
        self.notes += [unlisted] if unlisted else []

    def result(self) -> Diagnosis:
        """What is known."""
        interrupted = self.clock.interrupted
        return Diagnosis(self.problem.name, tuple(self.parts), tuple(self.notes), self.problem.unmetered, interrupted)

    def interrupted(self) -> None:
        """Ctrl-C came where nothing was known yet."""
        self.clock.interrupt()
        self.notes.append(f"interrupted while {self.doing}")

    def _fit(self, kind: str, places: Places, solution: OptimalValues, clock: Clock) -> None:
        self.doing = f"gathering features for {kind}*"
        gathering = gather(
            self.problem, places, solution, kind, sample=self._sample(), seed=self.seed, clock=clock.part(GATHERING)
        )
        if not len(gathering.inside):
            self.notes.append(f"{kind}* was not fitted: no features were computed in time")
            return
        count = len(gathering.inside)
        self.doing = f"fitting {count:,} distinct features"
        clock.tell(lambda: self.doing)
        part = _fitted(self.problem, kind, places, solution, gathering, clock)
        self.parts.append(part)
        if not part.complete:
            self.notes.append(f"{kind}* was fitted at {part.places:,} places only: no upper bound on eta is known")
        if part.stopped:
            why = "Ctrl-C" if clock.interrupted else "the end of the time"
            self.notes.append(f"{why} stopped the fit of {kind}*: its bounds hold, and more time may improve them")

    def _sample(self) -> int:
        """Distinct features that are gathered: as many as can be fitted in time."""
        return max(1, int(min(self.sample, self.clock.seconds * PACE / self.problem.dimension**2)))

    def _refute(self, kind: str, clock: Clock, last: bool) -> None:
        self.doing = f"trying to refute that {kind}* is realized"
        try:
            part = try_to_refute(self.problem, kind, self.budget, self.seed, clock)
        except Refused as refusal:
            self.notes.append(str(refusal))
            if last and not self.parts:
                raise
            return
        self.parts.append(part)
        if part.interrupted:
            clock.interrupt()
        if part.out_of_time:
            self.notes.append(f"the end of the time stopped the trial of {kind}*: more time may find more")


def _fitted(
    problem: Problem, kind: str, places: Places, solution: OptimalValues, gathering: Gathering, clock: Clock
) -> Fitted:
    """All that the targets say."""
    inside, complete = gathering.inside.targets(), gathering.all_inside

    stopped = False

    def stop() -> bool:
        nonlocal stopped
        stopped = stopped or clock.stops(lambda: f"fitting {len(inside.x):,} distinct features")
        return stopped

    fitter = Fitter(inside.phi, inside.x, stop)
    best, shortest = fitter.best(problem.bound), fitter.shortest(0.0)
    ball = fitter.within(problem.bound)
    names = getattr(problem.phi_v if kind == "v" else problem.phi_q, "names", None)
    dependent = redundant(fitter.triangle, names)
    everywhere = None if fitter.stopped else _everywhere(problem, inside, gathering, stop)

    def bracket(lower: float, upper: float, more: bool = True) -> Bracket:
        return Bracket(lower, upper if complete and more else math.inf)

    fitted = Fitted(
        kind=kind,
        dimension=problem.dimension,
        rank=problem.dimension - len(dependent),
        redundant=dependent,
        places=inside.count,
        complete=complete,
        eta=bracket(best.lower, best.upper),
        radius=best.radius if everywhere is None else min(best.radius, everywhere.radius),
        everywhere=None if everywhere is None else bracket(everywhere.lower, everywhere.upper, gathering.all_outside),
        theta=tuple(shortest.theta.tolist()) if complete else None,
        norm=bracket(shortest.lower if complete else 0.0, shortest.upper),
        worst=_worst(inside, places, best, shortest.theta, kind),
        declared_eta=problem.eta,
        declared_bound=problem.bound,
        declared_norm=_declared_norm(problem, fitter, best, complete),
        in_ball=bracket(ball.lower, ball.upper),
        guarantee=None,
    )
    if complete:
        optimum = max(solution.value(state, 0) for state in starts(problem))
        fitted = replace(fitted, guarantee=_guarantee(problem, fitted, fitter, optimum))
    if fitter.interrupted:
        clock.interrupt()
    return replace(fitted, stopped=stopped or fitter.interrupted)


def _everywhere(problem: Problem, inside: Targets, gathering: Gathering, stop: Callable[[], bool]) -> SupFit | None:
    """The fit over all places of a table, where some are not reachable."""
    if not gathering.outside.count:
        return None
    outside = gathering.outside.targets()
    phi, x = np.concatenate([inside.phi, outside.phi]), np.concatenate([inside.x, outside.x])
    return Fitter(phi, x, stop).best(problem.bound)


def _declared_norm(problem: Problem, fitter: Fitter, best: SupFit, complete: bool) -> Bracket | None:
    """N at the problem's own eta, rounding forgiven."""
    if best.lower > problem.eta + REALIZED * (1 + problem.bound):
        return None
    shortest = fitter.shortest(problem.eta)
    reached = complete and shortest.residual <= problem.eta + REALIZED * (1 + shortest.upper)
    return Bracket(shortest.lower, shortest.upper if reached else math.inf)


def _guarantee(problem: Problem, fitted: Fitted, fitter: Fitter, optimum: float) -> Guarantee:
    """With η and B in four digits, rounded up."""
    if fitted.realized:
        return guarantee(problem, fitted.kind, 0.0, fitted.norm.upper, optimum)
    eta = rounded_up(fitted.eta.upper)
    return guarantee(problem, fitted.kind, eta, fitter.shortest(eta).upper, optimum)


def _worst(targets: Targets, places: Places, best: SupFit, theta: Array, kind: str) -> tuple[WorstState, ...]:
    """The support of λ, largest weight first; what differs by rounding alone stays in the order of places."""
    found = []
    weights = np.abs(best.weights).round(9)
    for i in np.lexsort((best.support, -weights)).tolist():
        row = int(best.support[i])
        place, action = targets.where[row].tolist()
        stage, state = places[place]
        value, fitted = float(targets.x[row]), float(targets.phi[row] @ theta)
        weight = abs(float(best.weights[i]))
        found.append(WorstState(stage, state, action if kind == "q" else None, value, fitted, value - fitted, weight))
    return tuple(found)


# ------------------------------------------------------------------------------------------------------ in words


def findings(part: Fitted | RefutationAttempt) -> list[tuple[str, str]]:
    """A part of a diagnosis in words: (topic, finding) pairs."""
    if isinstance(part, RefutationAttempt):
        shown = [f"stage {stage}, state {state!r}" for stage, state in part.places]
        return [("trial", part.sentence), *([("contradiction", _few(shown, "; "))] if shown else [])]
    found = [
        ("misfit", _misfit(part)),
        ("B needed", between(part.norm) if part.complete else "not known"),
        ("declared", _declared(part)),
    ]
    if part.guarantee is not None:
        found.append(("guarantee", part.guarantee.sentence))
    found.append(("features", f"d = {part.dimension}, rank {part.rank}"))
    for zero in (True, False):
        names = [r.name for r in part.redundant if r.zero == zero]
        what = "zero" if zero else f"combination{'s' * (len(names) > 1)} of earlier ones"
        if names:
            found.append(("redundant", f"{len(names):,} {what}: {_few(names, '; ')}"))
    if not part.realized:
        found += [("worst at", _described(state)) for state in part.worst[:SHOWN] if state.weight > NOTHING]
    return found


def _few(names: list[str], between: str) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return between.join(names[:SHOWN]) + more


def _described(worst: WorstState) -> str:
    action = "" if worst.action is None else f", action {worst.action}"
    star = "v*" if worst.action is None else "q*"
    where = f"stage {worst.stage}, state {worst.state!r}{action}"
    return f"{where}: {star} = {worst.value:.5g}, fitted {worst.fitted:.5g} (weight {worst.weight:.2g})"


def _misfit(part: Fitted) -> str:
    what = "states" if part.kind == "v" else "pairs"
    where = f"{'' if part.complete else 'a sample of '}{part.places:,} reachable {what}"
    rounding = REALIZED * (1 + part.norm.upper)
    said = f"realized within {part.eta.upper:.1g} at" if part.realized else f"eta {between(part.eta)} over"
    said = f"{said} {where}"
    if part.everywhere is not None and not (part.realized and part.everywhere.upper <= rounding):
        said += f", {between(part.everywhere)} over all"
    return said if math.isinf(part.radius) else f"{said} (‖θ‖ up to {rounded_down(part.radius, 1):.0e})"


def _declared(part: Fitted) -> str:
    declared = f"the problem's B = {part.declared_bound:g}, eta = {part.declared_eta:g}"
    if part.suffices:
        return f"{declared} are enough"
    if part.suffices is None:
        return f"whether {declared} are enough is not known: with that B eta {between(part.in_ball)}"
    norm = part.declared_norm
    radius = f"{rounded_down(part.radius, 1):.0e}"
    needed = f"no B up to {radius} is enough for that eta" if norm is None else f"that eta needs B {between(norm)}"
    return f"{declared} are not enough: with that B eta {between(part.in_ball)}, and {needed}"


def between(x: Bracket, digits: int = 5) -> str:
    """``= 0.5`` where the bounds agree in so many digits, else what is known, rounded to the outside."""
    if x.upper == math.inf:
        return f">= {rounded_down(x.lower, digits):.{digits}g}"
    if f"{x.lower:.{digits}g}" == f"{x.upper:.{digits}g}":
        return f"= {x.upper:.{digits}g}"
    low, high = rounded_down(x.lower, digits + 2), rounded_up(x.upper, digits + 2)
    return f"in [{low:.{digits + 2}g}, {high:.{digits + 2}g}]"
