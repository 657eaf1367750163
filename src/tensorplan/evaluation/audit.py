"""The audit: what does a policy earn, and how much can it lose at most?  For any policy, value function and features.

The bracket rests on the simulator and its declared range of returns alone (:mod:`tensorplan.hindsight`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter, TimedMeter
from tensorplan.access.noise import Purpose
from tensorplan.core import Deadline, Problem, State
from tensorplan.core.errors import BadInput, BudgetSpent, shown
from tensorplan.core.jsonable import plain
from tensorplan.core.specs import number, one_of, seconds, whole
from tensorplan.evaluation.agents import only_output
from tensorplan.evaluation.players import players
from tensorplan.features.network import is_network
from tensorplan.hindsight.blame import Share
from tensorplan.hindsight.bracket import BracketTest, PolicyBounds
from tensorplan.hindsight.crew import Crew, at_once
from tensorplan.hindsight.fitting.greedy import greedy
from tensorplan.hindsight.fitting.model import FittedValues
from tensorplan.hindsight.fitting.pathwise import pathwise_theta
from tensorplan.hindsight.fitting.regression import RegressedValues
from tensorplan.hindsight.fitting.rounds import FIT_SHARE, start_fitting
from tensorplan.hindsight.pilot import Pilot
from tensorplan.hindsight.ranges import finite_returns
from tensorplan.hindsight.scenario import Rules
from tensorplan.hindsight.subject import Players, RandomStarts, Subject
from tensorplan.hindsight.values import Band, ValueFunction, Values, value_function
from tensorplan.problems.catalog import as_problem

BUDGET = 1_000_000
"""Queries of an audit where none are given."""

FIRST_TRIAL, GROWTH = 100, 8
"""Queries of the first pilot that shows how many fit into a time limit, and the factor from one to the next."""

TRIALS = 0.02
"""The share of the time limit after which no other one begins: short ones do not show how fast a simulator is."""

AMPLE = 2.0
"""The queries that are planned for, in units of those that pilots would make in the time left: tests are faster, and
the deadline ends them in any case."""

MOMENT = 1e-6
"""Seconds that one takes at least, so that the speed is finite."""

PATHWISE = "pathwise"
"""The value function that is asked for by this name: the θ with the smallest bound in hindsight."""

GREEDY = "greedy"
"""The policy that is asked for by this name: the greedy one of the value function."""

RESTS_ON = "nothing but the simulator and its declared range of returns"
"""What the bracket of an audit rests on."""


@dataclass(frozen=True)
class Audit:
    """lower <= v^π(s0) <= v*(s0) <= upper, and v*(s0) - v^π(s0) <= gap, all at once with the stated confidence.

    For a random start state all values are means over it.
    """

    problem: str
    policy: str
    lower: float
    upper: float
    gap: float
    """The most that the policy loses; smaller than upper - lower where both are compared scenario by scenario."""
    confidence: float
    queries: int
    status: str
    """What ended the audit: ``"width"`` (as narrow as asked for), ``"budget"``, ``"time"`` or ``"interrupted"``."""
    discount: float = 1.0
    return_range: tuple[float, float] = (-math.inf, math.inf)
    """The declared range of returns, which the bracket starts from."""
    scenarios: int = 0
    episodes: int = 0
    mean_return: float = math.nan
    """An estimate of v^π(s0): the mean return of the episodes, or the mean over scenarios if there are none."""
    design: str = ""
    cut: int = 0
    """Paths cut since too many states were reached; this widens the bracket, and leaves it valid."""
    seconds: float = 0.0
    stages: dict[int, Share] = field(default_factory=dict)
    """The part of each stage in the mean gap."""
    states: tuple[tuple[str, Share], ...] = ()
    """The states with the largest parts in the mean gap."""

    @property
    def assumes(self) -> str:
        """The assumption on features or values behind the bracket: none."""
        return ""

    @property
    def loss(self) -> float:
        """The most that the policy loses as a share of v*(s0); infinite unless that is known to be positive."""
        return self.gap / (self.lower + self.gap) if self.lower > 0 else math.inf

    @property
    def sentence(self) -> str:
        """The claim as one sentence, with its confidence and what it rests on."""
        share = f" ({100 * self.loss:.3g}% of the optimum)" if self.loss < 1 else ""
        return (
            f"the policy earns at least {self.lower:.6g}, no policy earns more than {self.upper:.6g}, and this one "
            f"loses at most {self.gap:.4g}{share}, at confidence {self.confidence:g}; this rests on {RESTS_ON}"
        )

    @property
    def advice(self) -> str:
        """Why there is no upper bound but the largest possible return, and what would help; empty if there is one."""
        if self.scenarios:
            return ""
        ends = {"interrupted": "Ctrl-C came", "time": "the time was over"}
        after = ends.get(self.status, "the budget was spent")
        larger = "more of it" if self.status == "time" else "a larger one"
        more = "" if self.status == "interrupted" else f": give {larger}, a value function, or a cheaper policy"
        if not self.episodes:
            return f"{after} before the first look, so this is the range of returns{more}"
        return (
            f"the policy earns at least {self.lower:.6g}, at confidence {self.confidence:g}; {after} before the first "
            f"scenario, so the upper end is the largest possible return{more}"
        )

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        data: dict[str, Any] = plain(self)
        data["stages"] = [{"stage": stage, **share._asdict()} for stage, share in self.stages.items()]
        data["states"] = [{"state": state, **share._asdict()} for state, share in self.states]
        told = {"loss": self.loss, "assumes": self.assumes, "rests_on": RESTS_ON, "sentence": self.sentence}
        return {**data, **plain(told)}

    def _repr_html_(self) -> str:
        """A small table with the sentence, for notebooks."""
        cells = {"lower": self.lower, "mean return": self.mean_return, "upper": self.upper, "gap": self.gap}
        heads = "".join(f"<th>{name}</th>" for name in cells)
        numbers = "".join(f"<td>{value:.6g}</td>" for value in cells.values())
        title = escape(f"{self.problem}, {self.policy}")
        return (
            f"<table><caption>{title}</caption><thead><tr>{heads}</tr></thead><tbody><tr>{numbers}</tr></tbody></table>"
            f"<p>{escape(self.sentence)}</p>"
        )


def audit(
    problem: Problem | str,
    policy: Any,
    value: Any = None,
    confidence: float = 0.95,
    budget: int | None = None,
    seed: int = 0,
    *,
    width: float | None = None,
    time_limit: float | None = None,
    workers: int = 1,
    engine: str = "local",
    progress: Callable[[PolicyBounds, int], None] | None = None,
) -> Audit:
    """A bracket on the value of a policy and on v*, for any policy and any value function.

    ``policy`` is a planner, its spec, a callable (state, stage) -> action, an agent with ``predict(observation)``, a
    network with one output for each action, or ``"greedy"``, the greedy policy of the value function.  ``value`` is a
    guess of v*: a callable (state, stage) -> float, a network with one output, θ for the features of the problem, or
    ``"pathwise"`` for the θ with the smallest bound; the better it is, the narrower the bracket.  Without one, values
    are fitted first.
    ``budget`` bounds the queries, those of the policy included; by default there are a million.  The audit ends early
    if upper - lower is at most ``width``, after ``time_limit`` seconds, which makes it irreproducible, or by Ctrl-C,
    with the bracket reached by then.  ``workers`` processes, or those of a Ray cluster with ``engine="ray"``, give the
    same bracket sooner.  ``progress(bounds, queries)`` is called with every look at the bracket.
    """
    recipe = Recipe(problem, policy, value, whole("seed", seed, 0))
    with Auditor(recipe, confidence, budget, time_limit, whole("workers", workers, 1), engine) as auditor:
        return auditor.run(width, progress)


@dataclass(frozen=True)
class Recipe:
    """All that scenarios depend on; it makes the same subject in every process."""

    problem: Problem | str
    policy: Any
    value: Any
    seed: int
    band: Band = field(default_factory=dict)

    def __call__(self, meter: Meter | None = None) -> Subject:
        """The subject, with V = 0 as long as there is no value function."""
        problem = as_problem(self.problem, self.seed)
        access = BatchAccess(problem, meter or Meter(), self.seed)
        function = self.function(problem)
        return Subject(
            access, Values(access, function, self.band), self.players(access, function), RandomStarts(access)
        )

    def players(self, access: BatchAccess, function: ValueFunction) -> Players:
        """The policy, as a source of players."""
        if isinstance(self.policy, str) and self.policy == GREEDY:
            return greedy(function, access)
        return players(access, self.policy)

    def function(self, problem: Problem) -> ValueFunction:
        """V, or zero where it is still to be fitted."""
        if self.value is None or isinstance(self.value, str):
            return lambda state, stage: 0.0
        if is_network(self.value):
            return only_output(problem, self.value)
        fitted = isinstance(self.value, FittedValues | RegressedValues)
        return value_function(problem, self.value.on(problem) if fitted else self.value)


class Auditor:
    """An audit under way."""

    def __init__(
        self,
        recipe: Recipe,
        confidence: float,
        budget: int | None,
        time_limit: float | None,
        workers: int,
        engine: str,
    ) -> None:
        self.alpha = 1 - number("confidence", confidence, 0.5, 0.999999)
        self.budget = BUDGET if budget is None else whole("budget", budget, 1)
        value = recipe.value
        if isinstance(value, str) and value != PATHWISE:
            raise BadInput(f"value must be {PATHWISE!r}, theta, or a function of state and stage, got {value!r}")
        self.recipe, self.workers = recipe, workers
        self.engine = one_of("engine", engine, ("local", "ray"))
        self.deadline = Deadline(math.inf if time_limit is None else seconds("time_limit", time_limit))
        self.subject = recipe(TimedMeter(Meter(self.budget), self.deadline))
        self.problem, self.meter = self.subject.access.problem, self.subject.access.meter
        finite_returns(self.problem)
        self.problem.check_declarations()
        self.rules = Rules.of(self.problem)
        self.bracket: BracketTest | None = None
        self.crew: Crew | None = None
        self.began = time.perf_counter()

    def __enter__(self) -> Auditor:
        return self

    def __exit__(self, *args: object) -> None:
        if self.crew is not None:
            self.crew.close()

    def run(self, width: float | None, progress: Callable[[PolicyBounds, int], None] | None) -> Audit:
        """Fit, choose by a pilot, and test."""
        status, given = "budget", self.budget
        try:
            for bounds in self._grow():
                if progress is not None:
                    progress(bounds, self.meter.spent)
                if width is not None and bounds.width <= width:
                    status = "width"
                    break
        except BudgetSpent:
            pass
        except KeyboardInterrupt:
            status = "interrupted"
        late = self.deadline.passed or self.budget < given
        return self._result("time" if status == "budget" and late else status)

    def _grow(self) -> Iterator[PolicyBounds]:
        if self.deadline.remaining < math.inf:
            self._fit_into_time()
        recipe = replace(self.recipe, value=self._value())
        access, function = self.subject.access, recipe.function(self.problem)
        self.subject.values, self.subject.players = Values(access, function), recipe.players(access, function)
        pilot = Pilot(self.subject, self.rules, self.alpha, max(self.budget - self.meter.spent, 0))
        subject, plan, bets = pilot.choose()
        if self.workers > 1 or self.engine == "ray":
            recipe = replace(recipe, band=subject.values.limits)
            workers = self.workers if self.workers > 1 else None
            self.crew = Crew(recipe, self.meter, self.engine, workers, at_once(subject))
        self.bracket = BracketTest(subject, plan, bets, self.alpha, self.crew)
        yield from self.bracket.grow()

    def _fit_into_time(self) -> None:
        """Plan for no more queries than the time left allows, by the speed of pilots that are thrown away.

        The meter is not limited to that: a planner that is audited would plan with fewer queries than it has.
        """
        began, trial, affordable = self.deadline.remaining, FIRST_TRIAL, 0
        while affordable < self.meter.remaining and self.deadline.remaining > (1 - TRIALS) * began:
            before, spent = self.deadline.remaining, self.meter.spent
            Pilot(self.subject, self.rules, self.alpha, min(trial, int(self.meter.remaining))).choose()
            speed = (self.meter.spent - spent) / max(before - self.deadline.remaining, MOMENT)
            affordable, trial = int(AMPLE * speed * self.deadline.remaining), GROWTH * trial
        self.budget = min(self.budget, self.meter.spent + affordable)

    def _value(self) -> Any:
        """The given value function, or one that is fitted with a share of the budget."""
        access, spend = self.subject.access, int(FIT_SHARE * self.budget)
        if self.recipe.value is None:
            fitting = start_fitting(access, self._training_start, self.rules)
            fitting.spend(spend)
            return fitting.fit
        if isinstance(self.recipe.value, str):
            return pathwise_theta(access, self._training_start, self.rules, spend)
        return self.recipe.value

    def _training_start(self, index: int) -> State:
        return self.subject.starts(Purpose.FIT, index)

    def _result(self, status: str) -> Audit:
        low, high = finite_returns(self.problem)
        bracket = self.bracket
        bounds = PolicyBounds(low, high, high - low) if bracket is None else bracket.bounds()
        audit = Audit(
            self.problem.name,
            _name(self.recipe.policy),
            *bounds,
            confidence=1 - self.alpha,
            queries=self.meter.spent,
            status=status,
            discount=self.problem.discount,
            return_range=(low, high),
            seconds=time.perf_counter() - self.began,
        )
        if bracket is None:
            return audit
        blame = bracket.blame
        return replace(
            audit,
            scenarios=len(bracket.worth),
            episodes=len(bracket.returns),
            mean_return=bracket.mean_return,
            design=str(bracket.plan.design),
            cut=bracket.cut,
            stages=blame.stages() if blame.scenarios else {},
            states=tuple(blame.states()) if blame.scenarios else (),
        )


def _name(policy: Any) -> str:
    """What a policy is called: a spec, the name of a function, what it shows of itself, or the name of its class."""
    if isinstance(policy, str):
        return policy
    text = getattr(policy, "__name__", None) or shown(policy)
    return type(policy).__name__ if " object at 0x" in text else text
