"""The closed loop: begin -> act -> step.

Only the :class:`Driver` here lets a planner meet a world: :func:`run` does through it, and so do judges, diagnoses and
bridges to the loops of others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tensorplan.access import ACCESS, LocalAccess
from tensorplan.access.meter import WatchedMeter
from tensorplan.core import END, Certificate, Episode, Learner, Planner, Policy, Problem, Run, State
from tensorplan.core.errors import BudgetSpent, NotRealizable, ProblemError, Refused, shown
from tensorplan.core.specs import whole
from tensorplan.planners.registry import as_planner
from tensorplan.problems.catalog import as_problem
from tensorplan.problems.simulate import draw, draw_start, whole_action

ROUNDING = 1e-9
"""The share of its size by which the return of an episode may fall short of its certificate."""

MAX_STEPS = 100_000
"""Steps after which an episode of a problem without a horizon is cut off."""


def run(
    problem: Problem | str,
    planner: Planner | str,
    episodes: int = 1,
    seed: int = 0,
    *,
    budget: int | None = None,
    cache: bool = True,
    learn: bool = True,
    max_steps: int = MAX_STEPS,
    progress: Callable[[int, int, int], None] | None = None,
    on_action: Callable[[int, State, int, int], None] | None = None,
) -> Run:
    """Episodes of the planner in the problem, metered; both may be given by name, as in ``run("hanoi/3", "uct")``.

    ``budget`` bounds the queries of an episode; ``cache`` answers declared-deterministic queries from memory, charged
    once (see :mod:`tensorplan.access.local`).  Each episode has its own access object and three independent random
    streams, for the world, the simulator and the planner, made from (seed, episode); a random problem that is named
    without a seed is drawn by ``seed``.  With ``learn`` a :class:`tensorplan.core.Learner` keeps what it learned from
    episode to episode; without, episodes are independent.  ``progress(episode, steps, queries)`` is called after every
    step, ``on_action(episode, state, stage, action)`` before it.  When Ctrl-C, a spent budget or an error ends the run,
    what was done is kept, the episode under way included: in the result, or in the ``run`` attribute of the error.

    A policy may have a method ``observe(action, reward, node)``, which is told what the world did.  Where a problem is
    declared deterministic, answers of the simulator, steps of the world and the policy's certificate are held against
    each other, and a contradiction is an error.
    """
    episodes, seed = whole("episodes", episodes, 1), whole("seed", seed, 0)
    max_steps = whole("max_steps", max_steps, 1)
    planner = as_planner(planner)
    problem = as_problem(problem, seed)
    access = access_type(planner)
    actor = planner.session() if learn and isinstance(planner, Learner) else planner
    name, done = problem.name, list[Episode]()

    def so_far() -> Run:
        return Run(name, repr(planner), seed, tuple(done))

    for number in range(episodes):
        recording = _Recording(problem, max_steps)
        if progress is not None:
            recording.progress = partial(progress, number)
        if on_action is not None:
            recording.on_action = partial(on_action, number)
        try:
            recording.play(actor, Streams.of(seed, number), access=access, budget=budget, cache=cache)
        except KeyboardInterrupt:
            recording.stopped = "interrupted"
        except Exception as error:
            recording.fail(error)
            done += recording.episodes()
            with suppress(AttributeError):  # a foreign error may have slots
                error.run = so_far()  # type: ignore[attr-defined]
            raise
        finally:
            recording.close()
        done += recording.episodes()
        if recording.refutation is not None:
            recording.refutation.run = so_far()
            raise recording.refutation
        if recording.stopped == "interrupted" or so_far().interrupted:
            break
    return so_far()


class Streams(NamedTuple):
    """The independent random streams of one episode."""

    world: np.random.Generator
    simulator: np.random.Generator
    planner: np.random.Generator

    @classmethod
    def of(cls, *key: int) -> Streams:
        """The streams that belong to a key, such as (seed, episode)."""
        return cls(*(np.random.default_rng(child) for child in np.random.SeedSequence(key).spawn(3)))


def access_type(planner: Planner) -> type[LocalAccess]:
    """The kind of access that a planner declares in its attribute ``access``; local access if it declares none."""
    kind = getattr(planner, "access", "local")
    if kind not in ACCESS:
        raise Refused(f"planner {planner!r} asks for {kind!r} access; there is: {', '.join(ACCESS)}")
    return ACCESS[kind]


class Driver:
    """A planner in one episode: nothing else starts a planner, shows it a state of the world or reads its meter.

    The caller owns the world.  It calls ``begin`` once, then in turn ``act``, and ``arrive`` with the state that the
    world is in after the step.  ``access`` is what the planner declares, unless given: a session need not
    declare what its planner does.  ``first`` is the stage of the start state, where ``problem`` is what is left of
    another problem from that stage on (:mod:`tensorplan.problems.transforms.tail`); ``stage`` counts from there.
    """

    def __init__(
        self,
        problem: Problem,
        planner: Planner,
        start: State,
        streams: Streams,
        *,
        access: type[LocalAccess] | None = None,
        first: int = 0,
        budget: int | None = None,
        cache: bool = True,
    ) -> None:
        self.problem, self.planner, self.first = problem, planner, first
        access = access or access_type(planner)
        self.access = access(problem, start, streams.simulator, budget=budget, cache=cache)
        self.state, self.stage = start, first
        self.node: Any = self.access.root
        self.policy: Policy | None = None
        self.certificate: Certificate | None = None
        """As planning ended with it, where the planner gives one."""
        self.refutation: NotRealizable | None = None
        """What planning proved against the features; the best policy found acts all the same."""
        self._rng = streams.planner
        self._charged = 0

    def begin(self) -> None:
        """Plan at the start state."""
        try:
            self.policy = self.planner.begin(self.access, self._rng)
        except NotRealizable as refutation:
            self.policy, self.refutation = refutation.policy, refutation
        self.certificate = getattr(self.policy, "certificate", None)
        self.access._unchanged(self.access.root)  # a step may change a state in place

    def act(self) -> int:
        """The action in the state that the world is in."""
        assert self.policy is not None
        return whole_action(self.policy.act(self.node), self.problem.actions, self.state, self.stage)

    def witness(self, action: int, reward: float, following: State) -> None:
        """Compare a step of the world with what the simulator is known to answer."""
        self.access._witness(self.node, action, reward, following)

    def arrive(self, state: State) -> None:
        """The world has taken a step to this state, or to END."""
        self.move_to(state, self.problem.next_stage(self.stage))

    def move_to(self, state: State, stage: int) -> None:
        """The world is in this state now."""
        self.state, self.stage = state, stage
        self.node = END if state is END else self.access._admit(state, stage - self.first)

    def observe(self, action: int, reward: float) -> None:
        """Tell a policy that has a method ``observe`` about the step that led here."""
        observe = getattr(self.policy, "observe", None)
        if observe is not None:
            observe(action, reward, self.node)

    def limit(self, queries: int) -> None:
        """Leave no more than so many queries."""
        self.access._meter.limit(queries)

    def limit_time(self, seconds: float) -> None:
        """Planning ends after so many seconds from now; before ``begin``."""
        if seconds < math.inf:
            self.access.limit_time(seconds)

    def watch(self, stop: Callable[[int], bool]) -> None:
        """Call ``stop(spent)`` before queries, and leave none from when it is true; before ``begin``."""
        self.access._meter = WatchedMeter(self.access._meter, stop)

    def charge(self) -> int:
        """The queries since the last charge."""
        before, self._charged = self._charged, self.access.spent
        return self._charged - before

    def close(self) -> None:
        """End the episode: no query is answered any more."""
        self.access.close()


class _Recording:
    """One episode while it is played."""

    def __init__(self, problem: Problem, max_steps: int) -> None:
        self.problem, self.max_steps = problem, max_steps
        self.progress: Callable[[int, int], None] | None = None
        self.on_action: Callable[[State, int, int], None] | None = None
        self.driver: Driver | None = None
        self.certificate: Certificate | None = None
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.queries: list[int] = []
        self.stopped = "end"
        self.began = time.perf_counter()

    @property
    def refutation(self) -> NotRealizable | None:
        return None if self.driver is None else self.driver.refutation

    def play(self, planner: Planner, streams: Streams, **options: Any) -> None:
        """Draw the start state, plan there, and act until the end."""
        self.start = draw_start(self.problem, streams.world)
        self.driver = Driver(self.problem, planner, self.start, streams, **options)
        try:
            self.driver.begin()
            while not self._step(self.driver, streams.world):
                pass
        except BudgetSpent:
            self.stopped = "budget"

    def _step(self, driver: Driver, world: np.random.Generator) -> bool:
        """Take one action in the world; whether it was the last one."""
        action = driver.act()
        self.queries.append(driver.charge())
        if self.on_action is not None:
            self.on_action(driver.state, driver.stage, action)
        reward, following = draw(self.problem, driver.state, driver.stage, action, world)
        driver.witness(action, reward, following)
        self.actions.append(action)
        self.rewards.append(reward)
        if self.progress is not None:
            self.progress(len(self.actions), driver.access.spent)
        driver.arrive(self.problem.arrive(following, driver.stage))
        driver.observe(action, reward)
        if driver.node is END:
            self._hold_against_certificate(driver.certificate)
            return True
        if self.problem.horizon is None and len(self.actions) >= self.max_steps:
            self.stopped = "max_steps"
        return self.stopped == "max_steps"

    def fail(self, error: Exception) -> None:
        """The episode ends with an error, which may know the bracket that planning had reached."""
        self.stopped = "failed"
        self.certificate = getattr(error, "certificate", None)

    def close(self) -> None:
        """No query is answered any more."""
        if self.driver is not None:
            self.driver.close()

    def episodes(self) -> list[Episode]:
        """The episode as far as it was played; none where it did not begin."""
        driver = self.driver
        if driver is None or (driver.policy is None and not driver.access.spent):
            return []
        if cut_short := driver.charge():
            self.queries.append(cut_short)
        episode = Episode(
            start=self.start,
            actions=tuple(self.actions),
            rewards=tuple(self.rewards),
            queries=tuple(self.queries),
            stopped=self.stopped,
            seconds=time.perf_counter() - self.began,
            discount=self.problem.discount,
            certificate=driver.certificate or self.certificate,
            trace=getattr(driver.policy, "trace", None),
        )
        return [episode]

    def _hold_against_certificate(self, certificate: Certificate | None) -> None:
        """Where nothing is random an episode earns what its certificate promises, or an answer has changed."""
        if certificate is None or not self.problem.deterministic:
            return
        promised, gamma = certificate.lower, certificate.discount
        total = math.fsum(gamma**t * reward for t, reward in enumerate(self.rewards))
        if total < promised - ROUNDING * (1 + abs(promised) + abs(total)):
            raise ProblemError(
                f"an episode of problem {self.problem.name!r} from {shown(self.start)} earned {total:.6g}, and its "
                f"certificate promised {promised:.6g}: answers that are declared deterministic have changed"
            )
