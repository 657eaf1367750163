"""The closed loop: begin -> act -> step.  The only place where a planner meets the world."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from tensorplan.access import ACCESS, LocalAccess
from tensorplan.core import END, Certificate, Episode, Learner, Planner, Policy, Problem, Run
from tensorplan.core.errors import BudgetSpent, NotRealizable, ProblemError, Refused, shown
from tensorplan.core.specs import whole
from tensorplan.problems.simulate import draw, draw_start, whole_action

ROUNDING = 1e-9
"""By how much of its size the return of an episode may miss what a certificate promises."""

MAX_STEPS = 100_000
"""Steps after which an episode of a problem without a horizon is cut off."""


def run(
    problem: Problem,
    planner: Planner,
    episodes: int = 1,
    seed: int = 0,
    *,
    budget: int | None = None,
    cache: bool = True,
    learn: bool = True,
    max_steps: int = MAX_STEPS,
    progress: Callable[[int, int, int], None] | None = None,
) -> Run:
    """Episodes of the planner in the problem, metered.

    ``budget`` bounds the queries of an episode; ``cache`` answers declared-deterministic questions from memory,
    charged once (see :mod:`tensorplan.access.local`).  Each episode has its own access object and three independent
    random streams, for the world, the simulator and the planner, made from (seed, episode).  With ``learn`` a
    :class:`tensorplan.core.Learner` keeps what it learned from episode to episode; without, episodes are independent.
    ``progress(episode, steps, queries)`` is called after every step.  When Ctrl-C, a spent budget or an error ends
    the run, what was done is kept, the episode under way included: in the result, or in the ``run`` attribute of the
    error.

    A policy may have a method ``observe(action, reward, node)``, which is told what the world did.  Where a problem is
    declared deterministic, answers of the simulator, steps of the world and the policy's certificate are held against
    each other, and a contradiction is an error.
    """
    episodes, seed = whole("episodes", episodes, 1), whole("seed", seed, 0)
    max_steps = whole("max_steps", max_steps, 1)
    kind = getattr(planner, "access", "local")
    if kind not in ACCESS:
        raise Refused(f"planner {planner!r} asks for {kind!r} access; there is: {', '.join(ACCESS)}")
    actor = planner.session() if learn and isinstance(planner, Learner) else planner
    done: list[Episode] = []

    def so_far() -> Run:
        return Run(problem.name, repr(planner), seed, tuple(done))

    for number in range(episodes):
        streams = [np.random.default_rng(s) for s in np.random.SeedSequence([seed, number]).spawn(3)]
        table = _Table(problem, actor, max_steps)
        try:
            table.sit(ACCESS[kind], streams, budget, cache)
            table.play(None if progress is None else lambda s, q, n=number: progress(n, s, q))  # type: ignore[misc]
        except KeyboardInterrupt:
            table.stopped = "interrupted"
        except Exception as error:
            table.fail(error)
            done += table.episodes()
            with suppress(AttributeError):  # an error of somebody else's making may not take one
                error.run = so_far()  # type: ignore[attr-defined]
            raise
        finally:
            table.clear()
        done += table.episodes()
        if table.refutation is not None:
            table.refutation.run = so_far()
            raise table.refutation
        if table.stopped == "interrupted" or so_far().interrupted:
            break
    return so_far()


class _Table:
    """One episode while it is played."""

    def __init__(self, problem: Problem, planner: Planner, max_steps: int) -> None:
        self.problem, self.planner, self.max_steps = problem, planner, max_steps
        self.access: LocalAccess | None = None
        self.policy: Policy | None = None
        self.certificate: Certificate | None = None
        self.refutation: NotRealizable | None = None
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.queries: list[int] = []
        self.before = 0
        self.stopped = "end"
        self.began = time.perf_counter()

    def sit(
        self, access: type[LocalAccess], streams: list[np.random.Generator], budget: int | None, cache: bool
    ) -> None:
        """Draw the start state, and open the planner's window on it."""
        self.world, simulator, self.mind = streams
        self.start = draw_start(self.problem, self.world)
        self.access = access(self.problem, self.start, simulator, budget=budget, cache=cache)

    def play(self, progress: Callable[[int, int], None] | None) -> None:
        problem, access = self.problem, self.access
        assert access is not None
        state, stage, node = self.start, 0, access.root
        try:
            try:
                self.policy = self.planner.begin(access, self.mind)
            except NotRealizable as refutation:
                self.policy, self.refutation = refutation.policy, refutation
            self.certificate = getattr(self.policy, "certificate", None)
            observe = getattr(self.policy, "observe", None)
            access._unchanged(access.root)  # a step may change a state in place
            while True:
                action = whole_action(self.policy.act(node), problem.actions, state, stage)
                self._end_of_call()
                reward, following = draw(problem, state, stage, action, self.world)
                access._witness(node, action, reward, following)
                following = problem.arrive(following, stage)
                self.actions.append(action)
                self.rewards.append(reward)
                if progress is not None:
                    progress(len(self.actions), access.spent)
                state, stage = following, problem.next_stage(stage)
                node = END if following is END else access._admit(state, stage)
                if observe is not None:
                    observe(action, reward, node)
                if following is END:
                    return self._hold_against_certificate()
                if problem.horizon is None and len(self.actions) >= self.max_steps:
                    self.stopped = "max_steps"
                    return
        except BudgetSpent:
            self.stopped = "budget"

    def fail(self, error: Exception) -> None:
        """The episode ends with an error, which may know the bracket that planning had reached."""
        self.stopped = "failed"
        self.certificate = self.certificate or getattr(error, "certificate", None)

    def clear(self) -> None:
        """The planner's window is closed."""
        if self.access is not None:
            self.access.close()

    def episodes(self) -> list[Episode]:
        """The episode as far as it was played; none where it did not begin."""
        if self.access is None or (self.policy is None and not self.access.spent):
            return []
        if self.access.spent > self.before:  # a call that was cut short
            self._end_of_call()
        episode = Episode(
            start=self.start,
            actions=tuple(self.actions),
            rewards=tuple(self.rewards),
            queries=tuple(self.queries),
            stopped=self.stopped,
            seconds=time.perf_counter() - self.began,
            discount=self.problem.discount,
            certificate=self.certificate,
            trace=getattr(self.policy, "trace", None),
        )
        return [episode]

    def _end_of_call(self) -> None:
        assert self.access is not None
        self.queries.append(self.access.spent - self.before)
        self.before = self.access.spent

    def _hold_against_certificate(self) -> None:
        """Where nothing is random an episode earns what its certificate promises, or an answer has changed."""
        if self.certificate is None or not self.problem.deterministic:
            return
        promised, gamma = self.certificate.lower, self.certificate.discount
        total = math.fsum(gamma**t * reward for t, reward in enumerate(self.rewards))
        if total < promised - ROUNDING * (1 + abs(promised) + abs(total)):
            raise ProblemError(
                f"an episode of problem {self.problem.name!r} from {shown(self.start)} earned {total:.6g}, and its "
                f"certificate promised {promised:.6g}: answers that are declared deterministic have changed"
            )
