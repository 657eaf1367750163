"""Puzzles against their rules, written again here, and against breadth-first search over all states."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable

import numpy as np
import pytest

from tensorplan.core import END, Problem
from tensorplan.core.errors import BadInput
from tensorplan.problems.puzzles import chinese_rings, grid, hanoi

RNG = np.random.default_rng(0)


def hanoi_move(state: tuple[int, ...], action: int) -> tuple[int, ...]:
    """Stacks of disks: the smaller of the two top disks goes onto the other peg."""
    stacks = [[disk for disk in reversed(range(len(state))) if state[disk] == peg] for peg in range(3)]
    first, second = [(0, 1), (0, 2), (1, 2)][action]
    tops = [stacks[peg][-1] if stacks[peg] else math.inf for peg in (first, second)]
    if tops[0] == tops[1]:
        return state  # both empty
    source, target = (first, second) if tops[0] < tops[1] else (second, first)
    disk = stacks[source].pop()
    assert not stacks[target] or stacks[target][-1] > disk
    stacks[target].append(disk)
    return tuple(next(peg for peg in range(3) if disk in stacks[peg]) for disk in range(len(state)))


def rings_move(state: tuple[int, ...], action: int) -> tuple[int, ...]:
    """Ring 0 turns freely; ring k > 0 turns iff ring k-1 is on and those before it are off."""
    free = [0] if action == 0 else [k for k in range(1, len(state)) if state[k - 1] and not any(state[: k - 1])]
    for k in free:
        state = tuple(1 - x if i == k else x for i, x in enumerate(state))
    return state


def grid_move(sides: tuple[int, ...]) -> Callable[[tuple[int, ...], int], tuple[int, ...]]:
    def move(state: tuple[int, ...], action: int) -> tuple[int, ...]:
        step = np.zeros(len(sides), dtype=int)
        step[action // 2] = [-1, 1][action % 2]
        moved = tuple((np.array(state) + step).tolist())
        return moved if all(0 <= x < n for x, n in zip(moved, sides, strict=True)) else state

    return move


def distances(states: list, actions: int, move: Callable, goal: tuple[int, ...]) -> dict:
    """Breadth-first search backwards from the goal."""
    before: dict = {s: [] for s in states}
    for s, a in itertools.product(states, range(actions)):
        before[move(s, a)].append(s)
    found, queue = {goal: 0}, deque([goal])
    while queue:
        here = queue.popleft()
        for s in before[here]:
            if s not in found:
                found[s] = found[here] + 1
                queue.append(s)
    return found


def assert_linear(problem: Problem, states: list, move: Callable, start: tuple[int, ...], goal: tuple[int, ...]) -> int:
    """Everything a puzzle promises, at every state; gives the distance of the start."""
    assert problem.horizon is None
    assert problem.deterministic
    assert problem.reward_range == (-1.0, 0.0)
    assert problem.mdp.start(RNG) == start
    assert problem.theta.shape == (problem.dimension,)
    assert problem.bound == pytest.approx(np.linalg.norm(problem.theta), rel=1e-12)
    distance = distances(states, problem.actions, move, goal)
    assert len(distance) == len(states)  # the goal can be reached from everywhere
    for s in states:
        phi = problem.state_features(s, 0)  # checked to have norm <= 1
        assert phi @ problem.theta == pytest.approx(-distance[s], abs=1e-9)
        assert phi.any() == (s != goal)
        assert problem.optimal_value(s) == pytest.approx(-distance[s], abs=1e-9)
        if s == goal:
            continue
        for a in range(problem.actions):
            reward, following = problem.mdp.step(s, a, RNG)
            expected = move(s, a)
            assert (reward, following) == (-1.0, END if expected == goal else expected)
            assert problem.optimal_action_value(s, a) == pytest.approx(-1 - distance[expected], abs=1e-9)
        assert distance[move(s, problem.optimal_policy(s))] == distance[s] - 1
    return distance[start]


@pytest.mark.parametrize("n", range(1, 8))
def test_hanoi_is_linear(n):
    problem = hanoi(n)
    states = list(itertools.product(range(3), repeat=n))
    assert assert_linear(problem, states, hanoi_move, (0,) * n, (2,) * n) == 2**n - 1
    assert (problem.actions, problem.dimension, problem.name) == (3, n, f"hanoi/{n}")
    assert problem.bound == pytest.approx(math.sqrt(n * (4**n - 1) / 3))


@pytest.mark.parametrize("n", range(1, 11))
def test_chinese_rings_are_linear(n):
    problem = chinese_rings(n)
    states = list(itertools.product(range(2), repeat=n))
    # the number of moves that take n rings off is known: 1, 2, 5, 10, 21, 42, ..
    assert assert_linear(problem, states, rings_move, (1,) * n, (0,) * n) == math.ceil(2 * (2**n - 1) / 3)
    assert (problem.actions, problem.dimension, problem.name) == (2, n, f"chinese-rings/{n}")
    assert problem.bound == pytest.approx(math.sqrt(n * (4**n - 1) / 3))


@pytest.mark.parametrize("sides", [(2,), (9,), (1, 4), (5, 5), (3, 7), (2, 1, 3), (2, 3, 4), (4, 4, 4)])
def test_grids_are_linear(sides):
    problem = grid(sides)
    states = list(itertools.product(*map(range, sides)))
    goal = tuple(n - 1 for n in sides)
    assert assert_linear(problem, states, grid_move(sides), (0,) * len(sides), goal) == sum(goal)
    assert (problem.actions, problem.dimension) == (2 * len(sides), len(sides))
    assert problem.bound == pytest.approx(math.sqrt(len(sides) * sum(max(n - 1, 1) ** 2 for n in sides)))
    assert problem.name == "grid/" + "x".join(map(str, sides))


@pytest.mark.parametrize("problem", [hanoi(40), chinese_rings(40)], ids=lambda p: p.name)
def test_the_largest_puzzles_keep_whole_distances(problem):
    start = problem.mdp.start(RNG)
    exact = 2**40 - 1 if problem.actions == 3 else 2 * (2**40 - 1) // 3
    assert problem.optimal_value(start) == -exact
    assert problem.state_features(start, 0) @ problem.theta == pytest.approx(-exact, rel=1e-12)
    best = problem.optimal_policy(start)
    assert problem.optimal_value(problem.mdp.step(start, best, RNG)[1]) == 1 - exact


def test_optimal_play_of_a_larger_tower_ends_in_time():
    problem, steps = hanoi(10), 0
    state = problem.mdp.start(RNG)
    while state is not END:
        state, steps = problem.mdp.step(state, problem.optimal_policy(state), RNG)[1], steps + 1
        assert steps <= 2**10
    assert steps == 2**10 - 1


def test_one_side_may_come_without_a_list():
    assert grid(4).name == grid([4]).name == grid(np.array([4])).name == "grid/4"


@pytest.mark.parametrize(
    ("build", "argument", "sentence"),
    [
        (hanoi, 0, "disks must be a whole number from 1 to 40, got 0"),
        (hanoi, 41, "disks must be a whole number from 1 to 40, got 41"),
        (hanoi, 2.5, "disks must be a whole number from 1 to 40, got 2.5"),
        (hanoi, True, "disks must be a whole number from 1 to 40, got True"),
        (chinese_rings, 0, "rings must be a whole number from 1 to 40, got 0"),
        (chinese_rings, "six", "rings must be a whole number from 1 to 40, got 'six'"),
        (grid, [], "a grid needs a side of length 2 or more, got none"),
        (grid, [1, 1], "a grid needs a side of length 2 or more, got 1x1"),
        (grid, [3, 0], "a side of the grid must be a whole number >= 1, got 0"),
        (grid, 2.5, "a side of the grid must be a whole number >= 1, got 2.5"),
        (grid, None, "a side of the grid must be a whole number >= 1, got None"),
        (grid, "5x5", "a side of the grid must be a whole number >= 1, got '5x5'"),
    ],
)
def test_bad_input_is_one_clear_sentence(build, argument, sentence):
    with pytest.raises(BadInput) as info:
        build(argument)
    assert str(info.value) == sentence
