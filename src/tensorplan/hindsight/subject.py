"""What is bracketed: a policy and a value function on a problem, as a source of scenarios and episodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from tensorplan.access.batches import BatchAccess
from tensorplan.access.noise import Purpose, episode
from tensorplan.core import END, State
from tensorplan.hindsight.bundle import BLOCK as BUNDLE
from tensorplan.hindsight.bundle import Bundle
from tensorplan.hindsight.columns import Fresh, Pooled, ScenarioNoise
from tensorplan.hindsight.scenario import Rules, Scenario, ScenarioPlayer, play
from tensorplan.hindsight.values import Band, Values
from tensorplan.problems.simulate import believable, draw_start
from tensorplan.problems.states import pack

PROBE, PROBED = 1 << 40, 8
"""The number of a block apart from others, and how many of its scenarios show which actions leave nothing to chance."""

BLOCK = 1024
"""Episodes that are simulated at once, where the policy and the simulator take many states."""


class Players(Protocol):
    """A policy, as a source of players.

    A policy that depends on state and stage alone may have a method ``act_many(states, stage)``: the actions of many
    states at once.
    """

    def __call__(self, purpose: Purpose, index: int, start: State) -> ScenarioPlayer:
        """The policy at the beginning of an episode; what it draws at random is its own."""


@dataclass(frozen=True)
class Design:
    """How scenarios are simulated."""

    rules: Rules
    samples: int
    pooled: bool
    steady: frozenset[int] = frozenset()
    """Actions that seem to leave nothing to chance, such as one that ends the episode: one sample does for them."""

    def queries(self, example: Scenario, actions: int) -> int:
        """About how many queries a scenario takes in which the same states are reached as in another one."""
        if not self.pooled:
            return (actions + sum(self.samples_of(action) for action in range(actions))) * example.looked
        first = dict[int, int]()
        for time, ids in enumerate(example.reached):
            for number in ids.tolist():
                first.setdefault(number, time)
        return actions * sum(self.rules.times + self.samples - time for time in first.values())

    def samples_of(self, action: int) -> int:
        """Samples per temporal difference of an action; fewer where they are all the same leave it unbiased."""
        return 1 if action in self.steady else self.samples

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
        return self.some_scenarios(design, Purpose.TEST, indices)

    def some_scenarios(self, design: Design, purpose: Purpose, indices: range) -> Iterator[Scenario]:
        """Scenarios of a purpose."""
        if self.in_bundles and not design.pooled:
            return self._bundles(design, purpose, indices)
        return (self.scenario(design, purpose, index) for index in indices)

    @property
    def in_bundles(self) -> bool:
        """Whether many scenarios are simulated at once."""
        return self.in_blocks and self.access.points and self.values.vectorised

    def _bundles(self, design: Design, purpose: Purpose, indices: range) -> Iterator[Scenario]:
        for number, rows in blocks(indices, BUNDLE):
            yield from self._bundle(design, purpose, number, rows).run(purpose, number)

    def _bundle(self, design: Design, purpose: Purpose, number: int, rows: range) -> Bundle:
        starts = pack([self.starts(purpose, number * BUNDLE + row) for row in rows])
        samples = [design.samples_of(action) for action in range(self.access.problem.actions)]
        return Bundle(self.values, cast(Any, self.players), design.rules, samples, starts, rows)

    def steady_actions(self, design: Design) -> frozenset[int]:
        """The actions whose samples in a few scenarios did not differ, at any state."""
        if not self.in_bundles:
            return frozenset()
        bundle = self._bundle(design, Purpose.PILOT, PROBE, range(PROBED))
        bundle.run(Purpose.PILOT, PROBE)
        return frozenset(np.flatnonzero(~bundle.varied).tolist())

    def episodes(self, times: int, indices: range) -> Iterator[float]:
        """Returns of the policy."""
        if self.in_blocks:
            return self._in_blocks(times, indices)
        return (self.episode(times, Purpose.EPISODE, index) for index in indices)

    @property
    def in_blocks(self) -> bool:
        """Whether many episodes are simulated at once."""
        return self.access.batched and hasattr(self.players, "act_many")

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

    def _in_blocks(self, times: int, indices: range) -> Iterator[float]:
        """The returns of episodes, those of a block at once; what a block is depends on its number alone."""
        for number, rows in blocks(indices, BLOCK):
            yield from self._block(times, number, rows)

    def _block(self, times: int, number: int, rows: range) -> list[float]:
        """The returns of some episodes of a block; after ``times`` steps the rest is the least possible."""
        access, problem, policy = self.access, self.access.problem, cast(Any, self.players)
        states = pack([self.starts(Purpose.EPISODE, number * BLOCK + row) for row in rows])
        rng = np.random.default_rng(access.noise.at(Purpose.EPISODE, number, 1 << 40).integers(2**63, size=4))
        totals, going, stage = np.zeros(len(rows)), np.arange(len(rows)), 0
        for time in range(times):
            noise = access.separate_noise(BLOCK, 1, rng)[rows.start : rows.stop]
            actions = policy.act_many(states, stage)
            rewards, states, ended = access.move(states, stage, actions, noise[going])
            totals[going] += problem.discount**time * rewards
            going, states = going[~ended], states[~ended]
            stage = problem.next_stage(stage)
            if not len(going):
                break
        totals[going] += problem.discount**times * problem.return_range(stage)[0]
        return [believable(problem.name, total, problem.return_range()) for total in totals.tolist()]


def blocks(indices: range, size: int) -> Iterator[tuple[int, range]]:
    """The blocks of ``size`` that cover a range of indices: their numbers, and the places in them."""
    for number in range(indices.start // size, -(-indices.stop // size)):
        first = number * size
        yield number, range(max(indices.start - first, 0), min(indices.stop - first, size))
