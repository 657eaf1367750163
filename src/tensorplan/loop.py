"""The closed loop: begin -> act -> step.  The only place where a planner meets the world."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tensorplan.access import ACCESS, LocalAccess
from tensorplan.core import (
    END,
    BudgetSpent,
    Episode,
    Learner,
    NotRealizable,
    Planner,
    Policy,
    Problem,
    Refused,
    Run,
    TensorplanError,
)
from tensorplan.problems.simulate import draw, draw_start, whole_action
from tensorplan.specs import whole

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
    the run, what was done is kept: in the result, or in the ``run`` attribute of the error.
    """
    episodes, seed = whole("episodes", episodes, 1), whole("seed", seed, 0)
    max_steps = whole("max_steps", max_steps, 1)
    kind = getattr(planner, "access", "local")
    if kind not in ACCESS:
        raise Refused(f"planner {planner!r} asks for {kind!r} access; there is: {', '.join(ACCESS)}")
    actor = planner.session() if learn and isinstance(planner, Learner) else planner
    done: list[Episode] = []
    for number in range(episodes):
        streams = [np.random.default_rng(s) for s in np.random.SeedSequence([seed, number]).spawn(3)]
        table = _Table(problem, actor, ACCESS[kind], streams, budget, cache, max_steps)
        try:
            table.play(None if progress is None else lambda s, q, n=number: progress(n, s, q))  # type: ignore[misc]
        except KeyboardInterrupt:
            table.stopped = "interrupted"
        except TensorplanError as error:
            error.run = Run(problem.name, repr(planner), seed, tuple(done))
            raise
        done.append(table.episode())
        so_far = Run(problem.name, repr(planner), seed, tuple(done))
        if table.refutation is not None:
            table.refutation.run = so_far
            raise table.refutation
        if so_far.interrupted:
            break
    return Run(problem.name, repr(planner), seed, tuple(done))


class _Table:
    """One episode while it is played."""

    def __init__(
        self,
        problem: Problem,
        planner: Planner,
        access: type[LocalAccess],
        streams: list[np.random.Generator],
        budget: int | None,
        cache: bool,
        max_steps: int,
    ) -> None:
        self.problem, self.planner, self.max_steps = problem, planner, max_steps
        self.world, simulator, self.mind = streams
        self.start = draw_start(problem, self.world)
        self.access = access(problem, self.start, simulator, budget=budget, cache=cache)
        self.policy: Policy | None = None
        self.refutation: NotRealizable | None = None
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.queries: list[int] = []
        self.before = 0
        self.stopped = "end"
        self.began = time.perf_counter()

    def play(self, progress: Callable[[int, int], None] | None) -> None:
        problem, access = self.problem, self.access
        state, stage, node = self.start, 0, access.root
        try:
            try:
                self.policy = self.planner.begin(access, self.mind)
            except NotRealizable as refutation:
                self.policy, self.refutation = refutation.policy, refutation
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
                if following is END:
                    return
                if problem.horizon is None and len(self.actions) >= self.max_steps:
                    self.stopped = "max_steps"
                    return
                state, stage = following, problem.next_stage(stage)
                node = access._admit(state, stage)
        except BudgetSpent:
            self.stopped = "budget"

    def _end_of_call(self) -> None:
        self.queries.append(self.access.spent - self.before)
        self.before = self.access.spent

    def episode(self) -> Episode:
        if self.access.spent > self.before:  # a call that was cut short
            self._end_of_call()
        return Episode(
            start=self.start,
            actions=tuple(self.actions),
            rewards=tuple(self.rewards),
            queries=tuple(self.queries),
            stopped=self.stopped,
            seconds=time.perf_counter() - self.began,
            discount=self.problem.discount,
            certificate=getattr(self.policy, "certificate", None),
            trace=getattr(self.policy, "trace", None),
        )
