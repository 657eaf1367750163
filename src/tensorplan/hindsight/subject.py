"""What is bracketed: a policy and a value function on a problem, as a source of scenarios and episodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tensorplan.access.batches import BatchAccess
from tensorplan.access.noise import Purpose, episode
from tensorplan.core import END, State
from tensorplan.hindsight.columns import Fresh, Pooled, ScenarioNoise
from tensorplan.hindsight.scenario import Rules, Scenario, ScenarioPlayer, play
from tensorplan.hindsight.values import Band, Values
from tensorplan.problems.simulate import believable, draw_start


class Players(Protocol):
    """A policy, as a source of players."""

    def __call__(self, purpose: Purpose, index: int, start: State) -> ScenarioPlayer:
        """The policy at the beginning of an episode; what it draws at random is its own."""


@dataclass(frozen=True)
class Design:
    """How scenarios are simulated."""

    rules: Rules
    samples: int
    pooled: bool

    def queries(self, example: Scenario, actions: int) -> int:
        """About how many queries a scenario takes in which the same states are reached as in another one."""
        if not self.pooled:
            return actions * (self.samples + 1) * sum(map(len, example.reached))
        first = dict[int, int]()
        for time, ids in enumerate(example.reached):
            for number in ids.tolist():
                first.setdefault(number, time)
        return actions * sum(self.rules.times + self.samples - time for time in first.values())

    def __str__(self) -> str:
        way, pool = "paired" if self.rules.paired else "direct", ", pooled" if self.pooled else ""
        return f"{way}, {self.samples} samples{pool}"


class Starts(Protocol):
    """Where scenarios and episodes start."""

    def __call__(self, purpose: Purpose, index: int) -> State:
        """The start state."""


class RandomStarts:
    """Start states drawn by the problem."""

    def __init__(self, access: BatchAccess) -> None:
        self.access = access

    def __call__(self, purpose: Purpose, index: int) -> State:
        """The start state."""
        return draw_start(self.access.problem, self.access.noise.at(Purpose.START, episode(purpose, index)))


class ScenarioSource(Protocol):
    """Where scenarios and episodes come from: a subject, or several processes that have one."""

    def scenarios(self, design: Design, indices: range) -> Iterator[Scenario]:
        """Scenarios behind a bound."""

    def episodes(self, times: int, indices: range) -> Iterator[float]:
        """Returns of the policy."""


class Subject:
    """A policy and a value function on a problem."""

    def __init__(self, access: BatchAccess, values: Values, players: Players, starts: Starts) -> None:
        self.access, self.values, self.players, self.starts = access, values, players, starts

    def within(self, band: Band) -> Subject:
        """The same with V clipped to a band."""
        return Subject(self.access, self.values.within(band), self.players, self.starts)

    def scenarios(self, design: Design, indices: range) -> Iterator[Scenario]:
        """Scenarios behind a bound."""
        return (self.scenario(design, Purpose.TEST, index) for index in indices)

    def episodes(self, times: int, indices: range) -> Iterator[float]:
        """Returns of the policy."""
        return (self.episode(times, Purpose.EPISODE, index) for index in indices)

    def scenario(self, design: Design, purpose: Purpose, index: int) -> Scenario:
        """One scenario; the same for the same arguments, wherever it is simulated."""
        self.access.forget()
        start, values = self.starts(purpose, index), self.values
        noise: ScenarioNoise
        if design.pooled:
            noise = Pooled(values, purpose, index, design.samples, design.rules.times)
        else:
            noise = Fresh(values, purpose, index, design.samples)
        return play(values, noise, start, design.rules, self.players(purpose, index, start))

    def episode(self, times: int, purpose: Purpose, index: int) -> float:
        """The return of one episode of the policy; after ``times`` steps the rest is the least possible."""
        problem = self.access.problem
        state, stage, total = self.starts(purpose, index), 0, 0.0
        player = self.players(purpose, index, state)
        rng = np.random.default_rng(self.access.noise.at(purpose, index).integers(2**63, size=4))
        for time in range(times):
            action = player.act(state, stage)
            reward, state = self.access.step(state, stage, action, rng)
            total += problem.discount**time * reward
            stage = problem.next_stage(stage)
            player.arrive(action, reward, state)
            if state is END:
                return believable(problem.name, total, problem.return_range())
        return total + problem.discount**times * problem.return_range(stage)[0]
