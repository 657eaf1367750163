"""One scenario: the best that could have been done under its noise, and what the policy did.

The maximum runs forward in time over the states reached, each with the largest sum Σ γ^t l̂ of a path to it.  A path may
be cut at time t and continued with a number that is certainly at least the return from there, the largest possible one,
provided that *whether* it is cut does not depend on where the noise of time t and later leads (a stopping time;
:mod:`tensorplan.hindsight.columns` has the case of pooled columns).  Three rules do not:

* width: where more states are reached at a time than allowed, those with the largest sums go on;
* times: problems without a horizon are cut where the rest is negligible;
* limit: a scenario whose running maximum exceeds a limit set beforehand is stopped.  This almost never happens, and
  bounds what a scenario can be worth, which confidence bounds need.

The path of the policy is cut likewise, and continued with the least possible return, where its running sum falls below
a floor set beforehand.

A rule that looks at later noise would stop just before good luck, and be wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorplan.access.batches import ENDED, Ids
from tensorplan.core import Array, Problem, State
from tensorplan.hindsight.columns import Ahead, ScenarioNoise
from tensorplan.hindsight.values import Values

WIDTH = 2_000
"""States of a time that paths go on from; bounds memory."""

NEGLIGIBLE, LONGEST = 1e-3, 1_000
"""Without a horizon, paths are cut when the rest of the return is this share of its range, or after so many steps."""


class ScenarioPlayer(Protocol):
    """A policy that is played along a path."""

    def act(self, state: State, stage: int) -> int:
        """The action in the current state."""

    def arrive(self, action: int, reward: float, state: State) -> None:
        """What the action led to."""


class ScenarioStep(NamedTuple):
    """A step of a path."""

    state: State
    stage: int
    action: int
    residual: float
    """γ^t l̂."""


@dataclass(frozen=True)
class Rules:
    """Where paths are cut; fixed before the scenario is drawn."""

    times: int
    width: int
    limit: float = np.inf
    """The running maximum at which a scenario stops; if ``paired``, minus the running sum of the policy."""
    paired: bool = False
    floor: float = -np.inf
    """The running sum of the policy below which its path is cut."""

    @classmethod
    def of(cls, problem: Problem) -> Rules:
        """Cut where the horizon is or the rest is negligible, and where memory needs it."""
        if problem.horizon is not None:
            return cls(problem.horizon, WIDTH)
        if problem.discount == 1:
            return cls(LONGEST, WIDTH)
        return cls(min(math.ceil(math.log(NEGLIGIBLE) / math.log(problem.discount)), LONGEST), WIDTH)


@dataclass
class Scenario:
    """What a scenario is worth."""

    upper: float
    """V(s0) + max Σ γ^t l̂, with mean at least v*(s0)."""
    policy: float
    """V(s0) + Σ γ^t l̂ along the policy, with mean at most v^π(s0); NaN without a policy."""
    largest: float
    """The largest running maximum."""
    largest_gap: float
    """The largest running maximum minus the running sum of the policy."""
    path: list[ScenarioStep] = field(default_factory=list)
    """The best path in hindsight."""
    policy_path: list[ScenarioStep] = field(default_factory=list)
    reached: list[Ids] = field(default_factory=list)
    """The states reached at each time."""
    cut: int = 0
    """Paths cut because there were too many."""
    stopped: bool = False
    smallest: float = np.nan
    """The smallest running sum of the policy."""
    looked: int = 0
    """How many states were looked at, those of different times counted apart."""
    stages: tuple[Array, Array] | None = None
    """γ^t l̂ by stage, along the best path and along that of the policy, where the paths themselves are not kept."""

    @property
    def gap(self) -> float:
        """What the policy loses in hindsight, with mean at least v*(s0) - v^π(s0)."""
        return self.upper - self.policy


class Level(NamedTuple):
    """The states reached at a time, with the best path to each."""

    ids: Ids
    sums: Array
    parents: NDArray[np.intp]
    """Positions in the level before."""
    actions: NDArray[np.intp]


class EndedPath(NamedTuple):
    """A path that has ended or was cut, and its worth."""

    worth: float
    time: int
    parent: int
    action: int


def play(values: Values, noise: ScenarioNoise, start: State, rules: Rules, player: ScenarioPlayer | None) -> Scenario:
    """Simulate one scenario."""
    return _Play(values, noise, rules, player).run(start)


class _Play:
    def __init__(self, values: Values, noise: ScenarioNoise, rules: Rules, player: ScenarioPlayer | None) -> None:
        self.values, self.noise, self.rules, self.player = values, noise, rules, player
        self.access, self.problem = values.access, values.access.problem
        self.levels: list[Level] = []
        self.looks: list[Ahead] = []
        self.best = EndedPath(-np.inf, 0, 0, 0)
        self.cut = 0

    def run(self, start: State) -> Scenario:
        number, stage = self.access.number(start), 0
        first = float(self.values(np.array([number]), 0)[0])
        none = np.zeros(1, dtype=np.intp)
        level = Level(np.array([number]), np.array([first]), none, none)
        steps, mine, policy = list[ScenarioStep](), number, first
        largest, largest_gap, time, stopped, smallest = first, 0.0, 0, False, first
        while len(level.ids):
            running = max(float(level.sums.max()), self.best.worth)
            largest, largest_gap = max(largest, running), max(largest_gap, running - policy)
            stopped = running - (policy if self.rules.paired else 0.0) > self.rules.limit
            if stopped or time == self.rules.times:
                self._cut(level, np.arange(len(level.ids)), time, stage)
                break
            if policy < self.rules.floor:
                policy, mine = policy + self._rest(mine, time, stage), ENDED
            ahead = self.noise.look(time, stage, level.ids)
            if self.player is not None and mine != ENDED:
                step, mine = self._follow(self.player, level, ahead, mine, time, stage)
                policy += step.residual
                smallest = min(smallest, policy)
                steps.append(step)
            level = self._advance(level, ahead, time, stage)
            time, stage = time + 1, self.problem.next_stage(stage)
        else:
            largest = max(largest, self.best.worth)
            largest_gap = max(largest_gap, self.best.worth - policy)
        policy = policy + self._rest(mine, time, stage) if self.player is not None else np.nan
        reached = [level.ids for level in self.levels]
        return Scenario(
            self.best.worth,
            policy,
            largest,
            largest_gap,
            self._path(),
            steps,
            reached,
            self.cut,
            stopped,
            smallest,
            sum(map(len, reached)),
        )

    def _follow(
        self, player: ScenarioPlayer, level: Level, ahead: Ahead, mine: int, time: int, stage: int
    ) -> tuple[ScenarioStep, int]:
        """One step of the policy under the noise of the scenario."""
        state = self.access.state(mine)
        action = player.act(state, stage)
        at = np.flatnonzero(level.ids == mine)
        if len(at):
            row = int(at[0])
        else:  # its state was cut from the level
            ahead, row = self.noise.look(time, stage, np.array([mine])), 0
        following = ENDED if self._last(stage) else int(ahead.following[row, action])
        residual = self.problem.discount**time * float(ahead.residuals[row, action])
        player.arrive(action, float(ahead.rewards[row, action]), self.access.state(following))
        return ScenarioStep(state, stage, action, residual), following

    def _last(self, stage: int) -> bool:
        return self.problem.next_stage(stage) == self.problem.horizon

    def _advance(self, level: Level, ahead: Ahead, time: int, stage: int) -> Level:
        """The states of the next time; paths that end or are cut become candidates."""
        self.levels.append(level)
        self.looks.append(ahead)
        sums = (level.sums[:, None] + self.problem.discount**time * ahead.residuals).ravel()
        following = np.full(sums.shape, ENDED) if self._last(stage) else ahead.following.ravel()
        ended = np.flatnonzero(following == ENDED)
        if len(ended):
            self._offer(sums[ended], ended, time)
        order = np.argsort(-sums, kind="stable")
        ids, first = np.unique(following[order], return_index=True)
        chosen = order[first[ids != ENDED]]
        ids = ids[ids != ENDED]
        actions = self.problem.actions
        reached = Level(ids, sums[chosen], chosen // actions, chosen % actions)
        if len(ids) <= self.rules.width:
            return reached
        ranks = np.argsort(-reached.sums, kind="stable")
        self.cut += len(ids) - self.rules.width
        self._cut(reached, ranks[self.rules.width :], time + 1, self.problem.next_stage(stage))
        kept = np.sort(ranks[: self.rules.width])
        return Level(ids[kept], reached.sums[kept], reached.parents[kept], reached.actions[kept])

    def _offer(self, worth: Array, pairs: NDArray[np.intp], time: int) -> None:
        """The best of these paths is a candidate for the maximum."""
        i = int(np.argmax(worth))
        if worth[i] > self.best.worth:
            parent, action = divmod(int(pairs[i]), self.problem.actions)
            self.best = EndedPath(float(worth[i]), time, parent, action)

    def _cut(self, level: Level, which: NDArray[np.intp], time: int, stage: int) -> None:
        """Continue paths with the largest return that is possible."""
        high = self.problem.return_range(stage)[1]
        rest = self.problem.discount**time * (high - self.values(level.ids[which], stage))
        actions = self.problem.actions
        self._offer(level.sums[which] + rest, level.parents[which] * actions + level.actions[which], time - 1)

    def _rest(self, mine: int, time: int, stage: int) -> float:
        """A policy that has not ended, since all paths were cut or all others have, has the least possible return."""
        if mine == ENDED:
            return 0.0
        low = self.problem.return_range(stage)[0]
        return float(self.problem.discount**time * (low - self.values(np.array([mine]), stage)[0]))

    def _path(self) -> list[ScenarioStep]:
        """The best path, from its end to its beginning and turned around."""
        steps = list[ScenarioStep]()
        row, action = self.best.parent, self.best.action
        for time in range(self.best.time, -1, -1):
            level = self.levels[time]
            residual = self.problem.discount**time * float(self.looks[time].residuals[row, action])
            stage = 0 if self.problem.horizon is None else time
            steps.append(ScenarioStep(self.access.state(int(level.ids[row])), stage, action, residual))
            row, action = int(level.parents[row]), int(level.actions[row])
        return steps[::-1]
