"""Batched access: states by number, all actions of many states stepped at once, with noise that they share.

A *column* is the noise of one step.  Every state and action that steps with a column steps with the same random
numbers: the generator is set to the beginning of the column's stream before each call of ``step``, or a row of
``draw_noise`` is repeated (:class:`tensorplan.core.Batched`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorplan.access.meter import Meter
from tensorplan.access.noise import Noise, Purpose
from tensorplan.core import END, Array, Batched, Problem, State
from tensorplan.core.errors import NotReached, ProblemError, shown
from tensorplan.problems.simulate import draw, draw_many, draw_noise, draw_start, generators
from tensorplan.problems.states import hashable, incomparable, own, pack, same, unpack

Ids = NDArray[np.int64]

ENDED = -1
"""The number of END."""

REMEMBERED = 2_000_000
"""Numbered states after which :meth:`BatchAccess.forget` starts anew, to bound memory."""

DENSE = 4_000_000
"""The largest span of codes for which distinct ones are found by marking instead of sorting."""

CHECKED, WATCHED = 16, 64
"""The first so many steps are repeated with the same noise, and those and one in so many later are watched for draws
from other generators: to find simulators with random numbers of their own.  Repeated steps are not charged, so that a
scenario costs the same wherever it is simulated."""


class Columns(NamedTuple):
    """The noise of ``size`` steps."""

    purpose: Purpose
    scenario: int
    first: int
    size: int
    noise: Any
    """(size, ...), from ``draw_noise``; None where ``step`` draws its own from the generator of the column."""


class BatchAccess:
    """States of a problem by number, and metered steps of many of them at once."""

    def __init__(self, problem: Problem, meter: Meter, seed: int) -> None:
        self.problem, self.meter = problem, meter
        self.noise = Noise(seed)
        self.batched = isinstance(problem.mdp, Batched)
        self.closed = False
        """Whether the episode of the access object behind it is over."""
        self.generation = 0
        """How often numbers have been given anew: what was kept by number belongs to one generation."""
        self._states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._steps = 0

    # ------------------------------------------------------------------ states by number

    @property
    def count(self) -> int:
        """How many states are numbered: 0 .. count - 1."""
        return len(self._states)

    def state(self, number: int) -> State:
        """The state of a number."""
        return END if number == ENDED else self._states[number]

    def number(self, state: State) -> int:
        """The number of a state; equal states have equal numbers if they are hashable."""
        if state is END:
            return ENDED
        if not hashable(state):
            self._states.append(state)
            return len(self._states) - 1
        try:
            number = self._numbers.setdefault(state, len(self._states))
        except Exception as error:
            raise incomparable(state, error) from error
        if number == len(self._states):
            self._states.append(state)
        return number

    def at(self, node: Any) -> State:
        """The state of a node that local access has issued."""
        return node._state

    def forget(self) -> None:
        """Give numbers anew if there are very many; only between scenarios."""
        if len(self._states) > REMEMBERED:
            self._states, self._numbers = [], {}
            self.generation += 1

    # ------------------------------------------------------------------ states as points

    @cached_property
    def points(self) -> bool:
        """Whether states are points of a continuum, so that hardly any is reached twice: they are real numbers."""
        if not self.batched:
            return False
        start = draw_start(self.problem, self.noise.at(Purpose.CHECK, 0))
        return pack([start]).dtype.kind == "f"

    def packed(self, ids: Ids) -> NDArray[Any]:
        """The states of these numbers as an array, (n,) or (n, k)."""
        return pack([self._states[i] for i in ids.tolist()])

    def separate_noise(self, states: int, samples: int, rng: np.random.Generator) -> NDArray[Any]:
        """Independent noise for each state, (states * samples, ...); that of one state is stratified if possible."""
        noise = draw_noise(self.problem, states * samples, rng)
        if samples == 1 or not getattr(self.problem.mdp, "uniforms", 0):
            return noise
        return self._stratified(noise, rng, samples)

    def move(
        self, states: NDArray[Any], stage: int, actions: NDArray[Any], noise: NDArray[Any]
    ) -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
        """Step each state with an action and a noise of its own: rewards, next states, and where these are END."""
        self._check_open()
        self.meter.charge(len(states))
        return self._stepped(states, stage, actions, noise)

    # ------------------------------------------------------------------ steps

    def columns(self, purpose: Purpose, scenario: int, first: int, size: int, stratified: int = 0) -> Columns:
        """The noise of ``size`` steps; ``first`` tells the sets of columns of one scenario apart.

        The last ``stratified`` columns are for means only: where noise is made of uniform numbers they cover the unit
        interval evenly, each in random order (Latin hypercube sampling), so that means over them are far more accurate.
        """
        noise = None
        if self.batched:
            rng = self.noise.at(purpose, scenario, first)
            noise = draw_noise(self.problem, size, rng)
            if stratified and getattr(self.problem.mdp, "uniforms", 0):
                noise = np.concatenate([noise[:-stratified], self._stratified(noise[-stratified:], rng, stratified)])
        return Columns(purpose, scenario, first, size, noise)

    def _stratified(self, noise: NDArray[Any], rng: np.random.Generator, strata: int) -> Array:
        """Noise of the same shape, by Latin hypercube sampling of each ``strata`` rows."""
        mdp: Any = self.problem.mdp
        if noise.shape[1:] != (mdp.uniforms,):
            raise ProblemError(
                f"draw_noise({len(noise)}) of problem {self.problem.name!r} gave noise of shape {noise.shape}, and the "
                f"MDP declares uniforms={shown(mdp.uniforms)}"
            )
        blocks = len(noise) // strata
        order = rng.permuted(np.tile(np.arange(strata)[:, None], (blocks, 1, mdp.uniforms)), axis=1)
        even: Array = (order + rng.random(order.shape)) / strata
        return even.reshape(noise.shape)

    def steps(self, ids: Ids, stage: int, columns: Columns, which: slice = slice(None)) -> tuple[Array, Ids]:
        """Rewards and successors of all actions of the states with the chosen columns, both (n, A, columns)."""
        chosen = range(columns.size)[which]
        shape = (len(ids), self.problem.actions, len(chosen))
        if self.batched:
            rewards, following, ended = self.moves(self.packed(ids), stage, columns.noise[which])
            return rewards.reshape(shape), self.numbers(following, ended).reshape(shape)
        self._check_open()
        self.meter.charge(shape[0] * shape[1] * shape[2])
        return self._one_by_one(ids, stage, columns, chosen, shape)

    def moves(
        self, states: NDArray[Any], stage: int, noise: NDArray[Any]
    ) -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
        """All actions of states with a noise that they share: the rows of ``move`` for (state, action, noise)."""
        actions, count = self.problem.actions, len(noise)
        return self.move(
            np.repeat(states, actions * count, axis=0),
            stage,
            np.tile(np.repeat(np.arange(actions), count), len(states)),
            np.tile(noise, (len(states) * actions, *(1,) * (noise.ndim - 1))),
        )

    def numbers(self, rows: NDArray[Any], ended: NDArray[np.bool_]) -> Ids:
        """The numbers of packed states, or of END where they have ended."""
        numbers = np.full(len(rows), ENDED)
        going = ~ended
        if going.any():
            numbers[going] = self._number_rows(rows[going])
        return numbers

    def _check_open(self) -> None:
        if self.closed:
            raise NotReached("the episode of this access object is over: it answers no more queries")

    def _stepped(
        self, states: NDArray[Any], stage: int, actions: NDArray[Any], noise: NDArray[Any]
    ) -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
        def once() -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
            return draw_many(self.problem, states, stage, actions, noise)

        self._steps += 1
        return once() if self._steps > 1 else self._watched(once, len(states))

    def _watched(
        self, step: Callable[[], tuple[Array, NDArray[Any], NDArray[np.bool_]]], size: int
    ) -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
        """The first call of ``step_many``, which is repeated."""
        self.problem.count_unmetered(size)
        before = generators(self.problem.mdp)
        (rewards, following, ended), (again, other, stopped) = step(), step()
        alike = np.array_equal(rewards, again) and np.array_equal(ended, stopped)
        if generators(self.problem.mdp) != before or not (alike and np.array_equal(following[~ended], other[~ended])):
            raise self._own_noise(f"step_many({size} states)")
        return rewards, following, ended

    def _own_noise(self, call: str) -> ProblemError:
        return ProblemError(
            f"{call} of problem {self.problem.name!r} has random numbers of its own: a simulator must draw its random "
            "numbers from the generator or the noise it is given"
        )

    def _number_rows(self, rows: NDArray[Any]) -> Ids:
        """The numbers of packed states, each distinct one looked up once."""
        first, inverse = _distinct(rows)
        return np.array([self.number(state) for state in unpack(rows[first])], dtype=np.int64)[inverse]

    def _one_by_one(
        self, ids: Ids, stage: int, columns: Columns, chosen: Sequence[int], shape: tuple[int, ...]
    ) -> tuple[Array, Ids]:
        rewards, numbers = np.empty(shape), np.empty(shape, dtype=np.int64)
        for i, number in enumerate(ids.tolist()):
            for action in range(self.problem.actions):
                for j, column in enumerate(chosen):
                    reward, following = self._step(number, stage, action, columns, column)
                    rewards[i, action, j], numbers[i, action, j] = reward, self.number(following)
        return rewards, numbers

    def _step(self, number: int, stage: int, action: int, columns: Columns, column: int) -> tuple[float, State]:
        """One step with a column, from the state's own copy."""
        problem, state = self.problem, self._states[number]

        def once() -> tuple[float, State]:
            rng = self.noise.at(columns.purpose, columns.scenario, columns.first + column)
            reward, following = draw(problem, own(state), stage, action, rng)
            return reward, problem.arrive(following, stage)

        self.meter.check()
        self._steps += 1
        if self._steps > CHECKED and self._steps % WATCHED:
            return once()
        before = generators(problem.mdp)
        result = once()
        if generators(problem.mdp) != before or (self._steps <= CHECKED and not self._repeats(once, result)):
            raise self._own_noise(f"step(state={shown(state)}, action={action})")
        return result

    def _repeats(self, step: Callable[[], tuple[float, State]], result: tuple[float, State]) -> bool:
        """Whether the same noise gives the same result again."""
        self.problem.count_unmetered(1)
        reward, following = step()
        return reward == result[0] and _alike(following, result[1])

    def step(self, state: State, stage: int, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """One metered step of a state by itself: the reward, and the next state or END."""
        self.meter.charge(1)
        reward, following = draw(self.problem, own(state), stage, action, rng)
        return reward, self.problem.arrive(following, stage)


def _alike(one: State, other: State) -> bool:
    """Whether two states are equal, as far as this can be told: unhashable ones may be."""
    return same(one, other) or not (hashable(one) and hashable(other))


def _distinct(rows: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The position of one row of each kind, and for every row the index into these."""
    codes = _codes(rows)
    if codes is not None:
        low = int(codes.min())
        span = int(codes.max()) - low + 1
        if span <= DENSE:
            at = np.full(span, -1, dtype=np.intp)
            at[codes - low] = np.arange(len(codes))
            marked = at >= 0
            return at[marked], (np.cumsum(marked) - 1)[codes - low]
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    else:
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)


def _codes(rows: NDArray[Any]) -> Ids | None:
    """One whole number for each row, different for different rows; None if there is no room for that."""
    if rows.dtype.kind not in "iub":
        return None
    if rows.ndim == 1:
        return rows.astype(np.int64)
    low, high = rows.min(axis=0).tolist(), rows.max(axis=0).tolist()  # without the limits of the rows' own type
    sizes = [int(most) - int(least) + 1 for least, most in zip(low, high, strict=True)]
    radices = [1]
    for size in sizes[:0:-1]:
        radices.append(radices[-1] * size)
    if radices[-1] * sizes[0] >= 2**62 or max(abs(end) for end in (*low, *high)) >= 2**62:
        return None
    codes: Ids = (rows.astype(np.int64) - np.array(low, dtype=np.int64)) @ np.array(radices[::-1], dtype=np.int64)
    return codes
